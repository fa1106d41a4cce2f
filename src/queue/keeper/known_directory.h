/* SPDX-License-Identifier: MIT */
/*
 * A directory that was opened with all checks (base/trust.h) and is kept open, so that the next attempt with the same
 * path need not check every part of the path again. The descriptor is reused only if the path still leads to the same
 * directory, so a changed path cannot lead to another directory.
 */
#ifndef QUEUE_KEEPER_KNOWN_DIRECTORY_H
#define QUEUE_KEEPER_KNOWN_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

struct known_directory {
	char *path; /* NULL: none */
	int fd;
	dev_t dev;
	ino_t ino;
	bool replaceable; /* other users can make the path lead elsewhere */
};

/* The descriptor, still owned by d; -1: the path is not known, or leads elsewhere now. */
int known_directory_find(const struct known_directory *d, const char *path);
/* Keeps a copy of the descriptor. Best effort. */
void known_directory_keep(struct known_directory *d, const char *path, int fd);

#endif
