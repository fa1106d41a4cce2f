/* SPDX-License-Identifier: MIT */
/*
 * Local variables that are released at the end of their scope: cleanup_(closep) int fd = …; take_fd(&fd) transfers
 * ownership, so the descriptor is not closed.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup_(f) __attribute__((cleanup(f)))

/* Keeps errno, because cleanup runs between a failing call and the code that reads its errno. */
static inline void closep(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
}

static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* For a variable that stays in use: closes the descriptor, if any, and sets it to -1. */
static inline void close_fd(int *fd)
{
	closep(fd);
	*fd = -1;
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define take_ptr(p)                                                                                                    \
	__extension__({                                                                                                \
		__typeof__(p) taken_ = (p);                                                                            \
		(p) = NULL;                                                                                            \
		taken_;                                                                                                \
	})

#endif
