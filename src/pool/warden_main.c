/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd_message.h"
#include "base/file.h"
#include "base/process.h"
#include "pool/warden_private.h"

#define RUNNABLE_NS (NS_PER_S / 10) /* until the next check of a killed process that lacks CPU time */

/* ---- The kernel's count of OOM kills ------------------------------------ */

/* How many processes were killed since boot because memory ran out; 0 if the kernel does not report it. */
static uint64_t oom_kills(void)
{
	char buf[16384];
	int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = file_read_full(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	const char *line = strstr(buf, "\noom_kill ");
	uint64_t count = 0;
	for (const char *p = line ? line + strlen("\noom_kill ") : ""; *p >= '0' && *p <= '9'; p++)
		count = count * 10 + (uint64_t)(*p - '0');
	return count;
}

/* ---- Reports ------------------------------------------------------------ */

/* An owner in a long callback does not read: then the report waits in its ward. */
static void send_report(struct warden_process *w, struct ward *ward)
{
	ssize_t n;
	do {
		n = send(w->socket, &ward->report, sizeof(ward->report), MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	ward->report_due = n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM);
}

static bool send_due_reports(struct warden_process *w)
{
	bool due = false;
	for (size_t i = 0; i < w->plan->num_slots; i++) {
		if (w->wards[i].report_due)
			send_report(w, &w->wards[i]);
		due |= w->wards[i].report_due;
	}
	return due;
}

static void report(struct warden_process *w, struct ward *ward, enum warden_report_kind kind, int status, int error)
{
	ward->report = (struct warden_report){
		.kind = kind,
		.slot = (uint32_t)(ward - w->wards),
		.life = ward->life,
		.pid = ward->pid,
		.status = status,
		.error = error,
		.flags = ward->flags,
	};
	send_report(w, ward);
}

/* ---- Starting and ending workers ---------------------------------------- */

void ward_kill(struct warden_process *w, struct ward *ward, unsigned reason, uint64_t now)
{
	ward->flags |= reason;
	kill(-ward->pid, SIGKILL);
	kill(ward->pid, SIGKILL); /* in case it is not yet, or no longer, in its group */
	if (!ward->kill_deadline)
		ward->kill_deadline = now + w->plan->kill_wait_ns;
}

void ward_interrupt(const struct ward *ward)
{
	syscall(SYS_tgkill, ward->pid, ward->pid, SIGURG); /* the id of the first thread is the PID */
}

static void start(struct warden_process *w, struct ward *ward, uint64_t life, const int fds[WARDEN_ORDER_FDS])
{
	size_t slot = (size_t)(ward - w->wards);
	*ward = (struct ward){.life = life};
	int r = channel_map(&ward->channel, fds[0], fds[1], true);
	if (r < 0) {
		report(w, ward, WARDEN_REPORT_NOT_STARTED, 0, r);
		return;
	}
	atomic_store(&w->shared->notes[slot].exec_error, 0);
	ward->oom_kills = oom_kills();
	uint64_t now = clock_now_ns();
	/* If the program may have had threads, their fork handlers must not run, because they could wait forever. */
	pid_t pid = w->plan->argv ? _Fork() : fork();
	if (pid == 0)
		worker_enter(w, slot, fds);
	if (pid < 0) {
		r = -errno;
		channel_unmap(&ward->channel);
		report(w, ward, WARDEN_REPORT_NOT_STARTED, 0, r);
		return;
	}
	setpgid(pid, pid); /* parent and child both do it, so that it is done in time */
	ward->pid = pid;
	ward->looked = now;
	if (w->plan->setup_timeout_ns)
		ward->phase_deadline = now + w->plan->setup_timeout_ns;
	report(w, ward, WARDEN_REPORT_STARTED, 0, 0);
}

static void ended(struct warden_process *w, struct ward *ward, int status)
{
	size_t slot = (size_t)(ward - w->wards);
	int error = atomic_load(&w->shared->notes[slot].exec_error);
	if (error)
		ward->flags |= WARDEN_END_NOT_EXECUTED;
	bool ours = ward->kill_deadline != 0;
	if (!ours && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && oom_kills() > ward->oom_kills)
		ward->flags |= WARDEN_END_OUT_OF_MEMORY;
	if (!ours)
		ward->flags &= ~(unsigned)(WARDEN_END_TASK_TIMEOUT | WARDEN_END_CANCELLED);
	if (atomic_load(&ward->channel.in->ready))
		ward->flags &= ~(unsigned)WARDEN_END_SETUP_TIMEOUT; /* the setup was done after all */
	channel_unmap(&ward->channel);
	/* Replaces a WARDEN_REPORT_STARTED that is still due: this report names the process, too. */
	report(w, ward, WARDEN_REPORT_ENDED, status, error);
	ward->pid = 0;
}

static struct ward *ward_of(struct warden_process *w, pid_t pid)
{
	for (size_t i = 0; i < w->plan->num_slots; i++)
		if (w->wards[i].pid == pid)
			return &w->wards[i];
	return NULL;
}

/*
 * Reaps ended children. A worker's group is killed before the worker is reaped: until then, its PID cannot be reused.
 */
static bool reap(struct warden_process *w)
{
	bool any = false;
	for (;;) {
		siginfo_t info = {0};
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return any;
		any = true;
		pid_t pid = info.si_pid;
		struct ward *ward = ward_of(w, pid);
		if (ward)
			kill(-pid, SIGKILL);
		int status = 0;
		if (waitpid(pid, &status, 0) == pid && ward)
			ended(w, ward, status);
	}
}

/* Kills the warden's children that are not workers: orphans of dead workers. True if there were any. */
static bool sweep(struct warden_process *w)
{
	char buf[4096];
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool any = false;
	pid_t pid = 0;
	ssize_t n;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
				continue;
			}
			if (pid > 0 && !ward_of(w, pid)) {
				kill(pid, SIGKILL);
				any = true;
			}
			pid = 0;
		}
	}
	close(fd);
	return any;
}

