/* SPDX-License-Identifier: MIT */
/*
 * The data of a pool, for the files that implement it.
 *
 * `lock` guards all fields below it in the struct, and each slot's inbox: only its holder writes there. Callbacks are
 * made without it, by the one thread that polls. Fields that only that thread uses are above the lock.
 *
 * Every accepted task is in exactly one place: one of the three backlogs, a slot's table, the held results, or with the
 * polling thread. It counts as outstanding until its callback has been made. A task stays in its slot's table while the
 * polling thread concludes it, until task.over is set because it has ended or is in another place; until then it can be
 * cancelled.
 */
#ifndef POOL_PRIVATE_H
#define POOL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "gpu_dispatch.h"
#include "pool/held_results.h"
#include "pool/histogram.h"
#include "pool/pool_hints.h"
#include "pool/slot.h"
#include "pool/tally.h"
#include "pool/warden.h"

#define POOL_CANCELLED_WORDS "cancelled before it began"

struct gd_draft {
	struct gd_pool *pool;
	struct task task;
	size_t reserved;         /* bytes; the committed size may be smaller */
	struct slot *slot;       /* in whose inbox it is written; NULL: elsewhere */
	struct channel orphaned; /* the inbox of a worker that died meanwhile; we drop it */
	struct gd_draft *next;
};

struct gd_pool {
	struct gd_options options; /* their pointers belong to the caller and are used only by gd_pool_open() */
	struct gd_worker_ops ops;
	struct gd_callbacks callbacks;
	void (*on_gone)(void *context); /* see pool_serve_run(); NULL: the pool does not belong to a run */
	void *gone_context;
	char *program, *output_dir; /* for messages; NULL: none */
	bool trust_output;          /* see pool_open_trusted() */
	struct warden_plan plan;
	struct warden warden;
	struct gd_env_change **env_changes; /* what the plan points to, by slot */
	char ***environments;
	char **output_paths;
	int settings_fd;

	int epoll_fd;
	int event_fd;
	int timer_fd; /* see balance.c */
	size_t num_slots;
	struct slot *slots;

	/* Used by the polling thread only. */
	uint64_t arm;
	bool in_callback;
	bool closing;          /* gd_pool_close() */
	uint64_t timer_at;     /* when timer_fd expires; 0: it is not set */
	bool timer_soon;       /* it expires within a millisecond, for pool_balance() */
	uint64_t restart_at;   /* when to retry starts that failed; 0: there are none */
	size_t setups_running; /* see setups.c */
	size_t setups_waiting;
	uint64_t setups_asked;
	size_t setups_spared;
	bool signalled;       /* event_fd is readable */
	bool woken_by_signal; /* the last wait was ended by a signal */
	unsigned turns;
	unsigned looks; /* how long to spin before the next sleep: see channel_look() */
	uint64_t progress_at;
	uint64_t progress_seen;
	struct held_results held;
	bool warden_gone;
	bool stuck; /* a worker could not be killed */
	int made;   /* callbacks, in this gd_pool_poll() */

	/* Used by any thread. */
	atomic_int stop; /* number of stops requested */
	atomic_bool interrupted;
	_Atomic uint64_t ended; /* tasks whose callback was made; only the polling thread counts */
	atomic_size_t large;    /* large payloads of tasks that have not ended */
	struct tally tally;     /* only the polling thread counts */
	atomic_uint waiting;    /* threads in gd_pool_submit() or gd_pool_reserve() */
	atomic_bool room_told;  /* these threads were woken since they began to wait */
	atomic_bool no_more;    /* no more tasks are expected: see gd_pool_expect_no_more() */
	atomic_bool cancelling; /* pool_cancel_turn() has something to do */

	pthread_mutex_t lock;
	pthread_cond_t room;
	pthread_t poller;
	int stop_done;          /* number of stops carried out */
	bool closed;            /* no more tasks: stopped or no worker left */
	int closed_why;         /* what gd_pool_submit() returns then */
	size_t limit;           /* of outstanding tasks */
	atomic_size_t doomed;   /* tasks in the backlog whose payload is lost: see struct task */
	_Atomic uint64_t taken; /* places in the queue that were ever taken; only the lock's holder counts */
	uint64_t next_id;
	size_t last_size; /* of the last task taken */
	struct clock_cache clock;
	uint64_t submitted_ns; /* when the last small task was submitted */
	uint64_t pace_ns;      /* recent average interval between them */
	bool stalled;          /* a task could not be handed out, for a reason other than lack of space */
	bool untimed;          /* the polling thread may be asleep, with no timer for the above or for pool_balance() */
	bool maybe_idle;       /* some worker may be idle */
	bool fair;             /* see fair_start.c */
	uint64_t fair_until_ns; /* 0: no worker is ready yet */
	struct backlog backlog;
	struct backlog again;     /* failed tasks that are retried, or repeated alone */
	struct backlog cancelled; /* tasks that only wait for their callback */
	struct gd_draft *drafts;
	size_t cursor; /* the slot that had the last task */
	size_t alive;  /* slots that can still process tasks */
	struct gd_stats stats;
	struct histogram durations;
};

