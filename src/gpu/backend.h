/* SPDX-License-Identifier: MIT */
/*
 * One way of asking for GPUs; one file each.
 *
 * NVML and AMD run in the probe process only, for their calls may hang; the
 * simulated GPUs run wherever they are asked. A backend prints nothing and starts
 * no thread; it is called from several threads. For one card that is one at a time, unless a call does not return: then
 * another thread asks the same card.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include "gpu/set.h"
#include "gpu/spec.h"

/* Something that happened to a card between two samples. */
struct gpu_event {
	unsigned card;
	unsigned xid; /* NVIDIA's number for what went wrong */
};

struct gpu_backend {
	enum gd_vendor vendor;
	const char *driver; /* for messages: "the NVIDIA driver" */

	/*
	 * Finds the cards. Nothing to be found is no error: *ret_cards is 0 then, and
	 * what a person should know is in the warnings. Fails only with -ENOMEM.
	 */
	int (*open)(const struct gpu_spec *spec, struct gpu_set *warnings, void **ret_state, unsigned *ret_cards);

	/*
	 * Adds the card, then its MIG instances, and warnings ("has fallen off the bus":
	 * the caller, who knows of other vendors, puts the number before it, and sets `index`). A card that cannot be
	 * read is added with its health; fails only with -ENOMEM.
	 */
	int (*sample)(void *state, unsigned card, struct gpu_set *ret);

	/* Has the events of a card, which has been sampled, told by wait_event. NULL: there are none. */
	int (*watch)(void *state, unsigned card);

	/* Waits, up to a second or so, for the next event: 1 with one, 0 without. Called once a card is watched. */
	int (*wait_event)(void *state, struct gpu_event *ret);

	/* NULL: the state lives as long as its process. */
	void (*close)(void *state);
};

extern const struct gpu_backend gpu_nvml;
extern const struct gpu_backend gpu_amd;
extern const struct gpu_backend gpu_sim;

#endif
