/* SPDX-License-Identifier: MIT */
#include "view/web/metrics.h"

#include <inttypes.h>
#include <string.h>

/* ---- The format ------------------------------------------------------------------- */

static void put_header(struct text *t, const char *name, const char *type, const char *help)
{
	text_appendf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Between quotes: only backslash, quote and newline are escaped. */
static void put_label_value(struct text *t, const char *value)
{
	for (; *value; value++)
		if (*value == '\n')
			text_append_string(t, "\\n");
		else if (*value == '\\' || *value == '"')
			text_appendf(t, "\\%c", *value);
		else
			text_append_char(t, *value);
}

static void put_gpu_labels(struct text *t, const struct view_gpu *gpu)
{
	/* An instance of a split card has its own number after the number of its card. */
	if (gpu->slot)
		text_appendf(t, "{gpu=\"%d:%d\"}", gpu->id, gpu->slot);
	else
		text_appendf(t, "{gpu=\"%d\"}", gpu->id);
}

/* ---- Histograms -------------------------------------------------------------------- */

static const double bounds[] = {0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400};
#define BOUNDS (sizeof(bounds) / sizeof(*bounds))

struct metric_histogram {
	uint64_t counts[BOUNDS + 1]; /* not cumulative */
	double sum;
	uint64_t count;
};

static void metric_histogram_add(struct metric_histogram *h, int64_t ms)
{
	double s = (double)(ms < 0 ? 0 : ms) / 1000;
	size_t i = 0;
	while (i < BOUNDS && s > bounds[i])
		i++;
	h->counts[i]++;
	h->sum += s;
	h->count++;
}

static void put_histogram(struct text *t, const char *name, const char *help, const struct metric_histogram *h)
{
	uint64_t below = 0;
	put_header(t, name, "histogram", help);
	for (size_t i = 0; i < BOUNDS; i++) {
		below += h->counts[i];
		text_appendf(t, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], below);
	}
	text_appendf(t, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
	text_appendf(t, "%s_sum %.3f\n%s_count %" PRIu64 "\n", name, h->sum, name, h->count);
}

/* ---- GPUs ----------------------------------------------------------------------------- */

struct gpu_gauge {
	const char *name, *help;
	double (*value)(const struct view_gpu *gpu); /* negative: unknown */
};

static double memory_size(const struct view_gpu *g)
{
	return (double)g->memory_total_bytes;
}

static double memory_used(const struct view_gpu *g)
{
	return (double)g->memory_used_bytes;
}

static double memory_reserved(const struct view_gpu *g)
{
	return (double)g->memory_reserved_bytes;
}

static double memory_foreign(const struct view_gpu *g)
{
	return (double)g->memory_foreign_bytes;
}

static double utilization(const struct view_gpu *g)
{
	return g->utilization_percent < 0 ? -1 : g->utilization_percent / 100.0;
}

static double temperature(const struct view_gpu *g)
{
	return g->temperature_celsius;
}

static double power(const struct view_gpu *g)
{
	return g->power_milliwatts < 0 ? -1 : (double)g->power_milliwatts / 1000;
}

static double up(const struct view_gpu *g)
{
	return g->status != VIEW_GPU_ERROR;
}

static double jobs_on(const struct view_gpu *g)
{
	return g->num_tasks;
}

static const struct gpu_gauge gpu_gauges[] = {
	{"gpuq_gpu_up", "Whether the GPU is usable.", up},
	{"gpuq_gpu_memory_size_bytes", "Memory of the GPU.", memory_size},
	{"gpuq_gpu_memory_used_bytes", "Memory in use on the GPU, by all processes.", memory_used},
	{"gpuq_gpu_memory_reserved_bytes", "Memory requested by running jobs of this queue.", memory_reserved},
	{"gpuq_gpu_memory_foreign_bytes", "Memory used by processes outside this queue.", memory_foreign},
	{"gpuq_gpu_utilization_ratio", "Fraction of time the GPU was busy, 0 to 1.", utilization},
	{"gpuq_gpu_temperature_celsius", "Temperature of the GPU.", temperature},
	{"gpuq_gpu_power_watts", "Power that the GPU draws.", power},
	{"gpuq_gpu_running_jobs", "Jobs of this queue that run on the GPU.", jobs_on},
};

static void put_gauge(struct text *t, const struct view_model *m, const struct gpu_gauge *gauge)
{
	bool begun = false;
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		const struct view_gpu *gpu = view_gpu(m, i);
		double value = gauge->value(gpu);
		if (value < 0)
			continue;
		if (!begun)
			put_header(t, gauge->name, "gauge", gauge->help);
		begun = true;
		text_append_string(t, gauge->name);
		put_gpu_labels(t, gpu);
		text_appendf(t, " %.15g\n", value);
	}
}

