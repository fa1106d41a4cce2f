/* SPDX-License-Identifier: MIT */
/* A worker program for the tests of executed workers: it reports its identity, or executes the task. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu_dispatch.h"

static const char *mode = "";

static int setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	if (strcmp(mode, "no-setup") == 0)
		return gd_worker_fail(w, -ENOENT, "no model in '%s'", gd_worker_setting(w, "model", ""));
	if (strcmp(mode, "exit-in-setup") == 0)
		exit(7);
	return 0;
}

/* How many descriptors are open besides the standard ones and those of the library. */
static int strange_fds(void)
{
	int count = 0;
	for (int fd = 7; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static bool asks_for(const struct gd_bytes *task, const char *what)
{
	return task->size == strlen(what) && memcmp(task->data, what, task->size) == 0;
}

/* Whether /proc/self/maps has a memfd at the address. */
static bool is_mapped_file(const void *address)
{
	char line[512];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "re");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (unsigned long)address >= from &&
			(unsigned long)address < to)
			found = strstr(line, "memfd:");
	}
	if (f)
		fclose(f);
	return found;
}

static int tell_setting(struct gd_worker *w)
{
	struct gd_bytes value;
	char text[128];
	int r = gd_worker_setting_bytes(w, "large", &value);
	if (r < 0)
		return r;
	int n = snprintf(text, sizeof(text), "%zu bytes from %d, %s", value.size, *(const unsigned char *)value.data,
		is_mapped_file(value.data) ? "a mapping" : "a copy");
	return gd_worker_result(w, text, (size_t)n);
}

#define LARGE ((size_t)3 << 20)

static int send_two(struct gd_worker *w)
{
	static char large[LARGE];
	int r = gd_worker_send(w, "small", 5);
	return r < 0 ? r : gd_worker_send(w, large, sizeof(large));
}

static int fail_with_bytes(struct gd_worker *w)
{
	static char large[LARGE];
	return gd_worker_fail_with(w, -EIO, "with bytes", large, sizeof(large));
}

static int tell_environment(struct gd_worker *w)
{
	char text[512];
	size_t n = 0;
	for (char **e = environ; *e && n < sizeof(text); e++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", *e);
	return gd_worker_result(w, text, n < sizeof(text) ? n : sizeof(text));
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	char text[512];
	(void)state;
	if (asks_for(task, "context"))
		return gd_worker_result(w, gd_worker_context(w), strlen(gd_worker_context(w)));
	if (asks_for(task, "setting"))
		return tell_setting(w);
	if (asks_for(task, "environment"))
		return tell_environment(w);
	if (asks_for(task, "send"))
		return send_two(w);
	if (asks_for(task, "fail"))
		return fail_with_bytes(w);
	if (asks_for(task, "crash"))
		abort();
	if (task->size > 1000)
		return gd_worker_result(w, task->data, task->size);
	const char *cuda = getenv("CUDA_VISIBLE_DEVICES");
	int n = snprintf(text, sizeof(text), "%.*s slot=%d gpu=%d seed=%lld model=%s cuda=%s mark=%s fds=%d mode=%s",
		(int)task->size, (const char *)task->data, gd_worker_slot(w), gd_worker_gpu(w),
		(long long)gd_worker_seed(w), gd_worker_setting(w, "model", "none"), cuda ? cuda : "(unset)",
		getenv("GD_WORKER") ? "set" : "unset", strange_fds(), mode);
	return gd_worker_result(w, text, (size_t)n + 1);
}

static void leave(struct gd_worker *w)
{
	if (gd_worker_setting(w, "last words", NULL))
		printf("%s\n", gd_worker_setting(w, "last words", NULL)); /* flushed by the library */
}

int main(int argc, char **argv)
{
	static char context[] = "of the program";
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops),
		.context = context,
		.setup = setup,
		.process = process,
		.on_leave = leave,
	};
	if (argc > 1)
		mode = argv[1];
	if (strcmp(mode, "exit-at-once") == 0)
		return 3;
	return gd_worker_main(strcmp(mode, "no-ops") == 0 ? NULL : &ops);
}
