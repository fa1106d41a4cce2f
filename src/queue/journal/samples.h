/* SPDX-License-Identifier: MIT */
/*
 * How full and how busy the GPUs were while jobs ran: samples.jsonl in the journal's folder, a line for each moment.
 *
 * Only the runner writes, so nobody locks; who reads sees complete lines. The file is bounded: when it is full it
 * is thinned, evenly over the whole time that it spans, and put in place by a rename. Samples are worth
 * no trouble: what does not fit the disk is left out, and a power cut may take the last ones.
 */
#ifndef QUEUE_JOURNAL_SAMPLES_H
#define QUEUE_JOURNAL_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* How often, while jobs run. */
#define SAMPLES_INTERVAL_MS 5000
/* The file is thinned to half of this when it has grown beyond it. */
#define SAMPLES_MAX_BYTES ((size_t)2 << 20)

struct sample_gpu {
	int gpu;              /* its index, as in `start` */
	int64_t mem_used_mb;  /* -1: not known */
	int64_t mem_total_mb; /* -1 */
	int util;             /* percent; -1 */
	const uint64_t *jobs; /* those of this queue that run there */
	size_t num_jobs;
};

/* Most memory that a running job has used on a GPU so far. */
struct sample_peak {
	uint64_t job;
	int64_t mem_mb;
};

struct sample {
	int64_t time_ms; /* since 1970 */
	const struct sample_gpu *gpus;
	size_t num_gpus;
	const struct sample_peak *peaks; /* of those of which it is known */
	size_t num_peaks;
};

/* dir_fd: of the journal's folder. Of a line all or nothing. */
int samples_append(int dir_fd, const struct sample *s);

/* One sample, in memory of the reader's. Non-zero ends the reading and is returned. */
typedef int samples_fn(void *context, const struct sample *s);

/* All there are, oldest first; lines that are none are passed over. -ENOENT where there is no file. */
int samples_read(int dir_fd, samples_fn *fn, void *context);

/*
 * The last one, if it has been written since `*stamp` was set, which the caller sets to zero at first. Reads only the
 * end of the file.
 */
struct samples_stamp {
	uint64_t inode;
	int64_t size;
};
int samples_read_last(int dir_fd, struct samples_stamp *stamp, samples_fn *fn, void *context);

#endif
