/* SPDX-License-Identifier: MIT */
/*
 * gpuq slurm check: runs a tiny job with the options of pilots, and says what is wrong with this cluster. Only
 * slurm_check*.c include the second half.
 */
#ifndef CLI_SLURM_CHECK_H
#define CLI_SLURM_CHECK_H

#include <limits.h>

#include "cli/doctor_parts.h"
#include "slurm/listener.h"
#include "slurm/node_check.h"

/* As the command: argv[0] is "gpuq slurm". */
int slurm_check_main(int argc, char **argv);

/* ---- Parts ------------------------------------------------------------------------------ */

struct slurm_check {
	struct doctor doctor; /* the queue, the settings and the findings */
	uint64_t wait_ms;     /* for the job to run */
	char dir[PATH_MAX];   /* beside the journal, for this check; "": none */
	int dir_fd, lock_fd;
	struct listener_address address; /* fd -1: none */
	char token[33];
	uint64_t job;                 /* 0: none */
	char state[32], reason[64];   /* as Slurm has said last */
	int exit_code;                /* of the job, once it is over */
	char report[NODE_CHECK_ROOM]; /* "": none */
	bool by_tcp;                  /* the report came through the connection */
	int64_t received_ms;          /* when it came, by the clock of this host */
	int peer_fd;                  /* -1: none */
};

/* slurm_check_login.c: false: without this nothing more can be checked. */
bool slurm_check_commands(struct slurm_check *c);
bool slurm_check_controller(struct slurm_check *c);
bool slurm_check_place(struct slurm_check *c);
void slurm_check_account(struct slurm_check *c);
/* The jobs of the queue against the time that a pilot has. */
void slurm_check_longest(struct slurm_check *c, int64_t left_ms);

/* slurm_check_job.c: submits the job and waits for its report. */
bool slurm_check_submit(struct slurm_check *c);
void slurm_check_wait(struct slurm_check *c);
/* Ends the job and removes what was made. */
void slurm_check_end(struct slurm_check *c);

/* slurm_check_node.c: what the report means. */
void slurm_check_report(struct slurm_check *c);

#endif
