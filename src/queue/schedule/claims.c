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
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/schedule/claim_directory.h"
#include "queue/schedule/claim_folders.h"

#define LARGEST_CLAIM CLAIM_TEXT_ROOM
#define NAME_ROOM     (CLAIM_MAX_QUEUE + 48)
#define MAX_TRIES     16

/*
 * Limits for each other user: claims beyond them are ignored, which hides only claims of that user. If many users have
 * claims, each has an equal share of `total`, but at least `least`: one person may have thousands of user ids (subuid).
 */
struct limit {
	size_t alone, total, least;
};
static const struct limit FILES = {1024, 32768, 16}; /* examined */
static const struct limit CLAIMS = {256, 4096, 8};   /* listed */
static const struct limit BROKEN = {64, 1024, 4};    /* locked, but not a claim; reading them costs time */
static const struct limit RETRIES = {256, 4096, 4};  /* to read broken files */
#define FEW_USERS       16                           /* up to this number of users, each has all of `alone` */
#define MAX_FILES_OF_US 65536

/* A claim that this process holds. */
struct claim {
	struct claims *claims;
	struct claim *next;
	char name[NAME_ROOM];
	int fd;
	dev_t dev;
	ino_t ino;
};

struct claims {
	int shared_fd;
	int own_fd; /* this user's folder; -1: not needed yet */
	struct claim_folders folders;
	struct claim *own;
	bool swept; /* all files have been examined once */
};

unsigned claims_backoff_ms(unsigned attempt)
{
	unsigned longest = attempt < 7 ? 8u << attempt : 1000;
	return 1 + (unsigned)(claim_random() % longest);
}

int claims_open(const char *dir, struct claims **ret, struct gd_error *err)
{
	struct claims *c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	int r = claim_directory_open(dir, true, &c->shared_fd, err);
	if (r < 0) {
		free(c);
		return r;
	}
	c->own_fd = -1;
	*ret = c;
	return 0;
}

void claims_close(struct claims *c)
{
	if (!c)
		return;
	while (c->own)
		claim_release(c->own);
	claim_folders_finish(&c->folders);
	closep(&c->own_fd);
	close(c->shared_fd);
	free(c);
}

/* ---- Our own claims ---------------------------------------------------------- */

static int lock_file(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_SETLK, &lock) < 0 ? -errno : 0;
}

/*
 * Writes and locks the file under a name that begins with a dot, which readers skip; then renames it
 * to `name`, replacing a claim of ours, if any.
 */
