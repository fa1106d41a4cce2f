/* SPDX-License-Identifier: MIT */
/* `gpuq exec` before its command runs. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/units.h"
#include "cli/background.h"
#include "cli/exec_parts.h"
#include "cli/gpus_option.h"
#include "cli/say.h"
#include "queue/journal/record.h"
#include "queue/runner/verdicts.h"

#define LOOK_NS      NS_PER_S
#define LOOK_SOON_NS (50 * NS_PER_MS)
/* Checks are slow in a long queue: they take at most 1/PART of the time. */
#define PART 20
/* A starting runner, or a job that is about to start, is not reported before this time. */
#define SILENCE_NS        (3 * NS_PER_S)
#define MOST_LOST_RUNNERS 3
/* --no-wait: a job that is about to start does so within this time. */
#define NO_WAIT_NS (30 * NS_PER_S)

struct waiting {
	struct exec *exec;
	int signal_fd;
	uint64_t begin_ns, next_look_ns;
	uint64_t deadline_ns;  /* 0: no deadline */
	unsigned lost_runners; /* consecutive runners that ended before they were ready */
	struct text words;     /* why the job waited at the last check */
};

/* The current state of the job; NULL with an error if it is gone or has ended. */
static const struct job *find_job(struct exec *e)
{
	const struct job *job = jobs_find(&e->follow.jobs, e->id);
	const char *reason = job ? job_reason(job) : NULL;
	if (!job)
		error_set(&e->err, -ENOENT, "cannot wait for job %" PRIu64 ": it was removed from the queue", e->id);
	else if (job->state == JOB_CANCELLED && !job->attempts)
		error_set(&e->err, -ECANCELED, "job %" PRIu64 " was cancelled before it started%s%s", e->id,
			reason ? ": " : "", reason ? reason : "");
	else if (job->state == JOB_FAILED && !job->attempts)
		error_set(&e->err, -ECANCELED, "job %" PRIu64 " was not started: %s", e->id, reason ? reason : "");
	else if (job->state == JOB_UNKNOWN)
		error_set(&e->err, -EIO,
			"job %" PRIu64 " is unknown: a record of it was lost; run 'gpuq verify' for details", e->id);
	else
		return job;
	return NULL;
}

/* Withdraws the job from the queue. 1: too late, the command was started. */
static int withdraw(struct exec *e, const char *reason)
{
	cleanup_(text_finish) struct text t = {0};
	struct gd_error err = {0};
	record_write_control(&t, EVENT_CANCEL, e->id, reason);
	int r = text_error(&t);
	if (r == 0)
		r = journal_lock(e->journal, &err);
	if (r < 0)
		return r;
	r = follow_update(&e->follow, &err);
	const struct job *job = jobs_find(&e->follow.jobs, e->id);
	bool waits = job && (job->state == JOB_PENDING || job->state == JOB_HELD);
	if (r == 0 && waits)
		r = journal_raise_fence(e->journal, &err);
	if (r == 0 && waits)
		r = journal_append(e->journal, t.data, t.length, NULL, &err);
	journal_unlock(e->journal);
	return r < 0 ? r : job && job->attempts;
}

/* The same because of an error, whose message is in e->err. 0: the command was started after all. */
static int give_up(struct exec *e, const char *reason)
{
	return withdraw(e, reason) == 1 ? 0 : e->err.code;
}

/* A runner on another machine has other GPUs, and cannot start anything here. */
static int check_host(struct exec *e)
{
	struct runner_rules rules;
	struct machine here;
	if (machine_get(&here) < 0 || runner_rules_read(e->follow.dir_fd, &rules) < 0)
		return 0;
	int r = strcmp(rules.host, here.host) == 0
			? 0
			: error_set(&e->err, -EREMOTE,
				  "cannot wait for job %" PRIu64
				  ": the runner of this queue is on host '%s'; run 'gpuq exec' there, or use another queue",
				  e->id, rules.host);
	runner_rules_finish(&rules);
	return r;
}

