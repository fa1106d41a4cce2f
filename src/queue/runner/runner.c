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
#include "base/host.h"
#include "base/lock.h"
#include "base/loop.h"
#include "gpu/probe.h"
#include "queue/keeper/nursery.h"
#include "queue/runner/allocation_end.h"
#include "queue/runner/runner_begin.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_gpus.h"
#include "queue/runner/runner_home.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_left.h"
#include "queue/runner/runner_lock.h"
#include "queue/runner/runner_orphans.h"
#include "queue/runner/runner_place.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_publish.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_rules.h"
#include "queue/runner/runner_samples.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_signals.h"
#include "queue/runner/runner_sync.h"
#include "queue/runner/runner_unknown.h"
#include "queue/runner/runner_watch.h"
#include "queue/runner/running.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/scheduler.h"

/* ---- Events -------------------------------------------------------------------------- */

static void on_watch(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	journal_watch_drain(r->following.watch_fd, r->following.journal->path);
	r->following.must_read = true;
}

static void set_tick(struct runner *r)
{
	uint64_t next = clock_now_ns() + JOURNAL_LOOK_MS * NS_PER_MS;
	if (r->deciding.pause_until_ns && r->deciding.pause_until_ns < next)
		next = r->deciding.pause_until_ns + NS_PER_MS;
	loop_set_deadline(r->tick, next);
}

static void on_tick(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->following.must_read = r->executing.must_judge = true;
	if (r->deciding.pause_until_ns)
		r->deciding.must_place = true;
	set_tick(r);
	runner_begin_look(r);
	runner_end_look(r);
	(void)runner_home_check(r);
	runner_gpus_reopen(r);
}

static void on_judge(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->executing.must_judge = true;
}

static void on_linger(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->lingering = true;
}

/* ---- Beginning and end ------------------------------------------------------------------ */

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
		e = loop_add_timer(r->loop, on_judge, r, &r->executing.judge);
	if (e == 0)
		e = runner_begin_open(r);
	if (e == 0)
		e = runner_samples_open(r);
	if (e == 0)
		e = runner_publish_open(r);
	if (e < 0)
		return error_set(err, e, "cannot start the runner: %s", error_words(e));
	r->following.watch_fd = journal_watch(r->following.journal->path);
	if (r->following.watch_fd >= 0 && loop_add(r->loop, r->following.watch_fd, EPOLLIN, on_watch, r, NULL) < 0) {
		close(r->following.watch_fd);
		r->following.watch_fd = -1;
	}
	set_tick(r);
	return 0;
}

/* Writes the GPUs in a form that means the same in every shell. */
static void write_rules(struct runner *r)
{
	const char *gpus = r->watching.gpu_spec           ? r->watching.gpu_spec
			   : r->watching.gpus->count == 0 ? RULES_NO_GPUS
							  : r->options.gpus;
	struct runner_rules rules = {.min_free_mem_mb = r->options.min_free_mem_mb,
		.poll_interval_ms = r->options.poll_interval_ms,
		.jobs_per_gpu = r->options.jobs_per_gpu,
		.gpus = gpus ? gpus : "auto"};
	gpu_probe_machine(r->watching.probe, rules.machine);
	(void)runner_rules_write(r->following.lock_fd, &r->machine, &rules);
}

static int open_scheduler(struct runner *r)
{
	int e = scheduler_create(&r->following.jobs, &r->deciding.scheduler);
	if (e < 0)
		return e;
	struct host_limits host;
	host_read(NULL, NULL, &host);
	struct scheduler_settings settings = {
		.rules = {.min_free_mem_mb = r->options.min_free_mem_mb, .jobs_per_gpu = r->options.jobs_per_gpu},
		.cpus = host.cpus,
		.host_bytes = host.memory_known ? host.memory_total_bytes : 0,
		.foreign_pids = gpu_users_foreign_pids(&r->machine),
		.timeout_ms = r->options.order.timeout_ms};
	settings.end_ms = allocation_end_get(settings.end_whose, sizeof(settings.end_whose));
	scheduler_configure(r->deciding.scheduler, &settings);
	return 0;
}

