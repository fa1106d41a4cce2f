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

int summary_file_open(const char *path, int *ret)
{
	struct gd_error err = {0};
	*ret = -1;
	if (!path)
		return 0;
	if (summary_file_is_standard(path)) {
		*ret = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? -errno : 0;
	}
	int r = named_file_open(path, ret, &err);
	if (r < 0)
		say("--json '%s': %s", path, err.message);
	return r;
}

int summary_file_write(const char *path, int fd, const struct text *json)
{
	struct stat st;
	bool standard = summary_file_is_standard(path);
	int r = text_error(json);
	if (standard)
		fflush(stdout);
	else if (r == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0)
		r = -errno;
	if (r == 0)
		r = file_write_all(fd, json->data, json->length);
	if (r < 0)
		say("cannot write the summary to %s%s%s: %s", standard ? "" : "'", standard ? "standard output" : path,
			standard ? "" : "'", error_words(r));
	return r;
}
