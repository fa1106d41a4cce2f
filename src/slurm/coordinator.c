/* SPDX-License-Identifier: MIT */
#include "slurm/coordinator.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/loop.h"
#include "queue/journal/record.h"
#include "queue/schedule/scheduler.h"
#include "slurm/cluster_nodes.h"
#include "slurm/end_line.h"
#include "slurm/listener.h"
#include "slurm/node_jobs.h"
#include "slurm/outbox.h"
#include "slurm/pilot_supply.h"
#include "slurm/secret.h"

/* A connection of a pilot. */
struct coordinator_peer {
	struct link *link;
	uint64_t number;
};

/* What the core is told when no call of it is under way. */
struct core_answer {
	enum coordinator_event_kind kind; /* WRITTEN, CHECKED, OUTBOX, DISCONNECTED or CANCEL */
	uint64_t number;                  /* the connection of DISCONNECTED */
	int result;
	bool unsynced; /* WRITTEN: the line is appended, and the result is that of its sync */
	struct attempt_id id;
	char pilot[FRAME_NAME_ROOM];
	struct frame_end *ends;
	size_t num_ends, ends_capacity;
};

struct coordinator {
	struct coordinator_options options;
	struct coordinator_journal *journal;
	struct coordinator_core *core;
	struct scheduler *scheduler;
	struct cluster_nodes nodes;
	struct loop *loop;
	struct loop_source *timer;
	struct listener *listener;
	struct pilot_supply *supply; /* NULL: pilots are started by others */
	uint64_t supply_wake_ns;
	struct coordinator_peer *peers;
	size_t num_peers, peers_capacity;
	uint64_t last_peer;
	struct core_answer *answers;
	size_t num_answers, answers_capacity;
	struct text to_append; /* `fail` of jobs that can never run */
	int signal_fd, watch_fd;
	int interrupts;
	bool must_read, must_place, nodes_changed;
	bool refused; /* the core did not start a job: nothing more is placed before the next event */
	bool leaving; /* SIGTERM */
	bool released;
	bool superseded;
	struct coordinator_result result;
	struct gd_error error;
	int fatal;
};

static void say(const struct coordinator *c, const char *words)
{
	if (c->options.say && *words)
		c->options.say(c->options.context, words);
}

static void die(struct coordinator *c, int code)
{
	if (!c->fatal)
		c->fatal = code;
}

/* ---- Jobs and the scheduler ------------------------------------------------------------- */

static struct job *find_job(const struct coordinator *c, uint64_t id)
{
	return jobs_find(coordinator_journal_jobs(c->journal), id);
}

static void enqueue(struct coordinator *c, struct job *job)
{
	char words[SCHEDULER_WORDS];
	/* A lease has a keeper on this host. */
	if (job->lease || scheduler_has(c->scheduler, job->id))
		return;
	int e = scheduler_add(c->scheduler, job, words);
	if (e < 0)
		die(c, e);
	else if (e > 0)
		record_write_fail(&c->to_append, job->id, words, job->wish->on_finish ? NULL : c->options.on_finish);
	c->must_place = true;
}

static void enqueue_all(struct coordinator *c, struct job *first)
{
	for (struct job *next; first; first = next) {
		next = first->next_dependent;
		enqueue(c, first);
	}
}

static struct core_answer *add_answer(struct coordinator *c, enum coordinator_event_kind kind)
{
	if (array_reserve(c->answers, &c->answers_capacity, c->num_answers + 1) < 0) {
		die(c, -ENOMEM);
		return NULL;
	}
	struct core_answer *a = &c->answers[c->num_answers++];
	*a = (struct core_answer){.kind = kind};
	return a;
}

static void ask_to_cancel(struct coordinator *c, const struct job *job)
{
	struct core_answer *a = job->keeper && job->keeper->is_pilot ? add_answer(c, COORDINATOR_CANCEL) : NULL;
	if (a)
		a->id = (struct attempt_id){job->id, job->attempts->attempt};
}