/* Starts a new runner if the last one has ended, for whatever reason. */
static int keep_runner(struct waiting *w, const struct job *job)
{
	struct exec *e = w->exec;
	bool active = follow_runner(&e->follow) != 0;
	gpus_option_settle(active);
	if (active) {
		w->lost_runners = 0;
		return check_host(e);
	}
	if (job->state != JOB_PENDING)
		return 0;
	background_say_unused(&e->queue);
	int r = background_start(&e->queue, e->journal->dir_fd, NULL, BACKGROUND_READY_SOON_MS, &e->err);
	/* The runner was killed before it could report why; the next check tries again. */
	return (r == -ECHILD || r == -EAGAIN) && ++w->lost_runners < MOST_LOST_RUNNERS ? 0 : r;
}

/* late: report what the job waits for even if the runner has not published a reason yet. */
static int explain(struct waiting *w, const struct job *job, bool late)
{
	struct exec *e = w->exec;
	struct verdicts *v = NULL;
	struct scheduler_verdict verdict;
	cleanup_(text_finish) struct text obstacle = {0};
	const struct job *at = NULL;
	int r = verdicts_open(&e->follow, NULL, NULL, VERDICTS_QUICK, &v, &e->err);
	if (r < 0)
		return r;
	text_clear(&w->words);
	r = verdicts_get(v, job, &verdict);
	if (r == 0)
		r = verdicts_brief(v, job, &w->words);
	if (r == 0 && job->state == JOB_PENDING)
		r = verdicts_obstacle(v, job, &obstacle, &at);
	if (r == 0 && job->state == JOB_HELD)
		text_appendf(&w->words, "it is held; 'gpuq release %" PRIu64 "' releases it", e->id);
	size_t position = verdicts_position(v, job);
	verdicts_close(v);
	if (r < 0 || text_error(&w->words) || text_error(&obstacle))
		return error_set(
			&e->err, r < 0 ? r : -ENOMEM, "cannot read the queue: %s", error_words(r < 0 ? r : -ENOMEM));
	if (obstacle.length && at == job)
		return error_set(&e->err, -ENODEV, "job %" PRIu64 " %s", e->id, text_string(&obstacle));
	bool stopped = job->state == JOB_HELD || e->follow.jobs.paused;
	if (e->no_wait && stopped)
		return error_set(&e->err, -EBUSY, "the job cannot start now: %s", text_string(&w->words));
	if (e->no_wait && verdict.answer == SCHEDULER_WAITS)
		return error_set(&e->err, -EBUSY, "no GPU is free now: %s", text_string(&w->words));
	if (verdict.answer == SCHEDULER_WAITS || stopped || late)
		exec_notice_waiting(&e->notice, e->id, position, text_string(&w->words));
	return 0;
}

static int look(struct waiting *w)
{
	struct exec *e = w->exec;
	uint64_t begin = clock_now_ns();
	const struct job *job = find_job(e);
	if (!job)
		return e->err.code;
	if (job->attempts || begin < w->next_look_ns)
		return 0;
	/* If no runner could start the job, a new one would not help: explain() checks that before keep_runner() starts
	 * one, except the first time. */
	int r = w->next_look_ns ? 0 : keep_runner(w, job);
	if (r == 0)
		r = explain(w, job, begin - w->begin_ns > SILENCE_NS);
	if (r == 0 && w->next_look_ns)
		r = keep_runner(w, job);
	uint64_t now = clock_now_ns(), pause = (now - begin) * PART, least = e->no_wait ? LOOK_SOON_NS : LOOK_NS;
	w->next_look_ns = now + (pause > least ? pause : least);
	if (r < 0)
		return give_up(e, "it could not start");
	if (w->deadline_ns && now >= w->deadline_ns) {
		error_set(&e->err, -ETIMEDOUT, "job %" PRIu64 " did not start in time: %s", e->id,
			text_string(&w->words));
		return give_up(e, "it waited too long");
	}
	return 0;
}

