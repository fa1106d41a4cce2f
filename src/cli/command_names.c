/* SPDX-License-Identifier: MIT */
#include "cli/command_names.h"

#include <stddef.h>
#include <strings.h>

struct other_name {
	const char *word, *command;
};

static const struct other_name aliases[] = {
	{"ls", "status"},
	{"kill", "cancel"},
	{"rm", "cancel"},
	{"log", "logs"},
	{NULL, NULL},
};

/* Verbs of task-spooler, pueue, gflow, GNU parallel, Slurm and the shell. */
static const struct other_name meanings[] = {
	{"submit", "add"},
	{"enqueue", "add"},
	{"queue", "add"},
	{"new", "add"},
	{"sbatch", "add"},
	{"gbatch", "add"},
	{"srun", "exec"},
	{"lease", "exec"},
	{"salloc", "shell"},
	{"start", "run"},
	{"daemon", "run"},
	{"parallel", "run"},
	{"list", "status"},
	{"show", "status"},
	{"jobs", "status"},
	{"ps", "status"},
	{"squeue", "status"},
	{"gqueue", "status"},
	{"stat", "status"},
	{"describe", "info"},
	{"inspect", "info"},
	{"details", "info"},
	{"scontrol", "info"},
	{"sacct", "report"},
	{"stats", "report"},
	{"watch", "top"},
	{"monitor", "top"},
	{"htop", "top"},
	{"dashboard", "web"},
	{"serve", "web"},
	{"tail", "logs"},
	{"cat", "logs"},
	{"output", "logs"},
	{"follow", "logs"},
	{"stop", "cancel"},
	{"end", "cancel"},
	{"abort", "cancel"},
	{"remove", "cancel"},
	{"delete", "cancel"},
	{"scancel", "cancel"},
	{"gcancel", "cancel"},
	{"restart", "retry"},
	{"rerun", "retry"},
	{"requeue", "retry"},
	{"again", "retry"},
	{"suspend", "pause"},
	{"freeze", "pause"},
	{"continue", "resume"},
	{"unpause", "resume"},
	{"unhold", "release"},
	{"prioritize", "urgent"},
	{"bump", "urgent"},
	{"clean", "prune"},
	{"clear", "prune"},
	{"purge", "prune"},
	{"fsck", "verify"},
	{"check", "doctor"},
	{"diagnose", "doctor"},
	{"selftest", "doctor"},
	{"bugreport", "doctor"},
	{"repair", "verify"},
	{"explain", "why"},
	{"reason", "why"},
	{"devices", "gpus"},
	{"nvidia-smi", "gpus"},
	{"smi", "gpus"},
	{"version", "--version"},
	{NULL, NULL},
};

static const char *find(const struct other_name *names, const char *word)
{
	for (; names->word; names++)
		if (strcasecmp(names->word, word) == 0)
			return names->command;
	return NULL;
}

const char *command_names_alias(const char *word)
{
	return find(aliases, word);
}

const char *command_names_meaning(const char *word)
{
	return find(meanings, word);
}
