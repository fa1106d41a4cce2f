/* SPDX-License-Identifier: MIT */
/* The file of --json FILE, for the summary of a run; "-" is standard output. */
#ifndef CLI_SUMMARY_FILE_H
#define CLI_SUMMARY_FILE_H

#include <stdbool.h>

#include "base/named_file.h"
#include "base/text.h"

/* path may be NULL. */
bool summary_file_is_standard(const char *path);

/* Start from SUMMARY_FILE_NONE. */
struct summary_file {
	const char *path; /* NULL: none */
	int fd;
	enum named_file_origin origin;
};

#define SUMMARY_FILE_NONE ((struct summary_file){.fd = -1})

/*
 * Called before the run starts, because a file that cannot be written is a usage error, and after all other checks,
 * because the file is created. Old contents stay until summary_file_write(). Prints the reason if it fails.
 */
int summary_file_open(const char *path, struct summary_file *ret);
/* Whether it is also the file at this path, which the summary would replace. */
bool summary_file_is(const struct summary_file *s, const char *path);
/*
 * Replaces the contents of a regular file that summary_file_open() has opened; otherwise appends, on standard output
 * after earlier output. Prints the reason if it fails. A new file is private, because error messages can quote the
 * input. A file that another user may have moved there is replaced with a new one: others may be able to read it, and
 * it may be any file of this user.
 */
int summary_file_write(struct summary_file *s, const struct text *json);
void summary_file_close(struct summary_file *s);

#endif
