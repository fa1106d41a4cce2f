/* SPDX-License-Identifier: MIT */
#include "file_rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launch/file_task.h"
#include "support/process.h"

static void note_end(struct file_rig *rig, enum callback_kind kind, const struct gd_event *event)
{
	assert_true(event->id < sizeof(rig->ends) / sizeof(rig->ends[0]));
	rig->ended++;
	struct file_end *end = &rig->ends[event->id];
	*end = (struct file_end){.failure = event->failure, .code = event->code, .seconds = -2};
	end->timed_out = kind == CALLBACK_TIMEOUT;
	if (kind == CALLBACK_SUCCESS)
		end->seconds = file_result_seconds(&event->result);
	snprintf(end->message, sizeof(end->message), "%s", event->message);
}

static int note(void *context, enum callback_kind kind, const struct gd_event *event)
{
	struct file_rig *rig = context;
	if (kind <= CALLBACK_CANCELLED)
		note_end(rig, kind, event);
	if (kind == CALLBACK_SETUP_FAIL) {
		rig->setup_failures++;
		snprintf(rig->setup_message, sizeof(rig->setup_message), "%s", event->message);
	}
	if (kind == CALLBACK_MESSAGE)
		assert_int_equal(worker_note_read(&event->result, &rig->note), 0);
	return 0;
}

/* ---- Life cycle --------------------------------------------------------- */

int file_rig_setup(void **state)
{
	struct file_rig *rig = calloc(1, sizeof(*rig));
	if (!rig)
		return -1;
	if (scratch_make(rig->dir) < 0)
		return -1;
	rig->options = (struct gd_options){
		.size = sizeof(struct gd_options),
		.gpus = "sim:1",
		.output = GD_OUTPUT_SILENT,
		.kill_wait_ms = FILE_RIG_WAIT_MS,
		.cleanup_timeout_ms = FILE_RIG_WAIT_MS,
	};
	rig->callbacks = (struct callbacks){.context = rig, .on_event = note};
	callbacks_install(&rig->callbacks, &rig->calls);
	rig->calls.on_task_start = NULL;
	*state = rig;
	return 0;
}

int file_rig_teardown(void **state)
{
	struct file_rig *rig = *state;
	if (rig->pool)
		gd_pool_close(rig->pool, NULL, 0, NULL);
	scratch_remove(rig->dir);
	free(rig->argv);
	free(rig);
	return 0;
}

void file_rig_open(struct file_rig *rig)
{
	struct gd_error err = {0};
	if (launch_worker_check(&rig->worker, &err) < 0)
		fail_msg("check: %s", err.message);
	free(rig->argv);
	rig->argv = NULL;
	if (launch_worker_argv(&rig->worker, true, &rig->argv, &err) < 0)
		fail_msg("argv: %s", err.message);
	rig->options.worker_argv = (const char *const *)rig->argv;
	rig->options.settings = rig->worker.settings;
	rig->options.num_settings = rig->worker.num_settings;
	if (gd_pool_open(&rig->options, &rig->calls, &rig->pool, &err) < 0)
		fail_msg("open: %s", err.message);
}

void file_rig_submit(struct file_rig *rig, const char *name, double seconds)
{
	char path[512], stem[256];
	snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
	FILE *f = fopen(path, "ae");
	assert_non_null(f);
	fclose(f);
	snprintf(stem, sizeof(stem), "%s", name);
	char *dot = strrchr(stem, '.');
	if (dot && dot != stem)
		*dot = '\0';
	const struct gd_file file = {.path = path,
		.output_dir = rig->dir,
		.stem = stem,
		.known = seconds >= 0 ? GD_KNOWN_SECONDS : 0,
		.seconds = seconds};
	char bytes[2048];
	assert_true(file_task_size(&file) <= sizeof(bytes));
	file_task_write(&file, bytes);
	assert_int_equal(gd_pool_submit(rig->pool, bytes, file_task_size(&file), NULL, NULL, NULL), 0);
	rig->submitted++;
}

static uint64_t deadline_ns(void)
{
	return clock_now_ns() + FILE_RIG_WAIT_MS * NS_PER_MS;
}

static void poll_once(struct file_rig *rig, int timeout_ms)
{
	int r = gd_pool_poll(rig->pool, timeout_ms, 0);
	assert_true(r >= 0 || r == -ENODEV);
}

/* Without a task gd_pool_poll() does not wait. */
static void await_descriptor(struct file_rig *rig, int timeout_ms)
{
	struct pollfd p = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	poll(&p, 1, timeout_ms);
}

void file_rig_await(struct file_rig *rig, size_t count)
{
	for (uint64_t deadline = deadline_ns(); rig->ended < count;) {
		wait_check(deadline, "files have ended");
		poll_once(rig, 100);
	}
}

void file_rig_await_setup_failure(struct file_rig *rig)
{
	for (uint64_t deadline = deadline_ns(); !rig->setup_failures;) {
		wait_check(deadline, "a setup has failed");
		await_descriptor(rig, 100);
		poll_once(rig, 100);
	}
}

void file_rig_close(struct file_rig *rig)
{
	struct gd_error err = {0};
	if (gd_pool_close(rig->pool, NULL, 0, &err) < 0)
		fail_msg("close: %s", err.message);
	rig->pool = NULL;
	assert_int_equal(rig->ended, rig->submitted);
}

const struct file_end *file_rig_run_one(struct file_rig *rig, const char *name)
{
	file_rig_open(rig);
	file_rig_submit(rig, name, -1);
	file_rig_await(rig, 1);
	file_rig_close(rig);
	return &rig->ends[0];
}

/* ---- Files and processes ------------------------------------------------ */

const char *file_rig_path(const struct file_rig *rig, const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
	return path;
}

const char *file_rig_read(const struct file_rig *rig, const char *name)
{
	return scratch_read(file_rig_path(rig, name));
}

void file_rig_write(const struct file_rig *rig, const char *name, const char *text)
{
	scratch_write_text(file_rig_path(rig, name), text);
}

long file_rig_await_number(struct file_rig *rig, const char *name)
{
	for (uint64_t deadline = deadline_ns(); !strchr(file_rig_read(rig, name), '\n');) {
		wait_check(deadline, name);
		await_descriptor(rig, 5);
		poll_once(rig, 0);
	}
	return strtol(file_rig_read(rig, name), NULL, 10);
}

bool file_rig_gone(pid_t pid)
{
	return pid <= 0 || process_await_gone(pid, FILE_RIG_WAIT_MS);
}

bool file_rig_named_gone(const struct file_rig *rig, const char *name)
{
	return file_rig_gone((pid_t)atoi(file_rig_read(rig, name)));
}
