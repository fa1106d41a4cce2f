/* SPDX-License-Identifier: MIT */
#include "cli/run_panel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/display.h"
#include "base/file.h"
#include "base/shell_words.h"
#include "cli/job_list.h"
#include "queue/input/id_list.h"
#include "queue/journal/job_line.h"
#include "shown/devices.h"
#include "view/model/palette.h"
#include "view/panel/panel.h"

#define PERIOD_MS 250

/* Jobs that ended on a GPU while the panel was shown. */
struct past {
	char node[65]; /* "": this machine */
	int index;     /* index of the GPU */
	uint64_t completed, failed, timeouts;
	int64_t last_ms;
};

struct run_panel {
	int fd;
	bool quiet;
	struct view_model *model;
	struct panel *panel;
	struct runner_watch watch;
	uint64_t start_ns;
	uint64_t timeouts;
	struct past *pasts;
	size_t num_pasts, pasts_capacity;
	bool cpu_row;          /* a job ran without a GPU */
	struct text command;   /* command of the last line above the panel */
	struct id_list failed; /* failed jobs, in the order of their ends */
	const struct queue_choice *queue;
};

static struct past *past_of(struct run_panel *p, const char *node, int index)
{
	for (size_t i = 0; i < p->num_pasts; i++)
		if (p->pasts[i].index == index && strcmp(p->pasts[i].node, node) == 0)
			return &p->pasts[i];
	if (array_reserve(p->pasts, &p->pasts_capacity, p->num_pasts + 1) < 0)
		return NULL;
	p->pasts[p->num_pasts] = (struct past){.index = index, .last_ms = -1};
	snprintf(p->pasts[p->num_pasts].node, sizeof(p->pasts[0].node), "%s", node);
	return &p->pasts[p->num_pasts++];
}

static void count_on(struct run_panel *p, int index, const struct job *job)
{
	bool on_pilot = job->keeper && job->keeper->is_pilot;
	struct past *past = past_of(p, on_pilot ? job->keeper->machine.host : "", index);
	if (!past)
		return;
	past->completed += job->state == JOB_COMPLETED;
	past->failed += job->state == JOB_FAILED;
	past->timeouts += job->attempts->reason && strcmp(job->attempts->reason, REASON_TIMEOUT) == 0;
	past->last_ms = job->attempts->duration_ms;
}

static void remember_command(struct run_panel *p, const struct job *job)
{
	text_clear(&p->command);
	text_append(&p->command, job->command, job->command_size);
	if (text_error(&p->command))
		text_finish(&p->command);
}

/* Where the command begins to differ from the previous line. */
static size_t difference(const struct run_panel *p, const struct job *job, size_t columns)
{
	const struct job above = {.command = p->command.data, .command_size = p->command.length};
	const struct job *both[] = {&above, job};
	return p->command.length ? job_list_difference(&(struct job_list){.jobs = both, .count = 2}, 1, columns) : 0;
}

