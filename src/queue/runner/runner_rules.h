/* SPDX-License-Identifier: MIT */
/*
 * The settings of a runner, published for other processes: a line of text in runner.lock. While a
 * runner is starting, the line has only its PID and host.
 */
#ifndef QUEUE_RUNNER_RUNNER_RULES_H
#define QUEUE_RUNNER_RUNNER_RULES_H

#include <stdint.h>

#include "base/machine.h"
#include "gpu/spec.h"

/* The runner has no GPUs: no GPU specification can express this. */
#define RULES_NO_GPUS "none"

struct runner_rules {
	char host[sizeof(((struct machine *)0)->host)];
	int64_t min_free_mem_mb;
	int64_t poll_interval_ms;
	int jobs_per_gpu;
	char machine[GPU_MACHINE_SIZE]; /* see gpu_spec_machine(); empty: the caller's */
	const char *gpus;               /* a specification of the GPUs that the runner uses; NULL: the caller's */
};

/* rules NULL: the runner is starting. */
int runner_rules_write(int fd, const struct machine *here, const struct runner_rules *rules);
/* 0; -ENOENT if nothing can be read, -EAGAIN if the runner is starting. */
int runner_rules_read(int dir_fd, struct runner_rules *ret);
void runner_rules_finish(struct runner_rules *rules);

#endif
