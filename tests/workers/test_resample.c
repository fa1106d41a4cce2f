/* SPDX-License-Identifier: MIT */
/* Tones through the resampler: audible tones are preserved, tones above the new limit are removed. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../workers/resample.h"

/* A second of a tone, at another rate, in blocks of odd sizes. Returns how many samples. */
static size_t resample_tone(unsigned from, unsigned to, double hz, float *ret)
{
	struct resampler *r;
	assert_int_equal(resampler_create(from, to, &r), 0);
	float block[997];
	size_t n = 0, size = 1;
	for (size_t at = 0; at < from; at += size) {
		size = 1 + at * 31 % 997;
		if (size > from - at)
			size = from - at;
		for (size_t i = 0; i < size; i++)
			block[i] = (float)(0.5 * sin(2 * M_PI * hz * (double)(at + i) / from));
		size_t got = resampler_put(r, block, size, ret + n);
		assert_true(got <= resampler_room(r, size));
		n += got;
	}
	size_t got = resampler_finish(r, ret + n);
	assert_true(got <= resampler_room(r, 0));
	resampler_destroy(r);
	return n + got;
}

/* The largest difference from the tone at its rate, away from both ends. */
static double difference(const float *samples, size_t count, unsigned rate, double hz, double loud)
{
	double most = 0;
	for (size_t i = count / 10; i < count - count / 10; i++) {
		double expected = loud * sin(2 * M_PI * hz * (double)i / rate);
		double d = fabs((double)samples[i] - expected);
		most = d > most ? d : most;
	}
	return most;
}

static const unsigned rates[] = {8000, 11025, 11027, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000};

static void test_tone_keeps_pitch_phase_and_amplitude(void **state)
{
	(void)state;
	static float samples[200000];
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		size_t n = resample_tone(rates[i], 16000, 1000, samples);
		assert_int_equal(n, 16000);
		double d = difference(samples, n, 16000, 1000, 0.5);
		if (d > 0.001)
			fail_msg("%u Hz: off by %f", rates[i], d);
	}
	assert_int_equal(resample_tone(16000, 48000, 3000, samples), 48000);
	assert_true(difference(samples, 48000, 48000, 3000, 0.5) < 0.001);
}

/* 9 kHz would come out as 7 kHz. */
static void test_frequencies_the_lower_rate_cannot_carry_are_removed(void **state)
{
	(void)state;
	static float samples[20000];
	size_t n = resample_tone(44100, 16000, 9000, samples);
	assert_true(difference(samples, n, 16000, 0, 0) < 0.001);
}

static void test_no_input_gives_no_output_and_bad_rates_are_refused(void **state)
{
	(void)state;
	struct resampler *r = NULL;
	float out[1000];
	assert_int_equal(resampler_create(0, 16000, &r), -EINVAL);
	assert_int_equal(resampler_create(2000000, 16000, &r), -EINVAL);
	/* 32 million numbers for its filters. */
	assert_int_equal(resampler_create(999983, 16000, &r), -EINVAL);
	assert_null(r);
	assert_int_equal(resampler_create(44100, 16000, &r), 0);
	assert_int_equal(resampler_finish(r, out), 0);
	resampler_destroy(r);
	resampler_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tone_keeps_pitch_phase_and_amplitude),
		cmocka_unit_test(test_frequencies_the_lower_rate_cannot_carry_are_removed),
		cmocka_unit_test(test_no_input_gives_no_output_and_bad_rates_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
