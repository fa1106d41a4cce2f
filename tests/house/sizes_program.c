/* SPDX-License-Identifier: MIT */
/*
 * A program compiled against another version of the header than the library has:
 * test_sizes.py builds it with structs that are smaller (fields of later versions are missing) or
 * larger (with `future`, fields that this library does not know). Uses only fields
 * that every version has.
 *
 * Usage: sizes_program; or, with larger structs, sizes_program STRUCT to set an unknown
 * field of that struct. Prints the results, or the first error.
 */
#include <gpu_dispatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY 0x5a

#ifdef GD_TEST_LARGER
#define SET_FUTURE(s, name)                                                                                            \
	do {                                                                                                           \
		if (strcmp(future, name) == 0)                                                                         \
			(s).future[1] = 7;                                                                             \
	} while (0)
#else
#define SET_FUTURE(s, name) (void)future
#endif

static int ended;

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	long n = *(const long *)task->data + (gd_worker_context(w) == NULL);
	return gd_worker_result(w, &n, sizeof(n));
}

static int next(void *context, struct gd_feed *feed)
{
	long *next = context, n = (*next)++;
	return n < 20 ? gd_feed_emit(feed, &n, sizeof(n), NULL, NULL) : 0;
}

static int count(void *context, const struct gd_event *e)
{
	(void)context;
	if (e->size < sizeof(size_t) || *(const long *)e->result.data != *(const long *)e->task.data + 1)
		abort();
	ended++;
	return 0;
}

static void fail(const struct gd_error *err)
{
	printf("error %d: %s\n", err->code, err->message);
	exit(3);
}

/* The library must write only inside the struct as this program knows it. */
static void check_filled(const unsigned char *bytes, size_t size, size_t room)
{
	size_t filled;
	memcpy(&filled, bytes, sizeof(filled));
	if (filled > size)
		abort();
	for (size_t i = filled; i < size; i++)
		if (bytes[i] != 0)
			abort();
	for (size_t i = size; i < room; i++)
		if (bytes[i] != CANARY)
			abort();
}

int main(int argc, char **argv)
{
	const char *future = argc > 1 ? argv[1] : "";
	long n = 0;
	struct gd_worker_ops ops = {.size = sizeof(ops), .process = process};
	struct gd_options options = {.size = sizeof(options), .worker = &ops, .gpus = "sim:2"};
	struct gd_run run = {.size = sizeof(run), .generator = next, .generator_context = &n};
	struct gd_callbacks callbacks = {.size = sizeof(callbacks), .on_success = count};
	struct gd_dispatcher *d = NULL;
	struct gd_error err = {0};
	SET_FUTURE(ops, "gd_worker_ops");
	SET_FUTURE(options, "gd_options");
	SET_FUTURE(run, "gd_run");
	SET_FUTURE(callbacks, "gd_callbacks");
	if (gd_dispatcher_create(&options, &d, &err) < 0 || gd_dispatcher_run(d, &run, &callbacks, &err) < 0)
		fail(&err);

	union {
		struct gd_stats stats;
		struct gd_worker_stats worker;
		unsigned char bytes[8192];
	} room;
	memset(&room, CANARY, sizeof(room));
	gd_dispatcher_stats(d, &room.stats, sizeof(room.stats));
	check_filled(room.bytes, sizeof(room.stats), sizeof(room.bytes));
	printf("%d ended, %d submitted\n", ended, (int)room.stats.submitted);
	memset(&room, CANARY, sizeof(room));
	if (gd_dispatcher_worker_stats(d, 1, &room.worker, sizeof(room.worker)) < 0)
		abort();
	check_filled(room.bytes, sizeof(room.worker), sizeof(room.bytes));
	printf("worker %d on GPU %d\n", room.worker.slot, room.worker.gpu);
	gd_dispatcher_destroy(d);
	return 0;
}