/* This process may already hold the lock, for its previous runner: closing another descriptor would release it. */
static int take_lock(struct runner *r, pid_t *ret_holder, struct gd_error *err)
{
	const struct journal *j = r->following.journal;
	if (r->following.lock_fd >= 0 && runner_lock_keep(j, &r->machine, r->following.lock_fd))
		return 0;
	close_fd(&r->following.lock_fd);
	return runner_lock_take(j, &r->machine, &r->following.lock_fd, ret_holder, err);
}

int runner_create(struct journal *j, const struct runner_options *options, struct runner **ret, pid_t *ret_holder,
	struct gd_error *err)
{
	struct runner *r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, -ENOMEM, "cannot start the runner: out of memory");
	r->following.journal = j;
	r->options = *options;
	r->options.order.folder = j->dir_path;
	r->result.completed = options->so_far.completed;
	r->result.failed = r->deciding.failures = options->so_far.failed;
	r->result.cancelled = options->so_far.cancelled;
	r->following.lock_fd = r->following.watch_fd = r->executing.nursery_fd = r->following.syncer_fd = r->signal_fd =
		-1;
	if (options->so_far.moved)
		r->following.lock_fd = options->so_far.kept_lock;
	r->end.fd = -1;
	r->following.loading = true;
	jobs_init(&r->following.jobs);
	r->following.jobs.on_change = runner_on_change;
	r->following.jobs.on_hook_failed = runner_on_hook_failed;
	r->following.jobs.context = r;
	/* Readers of our output may go away; the jobs continue. */
	signal(SIGPIPE, SIG_IGN);
	allocation_get(r->allocation);
	int e = machine_get(&r->machine);
	if (e == 0)
		e = open_scheduler(r);
	if (e < 0)
		error_set(err, e, "cannot start the runner: %s", error_words(e));
	if (e == 0)
		e = take_lock(r, ret_holder, err);
	if (e == 0)
		e = open_loop(r, err);
	if (e == 0)
		runner_orphans_open(r);
	if (e == 0)
		e = nursery_start(&(struct nursery_options){j->path, j->parent_fd, j->accepted, r->allocation},
			&r->executing.nursery_pid, &r->executing.nursery_fd, err);
	if (e == 0) {
		e = nursery_add_syncer(r->executing.nursery_fd, &r->following.syncer_fd);
		if (e < 0)
			error_set(err, e, "cannot start the runner: cannot start the syncer: %s", error_words(e));
	}
	if (e == 0)
		e = runner_gpus_open(r, err);
	if (e == 0)
		write_rules(r);
	if (e == 0)
		runner_claims_open(r);
	if (e == 0) {
		e = journal_reader_init_at(&r->following.reader, j);
		if (e < 0)
			error_set(err, e, "cannot read journal '%s': %s", j->path, error_words(e));
	}
	if (e < 0) {
		runner_destroy(r);
		return e;
	}
	*ret = r;
	return 0;
}

