/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define LEASE_MS       2000 /* wait for the holder of a lease */
#define LEASE_PAUSE_MS 10

static int check_regular(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
}

int file_open_regular(int dirfd, const char *path, int flags)
{
	const int reading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	char name[32];
	cleanup_(closep) int place = openat(dirfd, path, O_PATH | O_CLOEXEC | flags);
	int r = place < 0 ? -errno : check_regular(place);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	cleanup_(closep) int fd = open(name, reading);
	if (fd < 0 && errno == ENOENT) /* /proc is missing */
		fd = openat(dirfd, path, reading | flags);
	if (fd < 0)
		return -errno;
	r = check_regular(fd);
	return r < 0 ? r : take_fd(&fd);
}

int file_open_leased(const char *path)
{
	const struct timespec pause = {.tv_nsec = LEASE_PAUSE_MS * 1000000};
	for (int ms = 0;; ms += LEASE_PAUSE_MS) {
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN || ms >= LEASE_MS)
			return -errno;
		(void)nanosleep(&pause, NULL);
	}
}

/*
 * Waits, because another process may have made a pipe or a terminal that it shares with this one non-blocking. Does not
 * wait for regular files: poll() reports that they are always ready, so the retries would never end. Nor for blocking
 * sockets: EAGAIN means that their time limit has passed (SO_SNDTIMEO).
 */
static bool wait_until_writable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || !(flags & O_NONBLOCK) || check_regular(fd) == 0)
		return false;
	return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

int file_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	while (size > 0) {
		ssize_t n = write(fd, p, size);
		if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_until_writable(fd))))
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

void file_copy_access(int from, int to)
{
	static const char name[] = "system.posix_acl_access";
	char list[4096];
	struct stat st, now;
	if (fstat(from, &st) < 0 || fstat(to, &now) < 0)
		return;
	bool same_group = st.st_gid == now.st_gid || fchown(to, (uid_t)-1, st.st_gid) == 0;
	ssize_t size = fgetxattr(from, name, list, sizeof(list));
	bool has_list = size >= 0 || (errno != ENODATA && errno != ENOTSUP);
	if (same_group && size >= 0 && fsetxattr(to, name, list, (size_t)size, 0) == 0)
		return;
	/* The new file may have inherited an access list from the default access list of the directory. */
	bool is_clean = fremovexattr(to, name) == 0 || errno == ENODATA || errno == ENOTSUP;
	(void)fchmod(to, st.st_mode & (same_group && !has_list && is_clean ? 0777 : 0707));
}

ssize_t file_read_full(int fd, void *buf, size_t size)
{
	char *p = buf;
	size_t have = 0;
	while (have < size) {
		ssize_t n = read(fd, p + have, size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int file_read_small(int dirfd, const char *path, char *buf, size_t size)
{
	if (size < 2 || size > INT_MAX)
		return -EINVAL;
	cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	ssize_t n = file_read_full(fd, buf, size);
	if (n < 0)
		return (int)n;
	size_t have = (size_t)n;
	if (have == size)
		return -EFBIG;
	while (have > 0 && buf[have - 1] == '\n')
		have--;
	buf[have] = '\0';
	return (int)have;
}

#define MOST_PARTS 1024

off_t file_count_holes(int fd, off_t from, off_t to, off_t most)
{
	struct stat st;
	off_t holes = 0, at = from;
	int parts = 0;
	if (fstat(fd, &st) < 0 || st.st_size - (off_t)st.st_blocks * 512 <= most)
		return 0;
	while (at < to && holes <= most) {
		off_t hole = lseek(fd, at, SEEK_HOLE);
		if (hole < 0 || hole >= to)
			break;
		/* Another user can make a file of very many small holes, and give it many names. */
		if (++parts > MOST_PARTS)
			return most + 1;
		at = lseek(fd, hole, SEEK_DATA);
		if (at < 0 || at > to)
			at = to;
		holes += at - hole;
	}
	return holes;
}

int64_t file_mtime_ns(const struct stat *st)
{
	return (int64_t)((uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec);
}

int64_t file_mtime_ms(const struct stat *st)
{
	const int64_t most_s = INT64_MAX / 2000;
	int64_t s = st->st_mtim.tv_sec;
	if (s > most_s || s < -most_s)
		return s > 0 ? most_s * 1000 : -most_s * 1000;
	return s * 1000 + st->st_mtim.tv_nsec / 1000000;
}

uint64_t file_birth_ns(int fd)
{
	struct statx st;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &st) < 0 || !(st.stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)st.stx_btime.tv_sec * NS_PER_S + st.stx_btime.tv_nsec;
}

int file_path(int fd, char ret[PATH_MAX])
{
	char name[32];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, ret, PATH_MAX);
	int code = n < 0 ? -errno : n >= PATH_MAX ? -ENAMETOOLONG : 0;
	if (code == 0 && ret[0] != '/') /* a pipe, or outside of this process's root directory */
		code = -ENOENT;
	if (code == 0)
		ret[n] = '\0';
	else
		ret[0] = '\0';
	return code;
}

int file_above_stdio(int fd)
{
	if (fd < 0)
		return -errno;
	if (fd > STDERR_FILENO)
		return fd;
	int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int r = above < 0 ? -errno : above;
	close(fd);
	return r;
}

void file_fill_stdio(bool refuse)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int mode = !refuse ? O_RDWR : fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
		/* open() returns the lowest number that is free. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode | O_CLOEXEC) < 0)
			return;
	}
}

bool file_is_passed(int fd)
{
	int flags = fcntl(fd, F_GETFD);
	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* As getdents64(2) writes it. */
struct kernel_dirent {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* Closes the descriptors that /proc lists. Does not use opendir(), which allocates. */
static bool close_listed(int first, int last)
{
	_Alignas(struct kernel_dirent) char buf[4096];
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	long n;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			const struct kernel_dirent *d = (const struct kernel_dirent *)(buf + at);
			int fd = d->name[0] == '.' ? -1 : atoi(d->name);
			if (fd >= first && fd <= last && fd != dir)
				close(fd);
			at += d->size;
		}
	close(dir);
	return n == 0;
}

void file_close_range(int first, int last)
{
	if (last < first)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0)
		return;
#endif
	/* Before Linux 5.9, or where a sandbox forbids it. */
	if (close_listed(first, last))
		return;
	long most = sysconf(_SC_OPEN_MAX);
	if (most < 0 || most > 65536)
		most = 65536;
	for (int fd = first; fd <= last && fd < most; fd++)
		close(fd);
}

void file_close_except(int first, int *keep, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k > 0 && keep[k] < keep[k - 1]; k--) {
			int other = keep[k];
			keep[k] = keep[k - 1];
			keep[k - 1] = other;
		}
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < first)
			continue;
		file_close_range(first, keep[i] - 1);
		first = keep[i] + 1;
	}
	file_close_range(first, INT_MAX);
}

void file_remove_default_list(int fd)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)removexattr(path, "system.posix_acl_default");
}

void file_write_gitignore(int dir_fd, mode_t mode)
{
	static const char text[] = "# Created by gpuq.\n*\n";
	int fd = openat(dir_fd, ".gitignore", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return;
	if (file_write_all(fd, text, sizeof(text) - 1) < 0)
		(void)unlinkat(dir_fd, ".gitignore", 0);
	close(fd);
}
