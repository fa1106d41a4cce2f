/* SPDX-License-Identifier: MIT */
/* A transcript with times and confidence, written as STEM.txt and STEM.json. */
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
	double confidence_s; /* total length of these segments */
};

/* Times in seconds; confidence 0…1, or -1 if unknown. Blank text is left out. */
void transcript_add(struct transcript *t, double start, double end, double confidence, const char *text);
void transcript_finish(struct transcript *t);

/* Writes both files, each completely or not at all. On failure, `words` is the reason. */
int transcript_write(const struct transcript *t, const struct gd_file *file, char *words, size_t room);

#endif
