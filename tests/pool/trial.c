/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

struct board *board;
static bool in_host;

void trial_failed(const char *file, int line, const char *what)
{
	if (in_host) {
		fprintf(stderr, "%s:%d: in a host: %s\n", file, line, what);
		_exit(1);
	}
	print_error("%s:%d: %s\n", file, line, what);
	_fail(file, line);
	abort();
}

void trial_compare(long long a, long long b, const char *file, int line, const char *what)
{
	char words[256];
	if (a == b)
		return;
	snprintf(words, sizeof(words), "%s: %lld and %lld", what, a, b);
	trial_failed(file, line, words);
}

/* ---- The board ---------------------------------------------------------- */

static void board_clear(void)
{
	if (!board) {
		void *page = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		trial_check(page != MAP_FAILED);
		board = page;
	}
	memset(board, 0, sizeof(*board));
}

void board_add_pid(pid_t pid)
{
	int i = atomic_fetch_add(&board->num_pids, 1);
	if (i < BOARD_PIDS)
		atomic_store(&board->pids[i], pid);
}

/* Workers and hosts are other processes: there is nothing to wait on but the word itself. */
void board_await(const atomic_int *word, int at_least)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)TRIAL_WAIT_MS * NS_PER_MS;
	while (atomic_load(word) < at_least) {
		trial_check(clock_now_ns() < deadline);
		poll(NULL, 0, 1);
	}
}

int trial_reply(struct gd_worker *w, const struct job *job)
{
	uint64_t answer = trial_answer(job->number);
	return gd_result(w, &answer, sizeof(answer));
}

/* ---- The books ---------------------------------------------------------- */

static void keep(struct kept *k, const struct gd_event *event)
{
	k->event = *event;
	snprintf(k->message, sizeof(k->message), "%s", event->message);
	k->event.message = k->message;
}

static void note_end(struct trial *t, const struct gd_event *event)
{
	trial_check(event->id < t->room);
	t->ends[event->id]++;
	if (event->id < t->last_id)
		t->out_of_order = true;
	t->last_id = event->id;
	t->by_failure[event->failure]++;
	if (event->failure && event->slot != t->distrusted)
		t->failed_elsewhere++;
	if (event->failure)
		keep(&t->failure, event);
}

static int on_success(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	struct job job;
	uint64_t answer = 0;
	trial_check(event->failure == GD_FAILURE_NONE);
	note_end(t, event);
	t->successes++;
	trial_check(event->task.size >= sizeof(job));
	memcpy(&job, event->task.data, sizeof(job));
	if (event->result.size == sizeof(answer))
		memcpy(&answer, event->result.data, sizeof(answer));
	if (event->slot != t->distrusted && answer != trial_answer(job.number))
		t->wrong++;
	return 0;
}

static int on_error(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	note_end(t, event);
	t->errors++;
	return 0;
}

static int on_timeout(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	trial_check(event->failure == GD_TIMED_OUT);
	note_end(t, event);
	t->timeouts++;
	return 0;
}

static int on_task_start(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	trial_check(event->id < t->room && t->ends[event->id] == 0);
	t->starts++;
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	t->setup_failures++;
	keep(&t->setup_failure, event);
	return 0;
}

static int on_cleanup_fail(void *context, const struct gd_event *event)
{
	struct trial *t = context;
	t->cleanup_failures++;
	keep(&t->cleanup_failure, event);
	return 0;
}

static void on_exit_(void *context, const struct gd_stats *stats)
{
	struct trial *t = context;
	t->exits++;
	t->exit_stats = *stats;
}

void trial_check_books(const struct trial *t)
{
	char words[128];
	for (uint64_t id = 0; id < t->submitted; id++) {
		if (t->ends[id] == 1)
			continue;
		snprintf(words, sizeof(words), "task %llu of %llu was called back %d times", (unsigned long long)id,
			(unsigned long long)t->submitted, t->ends[id]);
		trial_failed(__FILE__, __LINE__, words);
	}
	trial_equal(t->wrong, 0);
	trial_equal(t->successes + t->errors + t->timeouts, t->submitted);
}

/* ---- A trial ------------------------------------------------------------ */