static void put_gpus(struct text *t, const struct view_model *m)
{
	if (view_num_gpus(m) > 0)
		put_header(t, "gpuq_gpu_info", "gauge", "Name of each GPU.");
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		const struct view_gpu *gpu = view_gpu(m, i);
		text_appendf(t, gpu->slot ? "gpuq_gpu_info{gpu=\"%d:%d\",name=\"" : "gpuq_gpu_info{gpu=\"%d\",name=\"",
			gpu->id, gpu->slot);
		put_label_value(t, gpu->name ? gpu->name : "");
		text_append_string(t, "\"} 1\n");
	}
	for (size_t i = 0; i < sizeof(gpu_gauges) / sizeof(*gpu_gauges); i++)
		put_gauge(t, m, &gpu_gauges[i]);
}

/* ---- Jobs ------------------------------------------------------------------------------- */

struct totals {
	struct metric_histogram durations, waits;
	uint64_t ends[VIEW_JOB_STATES]; /* of attempts */
	uint64_t retries, timeouts;
	uint64_t energy_j;
	int64_t oldest_ms; /* of the oldest waiting job; -1: none waits */
};

static void count_attempt(struct totals *all, const struct view_attempt *a)
{
	if (a->state == VIEW_JOB_RUNNING)
		return;
	all->ends[a->state]++;
	if (a->duration_ms >= 0)
		metric_histogram_add(&all->durations, a->duration_ms);
	if (a->energy_j >= 0)
		all->energy_j += (uint64_t)a->energy_j;
	if (a->reason && strcmp(a->reason, "timeout") == 0)
		all->timeouts++;
}

static void count_job(struct totals *all, const struct view_job *job)
{
	for (size_t i = 0; i < job->num_attempts; i++)
		count_attempt(all, &job->attempts[i]);
	if (job->num_attempts > 1)
		all->retries += job->num_attempts - 1;
	if (job->num_attempts > 0 && job->submit_ms > 0 && job->attempts[0].start_ms > 0)
		metric_histogram_add(&all->waits, job->attempts[0].start_ms - job->submit_ms);
	if (job->state == VIEW_JOB_PENDING && job->submit_ms > 0 &&
		(all->oldest_ms < 0 || job->submit_ms < all->oldest_ms))
		all->oldest_ms = job->submit_ms;
}

static void put_jobs(struct text *t, const struct view_model *m, int64_t now_ms)
{
	static const enum view_job_state ends[] = {VIEW_JOB_COMPLETED, VIEW_JOB_FAILED, VIEW_JOB_CANCELLED};
	struct totals all = {.oldest_ms = -1};
	for (size_t i = 0; i < view_num_jobs(m); i++)
		count_job(&all, view_job(m, i));

	put_header(t, "gpuq_jobs", "gauge", "Jobs in the journal, by state.");
	for (int i = 0; i < VIEW_JOB_STATES; i++)
		text_appendf(t, "gpuq_jobs{state=\"%s\"} %zu\n", view_job_state_name((enum view_job_state)i),
			view_job_count(m, (enum view_job_state)i));
	put_header(t, "gpuq_oldest_pending_seconds", "gauge", "Age of the oldest pending job.");
	text_appendf(t, "gpuq_oldest_pending_seconds %.3f\n",
		all.oldest_ms < 0 || now_ms < all.oldest_ms ? 0.0 : (double)(now_ms - all.oldest_ms) / 1000);
	put_header(t, "gpuq_attempts_total", "counter", "Attempts that have ended, by result.");
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		text_appendf(t, "gpuq_attempts_total{result=\"%s\"} %" PRIu64 "\n", view_job_state_name(ends[i]),
			all.ends[ends[i]]);
	put_header(t, "gpuq_retries_total", "counter", "Attempts that were not the first of their job.");
	text_appendf(t, "gpuq_retries_total %" PRIu64 "\n", all.retries);
	put_header(t, "gpuq_timeouts_total", "counter", "Attempts that exceeded their time limit.");
	text_appendf(t, "gpuq_timeouts_total %" PRIu64 "\n", all.timeouts);
	put_header(t, "gpuq_energy_joules_total", "counter",
		"Energy used by ended attempts that did not share their GPUs.");
	text_appendf(t, "gpuq_energy_joules_total %" PRIu64 "\n", all.energy_j);
	put_histogram(t, "gpuq_attempt_duration_seconds", "Duration of attempts.", &all.durations);
	put_histogram(t, "gpuq_job_wait_seconds", "Time from submission to first start.", &all.waits);
}