static int wait_ms(const struct waiting *w)
{
	uint64_t now = clock_now_ns(), at = now + JOURNAL_LOOK_MS * NS_PER_MS;
	if (w->next_look_ns < at && w->next_look_ns > now)
		at = w->next_look_ns;
	if (w->deadline_ns && w->deadline_ns < at)
		at = w->deadline_ns;
	return clock_ms_until(at, now);
}

/* Ctrl-C and similar signals withdraw the job; a command that was started in the meantime gets the signal. */
static int on_signal(struct waiting *w, int *ret_signal)
{
	struct exec *e = w->exec;
	struct signalfd_siginfo si;
	if (read(w->signal_fd, &si, sizeof(si)) != sizeof(si))
		return 0;
	if (si.ssi_signo == SIGCONT) {
		/* The shell has written to the terminal in the meantime. */
		e->notice.drawn = false;
		w->next_look_ns = 1;
		return 0;
	}
	*ret_signal = (int)si.ssi_signo;
	if (withdraw(e, "interrupted while it waited") != 1)
		return -EINTR;
	(void)lease_send(e->lease.fd, &(struct lease_message){.kind = LEASE_SIGNAL, .code = *ret_signal});
	return 0;
}

/* The command may still be refused: then the next check shows the line again. */
static void on_starting(struct waiting *w, const char *gpus)
{
	struct exec *e = w->exec;
	exec_notice_clear(&e->notice);
	if (!e->quiet && (e->notice.told || (e->shell && isatty(STDERR_FILENO))))
		say("job %" PRIu64 " runs%s%s", e->id, gpus, e->shell ? "; exit the shell to release it" : "");
	(void)lease_send(e->lease.fd, &(struct lease_message){.kind = LEASE_GO});
	w->next_look_ns = clock_now_ns() + LOOK_NS;
}

static int on_keeper(struct waiting *w, struct lease_message *ret)
{
	struct exec *e = w->exec;
	int r = lease_receive(e->lease.fd, ret);
	if (r < 0)
		return error_set(&e->err, r, "cannot wait for job %" PRIu64 ": its keeper was killed", e->id);
	if (ret->kind != LEASE_STARTING)
		return 1;
	on_starting(w, ret->words);
	return 0;
}

/* 1: *ret is the outcome of the command. */
static int step(struct waiting *w, struct lease_message *ret, int *ret_signal)
{
	struct exec *e = w->exec;
	struct pollfd fds[3] = {{w->signal_fd, POLLIN, 0}, {e->lease.fd, POLLIN, 0}, {e->follow.watch_fd, POLLIN, 0}};
	int r = follow_update(&e->follow, &e->err);
	if (r == 0)
		r = look(w);
	if (r < 0 || poll(fds, 3, wait_ms(w)) < 0)
		return r;
	if (fds[2].revents)
		journal_watch_drain(e->follow.watch_fd, e->follow.path);
	if (fds[1].revents)
		return on_keeper(w, ret);
	return fds[0].revents ? on_signal(w, ret_signal) : 0;
}

static sigset_t stop_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGCONT);
	return set;
}

void exec_block_signals(void)
{
	const sigset_t set = stop_signals();
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int exec_wait(struct exec *e, struct lease_message *ret, int *ret_signal)
{
	uint64_t now = clock_now_ns();
	struct waiting w = {.exec = e, .begin_ns = now};
	const sigset_t set = stop_signals();
	cleanup_(closep) int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return error_set(&e->err, -errno, "cannot wait: %s", error_words(errno));
	w.signal_fd = signal_fd;
	if (e->no_wait)
		w.deadline_ns = now + NO_WAIT_NS;
	else if (e->wait_ms)
		w.deadline_ns = now + e->wait_ms * NS_PER_MS;
	int r;
	while ((r = step(&w, ret, ret_signal)) == 0)
		;
	text_finish(&w.words);
	exec_notice_clear(&e->notice);
	return r == 1 ? 0 : r;
}
