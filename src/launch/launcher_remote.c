/* SPDX-License-Identifier: MIT */
/* Workers on other machines: their proxies in the pool, and their notes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch/launcher_private.h"

/* A cancelled file is ended on its node, which takes the grace period there and a message each way. */
#define GRACE_MS 15000
/* A file that was put back this often may need more time than the time limit of a node. */
#define MANY_PUT_BACKS 3

void launcher_set_remote(struct gd_launcher *l, const struct launch_remote *remote)
{
	l->remote = remote;
}

int launcher_remote_start(struct gd_launcher *l, const char *log_dir, struct gd_error *err)
{
	const struct launch_remote_plan plan = {.output_root = l->output_root,
		.output_fd = l->output_fd,
		.num_files = l->num_todo,
		.worker = &l->worker,
		.options = &l->options,
		.log_dir = log_dir};
	int r = l->remote->start(l->remote->context, &plan, &l->remote_workers, err);
	if (r < 0)
		return r;
	size_t count = l->remote_workers.count;
	if (count == 0) {
		l->remote = NULL;
		return 0;
	}
	l->remote_slots = calloc(count, sizeof(*l->remote_slots));
	l->remote_numbers = calloc(count, sizeof(*l->remote_numbers));
	l->put_backs = calloc(l->num_todo + 1, sizeof(*l->put_backs));
	if (!l->remote_slots || !l->remote_numbers || !l->put_backs)
		return error_set(err, -ENOMEM, "not enough memory for %zu workers", count);
	for (size_t i = 0; i < count; i++) {
		l->remote_slots[i].put_back = GD_NO_TASK;
		l->remote_numbers[i] = (int)i;
	}
	return 0;
}

void launcher_remote_options(const struct gd_launcher *l, struct gd_options *ret)
{
	*ret = (struct gd_options){.size = sizeof(*ret),
		.worker_argv = l->remote_workers.argv,
		.gpu_ids = l->remote_numbers,
		.num_gpu_ids = l->remote_workers.count,
		.bind = GD_BIND_NONE,
		.grace_ms = GRACE_MS,
		.output = GD_OUTPUT_FILES,
		.output_dir = l->remote_workers.proxy_log_dir};
}

static struct remote_slot *slot_of(const struct gd_launcher *l, const struct gd_event *e)
{
	return l->remote && e && e->slot >= 0 && (size_t)e->slot < l->num_workers ? &l->remote_slots[e->slot] : NULL;
}

bool launcher_remote_note(struct gd_launcher *l, const struct gd_event *e)
{
	struct remote_slot *slot = slot_of(l, e);
	struct remote_note note;
	if (!slot || remote_note_read(&e->result, &note) < 0)
		return false;
	memcpy(slot->node, note.node, sizeof(slot->node));
	slot->gpu = note.gpu;
	slot->tries = (int)note.tries;
	slot->processing_ns = note.processing_ns;
	if (note.kind == REMOTE_PUT_BACK)
		slot->put_back = e->id;
	return true;
}

bool launcher_remote_put_back(struct gd_launcher *l, const struct gd_event *e)
{
	struct remote_slot *slot = slot_of(l, e);
	if (!slot || slot->put_back != e->id)
		return false;
	slot->put_back = GD_NO_TASK;
	slot->node[0] = '\0';
	/* A run that is ending leaves the file to the next run, and so does a lack of memory. */
	if (launcher_is_ending(l))
		return true;
	size_t i = (size_t)(uintptr_t)e->tag;
	if (launch_queue_put_back(&l->queue, i) < 0)
		launcher_warn(
			l, "not enough memory to process '%s' again; the next run will process it", l->todo[i]->path);
	if (l->put_backs[i] < MANY_PUT_BACKS && ++l->put_backs[i] == MANY_PUT_BACKS)
		launcher_warn(l,
			"'%s' has lost its worker %d times; it may need more time than the time limit of a node",
			l->todo[i]->path, MANY_PUT_BACKS);
	return true;
}

void launcher_remote_place(const struct gd_launcher *l, const struct gd_event *e, struct history_place *place)
{
	const struct remote_slot *slot = slot_of(l, e);
	if (!slot || !slot->node[0])
		return;
	*place = (struct history_place){.node = slot->node, .gpu = slot->gpu, .attempt = slot->tries};
}

void launcher_remote_place_worker(const struct gd_launcher *l, size_t slot, struct gd_launch_worker *worker)
{
	const struct remote_slot *s = l->remote ? &l->remote_slots[slot] : NULL;
	worker->node = s && s->node[0] ? s->node : NULL;
	worker->gpu = s ? s->gpu : worker->stats->gpu;
}
