/* SPDX-License-Identifier: MIT */
#include "slurm/coordinator.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "slurm/coordinating.h"
#include "slurm/coordinator_hooks.h"
#include "slurm/listener.h"
#include "slurm/pilot_supply.h"
#include "slurm/secret.h"

void coordinating_die(struct coordinator *c, int code)
{
	if (!c->fatal)
		c->fatal = code;
}

/* ---- Pilots from Slurm ------------------------------------------------------------------ */

static void on_listed(void *context, const struct slurm_listing *listing)
{
	coordinating_post(context, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = listing});
}

static void on_release(void *context, const char *pilot)
{
	coordinating_post(context, &(struct coordinator_event){.kind = COORDINATOR_RELEASE_PILOT, .pilot = pilot});
}

static void on_words(void *context, const char *words)
{
	coordinating_say(context, words);
}

/* GPUs of the largest pilot that was seen; 0: none was. */
static size_t most_gpus(const struct coordinator *c)
{
	size_t most = 0;
	for (size_t i = 0; i < c->nodes.count; i++)
		most = c->nodes.nodes[i].num_gpus > most ? c->nodes.nodes[i].num_gpus : most;
	return most;
}

/* Jobs that wait for GPUs now, after all that could start has started. A job that is too large is no reason for more.
 */
static struct submission_demand find_demand(const struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	struct submission_demand d = {0};
	size_t most = most_gpus(c);
	if (c->interrupts || c->released || js->paused || coordinating_is_full(c) ||
		!coordinator_core_is_recovered(c->core) || scheduler_num_waiting(c->scheduler) == 0)
		return d;
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		size_t gpus = job->wish->num_gpus < 0 ? 1 : (size_t)job->wish->num_gpus;
		if (job->state != JOB_PENDING || !job->wait.position || (most && gpus > most))
			continue;
		d.waiting_jobs++;
		d.waiting_gpus += gpus;
	}
	return d;
}

static void supply(struct coordinator *c)
{
	struct pilot_info info;
	if (!c->supply || c->fatal || c->superseded)
		return;
	for (size_t i = 0; coordinator_core_pilot(c->core, i, &info); i++)
		pilot_supply_set_busy(c->supply, info.name, info.num_attempts);
	struct submission_demand demand = find_demand(c);
	c->supply_wake_ns = pilot_supply_step(c->supply, &demand);
	coordinating_settle(c);
}

static int open_supply(struct coordinator *c)
{
	static const struct pilot_supply_ops ops = {.listed = on_listed, .release = on_release, .say = on_words};
	struct coordinator_settings settings = {0};
	coordinator_journal_settings(c->journal, &settings);
	if (!c->options.sbatch_options)
		return 0;
	return pilot_supply_create(&(struct pilot_supply_options){.loop = c->loop,
					   .journal = c->options.journal,
					   .epoch = settings.epoch,
					   .sbatch_options = c->options.sbatch_options,
					   .program = c->options.program,
					   .max_nodes = c->options.max_nodes,
					   .ops = &ops,
					   .context = c},
		&c->supply);
}

/* ---- The loop --------------------------------------------------------------------------- */

static int append_fails(struct coordinator *c)
{
	if (c->to_append.length == 0)
		return 0;
	int e = text_error(&c->to_append);
	if (e == 0)
		e = journal_append_line(c->options.journal, c->to_append.data, c->to_append.length, &c->error);
	text_clear(&c->to_append);
	c->must_read = true;
	return e;
}

static void do_due(struct coordinator *c)
{
	do {
		if (c->must_read) {
			c->must_read = false;
			int e = coordinator_journal_read(c->journal, &c->error);
			if (e < 0)
				coordinating_die(c, e);
		}
		if (!c->fatal && append_fails(c) < 0)
			coordinating_die(c, c->error.code);
		coordinating_settle(c);
		if (!c->must_read && !c->fatal)
			coordinator_hooks_run(c);
		if (c->must_place && !c->must_read && !c->fatal)
			coordinating_place(c);
		coordinating_settle(c);
	} while ((c->must_read || c->must_place || c->num_answers) && !c->fatal && !c->superseded);
}

static void on_timer(void *context, uint32_t events)
{
	struct coordinator *c = context;
	(void)events;
	c->must_read = c->must_place = true;
	coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_TICK});
}

