/* SPDX-License-Identifier: MIT */
#include "slurm/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json_put.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/machine.h"
#include "gpu/probe.h"
#include "slurm/end_line.h"
#include "slurm/guard.h"
#include "slurm/link.h"
#include "slurm/node_jobs.h"
#include "slurm/outbox.h"
#include "slurm/pilot_core.h"
#include "slurm/secret.h"

/* How often GPUs are sampled: the energy of a job is known if samples cover most of its time. */
#define SAMPLE_MS 1000
/* How long to wait for the first answers of all cards. */
#define SURVEY_MS 15000
/* Interval between attempts to write an end to the outbox. */
#define RECORD_AGAIN_MS 1000

/* How long, and how often, a pilot tries to open the directory of its queue and the secret in it. */
#define VISIBLE_MS      90000
#define VISIBLE_LOOK_MS 500

/*
 * Events that arrive while actions are executed are queued: all actions of one event complete before the next event is
 * handled.
 */
struct pending_event {
	struct pending_event *next;
	struct pilot_event event;
	char words[FRAME_WORDS_ROOM];
};

struct agent {
	const struct agent_options *options;
	int guard_fd;
	int dir_fd; /* the queue's directory, on the shared file system */
	uint8_t secret[MAC_KEY_SIZE];
	char name[FRAME_NAME_ROOM];
	struct loop *loop;
	struct loop_source *wake, *record_again, *probe_source;
	int signal_fd;
	struct node_jobs *jobs;
	struct gpu_probe *probe;
	char machine[GPU_MACHINE_SIZE];
	struct gd_gpu_list *gpus; /* as found at the start; the hello refers to positions in this list */
	struct pilot_outbox outbox;
	struct frame_end *unrecorded; /* in order */
	size_t num_unrecorded, unrecorded_room;
	struct pilot_core *core;
	struct link *link; /* NULL: none */
	uint64_t connection;
	int refused; /* the last reason a connection failed; reported once */
	bool opened; /* the coordinator has accepted the connection */
	bool leaving, in_core, must_record;
	struct pending_event *pending_first, **pending_last;
	int exit_code;
};

