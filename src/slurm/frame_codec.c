/* SPDX-License-Identifier: MIT */
#include "slurm/frame_codec.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No pilot can have more unacknowledged attempts than this. */
#define MOST_ATTEMPTS 65536

/*
 * The same walk over the members encodes and decodes, so the two cannot differ. Members are written to `out`; if `out`
 * is NULL they are read from p…end.
 */
struct frame_walk {
	struct text *out;
	const char *p, *end;
	struct frame_arrays *arrays;
	int error;
};

static void walk_bytes(struct frame_walk *w, void *data, size_t size)
{
	if (w->out) {
		text_append(w->out, data, size);
	} else if ((size_t)(w->end - w->p) < size) {
		w->error = -EBADMSG;
		memset(data, 0, size);
	} else {
		memcpy(data, w->p, size);
		w->p += size;
	}
}

static void walk_u64(struct frame_walk *w, uint64_t *n)
{
	uint64_t le = htole64(*n);
	walk_bytes(w, &le, sizeof(le));
	if (!w->out)
		*n = le64toh(le);
}

static void walk_i64(struct frame_walk *w, int64_t *n)
{
	uint64_t u = (uint64_t)*n;
	walk_u64(w, &u);
	if (!w->out)
		*n = (int64_t)u;
}

static void walk_u32(struct frame_walk *w, uint32_t *n)
{
	uint32_t le = htole32(*n);
	walk_bytes(w, &le, sizeof(le));
	if (!w->out)
		*n = le32toh(le);
}

static void walk_int(struct frame_walk *w, int *n)
{
	uint32_t u = (uint32_t)*n;
	walk_u32(w, &u);
	if (!w->out)
		*n = (int)u;
}

static void walk_bool(struct frame_walk *w, bool *b)
{
	uint8_t byte = *b;
	walk_bytes(w, &byte, 1);
	if (byte > 1)
		w->error = -EBADMSG;
	if (!w->out)
		*b = byte == 1;
}

/* 1…last */
static unsigned walk_enum(struct frame_walk *w, unsigned value, unsigned last)
{
	uint32_t u = value;
	walk_u32(w, &u);
	if (u < 1 || u > last)
		w->error = -EBADMSG;
	return u;
}
#define WALK_ENUM(w, member, type, last) ((member) = (enum type)walk_enum((w), (unsigned)(member), (last)))

/* A string in an array of `room` bytes. */
static void walk_string(struct frame_walk *w, char *s, size_t room)
{
	uint32_t size = w->out ? (uint32_t)strnlen(s, room - 1) : 0;
	walk_u32(w, &size);
	if (size >= room) {
		w->error = -EBADMSG;
		return;
	}
	walk_bytes(w, s, size);
	if (w->out)
		return;
	s[size] = '\0';
	if (memchr(s, '\0', size))
		w->error = -EBADMSG;
}

/* The number of items of an array, each at least item_size bytes long. */
static size_t walk_count(struct frame_walk *w, size_t count, size_t item_size, size_t most)
{
	uint32_t n = (uint32_t)count;
	walk_u32(w, &n);
	if (!w->out && (n > most || n > (size_t)(w->end - w->p) / item_size)) {
		w->error = -EBADMSG;
		return 0;
	}
	return n;
}

static void *room_for(struct frame_walk *w, void **array, size_t count, size_t size)
{
	free(*array);
	*array = calloc(count + 1, size);
	if (!*array)
		w->error = -ENOMEM;
	return *array;
}

static void walk_id(struct frame_walk *w, struct attempt_id *id)
{
	walk_u64(w, &id->job);
	walk_u32(w, &id->attempt);
}

static void walk_gpu(struct frame_walk *w, struct frame_gpu *g)
{
	walk_int(w, &g->index);
	walk_u64(w, &g->total_bytes);
	walk_u64(w, &g->free_bytes);
	walk_u64(w, &g->used_by_others_bytes);
	walk_u32(w, &g->utilization);
	walk_u32(w, &g->healthy);
	walk_bool(w, &g->utilization_known);
	walk_string(w, g->uuid, sizeof(g->uuid));
	walk_string(w, g->name, sizeof(g->name));
}

static void walk_gpus(struct frame_walk *w, const struct frame_gpu **gpus, size_t *count)
{
	size_t n = walk_count(w, *count, 45, FRAME_MAX_GPUS);
	if (w->out) {
		for (size_t i = 0; i < n; i++) {
			struct frame_gpu g = (*gpus)[i];
			walk_gpu(w, &g);
		}
		return;
	}
	struct frame_gpu *array = room_for(w, &w->arrays->gpus, n, sizeof(*array));
	for (size_t i = 0; array && i < n && !w->error; i++)
		walk_gpu(w, &array[i]);
	*gpus = array;
	*count = n;
}

static void walk_attempts(struct frame_walk *w, const struct known_attempt **attempts, size_t *count)
{
	size_t n = walk_count(w, *count, 16, MOST_ATTEMPTS);
	struct known_attempt *array = w->out ? NULL : room_for(w, &w->arrays->attempts, n, sizeof(*array));
	for (size_t i = 0; (w->out || array) && i < n && !w->error; i++) {
		struct known_attempt a = w->out ? (*attempts)[i] : (struct known_attempt){0};
		walk_id(w, &a.id);
		WALK_ENUM(w, a.state, known_state, KNOWN_ENDED);
		if (!w->out)
			array[i] = a;
	}
	if (w->out)
		return;
	*attempts = array;
	*count = n;
}