static int write_claim(const struct claims *c, const char *name, const struct claim_info *info, struct claim *ret)
{
	char text[LARGEST_CLAIM], temporary[NAME_ROOM];
	int size = claim_info_format(info, text, sizeof(text));
	if (size < 0)
		return size;
	snprintf(temporary, sizeof(temporary), ".%016" PRIx64, claim_random());
	cleanup_(closep) int fd =
		openat(c->own_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	struct stat st;
	/* Readable by others only once it is locked: before that, no other user could have locked it. */
	int r = lock_file(fd);
	if (r == 0)
		r = file_write_all(fd, text, (size_t)size);
	if (r == 0 &&
		(fchmod(fd, 0644) < 0 || fstat(fd, &st) < 0 || renameat(c->own_fd, temporary, c->own_fd, name) < 0))
		r = -errno;
	if (r < 0) {
		unlinkat(c->own_fd, temporary, 0);
		return r == -EACCES ? -EAGAIN : r;
	}
	ret->fd = take_fd(&fd);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

/*
 * Retries: another process of our user may have removed the file as dead before it was locked, or a
 * /tmp cleaner may have removed the whole folder.
 */
static int write_claim_again(struct claims *c, const char *name, const struct claim_info *info, struct claim *ret)
{
	int r = -EAGAIN;
	for (int tries = 0; tries < 16 && (r == -EAGAIN || r == -ENOENT); tries++) {
		if (r == -ENOENT)
			close_fd(&c->own_fd);
		r = c->own_fd < 0 ? claim_folder_open_own(c->shared_fd, &c->own_fd) : 0;
		if (r == 0)
			r = write_claim(c, name, info, ret);
	}
	return r;
}

int claims_announce(struct claims *c, const struct claim_info *info, struct claim **ret)
{
	struct claim *claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -ENOMEM;
	snprintf(claim->name, sizeof(claim->name), "%s-%" PRIdMAX "-%016" PRIx64, info->queue, (intmax_t)getpid(),
		claim_random());
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

/* Whether the claim's file still exists under its name and has this size. */
static bool is_in_place(const struct claim *claim, int size)
{
	struct stat st;
	return fstatat(claim->claims->own_fd, claim->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == claim->ino &&
	       st.st_dev == claim->dev && st.st_size == size;
}

/*
 * Writes in place: a rename during another process's readdir() could hide the claim from it once. A
 * reader of a half-written claim retries.
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
	unlinkat(claim->claims->own_fd, claim->name, 0);
	close(claim->fd);
	free(claim);
}

/* ---- Claims of others ---------------------------------------------------------- */

static bool is_own(const struct claims *c, const struct stat *st)
{
	for (const struct claim *own = c->own; own; own = own->next)
		if (own->ino == st->st_ino && own->dev == st->st_dev)
			return true;
	return false;
}

/* File names as in write_claim() and claims_announce(): ".0123456789abcdef", "queue-4711-0123456789abcdef". */
static bool is_claim_name(const char *name)
{
	size_t n = strlen(name);
	const char *number = n > 16 ? name + n - 16 : "";
	return strspn(number, "0123456789abcdef") == 16 && (number[-1] == '-' || n == 17);
}

/* Removes a dead claim of our user, under its lock: a process that is just creating it will notice. */
static void sweep(int dir_fd, const char *name)
{
	if (!is_claim_name(name))
		return;
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st, there;
	if (fd < 0 || lock_file(fd) < 0 || fstat(fd, &st) < 0)
		return;
	if (fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == st.st_ino &&
		there.st_dev == st.st_dev)
		unlinkat(dir_fd, name, 0);
}

/* PID of the holder of the write lock, 0 if it is unknown; -ESRCH if the lock is free. */
static int64_t lock_holder(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -errno;
	/* Anyone who can read the file can take a read lock. */
	if (lock.l_type != F_WRLCK)
		return -ESRCH;
	return lock.l_pid > 0 ? lock.l_pid : 0;
}

struct user_limits {
	size_t files, claims, broken, retries;
};

/* The claims of one user, while they are read. */
struct user_claims {
	uid_t owner;
	size_t first; /* index of the user's first claim in the list */
	size_t files; /* examined so far */
	size_t broken;
	size_t retries; /* of all files together */
	struct user_limits max;
};

/* Retries while the file is being rewritten. */
static bool read_info(int fd, struct user_claims *user, struct claim_info *ret)
{
	char text[LARGEST_CLAIM];
	for (int tries = 1;; tries++) {
		ssize_t size = pread(fd, text, sizeof(text), 0);
		if (size > 0 && claim_info_parse(text, (size_t)size, ret) == 0)
			return true;
		if (size <= 0 || tries == MAX_TRIES || user->retries == user->max.retries)
			break;
		user->retries++;
		sched_yield();
	}
	user->broken++;
	return false;
}

/* Whether the file is a claim held by its owner, who also owns the folder. */
static bool read_other(
	const struct claims *c, int dir_fd, const char *name, struct user_claims *user, struct claim_other *ret)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || is_own(c, &st))
		return false;
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != ret->owner)
		return false;
	int64_t holder = lock_holder(fd);
	if (holder == -ESRCH) {
		if (st.st_uid == geteuid())
			sweep(dir_fd, name);
		return false;
	}
	if (holder < 0 || name[0] == '.' || !read_info(fd, user, &ret->info))
		return false;
	ret->holder = holder;
	return true;
}

/* Whether the name is one of our own files for this queue: these are examined only the first time, to remove dead
 * ones. */
static bool is_of_queue(const struct claims *c, const char *name, const char *queue)
{
	size_t n = queue ? strlen(queue) : 0;
	return c->swept && n > 0 && strncmp(name, queue, n) == 0 && name[n] == '-';
}

/* While a job is handed over, its runner and its keeper both claim: keep the keeper's claim, which has a PID. */
static bool is_listed(struct claims_list *list, const struct user_claims *user, const struct claim_other *other)
{
	for (size_t i = user->first; i < list->count; i++) {
		struct claim_other *seen = &list->claims[i];
		if (seen->info.job != other->info.job || strcmp(seen->info.queue, other->info.queue) != 0)
			continue;
		if (!seen->info.pid)
			*seen = *other;
		return true;
	}
	return false;
}

static int list_folder(struct claims *c, DIR *dir, const char *queue, struct user_claims *user,
	struct claims_list *list, size_t *capacity)
{
	bool ours = user->owner == geteuid();
	while (user->files++ < user->max.files && user->broken < user->max.broken &&
		list->count - user->first < user->max.claims) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			return -errno;
		if (ours && is_of_queue(c, entry->d_name, queue))
			continue;
		int r = array_reserve(list->claims, capacity, list->count + 1);
		if (r < 0)
			return r;
		struct claim_other *other = &list->claims[list->count];
		other->owner = user->owner;
		if (read_other(c, dirfd(dir), entry->d_name, user, other) && other->info.num_gpus > 0 &&
			!(queue && ours && !strcmp(other->info.queue, queue)) && !is_listed(list, user, other))
			list->count++;
	}
	return 0;
}

static size_t share(const struct limit *limit, size_t users)
{
	size_t part = limit->total / users;
	return part > limit->alone ? limit->alone : part < limit->least ? limit->least : part;
}