static void say(const struct agent *a, const char *format, ...) GD_PRINTF(2, 3);
static void say(const struct agent *a, const char *format, ...)
{
	char when[DATE_TEXT], words[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	date_format(date_now_ms(), when);
	fprintf(stderr, "%s gpuq pilot %s: %s\n", when, a->name, words);
}

static void handle(struct agent *a, const struct pilot_event *event);

/* ---- The connection ------------------------------------------------------------------- */

static void on_opened(void *context, struct link *l)
{
	struct agent *a = context;
	pid_t holder = 0;
	(void)l;
	int r = lock_holder_at(a->dir_fd, "runner.lock", &holder);
	a->refused = 0;
	a->opened = true;
	handle(a, &(struct pilot_event){
			  .kind = PILOT_CONNECTED, .connection = a->connection, .lock_is_free = r == 0 && holder == 0});
}

static void on_frame(void *context, struct link *l, const struct frame *f)
{
	struct agent *a = context;
	(void)l;
	handle(a, &(struct pilot_event){.kind = PILOT_FRAME, .connection = a->connection, .frame = f});
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct agent *a = context;
	if (l != a->link)
		return;
	/* A coordinator does not answer a pilot that it cannot authenticate. */
	if (reason == 0 && !a->opened)
		reason = -EPERM;
	if (reason < 0 && reason != a->refused)
		say(a, "lost the connection to the coordinator: %s",
			reason == -EKEYREJECTED ? "it does not know the secret of the queue"
			: reason == -EPERM
				? "it did not accept this pilot; it was just restarted, is too busy, or has another secret or version of gpuq"
				: error_words(reason));
	a->refused = reason;
	link_destroy(a->link);
	a->link = NULL;
	handle(a, &(struct pilot_event){.kind = PILOT_DISCONNECTED, .connection = a->connection});
}

/* Reads the address each time: the coordinator may have moved. */
static int open_link(struct agent *a)
{
	static const struct link_ops ops = {.opened = on_opened, .frame = on_frame, .closed = on_closed};
	return link_connect_to(
		a->loop, a->dir_fd, AGENT_ADDRESS_FILE, a->secret, a->options->slurm_job, &ops, a, &a->link);
}

static void connect_now(struct agent *a, uint64_t connection)
{
	link_destroy(a->link);
	a->link = NULL;
	a->connection = connection;
	a->opened = false;
	int r = open_link(a);
	if (r == 0)
		return;
	if (r != a->refused)
		say(a, "cannot connect to the coordinator: %s",
			r == -EPROTONOSUPPORT ? "it has another version of gpuq" : error_words(r));
	a->refused = r;
	handle(a, &(struct pilot_event){.kind = PILOT_DISCONNECTED, .connection = connection});
}

/* ---- The outbox ----------------------------------------------------------------------- */

/* Also called before the link sends: an end is in the outbox before its frame leaves, unless the file system fails. */
static void record_all(struct agent *a)
{
	cleanup_(text_finish) struct text lines = {0};
	for (size_t i = 0; i < a->num_unrecorded; i++) {
		if (i)
			text_append_char(&lines, '\n');
		end_line_write(&lines, &a->unrecorded[i]);
	}
	int r = text_error(&lines);
	if (r == 0 && a->num_unrecorded)
		r = outbox_append(&a->outbox, lines.data, lines.length);
	if (r < 0) {
		say(a, "cannot write to the outbox: %s; retrying", error_words(r));
		loop_set_deadline(a->record_again, clock_now_ns() + RECORD_AGAIN_MS * NS_PER_MS);
		return;
	}
	a->num_unrecorded = 0;
}

static void on_record_again(void *context, uint32_t events)
{
	(void)events;
	record_all(context);
}

static void record(struct agent *a, const struct frame_end *e)
{
	if (array_reserve(a->unrecorded, &a->unrecorded_room, a->num_unrecorded + 1) < 0) {
		a->leaving = true; /* without its end the attempt is lost with this pilot */
		a->exit_code = 1;
		return;
	}
	a->unrecorded[a->num_unrecorded++] = *e;
	a->must_record = true;
}

/* ---- Jobs ----------------------------------------------------------------------------- */

static void on_started(void *context, struct attempt_id id, int64_t pid)
{
	handle(context, &(struct pilot_event){.kind = PILOT_STARTED, .id = id, .pid = pid});
}

static void on_not_started(void *context, struct attempt_id id, const char *words)
{
	handle(context, &(struct pilot_event){.kind = PILOT_NOT_STARTED, .id = id, .words = words});
}

static void on_exited(void *context, const struct pilot_exit *e)
{
	handle(context, &(struct pilot_event){.kind = PILOT_EXITED, .exited = *e, .id = e->id});
}

static void begin(struct agent *a, const struct frame_grant *g)
{
	const struct gd_gpu *gpus[FRAME_MAX_GPUS];
	for (size_t i = 0; i < g->num_gpus; i++) {
		if ((size_t)g->gpus[i] >= a->gpus->count) {
			on_not_started(a, g->id, "the node has no such GPU");
			return;
		}
		gpus[i] = a->gpus->gpus[g->gpus[i]];
	}
	node_jobs_begin(a->jobs, g, gpus);
}

/* ---- The core ------------------------------------------------------------------------- */

static void execute(struct agent *a, const struct pilot_action *action)
{
	switch (action->kind) {
	case PILOT_CONNECT:
		connect_now(a, action->connection);
		break;
	case PILOT_CLOSE:
		if (action->connection == a->connection) {
			link_destroy(a->link);
			a->link = NULL;
		}
		break;
	case PILOT_SEND:
		if (a->link && action->connection == a->connection)
			(void)link_send(a->link, action->frame); /* if it fails, the link is found to be closed */
		break;
	case PILOT_ARM:
		if (guard_renew(a->guard_fd, action->deadline_ns) < 0)
			say(a, "the guard does not answer, so the lease is not renewed");
		break;
	case PILOT_BEGIN:
		begin(a, action->grant);
		break;
	case PILOT_STOP:
		node_jobs_stop(a->jobs, action->id, action->mode);
		break;
	case PILOT_END_ALL:
		node_jobs_stop_all(a->jobs);
		break;
	case PILOT_RECORD:
		record(a, action->end);
		break;
	case PILOT_LEAVE:
		say(a, "exiting: %s", action->words ? action->words : "done");
		a->leaving = true;
		break;
	}
}

static void plan_wake(struct agent *a)
{
	uint64_t at = pilot_core_wake_ns(a->core), now = guard_now_ns();
	/* Timers of the loop are on the monotonic clock, which stops while the machine is suspended. */
	uint64_t wait = at > now ? at - now : 1;
	loop_set_deadline(a->wake, clock_now_ns() + (wait < 60 * NS_PER_S ? wait : 60 * NS_PER_S));
}

static void handle_one(struct agent *a, const struct pilot_event *event)
{
	struct pilot_action action;
	if (pilot_core_handle(a->core, guard_now_ns(), event) < 0) {
		say(a, "the pilot is ending: out of memory");
		a->leaving = true;
		a->exit_code = 1;
		return;
	}
	while (!a->leaving && pilot_core_next(a->core, &action))
		execute(a, &action);
}

static void handle(struct agent *a, const struct pilot_event *event)
{
	if (a->leaving || !a->core)
		return;
	if (a->in_core) {
		/* Never a frame: links are not read inside actions. */
		struct pending_event *p = calloc(1, sizeof(*p));
		if (!p) {
			a->leaving = true;
			a->exit_code = 1;
			return;
		}
		p->event = *event;
		if (event->words) {
			snprintf(p->words, sizeof(p->words), "%s", event->words);
			p->event.words = p->words;
		}
		*a->pending_last = p;
		a->pending_last = &p->next;
		return;
	}
	a->in_core = true;
	handle_one(a, event);
	while (a->pending_first) {
		struct pending_event *p = a->pending_first;
		a->pending_first = p->next;
		if (!a->pending_first)
			a->pending_last = &a->pending_first;
		if (!a->leaving)
			handle_one(a, &p->event);
		free(p);
	}
	a->in_core = false;
	/* All ends of the event at once, and before the link sends any of them. */
	if (a->must_record)
		record_all(a);
	a->must_record = false;
	if (!a->leaving)
		plan_wake(a);
}

static void on_wake(void *context, uint32_t events)
{
	(void)events;
	handle(context, &(struct pilot_event){.kind = PILOT_TICK});
}

static void on_signal(void *context, uint32_t events)
{
	struct agent *a = context;
	struct signalfd_siginfo si;
	(void)events;
	while (read(a->signal_fd, &si, sizeof(si)) == sizeof(si))
		;
	say(a, "told to stop");
	handle(a, &(struct pilot_event){.kind = PILOT_TERM});
}

/* ---- GPUs ----------------------------------------------------------------------------- */

static void describe_gpu(const struct gd_gpu *g, struct frame_gpu *ret)
{
	*ret = (struct frame_gpu){.index = g->index,
		.total_bytes = g->known & GD_GPU_KNOWN_MEMORY_TOTAL ? g->memory_total_bytes : 0,
		.free_bytes = g->known & GD_GPU_KNOWN_MEMORY_FREE ? g->memory_free_bytes : 0,
		.utilization = g->known & GD_GPU_KNOWN_UTILIZATION ? g->utilization_percent : 0,
		.utilization_known = g->known & GD_GPU_KNOWN_UTILIZATION,
		.healthy = gd_gpu_usable(g)};
	snprintf(ret->uuid, sizeof(ret->uuid), "%.63s", g->uuid);
	snprintf(ret->name, sizeof(ret->name), "%.63s", g->name);
}

/* Samples the GPUs of the hello, in that order. */
static void sample(struct agent *a)
{
	struct gd_gpu_list *now = NULL;
	struct frame_gpu gpus[FRAME_MAX_GPUS];
	if (gpu_probe_list(a->probe, &now, NULL) < 0)
		return;
	for (size_t i = 0; i < a->gpus->count; i++) {
		const struct gd_gpu *g = a->gpus->gpus[i];
		describe_gpu(g, &gpus[i]);
		gpus[i].healthy = 0;
		for (size_t k = 0; k < now->count; k++)
			if (now->gpus[k]->index == g->index && now->gpus[k]->mig_index == g->mig_index)
				describe_gpu(now->gpus[k], &gpus[i]);
	}
	node_jobs_sample(a->jobs, now);
	gd_gpu_list_free(now);
	handle(a, &(struct pilot_event){.kind = PILOT_SAMPLED, .gpus = gpus, .num_gpus = a->gpus->count});
}

static int open_probe(struct agent *a, struct gd_error *err);

static void on_probe(void *context, uint32_t events)
{
	struct agent *a = context;
	struct gpu_news news;
	int r;
	bool round = false;
	(void)events;
	while ((r = gpu_probe_read(a->probe, &news)) == 1)
		round = true;
	if (r < 0) {
		/* The driver crashed the probe. */
		loop_remove(a->probe_source);
		a->probe_source = NULL;
		gpu_probe_close(a->probe);
		a->probe = NULL;
		struct gd_error err = {0};
		if (open_probe(a, &err) < 0)
			say(a, "cannot query the GPUs: %s; they are no longer sampled", err.message);
	} else if (round) {
		sample(a);
	}
}

static int open_probe(struct agent *a, struct gd_error *err)
{
	struct gpu_probe_options o = {.spec = a->options->gpus,
		.period_ms = SAMPLE_MS,
		.events = true,
		.silent = true,
		.machine = *a->machine ? a->machine : NULL,
		.last = a->gpus};
	int r = gpu_probe_open(&o, &a->probe, err);
	if (r < 0)
		return r;
	gpu_probe_machine(a->probe, a->machine);
	r = loop_add(a->loop, gpu_probe_fd(a->probe), EPOLLIN, on_probe, a, &a->probe_source);
	return r < 0 ? error_set(err, r, "cannot start the pilot: %s", error_words(r)) : 0;
}

/* Waits for the first answers, before the loop runs. */
static int find_gpus(struct agent *a, struct gd_error *err)
{
	uint64_t deadline = clock_now_ns() + SURVEY_MS * NS_PER_MS;
	struct gpu_news news = {0};
	int r = open_probe(a, err);
	while (r >= 0 && news.kind != GPU_NEWS_ROUND) {
		struct pollfd fd = {gpu_probe_fd(a->probe), POLLIN, 0};
		int ms = clock_ms_until(deadline, clock_now_ns());
		if (ms == 0)
			break;
		poll(&fd, 1, ms);
		while ((r = gpu_probe_read(a->probe, &news)) == 1 && news.kind != GPU_NEWS_ROUND)
			;
	}
	if (r == -EPIPE)
		return error_set(err, r, "cannot query the GPUs: the driver crashed");
	if (r >= 0)
		r = gpu_probe_list(a->probe, &a->gpus, err);
	if (r >= 0 && a->gpus->count > FRAME_MAX_GPUS)
		return error_set(err, -E2BIG, "the node has more than %d GPUs", FRAME_MAX_GPUS);
	return r < 0 ? r : 0;
}

/* ---- Beginning and end ---------------------------------------------------------------- */

static int make_name(struct agent *a)
{
	uint32_t random;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(a->name, sizeof(a->name), "p%llu-%08x", (unsigned long long)a->options->slurm_job, random);
	return 0;
}

static int open_outbox(struct agent *a, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	json_open(&t, NULL, '{');
	json_put_int(&t, "outbox", 1);
	json_put_string(&t, "pilot", a->name);
	json_put_int(&t, "slurm_job", (int64_t)a->options->slurm_job);
	json_put_string(&t, "node", a->options->node);
	json_close(&t, '}');
	int r = text_error(&t);
	if (r == 0)
		r = outbox_create(&a->outbox, a->dir_fd, a->name, t.data);
	return r < 0 ? error_set(err, r,
			       "cannot create the outbox in '%s/" OUTBOX_DIRECTORY
			       "': %s; is it on a file system that this node shares?",
			       a->options->queue_dir, error_words(r))
		     : 0;
}

static int open_core(struct agent *a)
{
	struct machine m;
	struct host_limits host;
	struct frame_gpu gpus[FRAME_MAX_GPUS];
	for (size_t i = 0; i < a->gpus->count; i++)
		describe_gpu(a->gpus->gpus[i], &gpus[i]);
	int r = machine_get(&m);
	if (r < 0)
		return r;
	host_read(NULL, NULL, &host);
	struct pilot_settings s = {.slurm_job = a->options->slurm_job,
		.started_ms = date_now_ms(),
		.until_ns = a->options->until_ns,
		.grace_ns = a->options->grace_ns,
		.join_ns = a->options->join_ns,
		.cpus = host.cpus,
		.host_bytes = host.memory_known ? host.memory_total_bytes : 0,
		.gpus = gpus,
		.num_gpus = a->gpus->count};
	snprintf(s.pilot, sizeof(s.pilot), "%s", a->name);
	snprintf(s.node, sizeof(s.node), "%.63s", a->options->node);
	snprintf(s.boot_id, sizeof(s.boot_id), "%.63s", m.boot);
	return pilot_core_create(&s, guard_now_ns(), &a->core);
}

static int open_loop(struct agent *a)
{
	static const int signals[] = {SIGTERM, SIGINT, 0};
	int r = loop_create(&a->loop);
	if (r == 0)
		r = loop_add_signals(a->loop, signals, on_signal, a, &a->signal_fd);
	if (r == 0)
		r = loop_add_timer(a->loop, on_wake, a, &a->wake);
	if (r == 0)
		r = loop_add_timer(a->loop, on_record_again, a, &a->record_again);
	return r;
}

/* New files may not be visible here yet: NFS caches for up to a minute that a name does not exist. */
static int open_queue(struct agent *a, struct gd_error *err)
{
	uint64_t deadline = clock_now_ns() + VISIBLE_MS * NS_PER_MS;
	for (bool told = false;; told = true) {
		int r = 0;
		closep(&a->dir_fd);
		a->dir_fd = open(a->options->queue_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (a->dir_fd < 0)
			r = error_set(err, -errno,
				"cannot open '%s': %s; the journal must be on a file system that login node and compute nodes share",
				a->options->queue_dir, error_words(errno));
		if (r == 0)
			r = secret_load(a->dir_fd, a->secret, err);
		if ((r != -ENOENT && r != -ESTALE) || clock_now_ns() >= deadline)
			return r;
		if (!told)
			say(a, "%s; retrying for %d s", err->message, VISIBLE_MS / 1000);
		/* Wake up early on a signal that ends the pilot. */
		struct pollfd p = {a->signal_fd, POLLIN, 0};
		if (poll(&p, 1, VISIBLE_LOOK_MS) > 0)
			return r;
	}
}

static int open_all(struct agent *a, struct gd_error *err)
{
	static const struct node_jobs_ops ops = {
		.started = on_started, .not_started = on_not_started, .exited = on_exited};
	int r = make_name(a);
	if (r == 0)
		r = open_loop(a);
	if (r < 0)
		return error_set(err, r, "cannot start the pilot: %s", error_words(r));
	r = open_queue(a, err);
	/* Must come before node_jobs_create() removes the variables of the allocation, which name its GPUs. */
	if (r == 0)
		r = find_gpus(a, err);
	if (r == 0)
		r = node_jobs_create(&(struct node_jobs_options){.loop = a->loop,
					     .queue_dir = a->options->queue_dir,
					     .node = a->options->node,
					     .slurm_job = a->options->slurm_job,
					     .secret = a->secret,
					     .ops = &ops,
					     .context = a},
			&a->jobs, err);
	if (r == 0)
		r = open_outbox(a, err);
	if (r == 0 && (r = open_core(a)) < 0)
		error_set(err, r, "cannot start the pilot: %s", error_words(r));
	return r;
}

static void close_all(struct agent *a)
{
	link_destroy(a->link);
	node_jobs_destroy(a->jobs);
	if (a->loop) {
		loop_remove(a->probe_source);
		gpu_probe_close(a->probe);
	}
	gd_gpu_list_free(a->gpus);
	pilot_core_destroy(a->core);
	outbox_close(&a->outbox);
	free(a->unrecorded);
	closep(&a->dir_fd);
	loop_destroy(a->loop);
}

int agent_main(void *context, int guard_fd)
{
	struct agent a = {
		.options = context, .guard_fd = guard_fd, .dir_fd = -1, .signal_fd = -1, .outbox = OUTBOX_NONE};
	struct gd_error err = {0};
	a.pending_last = &a.pending_first;
	signal(SIGPIPE, SIG_IGN);
	int r = open_all(&a, &err);
	if (r < 0) {
		fprintf(stderr, "gpuq pilot: %s\n", err.message);
		a.exit_code = 1;
	} else {
		say(&a, "%zu GPUs on %s", a.gpus->count, a.options->node);
		handle(&a, &(struct pilot_event){.kind = PILOT_TICK});
		while (!a.leaving)
			if (loop_round(a.loop, -1) < 0)
				break;
	}
	close_all(&a);
	return a.exit_code;
}
