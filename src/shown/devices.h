/* SPDX-License-Identifier: MIT */
/*
 * Memory and utilization of the GPUs of a panel whose owner knows only their numbers.
 *
 * Real GPUs are polled once a second, by a separate process. Figures that cannot be
 * read stay unknown in the row. Start from {0}.
 */
#ifndef SHOWN_DEVICES_H
#define SHOWN_DEVICES_H

#include "gpu/probe.h"
#include "view/model/model.h"

struct devices {
	bool opened;
	struct gpu_probe *probe; /* NULL: the GPUs are simulated, or cannot be polled */
	struct gd_gpu_list *gpus;
};

/* Starts polling, except for simulated GPUs. Only the first call has an effect. */
void devices_open(struct devices *d, enum gd_vendor vendor);
/* Readable when there are new figures; -1 if there is nothing to wait for. */
int devices_fd(const struct devices *d);
/* Takes the new figures; does not wait. */
void devices_read(struct devices *d);
/* Fills in the known figures of GPU g->id. The name belongs to `d`, and is valid until the next devices_read(). */
void devices_fill_row(const struct devices *d, struct view_gpu *g);
/* The same from one GPU's figures; the name belongs to `gpu`. */
void devices_fill_row_from(struct view_gpu *g, const struct gd_gpu *gpu);
void devices_close(struct devices *d);

#endif
