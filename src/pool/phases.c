/* SPDX-License-Identifier: MIT */
/*
 * The time limits of setup and cleanup.
 *
 * A setup that exceeds its time limit, or that the owner wants to end, has the grace period to return: `setup_end`. A
 * setup that cannot be interrupted gets no grace period.
 */
#include "pool/warden_private.h"

#define READY_LOOK_NS (10 * NS_PER_MS) /* how often to check whether the owner has read that a late setup is done */

/*
 * The record of a finished setup is available, but the owner may be busy in a callback. The setup's time ends only when
 * the owner has read the record, because a broken worker may withdraw it before.
 */
static bool says_ready(const struct ward *ward)
{
	const struct outbox *out = ward->channel.out;
	uint64_t consumed = atomic_load(&ward->channel.in->consumed);
	uint64_t head = atomic_load(&out->head);
	for (uint64_t seq = consumed; head - consumed <= RING_DEPTH && seq != head; seq++)
		if (ring_at(outbox_descs(out), seq)->kind == RING_READY)
			return true;
	return false;
}

/* From now on the setup has no time limit. */
static void setup_over(struct ward *ward)
{
	ward->phase_deadline = ward->setup_end = 0;
	ward->flags &= ~(unsigned)WARDEN_END_SETUP_TIMEOUT;
}

static bool is_over(uint64_t deadline, uint64_t now)
{
	return deadline && now >= deadline;
}

static bool setup_is_interruptible(const struct ward *ward)
{
	return atomic_load(&ward->channel.out->interruptible) & CHANNEL_INTERRUPT_SETUP;
}

/* Notifies a setup that it has exceeded its time limit. */
static void time_out(const struct warden_process *w, struct ward *ward, uint64_t now)
{
	uint32_t goes_on = SETUP_GOES_ON;
	ward->phase_deadline = 0;
	ward->setup_end = earlier(ward->setup_end, now + w->plan->grace_ns);
	if (atomic_compare_exchange_strong(&ward->channel.in->ending, &goes_on, SETUP_TIMED_OUT))
		ward->flags |= WARDEN_END_SETUP_TIMEOUT;
}

static struct phase_look kill_now(struct warden_process *w, struct ward *ward, unsigned reason, uint64_t now)
{
	ward_kill(w, ward, reason, now);
	return (struct phase_look){.next = ward->kill_deadline, .only = true};
}

static struct phase_look check_setup(struct warden_process *w, struct ward *ward, uint64_t now)
{
	bool late = is_over(ward->setup_end, now) || is_over(ward->phase_deadline, now);
	if (late && says_ready(ward))
		return (struct phase_look){.next = now + READY_LOOK_NS, .only = true};
	if (is_over(ward->setup_end, now))
		return kill_now(w, ward, ward->flags & WARDEN_END_SETUP_TIMEOUT ? 0 : WARDEN_END_ORDERED, now);
	if (is_over(ward->phase_deadline, now)) {
		if (!setup_is_interruptible(ward))
			return kill_now(w, ward, WARDEN_END_SETUP_TIMEOUT, now);
		time_out(w, ward, now);
	}
	uint64_t next = earlier(ward->phase_deadline, ward->setup_end);
	if (ward->setup_end && setup_is_interruptible(ward) && !atomic_load(&ward->channel.out->setup_interrupted)) {
		ward_interrupt(ward);
		next = earlier(next, now + look_interval(w->plan->grace_ns));
	}
	return (struct phase_look){.next = next};
}

struct phase_look phases_check(struct warden_process *w, struct ward *ward, uint64_t now)
{
	if (ward->kill_deadline) /* dying; the reaper gives it up if it does not end */
		return (struct phase_look){.next = ward->kill_deadline, .only = true};
	if (!ward->closing) {
		if (atomic_load(&ward->channel.in->ready))
			setup_over(ward);
		return check_setup(w, ward, now);
	}
	if (is_over(ward->phase_deadline, now))
		return kill_now(w, ward, WARDEN_END_CLEANUP_TIMEOUT, now);
	return (struct phase_look){.next = ward->phase_deadline};
}
