/* SPDX-License-Identifier: MIT */
/*
 * Speech recognition with whisper.cpp, on the worker's GPU.
 *
 * Settings: model_size: "base", "large-v3"…, or the path of a model; language: "en"…,
 * or "auto", the default; threads, if it computes on the CPU; translate: "true" for English text.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <whisper.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "speech.h"

#define WORDS    512
#define TICK_S   0.01                   /* of whisper's times */
#define SHORTEST (AUDIO_RATE * 11 / 10) /* whisper ignores less than a second of audio */

struct whisper {
	struct whisper_context *context;
	char model[PATH_MAX];
	char language[32];
	int threads;
	bool translate;
};

/* ---- The model ---------------------------------------------------------- */

/* Whether the model exists; `path` is its path. */
static bool is_at(char path[PATH_MAX], const char *folder, const char *below, const char *size)
{
	int n = snprintf(path, PATH_MAX, "%s%s/ggml-%s.bin", folder, below, size);
	return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

/* 0 and the path of the model; otherwise a negative errno value, with a message that says what to do. */
static int find_model(const char *size, char path[PATH_MAX], char *words, size_t room)
{
	size_t length = strlen(size);
	if (strchr(size, '/') || (length > 4 && strcmp(size + length - 4, ".bin") == 0)) {
		snprintf(path, PATH_MAX, "%s", size);
		if (access(path, R_OK) == 0)
			return 0;
		int r = -errno;
		snprintf(words, room, "the model '%.200s' cannot be read: %s", size, strerror(-r));
		return r;
	}
	const char *own = getenv("WHISPER_MODEL_DIR");
	const char *home = getenv("HOME");
	if (own && *own && is_at(path, own, "", size))
		return 0;
	if (home && (is_at(path, home, "/.cache/whisper", size) || is_at(path, home, "/.cache/whisper.cpp", size)))
		return 0;
	if (is_at(path, "/usr/local/share", "/whisper.cpp/models", size) ||
		is_at(path, "/usr/share", "/whisper.cpp/models", size))
		return 0;
	snprintf(words, room,
		"there is no model ggml-%.60s.bin in $WHISPER_MODEL_DIR (%.100s), ~/.cache/whisper, ~/.cache/whisper.cpp, "
		"/usr/local/share/whisper.cpp/models or /usr/share/whisper.cpp/models; the script "
		"'models/download-ggml-model.sh %.60s' of whisper.cpp downloads it; or give its path with the setting model_size",
		size, own && *own ? own : "not set", size);
	return -ENOENT;
}

static int check_language(const char *language, char *words, size_t room)
{
	if (strcmp(language, "auto") == 0 || whisper_lang_id(language) >= 0)
		return 0;
	snprintf(words, room, "unknown language '%.60s'; expected a code such as en or de, or auto", language);
	return -EINVAL;
}

/* Called before a run, without loading a model. */
static int check(const struct gd_setting *settings, size_t num_settings, struct gd_error *err)
{
	const char *size = "base", *language = "auto";
	for (size_t i = 0; i < num_settings; i++) {
		if (strcmp(settings[i].key, "model_size") == 0)
			size = settings[i].value;
		else if (strcmp(settings[i].key, "language") == 0)
			language = settings[i].value;
	}
	char path[PATH_MAX];
	int r = check_language(language, err->message, sizeof(err->message));
	if (r == 0)
		r = find_model(size, path, err->message, sizeof(err->message));
	err->code = r;
	return r;
}

static int load(struct gd_worker *w, void *state)
{
	struct whisper *r = state;
	const char *size = gd_worker_setting(w, "model_size", "base");
	char path[PATH_MAX], words[WORDS];
	snprintf(r->language, sizeof(r->language), "%s", gd_worker_setting(w, "language", "auto"));
	r->threads = atoi(gd_worker_setting(w, "threads", "0"));
	r->translate = strcmp(gd_worker_setting(w, "translate", "false"), "true") == 0;
	int e = check_language(r->language, words, sizeof(words));
	if (e == 0)
		e = find_model(size, path, words, sizeof(words));
	if (e < 0)
		return gd_worker_fail(w, e, "%s", words);
	struct whisper_context_params params = whisper_context_default_params();
	params.gpu_device = gd_worker_device(w);
	r->context = whisper_init_from_file_with_params(path, params);
	snprintf(r->model, sizeof(r->model), "whisper %s", strrchr(size, '/') ? strrchr(size, '/') + 1 : size);
	return r->context
		       ? 0
		       : gd_worker_fail(w, -EIO, "whisper cannot load the model '%.300s'; see the worker's log", path);
}

static void unload(void *state)
{
	struct whisper *r = state;
	if (r->context)
		whisper_free(r->context);
}

/* ---- A recording -------------------------------------------------------- */

/* Reads the whole recording: whisper needs all of it at once. */
static int read_all(struct gd_worker *w, struct audio *a, float **ret, size_t *ret_count)
{
	cleanup_(freep) float *samples = NULL;
	size_t count = 0, capacity = 0;
	const float *block;
	long n;
	while ((n = audio_read(a, &block)) > 0 && !gd_worker_cancelled(w, 0)) {
		size_t need = count + (size_t)n;
		if (need > INT_MAX || array_reserve(samples, &capacity, need) < 0)
			return gd_worker_fail(w, -ENOMEM, "the recording is too long: not enough memory");
		memcpy(samples + count, block, (size_t)n * sizeof(float));
		count += (size_t)n;
	}
	if (n < 0)
		return gd_worker_fail(w, (int)n, "the recording is truncated or damaged");
	if (count < SHORTEST) {
		if (array_reserve(samples, &capacity, SHORTEST) < 0)
			return gd_worker_fail(w, -ENOMEM, "out of memory");
		memset(samples + count, 0, (SHORTEST - count) * sizeof(float));
		count = SHORTEST;
	}
	*ret = take_ptr(samples);
	*ret_count = count;
	return 0;
}

static bool is_cancelled(void *worker)
{
	return gd_worker_cancelled(worker, 0);
}

/* The mean probability of the tokens of a segment. */
static double confidence(struct whisper_context *c, int segment)
{
	int tokens = whisper_full_n_tokens(c, segment), counted = 0;
	double sum = 0;
	for (int i = 0; i < tokens; i++) {
		/* Tokens from the end of text on are timestamps and other special tokens. */
		if (whisper_full_get_token_id(c, segment, i) >= whisper_token_eot(c))
			continue;
		sum += (double)whisper_full_get_token_p(c, segment, i);
		counted++;
	}
	return counted ? sum / counted : -1;
}

static void take_segments(struct whisper *r, struct transcript *t)
{
	int segments = whisper_full_n_segments(r->context);
	for (int i = 0; i < segments; i++)
		transcript_add(t, (double)whisper_full_get_segment_t0(r->context, i) * TICK_S,
			(double)whisper_full_get_segment_t1(r->context, i) * TICK_S, confidence(r->context, i),
			whisper_full_get_segment_text(r->context, i));
	t->language = whisper_lang_str(whisper_full_lang_id(r->context));
}

static int recognize(struct gd_worker *w, void *state, struct audio *a, struct transcript *t)
{
	struct whisper *r = state;
	cleanup_(freep) float *samples = NULL;
	size_t count = 0;
	t->model = r->model;
	int e = read_all(w, a, &samples, &count);
	if (e < 0)
		return e;
	struct whisper_full_params params = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
	params.language = r->language;
	params.translate = r->translate;
	params.no_context = true; /* do not use the last file as context */
	params.print_progress = params.print_realtime = params.print_timestamps = params.print_special = false;
	params.abort_callback = is_cancelled;
	params.abort_callback_user_data = w;
	if (r->threads > 0)
		params.n_threads = r->threads;
	int failed = whisper_full(r->context, params, samples, (int)count);
	if (gd_worker_cancelled(w, 0))
		return gd_worker_fail(w, -ECANCELED, "cancelled");
	if (failed)
		return gd_worker_fail(w, -EIO, "whisper failed with code %d; see the worker's log", failed);
	take_segments(r, t);
	return 0;
}

const struct speech_recognizer speech_recognizer = {
	.about = "speech to text by whisper.cpp, many languages, on the GPU",
	.check = check,
	.state_size = sizeof(struct whisper),
	.load = load,
	.unload = unload,
	.recognize = recognize};
