/* SPDX-License-Identifier: MIT */
/*
 * Detects GPUs of a running job that have been idle for too long.
 *
 * A GPU is idle as long as its utilization is known and about 0 in each reading. An unknown
 * utilization, or too long a time between two readings, begins a new stretch, because the GPU may have
 * been busy. After `warn_ns` of idleness a GPU is *marked*, until it is busy or unknown. The idle time
 * of marked GPUs is added up, from the beginning of each stretch to its last idle reading.
 */
#ifndef QUEUE_RUNNER_IDLE_WATCH_H
#define QUEUE_RUNNER_IDLE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A GPU with at most this utilization counts as idle. */
#define IDLE_WATCH_PERCENT 1

struct idle_gpu {
	uint64_t since_ns; /* 0: not idle */
	int64_t since_ms;  /* the same on the wall clock */
	uint64_t read_ns;  /* the last idle reading */
	bool marked;
};

/* Start from {0}. */
struct idle_watch {
	size_t num_gpus;
	struct idle_gpu *gpus;
	uint64_t idle_ns; /* total of marked GPUs, finished stretches and the current ones so far */
};

struct idle_reading {
	bool known; /* the utilization is known */
	unsigned percent;
	uint64_t now_ns;
	int64_t now_ms; /* wall clock */
};

/* The effect of a reading. */
enum idle_change {
	IDLE_NO_CHANGE = 0,
	IDLE_MARKED,
	IDLE_UNMARKED,
};

/* 0 or -ENOMEM. Does nothing if it was called before. */
int idle_watch_make(struct idle_watch *w, size_t num_gpus);
void idle_watch_finish(struct idle_watch *w);

enum idle_change idle_watch_read(
	struct idle_watch *w, size_t gpu, uint64_t warn_ns, const struct idle_reading *reading);
/* Takes over from an earlier runner: this GPU was marked. */
void idle_watch_restore(struct idle_watch *w, size_t gpu, uint64_t now_ns, int64_t since_ms);
/* Marks all GPUs as busy; true: one was marked idle. */
bool idle_watch_reset(struct idle_watch *w);
/* The earliest start of a marked GPU's idle time; 0: none is marked. */
int64_t idle_watch_since_ms(const struct idle_watch *w);

#endif
