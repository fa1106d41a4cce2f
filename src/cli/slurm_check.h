/* SPDX-License-Identifier: MIT */
/*
 * gpuq slurm check: runs a tiny job with the options of pilots, and reports problems of this cluster. Only
 * slurm_check*.c use the second half.
 */
#ifndef CLI_SLURM_CHECK_H
#define CLI_SLURM_CHECK_H

#include <limits.h>

#include "cli/doctor_parts.h"
#include "slurm/listener.h"
#include "slurm/node_check.h"

/* The whole command: argv[0] is "gpuq slurm". */
int slurm_check_main(int argc, char **argv);

/* ---- Parts ------------------------------------------------------------------------------ */

/* A job of the check, as last reported by Slurm. */
struct check_job {
	uint64_t id; /* 0: no job */
	char state[32], reason[64];
	int exit_code; /* once it has ended */
};

struct slurm_check {
	struct doctor doctor; /* the queue, the settings and the findings */
	uint64_t wait_ms;     /* how long to wait until the job runs */
	char dir[PATH_MAX];   /* directory of this check, next to the journal; "": none */
	int parent_fd;        /* the directory of the journal */
	int dir_fd, lock_fd;
	struct listener_address address; /* fd -1: not listening */
	char token[33];
	struct check_job job, second; /* the second one runs on another node, if there is one */
	char report[NODE_CHECK_ROOM]; /* "": no report */
	bool by_tcp;                  /* the report arrived through the connection */
	int64_t received_ms;          /* when it arrived, by the clock of this host */
	uint64_t file_ns;             /* when it was first seen as a file; 0: not yet */
	int peer_fd;                  /* -1: not connected */
};

/* slurm_check.c: whether SIGINT or SIGTERM has arrived. */
bool slurm_check_is_interrupted(void);

/* slurm_check_login.c. False: nothing more can be checked. */
bool slurm_check_commands(struct slurm_check *c);
bool slurm_check_controller(struct slurm_check *c);
bool slurm_check_place(struct slurm_check *c);
void slurm_check_account(struct slurm_check *c);
/* Compares the time limits of queued jobs with the time that a pilot has. */
void slurm_check_longest(struct slurm_check *c, int64_t left_ms);

/* slurm_check_job.c: submits the job and waits for its report. */
bool slurm_check_submit(struct slurm_check *c);
void slurm_check_wait(struct slurm_check *c);
/*
 * Submits a job with the options of pilots and one more option (NULL: none). script: the name of its script, one of
 * node_check.h; argument: the last argument of node-check, or "". Returns 0, or a negative errno value with Slurm's
 * message in `words`.
 */
int slurm_check_sbatch(const struct slurm_check *c, const char *option, const char *script, const char *argument,
	uint64_t *ret_job, char words[256]);
/* Asks Slurm for the state of the job. */
void slurm_check_ask(struct check_job *job);
bool slurm_check_is_over(const struct check_job *job);
/* Ends the job and removes all files created. */
void slurm_check_end(struct slurm_check *c);

/* slurm_check_node.c: evaluates the report. True: the node has seen the directory and its locks. */
bool slurm_check_report(struct slurm_check *c);
/* Finds the value of a key in a report. False, and *ret is "": it is missing. */
bool slurm_check_find(const char *report, const char *key, char *ret, size_t size);
const char *slurm_check_lock_advice(void);

/* slurm_check_second.c: tests locks between two nodes while the first job waits. */
void slurm_check_second(struct slurm_check *c);

#endif
