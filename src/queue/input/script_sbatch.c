/* SPDX-License-Identifier: MIT */
/* Options of sbatch that apply to a queue on one machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/input/script.h"

enum sbatch_option {
	SBATCH_JOB_NAME,
	SBATCH_GPUS,
	SBATCH_GRES,
	SBATCH_TIME,
	SBATCH_OUTPUT,
	SBATCH_DEPENDENCY,
	SBATCH_ARRAY,
	SBATCH_SIGNAL,
	SBATCH_CPUS,
	SBATCH_MEM,
	SBATCH_ERROR,
	SBATCH_ONE,
	SBATCH_OTHER,
};

static const struct {
	const char *name, *letter;
	enum sbatch_option option;
} options[] = {
	{"job-name", "J", SBATCH_JOB_NAME},
	{"gpus", "G", SBATCH_GPUS},
	{"gpus-per-node", "", SBATCH_GPUS},
	{"gres", "", SBATCH_GRES},
	{"time", "t", SBATCH_TIME},
	{"output", "o", SBATCH_OUTPUT},
	{"dependency", "d", SBATCH_DEPENDENCY},
	{"array", "a", SBATCH_ARRAY},
	{"signal", "", SBATCH_SIGNAL},
	{"cpus-per-task", "c", SBATCH_CPUS},
	{"mem", "", SBATCH_MEM},
	{"error", "e", SBATCH_ERROR},
	{"nodes", "N", SBATCH_ONE},
	{"ntasks", "n", SBATCH_ONE},
	{"ntasks-per-node", "", SBATCH_ONE},
};

static enum sbatch_option find(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strcmp(name, options[i].name) == 0 || strcmp(name, options[i].letter) == 0)
			return options[i].option;
	return SBATCH_OTHER;
}

bool script_sbatch_takes_value(const char *name)
{
	static const char *const flags[] = {"exclusive", "requeue", "no-requeue", "wait", "overcommit", "hold", "H",
		"W", "s", "O", "contiguous", "parsable", "verbose", "v", "quiet", "Q"};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(name, flags[i]) == 0)
			return false;
	return true;
}

/* "2", "a100:2", "gpu:2", "gpu:a100:2" and "gpu": the number is last. */
static int set_gpus(struct script *s, const char *value, bool gres, struct gd_error *err)
{
	const char *colon = strrchr(value, ':');
	const char *number = colon ? colon + 1 : value;
	if (gres && strncmp(value, "gpu", 3) != 0)
		return 1;
	if (gres && strspn(number, "0123456789") != strlen(number))
		number = "1";
	return script_set(s, JOB_OPTION_NUM_GPUS, number, err);
}

/* Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds. */
static int set_time(struct script *s, const char *value, struct gd_error *err)
{
	unsigned days = 0, parts[3] = {0};
	char seconds[32];
	const char *dash = strchr(value, '-'), *p = dash ? dash + 1 : value;
	int n = 0, end = 0;
	if (strspn(value, "0123456789-:") != strlen(value) || (dash && sscanf(value, "%6u-", &days) != 1))
		n = -1;
	while (n >= 0 && n < 3 && sscanf(p, "%6u%n", &parts[n], &end) == 1) {
		p += end;
		n++;
		if (*p != ':')
			break;
		p++;
	}
	if (n <= 0 || *p)
		return error_set(err, -EINVAL, "'%s' is not a time limit", value);
	/* The positions of hours and minutes depend on the number of parts. */
	unsigned long h = dash || n == 3 ? parts[0] : 0;
	unsigned long m = dash || n == 3 ? parts[1] : parts[0];
	unsigned long sec = dash || n == 3 ? parts[2] : parts[1];
	snprintf(seconds, sizeof(seconds), "%lu", ((days * 24UL + h) * 60 + m) * 60 + sec);
	return script_set(s, JOB_OPTION_TIMEOUT, seconds, err);
}

/* Megabytes unless there is a unit. 0 means all memory of the node. */
static int set_mem(struct script *s, const char *value, struct gd_error *err)
{
	char size[64];
	bool plain = value[strspn(value, "0123456789")] == '\0';
	if (strtoull(value, NULL, 10) == 0) {
		error_set(err, 1, "jobs share the main memory; give a size");
		return 1;
	}
	snprintf(size, sizeof(size), "%.40s%s", value, plain ? "M" : "");
	return script_set(s, JOB_OPTION_HOST_MEM, size, err);
}

