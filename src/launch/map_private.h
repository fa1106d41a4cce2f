/* SPDX-License-Identifier: MIT */
/* The parts of a run of gpuq map. */
#ifndef LAUNCH_MAP_PRIVATE_H
#define LAUNCH_MAP_PRIVATE_H

#include <stdatomic.h>

#include "launch/map.h"
#include "launch/map_batch.h"
#include "launch/map_input.h"
#include "launch/map_order.h"
#include "launch/map_record.h"
#include "launch/worker.h"

#define MAP_FIRST_PATIENCE 64

struct map {
	struct map_options options;
	struct map_input input;
	struct map_record record;
	struct map_order order;
	struct launch_worker worker;
	struct gd_gpu_list *gpus;
	struct gd_pool *pool;
	size_t num_workers;
	struct gd_worker_stats *workers;

	/* Messages: resent ones come before new ones. */
	struct map_batch *again, *again_last;
	struct map_batch *spare; /* for reuse */
	size_t num_spare;
	struct map_batch *filling; /* collects new items */
	size_t in_pool, items_in_pool, bytes_in_pool;
	size_t batch;        /* items per message, lower after an out-of-memory answer */
	size_t warned_batch; /* the lowest batch in a warning */
	uint64_t patience;   /* messages without an out-of-memory answer before larger ones are tried again */
	uint64_t streak;     /* messages answered since the batch was changed */
	uint64_t num_failed; /* items that failed, also if their lines are not written yet */
	uint64_t places;     /* items read that were not done before */
	bool input_over;
	bool wants_input; /* nothing to read right now: wait for input */
	bool reads_on;    /* more can be read right now, after the workers have been served: do not wait */
	bool saw_new;     /* an item was not done: with `ordered`, no done item may follow */

	/* Why the run ends before the input does. */
	atomic_int stops; /* number of requests */
	int pool_stops;
	int stop_fd;
	bool enough, no_worker;
	int error; /* of input or output */
	struct gd_error reason;

	struct text line;
	struct map_summary summary;
	struct map_failure failures[MAP_MOST_FAILURES];
	struct map_gpu *gpu_counts;
	uint64_t start_ns, ready_ns, end_ns, next_progress_ns;
	bool warned_replaced;
};

bool map_is_ending(const struct map *m);
void map_warn(struct map *m, const char *format, ...) GD_PRINTF(2, 3);
void map_stop_pool(struct map *m, int stops);
/* The first error is kept; the run ends. */
void map_fail(struct map *m, const struct gd_error *err);

/* map_survey.c: reads the whole input once, counts its items and compares them with the record. Regular files only.
 * Large files are not counted if there is nothing to compare. */
int map_survey(struct map *m, struct gd_error *err);
/* Counts the items after the last one read, so that the total becomes known; after a stop, for a second at most. */
void map_count_rest(struct map *m);
/* At the end of the input, whether all of it was read. -ENODATA: it became shorter, or has fewer items than were
 * counted.
 */
int map_check_end(const struct map *m, uint64_t left, struct gd_error *err);
/* 1: the item is done; 0: it is not; -EBADMSG: the record belongs to another input, or is not in order. */
int map_is_done(struct map *m, const struct map_line *line, struct gd_error *err);

/* map_feed.c */
void map_feed(struct map *m);
void map_send_again(struct map *m, struct map_batch *b);
/* Releases a batch whose items have ended or are in other batches. */
void map_drop_batch(struct map *m, struct map_batch *b);

/* map_results.c */
/* The counts of a GPU; NULL: not a GPU of this run. */
struct map_gpu *map_gpu_counts(struct map *m, int gpu);
void map_end_item(struct map *m, const struct map_item *item, int gpu, bool failed, const char *data, size_t size);
/* Writes the lines of items that have ended, and counts these items. */
void map_flush(struct map *m);
int map_on_success(void *context, const struct gd_event *e);
int map_on_failure(void *context, const struct gd_event *e);

#endif