/* ---- Single jobs --------------------------------------------------------------------------- */

/* Running jobs, and jobs whose end a scrape may not have seen yet; labels for all jobs would be too many. */
#define RECENT_MS (5 * 60 * 1000)
#define MOST_JOBS 1000

struct job_gauge {
	const char *name, *help;
	double (*value)(const struct view_job *job, int64_t now_ms); /* negative: unknown */
};

static double job_requested(const struct view_job *job, int64_t now_ms)
{
	(void)now_ms;
	return job->mem_mb < 0 ? -1 : (double)job->mem_mb * 1048576;
}

static double job_peak(const struct view_job *job, int64_t now_ms)
{
	int64_t mb = view_job_last(job)->peak_mem_mb;
	(void)now_ms;
	return mb < 0 ? -1 : (double)mb * 1048576;
}

static double job_energy(const struct view_job *job, int64_t now_ms)
{
	(void)now_ms;
	return (double)view_job_last(job)->energy_j;
}

static double job_seconds(const struct view_job *job, int64_t now_ms)
{
	const struct view_attempt *a = view_job_last(job);
	int64_t ms = a->duration_ms >= 0 ? a->duration_ms : (a->end_ms >= 0 ? a->end_ms : now_ms) - a->start_ms;
	return ms < 0 ? 0 : (double)ms / 1000;
}

static bool is_recent(const struct view_job *job, int64_t now_ms)
{
	const struct view_attempt *a = view_job_last(job);
	if (job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD || !a)
		return false;
	return job->state == VIEW_JOB_RUNNING || (a->end_ms >= 0 && now_ms - a->end_ms < RECENT_MS);
}

static void put_job_gauge(struct text *t, const struct view_model *m, const struct job_gauge *gauge, int64_t now_ms)
{
	size_t count = 0;
	for (size_t i = view_num_jobs(m); i > 0 && count < MOST_JOBS; i--) {
		const struct view_job *job = view_job(m, i - 1);
		double value = is_recent(job, now_ms) ? gauge->value(job, now_ms) : -1;
		if (value < 0)
			continue;
		if (count++ == 0)
			put_header(t, gauge->name, "gauge", gauge->help);
		text_appendf(t, "%s{id=\"%" PRIu64 "\",name=\"", gauge->name, view_id_number(job->id));
		put_label_value(t, job->name ? job->name : "");
		if (job->queue) {
			text_append_string(t, "\",queue=\"");
			put_label_value(t, job->queue);
		}
		text_appendf(t, "\"} %.15g\n", value);
	}
}

static void put_single_jobs(struct text *t, const struct view_model *m, int64_t now_ms)
{
	static const struct job_gauge gauges[] = {
		{"gpuq_job_memory_requested_bytes", "GPU memory requested by the job, on each of its GPUs.",
			job_requested},
		{"gpuq_job_memory_peak_bytes", "Peak GPU memory of the job.", job_peak},
		{"gpuq_job_energy_joules", "Energy used by the job, if it did not share its GPUs.", job_energy},
		{"gpuq_job_run_seconds", "Run time of the job.", job_seconds},
	};
	for (size_t i = 0; i < sizeof(gauges) / sizeof(*gauges); i++)
		put_job_gauge(t, m, &gauges[i], now_ms);
}

/* ---- Launches and maps ------------------------------------------------------------------- */

/* Left open: more labels may follow, then a brace. */
static void put_run_labels(struct text *t, const char *name, const struct view_run *r)
{
	text_appendf(t, "%s{pid=\"%" PRId64 "\",kind=\"", name, r->pid);
	put_label_value(t, r->kind);
	text_append_string(t, "\",name=\"");
	put_label_value(t, r->name);
	text_append_char(t, '"');
}

