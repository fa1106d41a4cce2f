/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock.h"
#include "queue/journal/journal.h"
#include "queue/runner/runner_rules.h"

int runner_lock_take(
	const struct journal *j, const struct machine *here, int *ret_fd, pid_t *ret_holder, struct gd_error *err)
{
	int fd = openat(j->dir_fd, "runner.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(err, -errno, "cannot open '%s/runner.lock': %s", j->dir_path, error_words(errno));
	for (;;) {
		int e = lock_try(fd);
		if (e == 0)
			break;
		if (e == -EAGAIN && lock_holder(fd, ret_holder) == 0 && *ret_holder == 0)
			continue; /* the holder has just exited */
		close(fd);
		return e == -EAGAIN ? -EBUSY : journal_lock_words(j, e, err);
	}
	/* Information for users; the lock works without it. */
	(void)runner_rules_write(fd, here, NULL);
	*ret_fd = fd;
	return 0;
}
