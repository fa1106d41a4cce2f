/* SPDX-License-Identifier: MIT */
/*
 * Ended launches and maps, for gpuq report: one line each in `run_history/ended.jsonl` of the user's state directory
 * for this host, as in PID.json (cli/run_file.h). The size is bounded: a file that has grown too large replaces
 * `older.jsonl`. Lines that cannot be written are only missing from reports.
 */
#ifndef CLI_RUN_HISTORY_H
#define CLI_RUN_HISTORY_H

#include "cli/run_file.h"

void run_history_add(const struct view_run *run);

struct run_history {
	struct run_text *runs; /* sorted by start */
	size_t count;
};

/* Reads runs that ended at since_ms or later. No file: no runs. 0 or a negative errno value. */
int run_history_read(int64_t since_ms, struct run_history *ret);
void run_history_finish(struct run_history *h);

#endif
