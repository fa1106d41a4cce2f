/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/loop.h"
#include "gpu/probe.h"
#include "queue/keeper/nursery.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_gpus.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_orphans.h"
#include "queue/runner/runner_place.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_rules.h"
#include "queue/runner/runner_samples.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_signals.h"
#include "queue/runner/runner_sync.h"
#include "queue/runner/runner_watch.h"
#include "queue/runner/running.h"
#include "queue/schedule/pending.h"

/* ---- Events -------------------------------------------------------------------------- */

static void on_watch(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	journal_watch_drain(r->watch_fd, r->journal->path);
	r->must_read = true;
}

static void set_tick(struct runner *r)
{
	uint64_t next = clock_now_ns() + JOURNAL_LOOK_MS * NS_PER_MS;
	if (r->pause_until_ns && r->pause_until_ns < next)
		next = r->pause_until_ns + NS_PER_MS;
	loop_set_deadline(r->tick, next);
}

static void on_tick(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->must_read = r->must_judge = true;
	if (r->pause_until_ns)
		r->must_place = true;
	set_tick(r);
	runner_gpus_reopen(r);
}

static void on_judge(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->must_judge = true;
}

static void on_linger(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->lingering = true;
}

/* ---- Beginning and end ------------------------------------------------------------------ */

static int take_lock(struct runner *r, pid_t *ret_holder, struct gd_error *err)
{
	int fd = openat(r->journal->dir_fd, "runner.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(err, -errno, "opening '%s/runner.lock': %s", r->journal->dir_path, error_words(errno));
	for (;;) {
		int e = lock_try(fd);
		if (e == 0)
			break;
		if (e == -EAGAIN && lock_holder(fd, ret_holder) == 0 && *ret_holder == 0)
			continue; /* it has just left */
		close(fd);
		return e == -EAGAIN ? -EBUSY : journal_lock_words(r->journal, e, err);
	}
	r->lock_fd = fd;
	/* For people who ask why: the lock holds without it. */
	(void)runner_rules_write(fd, &r->machine, NULL);
	return 0;
}

static int open_loop(struct runner *r, struct gd_error *err)
{
	int e = loop_create(&r->loop);
	if (e == 0)
		e = runner_signals_open(r);
	if (e == 0)
		e = loop_add_timer(r->loop, on_tick, r, &r->tick);
	if (e == 0)
		e = loop_add_timer(r->loop, on_linger, r, &r->linger);
	if (e == 0)
		e = runner_sync_open(r);
	if (e == 0)
		e = loop_add_timer(r->loop, on_judge, r, &r->judge);
	if (e == 0)
		e = runner_samples_open(r);
	if (e < 0)
		return error_set(err, e, "starting the runner: %s", error_words(e));
	r->watch_fd = journal_watch(r->journal->path);
	if (r->watch_fd >= 0 && loop_add(r->loop, r->watch_fd, EPOLLIN, on_watch, r, NULL) < 0) {
		close(r->watch_fd);
		r->watch_fd = -1;
	}
	set_tick(r);
	return 0;
}

/* The GPUs in words that mean the same in every shell. */
static void write_rules(struct runner *r)
{
	const char *gpus = r->gpu_spec ? r->gpu_spec : r->gpus->count == 0 ? RULES_NO_GPUS : r->options.gpus;
	struct runner_rules rules = {.min_free_mem_mb = r->options.min_free_mem_mb,
		.poll_interval_ms = r->options.poll_interval_ms,
		.jobs_per_gpu = r->options.jobs_per_gpu,
		.gpus = gpus ? gpus : "auto"};
	gpu_probe_machine(r->probe, rules.machine);
	(void)runner_rules_write(r->lock_fd, &r->machine, &rules);
}

int runner_create(struct journal *j, const struct runner_options *options, struct runner **ret, pid_t *ret_holder,
	struct gd_error *err)
{
	struct runner *r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, -ENOMEM, "starting the runner: out of memory");
	r->journal = j;
	r->options = *options;
	r->lock_fd = r->watch_fd = r->nursery_fd = r->syncer_fd = r->signal_fd = -1;
	r->loading = true;
	r->max_cpu_jobs = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
	jobs_init(&r->jobs);
	r->jobs.on_change = runner_on_change;
	r->jobs.context = r;
	/* Who reads what we say may go; the jobs go on. */
	signal(SIGPIPE, SIG_IGN);
	int e = machine_get(&r->machine);
	if (e < 0)
		error_set(err, e, "starting the runner: %s", error_words(e));
	if (e == 0)
		e = take_lock(r, ret_holder, err);
	if (e == 0)
		e = open_loop(r, err);
	if (e == 0)
		runner_orphans_open(r);
	if (e == 0)
		e = nursery_start(&(struct nursery_options){j->path, j->parent_fd, j->accepted}, &r->nursery_pid,
			&r->nursery_fd, err);
	if (e == 0)
		e = nursery_add_syncer(r->nursery_fd, &r->syncer_fd);
	if (e == 0)
		e = runner_gpus_open(r, err);
	if (e == 0)
		write_rules(r);
	if (e == 0)
		runner_claims_open(r);
	if (e == 0)
		e = journal_reader_init_at(&r->reader, j);
	if (e < 0) {
		runner_destroy(r);
		return e;
	}
	*ret = r;
	return 0;
}

