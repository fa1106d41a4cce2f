/* SPDX-License-Identifier: MIT */
/* Checks that a program exists, before it is needed. */
#ifndef LAUNCH_PROGRAM_PATH_H
#define LAUNCH_PROGRAM_PATH_H

/* 0 if execvp() would find `name` and may execute it; otherwise -ENOENT, -EACCES… */
int program_path_check(const char *name);

#endif
