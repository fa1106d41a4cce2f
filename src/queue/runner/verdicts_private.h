/* SPDX-License-Identifier: MIT */
/* What verdicts are made of. Only verdicts.c and verdicts_words.c include this. */
#ifndef QUEUE_RUNNER_VERDICTS_PRIVATE_H
#define QUEUE_RUNNER_VERDICTS_PRIVATE_H

#include "base/machine.h"
#include "queue/runner/forecast.h"
#include "queue/runner/published.h"
#include "queue/runner/verdicts.h"

/* Where the verdicts come from. */
enum verdicts_source {
	SOURCE_RUNNER,    /* what it published */
	SOURCE_BEGINNING, /* a runner that has published nothing yet */
	SOURCE_ELSEWHERE, /* a runner on another machine */
	SOURCE_SELF,      /* no runner: the GPUs as this process sees them */
	SOURCE_LAST,      /* no runner: what the last one published, for jobs that it could never start */
	SOURCE_NONE,      /* no runner, and the GPUs were not asked */
};

struct verdicts {
	struct follow *follow;
	enum verdicts_source source;
	struct machine here;
	struct published published;
	struct scheduler *scheduler;
	/* The words for jobs that need the same, by their class in the index of waiting jobs. */
	char **briefs;
	size_t num_briefs;
	struct forecast *forecast; /* made when it is first asked for */
	struct job **order;        /* the pending jobs in their order; NULL: that of their ids */
	size_t num_pending;
	size_t next; /* in `order`, after the last job that was asked for */
};

#endif
