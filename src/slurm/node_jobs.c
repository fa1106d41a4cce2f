/* SPDX-License-Identifier: MIT */
#include "slurm/node_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/process.h"
#include "base/trust.h"
#include "base/utf8.h"
#include "queue/journal/environment.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"
#include "queue/keeper/allocation.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/job_order.h"
#include "queue/keeper/nursery.h"
#include "slurm/guard.h"
#include "slurm/log_name.h"
#include "slurm/node_folder.h"
#include "slurm/node_keeper.h"
#include "slurm/node_usage.h"

extern char **environ;

/* Interval between kills of the processes that a killed keeper left behind. */
#define KILL_AGAIN_MS 20
/* How long after its order, and how often, the journal is read for the start of a job. */
#define LOOK_MS 50

struct node_job {
	struct node_job *next;
	struct attempt_id id;
	struct node_keeper *keeper; /* NULL: it is gone */
	uint64_t look_ns;           /* when to check whether it has started */
	bool started;               /* `start` was read */
	bool over;                  /* `exited` contains the end that was read */
	bool lost;                  /* its keeper was killed: the remaining processes are being killed */
	bool left;                  /* as of the last check */
	char keeper_name[32];
	char words[FRAME_WORDS_ROOM]; /* why it was not started; or "" */
	struct pilot_exit exited;
	struct node_usage usage;
};

struct node_jobs {
	struct node_jobs_options options;
	struct node_folder folder; /* contains the node's journal */
	int queue_fd;              /* the directory of the queue */
	struct journal *journal;
	struct journal_reader reader;
	bool reading;
	struct loop_source *timer, *look;
	pid_t nursery_pid;
	int nursery_fd;
	struct node_keeper *keepers;
	struct node_job *jobs;
	struct machine machine;
};

static bool same(struct attempt_id a, struct attempt_id b)
{
	return a.job == b.job && a.attempt == b.attempt;
}

static struct node_job *find(const struct node_jobs *n, struct attempt_id id)
{
	struct node_job *j = n->jobs;
	while (j && !same(j->id, id))
		j = j->next;
	return j;
}

static void forget(struct node_jobs *n, struct node_job *job)
{
	for (struct node_job **p = &n->jobs; *p; p = &(*p)->next)
		if (*p == job) {
			*p = job->next;
			break;
		}
	if (job->keeper)
		job->keeper->job = NULL;
	node_usage_finish(&job->usage);
	free(job);
}

/* ---- The node's journal ------------------------------------------------------------- */

static void on_start(struct node_jobs *n, struct node_job *job, const struct record *r)
{
	if (job->started)
		return;
	job->started = true;
	if (r->keeper.type == JSON_STRING && r->keeper.size < sizeof(job->keeper_name))
		job->keeper_name[json_unescape(&r->keeper, job->keeper_name)] = '\0';
	node_usage_started(&job->usage, r->pid);
	n->options.ops->started(n->options.context, job->id, r->pid);
}

static bool is_reason(const struct json_value *reason, const char *const *reasons)
{
	for (; *reasons; reasons++)
		if (json_is(reason, *reasons))
			return true;
	return false;
}

/* Omits the middle of a reason that is too long: the middle is usually a path, and the end may contain advice. */
static void copy_reason(char ret[FRAME_REASON_ROOM], const struct json_value *reason)
{
	static const char omission[] = "…";
	const size_t half = (FRAME_REASON_ROOM - sizeof(omission)) / 2;
	cleanup_(freep) char *words = reason->type == JSON_STRING ? malloc(reason->size + 1) : NULL;
	if (!words)
		return;
	words[json_unescape(reason, words)] = '\0';
	size_t size = strlen(words);
	if (size < FRAME_REASON_ROOM) {
		memcpy(ret, words, size + 1);
		return;
	}
	const char *end = words + size - half;
	while ((*end & 0xc0) == 0x80)
		end++;
	snprintf(ret, FRAME_REASON_ROOM, "%.*s%s%s", (int)utf8_whole(words, half), words, omission, end);
}

static void on_end(struct node_job *job, const struct record *r)
{
	static const char *const ours[] = {REASON_TIMEOUT, REASON_CANCELLED, REASON_INTERRUPTED, REASON_GPU_LOST, NULL};
	struct pilot_exit *e = &job->exited;
	*e = (struct pilot_exit){.id = job->id,
		.exit_code = (int)r->exit_code,
		.signal = (int)r->signal,
		.ours = is_reason(&r->reason, ours),
		.exited_ns = guard_now_ns(),
		.time_ms = r->time_ms,
		.duration_ms = r->duration_ms,
		.peak_mem_mb = r->peak_mem_mb,
		.energy_j = r->energy_j > 0 ? r->energy_j : 0};
	e->outcome = r->event == EVENT_INTERRUPTED      ? OUTCOME_INTERRUPTED
		     : json_is(&r->status, "completed") ? OUTCOME_COMPLETED
		     : json_is(&r->status, "cancelled") ? OUTCOME_CANCELLED
							: OUTCOME_FAILED;
	copy_reason(e->reason, &r->reason);
	job->over = true;
}

