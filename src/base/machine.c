/* SPDX-License-Identifier: MIT */
#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

int machine_get(struct machine *ret)
{
	struct machine m = {0};
	if (gethostname(m.host, sizeof(m.host) - 1) < 0)
		return -errno;
	char boot[64];
	int r = file_read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	/* Without /proc, no process knows the boot id. Other errors are temporary, and all processes must use the same
	 * id. */
	if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -EACCES && r != -EPERM)
		return r;
	snprintf(m.boot, sizeof(m.boot), "%.36s", r < 0 ? "unknown" : boot);
	ssize_t n = readlink("/proc/self/ns/pid", m.pidns, sizeof(m.pidns) - 1);
	if (n < 0)
		return -errno;
	/* "pid:[4026531836]": the number alone. */
	size_t digits = strcspn(m.pidns, "0123456789");
	memmove(m.pidns, m.pidns + digits, strlen(m.pidns + digits) + 1);
	m.pidns[strspn(m.pidns, "0123456789")] = '\0';
	*ret = m;
	return 0;
}
