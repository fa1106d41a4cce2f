/* SPDX-License-Identifier: MIT */
#include "cli/map_options.h"

#include "cli/pool_arguments.h"

const struct argp_option map_options[] = {
	{0, 0, NULL, 0, "Input and output:", 1},
	{"input", MAP_OPTION_INPUT, "FILE", 0, "Items, one JSON value per line; - is standard input (default)", 0},
	{"lines", MAP_OPTION_LINES, NULL, 0, "Items are lines of text, not JSON: each becomes a JSON string", 0},
	{"output", MAP_OPTION_OUTPUT, "FILE", 0, "Results, one JSON object per line; - is standard output (default)",
		0},
	{"errors", MAP_OPTION_ERRORS, "FILE", 0, "Write failures to this file, not to the output", 0},
	{"ordered", MAP_OPTION_ORDERED, NULL, 0, "Write results in the order of the input", 0},
	{"trust", POOL_OPTION_TRUST, NULL, 0,
		"Use an output that others can write to, and follow their links to the input ($GPUQ_TRUST=1)", 0},

	{0, 0, NULL, 0, "Worker:", 2},
	{"worker-command", POOL_OPTION_WORKER_COMMAND, "COMMAND", 0,
		"Program that is started once per GPU and reads messages with items on its standard input; required",
		0},
	{"batch", MAP_OPTION_BATCH, "N", 0, "Send up to N items in a message (default: 1)", 0},
	{"in-flight", MAP_OPTION_IN_FLIGHT, "N", 0, "Send up to N messages ahead of the answers (default: 4)", 0},
	POOL_ROW_SET,

	{0, 0, NULL, 0, "GPUs:", 3},
	POOL_ROW_GPUS,
	POOL_ROW_WORKERS_PER_GPU,

	{0, 0, NULL, 0, "Error handling:", 4},
	{"timeout", POOL_OPTION_TIMEOUT, "TIME", 0, "Time limit per message: 30s, 5m, 1h (default: none)", 0},
	{"retries", POOL_OPTION_RETRIES, "N", 0, "Retry a failed item up to N times (default: 0)", 0},
	{"max-failures", POOL_OPTION_MAX_FAILURES, "N", 0, "Start no more items after N failures (default: no limit)",
		0},

	{0, 0, NULL, 0, "Summary:", 5},
	POOL_ROW_JSON,
	POOL_ROW_HELP,
	{0},
};
