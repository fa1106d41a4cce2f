/* SPDX-License-Identifier: MIT */
/*
 * The parts of `gpuq doctor`. Only cmd_doctor.c, doctor_*.c and slurm_check.h, whose checks report in the same way,
 * include this.
 *
 * Each check adds findings and continues, whatever it finds. Checks change nothing permanently: the only file that is
 * created is temporary, and is removed.
 */
#ifndef CLI_DOCTOR_PARTS_H
#define CLI_DOCTOR_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "cli/queue_choice.h"

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* works, but may explain a problem */
	DOCTOR_PROBLEM, /* something does not work */
};

struct doctor_finding {
	const char *section, *name; /* constants */
	enum doctor_level level;
	char *words;  /* the finding; paths in the home directory begin with ~ */
	char *advice; /* NULL: none */
};

struct doctor {
	struct queue_choice queue;
	bool json;
	bool has_queue;      /* queue.journal_path is known */
	const char *section; /* section of the current checks */
	struct doctor_finding *findings;
	size_t count, capacity;
	bool incomplete; /* out of memory: findings are missing */
	struct gd_error err;
};

void doctor_add(struct doctor *d, enum doctor_level level, const char *name, const char *advice, const char *format,
	...) GD_PRINTF(5, 6);
/* Prints and releases the findings. Returns the exit code. */
int doctor_report(struct doctor *d);

void doctor_check_installation(struct doctor *d);
void doctor_check_system(struct doctor *d);
void doctor_check_gpus(struct doctor *d);
void doctor_check_limits(struct doctor *d);
/* Reads the configuration and finds the queue. Call before the checks of files. */
void doctor_check_settings(struct doctor *d);
void doctor_check_file_system(struct doctor *d);
void doctor_check_queue(struct doctor *d);
void doctor_check_claims(struct doctor *d);

#endif