static void on_watch(void *context, uint32_t events)
{
	struct coordinator *c = context;
	(void)events;
	journal_watch_drain(c->watch_fd, c->options.journal->path);
	c->must_read = true;
}

/* Nothing runs on pilots, and nothing will. */
static bool is_idle(const struct coordinator *c)
{
	if (c->num_answers || c->must_read || c->to_append.length || coordinating_num_running(c) > 0)
		return false;
	/* Told three times: hooks that run go on, those that are due are left to the next coordinator. */
	if (c->interrupts <= 2 && coordinator_hooks_are_due(c))
		return false;
	return c->interrupts || coordinating_is_full(c) ||
	       scheduler_num_waiting(c->scheduler) + scheduler_num_sleeping(c->scheduler) == 0;
}

/* Also if more may come: those who start a runner in the background, or keep one, want to add more. */
static bool may_leave(struct coordinator *c)
{
	int64_t linger = c->options.linger_ms;
	if (!is_idle(c)) {
		c->idle_since_ns = 0;
		return false;
	}
	uint64_t now = clock_now_ns();
	if (!c->idle_since_ns)
		c->idle_since_ns = now;
	return c->interrupts || linger == 0 || (linger > 0 && now >= c->idle_since_ns + (uint64_t)linger * NS_PER_MS);
}

/* Pilots go first. What is added until the last one has left needs another one: it is left to the next coordinator. */
static bool try_leave(struct coordinator *c)
{
	if (!c->released && may_leave(c)) {
		c->released = true;
		c->left_behind = scheduler_num_waiting(c->scheduler);
		if (c->supply)
			pilot_supply_leave(c->supply);
		coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_LEAVE});
		coordinating_settle(c);
	}
	supply(c);
	return c->released && coordinator_core_num_pilots(c->core) == 0 &&
	       (!c->supply || pilot_supply_num_pending(c->supply) == 0);
}

static void plan(struct coordinator *c)
{
	uint64_t wake = coordinator_core_wake_ns(c->core), look = clock_now_ns() + JOURNAL_LOOK_MS * NS_PER_MS;
	wake = wake && wake < look ? wake : look;
	uint64_t hooks = coordinator_hooks_wake_ns(c->hooks);
	wake = hooks && hooks < wake ? hooks : wake;
	loop_set_deadline(c->timer, c->supply_wake_ns && c->supply_wake_ns < wake ? c->supply_wake_ns : wake);
}

int coordinator_run(struct coordinator *c, struct runner_result *ret, struct gd_error *err)
{
	coordinating_on_reload(c);
	/* Jobs may have been added since the journal was opened. */
	c->must_place = c->must_read = true;
	int e = coordinator_core_begin(c->core, clock_now_ns());
	if (e < 0)
		coordinating_die(c, e);
	coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_TICK});
	if (c->options.on_ready && !c->fatal)
		c->options.on_ready(c->options.context);
	while (!c->fatal && !c->superseded && !c->leaving) {
		do_due(c);
		if (c->fatal || c->superseded || try_leave(c))
			break;
		plan(c);
		e = loop_round(c->loop, -1);
		if (e < 0)
			coordinating_die(c, e);
	}
	/* No job is left between us and an `add`: either we see the job, or `add` sees that the queue has no runner. */
	if (!c->fatal && !c->superseded)
		coordinator_journal_leave(c->journal);
	coordinating_count_left(c);
	*ret = c->result;
	if (c->superseded)
		return error_set(err, -ESTALE, "another coordinator runs this queue now");
	if (c->fatal)
		return error_set(
			err, c->fatal, "%s", c->error.code == c->fatal ? c->error.message : error_words(c->fatal));
	return 0;
}

bool coordinator_has_new(const struct coordinator *c)
{
	return c->released && !c->interrupts && !c->leaving && !coordinating_is_full(c) &&
	       scheduler_num_waiting(c->scheduler) > c->left_behind;
}

/* ---- Beginning and end ------------------------------------------------------------------ */