struct trial *trial_new(void)
{
	struct trial *t = calloc(1, sizeof(*t));
	trial_check(t != NULL);
	t->distrusted = -1;
	t->options = (struct gd_options){
		.size = sizeof(t->options),
		.gpus = "sim:2",
		.context = t,
		.on_success = on_success,
		.on_error = on_error,
		.on_timeout = on_timeout,
		.on_task_start = on_task_start,
		.on_setup_fail = on_setup_fail,
		.on_cleanup_fail = on_cleanup_fail,
		.on_exit = on_exit_,
	};
	return t;
}

int trial_setup(void **state)
{
	board_clear();
	*state = trial_new();
	return 0;
}

int trial_teardown(void **state)
{
	struct trial *t = *state;
	free(t->ends);
	free(t);
	return 0;
}

static void make_room(struct trial *t)
{
	if (t->submitted < t->room)
		return;
	size_t room = t->room ? t->room * 2 : 1024;
	unsigned char *ends = realloc(t->ends, room);
	trial_check(ends != NULL);
	memset(ends + t->room, 0, room - t->room);
	t->ends = ends;
	t->room = room;
}

void trial_open(struct trial *t, const struct gd_worker_ops *ops)
{
	struct gd_error err = {0};
	t->options.worker = ops;
	int r = gd_open(&t->options, &t->pool, &err);
	if (r < 0)
		trial_failed(__FILE__, __LINE__, err.message);
}

static void poll_some(struct trial *t)
{
	int r = gd_poll(t->pool, 20);
	trial_check(r >= 0 || r == -ENODEV || r == -ECANCELED);
}

static void submit(struct trial *t, const void *data, size_t size)
{
	uint64_t id, deadline = clock_now_ns() + (uint64_t)TRIAL_WAIT_MS * NS_PER_MS;
	int r;
	while ((r = gd_submit(t->pool, data, size, NULL, GD_NOWAIT, &id)) == -EAGAIN) {
		trial_check(clock_now_ns() < deadline);
		poll_some(t);
	}
	trial_equal(r, 0);
	trial_check(id == t->submitted);
	t->submitted++;
}

void trial_submit(struct trial *t, uint32_t what, uint32_t argument)
{
	make_room(t);
	struct job job = {.what = what, .argument = argument, .number = t->submitted};
	submit(t, &job, sizeof(job));
}

void trial_fill(void *data, size_t size, const struct job *job)
{
	trial_check(size >= sizeof(*job));
	memset(data, (unsigned char)job->number, size);
	memcpy(data, job, sizeof(*job));
}

/* Looked at here and there: at the ends of pages, and at the end. */
bool trial_intact(const struct gd_bytes *task)
{
	struct job job;
	memcpy(&job, task->data, sizeof(job));
	const unsigned char *bytes = task->data;
	for (size_t i = sizeof(job); i < task->size; i += 4093)
		if (bytes[i] != (unsigned char)job.number)
			return false;
	return task->size <= sizeof(job) || bytes[task->size - 1] == (unsigned char)job.number;
}

void trial_submit_sized(struct trial *t, uint32_t what, size_t size)
{
	make_room(t);
	struct job job = {.what = what, .number = t->submitted};
	void *data = malloc(size);
	trial_check(data != NULL);
	trial_fill(data, size, &job);
	submit(t, data, size);
	free(data);
}

void trial_submit_many(struct trial *t, size_t count)
{
	for (size_t i = 0; i < count; i++)
		trial_submit(t, 0, 0);
}

void trial_until(struct trial *t, bool (*condition)(struct trial *t), const char *what)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)TRIAL_WAIT_MS * NS_PER_MS;
	while (!condition(t)) {
		if (clock_now_ns() > deadline)
			trial_failed(__FILE__, __LINE__, what);
		/* With no task there is nothing that gd_poll() would wait for. */
		if (gd_outstanding(t->pool) == 0) {
			struct pollfd p = {.fd = gd_fd(t->pool), .events = POLLIN};
			poll(&p, 1, 5);
		}
		poll_some(t);
	}
}

static bool nothing_outstanding(struct trial *t)
{
	return gd_outstanding(t->pool) == 0;
}

