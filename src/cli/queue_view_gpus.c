/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/queue_view_parts.h"
#include "gpu/select.h"

#define SAMPLE_MS 1000
#define NOTED_MS  (10 * 60 * 1000)
#define RETRY_NS  (5 * NS_PER_S)

/* ---- The probe ------------------------------------------------------------------------ */

void queue_view_close_gpus(struct queue_view *v)
{
	/* Closing its descriptor removes it from the epoll set. */
	gpu_probe_close(v->probe);
	v->probe = NULL;
	free(v->probe_spec);
	v->probe_spec = NULL;
}

/* The rules that a probe depends on, as a string to compare; NULL if out of memory. */
static char *describe_probe(const struct runner_rules *rules)
{
	char *words;
	return asprintf(&words, "%s %s", rules->machine, rules->gpus ? rules->gpus : "") < 0 ? NULL : words;
}

/* On success, takes ownership of `spec`. */
static int open_probe(struct queue_view *v, bool of_runner, char **spec, struct gd_error *err)
{
	/* The runner may have been started in a shell in which other GPUs are visible than here. */
	struct gpu_probe_options o = {.spec = v->rules.gpus,
		.period_ms = v->options.sample_ms ? v->options.sample_ms : SAMPLE_MS,
		.machine = of_runner ? v->rules.machine : NULL};
	v->probe_retry_ns = clock_now_ns() + RETRY_NS;
	int r = gpu_probe_open(&o, &v->probe, err);
	if (r < 0)
		return r;
	struct epoll_event e = {.events = EPOLLIN};
	if (epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, gpu_probe_fd(v->probe), &e) < 0) {
		r = -errno;
		queue_view_close_gpus(v);
		return r;
	}
	v->probe_spec = take_ptr(*spec);
	return 0;
}

/* The rules of a runner on this machine, else our own. */
static int find_rules(struct queue_view *v, bool *ret_of_runner)
{
	const struct config *c = &v->choice->config;
	struct runner_rules rules = {0};
	struct machine here = {0};
	bool given = config_has(c, CONFIG_GPUS) && c->gpus;
	machine_get(&here);
	*ret_of_runner = !given && v->runner != 0 && runner_rules_read(v->follow.dir_fd, &rules) == 0 &&
			 strcmp(rules.host, here.host) == 0;
	if (!*ret_of_runner) {
		runner_rules_finish(&rules);
		rules = (struct runner_rules){.min_free_mem_mb = config_min_free_mem_mb(c),
			.jobs_per_gpu = (int)c->jobs_per_gpu,
			.gpus = c->gpus ? strdup(c->gpus) : NULL};
		if (c->gpus && !rules.gpus)
			return -ENOMEM;
	}
	runner_rules_finish(&v->rules);
	v->rules = rules;
	return 0;
}

static int choose_local(struct queue_view *v, struct gd_error *err)
{
	bool of_runner;
	int r = find_rules(v, &of_runner);
	cleanup_(freep) char *spec = r < 0 ? NULL : describe_probe(&v->rules);
	if (!spec)
		return error_set(err, -ENOMEM, "cannot select GPUs: out of memory");
	if (v->probe && strcmp(v->probe_spec, spec) == 0)
		return 0;
	bool none = of_runner && strcmp(v->rules.gpus, RULES_NO_GPUS) == 0;
	if (!v->probe && (none || clock_now_ns() < v->probe_retry_ns))
		return 0;
	if (v->probe)
		view_forget_gpus(v->model);
	queue_view_close_gpus(v);
	return none ? 0 : open_probe(v, of_runner, &spec, err);
}

int queue_view_choose_gpus(struct queue_view *v, struct gd_error *err)
{
	bool was_cluster = v->cluster;
	/* --gpus selects GPUs of this machine. */
	bool nodes = !config_has(&v->choice->config, CONFIG_GPUS) && queue_view_read_nodes(v);
	if (nodes && !v->options.all) {
		if (v->probe)
			view_forget_gpus(v->model);
		queue_view_close_gpus(v);
		return queue_view_put_gpus(v);
	}
	if (was_cluster)
		view_forget_gpus(v->model);
	int r = choose_local(v, err);
	/* A login node may have no GPUs itself. */
	return v->options.all && (nodes || v->cluster_rows) ? queue_view_put_gpus(v) : r;
}

