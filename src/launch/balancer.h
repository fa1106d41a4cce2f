/* SPDX-License-Identifier: MIT */
/* Functions of the balancer for the launcher, in addition to the public ones. */
#ifndef LAUNCH_BALANCER_H
#define LAUNCH_BALANCER_H

#include "gpu_dispatch_launch.h"

/* Wall-clock time without work: it does not count for `speedup`. */
void balancer_set_idle(struct gd_balancer *b, double seconds);

/* gd_balancer_add(); *ret_gpu is the file's GPU, or NULL, and stays valid. */
int balancer_add(struct gd_balancer *b, const struct gd_file_result *result, struct gd_launch_gpu **ret_gpu);
/* Adds the audio seconds of a finished file that was added without them. */
void balancer_learn_seconds(
	struct gd_balancer *b, struct gd_launch_gpu *gpu, double audio_seconds, double processing_seconds);

#endif
