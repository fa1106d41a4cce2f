/* SPDX-License-Identifier: MIT */
#include "queue/keeper/syncer.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "queue/journal/journal.h"

_Noreturn void syncer_main(int parent_fd, const char *name, int fd)
{
	char bytes[64];
	ssize_t n;
	prctl(PR_SET_NAME, "gpuq-syncer");
	do {
		n = read(fd, bytes, sizeof(bytes));
		/* Opened each time: prune replaces the journal file. */
		int r = journal_sync_at(parent_fd, name);
		struct syncer_answer a = {.requests = n > 0 ? (uint32_t)n : 0, .result = r};
		if (n > 0)
			(void)send(fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n > 0 || (n < 0 && errno == EINTR));
	_exit(0);
}

int syncer_request(int fd)
{
	return send(fd, "s", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN ? -errno : 0;
}
