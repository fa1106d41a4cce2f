/* SPDX-License-Identifier: MIT */
#include "base/pidref.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

#define LOOK_MS 10 /* how often to look for the end of a process without a descriptor */

int pidref_open(pid_t pid, struct pidref *ret)
{
	int fd = file_above_stdio((int)syscall(SYS_pidfd_open, pid, 0));
	/* EPERM comes from sandboxes; the call itself never returns it. */
	bool missing = fd == -ENOSYS || fd == -EPERM;
	if (fd < 0 && !missing)
		return fd;
	if (missing && kill(pid, 0) < 0 && errno == ESRCH)
		return -ESRCH;
	if (missing)
		fd = -1;
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
	if (p->fd >= 0 && syscall(SYS_pidfd_send_signal, p->fd, signal, NULL, 0) == 0)
		return 0;
	if (p->fd >= 0 && errno != ENOSYS)
		return -errno;
	return kill(p->pid, signal) < 0 ? -errno : 0;
}

int pidref_queue(const struct pidref *p, int signal, union sigval value)
{
	siginfo_t info = {0};
	info.si_signo = signal;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value = value;
	if (p->fd >= 0 && syscall(SYS_pidfd_send_signal, p->fd, signal, &info, 0) == 0)
		return 0;
	if (p->fd >= 0 && errno != ENOSYS)
		return -errno;
	return sigqueue(p->pid, signal, value) < 0 ? -errno : 0;
}

/*
 * Without a descriptor, by PID: this may be a child that has not been waited for, a zombie of another process, or no
 * process.
 */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
		return info.si_pid == pid;
	struct process_info i;
	int r = process_info(pid, &i);
	return r < 0 ? kill(pid, 0) < 0 && errno == ESRCH : i.state == 'Z' || i.state == 'X';
}

int pidref_poll(const struct pidref *p, struct pollfd *fds, size_t num_fds, struct pollfd *end, int timeout_ms)
{
	if (p->fd >= 0 || !pidref_is_set(p))
		return poll(fds, num_fds, timeout_ms);
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	for (;;) {
		uint64_t now = clock_now_ns();
		bool ended = has_ended(p->pid);
		int left_ms = deadline == UINT64_MAX ? LOOK_MS : clock_ms_until(deadline, now);
		int n = poll(fds, num_fds, ended ? 0 : left_ms < LOOK_MS ? left_ms : LOOK_MS);
		if (n >= 0 && ended) {
			end->revents = POLLIN;
			return n + 1;
		}
		if (n != 0 || now >= deadline)
			return n;
	}
}

bool pidref_wait(const struct pidref *p, uint64_t deadline_ns)
{
	struct pollfd end = {.fd = p->fd, .events = POLLIN};
	int r;
	if (!pidref_is_set(p))
		return false;
	do
		r = pidref_poll(p, &end, 1, &end, clock_ms_until(deadline_ns, clock_now_ns()));
	while (r < 0 && errno == EINTR);
	return r > 0;
}
