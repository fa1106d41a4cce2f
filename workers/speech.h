/* SPDX-License-Identifier: MIT */
/* What the recognisers have in common: a file comes in, is heard, and a transcript goes out. */
#ifndef WORKERS_SPEECH_H
#define WORKERS_SPEECH_H

#include "audio.h"
#include "gpu_dispatch.h"
#include "transcript.h"

/* Hears all of the recording and adds what it understands. 0, or what gd_fail() returned. */
typedef int speech_recognise(struct gd_worker *w, void *state, struct audio *audio, struct transcript *transcript);

/* The body of a process hook. `t` has its model; it is finished here. */
int speech_process(struct gd_worker *w, void *state, const struct gd_bytes *task, speech_recognise *recognise,
	struct transcript *t);

#endif
