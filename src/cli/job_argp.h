/* SPDX-License-Identifier: MIT */
/* The options of one job on a command line, as a child of the argp of `gpuq add` and `gpuq edit`. */
#ifndef CLI_JOB_ARGP_H
#define CLI_JOB_ARGP_H

#include <argp.h>

#include "queue/input/job_options.h"

/* Its input is a struct job_options. Errors end the program, as those of argp do. */
extern const struct argp job_argp;
/* The same; an empty value removes the option from the job. */
extern const struct argp job_edit_argp;

#endif