static int on_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct node_jobs *n = context;
	struct record r;
	(void)line_no;
	if (record_parse(line, size, &r) < 0)
		return 0;
	struct node_job *job = find(n, (struct attempt_id){r.id, r.attempt});
	if (job && r.event == EVENT_START)
		on_start(n, job, &r);
	else if (job && (r.event == EVENT_END || r.event == EVENT_INTERRUPTED))
		on_end(job, &r);
	return 0;
}

static void read_journal(struct node_jobs *n)
{
	int tries = 0;
	while (journal_reader_read(&n->reader, on_line, n) == 1 && tries++ < JOURNAL_MOST_RESETS)
		;
}

static const struct node_job *first_to_look_for(const struct node_jobs *n)
{
	const struct node_job *first = NULL;
	for (const struct node_job *job = n->jobs; job; job = job->next)
		if (job->keeper && !job->started && (!first || job->look_ns < first->look_ns))
			first = job;
	return first;
}

/* The journal is not watched: a keeper reports the end of its job, and the start of a job that is already over needs no
 * report of its own. */
static void on_look(void *context, uint32_t events)
{
	struct node_jobs *n = context;
	uint64_t now = clock_now_ns();
	const struct node_job *first = first_to_look_for(n);
	(void)events;
	if (first && first->look_ns <= now) {
		read_journal(n);
		for (struct node_job *job = n->jobs; job; job = job->next)
			if (job->look_ns <= now)
				job->look_ns = now + LOOK_MS * NS_PER_MS;
		first = first_to_look_for(n);
	}
	if (first)
		loop_set_deadline(n->look, first->look_ns);
}

/* ---- Keepers ------------------------------------------------------------------------ */

static struct pilot_exit failed_exit(const struct node_job *job)
{
	return (struct pilot_exit){.id = job->id,
		.exit_code = -1,
		.outcome = OUTCOME_FAILED,
		.exited_ns = guard_now_ns(),
		.time_ms = date_now_ms(),
		.duration_ms = -1,
		.peak_mem_mb = -1};
}

/* No process of the job is left, and all notes of its keeper were read. */
static void conclude(struct node_jobs *n, struct node_job *job)
{
	struct node_job copy = *job;
	if (copy.started && !copy.over) {
		copy.exited = failed_exit(job);
		snprintf(copy.exited.reason, sizeof(copy.exited.reason), "%s", REASON_KEEPER_LOST);
		copy.over = true;
	}
	forget(n, job);
	if (copy.over)
		n->options.ops->exited(n->options.context, &copy.exited);
	else
		n->options.ops->not_started(
			n->options.context, copy.id, *copy.words ? copy.words : "its keeper was killed");
}

static void describe_refusal(struct node_job *job, const struct keeper_note *note)
{
	static const char *const parts[] = {[ATTEMPT_KEEPER] = "cannot create the file of its keeper",
		[ATTEMPT_ENVIRONMENT] = "cannot read its environment",
		[ATTEMPT_COMMAND] = "cannot write its command to a file",
		[ATTEMPT_LOG] = "cannot create its log",
		[ATTEMPT_LOG_DIRECTORY] = "cannot create its log in a directory that other users can change",
		[ATTEMPT_PROCESS] = "cannot start its process",
		[ATTEMPT_SCRIPT] = "other users may have written its stored script"};
	const char *what = note->part <= ATTEMPT_SCRIPT ? parts[note->part] : "cannot start it";
	snprintf(job->words, sizeof(job->words), "%s: %.60s", what, error_words(note->code));
}

static void on_note(void *context, struct node_keeper *k, const struct keeper_note *note)
{
	struct node_jobs *n = context;
	struct node_job *job = k->job && k->job->id.job == note->id ? k->job : NULL;
	switch ((enum keeper_note_kind)note->kind) {
	case KEEPER_NOTE_READY:
		k->busy = false;
		break;
	case KEEPER_NOTE_REFUSED:
		if (!job)
			break;
		describe_refusal(job, note);
		conclude(n, job);
		break;
	case KEEPER_NOTE_ENDED:
		if (!job)
			break;
		if (!job->over) /* otherwise its end was read with that of another job */
			read_journal(n);
		conclude(n, job);
		break;
	case KEEPER_NOTE_BLOCKED: /* it tries again */
	case KEEPER_NOTE_HELLO:
		break;
	}
}

