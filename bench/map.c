/* SPDX-License-Identifier: MIT */
/*
 * Compares gpuq map with a bare pipe: the same program in C, which reads its items as JSON and answers with a number
 * for each, in messages of 64 items. On the bare pipe, no input is read, no answer is checked and no output is written.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_put.h"
#include "base/json_read.h"

#define BATCH 64
#define PAIRS 9

/* ---- The program -------------------------------------------------------------- */

static void answer_items(struct text *out, const char *line, size_t size)
{
	struct json_cursor c;
	struct json_value key, value, item, id = {0}, items = {0};
	json_begin(&c, line, size);
	while (json_next_member(&c, &key, &value) > 0) {
		if (json_is(&key, "id"))
			id = value;
		else if (json_is(&key, "items"))
			items = value;
	}
	if (!items.type) {
		text_append_string(out, "{\"type\":\"ready\"}\n");
		return;
	}
	json_open(out, NULL, '{');
	json_put_raw(out, "id", id.data, id.size);
	json_put_bool(out, "ok", true);
	json_open(out, "results", '[');
	json_enter(&c, &items);
	while (json_next_item(&c, &item) > 0)
		json_put_int(out, NULL, item.size);
	text_append_string(out, "]}\n");
}

static int speak(void)
{
	char *line = NULL;
	size_t room = 0;
	struct text out = {0};
	for (ssize_t n; (n = getline(&line, &room, stdin)) > 0; text_clear(&out)) {
		answer_items(&out, line, (size_t)n);
		fwrite(out.data, 1, out.length, stdout);
		fflush(stdout);
	}
	return 0;
}

/* ---- The bare pipe ------------------------------------------------------------ */

struct pipes {
	int to, from;
	pid_t pid;
};

static struct pipes start(const char *own)
{
	int in[2], out[2];
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		err(1, "pipe");
	pid_t pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(own, own, "--speak", (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	return (struct pipes){in[1], out[0], pid};
}

static size_t count_lines(const char *data, size_t size)
{
	size_t lines = 0;
	for (const char *p = data; (p = memchr(p, '\n', size - (size_t)(p - data))); p++)
		lines++;
	return lines;
}

/* Seconds for this number of messages. */
static double measure_bare(const char *own, const struct text *message, size_t messages)
{
	static char buf[1 << 16];
	uint64_t begin = clock_now_ns();
	struct pipes p = start(own);
	size_t sent = 0, at = 0, answered = 0;
	while (answered < messages) {
		struct pollfd fds[] = {{p.from, POLLIN, 0}, {sent < messages ? p.to : -1, POLLOUT, 0}};
		poll(fds, 2, -1);
		ssize_t n = fds[1].revents ? write(p.to, message->data + at, message->length - at) : 0;
		if (n > 0 && (at += (size_t)n) == message->length) {
			at = 0;
			sent++;
		}
		n = fds[0].revents ? read(p.from, buf, sizeof(buf)) : 0;
		if (n > 0)
			answered += count_lines(buf, (size_t)n);
		else if (fds[0].revents && (n == 0 || errno != EAGAIN))
			errx(1, "the program has ended");
	}
	close(p.to);
	close(p.from);
	waitpid(p.pid, NULL, 0);
	return (double)(clock_now_ns() - begin) / 1e9;
}

/* ---- gpuq map ----------------------------------------------------------------- */

static double measure_map(const char *gpuq, const char *own, const char *folder, long *ret_rss_kb)
{
	char input[4200], output[4200], command[4200];
	struct rusage usage;
	int status;
	snprintf(input, sizeof(input), "%s/in.jsonl", folder);
	snprintf(output, sizeof(output), "%s/out.jsonl", folder);
	snprintf(command, sizeof(command), "%s --speak", own);
	unlink(output);
	uint64_t begin = clock_now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		execl(gpuq, gpuq, "map", "--gpus", "sim:1", "--batch", "64", "--input", input, "--output", output,
			"--worker-command", command, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status != 0)
		errx(1, "gpuq map failed");
	*ret_rss_kb = usage.ru_maxrss;
	return (double)(clock_now_ns() - begin) / 1e9;
}

static void write_input(const char *folder, const char *item, size_t items)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/in.jsonl", folder);
	FILE *f = fopen(path, "w");
	for (size_t i = 0; f && i < items; i++)
		fprintf(f, "%s\n", item);
	if (!f || fclose(f) != 0)
		err(1, "%s", path);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void compare(const char *gpuq, const char *own, const char *folder, size_t items)
{
	static const char item[] =
		"\"Tell me in one sentence why the sky looks blue at noon and red in the evening, please.\"";
	struct text message = {0};
	double ratios[PAIRS], bare = 0, map = 0;
	long rss_kb = 0;
	text_append_string(&message, "{\"type\":\"items\",\"id\":1234567,\"items\":[");
	for (int i = 0; i < BATCH; i++)
		json_put_raw(&message, NULL, item, strlen(item));
	text_append_string(&message, "]}\n");
	write_input(folder, item, items);
	for (int i = 0; i < PAIRS; i++) {
		map = measure_map(gpuq, own, folder, &rss_kb);
		bare = measure_bare(own, &message, items / BATCH);
		ratios[i] = bare / map;
	}
	qsort(ratios, PAIRS, sizeof(*ratios), by_size);
	printf("%zu items in messages of %d: gpuq map %.0f items/s, bare pipe %.0f; median ratio of %d pairs %.2f "
	       "(%.2f to %.2f); peak memory %.1f MiB\n",
		items, BATCH, (double)items / map, (double)items / bare, PAIRS, ratios[PAIRS / 2], ratios[0],
		ratios[PAIRS - 1], (double)rss_kb / 1024);
	text_finish(&message);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--speak") == 0)
		return speak();
	if (argc > 2)
		errx(2, "usage: map [ITEMS]");
	char own[4096], gpuq[4200], folder[] = "/dev/shm/gpuq-map-XXXXXX", command[256];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	if (n <= 0 || !mkdtemp(folder))
		err(1, "%s", folder);
	own[n] = '\0';
	snprintf(gpuq, sizeof(gpuq), "%.*s/../gpuq", (int)(strrchr(own, '/') - own), own);
	compare(gpuq, own, folder, argc == 2 ? strtoull(argv[1], NULL, 10) : 1000000);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) != 0;
}
