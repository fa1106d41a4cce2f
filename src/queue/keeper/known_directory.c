/* SPDX-License-Identifier: MIT */
#include "queue/keeper/known_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int known_directory_find(const struct known_directory *d, const char *path)
{
	struct stat st;
	if (!d->path || strcmp(d->path, path) != 0 || stat(path, &st) < 0 || st.st_dev != d->dev || st.st_ino != d->ino)
		return -1;
	return d->fd;
}

void known_directory_keep(struct known_directory *d, const char *path, int fd)
{
	struct stat st;
	char *copy = strdup(path);
	int kept = copy && fstat(fd, &st) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (kept < 0) {
		free(copy);
		return;
	}
	if (d->path)
		close(d->fd);
	free(d->path);
	*d = (struct known_directory){.path = copy, .fd = kept, .dev = st.st_dev, .ino = st.st_ino};
}
