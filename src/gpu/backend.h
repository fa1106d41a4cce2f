/* SPDX-License-Identifier: MIT */
/*
 * A backend: one way to query GPUs. One file each.
 *
 * NVML and AMD run in the probe process only, because their calls may hang; the simulated backend runs in the calling
 * process. A backend prints nothing and starts no thread; it is called from several threads. Only one thread calls it
 * for a card, unless a call does not return: then another thread queries the same card.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include "gpu/set.h"
#include "gpu/spec.h"

/* An event of a card between two samples. */
struct gpu_event {
	unsigned card;
	unsigned xid; /* NVIDIA's number of the error */
};

struct gpu_backend {
	enum gd_vendor vendor;
	const char *driver; /* for messages: "the NVIDIA driver" */

	/*
	 * Finds the cards. Finding none is not an error: *ret_cards is 0 then, and the warnings explain it to the user.
	 * Fails only with -ENOMEM.
	 */
	int (*open)(const struct gpu_spec *spec, struct gpu_set *warnings, void **ret_state, unsigned *ret_cards);

	/*
	 * Adds the card, then its MIG instances, and warnings without a subject ("has fallen off the bus"). The caller,
	 * which also knows the cards of other vendors, adds the card's number to the warnings and sets `index`. A card
	 * that cannot be read is added with its health; fails only with -ENOMEM.
	 */
	int (*sample)(void *state, unsigned card, struct gpu_set *ret);

	/* Subscribes to the events of a card that has been sampled; wait_event returns them. NULL: no events. */
	int (*watch)(void *state, unsigned card);

	/*
	 * Waits, up to a second or so, for the next event. Returns 1 and the event, or 0. Called only after a card is
	 * watched.
	 */
	int (*wait_event)(void *state, struct gpu_event *ret);

	/* NULL: the state lives as long as its process. */
	void (*close)(void *state);
};

extern const struct gpu_backend gpu_nvml;
extern const struct gpu_backend gpu_amd;
extern const struct gpu_backend gpu_sim;

#endif
