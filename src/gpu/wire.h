/* SPDX-License-Identifier: MIT */
/*
 * The records that the probe process sends to its parent. Both are of the same build (prober_arguments.c checks this),
 * so structures are sent as they are in memory. The sizes in records are still checked, because a driver may have
 * corrupted the sender's memory.
 */
#ifndef GPU_WIRE_H
#define GPU_WIRE_H

#include <stdint.h>

#include "base/text.h"
#include "gpu/set.h"

enum wire_kind {
	WIRE_READY = 1, /* the process runs; no driver has been called yet */
	WIRE_CARDS,     /* value: how many cards there are; card: nonzero if a driver does not answer; set: warnings */
	WIRE_CARD,      /* card; set: it and its instances */
	WIRE_XID,       /* card; value: the Xid */
	WIRE_ROUND,     /* once: each card has answered or been given up */
};

struct wire_record {
	uint32_t kind;
	uint32_t size; /* bytes after the record */
	uint32_t card;
	uint32_t value;
};

/* Appends a record; set may be NULL. If memory runs out, text_error(out) reports it. */
void wire_put(struct text *out, enum wire_kind kind, unsigned card, unsigned value, const struct gpu_set *set);

/*
 * Takes the record at data. Returns its whole size; 0 if it is incomplete; -EBADMSG if it is invalid; -ENOMEM. The
 * caller finishes the set.
 */
int wire_take(const char *data, size_t size, struct wire_record *ret, struct gpu_set *ret_set);

#endif
