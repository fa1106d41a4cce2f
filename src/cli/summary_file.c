/* SPDX-License-Identifier: MIT */
#include "cli/summary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/named_file.h"
#include "cli/say.h"

bool summary_file_is_standard(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

int summary_file_open(const char *path, struct summary_file *ret)
{
	struct gd_error err = {0};
	struct stat st;
	*ret = SUMMARY_FILE_NONE;
	ret->path = path;
	if (!path)
		return 0;
	if (summary_file_is_standard(path)) {
		ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return ret->fd < 0 ? -errno : 0;
	}
	ret->created = stat(path, &st) < 0;
	mode_t mask = umask(077);
	int r = named_file_open(path, &ret->fd, &err);
	umask(mask);
	if (r < 0)
		say("--json '%s': %s", path, err.message);
	return r;
}

static bool is_private(const char *results)
{
	struct stat st;
	return results && stat(results, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) &&
	       !(st.st_mode & 077);
}

static int set_mode(int fd)
{
	mode_t mask = umask(0);
	umask(mask);
	return fchmod(fd, 0644 & ~mask) < 0 ? -errno : 0;
}

int summary_file_write(const struct summary_file *s, const char *results, bool private, const struct text *json)
{
	struct stat st;
	bool standard = summary_file_is_standard(s->path);
	int r = text_error(json);
	if (standard)
		fflush(stdout);
	else if (r == 0 && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(s->fd, 0) < 0)
		r = -errno;
	if (r == 0)
		r = file_write_all(s->fd, json->data, json->length);
	if (r == 0 && s->created && !private && !is_private(results))
		r = set_mode(s->fd);
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