/* Whether the process is runnable and only lacks CPU time, for example to end after SIGKILL. */
static bool is_runnable(pid_t pid)
{
	struct process_info info;
	return process_info(pid, &info) == 0 && info.state == 'R';
}

/* A process that SIGKILL does not end is stuck in the kernel: report that and leave it. */
static void give_up(struct warden_process *w, uint64_t now)
{
	for (size_t i = 0; i < w->plan->num_slots; i++) {
		struct ward *ward = &w->wards[i];
		if (!ward->pid || !ward->kill_deadline || now < ward->kill_deadline)
			continue;
		if (is_runnable(ward->pid)) {
			ward->kill_deadline = now + RUNNABLE_NS;
			continue;
		}
		ward->flags |= WARDEN_END_STUCK;
		ended(w, ward, 0);
	}
}

/* ---- Orders ------------------------------------------------------------- */

static void obey(struct warden_process *w, const struct warden_order *order, const int *fds, size_t num_fds)
{
	uint64_t now = clock_now_ns();
	if (order->kind == WARDEN_ORDER_END) {
		w->ending = true;
		w->end_deadline = now + w->plan->kill_wait_ns;
		for (size_t i = 0; i < w->plan->num_slots; i++)
			if (w->wards[i].pid)
				ward_kill(w, &w->wards[i], WARDEN_END_ORDERED, now);
		return;
	}
	if (order->slot >= w->plan->num_slots)
		return;
	struct ward *ward = &w->wards[order->slot];
	if (order->kind == WARDEN_ORDER_START && num_fds == WARDEN_ORDER_FDS && !ward->pid) {
		start(w, ward, order->life, fds);
		return;
	}
	if (!ward->pid || ward->life != order->life)
		return; /* the worker has ended meanwhile */
	if (order->kind == WARDEN_ORDER_KILL)
		ward_kill(w, ward, WARDEN_END_ORDERED, now);
	if (order->kind == WARDEN_ORDER_END_SETUP)
		ward->setup_end = earlier(ward->setup_end, now + w->plan->grace_ns);
	if (order->kind == WARDEN_ORDER_CLOSE) {
		ward->closing = true;
		ward->setup_end = 0;
		ward->phase_deadline = w->plan->cleanup_timeout_ns ? now + w->plan->cleanup_timeout_ns : 0;
	}
}

/* False when the owner has closed its end. */
static bool read_orders(struct warden_process *w)
{
	for (;;) {
		struct warden_order order;
		cleanup_(fd_message_close) struct fd_message message = {0};
		ssize_t n = fd_message_receive(w->socket, &order, sizeof(order), MSG_DONTWAIT, &message);
		if (n <= 0)
			return n == -EAGAIN;
		if (n != sizeof(order))
			continue;
		if (order.kind == WARDEN_ORDER_START && message.num_fds < WARDEN_ORDER_FDS &&
			order.slot < w->plan->num_slots) {
			w->wards[order.slot] = (struct ward){.life = order.life};
			report(w, &w->wards[order.slot], WARDEN_REPORT_NOT_STARTED, 0, -EMFILE);
		} else {
			obey(w, &order, message.fds, message.num_fds);
		}
	}
}

