/* SPDX-License-Identifier: MIT */
/*
 * What the speech recognizers share: a model is loaded, then each file is recognized
 * and its transcript written. A recognizer fills in a struct speech_ops; its worker
 * hooks call the functions below with it.
 */
#ifndef WORKERS_SPEECH_H
#define WORKERS_SPEECH_H

#include <stddef.h>

#include "audio.h"
#include "gpu_dispatch.h"
#include "transcript.h"

struct speech_ops {
	size_t state_size;
	/* Loads the model into the state, which is zero before. 0, -ENOMEM, or what gd_fail() returned. */
	int (*load)(struct gd_worker *w, void *state);
	/* Releases what load() put into the state, also if load() failed. Does not free the state. */
	void (*unload)(void *state);
	/* Recognizes all of the recording and adds segments to the transcript. 0, or what gd_fail() returned. */
	int (*recognize)(struct gd_worker *w, void *state, struct audio *audio, struct transcript *transcript);
};

/* The bodies of the setup and cleanup hooks. */
int speech_setup(struct gd_worker *w, const struct speech_ops *ops, void **ret_state);
int speech_cleanup(const struct speech_ops *ops, void *state);

/* The body of the process hook. The caller has set the model (and the language) of `t`, which is finished here. */
int speech_process(struct gd_worker *w, const struct speech_ops *ops, void *state, const struct gd_bytes *task,
	struct transcript *t);

#endif
