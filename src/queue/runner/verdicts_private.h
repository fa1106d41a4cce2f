/* SPDX-License-Identifier: MIT */
/* The state behind verdicts. Only verdicts.c and verdicts_words.c include this. */
#ifndef QUEUE_RUNNER_VERDICTS_PRIVATE_H
#define QUEUE_RUNNER_VERDICTS_PRIVATE_H

#include "base/machine.h"
#include "queue/runner/forecast.h"
#include "queue/runner/published.h"
#include "queue/runner/verdicts.h"

/* Where the verdicts come from. */
enum verdicts_source {
	SOURCE_RUNNER,    /* published by the runner */
	SOURCE_BEGINNING, /* a runner that has published nothing yet */
	SOURCE_ELSEWHERE, /* a runner on another machine */
	SOURCE_HIDDEN,    /* only the owner of the queue can see whether there is a runner */
	SOURCE_SELF,      /* no runner: the GPUs as this process sees them */
	SOURCE_LAST,      /* no runner: published by the last one, for jobs that it could never start */
	SOURCE_CLUSTER,   /* no runner: the last one ran the queue on a cluster, so the GPUs here do not matter */
	SOURCE_NONE,      /* no runner, and the GPUs were not queried */
};

struct verdicts {
	struct follow *follow;
	enum verdicts_source source;
	struct machine here;
	struct published published;
	struct scheduler *scheduler;
	/* The texts for jobs with the same needs, by their class in the index of waiting jobs. */
	char **briefs;
	size_t num_briefs;
	struct forecast *forecast; /* created on first use */
	struct job **order;        /* the pending jobs in their order; NULL: ordered by ID */
	size_t num_pending;
	size_t next; /* position in `order` after the last job that was looked up */
};

#endif
