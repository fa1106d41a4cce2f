/* SPDX-License-Identifier: MIT */
#include "queue/keeper/known_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"

/* A path that others can change is opened again: a link of another user must not lead to the directory either. */
static bool leads_there(const struct known_directory *d)
{
	struct stat st;
	cleanup_(closep) int fd = -1;
	if (d->replaceable && trust_open_directory(d->path, false, &fd, NULL) < 0)
		return false;
	int r = d->replaceable ? fstat(fd, &st) : lstat(d->path, &st);
	return r == 0 && st.st_dev == d->dev && st.st_ino == d->ino;
}

int known_directory_find(const struct known_directory *d, const char *path)
{
	return d->path && strcmp(d->path, path) == 0 && leads_there(d) ? d->fd : -1;
}

void known_directory_keep(struct known_directory *d, const char *path, int fd)
{
	struct stat st;
	cleanup_(closep) int again = -1;
	char *copy = strdup(path);
	int kept = copy && fstat(fd, &st) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (kept < 0) {
		free(copy);
		return;
	}
	if (d->path)
		close(d->fd);
	free(d->path);
	*d = (struct known_directory){.path = copy,
		.fd = kept,
		.dev = st.st_dev,
		.ino = st.st_ino,
		.replaceable = trust_open_directory(path, true, &again, NULL) < 0};
}
