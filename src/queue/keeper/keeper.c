/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/machine.h"
#include "base/process.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/keeper_private.h"

/* How often processes that are to die are killed again. */
#define KILL_AGAIN_MS 50
/* A process that lives this long after the first SIGKILL is stuck in the kernel, and is killed less often from then on.
 */
#define STUCK_MS       10000
#define STUCK_AGAIN_MS 1000

/* ---- Beginning ------------------------------------------------------------------- */

/* A file of its own, locked; once more if somebody cleaned it away before it was locked. */
static int take_name(struct keeper *k)
{
	for (int tries = 0; tries < 100; tries++) {
		uint64_t random;
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		snprintf(k->name, sizeof(k->name), "k%012llx", (unsigned long long)(random >> 16));
		snprintf(k->lock_name, sizeof(k->lock_name), "keepers/%s", k->name);
		int fd = openat(
			k->journal->dir_fd, k->lock_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return -errno;
		int r = lock_try(fd);
		struct stat st;
		if (r == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
			k->lock_fd = fd;
			return 0;
		}
		close(fd);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return -EEXIST;
}

static int open_journal(struct keeper *k)
{
	const struct nursery_options *o = k->options;
	return journal_open_at(o->parent_fd, o->journal_path, o->accepted, &k->journal, NULL);
}

static int keeper_open(struct keeper *k)
{
	int r = k->journal ? 0 : open_journal(k);
	if (r == 0 && k->lock_fd < 0)
		r = take_name(k);
	if (r < 0 || k->announced)
		return r;
	struct machine m;
	cleanup_(text_finish) struct text t = {0};
	r = machine_get(&m);
	if (r < 0)
		return r;
	record_write_keeper(&t, k->name, getpid(), &m);
	if (text_error(&t))
		return -ENOMEM;
	r = journal_append_line(k->journal, t.data, t.length, NULL);
	k->announced = r == 0;
	return r;
}

/* To the runner, if it still lives. */
static void send_notes(struct keeper *k, const struct keeper_note *notes, size_t count)
{
	if (k->runner_fd >= 0 && file_write_all(k->runner_fd, notes, count * sizeof(*notes)) < 0)
		close_fd(&k->runner_fd);
}

void keeper_send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	send_notes(k, &(struct keeper_note){.kind = kind, .code = code, .id = id}, 1);
}

void keeper_send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code)
{
	struct keeper_note notes[2] = {{.kind = kind, .code = code, .id = id}, {.kind = KEEPER_NOTE_READY}};
	send_notes(k, notes, 2);
}

_Noreturn void keeper_leave(struct keeper *k)
{
	keeper_claim_finish(&k->claim);
	if (k->lock_fd >= 0)
		unlinkat(k->journal->dir_fd, k->lock_name, 0);
	_exit(0);
}

/* ---- Ending the processes of a job ------------------------------------------------- */

/* True when no process of the job is left. */
static bool reap(struct keeper *k)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid == k->pid) {
			k->reaped = true;
			k->status = status;
		} else if (pid < 0) {
			return k->reaped;
		} else if (pid == 0) {
			return false;
		}
	}
}

static void signal_tree(int signal)
{
	process_signal_descendants(getpid(), signal);
	/* One that is stopped would not see it. */
	if (signal != SIGKILL)
		process_signal_descendants(getpid(), SIGCONT);
}

static void end_job(struct keeper *k, const char *reason, bool at_once)
{
	if (reason && !k->reason && !k->reaped)
		k->reason = reason;
	uint64_t now = clock_now_ns();
	if (at_once) {
		k->phase = KEEPER_KILLING;
		k->step_ns = now;
	} else if (k->phase == KEEPER_RUNNING) {
		k->phase = KEEPER_ENDING;
		signal_tree(SIGTERM);
		k->step_ns = now + (uint64_t)k->attempt.order.grace_ms * NS_PER_MS;
	}
}