static void walk_positions(struct frame_walk *w, const int **positions, size_t *count)
{
	size_t n = walk_count(w, *count, 4, FRAME_MAX_GPUS);
	int *array = w->out ? NULL : room_for(w, &w->arrays->positions, n, sizeof(*array));
	for (size_t i = 0; (w->out || array) && i < n && !w->error; i++) {
		int position = w->out ? (*positions)[i] : 0;
		walk_int(w, &position);
		if (position < 0 || position >= FRAME_MAX_GPUS)
			w->error = -EBADMSG;
		if (!w->out)
			array[i] = position;
	}
	if (w->out)
		return;
	*positions = array;
	*count = n;
}

static void walk_hello(struct frame_walk *w, struct frame_hello *h)
{
	walk_u32(w, &h->version);
	walk_string(w, h->pilot, sizeof(h->pilot));
	walk_string(w, h->node, sizeof(h->node));
	walk_string(w, h->boot_id, sizeof(h->boot_id));
	walk_u64(w, &h->slurm_job);
	walk_i64(w, &h->started_ms);
	walk_i64(w, &h->remaining_ms);
	walk_i64(w, &h->lease_ms);
	walk_u64(w, &h->last_epoch);
	walk_bool(w, &h->lock_is_free);
	walk_u32(w, &h->cpus);
	walk_u64(w, &h->host_bytes);
	walk_gpus(w, &h->gpus, &h->num_gpus);
	walk_attempts(w, &h->attempts, &h->num_attempts);
}

/* The order is the rest of the frame: it is not copied. */
static void walk_grant(struct frame_walk *w, struct frame_grant *g)
{
	walk_id(w, &g->id);
	walk_positions(w, &g->gpus, &g->num_gpus);
	if (w->out) {
		text_append(w->out, g->order, g->order_size);
		return;
	}
	g->order = w->p;
	g->order_size = (size_t)(w->end - w->p);
	w->p = w->end;
}

static void walk_end(struct frame_walk *w, struct frame_end *e)
{
	walk_id(w, &e->id);
	WALK_ENUM(w, e->outcome, attempt_outcome, OUTCOME_INTERRUPTED);
	walk_int(w, &e->exit_code);
	walk_int(w, &e->signal);
	walk_i64(w, &e->time_ms);
	walk_i64(w, &e->duration_ms);
	walk_i64(w, &e->peak_mem_mb);
	walk_i64(w, &e->energy_j);
	walk_string(w, e->reason, sizeof(e->reason));
}

static void walk_content(struct frame_walk *w, struct frame *f)
{
	switch (f->kind) {
	case FRAME_HELLO:
		walk_hello(w, &f->hello);
		break;
	case FRAME_WELCOME:
		walk_i64(w, &f->welcome.lease_ms);
		walk_i64(w, &f->welcome.silence_ms);
		walk_i64(w, &f->welcome.heartbeat_ms);
		break;
	case FRAME_REFUSE:
		WALK_ENUM(w, f->refuse.refusal, refusal, REFUSAL_UNWANTED);
		walk_string(w, f->refuse.words, sizeof(f->refuse.words));
		break;
	case FRAME_GRANT:
		walk_grant(w, &f->grant);
		break;
	case FRAME_BEGUN:
		walk_id(w, &f->begun.id);
		walk_i64(w, &f->begun.pid);
		break;
	case FRAME_REJECT:
		walk_id(w, &f->reject.id);
		WALK_ENUM(w, f->reject.rejection, rejection, REJECTION_START);
		walk_string(w, f->reject.words, sizeof(f->reject.words));
		break;
	case FRAME_FREED:
		walk_id(w, &f->freed);
		break;
	case FRAME_END:
		walk_end(w, &f->end);
		break;
	case FRAME_END_ACK:
		walk_id(w, &f->end_ack);
		break;
	case FRAME_HEARTBEAT:
		walk_u64(w, &f->heartbeat.number);
		walk_i64(w, &f->heartbeat.remaining_ms);
		walk_gpus(w, &f->heartbeat.gpus, &f->heartbeat.num_gpus);
		break;
	case FRAME_RENEW:
		walk_u64(w, &f->renew.number);
		walk_i64(w, &f->renew.lease_ms);
		break;
	case FRAME_CANCEL:
		walk_id(w, &f->cancel.id);
		WALK_ENUM(w, f->cancel.mode, cancel_mode, CANCEL_DISCARD);
		break;
	case FRAME_RELEASE:
	case FRAME_ENDING:
	case FRAME_BYE:
		break;
	}
}

static void walk_frame(struct frame_walk *w, struct frame *f)
{
	WALK_ENUM(w, f->kind, frame_kind, FRAME_BYE);
	walk_u64(w, &f->epoch);
	walk_u64(w, &f->session);
	if (!w->error)
		walk_content(w, f);
}

void frame_encode(struct text *t, const struct frame *f)
{
	struct frame copy = *f;
	struct frame_walk w = {.out = t};
	walk_frame(&w, &copy);
}

void frame_arrays_finish(struct frame_arrays *a)
{
	free(a->gpus);
	free(a->attempts);
	free(a->positions);
	*a = (struct frame_arrays){0};
}

int frame_decode(const void *data, size_t size, struct frame_arrays *arrays, struct frame *ret)
{
	struct frame f = {0};
	struct frame_walk w = {.p = data, .end = (const char *)data + size, .arrays = arrays};
	walk_frame(&w, &f);
	if (!w.error && w.p != w.end)
		w.error = -EBADMSG;
	if (w.error)
		return w.error;
	*ret = f;
	return 0;
}
