/* SPDX-License-Identifier: MIT */
/* The file of --json FILE, for the summary of a run; "-" is standard output. */
#ifndef CLI_SUMMARY_FILE_H
#define CLI_SUMMARY_FILE_H

#include <stdbool.h>

#include "base/text.h"

/* path may be NULL. */
bool summary_file_is_standard(const char *path);

/*
 * Called before the run starts, because a file that cannot be written is a usage error, and after all other checks,
 * because the file is created. Old contents stay until summary_file_write(). Prints the reason if it fails. path NULL:
 * *ret is -1.
 */
int summary_file_open(const char *path, int *ret);
/* Replaces the contents of a regular file; otherwise appends, on standard output after earlier output. Prints the
 * reason if it fails. */
int summary_file_write(const char *path, int fd, const struct text *json);

#endif
