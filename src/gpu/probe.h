/* SPDX-License-Identifier: MIT */
#ifndef GPU_PROBE_H
#define GPU_PROBE_H

#include "gpu/set.h"
#include "gpu/spec.h"

/* All that is there, as it is now, without what the environment hides. */
int gpu_probe_once(const struct gpu_spec *spec, struct gpu_set *ret, struct gd_error *err);

#endif
