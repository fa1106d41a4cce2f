/* SPDX-License-Identifier: MIT */
/*
 * The worker hooks shared by the speech recognizers: load a model, then recognize each file and write its transcript.
 *
 * A plug-in is speech.c linked with exactly one recognizer, which defines
 * speech_recognizer.
 */
#ifndef WORKERS_SPEECH_H
#define WORKERS_SPEECH_H

#include <stddef.h>

#include "audio.h"
#include "gpu_dispatch.h"
#include "transcript.h"

struct speech_recognizer {
	const char *about; /* one line for --list-workers */
	/* See struct gd_plugin; or NULL. */
	int (*check)(const struct gd_setting *settings, size_t num_settings, struct gd_error *err);
	size_t state_size;
	/* Loads the model into the state, which is zero before. 0, -ENOMEM, or the result of gd_worker_fail(). */
	int (*load)(struct gd_worker *w, void *state);
	/* Releases what load() put into the state, even if load() failed. Does not free the state. */
	void (*unload)(void *state);
	/*
	 * Recognizes the whole recording: adds segments to the transcript, and sets its model and language. 0, or the
	 * result of gd_worker_fail().
	 */
	int (*recognize)(struct gd_worker *w, void *state, struct audio *audio, struct transcript *transcript);
};

extern const struct speech_recognizer speech_recognizer;

#endif
