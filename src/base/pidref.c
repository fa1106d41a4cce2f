/* SPDX-License-Identifier: MIT */
#include "base/pidref.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

int pidref_open(pid_t pid, struct pidref *ret)
{
	int fd = file_above_stdio((int)syscall(SYS_pidfd_open, pid, 0));
	if (fd < 0)
		return fd;
	*ret = (struct pidref){.pid = pid, .fd = fd};
	return 0;
}

void pidref_close(struct pidref *p)
{
	closep(&p->fd);
	*p = PIDREF_NONE;
}

int pidref_signal(const struct pidref *p, int signal)
{
	if (!pidref_is_set(p))
		return -ESRCH;
	int r = p->fd < 0 ? kill(p->pid, signal) : (int)syscall(SYS_pidfd_send_signal, p->fd, signal, NULL, 0);
	return r < 0 ? -errno : 0;
}

int pidref_queue(const struct pidref *p, int signal, union sigval value)
{
	siginfo_t info = {0};
	info.si_signo = signal;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value = value;
	return syscall(SYS_pidfd_send_signal, p->fd, signal, &info, 0) < 0 ? -errno : 0;
}

bool pidref_wait(const struct pidref *p, uint64_t deadline_ns)
{
	struct pollfd end = {.fd = p->fd, .events = POLLIN};
	int r;
	if (p->fd < 0)
		return false;
	do
		r = poll(&end, 1, clock_ms_until(deadline_ns, clock_now_ns()));
	while (r < 0 && errno == EINTR);
	return r > 0;
}