void runner_destroy(struct runner *r)
{
	if (!r)
		return;
	runner_flush_words(r, true);
	text_finish(&r->words);
	runner_keepers_destroy(r);
	runner_hooks_close(r);
	while (r->running)
		running_remove(r->running);
	runner_claims_close(r);
	if (r->loop)
		runner_gpus_close(r);
	gd_gpu_list_free(r->gpus);
	free(r->notes);
	ledger_finish(&r->ledger);
	placement_reservation_finish(&r->reservation);
	pending_destroy(r->pending);
	jobs_finish(&r->jobs);
	if (r->reader.buf)
		journal_reader_finish(&r->reader);
	loop_destroy(r->loop);
	closep(&r->watch_fd);
	closep(&r->nursery_fd);
	closep(&r->syncer_fd);
	closep(&r->lock_fd);
	text_finish(&r->to_append);
	free(r->latest);
	free(r->own_cwd);
	free(r->gpu_spec);
	free(r);
}

/* Whether there is nothing that this runner could still do. */
static bool is_idle(const struct runner *r)
{
	if (r->num_running > 0 || r->to_append.length > 0)
		return false;
	/* Told three times: hooks that run go on without us, those that are due are left to the next runner. */
	if (r->interrupts > 2)
		return true;
	if (r->hooks)
		return false;
	/* A hook may still run. */
	for (const struct runner_keeper *k = r->keepers; k; k = k->next)
		if (k->busy && !(k->running && k->running->stuck))
			return false;
	bool full = r->options.max_failures && r->failures >= (uint64_t)r->options.max_failures;
	if (r->interrupts || full)
		return true;
	return pending_count(r->pending) == 0 || (!r->waits_for_gpu && !r->pause_until_ns && !r->must_place);
}

/* Gives up the lock if there is really nothing to do: no job is left lying between us and an `add`. */
static bool try_leave(struct runner *r)
{
	if (!is_idle(r))
		return false;
	bool forced = r->interrupts > 0;
	/* One that cannot start what is there stands in the way of one that can. */
	bool of_no_use = pending_count(r->pending) > 0 && r->options.linger_ms > 0;
	if (!forced && !of_no_use && r->options.linger_ms != 0 && !r->lingering)
		return false;
	if (journal_lock(r->journal, &r->error) < 0)
		return forced;
	bool leave = runner_read(r) == 0 && is_idle(r) && !r->must_place;
	if (leave || forced)
		close_fd(&r->lock_fd);
	journal_unlock(r->journal);
	return leave || forced;
}

static void set_linger(struct runner *r)
{
	bool idle = is_idle(r);
	if (idle && r->options.linger_ms > 0 && !r->settle) {
		loop_set_deadline(r->linger, clock_now_ns() + (uint64_t)r->options.linger_ms * NS_PER_MS);
		r->settle = r->linger;
	} else if (!idle && r->settle) {
		loop_set_deadline(r->linger, 0);
		r->settle = NULL;
		r->lingering = false;
	}
}

static void do_due(struct runner *r)
{
	runner_flush_words(r, false);
	if (r->pause_until_ns && clock_now_ns() >= r->pause_until_ns) {
		r->pause_until_ns = 0;
		r->must_place = true;
	}
	do {
		if (r->must_read && runner_read(r) < 0)
			return;
		if (r->must_judge)
			runner_judge(r);
		runner_append(r);
		if (r->hooks)
			runner_hooks_run(r);
		if (r->must_place && !r->must_read)
			runner_place(r);
	} while (r->must_read && !r->fatal && !r->pause_until_ns);
}

int runner_run(struct runner *r, struct runner_result *ret, struct gd_error *err)
{
	if (r->gpus->count == 0)
		runner_say(r, "gpuq: there is no GPU; simulated ones: --gpus sim:4\n");
	int e = runner_take_over(r, err);
	if (e < 0)
		return e;
	e = runner_watch_begin(r);
	if (e < 0)
		return error_set(err, e, "starting the runner: %s", error_words(e));
	if (r->options.on_ready)
		r->options.on_ready(r->options.context);
	while (!r->fatal && !r->leaving) {
		do_due(r);
		if (r->fatal || try_leave(r))
			break;
		set_linger(r);
		runner_samples_plan(r);
		e = loop_round(r->loop, -1);
		if (e < 0)
			r->fatal = e;
	}
	runner_sync_now(r);
	r->result.left_stuck = r->num_stuck;
	r->result.left_pending = r->interrupts || r->leaving ? 0 : pending_count(r->pending);
	/* Told to go, with work left. */
	if (r->leaving && pending_count(r->pending) + r->num_blocked > 0)
		r->result.interrupted = true;
	if (r->num_stuck && !r->fatal)
		runner_say(r, "gpuq: %zu left running, for %s " REASON_STUCK "\n", r->num_stuck,
			r->num_stuck == 1 ? "it" : "they");
	if (r->result.left_pending && !r->fatal)
		runner_say(r, "gpuq: %llu left pending; 'gpuq why ID' says why\n",
			(unsigned long long)r->result.left_pending);
	/* Who reads may take his time: the next runner does not wait for that. */
	close_fd(&r->lock_fd);
	runner_flush_words(r, true);
	runner_watch_end(r);
	*ret = r->result;
	if (r->fatal)
		return error_set(err, r->fatal, "%s", r->error.code ? r->error.message : error_words(r->fatal));
	return 0;
}
