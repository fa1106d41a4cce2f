/* SPDX-License-Identifier: MIT */
/* Converts plain arrays to the arrays of pointers that the API takes. The returned arrays live until the program ends.
 */
#ifndef TESTS_SUPPORT_GPU_POINTERS_H
#define TESTS_SUPPORT_GPU_POINTERS_H

#include "gpu_dispatch.h"

const struct gd_gpu *const *gpu_pointers(const struct gd_gpu *gpus, size_t count);
const struct gd_gpu_process *const *process_pointers(const struct gd_gpu_process *processes, size_t count);

#endif
