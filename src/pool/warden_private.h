/* SPDX-License-Identifier: MIT */
/* Data shared by the two sides of the warden: see warden.h. */
#ifndef POOL_WARDEN_PRIVATE_H
#define POOL_WARDEN_PRIVATE_H

#include "base/clock.h"
#include "pool/channel.h"
#include "pool/warden.h"

struct warden_shared {
	_Atomic uint32_t asleep; /* wake the warden for tasks with a time limit */
	struct {
		_Atomic int32_t exec_error; /* written between fork and exec */
		_Atomic uint64_t large;     /* the last life that has grown too large */
	} notes[];                          /* by slot */
};

/* A worker process as the warden sees it. */
struct ward {
	pid_t pid; /* 0: none */
	uint64_t life;
	struct channel channel;
	unsigned flags;          /* enum warden_end: why we kill it */
	bool closing;            /* WARDEN_ORDER_CLOSE was given */
	uint64_t phase_deadline; /* of setup or cleanup; 0: none */
	uint64_t setup_end;      /* deadline of a setup that was asked to end; 0: not asked */
	uint64_t kill_deadline;  /* when to give up after SIGKILL; 0: not sent */
	uint64_t oom_kills;      /* the kernel's count when the worker began */

	bool watching;       /* the worker is processing task `watched` */
	uint64_t watched;    /* sequence number */
	uint64_t mark;       /* of its record, when we first saw it */
	uint64_t limit_ns;   /* its time limit; 0: none */
	uint64_t since;      /* when it began, as observed */
	uint64_t looked;     /* time of the last check */
	uint64_t seen_head;  /* head of the inbox at that time */
	uint64_t grace_end;  /* deadline of cancelled tasks; 0: there are none */
	uint64_t grace_last; /* the last of these tasks */

	bool report_due; /* the socket was full */
	struct warden_report report;
};

/* The warden's own side. */
struct warden_process {
	const struct warden_plan *plan;
	struct warden_shared *shared;
	size_t shared_size;
	struct ward *wards;
	int socket;
	struct pidref parent; /* the pool's owner */
	int wake_fd;
	int signal_fd;
	pid_t pid;
	bool ending;
	uint64_t end_deadline;
	uint64_t sample_at; /* when to check the workers' memory */
};

_Noreturn void warden_main(struct warden_process *w);

/* In the child, after the fork: becomes the worker of this slot. */
_Noreturn void worker_enter(const struct warden_process *w, size_t slot, const int fds[WARDEN_ORDER_FDS]);

/* deadlines.c: cancels and kills tasks that are out of time. Returns when to check again (0: no timer needed). */
uint64_t deadlines_check(struct warden_process *w, uint64_t now);

/* warden_memory.c: notes workers that are too large. Returns when to check again (0: no timer needed). */
uint64_t memory_check(struct warden_process *w, uint64_t now);

/*
 * phases.c: the time limits of setup and cleanup. Returns when to check again (0: no timer needed). Tasks of a worker
 * that is being killed, or is late with its setup, are not checked.
 */
struct phase_look {
	uint64_t next;
	bool only; /* nothing else matters now */
};
struct phase_look phases_check(struct warden_process *w, struct ward *ward, uint64_t now);

/* How often to check something that takes about this long. */
static inline uint64_t look_interval(uint64_t timeout_ns)
{
	uint64_t ns = timeout_ns / 4;
	if (ns < NS_PER_MS)
		return NS_PER_MS;
	return ns > NS_PER_S ? NS_PER_S : ns;
}

/* The earlier of two times, of which 0 means never. */
static inline uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Sends the signal that interrupts a hook. */
void ward_interrupt(const struct ward *ward);

/* Sends SIGKILL to the worker and its group. */
void ward_kill(struct warden_process *w, struct ward *ward, unsigned reason, uint64_t now);

#endif
