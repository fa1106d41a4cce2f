/* SPDX-License-Identifier: MIT */
#include "slurm/sbatch_refusal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool has_any(const char *text, const char *const *parts)
{
	for (size_t i = 0; parts[i]; i++)
		if (strstr(text, parts[i]))
			return true;
	return false;
}

/* ---- Kinds ------------------------------------------------------------------------- */

enum sbatch_refusal sbatch_refusal_classify(const char *err)
{
	static const char *const uncertain[] = {"timed out", "Unable to contact", "Connection", "connect", "Zero Bytes",
		"communication", "Communication", "Transport", "unavailable", "temporarily", "retry", "Protocol",
		"Unspecified error", NULL};
	/* "QOSMaxSubmitJobPerUserLimit" comes with "Job violates accounting/QOS policy". */
	static const char *const for_now[] = {
		"SubmitJob", "(inactive or drain)", "not usable now", "presently disabled", "nodes are busy", NULL};
	/* Some messages of sbatch begin with a small letter: "invalid partition specified: x". */
	static const char *const final[] = {"nvalid partition", "nvalid account", "nvalid qos", "nvalid generic",
		"nvalid feature", "nvalid license", "nvalid node name", "time limit is invalid", "Invalid --",
		"unrecognized option", "invalid option", "requires an argument", "is ambiguous",
		"doesn't allow an argument", "Unable to open file", "group not permitted", "not in this partition",
		"system default partition", "violates accounting", NULL};
	if (has_any(err, uncertain))
		return SBATCH_UNCERTAIN;
	if (has_any(err, for_now))
		return SBATCH_REFUSES_NOW;
	if (has_any(err, final))
		return SBATCH_REFUSES_FINALLY;
	return strstr(err, "Batch job submission failed") || strstr(err, "nvalid") ? SBATCH_REFUSES : SBATCH_UNCERTAIN;
}

bool sbatch_refusal_is_in_reason(const char *reason)
{
	static const char *const names[] = {"PartitionTimeLimit", "PartitionNodeLimit", "PerJobLimit",
		"MaxWallDurationPerJob", "InvalidAccount", "InvalidQOS", NULL};
	return has_any(reason, names);
}

/* ---- Words ------------------------------------------------------------------------- */

static const char *skip(const char *line, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(line, prefix, n) == 0 ? line + n : line;
}

void sbatch_refusal_words(const char *err, char *ret, size_t size)
{
	size_t used = 0;
	*ret = '\0';
	for (const char *next, *line = err; *line && used + 1 < size; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		line = skip(line, "sbatch: ");
		line = skip(line, "error: ");
		line = skip(line, "Batch job submission failed: ");
		int n = (int)strcspn(line, "\n");
		if (n == 0 || strncmp(line, "Try ", 4) == 0)
			continue;
		int put = snprintf(ret + used, size - used, "%s%.*s", used ? "; " : "", n, line);
		used = put < 0 || (size_t)put >= size - used ? size - 1 : used + (size_t)put;
	}
	for (char *p = ret; *p; p++)
		*p = iscntrl((unsigned char)*p) ? ' ' : *p;
}

const char *sbatch_refusal_advice(const char *err)
{
	static const char any[] = "change the options in --slurm; 'sbatch --help' explains them";
	/* The message may contain any other option. */
	if (strstr(err, "unrecognized option") || strstr(err, "is ambiguous"))
		return any;
	if (strstr(err, "Unable to open file"))
		return "give only options of sbatch in --slurm, no script: the jobs come from the queue";
	if (strstr(err, "SubmitJob"))
		return "use a smaller --max-nodes, or ask the administrator for more jobs at a time (MaxSubmitJobs)";
	if (strstr(err, "ime limit") || strstr(err, "TimeLimit") || strstr(err, "WallDuration"))
		return "request less time: --time in --slurm; 'sinfo -o \"%P %l\"' shows what partitions allow";
	if (strstr(err, "QOS") || strstr(err, "Limit") || strstr(err, "limit") || strstr(err, "policy"))
		return "ask for less (--gres, --time, --mem), or ask the administrator for a higher limit of your account or QOS";
	if (strstr(err, "nvalid qos"))
		return "name a QOS that you may use: --qos in --slurm; 'sacctmgr show assoc user=$USER format=qos' lists them";
	if (strstr(err, "ccount"))
		return "name an account that you may use: --account in --slurm; 'sacctmgr show assoc user=$USER' lists them";
	if (strstr(err, "gres"))
		return "name GPUs that the nodes have: --gres in --slurm; 'sinfo -o \"%P %G\"' lists them";
	if (strstr(err, "artition"))
		return "name a partition that 'sinfo' lists: --partition in --slurm";
	if (strstr(err, "node configuration"))
		return "no node has what the options request; 'sinfo -o \"%P %c %m %G\"' shows CPUs, memory and GPUs of nodes";
	return any;
}