static void count_end(struct coordinator *c, const struct job *job)
{
	if (job->state == JOB_COMPLETED)
		c->result.completed++;
	else if (job->state == JOB_CANCELLED)
		c->result.cancelled++;
	else
		c->result.failed++;
}

static bool is_final_state(int state)
{
	return state == JOB_COMPLETED || state == JOB_FAILED || state == JOB_CANCELLED;
}

static void on_change(void *context, struct job *job, int old)
{
	struct coordinator *c = context;
	if (is_final_state(old) && !job_is_final(job))
		scheduler_reopen(c->scheduler, job);
	if (old == JOB_RUNNING && job->state != JOB_RUNNING)
		scheduler_end(c->scheduler, job->id);
	/* One that was handed out is in the core's hands: its write is refused, and then it is withdrawn. */
	if (old == JOB_PENDING && !scheduler_has(c->scheduler, job->id))
		scheduler_remove(c->scheduler, job);
	if (job->state == JOB_PENDING)
		enqueue(c, job);
	else if (job->state == JOB_RUNNING && job->cancel_requested)
		ask_to_cancel(c, job);
	else if (job_is_final(job)) {
		count_end(c, job);
		enqueue_all(c, scheduler_release(c->scheduler, job));
	}
	c->must_place = true;
}

/* The journal was pruned: the same jobs, in another memory. */
static void on_reload(void *context)
{
	struct coordinator *c = context;
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	int e = scheduler_reset(c->scheduler);
	if (e < 0)
		die(c, e);
	scheduler_end_finished(c->scheduler);
	for (size_t i = 0; i < js->count && !c->fatal; i++) {
		if (js->by_id[i]->state == JOB_PENDING)
			enqueue(c, js->by_id[i]);
		else if (js->by_id[i]->state == JOB_RUNNING && js->by_id[i]->cancel_requested)
			ask_to_cancel(c, js->by_id[i]);
	}
}

/* Jobs that an earlier coordinator gave to this pilot. */
static void adopt_jobs(struct coordinator *c, int number)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	const struct cluster_node *node = &c->nodes.nodes[number];
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING || !job->keeper || !job->keeper->is_pilot ||
			strcmp(job->keeper->name, node->pilot) != 0 || scheduler_has(c->scheduler, job->id))
			continue;
		int gpus[UINT8_MAX];
		size_t n = 0;
		for (size_t k = 0; k < job->attempts->num_gpus; k++)
			for (size_t g = 0; g < node->num_gpus; g++)
				if (c->nodes.gpus[node->first_gpu + g].index == job->attempts->gpus[k])
					gpus[n++] = (int)(node->first_gpu + g);
		if (scheduler_adopt(c->scheduler, job, gpus, n) < 0)
			die(c, -ENOMEM);
		scheduler_set_node(c->scheduler, job->id, number);
	}
}

/* ---- Actions of the core ---------------------------------------------------------------- */

static struct coordinator_peer *find_peer(const struct coordinator *c, uint64_t number)
{
	for (size_t i = 0; i < c->num_peers; i++)
		if (c->peers[i].number == number)
			return &c->peers[i];
	return NULL;
}

static void remove_peer(struct coordinator *c, struct coordinator_peer *p)
{
	link_destroy(p->link);
	*p = c->peers[--c->num_peers];
}

static void send_frame(struct coordinator *c, const struct coordinator_action *a)
{
	const struct coordinator_peer *p = find_peer(c, a->connection);
	/* A frame that is not sent is a broken connection, which the core learns of. */
	if (p && link_send(p->link, a->frame) == -ENOMEM)
		die(c, -ENOMEM);
}

static void close_peer(struct coordinator *c, uint64_t number)
{
	struct coordinator_peer *p = find_peer(c, number);
	if (p)
		remove_peer(c, p);
}

