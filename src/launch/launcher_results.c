/* SPDX-License-Identifier: MIT */
/* Handles a result: updates the balancer and the history. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "launch/balancer.h"
#include "launch/launcher_private.h"

void launcher_flush_history(struct gd_launcher *l)
{
	int r = history_writer_flush(&l->writer);
	if (r == 0 || l->history_error)
		return;
	l->history_error = r;
	launcher_warn(l, "cannot record results in '%s/" HISTORY_NAME "': %s; retrying with each result",
		l->options.output_dir, error_words(r));
}

#define MOST_NOTES 10 /* warnings to pass on; the others are only in the workers' logs */

void launcher_take_note(struct gd_launcher *l, const struct gd_event *e, const struct worker_note *note)
{
	if (e->slot >= 0 && (size_t)e->slot < l->num_workers)
		l->reloading_ns[e->slot] += note->loading_ns;
	l->reloaded_ns += note->loading_ns;
	if (!note->warning[0] || l->worker_notes > MOST_NOTES)
		return;
	if (l->worker_notes++ < MOST_NOTES)
		launcher_warn(l, "the worker on GPU %d: %s", e->gpu, note->warning);
	else
		launcher_warn(l, "further warnings of workers appear only in their logs");
}

/* Files of a batch begin together; the time of each is counted from the previous answer. */
static double processing_seconds(struct gd_launcher *l, const struct gd_event *e)
{
	if (!e || !e->started_ns || e->slot < 0 || (size_t)e->slot >= l->num_workers)
		return 0;
	uint64_t *last_end_ns = &l->last_end_ns[e->slot];
	uint64_t from_ns = *last_end_ns > e->started_ns ? *last_end_ns : e->started_ns;
	if (e->ended_ns > *last_end_ns)
		*last_end_ns = e->ended_ns;
	uint64_t ns = e->ended_ns > from_ns ? e->ended_ns - from_ns : 0, reloading_ns = l->reloading_ns[e->slot];
	l->reloading_ns[e->slot] = 0;
	if (l->remote)
		ns = l->remote_slots[e->slot].processing_ns; /* the time here includes that of lost connections */
	return ns > reloading_ns ? (double)(ns - reloading_ns) / (double)NS_PER_S : 0;
}

struct history_entry launcher_describe(const struct gd_launcher *l, size_t i)
{
	const struct gd_found *f = l->todo[i];
	struct history_entry entry = {
		.file = f->path,
		.output = l->output_of[i].folder,
		.owner = l->output_of[i].owner,
		.size_bytes = f->size_bytes,
		.mtime_ns = f->mtime_ns,
		.audio_seconds = found_has_seconds(f) ? f->seconds : -1,
	};
	memcpy(entry.fingerprint, l->fingerprint, sizeof(entry.fingerprint));
	return entry;
}

void launcher_put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error)
{
	const struct gd_found *f = l->todo[i];
	struct gd_file_result result = {
		.size = sizeof(result),
		.file = f->path,
		.error = error,
		.gpu = e ? e->gpu : -1,
		.size_bytes = f->size_bytes,
		.known = f->known & GD_KNOWN_SECONDS,
		.audio_seconds = found_has_seconds(f) ? f->seconds : 0,
		.processing_seconds = processing_seconds(l, e),
	};
	struct history_place place = {.gpu = e ? e->gpu : -1, .attempt = e ? e->attempt : 0};
	launcher_remote_place(l, e, &place);
	result.node = place.node;
	result.gpu = place.gpu;
	struct history_entry entry = launcher_describe(l, i);
	entry.processing_seconds = result.processing_seconds;
	entry.done = !error;
	history_writer_add(&l->writer, &entry, &place, error);
	launch_amount_add(&l->done, f);
	struct launcher_early early = {.done = !error, .processing_seconds = result.processing_seconds};
	/* If out of memory, the file counts as not processed. */
	if (balancer_add(l->balancer, &result, &early.gpu) == 0)
		launcher_note_early(l, i, &early);
	if (l->options.on_result)
		l->options.on_result(l->options.context, &result);
	launcher_watch_ended(l, i);
}

void launcher_check_failures(struct gd_launcher *l)
{
	struct gd_launch_summary s;
	if (l->enough || l->options.max_failures == 0)
		return;
	gd_balancer_summary(l->balancer, &s, sizeof(s));
	if (s.files_failed < l->options.max_failures)
		return;
	l->enough = true;
	launcher_stop_pool(l, 1);
	if (!l->reason[0])
		snprintf(l->reason, sizeof(l->reason), "stopped after %llu failure%s (max_failures)",
			(unsigned long long)s.files_failed, s.files_failed == 1 ? "" : "s");
}
