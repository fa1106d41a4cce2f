/* SPDX-License-Identifier: MIT */
/* Asks Slurm for a host in the network of the cluster's nodes, for listener.h. */
#ifndef SLURM_NODE_ADDRESS_H
#define SLURM_NODE_ADDRESS_H

#include <stddef.h>

#include "gpu_dispatch.h"

/*
 * The address of the first node that this host can resolve. If Slurm does not answer, the address of the last
 * coordinator of the queue in dir_fd: its pilots may be alive. -ENOENT: Slurm's commands are not installed. Waits at
 * most half a minute.
 */
int node_address_find(int dir_fd, char *ret, size_t size, struct gd_error *err);

#endif