static int append_start(struct coordinator *c, const struct coordinator_write *w)
{
	int number = cluster_nodes_find(&c->nodes, w->pilot), gpus[FRAME_MAX_GPUS];
	const struct job *job = find_job(c, w->id.job);
	if (number < 0 || !job || w->num_gpus > FRAME_MAX_GPUS)
		return -ECANCELED;
	const struct cluster_node *node = &c->nodes.nodes[number];
	for (size_t i = 0; i < w->num_gpus; i++)
		gpus[i] = c->nodes.gpus[node->first_gpu + (size_t)w->gpus[i]].index;
	char name[NODE_LOG_ROOM];
	cleanup_(text_finish) struct text log = {0};
	node_log_name(name, w->id, node->slurm_job);
	text_appendf(&log, "%s/%s", coordinator_order_log_dir(job, &c->options.order), name);
	if (text_error(&log))
		return text_error(&log);
	struct start_details details = {.gpus = gpus,
		.num_gpus = w->num_gpus,
		.log = text_string(&log),
		.retries = job->wish->has_retries ? 0 : c->options.retries,
		.on_finish = job->wish->has_on_finish ? NULL : c->options.on_finish};
	return coordinator_journal_append(c->journal, w, &details, &c->error);
}

static void write_line(struct coordinator *c, const struct coordinator_write *w)
{
	int r = w->kind == WRITE_START ? append_start(c, w)
				       : coordinator_journal_append(c->journal, w, NULL, &c->error);
	struct core_answer *a = add_answer(c, COORDINATOR_WRITTEN);
	if (a) {
		a->number = w->number;
		a->result = r;
		a->unsynced = r == 0;
	}
	c->must_read = true;
}

static int take_end(void *context, const char *line, size_t size)
{
	struct core_answer *a = context;
	if (array_reserve(a->ends, &a->ends_capacity, a->num_ends + 1) < 0)
		return -ENOMEM;
	int r = end_line_parse(line, size, &a->ends[a->num_ends]);
	a->num_ends += r == 0;
	return r;
}

static void read_outbox(struct coordinator *c, const char *pilot)
{
	struct core_answer *a = add_answer(c, COORDINATOR_OUTBOX);
	if (!a)
		return;
	snprintf(a->pilot, sizeof(a->pilot), "%s", pilot);
	a->result = outbox_read(c->options.journal->dir_fd, pilot, take_end, a);
	if (a->result < 0)
		a->num_ends = 0;
}

static void check_epoch(struct coordinator *c, uint64_t number)
{
	int r = coordinator_journal_check(c->journal, &c->error);
	struct core_answer *a = add_answer(c, COORDINATOR_CHECKED);
	if (a) {
		a->number = number;
		a->result = r;
	}
}

static uint64_t slurm_job_of(const struct coordinator *c, const char *pilot)
{
	struct pilot_info info;
	for (size_t i = 0; coordinator_core_pilot(c->core, i, &info); i++)
		if (strcmp(info.name, pilot) == 0)
			return info.slurm_job;
	return 0;
}

static void pilot_ready(struct coordinator *c, const struct coordinator_action *a)
{
	bool known = cluster_nodes_find(&c->nodes, a->pilot) >= 0;
	int number = cluster_nodes_ready(&c->nodes, a, slurm_job_of(c, a->pilot), date_now_ms());
	if (number < 0) {
		die(c, number);
		return;
	}
	c->nodes_changed = c->must_place = true;
	if (!known && cluster_nodes_tell(&c->nodes, c->scheduler, clock_now_ns()) < 0)
		die(c, -ENOMEM);
	if (!known)
		adopt_jobs(c, number);
	if (c->supply && pilot_supply_joined(c->supply, c->nodes.nodes[number].slurm_job, a->pilot, a->num_gpus) < 0)
		die(c, -ENOMEM);
}

static void pilot_away(struct coordinator *c, const struct coordinator_action *a)
{
	bool gone = a->kind == COORDINATOR_GONE;
	cluster_nodes_away(&c->nodes, a->pilot, gone);
	c->nodes_changed = true;
	if (gone && c->supply)
		pilot_supply_gone(c->supply, a->pilot, a->proof, a->words);
	say(c, a->words);
}

