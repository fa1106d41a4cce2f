/* SPDX-License-Identifier: MIT */
#include "resample.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CROSSINGS 16                /* zero crossings of the sinc on each side */
#define ROLLOFF   0.945             /* fraction of the band that is kept; the filter falls off in the rest */
#define BETA      8.0               /* of the Kaiser window: about 80 dB */
#define MAX_TAPS  ((size_t)8 << 20) /* of all filters; only unrealistic rates without a common divisor need more */

/*
 * Output n is at n * step / phases in the input. The last `taps` input samples are kept in `line`, twice, so that they
 * are always contiguous.
 */
struct resampler {
	unsigned phases; /* output samples in a whole number of input samples… */
	unsigned step;   /* …which is this number */
	unsigned taps;
	float *filters; /* phases × taps */
	float *line;    /* 2 × taps */
	unsigned at;
	uint64_t taken; /* input samples, including the silence after the end */
	uint64_t given;
	uint64_t real; /* input samples without that silence */
};

static unsigned common_divisor(unsigned a, unsigned b)
{
	while (b) {
		unsigned rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The modified Bessel function of order 0, by its series. */
static double bessel(double x)
{
	double sum = 1, term = 1;
	for (int k = 1; k < 50; k++) {
		term *= (x / (2 * k)) * (x / (2 * k));
		sum += term;
	}
	return sum;
}

/* `beginning` is bessel(BETA). */
static double kernel(double t, double cutoff, double half, double beginning)
{
	double edge = t / half;
	if (fabs(edge) >= 1)
		return 0;
	double x = M_PI * t * cutoff;
	double sinc = fabs(x) < 1e-9 ? 1 : sin(x) / x;
	return cutoff * sinc * bessel(BETA * sqrt(1 - edge * edge)) / beginning;
}

static void make_filters(struct resampler *r)
{
	double ratio = r->phases < r->step ? (double)r->phases / r->step : 1;
	double half = r->taps / 2.0, beginning = bessel(BETA);
	for (unsigned phase = 0; phase < r->phases; phase++) {
		float *filter = &r->filters[(size_t)phase * r->taps];
		double sum = 0;
		for (unsigned i = 0; i < r->taps; i++) {
			double t = (double)i - (half - 1) - (double)phase / r->phases;
			double value = kernel(t, ratio * ROLLOFF, half, beginning);
			filter[i] = (float)value;
			sum += value;
		}
		/* Normalize: a constant signal stays constant in every phase. */
		for (unsigned i = 0; i < r->taps; i++)
			filter[i] = (float)(filter[i] / sum);
	}
}

int resampler_create(unsigned from, unsigned to, struct resampler **ret)
{
	if (from < 1000 || from > 1000000 || to < 1000 || to > 1000000)
		return -EINVAL;
	struct resampler *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	unsigned divisor = common_divisor(from, to);
	r->phases = to / divisor;
	r->step = from / divisor;
	double stretch = from > to ? (double)from / to : 1;
	r->taps = 2 * (unsigned)ceil(CROSSINGS * stretch);
	if ((size_t)r->phases * r->taps > MAX_TAPS) {
		free(r);
		return -EINVAL;
	}
	r->filters = calloc((size_t)r->phases * r->taps, sizeof(float));
	r->line = calloc(2 * (size_t)r->taps, sizeof(float));
	if (!r->filters || !r->line) {
		resampler_destroy(r);
		return -ENOMEM;
	}
	make_filters(r);
	*ret = r;
	return 0;
}

void resampler_destroy(struct resampler *r)
{
	if (!r)
		return;
	free(r->filters);
	free(r->line);
	free(r);
}

size_t resampler_room(const struct resampler *r, size_t count)
{
	return (count + r->taps) * r->phases / r->step + 2;
}

static void push(struct resampler *r, float sample)
{
	r->line[r->at] = r->line[r->at + r->taps] = sample;
	r->at = r->at + 1 == r->taps ? 0 : r->at + 1;
	r->taken++;
}

/* Whether all input for the next output has been taken. */
static int is_due(const struct resampler *r)
{
	return r->given * r->step / r->phases + r->taps / 2 < r->taken;
}

static float next(struct resampler *r)
{
	const float *filter = &r->filters[(size_t)(r->given * r->step % r->phases) * r->taps];
	const float *line = &r->line[r->at];
	double sum = 0;
	for (unsigned i = 0; i < r->taps; i++)
		sum += (double)filter[i] * (double)line[i];
	r->given++;
	return (float)sum;
}

size_t resampler_put(struct resampler *r, const float *samples, size_t count, float *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		push(r, samples[i]);
		while (is_due(r))
			ret[n++] = next(r);
	}
	r->real += count;
	return n;
}

size_t resampler_finish(struct resampler *r, float *ret)
{
	uint64_t total = r->real * r->phases / r->step;
	size_t n = 0;
	while (r->given < total) {
		push(r, 0);
		while (r->given < total && is_due(r))
			ret[n++] = next(r);
	}
	return n;
}
