/* SPDX-License-Identifier: MIT */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check.h"
#include "support/wait.h"

bool cgroup_create(const char *controller, struct cgroup *ret)
{
	snprintf(ret->path, sizeof(ret->path), "/sys/fs/cgroup/%s/gd-test-%d", controller, (int)getpid());
	if (mkdir(ret->path, 0755) == 0 || errno == EEXIST)
		return true;
	print_message("skipped: cannot create control group '%s': %s\n", ret->path, strerror(errno));
	return false;
}

bool cgroup_write(const struct cgroup *c, const char *file, const char *value)
{
	char path[192];
	snprintf(path, sizeof(path), "%s/%s", c->path, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool written = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return written;
}

static bool reads(const struct cgroup *c, const char *file, const char *value)
{
	char path[192], text[64] = "";
	snprintf(path, sizeof(path), "%s/%s", c->path, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && strncmp(text, value, strlen(value)) == 0;
}

bool cgroup_settle(const struct cgroup *c, const char *file, const char *value)
{
	for (int ms = 0; ms < WAIT_MS; ms++) {
		if (!cgroup_write(c, file, value))
			return false;
		if (reads(c, file, value))
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

bool cgroup_add(const struct cgroup *c, pid_t pid)
{
	char text[32];
	snprintf(text, sizeof(text), "%d", (int)pid);
	return cgroup_write(c, "cgroup.procs", text);
}

void cgroup_remove(const struct cgroup *c)
{
	/* EBUSY until the last dead process is reaped. */
	for (int ms = 0; rmdir(c->path) < 0 && errno == EBUSY && ms < WAIT_MS; ms++)
		poll(NULL, 0, 1);
}
