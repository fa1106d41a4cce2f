/* SPDX-License-Identifier: MIT */
#include "cli/summary_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/named_file.h"
#include "base/trust.h"
#include "cli/say.h"

bool summary_file_is_standard(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

int summary_file_open(const char *path, struct summary_file *ret)
{
	struct gd_error err = {0};
	*ret = SUMMARY_FILE_NONE;
	ret->path = path;
	if (!path)
		return 0;
	int r = named_file_open(summary_file_is_standard(path) ? "/dev/stdout" : path, &ret->fd, &ret->origin, &err);
	if (r < 0)
		say("--json '%s': %s", path, err.message);
	return r;
}

bool summary_file_is(const struct summary_file *s, const char *path)
{
	struct stat own, st;
	return s->fd >= 0 && s->origin != NAMED_FILE_PASSED && fstat(s->fd, &own) == 0 && S_ISREG(own.st_mode) &&
	       stat(path, &st) == 0 && st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

static int replace(const struct summary_file *s, const struct text *json)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	struct stat st;
	if (fstat(s->fd, &st) == 0 && st.st_mode & 077)
		say("warning: '%s' is replaced with a private file: another user may have moved the old one there",
			s->path);
	int r = trust_open_parent_stable(s->path, &dir_fd, &name, NULL);
	return r < 0 ? r : named_file_replace(dir_fd, name, -1, json);
}

/* Empties a regular file that this program has opened, and writes to it. */
static int write_open(struct summary_file *s, const struct text *json)
{
	struct stat st;
	if (s->origin == NAMED_FILE_PASSED)
		fflush(stdout);
	else if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(s->fd, 0) < 0)
		return -errno;
	return file_write_all(s->fd, json->data, json->length);
}

int summary_file_write(struct summary_file *s, const struct text *json)
{
	bool standard = summary_file_is_standard(s->path);
	int r = text_error(json);
	if (r == 0)
		r = s->origin == NAMED_FILE_MOVABLE ? replace(s, json) : write_open(s, json);
	if (r < 0)
		say("cannot write the summary to %s%s%s: %s", standard ? "" : "'",
			standard ? "standard output" : s->path, standard ? "" : "'", error_words(r));
	return r;
}

void summary_file_close(struct summary_file *s)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = SUMMARY_FILE_NONE;
}