/* The limits for each user, if this number of users share the totals. */
static struct user_limits limits_for(size_t users)
{
	return (struct user_limits){.files = share(&FILES, users),
		.claims = share(&CLAIMS, users),
		.broken = share(&BROKEN, users),
		.retries = share(&RETRIES, users)};
}

static bool is_first_of_user(const struct claim_folders *f, size_t i)
{
	return i == 0 || f->folders[i].owner != f->folders[i - 1].owner;
}

static size_t count_users(const struct claim_folders *f)
{
	size_t users = 0;
	for (size_t i = 0; i < f->count; i++)
		users += is_first_of_user(f, i);
	return users;
}

static int read_folder(struct claims *c, const struct claim_folder *folder, const char *queue, struct user_claims *user,
	struct claims_list *list, size_t *capacity)
{
	int fd;
	/* The folder is gone, or no longer valid. */
	if (claim_folder_open(c->shared_fd, folder, &fd) < 0)
		return 0;
	cleanup_(closedirp) DIR *dir = fdopendir(fd);
	if (!dir) {
		int r = -errno;
		close(fd);
		return r;
	}
	return list_folder(c, dir, queue, user, list, capacity);
}

/*
 * Finds the other users who have a claim; the array has an element for each user with a folder. Folders remain when
 * their claims have ended, and are easily created for thousands of user ids, so a folder alone gives no share.
 */
static int find_claimants(struct claims *c, const char *queue, size_t users, bool *claims, size_t *ret_count)
{
	struct user_limits max = limits_for(users);
	cleanup_(claims_list_finish) struct claims_list list = {0};
	struct user_claims user = {0};
	size_t capacity = 0, number = 0;
	int r = 0;
	max.claims = 1;
	*ret_count = 0;
	for (size_t i = 0; r == 0 && i < c->folders.count; i++) {
		const struct claim_folder *folder = &c->folders.folders[i];
		if (is_first_of_user(&c->folders, i)) {
			user = (struct user_claims){.owner = folder->owner, .max = max};
			list.count = 0;
			number++;
		}
		if (folder->owner == geteuid() || claims[number - 1])
			continue;
		r = read_folder(c, folder, queue, &user, &list, &capacity);
		claims[number - 1] = list.count > 0;
		*ret_count += list.count > 0;
	}
	return r;
}

/* claimants: which users have claims, as from find_claimants(); NULL: all of them may have. */
static int list_all(
	struct claims *c, const char *queue, const bool *claimants, struct user_limits others, struct claims_list *list)
{
	const struct user_limits ours = {MAX_FILES_OF_US, MAX_FILES_OF_US, MAX_FILES_OF_US, RETRIES.alone};
	struct user_claims user = {0};
	size_t capacity = 0, number = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < c->folders.count; i++) {
		const struct claim_folder *folder = &c->folders.folders[i];
		bool is_ours = folder->owner == geteuid();
		if (is_first_of_user(&c->folders, i)) {
			user = (struct user_claims){
				.owner = folder->owner, .first = list->count, .max = is_ours ? ours : others};
			number++;
		}
		if (is_ours || !claimants || claimants[number - 1])
			r = read_folder(c, folder, queue, &user, list, &capacity);
	}
	return r;
}

int claims_list(struct claims *c, const char *queue, struct claims_list *ret)
{
	cleanup_(freep) bool *claimants = NULL;
	struct claims_list list = {0};
	int r = claim_folders_update(c->shared_fd, &c->folders);
	if (r < 0)
		return r;
	size_t users = count_users(&c->folders), sharers = users;
	/* With few folders, all limits are those of a user alone anyway. */
	if (users > FEW_USERS) {
		claimants = calloc(users, sizeof(*claimants));
		r = claimants ? find_claimants(c, queue, users, claimants, &sharers) : -ENOMEM;
	}
	if (r == 0)
		r = list_all(c, queue, claimants, limits_for(sharers ? sharers : 1), &list);
	if (r < 0) {
		claims_list_finish(&list);
		return r;
	}
	c->swept = true;
	*ret = list;
	return 0;
}

int claims_own_folder(struct claims *c, bool make, int *ret_fd)
{
	const struct claim_folders *folders = &c->folders;
	int r = c->own_fd < 0 ? -ENOENT : 0;
	if (r < 0 && make)
		r = claim_folder_open_own(c->shared_fd, &c->own_fd);
	for (size_t i = 0; r < 0 && !make && i < folders->count; i++)
		if (folders->folders[i].owner == geteuid())
			r = claim_folder_open(c->shared_fd, &folders->folders[i], &c->own_fd);
	if (r == 0)
		*ret_fd = c->own_fd;
	return r;
}

void claims_list_finish(struct claims_list *list)
{
	free(list->claims);
	*list = (struct claims_list){0};
}
