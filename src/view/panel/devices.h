/* SPDX-License-Identifier: MIT */
/*
 * Memory and utilisation of the GPUs of a panel whose owner knows only their numbers.
 * Real ones are asked once a second, by a process of their own. What cannot be asked
 * is not shown. Start from {0}.
 */
#ifndef VIEW_PANEL_DEVICES_H
#define VIEW_PANEL_DEVICES_H

#include "gpu/probe.h"
#include "view/model/model.h"

struct devices {
	bool opened;
	struct gpu_probe *probe; /* NULL: simulated, or it cannot be asked */
	struct gd_gpu_list *gpus;
};

/* Once; simulated GPUs have nothing to tell. */
void devices_open(struct devices *d, enum gd_vendor vendor);
/* Readable when there is something new; -1. */
int devices_fd(const struct devices *d);
/* Takes what is there; does not wait. */
void devices_read(struct devices *d);
/* Fills in what is known of g->id; its name belongs to `d`, until the next devices_read(). */
void devices_add(const struct devices *d, struct view_gpu *g);
/* The same from one GPU's figures; the name belongs to `gpu`. */
void devices_fill(struct view_gpu *g, const struct gd_gpu *gpu);
void devices_close(struct devices *d);

#endif
