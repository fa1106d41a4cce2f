/* SPDX-License-Identifier: MIT */
/*
 * Data that AMD's compute driver (kfd) publishes in sysfs: the processes on a card and the xGMI links between cards.
 * Without that driver, there is no data.
 */
#ifndef GPU_AMD_KFD_H
#define GPU_AMD_KFD_H

#include <stdint.h>

#include "gpu_dispatch.h"

#define KFD_MAX_LINKED 64 /* cards; gd_gpu.links has as many bits */

struct kfd_links {
	uint64_t known;              /* bit i: kfd knows card i */
	uint64_t of[KFD_MAX_LINKED]; /* bit j of element i: cards i and j are linked directly */
};

/* The links between `count` cards, which are given by the numbers of their render nodes, in card order. */
void kfd_read_links(const char *root, const int *minors, unsigned count, struct kfd_links *ret);

/*
 * The processes on the card with that render node. *ret must be NULL before the call. Afterwards it is an array of
 * gpu->num_processes elements, even on failure; release it with free().
 */
int kfd_read_processes(const char *root, int minor, struct gd_gpu *gpu, struct gd_gpu_process **ret);

#endif