/* ---- Filling the model ------------------------------------------------------------------ */

static bool is_on(const struct job *job, int gpu, const char *node)
{
	const struct job_attempt *a = job->attempts;
	const char *own = queue_view_node(job);
	if (node ? !own || strcmp(own, node) != 0 : own != NULL)
		return false;
	for (int i = 0; a && i < a->num_gpus; i++)
		if (a->gpus[i] == gpu)
			return true;
	return false;
}

/* The memory that a job requested on each of its GPUs, in bytes; -1: not set. */
static int64_t requested_bytes(const struct job *job)
{
	int64_t mb = job->need_mb > job->wish->mem_mb && job->need_mb > 0 ? job->need_mb : job->wish->mem_mb;
	return mb < 0 ? -1 : mb << 20;
}

/* Current and past jobs of a GPU. */
struct gpu_use {
	const struct job *oldest; /* the oldest running job; NULL: none is running */
	unsigned queue;           /* queue of that job */
	int count;
	int64_t reserved_bytes; /* -1: no job has requested memory */
	struct gpu_tally tally;
};

/* GPUs of one node with the same number share the jobs among them. */
static bool is_of_peer(const struct queue_view *part, const struct job *job, int gpu, const struct gpu_row *row)
{
	int before = 0;
	for (size_t i = 0; row->peers > 1 && i < part->running.count; i++) {
		const struct job *other = jobs_find(&part->follow.jobs, part->running.ids[i]);
		before += other && other->id < job->id && other->state == JOB_RUNNING && is_on(other, gpu, row->node);
	}
	return row->peers <= 1 || before % row->peers == row->peer;
}

static void add_jobs(struct gpu_use *u, const struct queue_view *part, int gpu, const struct gpu_row *row)
{
	for (size_t i = 0; i < part->running.count && !queue_view_has_too_many(part); i++) {
		const struct job *job = jobs_find(&part->follow.jobs, part->running.ids[i]);
		if (!job || job->state != JOB_RUNNING || !is_on(job, gpu, row->node) ||
			!is_of_peer(part, job, gpu, row))
			continue;
		u->count++;
		int64_t bytes = requested_bytes(job);
		if (bytes > 0)
			u->reserved_bytes = (u->reserved_bytes < 0 ? 0 : u->reserved_bytes) + bytes;
		const struct job *oldest = u->oldest;
		if (!oldest || job->attempts->start_ms < oldest->attempts->start_ms ||
			(job->attempts->start_ms == oldest->attempts->start_ms && u->queue == part->queue &&
				job->id < oldest->id)) {
			u->oldest = job;
			u->queue = part->queue;
		}
	}
}

static const struct gpu_tally *tally_of(const struct queue_view *part, int gpu, const struct gpu_row *row)
{
	if (row->node)
		return row->peer ? NULL : queue_view_node_tally(part, row->node, gpu);
	return (size_t)gpu < part->num_tallies ? &part->tallies[gpu] : NULL;
}

static struct gpu_use find_use(const struct queue_view *v, int gpu, const struct gpu_row *row)
{
	struct gpu_use u = {.reserved_bytes = -1, .tally.last_duration_ms = -1};
	for (size_t i = 0; i < queue_view_num_parts(v); i++) {
		const struct queue_view *part = queue_view_part(v, i);
		if (!part)
			continue;
		add_jobs(&u, part, gpu, row);
		const struct gpu_tally *t = tally_of(part, gpu, row);
		if (!t)
			continue;
		u.tally.completed += t->completed;
		u.tally.failed += t->failed;
		u.tally.timeouts += t->timeouts;
		if (t->last_duration_ms >= 0)
			u.tally.last_duration_ms = t->last_duration_ms;
	}
	return u;
}

static int64_t known(const struct gd_gpu *gpu, unsigned bit, uint64_t value)
{
	return gpu->known & bit ? (int64_t)value : -1;
}