static void on_gone(void *context, struct node_keeper *k)
{
	struct node_jobs *n = context;
	struct node_job *job = k->job;
	if (!job)
		return;
	k->job = NULL;
	job->keeper = NULL;
	job->lost = true;
	loop_set_deadline(n->timer, clock_now_ns() + NS_PER_MS);
}

/* ---- Jobs whose keeper was killed --------------------------------------------------- */

static int ask_if_left(void *context, pid_t pid, const char *value)
{
	struct node_jobs *n = context;
	(void)pid;
	for (struct node_job *job = n->jobs; job; job = job->next) {
		if (!job->lost || !job->started)
			continue;
		cleanup_(text_finish) struct text cookie = {0};
		attempt_cookie(&cookie, job->keeper_name, job->id.job, job->id.attempt);
		if (strcmp(text_string(&cookie) + strlen(ATTEMPT_COOKIE "="), value) == 0) {
			job->left = true;
			return SIGKILL;
		}
	}
	return 0;
}

static void on_timer(void *context, uint32_t events)
{
	struct node_jobs *n = context;
	bool again = false;
	(void)events;
	read_journal(n);
	for (struct node_job *job = n->jobs; job; job = job->next)
		job->left = false;
	(void)process_signal_marked(ATTEMPT_COOKIE, ask_if_left, n);
	for (struct node_job *job = n->jobs, *next; job; job = next) {
		next = job->next;
		if (job->lost && !job->left)
			conclude(n, job);
		else
			again = again || job->lost;
	}
	if (again)
		loop_set_deadline(n->timer, clock_now_ns() + KILL_AGAIN_MS * NS_PER_MS);
}

/* ---- Beginning and end of an attempt ------------------------------------------------ */

