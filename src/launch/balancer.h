/* SPDX-License-Identifier: MIT */
/* Calls of the launcher to its balancer, beyond the public ones. */
#ifndef LAUNCH_BALANCER_H
#define LAUNCH_BALANCER_H

#include "gpu_dispatch_launch.h"

/* Wall-clock time without work: it does not count for `speedup`. */
void balancer_set_idle(struct gd_balancer *b, double seconds);

#endif