struct run_gauge {
	const char *name, *help;
	double (*value)(const struct view_run *run); /* negative: unknown */
};

static double run_total(const struct view_run *r)
{
	return (double)r->total;
}

static double run_running(const struct view_run *r)
{
	return (double)r->running;
}

static double run_fraction(const struct view_run *r)
{
	return r->fraction;
}

static double run_rate(const struct view_run *r)
{
	return r->rate;
}

static double run_rtf(const struct view_run *r)
{
	return r->rtf;
}

static double run_eta(const struct view_run *r)
{
	return r->eta_ms < 0 ? -1 : (double)r->eta_ms / 1000;
}

static void put_run_end(struct text *t, const struct view_run *r, int gpu, const char *state, uint64_t count)
{
	put_run_labels(t, "gpuq_run_tasks_total", r);
	text_appendf(t, ",gpu=\"%d\",state=\"%s\"} %" PRIu64 "\n", gpu, state, count);
}

static void put_run_ends(struct text *t, const struct view_model *m)
{
	put_header(t, "gpuq_run_tasks_total", "counter",
		"Files or items that a running gpuq launch or gpuq map has finished, by GPU.");
	for (size_t i = 0; i < view_num_runs(m); i++) {
		const struct view_run *r = view_run(m, i);
		for (size_t k = 0; k < r->num_gpus; k++) {
			put_run_end(t, r, r->gpus[k].id, "done", r->gpus[k].done);
			put_run_end(t, r, r->gpus[k].id, "failed", r->gpus[k].failed);
		}
	}
}

static void put_runs(struct text *t, const struct view_model *m)
{
	static const struct run_gauge gauges[] = {
		{"gpuq_run_tasks", "Files or items in the run.", run_total},
		{"gpuq_run_tasks_running", "Files or items being processed.", run_running},
		{"gpuq_run_progress_ratio", "Fraction of the work that is done, 0 to 1.", run_fraction},
		{"gpuq_run_tasks_per_second", "Files or items finished per second, not counting the loading of models.",
			run_rate},
		{"gpuq_run_rtf", "Processing time over audio duration.", run_rtf},
		{"gpuq_run_eta_seconds", "Estimated remaining time.", run_eta},
	};
	if (view_num_runs(m) == 0)
		return;
	put_run_ends(t, m);
	for (size_t i = 0; i < sizeof(gauges) / sizeof(*gauges); i++) {
		bool begun = false;
		for (size_t k = 0; k < view_num_runs(m); k++) {
			const struct view_run *r = view_run(m, k);
			double value = gauges[i].value(r);
			if (value < 0)
				continue;
			if (!begun)
				put_header(t, gauges[i].name, "gauge", gauges[i].help);
			begun = true;
			put_run_labels(t, gauges[i].name, r);
			text_appendf(t, "} %.9g\n", value);
		}
	}
}

/* ---- The rest ----------------------------------------------------------------------------- */

void metrics_put(struct text *t, const struct view_model *m, const struct view_facts *facts, int64_t now_ms)
{
	put_header(t, "gpuq_build_info", "gauge", "Version of gpuq.");
	text_append_string(t, "gpuq_build_info{version=\"" GD_VERSION "\"} 1\n");
	put_gpus(t, m);
	put_jobs(t, m, now_ms);
	put_single_jobs(t, m, now_ms);
	put_runs(t, m);
	/* Neither 0 nor 1 would be true if this user cannot see the runner. */
	if (!facts->runner_hidden) {
		put_header(t, "gpuq_runner_up", "gauge", "Whether a runner is active.");
		text_appendf(t, "gpuq_runner_up %d\n", facts->runner != 0);
	}
	put_header(t, "gpuq_journal_size_bytes", "gauge", "Size of the journal.");
	text_appendf(t, "gpuq_journal_size_bytes %" PRIu64 "\n", facts->journal_bytes);
	put_header(t, "gpuq_journal_bad_lines", "gauge", "Lines of the journal that could not be read.");
	text_appendf(t, "gpuq_journal_bad_lines %" PRIu64 "\n", facts->bad_lines);
}