/* A job of this queue, its keeper, or the runner. */
static bool is_of_queue(const struct queue_view *v, pid_t pid, pid_t session)
{
	if (pid == v->runner)
		return true;
	for (size_t i = 0; i < v->running.count && !queue_view_has_too_many(v); i++) {
		const struct job *job = jobs_find(&v->follow.jobs, v->running.ids[i]);
		const struct job_attempt *a = job ? job->attempts : NULL;
		if (a && a->pid > 0 && (a->pid == pid || a->pid == session))
			return true;
	}
	return false;
}

/* Belongs to a queue that is shown, or is a launch or map of this user. */
static bool is_ours(const struct queue_view *v, pid_t pid, pid_t session)
{
	for (size_t i = 0; i < queue_view_num_parts(v); i++) {
		const struct queue_view *part = queue_view_part(v, i);
		if (part && is_of_queue(part, pid, session))
			return true;
	}
	for (size_t i = 0; i < view_num_runs(v->model); i++)
		if (view_run(v->model, i)->pid == pid)
			return true;
	return false;
}

#define MOST_ANCESTORS 64

/* Whether the process or one of its ancestors is ours. Also true for one that is not visible, as in a container. */
static bool may_be_ours(const struct queue_view *v, pid_t pid)
{
	struct process_info info;
	for (int i = 0; i < MOST_ANCESTORS && pid > 1; i++, pid = info.ppid) {
		if (process_info(pid, &info) < 0)
			return i == 0;
		if (is_ours(v, pid, info.session))
			return true;
	}
	return false;
}

/* Memory of processes that do not belong to this queue; -1: none is known. */
static int64_t foreign_bytes(const struct queue_view *v, const struct gd_gpu *gpu)
{
	int64_t bytes = -1;
	for (size_t i = 0; i < gpu->num_processes; i++) {
		const struct gd_gpu_process *p = gpu->processes[i];
		if (p->memory_known && p->memory_bytes > 0 && !may_be_ours(v, (pid_t)p->pid))
			bytes = (bytes < 0 ? 0 : bytes) + (int64_t)p->memory_bytes;
	}
	return bytes;
}

int queue_view_put_row(struct queue_view *v, const struct gd_gpu *gpu, const struct gpu_row *row)
{
	cleanup_(text_finish) struct text task = {0};
	const struct gpu_use use = find_use(v, gpu->index, row);
	const struct gpu_tally *t = &use.tally;
	const struct job *job = use.oldest;
	struct view_gpu g = {.id = row->id,
		.slot = gpu->mig_index < 0 ? 0 : gpu->mig_index,
		.name = gpu->known & GD_GPU_KNOWN_NAME ? gpu->name : gd_vendor_name(gpu->vendor),
		.error = gpu_unusable_reason(gpu),
		.since_ns = -1,
		.num_tasks = use.count,
		.memory_reserved_bytes = use.reserved_bytes,
		.memory_foreign_bytes = foreign_bytes(v, gpu),
		.last_duration_ns = t->last_duration_ms < 0 ? -1 : t->last_duration_ms * (int64_t)NS_PER_MS,
		.completed = t->completed,
		.failed = t->failed,
		.timeouts = t->timeouts,
		.memory_total_bytes = known(gpu, GD_GPU_KNOWN_MEMORY_TOTAL, gpu->memory_total_bytes),
		.memory_used_bytes = known(gpu, GD_GPU_KNOWN_MEMORY_USED, gpu->memory_used_bytes),
		.utilization_percent = (int)known(gpu, GD_GPU_KNOWN_UTILIZATION, gpu->utilization_percent),
		.temperature_celsius = gpu->known & GD_GPU_KNOWN_TEMPERATURE ? gpu->temperature_celsius : -1,
		.power_milliwatts = known(gpu, GD_GPU_KNOWN_POWER, gpu->power_milliwatts)};
	g.status = g.error ? VIEW_GPU_ERROR : job ? VIEW_GPU_PROCESSING : VIEW_GPU_IDLE;
	if (job) {
		text_append(&task, job->command, job->command_size);
		for (size_t i = 0; task.data && i < task.length; i++)
			if ((unsigned char)task.data[i] < 0x20)
				task.data[i] = ' ';
		g.task = text_string(&task);
		g.task_id = view_job_id(use.queue, job->id);
		const struct view_job *shown = view_find_job(v->model, g.task_id);
		g.task_name = shown ? shown->name : NULL;
		g.task_queue = shown ? shown->queue : NULL;
		g.since_ns = job->attempts->start_ms * (int64_t)NS_PER_MS - v->wall_offset_ns;
	}
	return text_error(&task) ? -ENOMEM : view_put_gpu(v->model, &g);
}

