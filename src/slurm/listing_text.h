/* SPDX-License-Identifier: MIT */
/*
 * Parses the output of Slurm's commands into a listing (listing.h). Strict: an unexpected line makes the result
 * -EBADMSG, because a job that was overlooked would be considered ended.
 */
#ifndef SLURM_LISTING_TEXT_H
#define SLURM_LISTING_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "slurm/listing.h"

/* Fields of squeue -O; names, which may contain any bytes, come last. */
#define LISTING_JOB_FIELDS "JobID:|,State:|,RestartCnt:|,NodeList:|,Reason:|,Name:|"

/* Growing arrays; start from {0}. */
struct listing_builder {
	struct listed_job *jobs;
	size_t num_jobs, jobs_room;
	bool name_is_open; /* the last line was of another job, whose name may go on in the next line */
	struct listed_node *nodes;
	size_t num_nodes, nodes_room;
	int64_t boot_ms;
	bool cgroup;
};
void listing_builder_finish(struct listing_builder *b);

/* squeue -h -a -t all -u UID -O LISTING_JOB_FIELDS. Jobs whose name does not begin with `prefix` are left out. */
int listing_add_jobs(struct listing_builder *b, const char *text, size_t size, const char *prefix);
/* scontrol -o show nodes */
int listing_add_nodes(struct listing_builder *b, const char *text, size_t size);
/* scontrol show config: BOOT_TIME and ProctrackType. -EBADMSG if BOOT_TIME is missing. */
int listing_set_config(struct listing_builder *b, const char *text, size_t size);

/* sbatch --parsable: "123", or "123;cluster". */
int listing_parse_submitted(const char *text, size_t size, uint64_t *ret);

#endif
