/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#include "queue/keeper/allocation.h"
#include "queue/keeper/keeper_job.h"
#include "queue/keeper/keeper_private.h"
#include "queue/keeper/keeper_socket.h"

/* Visitors in one round. */
#define ACCEPTS 64
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
			r = keeper_socket_listen(fd, &k->listen_fd);
			if (r == 0) {
				k->lock_fd = fd;
				return 0;
			}
			unlinkat(k->journal->dir_fd, k->lock_name, 0);
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

int keeper_write_own_line(const struct keeper *k, struct text *ret)
{
	struct machine m;
	int r = machine_get(&m);
	if (r < 0)
		return r;
	record_write_keeper(ret, k->name, getpid(), &m, k->options->allocation);
	return text_error(ret);
}

int keeper_open(struct keeper *k)
{
	int r = k->journal ? 0 : open_journal(k);
	if (r == 0 && k->lock_fd < 0)
		r = take_name(k);
	if (r < 0 || k->announced)
		return r;
	cleanup_(text_finish) struct text t = {0};
	r = keeper_write_own_line(k, &t);
	if (r < 0)
		return r;
	r = journal_append_line(k->journal, t.data, t.length, NULL);
	k->announced = r == 0;
	return r;
}

/* To the runner, if it still lives. */
static void send_notes(struct keeper *k, struct keeper_note *notes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		notes[i].bytes = sizeof(notes[i]);
	if (k->runner.fd >= 0 && !keeper_link_send(&k->runner, notes, count))
		keeper_link_close(&k->runner);
}

