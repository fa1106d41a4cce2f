/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"

#define LARGEST_CLAIM CLAIM_TEXT_ROOM
/* Whoever fills the folder with more than this only hides his own. */
#define MOST_FILES 65536
#define NAME_ROOM  (CLAIM_MAX_QUEUE + 48)

/* One that this process holds. */
struct claim {
	struct claims *claims;
	struct claim *next;
	char name[NAME_ROOM];
	int fd;
	dev_t dev;
	ino_t ino;
};

struct claims {
	int dir;
	struct claim *own;
	bool swept; /* all files have been looked at once */
};

static uint64_t random_number(void)
{
	uint64_t n;
	/* Only names and waiting times hang on it. */
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = (uint64_t)getpid() << 32 ^ (uintptr_t)&n;
	return n;
}

unsigned claims_backoff_ms(unsigned attempt)
{
	unsigned longest = attempt < 7 ? 8u << attempt : 1000;
	return 1 + (unsigned)(random_number() % longest);
}

/* ---- The folder ------------------------------------------------------------ */

/*
 * Made under another name and moved into place when all may write in it: the
 * second user must not find it half made.
 */
static int make_folder(const char *path)
{
	size_t room = strlen(path) + 32;
	cleanup_(freep) char *temporary = malloc(room);
	if (!temporary)
		return -ENOMEM;
	snprintf(temporary, room, "%s.%016" PRIx64, path, random_number());
	if (mkdir(temporary, 0700) < 0)
		return -errno;
	if (chmod(temporary, 01777) == 0 && renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	int code = -errno;
	rmdir(temporary);
	return code == -EEXIST ? 0 : code;
}

int claims_open(const char *dir, struct claims **ret, struct gd_error *err)
{
	const char *given = getenv("GPUQ_CLAIMS_DIR");
	cleanup_(freep) char *path = strdup(dir ? dir : given && *given ? given : CLAIMS_DIR);
	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	/* With a slash at its end a link would be followed after all. */
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	cleanup_(closep) int fd = open(path, flags);
	if (fd < 0 && errno == ENOENT) {
		int r = make_folder(path);
		if (r < 0)
			return error_set(err, r, "cannot make the folder of claims '%s': %s", path, error_words(r));
		fd = open(path, flags);
	}
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int code = -errno;
		return error_set(err, code, "cannot open the folder of claims '%s': %s", path, error_words(code));
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return error_set(err, -EPERM,
			"the folder of claims '%s' lets everybody remove the claims of others; use 'chmod +t' on it",
			path);
	struct claims *c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	c->dir = take_fd(&fd);
	*ret = c;
	return 0;
}

void claims_close(struct claims *c)
{
	if (!c)
		return;
	while (c->own)
		claim_release(c->own);
	close(c->dir);
	free(c);
}

/* ---- Our own ----------------------------------------------------------------- */

static int lock_file(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_SETLK, &lock) < 0 ? -errno : 0;
}

/*
 * Complete and locked under a name that begins with a dot, which nobody lists;
 * then renamed to `name`, where a claim of ours may stand that it replaces.
 */