static void withdraw(struct coordinator *c, uint64_t id)
{
	struct job *job = find_job(c, id);
	scheduler_withdraw(c->scheduler, id);
	if (job && job->state == JOB_PENDING)
		enqueue(c, job);
}

static void execute(struct coordinator *c, const struct coordinator_action *a)
{
	switch (a->kind) {
	case COORDINATOR_SEND:
		send_frame(c, a);
		break;
	case COORDINATOR_CLOSE:
		close_peer(c, a->connection);
		break;
	case COORDINATOR_WRITE:
		write_line(c, a->write);
		break;
	case COORDINATOR_CHECK:
		check_epoch(c, a->number);
		break;
	case COORDINATOR_READ_OUTBOX:
		read_outbox(c, a->pilot);
		break;
	case COORDINATOR_LIST:
		/* Without listings the leases decide. */
		if (c->supply)
			pilot_supply_list(c->supply);
		break;
	case COORDINATOR_BEGAN:
		break;
	case COORDINATOR_READY:
		pilot_ready(c, a);
		break;
	case COORDINATOR_AWAY:
	case COORDINATOR_GONE:
		pilot_away(c, a);
		break;
	case COORDINATOR_FREED:
		scheduler_end(c->scheduler, a->id.job);
		c->must_place = true;
		break;
	case COORDINATOR_NOT_STARTED:
		withdraw(c, a->id.job);
		c->refused = true;
		break;
	case COORDINATOR_RECOVERED:
		c->must_place = true;
		break;
	case COORDINATOR_SUPERSEDED:
		c->superseded = true;
		break;
	case COORDINATOR_SAY:
		say(c, a->words);
		break;
	}
}

/* ---- Events of the core ----------------------------------------------------------------- */

static void post(struct coordinator *c, const struct coordinator_event *e)
{
	struct coordinator_action a;
	if (c->fatal || c->superseded)
		return;
	int r = coordinator_core_handle(c->core, clock_now_ns(), e);
	if (r < 0)
		die(c, r);
	while (!c->fatal && !c->superseded && coordinator_core_next(c->core, &a))
		execute(c, &a);
}

static void post_answer(struct coordinator *c, struct core_answer *a, int synced)
{
	post(c, &(struct coordinator_event){.kind = a->kind,
			.connection = a->kind == COORDINATOR_DISCONNECTED ? a->number : 0,
			.number = a->number,
			.result = a->unsynced ? synced : a->result,
			.id = a->id,
			.mode = c->interrupts > 1 ? CANCEL_INTERRUPT : CANCEL_ASK,
			.pilot = a->pilot,
			.ends = a->ends,
			.num_ends = a->num_ends});
	free(a->ends);
}

/* Tells the core all that it waits for; one sync for all lines that were appended so far. */
static void settle(struct coordinator *c)
{
	while (c->num_answers > 0 && !c->fatal && !c->superseded) {
		struct core_answer *batch = c->answers;
		size_t count = c->num_answers;
		bool unsynced = false;
		c->answers = NULL;
		c->num_answers = c->answers_capacity = 0;
		for (size_t i = 0; i < count; i++)
			unsynced = unsynced || batch[i].unsynced;
		int synced = unsynced ? coordinator_journal_sync(c->journal, &c->error) : 0;
		for (size_t i = 0; i < count; i++)
			post_answer(c, &batch[i], synced);
		free(batch);
	}
}

static void on_opened(void *context, struct link *l)
{
	struct coordinator *c = context;
	if (array_reserve(c->peers, &c->peers_capacity, c->num_peers + 1) < 0) {
		die(c, -ENOMEM);
		link_destroy(l);
		return;
	}
	c->peers[c->num_peers++] = (struct coordinator_peer){l, ++c->last_peer};
}

static struct coordinator_peer *peer_of(const struct coordinator *c, const struct link *l)
{
	for (size_t i = 0; i < c->num_peers; i++)
		if (c->peers[i].link == l)
			return &c->peers[i];
	return NULL;
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct coordinator *c = context;
	struct coordinator_peer *p = peer_of(c, l);
	(void)reason;
	if (!p) {
		link_destroy(l);
		return;
	}
	uint64_t number = p->number;
	remove_peer(c, p);
	post(c, &(struct coordinator_event){.kind = COORDINATOR_DISCONNECTED, .connection = number});
}

