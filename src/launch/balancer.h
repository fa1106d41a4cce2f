/* SPDX-License-Identifier: MIT */
/* Functions of the balancer for the launcher, in addition to the public ones. */
#ifndef LAUNCH_BALANCER_H
#define LAUNCH_BALANCER_H

#include "gpu_dispatch_launch.h"

/* Wall-clock time without work: it does not count for `speedup`. */
void balancer_set_idle(struct gd_balancer *b, double seconds);

#endif