static int open_loop(struct coordinator *c)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
	int e = loop_create(&c->loop);
	if (e == 0)
		e = loop_add_signals(c->loop, signals, coordinating_on_signal, c, &c->signal_fd);
	if (e == 0)
		e = loop_add_timer(c->loop, on_timer, c, &c->timer);
	if (e < 0)
		return e;
	c->watch_fd = journal_watch(c->options.journal->path);
	if (c->watch_fd >= 0 && loop_add(c->loop, c->watch_fd, EPOLLIN, on_watch, c, NULL) < 0)
		close_fd(&c->watch_fd);
	return 0;
}

static int open_core(struct coordinator *c)
{
	struct coordinator_settings settings = {.lease_ms = c->options.lease_ms, .silence_ms = c->options.silence_ms};
	coordinator_journal_settings(c->journal, &settings);
	int e = coordinator_core_create(&settings, &c->core);
	if (e == 0)
		e = coordinator_journal_restore(c->journal, c->core);
	if (e == 0)
		e = scheduler_create(coordinator_journal_jobs(c->journal), &c->scheduler);
	if (e < 0)
		return e;
	scheduler_configure(
		c->scheduler, &(struct scheduler_settings){.rules = {.min_free_mem_mb = c->options.min_free_mem_mb,
								   .jobs_per_gpu = c->options.jobs_per_gpu},
				      .foreign_pids = true,
				      .timeout_ms = c->options.order.timeout_ms});
	return 0;
}

static int open_listener(struct coordinator *c, struct gd_error *err)
{
	struct coordinator_settings settings = {0};
	uint8_t secret[MAC_KEY_SIZE];
	coordinator_journal_settings(c->journal, &settings);
	int e = secret_load_or_create(c->options.journal->dir_fd, secret, err);
	if (e == 0)
		e = listener_open(&(struct listener_options){.loop = c->loop,
					  .dir_fd = c->options.journal->dir_fd,
					  .towards = c->options.towards,
					  .secret = secret,
					  .epoch = settings.epoch,
					  .ops = &coordinating_link_ops,
					  .context = c},
			&c->listener, err);
	explicit_bzero(secret, sizeof(secret));
	return e;
}

int coordinator_create(
	const struct coordinator_options *options, struct coordinator **ret, pid_t *ret_holder, struct gd_error *err)
{
	struct coordinator *c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "starting the coordinator: out of memory");
	c->options = *options;
	c->signal_fd = c->watch_fd = -1;
	signal(SIGPIPE, SIG_IGN);
	int e = open_loop(c);
	if (e < 0)
		error_set(err, e, "starting the coordinator: %s", error_words(e));
	if (e == 0)
		e = coordinator_order_surroundings(options->journal, &c->options.order, err);
	if (e == 0)
		e = coordinator_hooks_open(c, &c->hooks, err);
	if (e == 0)
		e = coordinator_journal_open(&(struct coordinator_journal_options){.journal = options->journal,
						     .lease_ms = options->lease_ms ? options->lease_ms : 900000,
						     .takeover = options->takeover,
						     .on_change = coordinating_on_change,
						     .on_reload = coordinating_on_reload,
						     .on_hook_failed = coordinator_hooks_failed,
						     .context = c},
			&c->journal, ret_holder, err);
	if (e == 0 && (e = open_core(c)) < 0)
		error_set(err, e, "starting the coordinator: %s", error_words(e));
	if (e == 0)
		e = open_listener(c, err);
	if (e == 0 && (e = open_supply(c)) < 0)
		error_set(err, e, "starting the coordinator: %s", error_words(e));
	if (e < 0) {
		coordinator_destroy(c);
		return e;
	}
	*ret = c;
	return 0;
}

void coordinator_destroy(struct coordinator *c)
{
	if (!c)
		return;
	pilot_supply_destroy(c->supply);
	listener_close(c->listener);
	coordinator_hooks_close(c->hooks);
	while (c->num_peers)
		link_destroy(c->peers[--c->num_peers].link);
	free(c->peers);
	while (c->num_answers)
		free(c->answers[--c->num_answers].ends);
	free(c->answers);
	scheduler_destroy(c->scheduler);
	coordinator_core_destroy(c->core);
	coordinator_journal_close(c->journal);
	cluster_nodes_finish(&c->nodes);
	text_finish(&c->to_append);
	free(c->options.order.cwd);
	loop_destroy(c->loop);
	closep(&c->watch_fd);
	closep(&c->signal_fd);
	free(c);
}