void trial_drain(struct trial *t)
{
	trial_await(t, nothing_outstanding);
	trial_check_books(t);
}

int trial_close(struct trial *t)
{
	struct gd_error err;
	int r = gd_close(t->pool, &t->close_stats, &err);
	t->pool = NULL;
	trial_equal(t->exits, 1);
	trial_check_books(t);
	trial_equal(t->close_stats.submitted, t->submitted);
	trial_equal(t->close_stats.completed, t->successes);
	trial_equal(t->close_stats.failed, t->errors);
	trial_equal(t->close_stats.timeouts, t->timeouts);
	return r;
}

struct gd_worker_stats trial_worker(struct trial *t, int slot)
{
	struct gd_worker_stats stats;
	trial_equal(gd_pool_worker_stats(t->pool, slot, &stats), 0);
	return stats;
}

pid_t trial_pid(struct trial *t, int slot, pid_t not_this)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)TRIAL_WAIT_MS * NS_PER_MS;
	for (;;) {
		struct gd_worker_stats s = trial_worker(t, slot);
		bool ready = s.state == GD_WORKER_IDLE || s.state == GD_WORKER_BUSY;
		if (ready && s.pid > 0 && s.pid != not_this)
			return (pid_t)s.pid;
		trial_check(clock_now_ns() < deadline);
		struct pollfd p = {.fd = gd_fd(t->pool), .events = POLLIN};
		poll(&p, 1, 5);
		gd_poll(t->pool, 0);
	}
}

/* ---- Processes ---------------------------------------------------------- */

/* For a host without a descriptor to spare; a zombie is not gone, then. */
static bool process_reaped(pid_t pid, int timeout_ms)
{
	while (kill(pid, 0) == 0 && timeout_ms-- > 0)
		poll(NULL, 0, 1);
	return kill(pid, 0) < 0;
}

bool process_gone(pid_t pid, int timeout_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0 && errno == EMFILE)
		return process_reaped(pid, timeout_ms);
	if (fd < 0)
		return errno == ESRCH;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;
	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	close(fd);
	return n == 1;
}

bool process_alive(pid_t pid)
{
	return !process_gone(pid, 0);
}

void process_kill(pid_t pid)
{
	trial_check(kill(pid, SIGKILL) == 0);
	trial_check(process_gone(pid, TRIAL_WAIT_MS));
}

pid_t process_parent(pid_t pid)
{
	char path[64], line[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	trial_check(f != NULL);
	trial_check(fgets(line, sizeof(line), f) != NULL);
	fclose(f);
	const char *after_name = strrchr(line, ')');
	int parent = 0;
	trial_check(after_name && sscanf(after_name + 1, " %*c %d", &parent) == 1);
	return (pid_t)parent;
}

static char thread_state(pid_t pid, pid_t tid)
{
	char path[64], line[512] = "", state = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	FILE *f = fopen(path, "re");
	trial_check(f != NULL);
	trial_check(fgets(line, sizeof(line), f) != NULL);
	fclose(f);
	const char *after_name = strrchr(line, ')');
	trial_check(after_name && sscanf(after_name + 1, " %c", &state) == 1);
	return state;
}

void thread_await_asleep(pid_t pid, pid_t tid)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)TRIAL_WAIT_MS * NS_PER_MS;
	for (int in_a_row = 0; in_a_row < 3; in_a_row = thread_state(pid, tid) == 'S' ? in_a_row + 1 : 0) {
		trial_check(clock_now_ns() < deadline);
		poll(NULL, 0, 1);
	}
}

pid_t host_start(int (*host)(void))
{
	fflush(NULL);
	pid_t pid = fork();
	trial_check(pid >= 0);
	if (pid > 0)
		return pid;
	in_host = true;
	_exit(host());
}

void host_check(pid_t host)
{
	int status;
	if (!process_gone(host, 3 * TRIAL_WAIT_MS)) {
		kill(host, SIGKILL);
		waitpid(host, NULL, 0);
		trial_failed(__FILE__, __LINE__, "the host does not end");
	}
	trial_check(waitpid(host, &status, 0) == host);
	trial_equal(status, 0);
}

void host_run(int (*host)(void))
{
	host_check(host_start(host));
}
