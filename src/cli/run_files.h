/* SPDX-License-Identifier: MIT */
/* The directory of run files; only for run_file*.c. */
#ifndef CLI_RUN_FILES_H
#define CLI_RUN_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#define RUN_NAME_ROOM 32

/* "123.lock" */
void run_name(char ret[RUN_NAME_ROOM], pid_t pid, const char *ending);
/* make: create it if it is missing; otherwise -ENOENT. */
int run_files_open(bool make, int *ret_fd);

#endif