/*
 * Places of tasks whose callback has not been made. Counted in two halves, so that neither needs a locked instruction.
 */
static inline size_t pool_outstanding(const struct gd_pool *p)
{
	uint64_t ended = atomic_load_explicit(&p->ended, memory_order_acquire);
	return (size_t)(atomic_load_explicit(&p->taken, memory_order_relaxed) - ended);
}

/* The requested level of stop: a fourth request is the same as the third. */
static inline int pool_stop_asked(const struct gd_pool *p)
{
	int asked = atomic_load(&p->stop);
	return asked < 3 ? asked : 3;
}

/*
 * Whether submitters wait and were not yet woken for the free space. They are woken when the polling thread runs out of
 * answers, or earlier when half of the places are free: waking them for each place would cost more than a task.
 */
static inline bool pool_owes_room(const struct gd_pool *p, size_t most_outstanding)
{
	return atomic_load_explicit(&p->waiting, memory_order_relaxed) > 0 &&
	       !atomic_load_explicit(&p->room_told, memory_order_relaxed) && pool_outstanding(p) <= most_outstanding;
}

static inline bool pool_has_waiting(const struct gd_pool *p)
{
	return !backlog_is_empty(&p->backlog) || !backlog_is_empty(&p->again);
}

/* hand_out.c, with the lock held */
struct pool_wish {
	int avoid;      /* avoid this slot unless there is no other; or -1 */
	int on_gpu;     /* number of a GPU, plus one: only its workers, as long as it has any; 0: all */
	bool only_idle; /* workers that have no task */
};
struct slot *pool_pick(struct gd_pool *p, struct pool_wish wish);
bool pool_has_gpu(const struct gd_pool *p, int gpu); /* whether a worker there is ready, or may become ready */
void pool_hand_out(struct gd_pool *p);
void pool_give_back(struct gd_pool *p, struct slot *s, uint64_t from);

/* fair_start.c, with the lock held; the last three while p->fair is set */
void fair_start_ready(struct gd_pool *p, const struct slot *s); /* a worker is ready */
struct slot *fair_start_pick(struct gd_pool *p, int avoid);     /* a slot that has had no task yet, or NULL */
bool fair_start_holds(struct gd_pool *p);             /* all waiting tasks are kept for workers that are not ready */
uint64_t fair_start_wait_ns(const struct gd_pool *p); /* when to check again; 0: never */

/* balance.c */
bool pool_wants_balance(struct gd_pool *p);
bool pool_has_surplus(struct gd_pool *p); /* with the lock held: tasks that another worker could begin at once */
void pool_balance(struct gd_pool *p);
void pool_take_back(struct gd_pool *p, struct slot *s,
	uint64_t lowest); /* takes back the tasks that it has not begun, from there on */

/* cancel.c */
void pool_cancel_task(struct gd_pool *p, const struct task *t); /* with the lock held; the task is in no other place */
void pool_cancel_turn(struct gd_pool *p);                       /* concludes these tasks */
void pool_conclude_skipped(struct gd_pool *p, struct task *t);  /* the task was cancelled before it began */

/* lost.c: tasks whose attempt was lost. Tasks that may not have caused that are repeated. */
struct lost {
	uint64_t first; /* sequence numbers: the tasks that the worker had begun and not answered */
	uint64_t begun;
	const struct gd_event *end; /* how the worker ended */
	bool killed;                /* by the warden, because of a task */
};
void pool_conclude_lost(struct gd_pool *p, struct slot *s, const struct lost *lost);
void pool_conclude_timed_out(struct gd_pool *p, struct slot *s, uint64_t seq, struct gd_event *event, bool killed);

/* lifecycle.c: workers begin and end */
void pool_start_worker(struct gd_pool *p, struct slot *s);
void pool_try_starts(struct gd_pool *p); /* retries slots whose worker could not be started */
void pool_read_reports(struct gd_pool *p);
void pool_kill_worker(struct gd_pool *p, struct slot *s);
void pool_retire_slot(struct gd_pool *p, struct slot *s, enum slot_state state, const char *why); /* no more workers */

