/* SPDX-License-Identifier: MIT */
/* Exit codes of gpuq and of the programs that it executes. */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

enum {
	EXIT_DONE = 0,
	EXIT_WORK_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_WAIT_TIMEOUT = 124, /* `gpuq wait --timeout`, as in timeout(1) */
	EXIT_WAIT = 125,         /* `gpuq wait` itself failed: other codes are those of the job */
	EXIT_INTERRUPTED = 130,
};

#endif
