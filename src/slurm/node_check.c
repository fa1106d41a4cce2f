/* SPDX-License-Identifier: MIT */
#include "slurm/node_check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/trust.h"
#include "gpu_dispatch.h"
#include "queue/runner/allocation_end.h"
#include "slurm/link.h"

#define CONNECT_MS 10000
/* NFS may show new files late. */
#define VISIBLE_MS 10000
#define LOOK_MS    100
/* How long the second node may take from creating its file to locking it. */
#define LOCKING_MS 2000

struct node_checker {
	const char *token;
	int dir_fd, lock_fd, socket_fd;
	struct text report;
};

static void put(struct node_checker *c, const char *key, int64_t value)
{
	text_appendf(&c->report, "%s %lld\n", key, (long long)value);
}

/* ---- The directory ---------------------------------------------------------------------- */

int node_check_open(int dir_fd, const char *name, int *ret_fd)
{
	struct stat st;
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!trust_is_user(st.st_uid) || (st.st_mode & 0777) != 0700)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

int node_check_create(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int node_check_read(int dir_fd, const char *name, char *buf, size_t size)
{
	cleanup_(closep) int fd = file_open_regular(dir_fd, name, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	ssize_t n = file_read_full(fd, buf, size);
	if (n < 0 || (size_t)n == size)
		return n < 0 ? (int)n : -EFBIG;
	buf[n] = '\0';
	return (int)n;
}

static int read_greeting(struct node_checker *c, const char *directory)
{
	char text[128] = "";
	close_fd(&c->dir_fd);
	int r = node_check_open(AT_FDCWD, directory, &c->dir_fd);
	if (r == 0)
		r = node_check_read(c->dir_fd, NODE_CHECK_GREETING, text, sizeof(text));
	return r < 0 ? r : strcmp(text, c->token) == 0 ? 0 : -ESTALE;
}

/* peer: the lock of the other side; own: the one to take. */
static void check_directory(struct node_checker *c, const char *directory, const char *peer, const char *own)
{
	uint64_t deadline = clock_now_ns() + VISIBLE_MS * NS_PER_MS;
	int r;
	while ((r = read_greeting(c, directory)) < 0 && r != -EPERM && r != -ENOTDIR && clock_now_ns() < deadline)
		poll(NULL, 0, LOOK_MS);
	put(c, "folder", r);
	if (r < 0) {
		/* Nothing is written into a directory that is not the one of this check. */
		close_fd(&c->dir_fd);
		return;
	}
	pid_t holder = 0;
	r = lock_holder_at(c->dir_fd, peer, &holder);
	put(c, "lock", r < 0 ? r : holder != 0);
	c->lock_fd = node_check_create(c->dir_fd, own);
	put(c, "own_lock", c->lock_fd < 0 ? c->lock_fd : lock_try(c->lock_fd));
}

/* ---- GPUs and time ---------------------------------------------------------------------- */

static int count_granted(void)
{
	const char *names[] = {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *list = getenv(names[i]);
		if (!list || !*list)
			continue;
		int n = 1;
		for (; *list; list++)
			n += *list == ',';
		return n;
	}
	return getenv("SLURM_JOB_ID") ? 0 : -1;
}

static void check_gpus(struct node_checker *c)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	int r = gd_gpu_list(NULL, &list, &err), sized = 0;
	for (size_t i = 0; r >= 0 && i < list->count; i++)
		sized += (list->gpus[i]->known & GD_GPU_KNOWN_MEMORY_TOTAL) != 0;
	put(c, "granted", count_granted());
	put(c, "usable", r < 0 ? r : (int64_t)list->count);
	put(c, "sized", sized);
	gd_gpu_list_free(list);
}

static void check_time(struct node_checker *c)
{
	char whose[64];
	int64_t end = allocation_end_get(whose, sizeof(whose));
	put(c, "left", end ? end - date_now_ms() : -1);
}

/* ---- The report ------------------------------------------------------------------------- */

bool node_check_is_ours(const char *report, const char *token)
{
	size_t n = strlen(token);
	return strncmp(report, "token ", 6) == 0 && strncmp(report + 6, token, n) == 0 && report[6 + n] == '\n';
}

/* ---- Reporting -------------------------------------------------------------------------- */

static int connect_to(struct node_checker *c, const char *host, uint16_t port)
{
	int error = 0;
	socklen_t size = sizeof(error);
	int r = link_connect(host, port, &c->socket_fd);
	if (r < 0)
		return r;
	struct pollfd p = {c->socket_fd, POLLOUT, 0};
	r = poll(&p, 1, CONNECT_MS);
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	if (getsockopt(c->socket_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	return -error;
}

static int write_file(const struct node_checker *c, const char *name, const char *data, size_t size)
{
	char draft[64];
	if (c->dir_fd < 0)
		return -EBADF;
	snprintf(draft, sizeof(draft), "%s.new", name);
	cleanup_(closep) int fd = node_check_create(c->dir_fd, draft);
	int r = fd < 0 ? fd : file_write_all(fd, data, size);
	if (r == 0 && (fsync(fd) < 0 || renameat(c->dir_fd, draft, c->dir_fd, name) < 0))
		r = -errno;
	return r;
}

/*
 * Reports whether the lock of the second node is seen here. `since_ns`: when its file was first seen; 0: not yet. True:
 * it was reported.
 */
static bool look_at_second(const struct node_checker *c, uint64_t *since_ns)
{
	pid_t holder = 0;
	uint64_t now = clock_now_ns();
	if (c->dir_fd < 0 || faccessat(c->dir_fd, NODE_CHECK_SECOND_LOCK, F_OK, 0) < 0)
		return false;
	*since_ns = *since_ns ? *since_ns : now;
	bool seen = lock_holder_at(c->dir_fd, NODE_CHECK_SECOND_LOCK, &holder) == 0 && holder != 0;
	if (!seen && now < *since_ns + LOCKING_MS * NS_PER_MS)
		return false;
	(void)write_file(c, NODE_CHECK_SEEN, seen ? "1" : "0", 1);
	return true;
}

/* Holds the lock until the other side has checked it. */
static void hold(const struct node_checker *c, bool first)
{
	uint64_t deadline = clock_now_ns() + NODE_CHECK_HOLD_MS * NS_PER_MS, second_ns = 0;
	bool told = !first;
	char byte;
	bool connected = c->socket_fd >= 0;
	while (clock_now_ns() < deadline) {
		struct pollfd p = {connected ? c->socket_fd : -1, POLLIN, 0};
		if (poll(&p, 1, LOOK_MS) > 0 && read(c->socket_fd, &byte, 1) <= 0)
			return;
		if (c->dir_fd >= 0 && faccessat(c->dir_fd, NODE_CHECK_DONE, F_OK, 0) == 0)
			return;
		told = told || look_at_second(c, &second_ns);
	}
}

static void begin_report(struct node_checker *c)
{
	const char *node = getenv("SLURMD_NODENAME");
	char host[65] = "";
	gethostname(host, sizeof(host) - 1);
	text_appendf(&c->report, "token %s\nnode %s\nhost %s\nversion %s\n", c->token, node && *node ? node : host,
		host, GD_VERSION);
}

int node_check_main(const char *directory, const char *host, uint16_t port, const char *token)
{
	struct node_checker c = {.token = token, .dir_fd = -1, .lock_fd = -1, .socket_fd = -1};
	signal(SIGPIPE, SIG_IGN);
	begin_report(&c);
	check_gpus(&c);
	check_time(&c);
	check_directory(&c, directory, NODE_CHECK_LOGIN_LOCK, NODE_CHECK_NODE_LOCK);
	int tcp = connect_to(&c, host, port);
	/* Last, because it is compared with the clock of the other side. */
	put(&c, "time", date_now_ms());
	bool sent = tcp == 0 && !text_error(&c.report) &&
		    file_write_all(c.socket_fd, c.report.data, c.report.length) == 0 &&
		    shutdown(c.socket_fd, SHUT_WR) == 0;
	if (!sent)
		close_fd(&c.socket_fd);
	put(&c, "tcp", tcp);
	bool written = !text_error(&c.report) && write_file(&c, NODE_CHECK_ANSWER, c.report.data, c.report.length) == 0;
	if (sent || written)
		hold(&c, true);
	text_finish(&c.report);
	closep(&c.socket_fd);
	closep(&c.lock_fd);
	closep(&c.dir_fd);
	return sent || written ? 0 : NODE_CHECK_SILENT;
}

int node_check_second(const char *directory, const char *token)
{
	struct node_checker c = {.token = token, .dir_fd = -1, .lock_fd = -1, .socket_fd = -1};
	begin_report(&c);
	check_directory(&c, directory, NODE_CHECK_NODE_LOCK, NODE_CHECK_SECOND_LOCK);
	bool written = !text_error(&c.report) && write_file(&c, NODE_CHECK_SECOND, c.report.data, c.report.length) == 0;
	if (written)
		hold(&c, false);
	text_finish(&c.report);
	closep(&c.lock_fd);
	closep(&c.dir_fd);
	return written ? 0 : NODE_CHECK_SILENT;
}