/* ---- The loop ----------------------------------------------------------- */

#define PARENT_LOOK_NS NS_PER_S

/*
 * Whether the owner has ended. Its pidfd shows this at once. Without a pidfd (see pidref.h), the end of the socket
 * shows it; if a child of the owner holds the socket open, the PID of our parent does, which is checked once in
 * PARENT_LOOK_NS.
 */
static bool owner_ended(const struct warden_process *w, const struct pollfd *end)
{
	return end->revents != 0 || (pidref_is_set(&w->parent) && getppid() != w->parent.pid);
}

static bool wards_left(const struct warden_process *w)
{
	for (size_t i = 0; i < w->plan->num_slots; i++)
		if (w->wards[i].pid)
			return true;
	return false;
}

/* A worker was given tasks after the last check. */
static bool new_tasks(const struct warden_process *w)
{
	for (size_t i = 0; i < w->plan->num_slots; i++) {
		const struct ward *ward = &w->wards[i];
		if (ward->pid && !ward->kill_deadline && atomic_load(&ward->channel.in->head) > ward->seen_head)
			return true;
	}
	return false;
}

/* Sleeps until a deadline or an event. A task with a time limit is an event: the owner wakes us for it. */
static void wait_for_events(struct warden_process *w, struct pollfd *fds, size_t num_fds, uint64_t deadline)
{
	uint64_t now = clock_now_ns();
	if (w->parent.fd < 0 && pidref_is_set(&w->parent) && (deadline == 0 || deadline > now + PARENT_LOOK_NS))
		deadline = now + PARENT_LOOK_NS;
	int timeout_ms = deadline ? clock_ms_until(deadline, now) : -1;
	atomic_store(&w->shared->asleep, 1);
	if (new_tasks(w))
		timeout_ms = 0;
	/* Errors leave revents 0: the loop repeats. */
	if (poll(fds, num_fds, timeout_ms) < 0)
		for (size_t i = 0; i < num_fds; i++)
			fds[i].revents = 0;
	atomic_store(&w->shared->asleep, 0);
}

static void drain(int fd)
{
	char buf[1024];
	ssize_t n;
	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && errno == EINTR));
}

/* True when the warden was asked to end, or its owner is gone, and nothing is left to do or its time is over. */
static bool finished(struct warden_process *w, uint64_t now)
{
	if (!w->ending)
		return false;
	bool orphans = sweep(w);
	return (!wards_left(w) && !orphans) || now >= w->end_deadline + NS_PER_S / 10;
}

void warden_main(struct warden_process *w)
{
	bool due = false;
	uint64_t deadline = 0;
	bool orphans = false;
	for (;;) {
		struct pollfd fds[] = {
			{.fd = w->socket, .events = (short)(POLLIN | (due ? POLLOUT : 0))},
			{.fd = w->parent.fd, .events = POLLIN},
			{.fd = w->signal_fd, .events = POLLIN},
			{.fd = w->wake_fd, .events = POLLIN},
		};
		wait_for_events(w, fds, w->ending ? 3 : 4, deadline);
		drain(w->signal_fd);
		drain(w->wake_fd);
		bool parent_gone = owner_ended(w, &fds[1]) || !read_orders(w);
		if (parent_gone && !w->ending)
			obey(w, &(struct warden_order){.kind = WARDEN_ORDER_END}, NULL, 0);
		if (reap(w) || orphans)
			orphans = sweep(w);
		uint64_t now = clock_now_ns();
		deadline = deadlines_check(w, now);
		uint64_t sample_at = memory_check(w, now);
		if (sample_at && (deadline == 0 || sample_at < deadline))
			deadline = sample_at;
		give_up(w, now);
		due = send_due_reports(w);
		if (finished(w, now) && (parent_gone || !due))
			_exit(0);
		if (w->ending && (deadline == 0 || deadline > now + 10 * NS_PER_MS))
			deadline = now + 10 * NS_PER_MS;
		if (w->ending && parent_gone) {
			w->socket = -1; /* its end of file would make poll() return at once */
			w->parent = PIDREF_NONE;
		}
	}
}
