/* SPDX-License-Identifier: MIT */
/* Jobs that were just added and can never start on this machine. */
#include <errno.h>

#include "base/lock.h"
#include "queue/runner/published.h"
#include "queue/runner/verdicts.h"

static void say_help(struct text *t, const struct scheduler_verdict *v, const struct scheduler_settings *has,
	size_t num_gpus, size_t num_jobs)
{
	const char *them = num_jobs == 1 ? "it" : "them";
	bool memory = has->host_bytes && v->need.host_bytes > has->host_bytes, cpus = v->need.cpus > has->cpus;
	size_t pinned = 0;
	for (size_t g = 0; g < v->num_gpus; g++)
		pinned += v->gpus[g].reason != PLACEMENT_PINNED;
	if (num_gpus == 0)
		text_appendf(t, "; %s for a runner that has one; to simulate some: gpuq run --gpus sim:4",
			num_jobs == 1 ? "it waits" : "they wait");
	else if (v->host == PLACEMENT_HOST_TOO_SMALL)
		text_appendf(t, "; add %s again with %s%s%s", them, memory ? "a smaller --host-mem" : "",
			memory && cpus ? " and " : "", cpus ? "a smaller --cpus" : "");
	else if (v->need.pin)
		text_appendf(t, "; add %s again with %s", them,
			pinned < v->need.num_gpus ? "another --gpu" : "a smaller --mem");
	else if (v->need.num_gpus > num_gpus)
		text_appendf(t, "; add %s again with a smaller --num-gpus", them);
	else
		text_appendf(t, "; add %s again with a smaller --mem, or run the queue where GPUs are larger", them);
}

int verdicts_warn(int dir_fd, const struct job_spec *spec, size_t num_jobs, bool started, struct text *t)
{
	struct jobs none;
	struct published p;
	struct scheduler *s = NULL;
	struct placement_need need;
	struct scheduler_verdict v;
	struct job_wish wish = {.mem_mb = spec->mem_mb,
		.min_free_mem_mb = spec->min_free_mem_mb,
		.num_gpus = spec->num_gpus,
		.host_mem_mb = spec->host_mem_mb,
		.cpus = spec->cpus,
		.gpu = spec->gpu,
		.exclusive = spec->exclusive};
	pid_t runner = 0;
	jobs_init(&none);
	if (lock_holder_at(dir_fd, "runner.lock", &runner) < 0 || (runner == 0 && !started))
		return 0;
	int r = scheduler_create(&none, &s);
	if (r == 0)
		r = published_read(dir_fd, &p, s);
	if (r == 0 && (runner <= 0 || p.pid == runner)) {
		size_t count;
		const struct gd_gpu *const *gpus = scheduler_gpus(s, &count);
		wish_need(&wish, 0, &scheduler_settings(s)->rules, gpus, count, &need);
		r = scheduler_judge(s, &need, &v);
		if (r == 0 && v.answer == SCHEDULER_NEVER) {
			scheduler_verdict_brief(t, s, &v);
			say_help(t, &v, scheduler_settings(s), count, num_jobs);
		}
	}
	scheduler_destroy(s);
	jobs_finish(&none);
	return r == -ENOMEM ? r : 0;
}
