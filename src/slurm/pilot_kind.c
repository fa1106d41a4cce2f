/* SPDX-License-Identifier: MIT */
#include "slurm/pilot_kind.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* Needed times are rounded up by less than an eighth (scheduler_late.c); refuse a job only if it is too long without
 * the rounding. */
#define ROUNDING 8

/* ---- Options of sbatch ------------------------------------------------------------------ */

/* The value of "--name=value", "--name value" or, with a letter, "-x value" and "-xvalue"; NULL if it is another
 * option. */
static const char *value_of(const char *at, const char *name, char letter)
{
	size_t size = strlen(name);
	if (strncmp(at, "--", 2) == 0 && strncmp(at + 2, name, size) == 0 &&
		(at[2 + size] == '=' || at[2 + size] == ' '))
		return at + 3 + size + strspn(at + 3 + size, " ");
	if (letter && at[0] == '-' && at[1] == letter)
		return at + 2 + strspn(at + 2, " =");
	return NULL;
}

/* "gpu:4", "gpu:a100:4", "a100:4", "4", "gpu"; other resources of a list are skipped. */
static bool parse_gpus(const char *value, bool is_gres, unsigned *ret)
{
	if (is_gres) {
		while (strncmp(value, "gpu", 3) != 0) {
			value += strcspn(value, ", ");
			if (*value++ != ',')
				return false;
		}
	}
	size_t size = strcspn(value, ", '\"(");
	const char *last = value + size;
	while (last > value && last[-1] >= '0' && last[-1] <= '9')
		last--;
	if (last > value && last[-1] != ':')
		last = value + size; /* digits of a name */
	*ret = last < value + size ? (unsigned)strtoul(last, NULL, 10) : 1;
	return true;
}

/* "30" (minutes), "4:30", "4:00:00", "2-12", "2-12:30", "2-12:30:00"; 0 if invalid. */
static int64_t parse_time(const char *value)
{
	unsigned long days = 0, parts[3] = {0};
	char *end;
	int count = 0;
	unsigned long number = strtoul(value, &end, 10);
	bool has_days = end > value && *end == '-';
	if (has_days) {
		days = number;
		value = end + 1;
	}
	do {
		parts[count++] = strtoul(value, &end, 10);
		if (end == value)
			return 0;
		value = end + 1;
	} while (*end == ':' && count < 3);
	unsigned long seconds = has_days     ? parts[0] * 3600 + parts[1] * 60 + parts[2]
				: count == 1 ? parts[0] * 60
				: count == 2 ? parts[0] * 60 + parts[1]
					     : parts[0] * 3600 + parts[1] * 60 + parts[2];
	seconds += days * 86400;
	return seconds < 1000ul * 86400 ? (int64_t)seconds * 1000 : 0;
}

void pilot_kind_parse(struct pilot_kind *k, const char *options)
{
	for (const char *at = options; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		const char *gres = value_of(at, "gres", '\0'), *time = value_of(at, "time", 't');
		const char *gpus = value_of(at, "gpus-per-node", '\0');
		if (!gpus)
			gpus = value_of(at, "gpus", 'G');
		if (gres && parse_gpus(gres, true, &k->gpus))
			k->gpus_known = true;
		if (gpus && parse_gpus(gpus, false, &k->gpus))
			k->gpus_known = true;
		if (time)
			k->time_ms = parse_time(time);
	}
}

/* Nodes of a kind may differ: keep the largest. */
void pilot_kind_learn(struct pilot_kind *k, const struct coordinator_action *ready)
{
	if (!k->learned)
		*k = (struct pilot_kind){.learned = true, .gpus_known = true, .time_ms = -1};
	k->gpus = ready->num_gpus > k->gpus ? (unsigned)ready->num_gpus : k->gpus;
	k->cpus = ready->cpus > k->cpus ? ready->cpus : k->cpus;
	k->host_bytes = ready->host_bytes > k->host_bytes ? ready->host_bytes : k->host_bytes;
	for (size_t i = 0; i < ready->num_gpus; i++)
		if (ready->gpus[i].total_bytes > k->gpu_bytes)
			k->gpu_bytes = ready->gpus[i].total_bytes;
	/* 0: a pilot without an end. */
	if (ready->remaining_ms < 0)
		k->time_ms = 0;
	else if (k->time_ms != 0 && ready->remaining_ms > k->time_ms)
		k->time_ms = ready->remaining_ms;
}

/* ---- Jobs ------------------------------------------------------------------------------- */

bool pilot_kind_takes(const struct pilot_kind *k, const struct placement_need *need, char words[FRAME_WORDS_ROOM])
{
	char want[UNITS_ROOM], have[UNITS_ROOM];
	uint64_t gpu = need->num_gpus && !need->by_card ? need->memory_bytes : 0;
	int64_t least_ms = need->time_ms - need->time_ms / ROUNDING;
	*words = '\0';
	if (k->gpus_known && need->num_gpus > k->gpus)
		snprintf(words, FRAME_WORDS_ROOM, "a job needs %u GPU%s, a pilot has %u", need->num_gpus,
			need->num_gpus == 1 ? "" : "s", k->gpus);
	else if (k->gpu_bytes && gpu > k->gpu_bytes)
		snprintf(words, FRAME_WORDS_ROOM, "a job needs %s of GPU memory, the GPUs of a pilot have %s",
			units_format_size(gpu, want), units_format_size(k->gpu_bytes, have));
	else if (k->host_bytes && need->host_bytes > k->host_bytes)
		snprintf(words, FRAME_WORDS_ROOM, "a job needs %s of main memory, a pilot has %s",
			units_format_size(need->host_bytes, want), units_format_size(k->host_bytes, have));
	else if (k->cpus && need->cpus > k->cpus)
		snprintf(words, FRAME_WORDS_ROOM, "a job needs %u CPUs, a pilot has %u", need->cpus, k->cpus);
	else if (k->time_ms > 0 && least_ms > k->time_ms)
		snprintf(words, FRAME_WORDS_ROOM, "a job needs %s of run time, a pilot has %s",
			units_format_duration((uint64_t)need->time_ms, want),
			units_format_duration((uint64_t)k->time_ms, have));
	return !*words;
}

unsigned pilot_kind_capacity(const struct pilot_kind *k, const struct placement_need *need)
{
	uint64_t most = UINT_MAX;
	if (need->num_gpus > 0 && !k->gpus_known)
		return 0;
	if (need->num_gpus > 0) {
		bool shares = need->declared && need->memory_bytes && k->gpu_bytes;
		most = k->gpus / need->num_gpus;
		most *= shares ? k->gpu_bytes / need->memory_bytes : 1;
	}
	if (k->cpus && need->cpus && k->cpus / need->cpus < most)
		most = k->cpus / need->cpus;
	if (k->host_bytes && need->host_bytes && k->host_bytes / need->host_bytes < most)
		most = k->host_bytes / need->host_bytes;
	return most == UINT_MAX ? 0 : (unsigned)(most < UINT_MAX ? most : UINT_MAX - 1);
}
