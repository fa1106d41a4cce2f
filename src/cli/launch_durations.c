/* SPDX-License-Identifier: MIT */
#include "cli/launch_durations.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/launch_audio.h"

/* Limits for one file, because other users may have written it. */
#define LIMIT_MS    5000
#define CPU_SECONDS 2
/* After this many files that exceed a limit, in a row or in total, no more files are read. */
#define MOST_SLOW_IN_A_ROW 3
#define MOST_SLOW          20

extern char **environ;

/* Between two processes of the same program. A request is a path without its NUL: one packet. */
struct answer {
	int64_t code; /* 0 or a negative errno value */
	double seconds;
};

/* ---- The reading process ------------------------------------------------- */

/* Limits this process; launch_ffprobe.c limits ffprobe. */
static void limit_cpu_time(void)
{
	struct rlimit limit;
	struct rusage used;
	if (getrlimit(RLIMIT_CPU, &limit) < 0 || getrusage(RUSAGE_SELF, &used) < 0)
		return;
	rlim_t soft = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 + CPU_SECONDS;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	(void)setrlimit(RLIMIT_CPU, &limit);
}

int launch_durations_main(void)
{
	const struct rlimit none = {0, 0};
	(void)setrlimit(RLIMIT_CORE, &none); /* crashes here are expected */
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		char path[PATH_MAX];
		ssize_t n = recv(STDIN_FILENO, path, sizeof(path) - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0; /* the launcher is gone */
		path[n] = '\0';
		struct answer answer = {0};
		limit_cpu_time();
		answer.code = launch_audio_seconds(NULL, path, &answer.seconds);
		if (send(STDIN_FILENO, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
			return 1;
	}
}

/* ---- The launcher's side ------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	int socket; /* -1: no process */
	pid_t pid;
	unsigned slow, slow_in_a_row; /* files */
} reader = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

/* Used without the lock. */
static atomic_bool cancelled, given_up;
static atomic_int cancel_fd = -1; /* an eventfd; readable: cancelled */

static int spawn(int theirs, pid_t *ret)
{
	char *const argv[] = {(char *)"gpuq-launch", (char *)LAUNCH_DURATIONS_ARGUMENT, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, empty;
	sigfillset(&all);
	sigemptyset(&empty);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attributes) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	/* In its own process group: Ctrl-C does not reach it, and processes that it starts are killed with it. */
	int r = posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	r = r ? r : posix_spawnattr_setsigdefault(&attributes, &all);
	r = r ? r : posix_spawnattr_setsigmask(&attributes, &empty);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = r ? r : posix_spawn(ret, "/proc/self/exe", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* Call with the lock held. */
static int start(void)
{
	int fds[2];
	if (cancel_fd < 0)
		cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cancel_fd < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	cleanup_(closep) int ours = fds[0], theirs = fds[1];
	int r = spawn(theirs, &reader.pid);
	if (r == 0)
		reader.socket = take_fd(&ours);
	return r;
}

/* Call with the lock held. Returns whether the process had used up its CPU time. */
static bool stop(void)
{
	int status = 0;
	kill(-reader.pid, SIGKILL);
	while (waitpid(reader.pid, &status, 0) < 0 && errno == EINTR)
		;
	close_fd(&reader.socket);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU;
}

/* 0 with the answer; -EIO: the process has ended; -ETIMEDOUT; -ECANCELED. */
static int await_answer(struct answer *ret)
{
	uint64_t deadline_ns = clock_now_ns() + (uint64_t)LIMIT_MS * NS_PER_MS;
	for (;;) {
		struct pollfd p[] = {{.fd = reader.socket, .events = POLLIN}, {.fd = cancel_fd, .events = POLLIN}};
		int n = poll(p, 2, clock_ms_until(deadline_ns, clock_now_ns()));
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (cancelled)
			return -ECANCELED;
		if (n > 0)
			return recv(reader.socket, ret, sizeof(*ret), 0) == sizeof(*ret) ? 0 : -EIO;
	}
}

/* Call with the lock held. */
static int ask(const char *path, double *ret)
{
	size_t size = strlen(path);
	struct answer answer;
	int r = reader.socket < 0 ? start() : 0;
	if (r < 0 || size >= PATH_MAX)
		return r < 0 ? r : -ENAMETOOLONG;
	r = send(reader.socket, path, size, MSG_NOSIGNAL) == (ssize_t)size ? await_answer(&answer) : -EIO;
	if (r < 0)
		return stop() ? -ETIMEDOUT : r;
	if (answer.code == 0)
		*ret = answer.seconds;
	return (int)answer.code;
}

/* Call with the lock held. */
static void count_slow(bool slow)
{
	reader.slow += slow;
	reader.slow_in_a_row = slow ? reader.slow_in_a_row + 1 : 0;
	if (reader.slow_in_a_row >= MOST_SLOW_IN_A_ROW || reader.slow >= MOST_SLOW)
		given_up = true;
}

int launch_durations_read(void *context, const char *path, double *ret)
{
	(void)context;
	pthread_mutex_lock(&reader.lock);
	int r = cancelled || given_up ? -ECANCELED : ask(path, ret);
	if (r != -ECANCELED)
		count_slow(r == -ETIMEDOUT);
	pthread_mutex_unlock(&reader.lock);
	return r;
}

void launch_durations_cancel(void)
{
	uint64_t one = 1;
	int before = errno;
	cancelled = true;
	if (cancel_fd >= 0)
		(void)!write(cancel_fd, &one, sizeof(one));
	errno = before;
}

bool launch_durations_given_up(void)
{
	return given_up;
}

void launch_durations_end(void)
{
	pthread_mutex_lock(&reader.lock);
	if (reader.socket >= 0)
		(void)stop();
	pthread_mutex_unlock(&reader.lock);
}