/* setups.c: turns; used by the polling thread only */
bool setups_take_turn(struct gd_pool *p, struct slot *s); /* false: it waits for setups_next() */
void setups_give_turn(struct gd_pool *p, struct slot *s);
struct slot *setups_next(struct gd_pool *p);          /* the next that has a turn; NULL: none */
struct slot *setups_needed(struct gd_pool *p);        /* a spared slot that is needed now; NULL: none */
bool setups_spare(struct gd_pool *p, struct slot *s); /* no task needs a worker there, for now */
void setups_forget(struct gd_pool *p, struct slot *s);
void setups_end(struct gd_pool *p); /* asks running setups to end; waiting ones are not started */

/* recycle.c: workers that are asked to clean up and leave */
void pool_close_worker(struct gd_pool *p, struct slot *s); /* if it is ready */
void pool_recycle(struct gd_pool *p);

/* death.c: describes how a worker ended, in an event's fields and its message */
void death_describe(const struct gd_pool *p, const struct slot *s, const struct warden_report *r,
	struct gd_event *event, char *words, size_t size);
void death_describe_broken(const struct slot *s, char *words, size_t size); /* s->broken is set */

/* answers.c: reads one slot's outbox; returns how many records there were */
size_t pool_read_answers(struct gd_pool *p, struct slot *s);

/* conclude.c: the end of a task */
/* Fills the event of a task, field by field: clearing it first, or copying it, would cost more than everything else. */
static inline void pool_event_init(struct gd_event *e, const struct slot *s, const struct task *t)
{
	e->size = sizeof(*e);
	e->id = t->id;
	e->tag = t->tag;
	e->slot = s ? s->index : -1;
	e->gpu = s ? s->gpu : -1;
	e->attempt = s ? t->tries + 1 : t->tries;
	e->queued_ns = t->queued_ns;
	e->started_ns = 0;
	e->ended_ns = 0;
	e->task.data = t->data;
	e->task.size = t->size;
	e->result.data = NULL;
	e->result.size = 0;
	e->failure = GD_FAILURE_NONE;
	e->code = 0;
	e->signal = 0;
	e->address = 0;
	e->message = "";
	e->timeout_ms = t->timeout_ms;
	e->internal = NULL;
}
/* Puts a task of a slot's table back to be tried again. False if it was cancelled, or out of memory. */
struct requeue {
	int tries;
	int avoid;
	bool alone;
};
bool pool_requeue(struct gd_pool *p, struct task *t, struct requeue how);
void pool_conclude(struct gd_pool *p, struct task *t, struct gd_event *event); /* frees or requeues the task */
void pool_conclude_success(struct gd_pool *p, struct task *t, const struct gd_event *event); /* the same, faster */
void pool_announce_now(struct gd_pool *p, const struct slot *s, struct task *t, uint64_t start_ns);
static inline void pool_announce(struct gd_pool *p, const struct slot *s, struct task *t, uint64_t start_ns)
{
	if (p->callbacks.on_task_start && !t->announced)
		pool_announce_now(p, s, t, start_ns);
}
void pool_call(struct gd_pool *p, gd_callback *callback, const struct gd_event *event);
void pool_cancel_waiting(struct gd_pool *p, enum gd_failure failure, const char *words);
void pool_conclude_doomed(struct gd_pool *p);
void pool_tell_room(struct gd_pool *p);            /* wakes threads that wait for space; without the lock */
void pool_close_queue(struct gd_pool *p, int why); /* stops accepting tasks; with the lock held */

/* poll.c: one turn of everything that can be done without waiting; then waiting */
void pool_turn(struct gd_pool *p);
void pool_wait(struct gd_pool *p, uint64_t deadline_ns, bool for_tasks); /* for_tasks: until none is outstanding */
void pool_progress_now(struct gd_pool *p, bool last);
static inline void pool_progress(struct gd_pool *p, bool last)
{
	if (p->callbacks.on_progress)
		pool_progress_now(p, last);
}
void pool_signal(struct gd_pool *p); /* makes the descriptor readable */

/* With the lock held, by any thread: something waits for a timer of the polling thread. */
static inline void pool_need_timer(struct gd_pool *p)
{
	if (!p->untimed)
		return;
	p->untimed = false;
	pool_signal(p);
}

/*
 * With the lock held, after a slot was given a task. A task behind others may have to be taken back, see
 * pool_balance(); the warden watches its time limit.
 */
static inline void pool_given(struct gd_pool *p, const struct slot *s, int64_t timeout_ms)
{
	if (p->maybe_idle && slot_in_flight(s) > 1)
		pool_need_timer(p);
	if (timeout_ms)
		warden_notice(&p->warden);
}

/* stop.c: carries out requested stops */
void pool_stop_turn(struct gd_pool *p);

/* plan.c: data for the warden about each slot */
int plan_fill(struct gd_pool *p, struct bindings *bindings, struct gd_error *err); /* takes the environments */
void plan_free(struct gd_pool *p);

#endif