static void on_frame(void *context, struct link *l, const struct frame *f)
{
	struct coordinator *c = context;
	const struct coordinator_peer *p = peer_of(c, l);
	if (!p)
		return;
	/* The Slurm job was proven with the secret; nobody speaks for another one. */
	if (f->kind == FRAME_HELLO && f->hello.slurm_job != link_slurm_job(l)) {
		on_closed(c, l, -EBADMSG);
		return;
	}
	post(c, &(struct coordinator_event){.kind = COORDINATOR_FRAME, .connection = p->number, .frame = f});
}

/* ---- Placing ---------------------------------------------------------------------------- */

static void start_job(struct coordinator *c, const struct scheduler_start *s)
{
	const struct cluster_node *node = &c->nodes.nodes[s->node];
	cleanup_(text_finish) struct text order = {0};
	int gpus[FRAME_MAX_GPUS];
	int e = coordinator_order_write(s->job, &c->options.order, &order);
	if (e < 0) {
		die(c, e);
		return;
	}
	for (size_t i = 0; i < s->num_gpus; i++)
		gpus[i] = s->gpus[i] - (int)node->first_gpu;
	post(c, &(struct coordinator_event){.kind = COORDINATOR_START,
			.start = {.id = {s->job->id, job_next_attempt(s->job)},
				.pilot = node->pilot,
				.gpus = gpus,
				.num_gpus = s->num_gpus,
				.order = order.data,
				.order_size = order.length,
				.losses = coordinator_journal_losses(s->job),
				.needed_ms = coordinator_order_timeout_ms(s->job, &c->options.order)}});
}

static void place(struct coordinator *c)
{
	struct scheduler_start start;
	int e = 0;
	c->must_place = false;
	if (c->nodes_changed && (e = cluster_nodes_tell(&c->nodes, c->scheduler, clock_now_ns())) < 0)
		die(c, e);
	c->nodes_changed = false;
	enqueue_all(c, scheduler_set_time(c->scheduler, date_now_ms()));
	c->must_place = false;
	if (c->interrupts || coordinator_journal_jobs(c->journal)->paused || !coordinator_core_is_recovered(c->core) ||
		c->nodes.count == 0)
		return;
	c->refused = false;
	while (!c->fatal && !c->superseded && !c->refused &&
		(e = scheduler_decide(c->scheduler, clock_now_ns(), &start)) == 1)
		start_job(c, &start);
	if (e < 0)
		die(c, e);
	/* Otherwise the same job would be refused again and again. */
	if (c->refused)
		c->must_place = c->nodes_changed;
}

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
				die(c, e);
		}
		if (!c->fatal && append_fails(c) < 0)
			die(c, c->error.code);
		settle(c);
		if (c->must_place && !c->must_read && !c->fatal)
			place(c);
		settle(c);
	} while ((c->must_read || c->must_place || c->num_answers) && !c->fatal && !c->superseded);
}

/* ---- Pilots from Slurm ------------------------------------------------------------------ */

static void on_listed(void *context, const struct slurm_listing *listing)
{
	post(context, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = listing});
}

static void on_release(void *context, const char *pilot)
{
	post(context, &(struct coordinator_event){.kind = COORDINATOR_RELEASE_PILOT, .pilot = pilot});
}