int queue_view_put_gpus(struct queue_view *v)
{
	struct gd_gpu_list *list = NULL;
	int r = 0, next_id = 0;
	/* On failure the selected GPUs do not exist: nothing to show. */
	if (v->probe && gpu_probe_list(v->probe, &list, NULL) < 0)
		list = NULL;
	size_t count = list ? list->count : 0;
	for (size_t i = 0; i < count; i++)
		next_id = list->gpus[i]->index >= next_id ? list->gpus[i]->index + 1 : next_id;
	queue_view_forget_nodes(v, next_id);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = queue_view_put_row(v, list->gpus[i], &(struct gpu_row){.id = list->gpus[i]->index, .peers = 1});
	gd_gpu_list_free(list);
	return r < 0 ? r : queue_view_put_nodes(v, next_id);
}

/* Puts samples of one card, or of all (-1). For a split card, sums the memory of its instances. */
static int put_samples(struct queue_view *v, int index)
{
	struct gd_gpu_list *list;
	if (gpu_probe_list(v->probe, &list, NULL) < 0)
		return 0;
	int64_t now_ms = date_now_ms();
	int r = 0;
	for (size_t i = 0; r == 0 && i < list->count;) {
		int id = list->gpus[i]->index;
		struct view_sample s = {.time_ms = now_ms, .memory_used_bytes = -1, .utilization_percent = -1};
		for (; i < list->count && list->gpus[i]->index == id; i++) {
			const struct gd_gpu *gpu = list->gpus[i];
			int64_t used = known(gpu, GD_GPU_KNOWN_MEMORY_USED, gpu->memory_used_bytes);
			int busy = (int)known(gpu, GD_GPU_KNOWN_UTILIZATION, gpu->utilization_percent);
			if (used >= 0)
				s.memory_used_bytes = (s.memory_used_bytes < 0 ? 0 : s.memory_used_bytes) + used;
			if (busy > s.utilization_percent)
				s.utilization_percent = busy;
		}
		if (index < 0 || index == id)
			r = view_put_sample(v->model, id, &s);
	}
	gd_gpu_list_free(list);
	return r;
}

/* Samples that the runner recorded before this view was opened. */
static int put_noted(void *context, const struct sample *s)
{
	struct queue_view *v = context;
	int r = 0;
	if (s->time_ms < date_now_ms() - NOTED_MS)
		return 0;
	for (size_t i = 0; r == 0 && i < s->num_gpus; i++)
		r = view_put_sample(v->model, s->gpus[i].gpu,
			&(struct view_sample){.time_ms = s->time_ms,
				.memory_used_bytes = s->gpus[i].mem_used_mb < 0 ? -1 : s->gpus[i].mem_used_mb << 20,
				.utilization_percent = s->gpus[i].util});
	return r;
}

int queue_view_put_noted(struct queue_view *v)
{
	int r = v->follow.dir_fd < 0 ? 0 : samples_read(v->follow.dir_fd, put_noted, v);
	return r == -ENOMEM ? r : 0;
}

int queue_view_read_gpus(struct queue_view *v)
{
	struct gpu_news news;
	bool heard = false;
	int r = 0, error = 0;
	while (v->probe && (r = gpu_probe_read(v->probe, &news)) > 0) {
		heard = true;
		/* Real cards are reported one by one, simulated ones all at once. */
		if (error == 0 && (news.kind == GPU_NEWS_CARD || gpu_probe_pid(v->probe) == 0))
			error = put_samples(v, news.kind == GPU_NEWS_CARD ? news.index : -1);
	}
	if (r < 0)
		queue_view_close_gpus(v); /* a driver crashed the probe: the timer starts another */
	if (error < 0 || !heard || !v->probe)
		return error;
	return queue_view_put_gpus(v);
}