/* For all who look on: its GPUs take no other job. Where it cannot be written now, it is tried again. */
static void say_stuck(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	record_write_stuck(&line, k->attempt.order.id, k->attempt.order.attempt);
	k->stuck = !text_error(&line) && k->page->stage >= ATTEMPT_STARTED &&
		   journal_append_line(k->journal, line.data, line.length, NULL) == 0;
}

static void on_time(struct keeper *k)
{
	uint64_t now = clock_now_ns();
	if (k->phase == KEEPER_RUNNING && k->deadline_ns && now >= k->deadline_ns)
		end_job(k, REASON_TIMEOUT, false);
	if (k->phase == KEEPER_ENDING && now >= k->step_ns)
		k->phase = KEEPER_KILLING;
	if (k->phase == KEEPER_KILLING && now >= k->step_ns) {
		signal_tree(SIGKILL);
		if (!k->killed_ns)
			k->killed_ns = now;
		if (!k->stuck && now - k->killed_ns >= STUCK_MS * NS_PER_MS)
			say_stuck(k);
		k->step_ns = now + (k->stuck ? STUCK_AGAIN_MS : KILL_AGAIN_MS) * NS_PER_MS;
	}
	if (k->attempt.log.trim_ns && now >= k->attempt.log.trim_ns)
		attempt_log_trim(&k->attempt.log, now);
	keeper_claim_on_time(&k->claim, now, k->runner_fd < 0);
}

/* ---- Orders ------------------------------------------------------------------------- */

/* -EPIPE where the runner left in the middle of it. */
static int read_whole(int fd, void *data, size_t size)
{
	ssize_t n = file_read_full(fd, data, size);
	return n < 0 ? (int)n : (size_t)n < size ? -EPIPE : 0;
}

static int start_job(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	if (r == 0)
		r = keeper_open(k);
	if (r == 0)
		r = attempt_prepare(&k->attempt, k->journal, k->name);
	if (r < 0)
		return r;
	k->attempt.missing = ATTEMPT_PROCESS;
	*k->page = (struct attempt_page){0};
	k->reaped = k->stuck = false;
	k->killed_ns = 0;
	k->reason = NULL;
	k->peak_mem_mb = -1;
	k->gpu_full = false;
	/* Before it can start: from then on the runner relies on it. */
	keeper_claim_take(&k->claim, k->attempt.claim);
	pid_t parent = getpid();
	k->started_ns = clock_now_ns();
	k->pid = fork();
	if (k->pid == 0)
		attempt_exec(&k->attempt, k->journal, k->name, k->page, parent);
	if (k->pid < 0) {
		r = -errno;
		keeper_claim_leave(&k->claim);
		attempt_log_remove(&k->attempt.log);
		return r;
	}
	k->phase = KEEPER_RUNNING;
	k->deadline_ns = order->timeout_ms ? k->started_ns + (uint64_t)order->timeout_ms * NS_PER_MS : 0;
	return 0;
}

/* For an end that somebody else has written. */
static void run_hook(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	if (r == 0)
		r = keeper_open(k);
	if (r == 0)
		r = attempt_prepare_hook(&k->attempt, k->journal, k->name);
	if (r == 0) {
		char *input = k->attempt.payload + (k->attempt.input - k->attempt.payload);
		r = hook_run(&k->attempt, &(struct text){.data = input, .length = strlen(input)}, k->signal_fd);
	}
	attempt_finish(&k->attempt);
	keeper_after_hook(k, r);
}

