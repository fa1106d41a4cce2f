/* SPDX-License-Identifier: MIT */
/* Writes a whole job as lines of a journal, from which a fold creates the same job. */
#include "queue/journal/record.h"

void record_spec_of(const struct job *job, struct job_spec *ret)
{
	const struct job_wish *w = job->wish;
	*ret = (struct job_spec){.command = job->command,
		.command_size = job->command_size,
		.name = job->name,
		.cwd = w->cwd,
		.cwd_own = w->cwd_own,
		.cwd_id = w->cwd_id,
		.env = w->env,
		.file = w->file,
		.log_dir = w->log_dir,
		.on_finish = w->has_on_finish ? w->on_finish : NULL,
		.on_idle = w->on_idle,
		.after = job->after ? job->after + 1 : NULL,
		.num_after = job->after ? job->after[0] - job->num_after_any : 0,
		.after_any = job->after ? job->after + 1 + job->after[0] - job->num_after_any : NULL,
		.num_after_any = job->num_after_any,
		.tags = w->tags,
		.script = w->script,
		.script_name = w->script_name,
		.tree = w->tree,
		.commit = w->commit,
		.begin_ms = w->begin_ms,
		.warn_signal = w->warn_signal,
		.warn_before_ms = w->warn_before_ms,
		.requeue_on = w->requeue_on,
		.idle_warn_ms = w->idle_warn_ms,
		.num_gpus = w->num_gpus,
		.mem_mb = w->mem_mb,
		.min_free_mem_mb = w->min_free_mem_mb,
		.timeout_ms = w->timeout_ms,
		.retries = w->has_retries ? w->retries : -1,
		.gpu = w->gpu,
		.exclusive = w->exclusive,
		.host_mem_mb = w->host_mem_mb,
		.cpus = w->cpus,
		.group = job->group,
		.in_array = job->array_index >= 0,
		.array_index = job->array_index,
		.priority = job->priority,
		.keeper = job->lease ? job->keeper->name : NULL};
}

static void write_add(struct text *t, const struct job *job)
{
	struct job_spec spec;
	record_spec_of(job, &spec);
	record_write_add(t, job->id, job->submit_ms, &spec);
}

/* Oldest first; the list has the newest first. */
static void write_attempts(struct text *t, const struct job *job, const struct job_attempt *a)
{
	if (!a)
		return;
	write_attempts(t, job, a->earlier);
	record_write_start(t, &(struct attempt_start){.id = job->id,
				      .attempt = a->attempt,
				      .time_ms = a->start_ms ? a->start_ms : -1,
				      .pid = a->pid,
				      .keeper = "",
				      .log = a->log,
				      .gpus = a->gpus,
				      .num_gpus = a->num_gpus,
				      .retries = job->wish->has_retries ? 0 : job->wish->retries,
				      .on_finish = job->wish->has_on_finish ? NULL : job->wish->on_finish});
	if (a->idle)
		record_write_idle(t, &(struct idle_record){.id = job->id,
					     .attempt = a->attempt,
					     .time_ms = a->idle->at_ms,
					     .gpus = a->idle->gpus,
					     .num_gpus = a->idle->num_gpus,
					     .since_ms = a->idle->since_ms,
					     .idle_ms = a->idle->idle_ms});
	if (a->state == JOB_RUNNING)
		return;
	record_write_end(t, &(struct attempt_end){.id = job->id,
				    .attempt = a->attempt,
				    .time_ms = a->end_ms ? a->end_ms : -1,
				    .state = (enum job_state)a->state,
				    .interrupted = a->interrupted,
				    .exit_code = a->exit_code,
				    .signal = a->signal,
				    .reason = a->reason,
				    .duration_ms = a->duration_ms,
				    .peak_mem_mb = a->peak_mem_mb,
				    .energy_j = a->energy_j});
}

void record_write_job(struct text *t, const struct job *job)
{
	write_add(t, job);
	write_attempts(t, job, job->attempts);
}
