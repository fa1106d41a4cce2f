/* SPDX-License-Identifier: MIT */
#include "queue/keeper/syncer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

_Noreturn void syncer_main(int parent_fd, const char *name, int fd)
{
	char bytes[64];
	ssize_t n;
	prctl(PR_SET_NAME, "gpuq-syncer");
	do {
		n = read(fd, bytes, sizeof(bytes));
		/* Opened each time: prune puts a new file in the journal's place. */
		cleanup_(closep) int journal =
			openat(parent_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
		if (journal >= 0)
			(void)fdatasync(journal);
	} while (n > 0 || (n < 0 && errno == EINTR));
	_exit(0);
}

int syncer_request(int fd)
{
	return send(fd, "s", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN ? -errno : 0;
}
