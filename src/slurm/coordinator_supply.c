/* SPDX-License-Identifier: MIT */
/* Requests pilots from Slurm according to the jobs of the queue, and decides when the coordinator can exit. */
#include "base/clock.h"
#include "base/lock.h"
#include "slurm/coordinating.h"
#include "slurm/coordinator_hooks.h"
#include "slurm/pilot_supply.h"

/* Number of consecutive pilot failures after which a coordinator that exits with its last job gives up. */
#define GIVE_UP 6
/* How often the supply of pilots is checked while jobs run. */
#define SUPPLY_NS (50 * NS_PER_MS)

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

int coordinating_open_supply(struct coordinator *c)
{
	static const struct pilot_supply_ops ops = {.listed = on_listed, .release = on_release, .say = on_words};
	struct coordinator_settings settings = {0};
	coordinator_journal_settings(c->journal, &settings);
	if (!c->options.num_kinds)
		return 0;
	return pilot_supply_create(&(struct pilot_supply_options){.loop = c->loop,
					   .journal = c->options.journal,
					   .epoch = settings.epoch,
					   .kinds = c->options.kinds,
					   .num_kinds = c->options.num_kinds,
					   .program = c->options.program,
					   .max_nodes = c->options.max_nodes,
					   .give_up = c->options.linger_ms < 0 ? 0 : GIVE_UP,
					   .ops = &ops,
					   .context = c},
		&c->supply);
}

static void tell_need(void *context, const struct placement_need *need, size_t num_jobs)
{
	pilot_supply_need(context, need, num_jobs);
}

/* Reports the jobs that still wait for GPUs after every job that could start was started. */
static void tell_needs(struct coordinator *c)
{
	pilot_supply_begin(c->supply);
	if (!c->interrupts && !coordinating_is_full(c) && !coordinator_journal_jobs(c->journal)->paused)
		scheduler_each_need(c->scheduler, tell_need, c->supply);
}

static void supply(struct coordinator *c)
{
	struct pilot_info info;
	uint64_t now = clock_now_ns();
	if (!c->supply || c->fatal || c->superseded)
		return;
	/* Hundreds of jobs may end in this interval. */
	if (now < c->supply_next_ns && coordinator_core_num_attempts(c->core) > 0) {
		c->supply_wake_ns = c->supply_next_ns;
		return;
	}
	c->supply_next_ns = now + SUPPLY_NS;
	for (size_t i = 0; coordinator_core_pilot(c->core, i, &info); i++)
		pilot_supply_set_busy(c->supply, info.name, info.num_attempts);
	/* Before the core has recovered, the needs are unknown, and pilots that an earlier coordinator left pending
	 * look superfluous. */
	c->supply_wake_ns = 0;
	if (coordinator_core_is_recovered(c->core) || c->released) {
		tell_needs(c);
		c->supply_wake_ns = pilot_supply_step(c->supply);
	}
	coordinating_settle(c);
}

/* ---- Leaving ---------------------------------------------------------------------------- */

bool coordinating_is_refused(const struct coordinator *c, struct gd_error *err)
{
	return c->supply && coordinator_core_num_pilots(c->core) == 0 && pilot_supply_check_refusal(c->supply, err) < 0;
}

/* Whether a job may still start, as far as is known now. */
static bool may_start(const struct coordinator *c)
{
	if (c->interrupts || coordinating_is_full(c) || coordinating_is_refused(c, NULL))
		return false;
	if (scheduler_num_sleeping(c->scheduler) > 0)
		return true;
	return scheduler_num_waiting(c->scheduler) > 0 && !(c->supply && pilot_supply_is_hopeless(c->supply));
}

/* Nothing runs on pilots, and nothing will. Called after each event, so it does not iterate over all jobs. */
static bool is_idle(const struct coordinator *c)
{
	if (c->num_answers || coordinating_is_syncing(c) || c->must_read || c->must_place || c->to_append.length ||
		coordinator_core_num_attempts(c->core) > 0 || may_start(c))
		return false;
	/* After the third interrupt: running hooks continue, due ones are left to the next coordinator. */
	return c->interrupts > 2 || !coordinator_hooks_are_due(c);
}

/* An idle coordinator that was started in the background or kept alive lingers: the user may add more jobs. */
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
	/* In the background nobody sees the message: `gpuq why` shows it for a while. */
	if (linger < 0 && coordinating_is_refused(c, NULL))
		return true;
	return c->interrupts || linger == 0 || (linger > 0 && now >= c->idle_since_ns + (uint64_t)linger * NS_PER_MS);
}

/* Pilots leave first. If jobs are added before the last one has left, new pilots are submitted. */
static void release_all(struct coordinator *c, bool release)
{
	struct pilot_info info;
	if (c->supply && release != c->released)
		pilot_supply_set_leaving(c->supply, release);
	c->released = release;
	/* After an interrupt nothing more can start. */
	if (release && c->interrupts)
		coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_LEAVE});
	for (size_t i = 0; release && coordinator_core_pilot(c->core, i, &info); i++)
		coordinating_post(
			c, &(struct coordinator_event){.kind = COORDINATOR_RELEASE_PILOT, .pilot = info.name});
	coordinating_settle(c);
}

static bool has_pilots(const struct coordinator *c)
{
	return coordinator_core_num_pilots(c->core) > 0 || (c->supply && pilot_supply_num_pending(c->supply) > 0);
}

static bool is_over(void *context)
{
	struct coordinator *c = context;
	return is_idle(c);
}

bool coordinating_try_leave(struct coordinator *c)
{
	supply(c);
	release_all(c, may_leave(c));
	if (!c->released || has_pilots(c) || c->must_read || c->num_answers)
		return false;
	/* No job is missed in a race with `add`, which looks for a runner after it has written its line. */
	int e = coordinator_journal_leave(c->journal, is_over, c, &c->error);
	if (e < 0 && e != LOCK_BLOCKED)
		coordinating_die(c, e);
	return e == 1;
}