/* Running jobs are in the panel; an ended job gets a line above it. */
static void say_end(struct run_panel *p, const struct job *job)
{
	cleanup_(text_finish) struct text t = {0};
	struct winsize size;
	size_t width = ioctl(p->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
	size_t digits = (size_t)snprintf(NULL, 0, "%llu", (unsigned long long)job->id);
	struct job_line_options o = {.id_width = digits, .width = width, .color = job_list_color};
	/* Shorten the command before the outcome. */
	size_t rest = JOB_LINE_MARK_WIDTH + digits + 1 + job_line_rest_width(job, &o), least = width / 3;
	size_t room = width > rest + least ? width - rest : least;
	cleanup_(text_finish) struct text scratch = {0};
	size_t command_size;
	const char *command = job_line_command(job, &scratch, &command_size);
	size_t whole = display_width(command, command_size);
	o.command_width = whole < room ? whole : room;
	o.keep_from = whole > room ? difference(p, job, o.command_width) : 0;
	job_line_write(&t, job, &o);
	remember_command(p, job);
	text_append_char(&t, '\n');
	if (text_error(&t) == 0)
		panel_print(p->panel, t.data, t.length);
}

/*
 * A failed job may be retried while others run; a run that follows another runner may not have seen the retry. If
 * memory for the list runs out, the job's end is still shown above the panel.
 */
static void note_failed(struct run_panel *p, const struct job *job, int old)
{
	struct id_list *l = &p->failed;
	for (size_t i = 0; i < l->count; i++)
		if (l->ids[i] == job->id) {
			memmove(l->ids + i, l->ids + i + 1, (l->count - i - 1) * sizeof(*l->ids));
			l->count--;
			break;
		}
	if (old >= 0 && job->state == JOB_FAILED)
		(void)id_list_add(l, job->id);
}

static void on_changed(void *context, const struct job *job, int old)
{
	struct run_panel *p = context;
	const struct job_attempt *last = job->attempts;
	if (!p->quiet && old >= 0 && (job_is_final(job) || (old == JOB_RUNNING && job->state == JOB_PENDING)))
		say_end(p, job);
	note_failed(p, job, old);
	if (old != JOB_RUNNING || !job_is_final(job) || !last)
		return;
	p->timeouts += last->reason && strcmp(last->reason, REASON_TIMEOUT) == 0;
	for (size_t i = 0; i < last->num_gpus; i++)
		count_on(p, last->gpus[i], job);
	if (!last->num_gpus)
		count_on(p, -1, job);
}

static void on_say(void *context, const char *lines, size_t size)
{
	struct run_panel *p = context;
	panel_print(p->panel, lines, size);
}

/* ---- Filling the model ---------------------------------------------------------------- */

static bool is_on(const struct runner_job *job, int position)
{
	if (position < 0)
		return job->num_gpus == 0;
	for (size_t i = 0; i < job->num_gpus; i++)
		if (job->gpus[i] == position)
			return true;
	return false;
}

/* The jobs on a GPU: the job that started first represents all. */
static void add_jobs(
	struct view_gpu *g, const struct runner_now *now, int position, uint64_t now_ns, char *task, size_t room)
{
	const struct job *first = NULL;
	bool any_started = false;
	for (size_t i = 0; i < now->num_running; i++) {
		const struct runner_job *job = &now->running[i];
		if (!is_on(job, position))
			continue;
		g->num_tasks++;
		any_started = any_started || job->started;
		if (!first || (job->started && job->job->id < first->id))
			first = job->job;
	}
	if (!first)
		return;
	g->status = any_started ? VIEW_GPU_PROCESSING : VIEW_GPU_INITIALIZING;
	cleanup_(text_finish) struct text scratch = {0};
	size_t command_size;
	const char *command = job_line_command(first, &scratch, &command_size);
	snprintf(task, room, "%.*s", (int)command_size, command);
	g->task = task;
	g->task_id = first->id;
	g->task_name = first->name;
	int64_t passed_ms = any_started && first->attempts ? date_now_ms() - first->attempts->start_ms : -1;
	if (passed_ms >= 0 && (uint64_t)passed_ms < now_ns / NS_PER_MS)
		g->since_ns = (int64_t)(now_ns - (uint64_t)passed_ms * NS_PER_MS);
}

static void add_past(struct view_gpu *g, struct run_panel *p, const char *node, int index)
{
	const struct past *past = past_of(p, node ? node : "", index);
	if (!past)
		return;
	g->completed = past->completed;
	g->failed = past->failed;
	g->timeouts = past->timeouts;
	g->last_duration_ns = past->last_ms >= 0 ? past->last_ms * (int64_t)NS_PER_MS : -1;
}

static void add_device(struct view_gpu *g, const struct gd_gpu *gpu)
{
	static const char *const sick[] = {
		[GD_GPU_HEALTH_LOST] = "fell off the bus",
		[GD_GPU_HEALTH_NOT_ANSWERING] = "its driver does not answer",
		[GD_GPU_HEALTH_UNREADABLE] = "its driver returns errors",
	};
	devices_fill_row_from(g, gpu);
	if (gpu->health != GD_GPU_HEALTH_OK) {
		g->status = VIEW_GPU_ERROR;
		g->error = sick[gpu->health];
	}
}

static void put_row(struct run_panel *p, const struct runner_now *now, int position, uint64_t now_ns)
{
	const struct gd_gpu *gpu = position >= 0 ? now->gpus->gpus[position] : NULL;
	const char *node = gpu && now->nodes ? now->nodes[position] : NULL;
	char task[512], name[160];
	/* GPUs of different nodes have equal numbers: use their positions. */
	int id = node ? position : gpu ? gpu->index : -1;
	struct view_gpu g = view_gpu_unknown(id, gpu && gpu->mig_index > 0 ? gpu->mig_index : 0);
	g.status = now->over ? VIEW_GPU_FINISHED : VIEW_GPU_IDLE;
	add_past(&g, p, node, gpu ? gpu->index : -1);
	add_jobs(&g, now, position, now_ns, task, sizeof(task));
	if (gpu)
		add_device(&g, gpu);
	if (node) {
		snprintf(name, sizeof(name), "%s:%d%s%s", node, gpu->index, g.name ? " " : "", g.name ? g.name : "");
		g.name = name;
	}
	/* If out of memory, the row stays as it was. */
	(void)view_put_gpu(p->model, &g);
}

static const char *note_of(const struct runner_now *now)
{
	if (now->over || now->num_running == 0 || now->interrupts == 0)
		return NULL;
	if (now->interrupts == 1)
		return "No new jobs start. Ctrl-C again ends the running ones.";
	return "Ending the running jobs. Ctrl-C again kills them.";
}

static void on_look(void *context, const struct runner_now *now)
{
	struct run_panel *p = context;
	uint64_t now_ns = clock_now_ns();
	const struct runner_result *result = now->result;
	size_t running = now->num_running - now->num_others;
	struct view_work w = {.title = "gpuq run",
		.total = (int64_t)(result->completed + result->failed + running + now->waiting),
		.done = result->completed,
		.failed = result->failed,
		.cancelled = result->cancelled,
		.timeouts = p->timeouts,
		.running = running,
		.waiting = now->waiting,
		.note = note_of(now),
		.start_ns = p->start_ns,
		.end_ns = now->over ? now_ns : 0,
		.time_ns = now_ns};
	(void)view_put_work(p->model, &w);
	/* Nodes appear and disappear. */
	if (now->nodes)
		view_forget_gpus(p->model);
	for (size_t i = 0; now->gpus && i < now->gpus->count; i++)
		if (!now->nodes || now->nodes[i])
			put_row(p, now, (int)i, now_ns);
	for (size_t i = 0; i < now->num_running; i++)
		p->cpu_row = p->cpu_row || now->running[i].num_gpus == 0;
	if (p->cpu_row)
		put_row(p, now, -1, now_ns);
	panel_draw(p->panel, p->model, now_ns);
}

/* ---- Beginning and end ------------------------------------------------------------------ */

struct run_panel *run_panel_create(FILE *out, bool quiet, const struct queue_choice *q)
{
	int fd = fileno(out);
	if (panel_auto_mode(fd) != PANEL_LIVE)
		return NULL;
	struct run_panel *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	fflush(out);
	p->fd = fd;
	p->quiet = quiet;
	p->queue = q;
	p->start_ns = clock_now_ns();
	p->watch = (struct runner_watch){
		.context = p, .say = on_say, .changed = on_changed, .look = on_look, .period_ms = PERIOD_MS};
	p->model = view_model_create(1);
	p->panel = p->model ? panel_create(&(struct panel_options){.fd = fd, .mode = PANEL_LIVE}) : NULL;
	if (!p->panel) {
		view_model_destroy(p->model);
		free(p);
		return NULL;
	}
	return p;
}

const struct runner_watch *run_panel_watch(const struct run_panel *p)
{
	return p ? &p->watch : NULL;
}

#define MOST_RANGES 12

/* "5,17-19", as `gpuq retry` accepts it; false: too many to type. */
static bool append_ranges(struct text *t, const struct id_list *ids)
{
	size_t ranges = 0;
	for (size_t i = 0, end; i < ids->count; i = end) {
		for (end = i + 1; end < ids->count && ids->ids[end] == ids->ids[end - 1] + 1;)
			end++;
		if (++ranges > MOST_RANGES)
			return false;
		text_appendf(t, "%s%llu", i ? "," : "", (unsigned long long)ids->ids[i]);
		if (end > i + 1)
			text_appendf(t, "%s%llu", end > i + 2 ? "-" : ",", (unsigned long long)ids->ids[end - 1]);
	}
	return true;
}

/* `gpuq retry` might choose another queue here. */
static void append_queue(struct text *t, const struct queue_choice *q)
{
	if (!q->jobs_file)
		return;
	cleanup_(text_finish) struct text quoted = {0};
	shell_quote(&quoted, q->jobs_file, strlen(q->jobs_file));
	text_append_string(t, " --jobs-file ");
	display_append(t, text_string(&quoted), quoted.length, DISPLAY_ALL);
}

static void say_failed(struct run_panel *p)
{
	cleanup_(text_finish) struct text t = {0}, ranges = {0};
	if (p->failed.count == 0)
		return;
	id_list_sort(&p->failed);
	bool few = append_ranges(&ranges, &p->failed);
	text_appendf(&t, "\n%s%zu failed%s", palette_escape(palette_of_job(VIEW_JOB_FAILED)), p->failed.count,
		few ? ": " : "");
	text_append_string(&t, few ? text_string(&ranges) : "");
	text_append_string(&t, "\033[0m · to run again: gpuq retry");
	append_queue(&t, p->queue);
	text_appendf(&t, " %s\n", few ? text_string(&ranges) : "--failed");
	if (!text_error(&t) && !text_error(&ranges))
		(void)file_write_all(p->fd, t.data, t.length);
}

void run_panel_destroy(struct run_panel *p)
{
	if (!p)
		return;
	panel_destroy(p->panel, view_work(p->model)->start_ns ? p->model : NULL, clock_now_ns());
	say_failed(p);
	view_model_destroy(p->model);
	text_finish(&p->command);
	id_list_finish(&p->failed);
	free(p->pasts);
	free(p);
}