static int write_claim(struct claims *c, const char *name, const struct claim_info *info, struct claim *ret)
{
	char text[LARGEST_CLAIM], temporary[NAME_ROOM];
	int size = claim_info_format(info, text, sizeof(text));
	if (size < 0)
		return size;
	snprintf(temporary, sizeof(temporary), ".%016" PRIx64, random_number());
	cleanup_(closep) int fd = openat(c->dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	struct stat st;
	/* Readable for all only once it is locked: till then nobody else could have put a lock on it. */
	int r = lock_file(fd);
	if (r == 0)
		r = file_write_all(fd, text, (size_t)size);
	if (r == 0 && (fchmod(fd, 0644) < 0 || fstat(fd, &st) < 0 || renameat(c->dir, temporary, c->dir, name) < 0))
		r = -errno;
	if (r < 0) {
		unlinkat(c->dir, temporary, 0);
		return r == -EACCES ? -EAGAIN : r;
	}
	ret->fd = take_fd(&fd);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

/* A sweeper of our own user may take a file that is not locked yet for a dead one: then again. */
static int write_claim_again(struct claims *c, const char *name, const struct claim_info *info, struct claim *ret)
{
	int r = -EAGAIN;
	for (int tries = 0; tries < 16 && (r == -EAGAIN || r == -ENOENT); tries++)
		r = write_claim(c, name, info, ret);
	return r;
}

int claims_announce(struct claims *c, const struct claim_info *info, struct claim **ret)
{
	struct claim *claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -ENOMEM;
	snprintf(claim->name, sizeof(claim->name), "%s-%" PRIdMAX "-%016" PRIx64, info->queue, (intmax_t)getpid(),
		random_number());
	int r = write_claim_again(c, claim->name, info, claim);
	if (r < 0) {
		free(claim);
		return r;
	}
	claim->claims = c;
	claim->next = c->own;
	c->own = claim;
	*ret = claim;
	return 0;
}

/* Whether the claim still stands at its name, with room for a text of that size. */
static bool is_in_place(const struct claim *claim, int size)
{
	struct stat st;
	return fstatat(claim->claims->dir, claim->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == claim->ino &&
	       st.st_dev == claim->dev && st.st_size == size;
}

/*
 * In place: a rename during somebody's readdir() could hide the claim from him
 * for once. Who reads it half written looks again.
 */
int claim_update(struct claim *claim, const struct claim_info *info)
{
	char text[LARGEST_CLAIM];
	int size = claim_info_format(info, text, sizeof(text));
	if (size < 0)
		return size;
	if (is_in_place(claim, size) && pwrite(claim->fd, text, (size_t)size, 0) == size)
		return 0;
	int old = claim->fd;
	int r = write_claim_again(claim->claims, claim->name, info, claim);
	if (r < 0)
		return r;
	close(old);
	return 0;
}

void claim_release(struct claim *claim)
{
	if (!claim)
		return;
	struct claim **link = &claim->claims->own;
	while (*link != claim)
		link = &(*link)->next;
	*link = claim->next;
	unlinkat(claim->claims->dir, claim->name, 0);
	close(claim->fd);
	free(claim);
}

/* ---- Those of others ----------------------------------------------------------- */

static bool is_own(const struct claims *c, const struct stat *st)
{
	for (const struct claim *own = c->own; own; own = own->next)
		if (own->ino == st->st_ino && own->dev == st->st_dev)
			return true;
	return false;
}

/* Removes a dead claim of our user, under its lock: whoever is just making it will notice. */
static void sweep(struct claims *c, const char *name)
{
	cleanup_(closep) int fd = openat(c->dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st, there;
	if (fd < 0 || lock_file(fd) < 0 || fstat(fd, &st) < 0)
		return;
	if (fstatat(c->dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == st.st_ino &&
		there.st_dev == st.st_dev)
		unlinkat(c->dir, name, 0);
}

/* PID of whoever has the write lock, 0 if it cannot be told; -ESRCH if nobody has. */
static int64_t lock_holder(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -errno;
	/* A read lock anybody can take who can read. */
	if (lock.l_type != F_WRLCK)
		return -ESRCH;
	return lock.l_pid > 0 ? lock.l_pid : 0;
}

/* Whose process that is; of one that we cannot see, whose file. */
static uid_t holder_owner(int64_t pid, const struct stat *file)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%" PRId64, pid);
	return pid > 0 && stat(path, &st) == 0 ? st.st_uid : file->st_uid;
}

/* Again where it was just being rewritten. */
static bool read_info(int fd, struct claim_info *ret)
{
	char text[LARGEST_CLAIM];
	for (int tries = 0; tries < 16; tries++) {
		ssize_t size = pread(fd, text, sizeof(text), 0);
		if (size <= 0)
			return false;
		if (claim_info_parse(text, (size_t)size, ret) == 0)
			return true;
		sched_yield();
	}
	return false;
}

/* 1: a live claim; 0: none. */
static int read_other(struct claims *c, const char *name, struct claim_other *ret)
{
	struct stat st;
	if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || is_own(c, &st))
		return 0;
	cleanup_(closep) int fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int64_t holder = lock_holder(fd);
	if (holder == -ESRCH) {
		if (st.st_uid == geteuid())
			sweep(c, name);
		return 0;
	}
	if (holder < 0 || name[0] == '.' || !read_info(fd, &ret->info))
		return 0;
	ret->owner = holder_owner(holder, &st);
	ret->holder = holder;
	/* The PID may have been another's when we looked it up. */
	return lock_holder(fd) == holder;
}

/*
 * A file that by its name is of this queue: not worth a look, but for the first time, to sweep. Who calls his so in
 * another's queue only hides it, as he can anyway.
 */
static bool is_of_queue(const struct claims *c, const char *name, const char *queue)
{
	size_t n = queue ? strlen(queue) : 0;
	return c->swept && n > 0 && strncmp(name, queue, n) == 0 && name[n] == '-';
}

/* While a job is handed over, both its runner and its keeper claim for it: the keeper's, which has a PID, is kept. */
static bool is_listed(struct claims_list *list, const struct claim_other *other)
{
	for (size_t i = 0; i < list->count; i++) {
		struct claim_other *seen = &list->claims[i];
		if (seen->owner != other->owner || seen->info.job != other->info.job ||
			strcmp(seen->info.queue, other->info.queue) != 0)
			continue;
		if (!seen->info.pid)
			*seen = *other;
		return true;
	}
	return false;
}

int claims_list(struct claims *c, const char *queue, struct claims_list *ret)
{
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int code = -errno;
		close(fd);
		return code;
	}
	struct claims_list list = {0};
	size_t capacity = 0;
	int r = 0;
	for (size_t files = 0; files < MOST_FILES; files++) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) {
			r = -errno;
			break;
		}
		r = array_reserve(list.claims, &capacity, list.count + 1);
		if (r < 0)
			break;
		struct claim_other *other = &list.claims[list.count];
		if (!is_of_queue(c, entry->d_name, queue) && read_other(c, entry->d_name, other) &&
			other->info.num_gpus > 0 &&
			!(queue && other->owner == geteuid() && !strcmp(other->info.queue, queue)) &&
			!is_listed(&list, other))
			list.count++;
	}
	closedir(dir);
	if (r < 0) {
		claims_list_finish(&list);
		return r;
	}
	c->swept = true;
	*ret = list;
	return 0;
}

void claims_list_finish(struct claims_list *list)
{
	free(list->claims);
	*list = (struct claims_list){0};
}
