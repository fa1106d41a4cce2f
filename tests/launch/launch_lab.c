/* SPDX-License-Identifier: MIT */
#include "launch_lab.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/file_task.h"

void lab_assert_contains(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("'%s' not in '%s'", words, text);
}

/* ---- Callbacks ---------------------------------------------------------- */

static struct lab_end *note(struct lab *lab, const struct gd_event *event)
{
	assert_true(event->id < sizeof(lab->ends) / sizeof(lab->ends[0]));
	lab->ended++;
	struct lab_end *end = &lab->ends[event->id];
	*end = (struct lab_end){.failure = event->failure, .code = event->code, .seconds = -2};
	snprintf(end->message, sizeof(end->message), "%s", event->message);
	return end;
}

static int on_success(void *context, const struct gd_event *event)
{
	note(context, event)->seconds = file_result_seconds(&event->result);
	return 0;
}

static int on_error(void *context, const struct gd_event *event)
{
	note(context, event);
	return 0;
}

static int on_timeout(void *context, const struct gd_event *event)
{
	note(context, event)->timed_out = true;
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *event)
{
	struct lab *lab = context;
	lab->setup_failures++;
	snprintf(lab->setup_message, sizeof(lab->setup_message), "%s", event->message);
	return 0;
}

/* ---- A life ------------------------------------------------------------- */

int lab_setup(void **state)
{
	struct lab *lab = calloc(1, sizeof(*lab));
	if (!lab)
		return -1;
	snprintf(lab->dir, sizeof(lab->dir), "/tmp/launch_lab.XXXXXX");
	if (!mkdtemp(lab->dir))
		return -1;
	lab->options = (struct gd_options){
		.size = sizeof(struct gd_options),
		.gpus = "sim:1",
		.output = GD_OUTPUT_SILENT,
		.kill_wait_ms = LAB_WAIT_MS,
		.cleanup_timeout_ms = LAB_WAIT_MS,
		.context = lab,
		.on_success = on_success,
		.on_error = on_error,
		.on_timeout = on_timeout,
		.on_setup_fail = on_setup_fail,
	};
	*state = lab;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

int lab_teardown(void **state)
{
	struct lab *lab = *state;
	if (lab->pool)
		gd_close(lab->pool, NULL, NULL);
	nftw(lab->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(lab);
	return 0;
}

void lab_open(struct lab *lab)
{
	struct gd_error err = {0};
	if (launch_worker_check(&lab->worker, &err) < 0)
		fail_msg("check: %s", err.message);
	lab->options.worker = launch_worker_ops(&lab->worker);
	lab->options.settings = lab->worker.settings;
	lab->options.num_settings = lab->worker.num_settings;
	if (gd_open(&lab->options, &lab->pool, &err) < 0)
		fail_msg("open: %s", err.message);
}

void lab_submit(struct lab *lab, const char *name, double seconds)
{
	char path[512], stem[256];
	snprintf(path, sizeof(path), "%s/%s", lab->dir, name);
	FILE *f = fopen(path, "ae");
	assert_non_null(f);
	fclose(f);
	snprintf(stem, sizeof(stem), "%s", name);
	char *dot = strrchr(stem, '.');
	if (dot && dot != stem)
		*dot = '\0';
	const struct gd_file file = {.path = path, .output_dir = lab->dir, .stem = stem, .seconds = seconds};
	char bytes[2048];
	assert_true(file_task_size(&file) <= sizeof(bytes));
	file_task_write(&file, bytes);
	assert_int_equal(gd_submit(lab->pool, bytes, file_task_size(&file), NULL, 0, NULL), 0);
	lab->submitted++;
}

static void poll_once(struct lab *lab, uint64_t deadline)
{
	assert_true(clock_now_ns() < deadline);
	int r = gd_poll(lab->pool, 100);
	assert_true(r >= 0 || r == -ENODEV);
}

void lab_await(struct lab *lab, size_t count)
{
	uint64_t deadline = clock_now_ns() + LAB_WAIT_MS * NS_PER_MS;
	while (lab->ended < count)
		poll_once(lab, deadline);
}

void lab_await_setup_failure(struct lab *lab)
{
	uint64_t deadline = clock_now_ns() + LAB_WAIT_MS * NS_PER_MS;
	while (!lab->setup_failures) {
		struct pollfd p = {.fd = gd_fd(lab->pool), .events = POLLIN};
		poll(&p, 1, 100);
		poll_once(lab, deadline);
	}
}

void lab_close(struct lab *lab)
{
	struct gd_error err = {0};
	if (gd_close(lab->pool, NULL, &err) < 0)
		fail_msg("close: %s", err.message);
	lab->pool = NULL;
	assert_int_equal(lab->ended, lab->submitted);
}

const struct lab_end *lab_run_one(struct lab *lab, const char *name)
{
	lab_open(lab);
	lab_submit(lab, name, -1);
	lab_await(lab, 1);
	lab_close(lab);
	return &lab->ends[0];
}

/* ---- Files and processes ------------------------------------------------ */

const char *lab_path(const struct lab *lab, const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "%s/%s", lab->dir, name);
	return path;
}

const char *lab_read(const struct lab *lab, const char *name)
{
	static char text[65536];
	FILE *f = fopen(lab_path(lab, name), "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = '\0';
	if (f)
		fclose(f);
	return text;
}

void lab_write(const struct lab *lab, const char *name, const char *text)
{
	FILE *f = fopen(lab_path(lab, name), "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

long lab_await_number(struct lab *lab, const char *name)
{
	uint64_t deadline = clock_now_ns() + LAB_WAIT_MS * NS_PER_MS;
	while (!strchr(lab_read(lab, name), '\n')) {
		struct pollfd p = {.fd = gd_fd(lab->pool), .events = POLLIN};
		poll(&p, 1, 5);
		assert_true(clock_now_ns() < deadline);
		int r = gd_poll(lab->pool, 0);
		assert_true(r >= 0 || r == -ENODEV);
	}
	return strtol(lab_read(lab, name), NULL, 10);
}

bool lab_gone(pid_t pid)
{
	if (pid <= 0)
		return true; /* it was ended before it could say who it is */
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ESRCH;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;
	do {
		n = poll(&p, 1, LAB_WAIT_MS);
	} while (n < 0 && errno == EINTR);
	close(fd);
	return n == 1;
}