static bool send_hello(struct keeper_link *l)
{
	struct keeper_note hello = {
		.bytes = sizeof(hello), .kind = KEEPER_NOTE_HELLO, .code = keeper_protocol, .id = (uint64_t)getpid()};
	return keeper_link_send(l, &hello, 1);
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
		pid_t pid = process_reap(&status);
		if (pid == k->pid) {
			k->reaped = true;
			k->reaped_ns = clock_now_ns();
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

/*
 * Until when a sign that the allocation ends explains the end of the job's first process: at most as long after it as
 * the job took, if the process was not killed. 0: nothing does.
 */
static uint64_t explained_until_ns(const struct keeper *k)
{
	uint64_t took = k->reaped_ns - k->started_ns, most = ALLOCATION_EXIT_MS * NS_PER_MS;
	if (!*k->options->allocation || k->reason || k->page.stage != ATTEMPT_STARTED)
		return 0;
	if (WIFSIGNALED(k->status))
		return k->reaped_ns + ALLOCATION_SIGNAL_MS * NS_PER_MS;
	return k->reaped_ns + (took < most ? took : most);
}

/* Other processes of the job may be left when the first one has ended. */
static bool is_explained(const struct keeper *k, const char *reason)
{
	return strcmp(reason, REASON_INTERRUPTED) == 0 && clock_now_ns() < explained_until_ns(k);
}

static void end_job(struct keeper *k, const char *reason, bool at_once)
{
	if (reason && !k->reason && (!k->reaped || k->phase == KEEPER_HOLDING || is_explained(k, reason)))
		k->reason = reason;
	if (reason && strcmp(reason, REASON_CANCELLED) == 0)
		k->cancel_asked = true;
	/* Without the mark, a keeper that is killed next counts as lost. */
	if (reason && strcmp(reason, REASON_INTERRUPTED) == 0 && k->reason == reason)
		(void)keeper_job_interrupt(k->lock_fd, k->attempt.order.id);
	uint64_t now = clock_now_ns();
	k->paused_ns = 0;
	if (k->phase == KEEPER_HOLDING) {
		k->step_ns = now;
	} else if (at_once) {
		k->phase = KEEPER_KILLING;
		k->step_ns = now;
	} else if (k->phase == KEEPER_RUNNING) {
		k->phase = KEEPER_ENDING;
		signal_tree(SIGTERM);
		k->step_ns = now + (uint64_t)k->attempt.order.grace_ms * NS_PER_MS;
	}
}

void keeper_end_job(struct keeper *k, const char *reason)
{
	end_job(k, reason, false);
}

/* For all who look on: its GPUs take no other job. Where it cannot be written now, it is tried again. */
static void say_stuck(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	record_write_stuck(&line, k->attempt.order.id, k->attempt.order.attempt);
	k->stuck = !text_error(&line) && k->page.stage >= ATTEMPT_STARTED &&
		   journal_append_line(k->journal, line.data, line.length, NULL) == 0;
}

static void on_time(struct keeper *k)
{
	uint64_t now = clock_now_ns();
	if (k->phase == KEEPER_RUNNING && k->warn_ns && !k->paused_ns && now >= k->warn_ns) {
		/* It would end processes that do not handle it: the job's shell, for one. */
		process_signal_catching(getpid(), (int)k->attempt.order.warn_signal);
		k->warn_ns = 0;
		k->warned = true;
	}
	if (k->phase == KEEPER_RUNNING && k->deadline_ns && !k->paused_ns && now >= k->deadline_ns)
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
	if (k->phase == KEEPER_HOLDING && now >= k->step_ns) {
		keeper_finish_job(k);
		return;
	}
	if (k->attempt.log.trim_ns && now >= k->attempt.log.trim_ns)
		attempt_log_trim(&k->attempt.log, now);
	keeper_claim_on_time(&k->claim, now, k->runner.fd < 0);
}

/* ---- Orders ------------------------------------------------------------------------- */

static int start_job(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	k->attempt.front = k->lease ? k->lease->front : NULL;
	if (r == 0)
		r = keeper_open(k);
	/* Before it can start: a journal that loses its `start` would not say who has it. */
	if (r == 0)
		r = keeper_job_write(k->lock_fd, order->id, k->attempt.gpus, order->num_gpus);
	if (r == 0)
		r = attempt_prepare(&k->attempt, k->journal, k->name, &k->cache);
	if (r < 0)
		return r;
	k->attempt.missing = ATTEMPT_PROCESS;
	k->reaped = k->stuck = k->cancel_asked = false;
	k->killed_ns = k->paused_ns = 0;
	k->reason = NULL;
	k->peak_mem_mb = -1;
	k->gpu_full = false;
	k->power_span_ms = 0;
	/* Before it can start: from then on the runner relies on it. */
	keeper_claim_take(&k->claim, k->attempt.claim);
	if (k->lease)
		keeper_lease_starting(k);
	k->started_ns = clock_now_ns();
	pid_t pid = attempt_start(&k->attempt, k->journal, k->name, &k->page);
	if (pid < 0) {
		keeper_claim_leave(&k->claim);
		attempt_log_remove(&k->attempt.log);
		return (int)pid;
	}
	k->pid = pid;
	k->phase = KEEPER_RUNNING;
	k->warned = false;
	k->warn_ns = order->timeout_ms && order->warn_signal && order->warn_before_ms < order->timeout_ms
			     ? k->started_ns + (uint64_t)(order->timeout_ms - order->warn_before_ms) * NS_PER_MS
			     : 0;
	k->deadline_ns = order->timeout_ms ? k->started_ns + (uint64_t)order->timeout_ms * NS_PER_MS : 0;
	if (k->lease && k->page.stage == ATTEMPT_STARTED)
		keeper_lease_started(k);
	return 0;
}

static void on_order_to_end(struct keeper *k, uint32_t kind)
{
	/* A lease is never started again: its end is an ordinary one. */
	bool interrupt = kind == KEEPER_ORDER_INTERRUPT && !k->lease;
	/* The job is over: only the end of the allocation changes what that meant. */
	if (k->phase == KEEPER_HOLDING && !interrupt)
		return;
	end_job(k,
		kind == KEEPER_ORDER_LOST ? REASON_GPU_LOST
		: interrupt               ? REASON_INTERRUPTED
					  : REASON_CANCELLED,
		kind == KEEPER_ORDER_KILL);
}

/* Of the job that is running. */
/* A process that was being forked is not in the list of descendants: those of a second and third look are. */
static void pause_job(struct keeper *k)
{
	if (k->phase != KEEPER_RUNNING || k->paused_ns)
		return;
	k->paused_ns = clock_now_ns();
	for (int i = 0; i < 3; i++)
		process_signal_descendants(getpid(), SIGSTOP);
}

static void resume_job(struct keeper *k)
{
	if (k->phase != KEEPER_RUNNING)
		return;
	process_signal_descendants(getpid(), SIGCONT);
	uint64_t pause_ns = k->paused_ns ? clock_now_ns() - k->paused_ns : 0;
	k->deadline_ns += k->deadline_ns ? pause_ns : 0;
	k->warn_ns += k->warn_ns ? pause_ns : 0;
	k->paused_ns = 0;
}

static void on_order_for_job(struct keeper *k, const struct keeper_order *o)
{
	switch ((enum keeper_order_kind)o->kind) {
	case KEEPER_ORDER_SEEN:
		if (o->peak_mem_mb > k->peak_mem_mb)
			k->peak_mem_mb = o->peak_mem_mb;
		k->gpu_full = o->gpu_full;
		k->mean_power_mw = o->mean_power_mw;
		k->power_span_ms = o->power_span_ms;
		break;
	case KEEPER_ORDER_SETTLED:
		keeper_claim_settle(&k->claim);
		break;
	case KEEPER_ORDER_PAUSE:
		pause_job(k);
		break;
	case KEEPER_ORDER_RESUME:
		resume_job(k);
		break;
	case KEEPER_ORDER_CANCEL:
	case KEEPER_ORDER_KILL:
	case KEEPER_ORDER_LOST:
	case KEEPER_ORDER_INTERRUPT:
		on_order_to_end(k, o->kind);
		break;
	default:
		break; /* of a newer build */
	}
}

static void on_order_to_run(struct keeper *k, const struct keeper_order *o, char *payload)
{
	/* The allocation ends: whoever comes next runs the job. */
	if (k->interrupted) {
		free(payload);
		send_notes(k,
			&(struct keeper_note){
				.kind = KEEPER_NOTE_REFUSED, .code = -EINTR, .id = o->id, .part = ATTEMPT_PROCESS},
			1);
		keeper_link_close(&k->runner);
		return;
	}
	int r = start_job(k, o, payload);
	if (r == 0)
		return;
	struct keeper_note notes[2] = {
		{.kind = KEEPER_NOTE_REFUSED, .code = r, .id = o->id, .part = k->attempt.missing},
		{.kind = KEEPER_NOTE_READY}};
	attempt_finish(&k->attempt);
	if (k->lock_fd >= 0)
		(void)keeper_job_clear(k->lock_fd);
	send_notes(k, notes, 2);
}

/* A later runner: the one before is gone, for this one has runner.lock. */
static void adopt(struct keeper *k, struct keeper_link *visitor)
{
	keeper_link_close(&k->runner);
	k->runner = *visitor;
	*visitor = KEEPER_LINK_NONE;
	k->adopted = true;
	/* Nobody saw whether the job was alone on its GPUs in between. */
	k->power_span_ms = 0;
}

static bool is_work(uint32_t kind)
{
	return kind == KEEPER_ORDER_RUN || kind == KEEPER_ORDER_HOOK;
}

/* The orders that have arrived. A job or a hook is sent only to an idle keeper. */
static void take_orders(struct keeper *k, struct keeper_link *l)
{
	struct keeper_order o;
	uint32_t kind;
	while ((kind = keeper_link_peek(l))) {
		char *payload = NULL;
		int r = keeper_link_take(l, &o, &payload);
		bool own = l == &k->runner &&
			   (k->lease ? keeper_lease_may_start(k) : !k->adopted && k->phase == KEEPER_IDLE);
		if (kind == KEEPER_ORDER_ADOPT && l != &k->runner) {
			adopt(k, l);
			l = &k->runner;
		} else if (kind == KEEPER_ORDER_RUN && own && r == 0) {
			on_order_to_run(k, &o, take_ptr(payload));
		} else if (kind == KEEPER_ORDER_HOOK && own && !k->lease && r == 0) {
			keeper_hook_ordered(k, &o, take_ptr(payload));
		} else if (is_work(kind) && (own || k->lease)) {
			keeper_send_note_and_ready(k, KEEPER_NOTE_REFUSED, o.id, r < 0 ? r : -ECANCELED);
		} else if (k->phase != KEEPER_IDLE && o.id == k->attempt.order.id) {
			on_order_for_job(k, &o);
		}
		free(payload);
	}
}

static void on_link(struct keeper *k, struct keeper_link *l)
{
	bool alive = keeper_link_receive(l);
	int fd = l->fd;
	take_orders(k, l);
	if (!alive && l->fd == fd)
		keeper_link_close(l);
	else if (!alive && k->runner.fd == fd)
		keeper_link_close(&k->runner);
}

/* NULL: no more visitors can be let in. */
static struct keeper_link *free_visitor(struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		if (k->visitors[i].fd < 0)
			return &k->visitors[i];
	return NULL;
}

/* Many at once: other users, who are turned away, must not keep those of this user waiting. */
static void on_visitors(struct keeper *k)
{
	struct keeper_link *l;
	int r = 0;
	for (int i = 0; i < ACCEPTS && (r == 0 || r == -EPERM) && (l = free_visitor(k)); i++) {
		r = keeper_socket_accept(k->listen_fd, &l->fd);
		if (r == 0 && !send_hello(l))
			keeper_link_close(l);
	}
}

/* No process of the job is left. */
static void on_job_over(struct keeper *k)
{
	uint64_t until = explained_until_ns(k);
	if (until <= clock_now_ns()) {
		keeper_finish_job(k);
		return;
	}
	k->phase = KEEPER_HOLDING;
	k->step_ns = until;
}

static void on_signal(struct keeper *k)
{
	struct signalfd_siginfo si[2]; /* one of each kind at most */
	bool child = false, interrupted = false;
	ssize_t n = read(k->signal_fd, si, sizeof(si));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(si[0]); i++) {
		if (si[i].ssi_signo == SIGCHLD)
			child = true;
		else if (si[i].ssi_signo == SIGTERM)
			k->interrupted = interrupted = true;
	}
	if (interrupted && k->phase != KEEPER_IDLE)
		end_job(k, REASON_INTERRUPTED, false);
	if (!child || k->phase == KEEPER_IDLE || k->phase == KEEPER_HOLDING)
		return;
	keeper_lease_look_for_stop(k);
	if (reap(k))
		on_job_over(k);
	else if (k->reaped)
		end_job(k, NULL, false); /* what the job left behind ends with it */
}

static int next_timeout_ms(const struct keeper *k)
{
	uint64_t limit = k->paused_ns ? 0 : k->warn_ns ? k->warn_ns : k->deadline_ns;
	uint64_t at = k->phase == KEEPER_RUNNING ? limit : k->phase == KEEPER_IDLE ? 0 : k->step_ns;
	uint64_t claim = keeper_claim_due(&k->claim, k->runner.fd < 0);
	uint64_t trim = k->phase == KEEPER_IDLE ? 0 : k->attempt.log.trim_ns;
	if (claim && (!at || claim < at))
		at = claim;
	if (trim && (!at || trim < at))
		at = trim;
	return at ? clock_ms_until(at, clock_now_ns()) : -1;
}

void keeper_round(struct keeper *k)
{
	enum { SIGNALS, RUNNER, DOOR, FRONT, FIRST_VISITOR, ALL = FIRST_VISITOR + KEEPER_VISITORS };
	struct pollfd fds[ALL] = {[SIGNALS] = {k->signal_fd, POLLIN, 0},
		[RUNNER] = {k->runner.fd, POLLIN, 0},
		[DOOR] = {free_visitor(k) ? k->listen_fd : -1, POLLIN, 0},
		[FRONT] = {k->lease ? k->lease->fd : -1, POLLIN, 0}};
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		fds[FIRST_VISITOR + i] = (struct pollfd){k->visitors[i].fd, POLLIN, 0};
	int n = poll(fds, ALL, next_timeout_ms(k));
	if (n < 0)
		return;
	/* Before an order to run: a command whose front is gone is not started. */
	if (fds[FRONT].revents)
		keeper_lease_on_front(k);
	/* What was said of a job is heard before its end is told. */
	if (k->runner.fd >= 0 && fds[RUNNER].revents)
		on_link(k, &k->runner);
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		if (k->visitors[i].fd >= 0 && fds[FIRST_VISITOR + i].revents)
			on_link(k, &k->visitors[i]);
	if (fds[DOOR].revents)
		on_visitors(k);
	if (fds[SIGNALS].revents)
		on_signal(k);
	if (k->phase != KEEPER_IDLE)
		on_time(k);
}

int keeper_init(struct keeper *k)
{
	sigset_t set;
	k->lock_fd = k->listen_fd = -1;
	k->runner = KEEPER_LINK_NONE;
	for (size_t i = 0; i < KEEPER_VISITORS; i++)
		k->visitors[i] = KEEPER_LINK_NONE;
	/* All signals are blocked. One to all processes of an allocation tells that it ends. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (*k->options->allocation)
		sigaddset(&set, SIGTERM);
	prctl(PR_SET_NAME, "gpuq-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signal_fd < 0 ? -errno : 0;
}

_Noreturn void keeper_main(const struct nursery_options *options, int fd)
{
	struct keeper k = {.options = options};
	if (keeper_init(&k) < 0)
		_exit(1);
	k.runner.fd = fd;
	if (!send_hello(&k.runner))
		keeper_link_close(&k.runner);
	while ((k.runner.fd >= 0 && !k.adopted) || k.phase != KEEPER_IDLE)
		keeper_round(&k);
	if (k.journal)
		journal_sync(k.journal, NULL);
	keeper_leave(&k);
}
