/* SPDX-License-Identifier: MIT */
/*
 * Publishes what `gpuq why`, `status`, `top` and the web page need to know about a coordinator: the inputs of its
 * scheduler, as a runner publishes them (queue/runner/published.h), and the link `latest` next to the logs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "queue/runner/latest_link.h"
#include "queue/runner/published.h"
#include "slurm/coordinating.h"
#include "slurm/pilot_supply.h"

/* Shortest interval while jobs start and end. */
#define PUBLISH_NS (200 * NS_PER_MS)
/* Large clusters are published less often, so that publishing takes at most a hundredth of the time. */
#define PUBLISH_SHARE  100
#define PUBLISH_MAX_NS (2 * NS_PER_S)

/* The reason why no job can start; "" if jobs can start. */
static const char *pause_words(const struct coordinator *c, char words[FRAME_WORDS_ROOM])
{
	if (c->interrupts)
		return "the coordinator was interrupted and starts no new jobs";
	if (c->leaving || c->released)
		return "the coordinator is exiting";
	if (coordinating_is_full(c))
		return "the limit of --max-failures is reached; no new jobs start";
	if (coordinator_journal_jobs(c->journal)->paused)
		return "the queue is paused; 'gpuq resume' continues it";
	if (coordinator_core_is_recovered(c->core))
		return "";
	return coordinator_core_waits_for(c->core, clock_now_ns(), words);
}

static void fill(const struct coordinator *c, struct published *p)
{
	char words[FRAME_WORDS_ROOM];
	*p = (struct published){.pid = getpid()};
	snprintf(p->host, sizeof(p->host), "%s", coordinator_journal_host(c->journal));
	snprintf(p->pause, sizeof(p->pause), "%s", pause_words(c, words));
	if (c->supply)
		pilot_supply_words(c->supply, p->note, sizeof(p->note));
}

/* If writing fails, the published file is out of date; the next change tries again. */
static void write_inputs(struct coordinator *c, const struct published *p)
{
	cleanup_(text_finish) struct text t = {0};
	published_format(&t, p, c->scheduler);
	if (!text_error(&t) && published_write(c->options.journal->dir_fd, t.data, t.length) == 0) {
		memcpy(c->publication.pause, p->pause, sizeof(c->publication.pause));
		memcpy(c->publication.note, p->note, sizeof(c->publication.note));
		c->publication.generation = scheduler_generation(c->scheduler);
	}
}

static void link_latest(struct coordinator *c)
{
	if (c->publication.latest)
		latest_link_make(c->publication.latest);
	free(take_ptr(c->publication.latest));
}

void coordinating_note_log(struct coordinator *c, const char *log)
{
	free(c->publication.latest);
	c->publication.latest = strdup(log);
}

uint64_t coordinating_publish(struct coordinator *c)
{
	struct coordinator_publication *last = &c->publication;
	struct published p;
	uint64_t now = clock_now_ns();
	bool changed = !last->next_ns || last->generation != scheduler_generation(c->scheduler) || last->latest;
	/* The message also changes with every second; do not publish for that alone. */
	if (!changed || now >= last->next_ns)
		fill(c, &p);
	if (!changed && strcmp(p.pause, last->pause) == 0 && strcmp(p.note, last->note) == 0)
		return 0;
	if (now < last->next_ns)
		return last->next_ns;
	link_latest(c);
	write_inputs(c, &p);
	uint64_t pause = (clock_now_ns() - now) * PUBLISH_SHARE;
	pause = pause > PUBLISH_MAX_NS ? PUBLISH_MAX_NS : pause;
	last->next_ns = now + (pause > PUBLISH_NS ? pause : PUBLISH_NS);
	return 0;
}

void coordinating_publish_end(struct coordinator *c)
{
	/* The file is kept: its PID shows that it is out of date. */
	link_latest(c);
}
