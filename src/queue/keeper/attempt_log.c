/* SPDX-License-Identifier: MIT */
#include "queue/keeper/attempt_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/journal.h"
#include "queue/keeper/known_directory.h"

#define TRIM_MS 250
/* Holes consist of whole blocks, and each hole costs a system call and an extent. */
#define LEAST_HOLE ((off_t)64 * 1024)

static mode_t file_mode(enum log_access access)
{
	return access == LOG_ACCESS_ALL ? 0644 : access == LOG_ACCESS_GROUP ? 0640 : 0600;
}

/* Users who may read the files may list them. */
static mode_t directory_mode(enum log_access access)
{
	mode_t mode = file_mode(access);
	return mode | (mode & 0444) >> 2;
}

/* ---- The directory ------------------------------------------------------------------ */

/* Since the last attempt, another user may have replaced it with a link to a directory of this user. */
static int open_existing(const struct attempt_log_options *o, int dir_fd, const char *path, int *ret)
{
	if (o->trust != LOG_TRUST_ALL) {
		int r = trust_open_directory_at(dir_fd, path, false, ret, NULL);
		return r == -EPERM && o->trust == LOG_TRUST_OWN ? -ENOTUNIQ : r;
	}
	int fd = openat(dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret = fd;
	return 0;
}

/*
 * Creates the directory with its final mode, regardless of the umask. A later chmod could change another directory of
 * this user: users who can write the directory above can exchange the two. A keeper has only one thread.
 */
static int make_last(int dir_fd, const char *name, mode_t mode)
{
	mode_t mask = umask(0);
	int r = mkdirat(dir_fd, name, mode) < 0 ? -errno : 0;
	umask(mask);
	return r;
}

/* Whether it is the folder that is used if none is configured, and no other user can replace it. */
static bool is_default(const struct attempt_log_options *o)
{
	const struct journal *j = o->journal;
	size_t length = j ? strlen(j->parent_path) : 0;
	return j && strncmp(o->directory, j->parent_path, length) == 0 && strcmp(o->directory + length, "/logs") == 0 &&
	       !trust_objection(j->parent_fd);
}

/* Opens a component of the path; creates it if it is missing. */
static int enter(const struct attempt_log_options *o, int dir_fd, const char *name, bool is_last, int *ret)
{
	int r = open_existing(o, dir_fd, name, ret);
	if (r != -ENOENT)
		return r;
	if (is_last)
		r = make_last(dir_fd, name, directory_mode(o->access));
	else
		r = mkdirat(dir_fd, name, 0755) < 0 ? -errno : 0; /* whatever the umask of the runner */
	int e = r < 0 && r != -EEXIST ? r : open_existing(o, dir_fd, name, ret);
	if (r == 0 && e == 0 && is_last && is_default(o))
		file_write_gitignore(*ret, file_mode(o->access));
	return e;
}

/* Opens the directory below which the path is created; *ret_rest: the rest of the path. */
static int open_start(const struct attempt_log_options *o, const char **ret_rest)
{
	const struct journal *j = o->journal;
	size_t length = j ? strlen(j->parent_path) : 0;
	bool inside = j && strncmp(o->directory, j->parent_path, length) == 0 && o->directory[length] == '/';
	int fd = inside ? openat(j->parent_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)
			: open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret_rest = o->directory + (inside ? length : 0);
	return fd < 0 ? -errno : fd;
}

/* Parent directories are created with default permissions. */
static int make_directory(const struct attempt_log_options *o, int *ret)
{
	char name[NAME_MAX + 1];
	const char *rest;
	cleanup_(closep) int fd = open_start(o, &rest);
	if (fd < 0)
		return fd;
	for (const char *p = rest + strspn(rest, "/"); *p;) {
		size_t length = strcspn(p, "/");
		int next = -1;
		if (length >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, p, length);
		name[length] = '\0';
		p += length + strspn(p + length, "/");
		int r = enter(o, fd, name, *p == '\0', &next);
		if (r < 0)
			return r;
		close_fd(&fd);
		fd = next;
	}
	*ret = take_fd(&fd);
	return 0;
}

/* Whether another user may have put something there that is not a directory, or moved the directory away. */
static bool is_blocked_by_others(const char *path)
{
	struct stat st;
	cleanup_(closep) int fd = -1;
	bool foreign = lstat(path, &st) == 0 && st.st_uid != 0 && st.st_uid != geteuid();
	return foreign || trust_open_directory(path, true, &fd, NULL) == -EPERM;
}

static int open_directory(const struct attempt_log_options *o, int *ret)
{
	cleanup_(closep) int fd = -1;
	int known = known_directory_find(o->known, o->directory);
	if (known >= 0 && (o->trust != LOG_TRUST_OWN || !trust_objection(known))) {
		*ret = fcntl(known, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? -errno : 0;
	}
	int r = open_existing(o, AT_FDCWD, o->directory, &fd);
	if (r == -ENOENT)
		r = make_directory(o, &fd);
	bool is_blocked = r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -EPERM;
	if (is_blocked && o->trust == LOG_TRUST_OWN && is_blocked_by_others(o->directory))
		return -ENOTUNIQ;
	if (r < 0)
		return r;
	if (o->trust == LOG_TRUST_OWN && trust_objection(fd))
		return -ENOTUNIQ;
	known_directory_keep(o->known, o->directory, fd);
	*ret = take_fd(&fd);
	return 0;
}

/* ---- The file ------------------------------------------------------------------------ */

void attempt_log_name_on_cluster(
	char ret[ATTEMPT_LOG_NAME_ROOM], uint64_t id, uint32_t attempt, uint64_t slurm_job, uint64_t tag)
{
	snprintf(ret, ATTEMPT_LOG_NAME_ROOM, "job_%llu_attempt_%u_slurm_%llu_%016llx.log", (unsigned long long)id,
		attempt, (unsigned long long)slurm_job, (unsigned long long)tag);
}

/* Returns the new file, or a negative errno value. */
static int create_named(struct attempt_log *l, const char *directory, const char *name)
{
	int fd = openat(l->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return -errno;
	if (asprintf(&l->path, "%s/%s", directory, name) >= 0)
		return fd;
	l->path = NULL;
	unlinkat(l->dir_fd, name, 0);
	close(fd);
	return -ENOMEM;
}

static int create_file(struct attempt_log *l, const struct attempt_log_options *o, uint64_t id)
{
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	int r = -EEXIST;
	/* The journal contains the name: another one would not be found. */
	if (o->name)
		return create_named(l, o->directory, o->name);
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", localtime_r(&now, &tm));
	for (int i = 1; i < 10000 && r == -EEXIST; i++) {
		char suffix[16] = "", name[96];
		if (i > 1)
			snprintf(suffix, sizeof(suffix), "_%d", i);
		snprintf(name, sizeof(name), "job_%s_%llu%s.log", stamp, (unsigned long long)id, suffix);
		r = create_named(l, o->directory, name);
	}
	return r;
}

static bool is_own_group(gid_t gid)
{
	gid_t groups[NGROUPS_MAX];
	int n = getgroups(NGROUPS_MAX, groups);
	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return gid == getegid();
}

/*
 * Whether log_access may let a group read the new file. A directory of another user, or one in it, can give it a group
 * that this user chose, or an access list.
 */
static bool may_let_group_read(const struct attempt_log *l)
{
	struct stat dir, file;
	if (fstat(l->dir_fd, &dir) < 0 || fstat(l->fd, &file) < 0 || !is_own_group(file.st_gid))
		return false;
	bool is_own = dir.st_uid == 0 || trust_is_user(dir.st_uid);
	return !trust_has_access_list(l->fd) || (is_own && trust_check_way(l->dir_fd, NULL) == 0);
}

int attempt_log_open(struct attempt_log *l, const struct attempt_log_options *o, uint64_t id)
{
	*l = ATTEMPT_LOG_NONE;
	int r = open_directory(o, &l->dir_fd);
	if (r < 0)
		return r;
	r = create_file(l, o, id);
	if (r < 0) {
		attempt_log_close(l);
		return r;
	}
	l->fd = r;
	bool is_wider = o->access == LOG_ACCESS_ALL || (o->access == LOG_ACCESS_GROUP && may_let_group_read(l));
	if (is_wider && fchmod(l->fd, file_mode(o->access)) < 0) {
		r = -errno;
		attempt_log_remove(l);
		attempt_log_close(l);
		return r;
	}
	l->max_bytes = o->max_bytes;
	l->trim_ns = o->max_bytes ? clock_now_ns() + TRIM_MS * NS_PER_MS : 0;
	return 0;
}

void attempt_log_close(struct attempt_log *l)
{
	closep(&l->fd);
	closep(&l->dir_fd);
	free(l->path);
	*l = ATTEMPT_LOG_NONE;
}

void attempt_log_remove(struct attempt_log *l)
{
	if (l->path)
		unlinkat(l->dir_fd, strrchr(l->path, '/') + 1, 0);
}

size_t attempt_log_tail(const struct attempt_log *l, void *buf, size_t size)
{
	struct stat st;
	if (l->fd < 0 || fstat(l->fd, &st) < 0)
		return 0;
	ssize_t n = pread(l->fd, buf, size, st.st_size > (off_t)size ? st.st_size - (off_t)size : 0);
	return n > 0 ? (size_t)n : 0;
}

void attempt_log_trim(struct attempt_log *l, uint64_t now_ns)
{
	struct stat st;
	if (!l->max_bytes)
		return;
	l->trim_ns = now_ns + TRIM_MS * NS_PER_MS;
	if (fstat(l->fd, &st) < 0 || st.st_size <= l->max_bytes)
		return;
	if (st.st_size < l->removed_to)
		l->removed_to = 0; /* the job has truncated its log */
	off_t half = l->max_bytes / 2, block = st.st_blksize > 0 ? st.st_blksize : 4096;
	off_t from = l->removed_to ? l->removed_to : (half + block - 1) / block * block;
	off_t to = (st.st_size - half) / block * block;
	if (to - from < LEAST_HOLE)
		return;
	if (fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from) == 0) {
		l->removed_to = to;
	} else if (errno != EINTR) {
		l->max_bytes = 0;
		l->trim_ns = 0;
	}
}
