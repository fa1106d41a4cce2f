/* SPDX-License-Identifier: MIT */
/*
 * Memory and utilization of the GPUs while jobs ran: samples.jsonl in the journal's folder, a line for each sample.
 *
 * Only the runner writes, so there is no lock; readers use complete lines only. The file is bounded: when it is full,
 * it is thinned evenly over the whole time it spans and replaced by a rename. Samples are not critical: they are
 * dropped if the disk is full, and a power cut may lose the last ones.
 */
#ifndef QUEUE_JOURNAL_SAMPLES_H
#define QUEUE_JOURNAL_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* Interval between samples while jobs run. */
#define SAMPLES_INTERVAL_MS 5000
/* The file is thinned to half of this when it has grown beyond it. */
#define SAMPLES_MAX_BYTES ((size_t)2 << 20)

struct sample_gpu {
	int gpu;              /* index of the GPU, as in `start` */
	int64_t mem_used_mb;  /* -1: not known */
	int64_t mem_total_mb; /* -1 */
	int util;             /* percent; -1 */
	const uint64_t *jobs; /* jobs of this queue that run on it */
	size_t num_jobs;
};

/* Peak memory of a running job on a GPU so far. */
struct sample_peak {
	uint64_t job;
	int64_t mem_mb;
};

struct sample {
	int64_t time_ms; /* since 1970 */
	const struct sample_gpu *gpus;
	size_t num_gpus;
	const struct sample_peak *peaks; /* of jobs whose peak is known */
	size_t num_peaks;
};

/* dir_fd: the journal's folder. Writes the whole line or nothing. */
int samples_append(int dir_fd, const struct sample *s);

/* Called for one sample, in the reader's memory. A non-zero result stops reading and is returned. */
typedef int samples_fn(void *context, const struct sample *s);

/* Reads all samples, oldest first; skips invalid lines. -ENOENT if there is no file. */
int samples_read(int dir_fd, samples_fn *fn, void *context);

/*
 * Reads the last sample, if it was written since the last call with this `stamp`, which is {0} before the first call.
 * Reads only the end of the file.
 */
struct samples_stamp {
	uint64_t inode;
	int64_t size;
};
int samples_read_last(int dir_fd, struct samples_stamp *stamp, samples_fn *fn, void *context);

#endif
