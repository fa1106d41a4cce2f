/* SPDX-License-Identifier: MIT */
#include "queue/runner/allocation_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"

/* A controller that does not answer must not delay the jobs for longer than this. */
#define ASK "timeout 5 squeue -h -j %s -o %%L 2>/dev/null"

int64_t allocation_end_parse_left(const char *text)
{
	long long days = 0, a = 0, b = 0, c = 0;
	const char *dash = strchr(text, '-');
	if (dash && sscanf(text, "%lld-", &days) != 1)
		return -1;
	int n = sscanf(dash ? dash + 1 : text, "%lld:%lld:%lld", &a, &b, &c);
	if (n < 2 || days < 0 || days > 100000 || a < 0 || a > 10000 || b < 0 || b > 59 || c < 0 || c > 59)
		return -1;
	long long s = n == 3 ? a * 3600 + b * 60 + c : a * 60 + b;
	return (days * 86400 + s) * 1000;
}

static int64_t ask_slurm(const char *id)
{
	char command[128], line[64] = "";
	snprintf(command, sizeof(command), ASK, id);
	FILE *f = popen(command, "re");
	if (!f)
		return -1;
	bool got = fgets(line, sizeof(line), f);
	pclose(f);
	return got ? allocation_end_parse_left(line) : -1;
}

int64_t allocation_end_get(char *ret_whose, size_t room)
{
	const char *id = getenv("SLURM_JOB_ID"), *end = getenv("SLURM_JOB_END_TIME");
	/* The ID becomes part of a shell command. */
	if (!id || !*id || strlen(id) > 20 || strspn(id, "0123456789") != strlen(id))
		return 0;
	snprintf(ret_whose, room, "Slurm job %s", id);
	if (end && *end && strlen(end) < 12 && strspn(end, "0123456789") == strlen(end))
		return (int64_t)strtoll(end, NULL, 10) * 1000;
	int64_t left_ms = ask_slurm(id);
	return left_ms < 0 ? 0 : date_now_ms() + left_ms;
}
