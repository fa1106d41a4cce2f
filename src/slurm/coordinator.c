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
#include "base/lock.h"
#include "base/loop.h"
#include "slurm/coordinating.h"
#include "slurm/coordinator_hooks.h"
#include "slurm/listener.h"
#include "slurm/pilot_supply.h"
#include "slurm/secret.h"

/* Shortest interval between two reports that the journal has changed. */
#define WATCH_NS (20 * NS_PER_MS)

void coordinating_die(struct coordinator *c, int code)
{
	if (!c->fatal)
		c->fatal = code;
}

/* ---- The loop --------------------------------------------------------------------------- */

/* Appends c->to_append; keeps the lines while a foreign lock prevents that. */
static int append_fails(struct coordinator *c)
{
	if (c->to_append.length == 0)
		return 0;
	int e = text_error(&c->to_append);
	if (e == 0)
		e = coordinator_journal_append_lines(c->journal, c->to_append.data, c->to_append.length, &c->error);
	if (e == LOCK_BLOCKED)
		return 0;
	text_clear(&c->to_append);
	c->must_read = true;
	return e;
}

static void do_due(struct coordinator *c)
{
	do {
		int e = 0;
		if (c->must_read) {
			c->must_read = false;
			e = coordinator_journal_read(c->journal, &c->error);
			if (e < 0)
				coordinating_die(c, e);
		}
		if (!c->fatal && (e = append_fails(c)) < 0)
			coordinating_die(c, e);
		coordinating_post_answers(c);
		/* If lines are kept, one of them may give up a hook that still appears to be due. */
		if (!c->must_read && !c->fatal && c->to_append.length == 0)
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
	/* Every line that this process appends is reported, too. */
	if (loop_change(c->watch, 0) == 0)
		c->watch_again_ns = clock_now_ns() + WATCH_NS;
}

/* Returns when to call it again; 0: it is being watched. */
static uint64_t watch_again(struct coordinator *c)
{
	if (c->watch_again_ns && clock_now_ns() >= c->watch_again_ns && loop_change(c->watch, EPOLLIN) == 0)
		c->watch_again_ns = 0;
	return c->watch_again_ns;
}

static void say_blocked(struct coordinator *c)
{
	const char *words = coordinator_journal_blocked_words(c->journal);
	cleanup_(text_finish) struct text t = {0};
	if (!words == !c->blocked_told)
		return;
	c->blocked_told = words;
	text_appendf(&t, "%s; %s", words ? words : "the error is gone", words ? "retrying" : "continuing");
	coordinating_say(c, text_string(&t));
}

static void plan(struct coordinator *c)
{
	uint64_t publish = coordinating_publish(c);
	uint64_t wake = coordinator_core_wake_ns(c->core), look = clock_now_ns() + JOURNAL_LOOK_MS * NS_PER_MS;
	wake = wake && wake < look ? wake : look;
	uint64_t hooks = coordinator_hooks_wake_ns(c->hooks);
	wake = hooks && hooks < wake ? hooks : wake;
	uint64_t watch = watch_again(c);
	wake = watch && watch < wake ? watch : wake;
	uint64_t blocked = coordinator_journal_blocked_ns(c->journal);
	wake = blocked && blocked < wake ? blocked : wake;
	wake = publish && publish < wake ? publish : wake;
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
	if (!c->fatal && (e = coordinating_watch_begin(c)) < 0)
		coordinating_die(c, e);
	if (c->options.on_ready && !c->fatal)
		c->options.on_ready(c->options.context);
	while (!c->fatal && !c->superseded && !c->leaving) {
		do_due(c);
		if (c->fatal || c->superseded || coordinating_try_leave(c))
			break;
		say_blocked(c);
		plan(c);
		e = loop_round(c->loop, -1);
		if (e < 0)
			coordinating_die(c, e);
	}
	coordinating_count_left(c);
	coordinating_watch_end(c);
	*ret = c->result;
	if (c->superseded)
		return error_set(err, -ESTALE, "another coordinator now runs this queue");
	if (c->fatal)
		return error_set(
			err, c->fatal, "%s", c->error.code == c->fatal ? c->error.message : error_words(c->fatal));
	return !c->interrupts && !c->leaving && coordinating_is_refused(c, err) ? -EINVAL : 0;
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
	if (c->watch_fd >= 0 && loop_add(c->loop, c->watch_fd, EPOLLIN, on_watch, c, &c->watch) < 0)
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
	/* The scheduler treats this as a cluster from the start, although no node has connected yet. */
	return cluster_nodes_tell(&c->nodes, c->scheduler, clock_now_ns());
}

static int open_listener(struct coordinator *c, struct gd_error *err)
{
	struct coordinator_settings settings = {0};
	coordinator_journal_settings(c->journal, &settings);
	int e = secret_load_or_create(c->options.journal->dir_fd, c->secret, err);
	if (e == 0)
		e = listener_open(&(struct listener_options){.loop = c->loop,
					  .dir_fd = c->options.journal->dir_fd,
					  .towards = c->options.towards,
					  .secret = c->secret,
					  .epoch = settings.epoch,
					  .ops = &coordinating_link_ops,
					  .context = c},
			&c->listener, err);
	return e;
}

int coordinator_create(
	const struct coordinator_options *options, struct coordinator **ret, pid_t *ret_holder, struct gd_error *err)
{
	struct coordinator *c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "cannot start the coordinator: out of memory");
	c->options = *options;
	c->options.order.folder = options->journal->dir_path;
	c->signal_fd = c->watch_fd = c->sync.fd = -1;
	signal(SIGPIPE, SIG_IGN);
	int e = open_loop(c);
	if (e < 0)
		error_set(err, e, "cannot start the coordinator: %s", error_words(e));
	if (e == 0)
		e = order_defaults_save(&c->options.order, options->journal, err);
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
		error_set(err, e, "cannot start the coordinator: %s", error_words(e));
	if (e == 0)
		e = open_listener(c, err);
	if (e == 0 && (e = coordinating_open_supply(c)) < 0)
		error_set(err, e, "cannot start the coordinator: %s", error_words(e));
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
	coordinating_sync_close(c);
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
	coordinating_publish_end(c);
	text_finish(&c->to_append);
	order_defaults_finish(&c->options.order);
	loop_destroy(c->loop);
	closep(&c->watch_fd);
	closep(&c->signal_fd);
	explicit_bzero(c->secret, sizeof(c->secret));
	free(c);
}
