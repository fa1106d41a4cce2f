/* SPDX-License-Identifier: MIT */
/*
 * A program for tests of the end of gd_dispatcher_run_shown(): prints while the run ends.
 *
 *   late    a thread fills the pipe after its reader has ended, and prints more than the pipe holds
 *   always  a thread prints from the middle of the run until after its end
 *   quiet   a child that outlives the program's run holds the write end of the pipe, and prints nothing
 *   yes     a child prints continuously, until the end of its terminal kills it
 *   exit    the same, and the program exits in the middle of the run
 */
#include <gpu_dispatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATE_LINES 2000 /* of 100 bytes: three times the capacity of a pipe */
#define MORE_LINES 200  /* of "always", after the run */

static const char *mode;
static pthread_t printer;
static atomic_bool has_printer, released, over;
static atomic_int printed;
static int life[2]; /* the write end is closed when the program has ended */

int __real_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_join(pthread_t thread, void **ret);

static bool by_thread(void)
{
	return strcmp(mode, "late") == 0 || strcmp(mode, "always") == 0;
}

static void *print_lines(void *argument)
{
	(void)argument;
	while (!atomic_load(&released))
		usleep(1000);
	while (strcmp(mode, "late") == 0 ? atomic_load(&printed) < LATE_LINES : !atomic_load(&over)) {
		printf("line %06d %087d\n", atomic_load(&printed), 0);
		atomic_fetch_add(&printed, 1);
	}
	return NULL;
}

/* The run joins the thread that reads the pipe: from here on the pipe has no reader. */
int __wrap_pthread_join(pthread_t thread, void **ret)
{
	int r = __real_pthread_join(thread, ret);
	struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
	atomic_store(&released, true);
	while (strcmp(mode, "late") == 0 && atomic_load(&printed) < LATE_LINES && poll(&out, 1, 1) > 0)
		;
	return r;
}

static void child_main(void)
{
	char lines[16 * 1024];
	for (size_t i = 0; i < sizeof(lines); i++)
		lines[i] = i % 2 ? '\n' : 'y';
	close(life[1]);
	if (strcmp(mode, "quiet") != 0)
		while (write(STDOUT_FILENO, lines, sizeof(lines)) > 0)
			;
	else
		(void)!read(life[0], lines, 1);
	_exit(0);
}

static int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	return 0;
}

static int next_task(void *context, struct gd_feed *feed)
{
	int *left = context;
	if (*left == 0)
		return 0;
	int r = gd_feed_emit(feed, left, sizeof(*left), NULL, NULL);
	(*left)--;
	return r < 0 ? r : 1;
}

static int take(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	if (atomic_load(&has_printer))
		return 0;
	atomic_store(&has_printer, true);
	if (!by_thread()) {
		if (fork() == 0)
			child_main();
		if (strcmp(mode, "exit") == 0)
			exit(0);
		return 0;
	}
	atomic_store(&released, strcmp(mode, "always") == 0);
	int r = pthread_create(&printer, NULL, print_lines, NULL);
	while (r == 0 && atomic_load(&released) && atomic_load(&printed) == 0)
		usleep(1000);
	return -r;
}

static void end_printer(void)
{
	int at_end = atomic_load(&printed);
	while (strcmp(mode, "always") == 0 && atomic_load(&printed) < at_end + MORE_LINES)
		usleep(1000);
	atomic_store(&over, true);
	__real_pthread_join(printer, NULL);
	printf("after the run: lines %d to %d\n", at_end, atomic_load(&printed));
}

int main(int argc, char **argv)
{
	int left = 20;
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = work};
	struct gd_options o = {.size = sizeof(o), .worker = &worker, .gpus = "sim:1"};
	struct gd_callbacks calls = {.size = sizeof(calls), .on_success = take};
	struct gd_run run = {
		.size = sizeof(run), .generator = next_task, .generator_context = &left, .inline_generator = true};
	struct gd_show show = {.size = sizeof(show), .refresh_rate = 50};
	struct gd_dispatcher *d;
	if (argc != 2 || pipe(life) < 0)
		return 2;
	mode = argv[1];
	if (gd_dispatcher_create(&o, &d, NULL) < 0)
		return 2;
	int r = gd_dispatcher_run_shown(d, &run, &calls, &show, NULL);
	if (by_thread())
		end_printer();
	printf("the program ends\n");
	gd_dispatcher_destroy(d);
	return r < 0;
}
