/* SPDX-License-Identifier: MIT */
/* A fake of the part of whisper.cpp's API that workers/whisper.c uses. */
#ifndef TESTS_LAUNCH_WHISPER_H
#define TESTS_LAUNCH_WHISPER_H

#include <stdbool.h>
#include <stdint.h>

struct whisper_context;

struct whisper_context_params {
	bool use_gpu;
	int gpu_device;
};

enum whisper_sampling_strategy {
	WHISPER_SAMPLING_GREEDY,
};

struct whisper_full_params {
	enum whisper_sampling_strategy strategy;
	int n_threads;
	bool translate;
	bool no_context;
	bool print_special;
	bool print_progress;
	bool print_realtime;
	bool print_timestamps;
	const char *language;
	bool (*abort_callback)(void *data);
	void *abort_callback_user_data;
};

struct whisper_context_params whisper_context_default_params(void);
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params);
void whisper_free(struct whisper_context *c);
int whisper_lang_id(const char *language);
const char *whisper_lang_str(int id);
struct whisper_full_params whisper_full_default_params(enum whisper_sampling_strategy strategy);
int whisper_full(struct whisper_context *c, struct whisper_full_params params, const float *samples, int n_samples);
int whisper_full_n_segments(struct whisper_context *c);
int whisper_full_lang_id(struct whisper_context *c);
int64_t whisper_full_get_segment_t0(struct whisper_context *c, int segment);
int64_t whisper_full_get_segment_t1(struct whisper_context *c, int segment);
const char *whisper_full_get_segment_text(struct whisper_context *c, int segment);
int whisper_full_n_tokens(struct whisper_context *c, int segment);
int32_t whisper_full_get_token_id(struct whisper_context *c, int segment, int token);
float whisper_full_get_token_p(struct whisper_context *c, int segment, int token);
int32_t whisper_token_eot(struct whisper_context *c);

#endif
