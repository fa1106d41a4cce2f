/* SPDX-License-Identifier: MIT */
/* The program and settings with which an output was begun: the file `worker` in OUTPUT.logs. */
#ifndef LAUNCH_MAP_WORKER_NOTE_H
#define LAUNCH_MAP_WORKER_NOTE_H

#include "base/text.h"
#include "gpu_dispatch.h"
#include "launch/map.h"

/*
 * Compares the note with the options, and rewrites it if it differs. 1: it differs, and *ret_before is the old content,
 * for messages; 0: it is the same, or there was none; negative: it cannot be written.
 */
int map_worker_note(const char *logs, const struct map_options *o, struct text *ret_before);

#endif