/* Busy with a job or a hook. Jobs that cannot be killed are not waited for. */
static bool keeper_is_busy(const struct runner *r)
{
	for (const struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		if (k->busy && !(k->running && k->running->stuck))
			return true;
	return false;
}

void runner_destroy(struct runner *r)
{
	if (!r)
		return;
	runner_flush_words(r, true);
	text_finish(&r->words.waiting);
	bool goes_on = r->executing.num_running + r->executing.num_stuck > 0 || keeper_is_busy(r);
	runner_keepers_destroy(r);
	while (r->executing.running)
		running_remove(r->executing.running);
	runner_unknown_forget_all(r);
	runner_end_close(r);
	runner_claims_close(r);
	if (r->loop)
		runner_gpus_close(r);
	gd_gpu_list_free(r->watching.gpus);
	runner_publish_close(r);
	scheduler_destroy(r->deciding.scheduler);
	jobs_finish(&r->following.jobs);
	if (r->following.reader.buf)
		journal_reader_finish(&r->following.reader);
	loop_destroy(r->loop);
	closep(&r->following.watch_fd);
	closep(&r->executing.nursery_fd);
	closep(&r->following.syncer_fd);
	closep(&r->following.lock_fd);
	if (!goes_on)
		runner_orphans_close(r);
	text_finish(&r->following.to_append);
	free(r->executing.leases.leases);
	free(r->following.latest);
	order_defaults_finish(&r->options.order);
	free(r->watching.gpu_spec);
	free(r);
}

/* Whether this runner has nothing left to do. */
static bool is_idle(const struct runner *r)
{
	if (r->executing.num_running > 0 || r->following.to_append.length > 0)
		return false;
	/* Interrupted three times: running hooks continue without us, and due hooks are left to the next runner. */
	if (r->interrupts > 2)
		return true;
	if (runner_hooks_are_due(r))
		return false;
	if (keeper_is_busy(r))
		return false;
	if (r->interrupts || runner_is_full(r))
		return true;
	if (r->deciding.incomplete || scheduler_num_sleeping(r->deciding.scheduler) > 0)
		return false;
	/* After `gpuq resume`, the user expects the jobs to continue. */
	if (r->following.jobs.paused && scheduler_num_waiting(r->deciding.scheduler) > 0)
		return false;
	return scheduler_num_waiting(r->deciding.scheduler) == 0 ||
	       (!scheduler_is_hopeful(r->deciding.scheduler) && !r->deciding.pause_until_ns && !r->deciding.must_place);
}

/* After Ctrl-C, no runner at the new place may start jobs. */
static bool is_moved(const struct runner *r)
{
	return r->moved && !r->interrupts;
}

static bool is_over(const struct runner *r)
{
	return r->fatal || r->leaving || is_moved(r);
}

/* Gives up the lock if there is nothing left to do. No job that a concurrent `add` appends is missed. */
static bool try_leave(struct runner *r)
{
	if (!is_idle(r))
		return false;
	bool forced = r->interrupts > 0;
	/* A runner that cannot start the waiting jobs blocks a runner that can. */
	bool of_no_use = scheduler_num_waiting(r->deciding.scheduler) > 0 && r->options.linger_ms > 0;
	if (!forced && !of_no_use && r->options.linger_ms != 0 && !r->lingering)
		return false;
	if (runner_end_must_wait(r))
		return false;
	/* Taking the lock would create the folder again. */
	(void)runner_home_check(r);
	if (is_over(r))
		return true;
	if (journal_lock(r->following.journal, &r->error) < 0)
		return forced;
	bool leave = runner_read(r) == 0 && is_idle(r) && !r->deciding.must_place;
	if (leave || forced) {
		runner_publish_last(r);
		close_fd(&r->following.lock_fd);
	}
	journal_unlock(r->following.journal);
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
	if (r->deciding.pause_until_ns && clock_now_ns() >= r->deciding.pause_until_ns) {
		r->deciding.pause_until_ns = 0;
		r->deciding.must_place = true;
	}
	do {
		if (r->following.must_read && runner_read(r) < 0)
			return;
		if (r->executing.must_judge)
			runner_judge(r);
		runner_append(r);
		if (r->following.jobs.hooks && !r->following.must_read)
			runner_hooks_run(r);
		if (r->deciding.must_place && !r->following.must_read)
			runner_place(r);
	} while (r->following.must_read && !r->fatal && !r->deciding.pause_until_ns);
}

static void say_unknown(struct runner *r)
{
	const struct jobs *js = &r->following.jobs;
	size_t i = 0;
	while (i < js->count && js->by_id[i]->state != JOB_UNKNOWN)
		i++;
	unsigned long long first = i < js->count ? (unsigned long long)js->by_id[i]->id : 0;
	if (r->result.left_unknown == 1)
		runner_say(r,
			"gpuq: job %llu may or may not have run: its record was lost; use 'gpuq retry %llu' or 'gpuq cancel %llu'\n",
			first, first, first);
	else
		runner_say(r,
			"gpuq: %llu jobs may or may not have run (the first is job %llu): their records were lost; 'gpuq verify' lists "
			"them; use 'gpuq retry ID' or 'gpuq cancel ID'\n",
			(unsigned long long)r->result.left_unknown, first);
}

int runner_run(struct runner *r, struct runner_result *ret, struct gd_error *err)
{
	runner_gpus_say_source(r);
	int e = runner_take_over(r, err);
	if (e < 0)
		return e;
	e = runner_watch_begin(r);
	if (e < 0)
		return error_set(err, e, "cannot start the runner: %s", error_words(e));
	(void)runner_claims_read(r); /* runner_place() retries */
	scheduler_correct_baselines(r->deciding.scheduler);
	runner_publish(r);
	if (r->options.on_ready)
		r->options.on_ready(r->options.context);
	while (!is_over(r)) {
		do_due(r);
		if (is_over(r) || try_leave(r))
			break;
		set_linger(r);
		runner_begin_plan(r);
		runner_samples_plan(r);
		runner_publish(r);
		e = loop_round(r->loop, -1);
		if (e < 0)
			r->fatal = e;
	}
	r->result.moved = is_moved(r) && !r->fatal && !r->leaving;
	if (r->result.moved)
		runner_append(r);
	bool unsaid = r->fatal || r->result.moved; /* the next runner reports what is left */
	runner_sync_now(r);
	r->result.left_stuck = r->executing.num_stuck;
	r->result.left_unknown = r->following.jobs.counts[JOB_UNKNOWN];
	if (r->following.jobs.damaged)
		r->result.left_lost = number_set_size(&r->following.jobs.lost_ids);
	for (const struct running *run = r->executing.running; run; run = run->next)
		r->result.left_elsewhere += run->foreign;
	r->result.left_pending = r->interrupts || r->leaving ? 0 : scheduler_num_waiting(r->deciding.scheduler);
	/* SIGTERM arrived with work left. */
	if (r->leaving && scheduler_num_waiting(r->deciding.scheduler) + scheduler_num_blocked(r->deciding.scheduler) +
					  scheduler_num_sleeping(r->deciding.scheduler) >
				  0)
		r->result.interrupted = true;
	if (r->executing.num_stuck && !unsaid)
		runner_say(r, "gpuq: %zu job%s left running: %s " REASON_STUCK "\n", r->executing.num_stuck,
			r->executing.num_stuck == 1 ? "" : "s", r->executing.num_stuck == 1 ? "it" : "they");
	if (r->result.left_elsewhere && !unsaid)
		runner_say(r, "gpuq: %llu %s running on another machine\n",
			(unsigned long long)r->result.left_elsewhere,
			r->result.left_elsewhere == 1 ? "job is" : "jobs are");
	if (r->result.left_unknown && !unsaid)
		say_unknown(r);
	if (r->result.left_pending && !unsaid)
		runner_say_left_pending(r);
	if (!r->interrupts && !r->leaving && !unsaid)
		runner_say_held(r);
	if (r->result.moved)
		r->result.kept_lock = take_fd(&r->following.lock_fd);
	/* A reader of our output may be slow; the next runner must not wait for it. */
	close_fd(&r->following.lock_fd);
	runner_flush_words(r, true);
	runner_watch_end(r);
	*ret = r->result;
	if (r->fatal)
		return error_set(err, r->fatal, "%s", r->error.code ? r->error.message : error_words(r->fatal));
	return 0;
}
