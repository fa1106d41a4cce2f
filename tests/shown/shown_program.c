/* SPDX-License-Identifier: MIT */
/*
 * A program for tests of gd_dispatcher_run_shown() in a terminal: its tasks are commands for the worker: "wait:FILE"
 * waits until the file exists; "print:…"; "fail"; and, for the program itself: "exit", "abort", "stop"; for its
 * generator: "block".
 */
#include <errno.h>
#include <gpu_dispatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **words;
static struct gd_dispatcher *dispatcher;

static int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	const char *word = task->data;
	(void)state;
	if (strncmp(word, "wait:", 5) == 0)
		while (access(word + 5, F_OK) < 0)
			usleep(1000);
	if (strncmp(word, "print:", 6) == 0)
		printf("%s\n", word + 6);
	if (strcmp(word, "fail") == 0)
		return gd_worker_fail(w, -EIO, "as told");
	return 0;
}

static int next_word(void *context, struct gd_feed *feed)
{
	(void)context;
	if (!*words)
		return 0;
	while (strcmp(*words, "block") == 0)
		pause();
	int r = gd_feed_emit(feed, *words, strlen(*words) + 1, NULL, NULL);
	words++;
	return r < 0 ? r : 1;
}

static int take(void *context, const struct gd_event *e)
{
	const char *word = e->task.data;
	(void)context;
	if (strncmp(word, "say:", 4) == 0)
		printf("program: %s\n", word + 4);
	if (strcmp(word, "exit") == 0) {
		printf("last words\n");
		exit(3);
	}
	if (strcmp(word, "abort") == 0) {
		fprintf(stderr, "last words\n");
		abort();
	}
	if (strcmp(word, "stop") == 0)
		gd_dispatcher_stop(dispatcher);
	return 0;
}

static void name(void *context, const struct gd_bytes *task, char *to, size_t room)
{
	(void)context;
	snprintf(to, room, "<%s>", (const char *)task->data);
}

int main(int argc, char **argv)
{
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = work};
	struct gd_options o = {.size = sizeof(o), .worker = &worker};
	struct gd_callbacks calls = {.size = sizeof(calls), .on_success = take};
	struct gd_run run = {.size = sizeof(run), .generator = next_word, .total_tasks = (uint64_t)argc - 1};
	struct gd_show show = {.size = sizeof(show), .name_task = name, .refresh_rate = 50};
	struct gd_stats stats = {0};
	struct gd_error err = {0};
	words = argv + 1;
	int r = gd_dispatcher_create(&o, &dispatcher, &err);
	if (r == 0)
		r = gd_dispatcher_run_shown(dispatcher, &run, &calls, &show, &err);
	if (r < 0)
		fprintf(stderr, "error: %s\n", err.message);
	if (dispatcher)
		gd_dispatcher_stats(dispatcher, &stats, sizeof(stats));
	printf("%d completed, %d failed\n", (int)stats.completed, (int)stats.failed);
	gd_dispatcher_destroy(dispatcher);
	return r < 0;
}