static void on_order(struct keeper *k)
{
	struct keeper_order o;
	char *payload = NULL;
	int r = read_whole(k->runner_fd, &o, sizeof(o));
	if (r == 0 && o.size) {
		payload = malloc(o.size);
		r = payload ? read_whole(k->runner_fd, payload, o.size) : -ENOMEM;
	}
	if (r < 0) {
		free(payload);
		closep(&k->runner_fd);
		k->runner_fd = -1;
		return;
	}
	if (o.kind == KEEPER_ORDER_RUN && k->phase == KEEPER_IDLE) {
		r = start_job(k, &o, payload);
		if (r < 0) {
			struct keeper_note notes[2] = {
				{.kind = KEEPER_NOTE_REFUSED, .code = r, .id = o.id, .part = k->attempt.missing},
				{.kind = KEEPER_NOTE_READY}};
			attempt_finish(&k->attempt);
			send_notes(k, notes, 2);
		}
		return;
	}
	if (o.kind == KEEPER_ORDER_HOOK && k->phase == KEEPER_IDLE) {
		run_hook(k, &o, payload);
		return;
	}
	free(payload);
	if (k->phase == KEEPER_IDLE || o.id != k->attempt.order.id)
		return;
	if (o.kind == KEEPER_ORDER_SEEN) {
		k->peak_mem_mb = o.peak_mem_mb;
		k->gpu_full = o.gpu_full;
	} else if (o.kind == KEEPER_ORDER_SETTLED) {
		keeper_claim_settle(&k->claim);
	} else {
		end_job(k, o.kind == KEEPER_ORDER_LOST ? REASON_GPU_LOST : REASON_CANCELLED,
			o.kind == KEEPER_ORDER_KILL);
	}
}

/* What was said of a job is heard before its end is told. */
static void on_orders(struct keeper *k)
{
	struct pollfd p;
	do {
		on_order(k);
		p = (struct pollfd){k->runner_fd, POLLIN, 0};
	} while (k->phase != KEEPER_IDLE && k->runner_fd >= 0 && poll(&p, 1, 0) > 0);
}

static void on_signal(struct keeper *k)
{
	struct signalfd_siginfo si;
	bool child = false;
	while (read(k->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			child = true;
		else if (k->phase != KEEPER_IDLE && (uint32_t)si.ssi_int == (uint32_t)k->attempt.order.id)
			end_job(k, keeper_hear_news(k) ? REASON_GPU_LOST : REASON_CANCELLED, si.ssi_signo == SIGUSR2);
	}
	if (!child || k->phase == KEEPER_IDLE)
		return;
	if (reap(k))
		keeper_finish_job(k);
	else if (k->reaped)
		end_job(k, NULL, false); /* what the job left behind ends with it */
}

static int next_timeout_ms(const struct keeper *k)
{
	uint64_t at = k->phase == KEEPER_RUNNING ? k->deadline_ns : k->phase == KEEPER_IDLE ? 0 : k->step_ns;
	uint64_t claim = keeper_claim_due(&k->claim, k->runner_fd < 0);
	uint64_t trim = k->phase == KEEPER_IDLE ? 0 : k->attempt.log.trim_ns;
	if (claim && (!at || claim < at))
		at = claim;
	if (trim && (!at || trim < at))
		at = trim;
	return at ? clock_ms_until(at, clock_now_ns()) : -1;
}

static void keeper_round(struct keeper *k)
{
	struct pollfd fds[2] = {{k->signal_fd, POLLIN, 0}, {k->runner_fd, POLLIN, 0}};
	int n = poll(fds, 2, next_timeout_ms(k));
	if (n < 0)
		return;
	if (k->runner_fd >= 0 && fds[1].revents)
		on_orders(k);
	if (fds[0].revents)
		on_signal(k);
	if (k->phase != KEEPER_IDLE)
		on_time(k);
}

_Noreturn void keeper_main(const struct nursery_options *options, int fd)
{
	struct keeper k = {.options = options, .runner_fd = fd, .lock_fd = -1};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, "gpuq-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	k.page = mmap(NULL, sizeof(*k.page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k.signal_fd < 0 || k.page == MAP_FAILED)
		_exit(1);
	/* A runner that is gone by now may have left an order. */
	(void)file_write_all(fd, &(struct keeper_note){.kind = KEEPER_NOTE_HELLO, .id = (uint64_t)getpid()},
		sizeof(struct keeper_note));
	while (k.runner_fd >= 0 || k.phase != KEEPER_IDLE)
		keeper_round(&k);
	if (k.journal)
		journal_sync(k.journal, NULL);
	keeper_leave(&k);
}
