/* SPDX-License-Identifier: MIT */
/* Programs of ours that others of ours execute: gpuq-probe, gpuq-launch. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stddef.h>

/*
 * The path of the program `name`: what the environment variable `variable` says, else beside the file that this code
 * is in (the shared library, or a program that it was linked into), else where it was installed. -ENOENT: nowhere.
 */
int program_find(const char *name, const char *variable, char *ret, size_t size);

/* The folder of the file that this code is in. */
int program_directory(char *ret, size_t size);

#endif
