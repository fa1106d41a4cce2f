/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_publish.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "queue/runner/published.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_place.h"
#include "queue/runner/runner_private.h"

/* Minimum interval while jobs start and end. */
#define PUBLISH_MS 200

static void on_publish(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->deciding.publish_due = false;
}

int runner_publish_open(struct runner *r)
{
	return loop_add_timer(r->loop, on_publish, r, &r->deciding.publish);
}

static const char *pause_words(const struct runner *r)
{
	if (r->interrupts)
		return "the runner was interrupted and starts no new jobs";
	if (r->leaving)
		return "the runner is exiting";
	if (runner_is_blocked(r))
		return "the end of a job cannot be recorded in the journal; no new jobs start until it is recorded";
	if (runner_is_full(r))
		return "the limit of --max-failures is reached; no new jobs start";
	if (r->following.jobs.paused)
		return "the queue is paused; 'gpuq resume' continues it";
	if (r->troubles)
		return r->trouble_words;
	return "";
}

static void publish(struct runner *r, bool must_write)
{
	struct published p = {.pid = getpid()};
	struct text t = {0};
	snprintf(p.host, sizeof(p.host), "%s", r->machine.host);
	snprintf(p.pause, sizeof(p.pause), "%s", pause_words(r));
	published_format(&t, &p, r->deciding.scheduler);
	struct text *last = &r->deciding.published;
	bool same =
		!must_write && last->length == t.length && t.length > 0 && memcmp(last->data, t.data, t.length) == 0;
	/* If the write fails, the file is outdated at worst; the next change retries. */
	if (!text_error(&t) && !same && published_write(r->following.journal->dir_fd, t.data, t.length) == 0) {
		text_finish(last);
		*last = t;
		return;
	}
	text_finish(&t);
}

void runner_publish(struct runner *r)
{
	uint64_t now = clock_now_ns(), generation = scheduler_generation(r->deciding.scheduler);
	const char *pause = pause_words(r);
	if (generation == r->deciding.published_generation && strcmp(pause, r->deciding.published_pause) == 0)
		return;
	uint64_t next = r->deciding.published_ns + PUBLISH_MS * NS_PER_MS;
	if (r->deciding.published_ns && now < next) {
		if (!r->deciding.publish_due)
			r->deciding.publish_due = loop_set_deadline(r->deciding.publish, next) == 0;
		return;
	}
	r->deciding.published_ns = now;
	r->deciding.published_generation = generation;
	snprintf(r->deciding.published_pause, sizeof(r->deciding.published_pause), "%s", pause);
	publish(r, false);
}

void runner_publish_last(struct runner *r)
{
	if (scheduler_num_waiting(r->deciding.scheduler) > 0)
		publish(r, true);
}

void runner_publish_close(struct runner *r)
{
	/* The file stays: its PID shows that it is outdated. The next runner may already have replaced it. */
	text_finish(&r->deciding.published);
}
