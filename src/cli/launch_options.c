/* SPDX-License-Identifier: MIT */
#include "cli/launch_options.h"

#include "cli/pool_arguments.h"

const struct argp_option launch_options[] = {
	{0, 0, NULL, 0, "Which files:", 1},
	{"input-dir", LAUNCH_OPTION_INPUT, "DIR", 0, "Folder with the files; required", 0},
	{"pattern", LAUNCH_OPTION_PATTERN, "GLOB", 0,
		"Process files whose names match; can be given several times (default: *.wav). Quote it: --pattern '*.mp3'",
		0},
	{"recursive", 'r', NULL, 0, "Search subfolders, too", 0},
	{"force", LAUNCH_OPTION_FORCE, NULL, 0, "Also process files that an earlier run has finished", 0},
	{"watch", LAUNCH_OPTION_WATCH, NULL, 0,
		"Afterwards wait for new files, and process each one when it is complete, until Ctrl-C", 0},

	{0, 0, NULL, 0, "Worker (one of --worker, --worker-command, COMMAND):", 2},
	{"worker", LAUNCH_OPTION_WORKER, "NAME|FILE.so", 0,
		"Name or file of a plug-in (default: the installed speech recognizer)", 0},
	{"worker-command", POOL_OPTION_WORKER_COMMAND, "COMMAND", 0,
		"Program that is started once per GPU and reads file names on its standard input, one JSON object per line",
		0},
	{"list-workers", LAUNCH_OPTION_LIST_WORKERS, NULL, 0, "List the installed plug-ins", 0},
	{"model-size", LAUNCH_OPTION_MODEL_SIZE, "SIZE", 0, "The worker's setting 'model_size' (default: base)", 0},
	{"language", LAUNCH_OPTION_LANGUAGE, "LANG", 0,
		"The worker's setting 'language' (default: none; recognizers detect the language)", 0},
	POOL_ROW_SET,

	{0, 0, NULL, 0, "Output and GPUs:", 3},
	{"output-dir", LAUNCH_OPTION_OUTPUT, "DIR", 0,
		"Folder for the results (default: data/outputs): those of a/b.wav go to DIR/a/b", 0},
	{"trust", POOL_OPTION_TRUST, NULL, 0,
		"Use an output folder that others can write to, and follow their links and read their sparse files in the input folder ($GPUQ_TRUST=1)",
		0},
	POOL_ROW_GPUS,
	POOL_ROW_WORKERS_PER_GPU,
	{"balance", LAUNCH_OPTION_BALANCE, "longest-first|size|round-robin|none", 0,
		"The order of files (default: longest-first). A free GPU takes the next file; "
		"round-robin assigns the files to the GPUs in turn beforehand",
		0},
	{"setup-concurrency", LAUNCH_OPTION_SETUP_CONCURRENCY, "N", 0,
		"Load at most N models at the same time (default: all workers at once)", 0},

	{0, 0, NULL, 0, "Slurm:", 4},
	{"slurm", LAUNCH_OPTION_SLURM, "OPTIONS", 0,
		"Use the GPUs of a Slurm cluster, with these options for sbatch, such as '--gres=gpu:4'; "
		"can be given several times",
		0},
	{"max-nodes", LAUNCH_OPTION_MAX_NODES, "N", 0, "Maximum number of nodes at a time, with --slurm (default: 1)",
		0},
	{"slurm-silence", LAUNCH_OPTION_SLURM_SILENCE, "SECONDS", 0, "As for 'gpuq run' (default: 15)", 0},
	{"slurm-lease", LAUNCH_OPTION_SLURM_LEASE, "SECONDS", 0, "As for 'gpuq run' (default: 900)", 0},
	{"slurm-address", LAUNCH_OPTION_SLURM_ADDRESS, "HOST", 0, "As for 'gpuq run' (default: from Slurm)", 0},

	{0, 0, NULL, 0, "Error handling:", 5},
	{"timeout", POOL_OPTION_TIMEOUT, "TIME", 0, "Time limit per file: 30s, 5m, 1h (default: none)", 0},
	{"retries", POOL_OPTION_RETRIES, "N", 0, "Retry a failed file up to N times (default: 0)", 0},
	{"max-failures", POOL_OPTION_MAX_FAILURES, "N", 0,
		"Start no more files after N failures (default: no limit); running files are finished", 0},

	{0, 0, NULL, 0, "Dry run and summary:", 6},
	{"dry-run", LAUNCH_OPTION_DRY_RUN, NULL, 0,
		"Start nothing; show the files, their distribution and the expected duration", 0},
	POOL_ROW_JSON,
	POOL_ROW_HELP,
	{0},
};
