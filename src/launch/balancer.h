/* SPDX-License-Identifier: MIT */
/* What the launcher tells its balancer beyond the public calls. */
#ifndef LAUNCH_BALANCER_H
#define LAUNCH_BALANCER_H

#include "gpu_dispatch_launch.h"

/* So much of the wall clock there was nothing to do: it does not count for `speedup`. */
void balancer_set_idle(struct gd_balancer *b, double seconds);

#endif
