/* SPDX-License-Identifier: MIT */
/*
 * A fake whisper: returns the length and loudness of a recording, one segment for every two seconds. A model is a text
 * file: "model", "slow" (computes until it is told to stop) or "broken" (each recording fails with -7).
 */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "whisper.h"

#define EOT 50257

struct whisper_context {
	char kind[16];
	int device;
	int files;
	int segments;
	int language;
	char text[256];
	double seconds;
};

static const char *const languages[] = {"en", "zh", "de"};

struct whisper_context_params whisper_context_default_params(void)
{
	return (struct whisper_context_params){.use_gpu = true, .gpu_device = -1};
}

struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params)
{
	struct whisper_context *c = calloc(1, sizeof(*c));
	FILE *f = fopen(path, "re");
	if (!c || !f || fscanf(f, "%15s", c->kind) != 1 ||
		(strcmp(c->kind, "model") != 0 && strcmp(c->kind, "slow") != 0 && strcmp(c->kind, "broken") != 0)) {
		free(c);
		c = NULL;
	}
	if (f)
		fclose(f);
	if (c)
		c->device = params.use_gpu ? params.gpu_device : -1;
	return c;
}

void whisper_free(struct whisper_context *c)
{
	free(c);
}

int whisper_lang_id(const char *language)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(languages[i], language) == 0)
			return i;
	return -1;
}

const char *whisper_lang_str(int id)
{
	return languages[id];
}

struct whisper_full_params whisper_full_default_params(enum whisper_sampling_strategy strategy)
{
	return (struct whisper_full_params){.strategy = strategy,
		.n_threads = 4,
		.print_progress = true,
		.print_timestamps = true,
		.language = "en"};
}

int whisper_full(struct whisper_context *c, struct whisper_full_params params, const float *samples, int n_samples)
{
	if (strcmp(c->kind, "broken") == 0)
		return -7;
	if (params.print_progress || params.print_realtime)
		puts("whisper_print_progress_callback: progress = 5%");
	while (strcmp(c->kind, "slow") == 0) {
		if (params.abort_callback(params.abort_callback_user_data))
			return -6;
		poll(NULL, 0, 1);
	}
	double sum = 0;
	for (int i = 0; i < n_samples; i++)
		sum += (double)samples[i] * (double)samples[i];
	c->files++;
	c->seconds = n_samples / 16000.0;
	c->segments = (int)ceil(c->seconds / 2);
	c->language = strcmp(params.language, "auto") == 0 ? 2 : whisper_lang_id(params.language);
	snprintf(c->text, sizeof(c->text), "%d samples, loud %.2f, device %d, file %d, threads %d%s", n_samples,
		sqrt(sum / n_samples), c->device, c->files, params.n_threads, params.translate ? ", translated" : "");
	return 0;
}

int whisper_full_n_segments(struct whisper_context *c)
{
	return c->segments;
}

int whisper_full_lang_id(struct whisper_context *c)
{
	return c->language;
}

int64_t whisper_full_get_segment_t0(struct whisper_context *c, int segment)
{
	(void)c;
	return segment * 200;
}

int64_t whisper_full_get_segment_t1(struct whisper_context *c, int segment)
{
	int64_t end = (int64_t)(c->seconds * 100);
	return segment * 200 + 200 < end ? segment * 200 + 200 : end;
}

const char *whisper_full_get_segment_text(struct whisper_context *c, int segment)
{
	return segment == 0 ? c->text : segment == 1 ? " and \"more\"\n" : "  ";
}

int whisper_full_n_tokens(struct whisper_context *c, int segment)
{
	(void)c, (void)segment;
	return 3;
}

int32_t whisper_full_get_token_id(struct whisper_context *c, int segment, int token)
{
	(void)c, (void)segment;
	return token == 0 ? EOT + 107 : 400 + token;
}

float whisper_full_get_token_p(struct whisper_context *c, int segment, int token)
{
	(void)c, (void)segment;
	return token == 0 ? 0.01f : token == 1 ? 0.5f : 1.0f;
}

int32_t whisper_token_eot(struct whisper_context *c)
{
	(void)c;
	return EOT;
}
