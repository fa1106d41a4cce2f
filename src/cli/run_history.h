/* SPDX-License-Identifier: MIT */
/*
 * Launches and maps that are over, for gpuq report: a line for each in `run_history/ended.jsonl` of the user's state
 * directory for this host, as in PID.json (cli/run_file.h). The file is bounded: one that has grown too large takes the
 * place of `older.jsonl`. Lines that cannot be written are missing from reports, and nothing else.
 */
#ifndef CLI_RUN_HISTORY_H
#define CLI_RUN_HISTORY_H

#include "cli/run_file.h"

void run_history_add(const struct view_run *run);

struct run_history {
	struct run_text *runs; /* by start */
	size_t count;
};

/* Those that ended at since_ms or later. Where there is no file there are none. 0 or a negative errno value. */
int run_history_read(int64_t since_ms, struct run_history *ret);
void run_history_finish(struct run_history *h);

#endif