static void on_words(void *context, const char *words)
{
	say(context, words);
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
	if (c->interrupts || c->released || js->paused || !coordinator_core_is_recovered(c->core) ||
		scheduler_num_waiting(c->scheduler) == 0)
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
	settle(c);
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

static void on_timer(void *context, uint32_t events)
{
	struct coordinator *c = context;
	(void)events;
	c->must_read = c->must_place = true;
	post(c, &(struct coordinator_event){.kind = COORDINATOR_TICK});
}

static void on_watch(void *context, uint32_t events)
{
	struct coordinator *c = context;
	(void)events;
	journal_watch_drain(c->watch_fd, c->options.journal->path);
	c->must_read = true;
}

static void interrupt_jobs(struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	for (size_t i = 0; i < js->count; i++)
		if (js->by_id[i]->state == JOB_RUNNING)
			ask_to_cancel(c, js->by_id[i]);
}

static void on_signal(void *context, uint32_t events)
{
	struct coordinator *c = context;
	struct signalfd_siginfo info;
	(void)events;
	while (read(c->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTERM)
			c->leaving = true;
		else if (++c->interrupts == 2)
			interrupt_jobs(c);
	}
}

static size_t num_running(const struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	size_t n = 0;
	for (size_t i = 0; js->counts[JOB_RUNNING] && i < js->count; i++)
		n += js->by_id[i]->state == JOB_RUNNING && js->by_id[i]->keeper && js->by_id[i]->keeper->is_pilot;
	return n;
}

/* Nothing runs on pilots, and nothing will. */
static bool is_idle(const struct coordinator *c)
{
	if (c->num_answers || c->must_read || num_running(c) > 0)
		return false;
	return c->interrupts || scheduler_num_waiting(c->scheduler) + scheduler_num_sleeping(c->scheduler) == 0;
}

/* Pilots go first. What is added until the last one has left needs another one: it is left to the next coordinator. */
static bool try_leave(struct coordinator *c)
{
	if (!c->released && is_idle(c)) {
		c->released = true;
		if (c->supply)
			pilot_supply_leave(c->supply);
		post(c, &(struct coordinator_event){.kind = COORDINATOR_LEAVE});
		settle(c);
	}
	supply(c);
	return c->released && coordinator_core_num_pilots(c->core) == 0 &&
	       (!c->supply || pilot_supply_num_pending(c->supply) == 0);
}

static void plan(struct coordinator *c)
{
	uint64_t wake = coordinator_core_wake_ns(c->core), look = clock_now_ns() + JOURNAL_LOOK_MS * NS_PER_MS;
	wake = wake && wake < look ? wake : look;
	loop_set_deadline(c->timer, c->supply_wake_ns && c->supply_wake_ns < wake ? c->supply_wake_ns : wake);
}

int coordinator_run(struct coordinator *c, struct coordinator_result *ret, struct gd_error *err)
{
	on_reload(c);
	c->must_place = true;
	int e = coordinator_core_begin(c->core, clock_now_ns());
	if (e < 0)
		die(c, e);
	post(c, &(struct coordinator_event){.kind = COORDINATOR_TICK});
	while (!c->fatal && !c->superseded && !c->leaving) {
		do_due(c);
		if (c->fatal || c->superseded || try_leave(c))
			break;
		plan(c);
		e = loop_round(c->loop, -1);
		if (e < 0)
			die(c, e);
	}
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	c->result.left = js->counts[JOB_PENDING] + js->counts[JOB_RUNNING];
	*ret = c->result;
	if (c->superseded)
		return error_set(err, -ESTALE, "another coordinator runs this queue now");
	if (c->fatal)
		return error_set(
			err, c->fatal, "%s", c->error.code == c->fatal ? c->error.message : error_words(c->fatal));
	return 0;
}

/* ---- Beginning and end ------------------------------------------------------------------ */

static int open_loop(struct coordinator *c)
{
	static const int signals[] = {SIGTERM, SIGINT, 0};
	int e = loop_create(&c->loop);
	if (e == 0)
		e = loop_add_signals(c->loop, signals, on_signal, c, &c->signal_fd);
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
	static const struct link_ops ops = {.opened = on_opened, .frame = on_frame, .closed = on_closed};
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
					  .ops = &ops,
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
		e = coordinator_journal_open(&(struct coordinator_journal_options){.journal = options->journal,
						     .lease_ms = options->lease_ms ? options->lease_ms : 900000,
						     .takeover = options->takeover,
						     .on_change = on_change,
						     .on_reload = on_reload,
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