/* Copies an environment of the queue; its name is a hash of its content. */
static int bring_environment(const struct node_jobs *n, const char *name, bool trusted)
{
	char path[HASH_TEXT + 8];
	cleanup_(freep) char *block = NULL;
	size_t size;
	if (!*name)
		return 0;
	if (strlen(name) >= HASH_TEXT || strchr(name, '/') || *name == '.')
		return -EINVAL;
	snprintf(path, sizeof(path), "env/%s", name);
	if (faccessat(n->journal->dir_fd, path, R_OK, 0) == 0)
		return 0;
	int r = environment_load(n->queue_fd, name, trusted ? ENVIRONMENT_OF_ANYBODY : geteuid(), &block, &size);
	if (r < 0)
		return r;
	/* Only this process writes here, and no keeper knows the name yet. */
	cleanup_(closep) int fd = openat(n->journal->dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : file_write_all(fd, block, size);
	if (r < 0)
		(void)unlinkat(n->journal->dir_fd, path, 0);
	return r;
}

/* A retry would not help, and must not delay other jobs. */
static void fail(struct node_job *job, const char *part)
{
	job->over = true;
	job->exited = failed_exit(job);
	snprintf(job->exited.reason, sizeof(job->exited.reason),
		"could not be started: other users may have written its %s; add the job again", part);
}

/*
 * The keeper checks environments and scripts in the folder of its journal, but here those are in the folder of the
 * queue. The order tells whether the runner was started with --trust.
 */
static int bring_contents(const struct node_jobs *n, const struct attempt *a, struct node_job *job)
{
	bool trusted = a->order.log_trust == LOG_TRUST_ALL;
	int r = bring_environment(n, a->env, trusted);
	if (r == -EPERM)
		fail(job, "environment");
	else if (r < 0)
		snprintf(job->words, sizeof(job->words), "cannot read its environment '%.40s': %.60s", a->env,
			error_words(r));
	if (r < 0)
		return r;
	r = trusted ? 0 : attempt_check_scripts(a->command, n->queue_fd);
	if (r < 0)
		fail(job, "stored script");
	return r;
}

/* Adds the values that only this node knows to the coordinator's payload, which lacks the GPUs: they come last. */
static int add_gpus(const struct node_jobs *n, const struct gd_gpu *const *gpus, size_t num_gpus,
	struct keeper_order *o, struct text *payload)
{
	cleanup_(freep) struct gd_env_change *changes = NULL;
	int indexes[FRAME_MAX_GPUS];
	int r = gd_gpu_bind(gpus, num_gpus, &changes, NULL);
	if (r < 0)
		return r;
	for (const struct gd_env_change *c = changes; c->name; c++)
		job_order_set_variable(o, payload, c->name, c->value);
	job_order_set_variable(o, payload, "GPUQ_NODE", n->options.node);
	for (size_t i = 0; i < num_gpus; i++)
		indexes[i] = gpus[i]->index;
	return job_order_set_gpus(o, payload, indexes, num_gpus);
}

static int take_order(const struct frame_grant *g, struct attempt *ret)
{
	struct keeper_order o = {0};
	uint32_t bytes = 0;
	if (g->order_size >= sizeof(bytes))
		memcpy(&bytes, g->order, sizeof(bytes));
	/* As between keepers and runners: a newer struct has more fields at its end, and missing ones are zero. */
	if (bytes < offsetof(struct keeper_order, warn_before_ms) || bytes > KEEPER_MESSAGE_MAX ||
		bytes > g->order_size)
		return -EBADMSG;
	memcpy(&o, g->order, bytes < sizeof(o) ? bytes : sizeof(o));
	if (o.size != g->order_size - bytes || o.num_env > 1000 || o.num_gpus != 0)
		return -EBADMSG;
	char *payload = malloc(o.size + 1);
	if (!payload)
		return -ENOMEM;
	memcpy(payload, (const char *)g->order + bytes, o.size);
	o.id = g->id.job;
	o.attempt = g->id.attempt;
	o.kind = KEEPER_ORDER_RUN;
	int r = attempt_init(ret, &o, payload);
	if (r < 0)
		attempt_finish(ret);
	return r;
}

static struct node_keeper *idle_keeper(struct node_jobs *n)
{
	static const struct node_keeper_ops ops = {.note = on_note, .gone = on_gone};
	struct node_keeper *k = n->keepers;
	while (k && k->busy)
		k = k->next;
	if (!k && node_keeper_create(n->options.loop, n->nursery_fd, &ops, n, &n->keepers, &k) < 0)
		return NULL;
	return k;
}

static int hand_to_keeper(
	struct node_jobs *n, struct node_job *job, const struct frame_grant *g, const struct gd_gpu *const *gpus)
{
	struct attempt a;
	cleanup_(text_finish) struct text payload = {0};
	int r = take_order(g, &a);
	if (r < 0)
		return r;
	struct keeper_order o = a.order;
	o.fence = n->journal->fence;
	o.slurm_job = n->options.slurm_job;
	o.log_tag = log_name_tag(n->options.secret, g->id, o.slurm_job);
	r = bring_contents(n, &a, job);
	if (r == 0)
		text_append(&payload, a.payload, o.size);
	if (r == 0)
		r = add_gpus(n, gpus, g->num_gpus, &o, &payload);
	attempt_finish(&a);
	struct node_keeper *k = r == 0 ? idle_keeper(n) : NULL;
	if (r == 0 && !k)
		r = -EAGAIN;
	if (r == 0)
		r = node_keeper_send(k, &o, payload.data);
	if (r < 0)
		return r;
	k->busy = true;
	k->job = job;
	job->keeper = k;
	job->look_ns = clock_now_ns() + LOOK_MS * NS_PER_MS;
	/* An earlier deadline stays. */
	if (!first_to_look_for(n) || first_to_look_for(n) == job)
		loop_set_deadline(n->look, job->look_ns);
	return 0;
}

void node_jobs_begin(struct node_jobs *n, const struct frame_grant *grant, const struct gd_gpu *const *gpus)
{
	struct node_job *job = calloc(1, sizeof(*job));
	if (!job) {
		n->options.ops->not_started(n->options.context, grant->id, "out of memory");
		return;
	}
	job->id = grant->id;
	job->next = n->jobs;
	n->jobs = job;
	node_usage_begin(&job->usage, gpus, grant->num_gpus);
	for (struct node_job *other = job->next; other; other = other->next)
		node_usage_compare(&job->usage, &other->usage);
	int r = hand_to_keeper(n, job, grant, gpus);
	if (r == 0)
		return;
	/* Report from the loop, because the caller is still executing its actions. */
	if (!*job->words)
		snprintf(job->words, sizeof(job->words), "%s",
			r == -EBADMSG ? "invalid order: coordinator and pilot have different versions"
				      : error_words(r));
	job->lost = true;
	loop_set_deadline(n->timer, clock_now_ns() + NS_PER_MS);
}

void node_jobs_stop(struct node_jobs *n, struct attempt_id id, enum cancel_mode mode)
{
	struct node_job *job = find(n, id);
	if (!job || !job->keeper)
		return;
	struct keeper_order o = {.id = id.job};
	o.kind = mode == CANCEL_ASK         ? KEEPER_ORDER_CANCEL
		 : mode == CANCEL_INTERRUPT ? KEEPER_ORDER_INTERRUPT
					    : KEEPER_ORDER_KILL;
	(void)node_keeper_send(job->keeper, &o, NULL);
}

void node_jobs_stop_all(struct node_jobs *n)
{
	for (struct node_job *job = n->jobs; job; job = job->next)
		node_jobs_stop(n, job->id, CANCEL_INTERRUPT);
}

void node_jobs_sample(struct node_jobs *n, const struct gd_gpu_list *gpus)
{
	struct keeper_order seen;
	size_t count = 0;
	for (const struct node_job *job = n->jobs; job; job = job->next)
		count++;
	cleanup_(freep) struct gpu_user **users = calloc(count + 1, sizeof(*users));
	/* If out of memory, this sample is missing. */
	if (!users)
		return;
	count = 0;
	for (struct node_job *job = n->jobs; job; job = job->next)
		users[count++] = &job->usage.user;
	gpu_users_find(gpus, users, count);
	for (struct node_job *job = n->jobs; job; job = job->next) {
		node_usage_sample(&job->usage, gpus, &n->machine);
		if (!job->keeper || !job->started || !node_usage_tell(&job->usage, &seen))
			continue;
		seen.id = job->id.job;
		(void)node_keeper_send(job->keeper, &seen, NULL);
	}
}

/* ---- Opening and closing ------------------------------------------------------------ */

static void clear_environment(void)
{
	size_t kept = 0;
	for (size_t i = 0; environ[i]; i++)
		if (!allocation_is_variable(environ[i]))
			environ[kept++] = environ[i];
	environ[kept] = NULL;
}

static int open_journal(struct node_jobs *n, struct gd_error *err)
{
	char file[PATH_MAX + 16];
	int r = node_folder_make(&n->folder, err);
	if (r < 0)
		return r;
	snprintf(file, sizeof(file), "%s/jobs.jsonl", n->folder.path);
	r = journal_open_at(n->folder.fd, file, trust_is_off(), &n->journal, err);
	if (r == 0)
		r = journal_lock(n->journal, err);
	if (r < 0)
		return r;
	journal_unlock(n->journal);
	r = journal_reader_init_open(&n->reader, n->journal);
	if (r < 0)
		return error_set(err, r, "cannot read '%s': %s", file, error_words(r));
	n->reading = true;
	return 0;
}

int node_jobs_create(const struct node_jobs_options *options, struct node_jobs **ret, struct gd_error *err)
{
	struct node_jobs *n = calloc(1, sizeof(*n));
	if (!n)
		return error_set(err, -ENOMEM, "cannot start the pilot: out of memory");
	n->options = *options;
	n->nursery_fd = n->queue_fd = -1;
	n->folder = (struct node_folder)NODE_FOLDER_NONE;
	clear_environment();
	(void)machine_get(&n->machine); /* the PIDs of the driver are compared with it */
	n->queue_fd = open(options->queue_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = n->queue_fd < 0 ? error_set(err, -errno, "cannot open '%s': %s", options->queue_dir, error_words(errno))
				: open_journal(n, err);
	if (r == 0)
		r = nursery_start(&(struct nursery_options){.journal_path = n->journal->path,
					  .parent_fd = n->journal->parent_fd,
					  .accepted = n->journal->accepted,
					  .allocation = "",
					  .dies_with_parent = true},
			&n->nursery_pid, &n->nursery_fd, err);
	if (r == 0) {
		r = loop_add_timer(options->loop, on_timer, n, &n->timer);
		if (r == 0)
			r = loop_add_timer(options->loop, on_look, n, &n->look);
		if (r < 0)
			error_set(err, r, "cannot start the pilot: %s", error_words(r));
	}
	if (r < 0) {
		node_jobs_destroy(n);
		return r;
	}
	*ret = n;
	return 0;
}

void node_jobs_destroy(struct node_jobs *n)
{
	if (!n)
		return;
	while (n->keepers)
		node_keeper_destroy(n->keepers);
	if (n->nursery_pid > 0) {
		/* Keepers and first processes of jobs die with the nursery; guard and sweeper kill the rest. */
		(void)process_signal_descendants(n->nursery_pid, SIGKILL);
		kill(n->nursery_pid, SIGKILL);
		waitpid(n->nursery_pid, NULL, 0);
	}
	while (n->jobs)
		forget(n, n->jobs);
	loop_remove(n->look);
	loop_remove(n->timer);
	closep(&n->nursery_fd);
	closep(&n->queue_fd);
	if (n->reading)
		journal_reader_finish(&n->reader);
	journal_close(n->journal);
	node_folder_remove(&n->folder);
	free(n);
}
