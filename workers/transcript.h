/* SPDX-License-Identifier: MIT */
/* What was said when, and how sure of it one is; as STEM.txt and STEM.json. */
#ifndef WORKERS_TRANSCRIPT_H
#define WORKERS_TRANSCRIPT_H

#include <stddef.h>

#include "base/text.h"
#include "gpu_dispatch_launch.h"

struct transcript {
	const char *model; /* the recognizer's name for it */
	const char *language;
	double seconds;      /* of the recording */
	struct text text;    /* a line for each segment */
	struct text json;    /* the segments */
	double confidence;   /* of the segments, weighted by their length */
	double confidence_s; /* how long these are */
};

/* Times in seconds; confidence 0…1, or -1 where the recognizer tells none. Text of blanks is left out. */
void transcript_add(struct transcript *t, double start, double end, double confidence, const char *text);
void transcript_finish(struct transcript *t);

/* Both files, each whole or not there at all. Where it fails `words` says why. */
int transcript_write(const struct transcript *t, const struct gd_file *file, char *words, size_t room);

#endif
