/* SPDX-License-Identifier: MIT */
/* Programs that are executed as workers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sized.h"
#include "pool/channel.h"
#include "pool/worker.h"

/* True if a dispatcher of this version has started the program; otherwise sets the reason. */
static bool is_started_by_dispatcher(void)
{
	const char *protocol = getenv(WORKER_ENV);
	if (!protocol)
		fprintf(stderr,
			"%s: this program is a worker of gpu_dispatch; it is started by a dispatcher "
			"(worker_argv of struct gd_options), not by hand\n",
			program_invocation_short_name);
	else if (strcmp(protocol, WORKER_PROTOCOL) != 0)
		fprintf(stderr,
			"%s: this worker was built with another version of gpu_dispatch than the program that started it "
			"(worker protocol %s, not %s): build both with the same version\n",
			program_invocation_short_name, WORKER_PROTOCOL, protocol);
	return protocol && strcmp(protocol, WORKER_PROTOCOL) == 0;
}

int gd_worker_main(const struct gd_worker_ops *ops)
{
	if (!is_started_by_dispatcher())
		return 2;
	channel_note_entry(WORKER_FIRST_FD + 1);
	unsetenv(WORKER_ENV);
	struct gd_worker_ops copy;
	struct gd_error err;
	if (sized_read(&copy, sizeof(copy), ops, "gd_worker_ops", &err) < 0) {
		fprintf(stderr, "%s: gd_worker_main(): %s\n", program_invocation_short_name, err.message);
		return 2;
	}
	if (!copy.process == !copy.process_batch) {
		fprintf(stderr, "%s: gd_worker_main() needs ops with either process or process_batch\n",
			program_invocation_short_name);
		return 2;
	}
	const struct worker_fds fds = {
		.inbox = WORKER_FIRST_FD,
		.outbox = WORKER_FIRST_FD + 1,
		.socket = WORKER_FIRST_FD + 2,
		.event = WORKER_FIRST_FD + 3,
		.settings = WORKER_FIRST_FD + 4,
	};
	for (int fd = WORKER_FIRST_FD; fd < WORKER_FIRST_FD + WORKER_FDS; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 1;
	int status = worker_run(&copy, &fds);
	_exit(status);
}