/* Only 1 is supported: a job is one process on this machine. */
static int check_one(const char *value, struct gd_error *err)
{
	if (strcmp(value, "1") == 0 || strcmp(value, "1-1") == 0)
		return 0;
	error_set(err, 1, "a job is a single command on this machine");
	return 1;
}

/* The names of logs are fixed; the requested directory is used unless it depends on the job. */
static int set_output(struct script *s, const char *value, struct gd_error *err)
{
	const char *slash = strrchr(value, '/');
	size_t size = slash ? (size_t)(slash - value) : 0;
	if (strcmp(value, "/dev/null") == 0 || memchr(value, '%', size)) {
		error_set(err, 1, "gpuq names log files itself; 'gpuq logs' shows them");
		return 1;
	}
	char *dir = !slash ? strdup(".") : size == 0 ? strdup("/") : strndup(value, size);
	if (!dir)
		return error_set(err, -ENOMEM, "out of memory");
	free(s->log_dir);
	s->log_dir = dir;
	error_set(err, 2,
		"the log is written to directory '%s' as job_DATE_TIME_ID.log, not to '%s'; 'gpuq logs ID' shows it, and 'gpuq info ID' prints its path",
		dir, value);
	return 2;
}

/* "afterok:1:2,afterany:3" */
static int set_dependency(struct script *s, const char *value, struct gd_error *err)
{
	cleanup_(freep) char *copy = strdup(value);
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	for (char *rest = copy, *term; (term = strsep(&rest, ","));) {
		char *ids = strchr(term, ':');
		enum job_option option = ids && strncmp(term, "afterok:", 8) == 0    ? JOB_OPTION_AFTER
					 : ids && strncmp(term, "afterany:", 9) == 0 ? JOB_OPTION_AFTER_ANY
										     : JOB_OPTIONS;
		if (option == JOB_OPTIONS)
			return error_set(err, -EINVAL, "'%s': only afterok and afterany are supported", term);
		for (char *p = ++ids; *p; p++)
			*p = *p == ':' ? ',' : *p;
		if (s->options.set & 1u << option)
			return error_set(
				err, -EINVAL, "%s is given twice", option == JOB_OPTION_AFTER ? "afterok" : "afterany");
		int r = script_set(s, option, ids, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The limit of "1-10%4" is ignored: the GPUs limit how many jobs run. */
static int set_array(struct script *s, const char *value, struct gd_error *err)
{
	size_t size = strcspn(value, "%");
	char *array = strndup(value, size);
	if (!array)
		return error_set(err, -ENOMEM, "out of memory");
	free(s->array);
	s->array = array;
	if (!value[size])
		return 0;
	error_set(err, 2, "the limit '%s' is ignored; as many jobs run at the same time as fit on the GPUs",
		value + size);
	return 2;
}

/* "B:USR1@60". The prefix is ignored: the processes that handle the signal get it. */
static int set_signal(struct script *s, const char *value, struct gd_error *err)
{
	while ((*value == 'B' || *value == 'R') && value[1] == ':')
		value += 2;
	return script_set(s, JOB_OPTION_SIGNAL, value, err);
}

int script_set_sbatch(struct script *s, const char *name, const char *value, struct gd_error *err)
{
	enum sbatch_option option = find(name);
	if (option == SBATCH_OTHER)
		return 1;
	if (!value || !*value)
		return error_set(err, -EINVAL, "a value is missing");
	switch (option) {
	case SBATCH_JOB_NAME:
		return script_set(s, JOB_OPTION_NAME, value, err);
	case SBATCH_GPUS:
	case SBATCH_GRES:
		return set_gpus(s, value, option == SBATCH_GRES, err);
	case SBATCH_TIME:
		return set_time(s, value, err);
	case SBATCH_OUTPUT:
		return set_output(s, value, err);
	case SBATCH_DEPENDENCY:
		return set_dependency(s, value, err);
	case SBATCH_ARRAY:
		return set_array(s, value, err);
	case SBATCH_SIGNAL:
		return set_signal(s, value, err);
	case SBATCH_CPUS:
		return script_set(s, JOB_OPTION_CPUS, value, err);
	case SBATCH_MEM:
		return set_mem(s, value, err);
	case SBATCH_ERROR:
		error_set(err, 1, "standard error goes to the same log");
		return 1;
	case SBATCH_ONE:
		return check_one(value, err);
	case SBATCH_OTHER:
		break;
	}
	return 1;
}
