/* SPDX-License-Identifier: MIT */
/* Finds the helper programs that our own programs and the library execute: gpuq-probe, gpuq-launch… */
#ifndef BASE_HELPER_H
#define BASE_HELPER_H

#include <stddef.h>

/*
 * The path of the helper `name`: the value of the environment variable `variable` if it is set, otherwise in
 * helper_directory(), otherwise in the directory of the installation. -ENOENT: it is in none of them.
 */
int helper_find(const char *name, const char *variable, char *ret, size_t size);

/* The directory of the file that contains this code: the shared library, or a program that it is linked into. */
int helper_directory(char *ret, size_t size);

#endif
