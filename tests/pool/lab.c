/* SPDX-License-Identifier: MIT */
#include "lab.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lab_shared *lab_shared;
static char dir[64];

/* ---- Callbacks ---------------------------------------------------------- */

uint64_t lab_number(const struct gd_bytes *bytes)
{
	uint64_t n = 0;
	memcpy(&n, bytes->data ? bytes->data : "", bytes->size < sizeof(n) ? bytes->size : sizeof(n));
	return n;
}

static struct lab_note *next_note(struct lab *lab)
{
	if (lab->num_notes == lab->room) {
		lab->room = lab->room ? lab->room * 2 : 1024;
		lab->notes = realloc(lab->notes, lab->room * sizeof(*lab->notes));
		if (!lab->notes)
			abort();
	}
	return &lab->notes[lab->num_notes++];
}

static int note(struct lab *lab, enum lab_kind kind, const struct gd_event *event)
{
	struct lab_note *n = next_note(lab);
	*n = (struct lab_note){.kind = kind, .event = *event};
	n->task = lab_number(&event->task);
	n->result = lab_number(&event->result);
	snprintf(n->message, sizeof(n->message), "%s", event->message ? event->message : "(null)");
	n->event.task.data = n->event.result.data = NULL;
	n->event.message = NULL;
	lab->count[kind]++;
	if (!lab->on_note)
		return 0;
	struct lab_note copy = *n; /* the test may make more of them */
	return lab->on_note(lab, &copy, event);
}

static int on_success(void *context, const struct gd_event *event)
{
	return note(context, LAB_SUCCESS, event);
}

static int on_error(void *context, const struct gd_event *event)
{
	return note(context, LAB_ERROR, event);
}

static int on_timeout(void *context, const struct gd_event *event)
{
	return note(context, LAB_TIMEOUT, event);
}

static int on_task_start(void *context, const struct gd_event *event)
{
	return note(context, LAB_START, event);
}

static int on_setup_fail(void *context, const struct gd_event *event)
{
	return note(context, LAB_SETUP_FAIL, event);
}

static int on_cleanup_fail(void *context, const struct gd_event *event)
{
	return note(context, LAB_CLEANUP_FAIL, event);
}

static void on_progress(void *context, const struct gd_stats *stats)
{
	struct lab *lab = context;
	lab->progress++;
	lab->last_progress = *stats;
}

static void on_exit_of_run(void *context, const struct gd_stats *stats)
{
	struct lab *lab = context;
	lab->exit_stats = *stats;
	note(lab, LAB_EXIT, &(struct gd_event){.message = ""});
}

static int give(void *context, struct gd_feed *feed)
{
	struct lab *lab = context;
	if (lab->given == lab->tasks)
		return 0;
	if (lab->on_give)
		lab->on_give(lab);
	uint64_t n = lab->given++;
	int r = gd_emit(feed, &n, sizeof(n), (void *)(uintptr_t)(n + 1000));
	return r < 0 ? r : 1;
}

/* ---- A lab -------------------------------------------------------------- */

int lab_setup(void **state)
{
	/* What the machine has, or was told, is not what is tested here. */
	unsetenv("GPUQ_GPUS");
	unsetenv("CUDA_VISIBLE_DEVICES");
	struct lab *lab = calloc(1, sizeof(*lab));
	struct lab_shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!lab || shared == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < sizeof(shared->gates) / sizeof(shared->gates[0]); i++)
		if (sem_init(&shared->gates[i], 1, 0) < 0)
			return -1;
	lab->shared = lab_shared = shared;
	lab->tasks = 10;
	lab->options = (struct gd_options){
		.size = sizeof(lab->options),
		.gpus = "sim:2",
		.context = lab,
		.on_success = on_success,
		.on_error = on_error,
		.on_timeout = on_timeout,
		.on_task_start = on_task_start,
		.on_setup_fail = on_setup_fail,
		.on_cleanup_fail = on_cleanup_fail,
		.on_progress = on_progress,
		.on_exit = on_exit_of_run,
	};
	lab->source = (struct gd_source){.size = sizeof(lab->source), .generator = give, .context = lab};
	*state = lab;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int lab_teardown(void **state)
{
	struct lab *lab = *state;
	gd_destroy(lab->dispatcher);
	munmap(lab->shared, sizeof(*lab->shared));
	lab_shared = NULL;
	free(lab->notes);
	free(lab);
	if (!dir[0])
		return 0;
	int r = nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	dir[0] = '\0';
	return r;
}

const char *lab_dir(void)
{
	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "/tmp/gpu_dispatch-test-XXXXXX");
		if (!mkdtemp(dir))
			fail_msg("mkdtemp: %s", strerror(errno));
	}
	return dir;
}

int lab_run(struct lab *lab, const struct gd_worker_ops *ops)
{
	lab->options.worker = ops;
	if (!lab->dispatcher) {
		int r = gd_create(&lab->options, &lab->dispatcher, &lab->err);
		if (r < 0)
			return r;
	}
	return gd_run(lab->dispatcher, &lab->source, &lab->stats, &lab->err);
}

const struct lab_note *lab_note(const struct lab *lab, enum lab_kind kind, size_t i)
{
	for (size_t k = 0; k < lab->num_notes; k++)
		if (lab->notes[k].kind == kind && i-- == 0)
			return &lab->notes[k];
	return NULL;
}

void lab_assert_complete(const struct lab *lab)
{
	unsigned char *ends = calloc(lab->given + 1, 1);
	assert_non_null(ends);
	for (size_t i = 0; i < lab->num_notes; i++) {
		const struct lab_note *n = &lab->notes[i];
		if (n->kind > LAB_TIMEOUT)
			continue;
		assert_true(n->event.id < lab->given);
		ends[n->event.id]++;
	}
	for (uint64_t id = 0; id < lab->stats.submitted; id++)
		if (ends[id] != 1)
			fail_msg("task %llu ended %d times", (unsigned long long)id, ends[id]);
	free(ends);
	assert_int_equal(lab->count[LAB_EXIT], 1);
	assert_int_equal(lab->notes[lab->num_notes - 1].kind, LAB_EXIT);
}

void lab_assert_contains(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("'%s' is not in: %s", words, text);
}

/* ---- Waiting ------------------------------------------------------------ */

bool lab_pass(int gate)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LAB_WAIT_MS / 1000;
	int r;
	do {
		r = sem_clockwait(&lab_shared->gates[gate], CLOCK_MONOTONIC, &until);
	} while (r < 0 && errno == EINTR);
	return r == 0;
}

void lab_open(int gate)
{
	sem_post(&lab_shared->gates[gate]);
}

bool lab_gone(pid_t pid)
{
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

uint64_t lab_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

size_t lab_status(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	size_t value = 0;
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
			value = strtoul(line + strlen(field) + 1, NULL, 10);
	if (f)
		fclose(f);
	return value;
}

int lab_echo(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	return gd_result(w, task->data, task->size);
}
