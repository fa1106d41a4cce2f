/* SPDX-License-Identifier: MIT */
#include "base/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/trust_private.h"

#define FLAGS      (O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
#define DRAFT_ROOM 32

static int create(int dir_fd, const char *name)
{
	return openat(dir_fd, name, FLAGS | O_CREAT | O_EXCL, 0600);
}

static int open_regular(const char *path, int *ret_fd, enum named_file_origin *ret_origin, struct gd_error *err)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	int r = trust_open_parent_stable(path, &dir_fd, &name, err);
	if (r < 0)
		return r;
	*ret_origin = trust_check_place(dir_fd, NULL) < 0 ? NAMED_FILE_MOVABLE : NAMED_FILE_FOUND;
	int fd = openat(dir_fd, name, FLAGS | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		*ret_origin = NAMED_FILE_CREATED;
		fd = create(dir_fd, name);
	}
	if (fd < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	*ret_fd = fd;
	return 0;
}

static int make_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

static bool is_of_others(const struct stat *st)
{
	return st->st_uid != 0 && st->st_uid != geteuid();
}

/* The descriptor that the path names; INT_MAX: one that does not exist; -1: it names none. */
static int find_number(const char *path)
{
	static const char *const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	for (int fd = 0; fd < 3; fd++)
		if (strcmp(path, names[fd]) == 0)
			return fd;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		size_t n = strlen(folders[i]);
		if (strncmp(path, folders[i], n) != 0 || !path[n] || path[n + strspn(path + n, "0123456789")])
			continue;
		unsigned long number = strtoul(path + n, NULL, 10);
		return number < INT_MAX ? (int)number : INT_MAX;
	}
	return -1;
}

bool named_file_is_passed(const char *path)
{
	return find_number(path) >= 0;
}

bool named_file_is_stdout(const char *path)
{
	return strcmp(path, "-") == 0 || find_number(path) == STDOUT_FILENO;
}

/* Duplicates the descriptor. Opening a file again would give it a second position, and messages would overwrite
 * results. */
static int open_passed(int number, int *ret_fd, struct gd_error *err)
{
	if (!file_is_passed(number))
		return error_set(err, -ENOENT, "%s", error_words(-ENOENT));
	if ((fcntl(number, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return error_set(err, -EBADF, "it is not open for writing");
	*ret_fd = fcntl(number, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? error_set(err, -errno, "%s", error_words(-errno)) : 0;
}

/* NULL, or why the file must not be used: reading from or writing to it can take forever. Devices of users without an
 * id in this user namespace are accepted: in a container, /dev/null is one of them. */
static const char *find_objection(const struct stat *st, const struct trust_way *way, bool trust)
{
	if (way->chooser && !trust)
		return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) ? trust_objection_behind_link(way, st)
		       : way->unmapped                              ? TRUST_LINK_OF_UNMAPPED
								    : TRUST_LINK_OF_OTHERS;
	if (S_ISFIFO(st->st_mode) && is_of_others(st))
		return "it is a pipe of another user";
	bool is_device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
	bool is_theirs = is_of_others(st) && !trust_is_unmapped(st->st_uid);
	return is_device && is_theirs ? "it is a device of another user" : NULL;
}

/* Begins at an open directory: the path of the current directory may lead elsewhere by now. */
static int open_path(const char *path, struct trust_way *way, int *ret_fd)
{
	cleanup_(closep) int here = path[0] == '/' ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0 && path[0] != '/')
		return -errno;
	/* The walk does not examine the directory that the path begins at. */
	way->replaceable = way->replaceable || (here >= 0 && trust_check_place(here, NULL) < 0);
	return trust_open_any(here, path, ret_fd, way);
}

int named_file_find(
	const char *path, bool trust, struct trust_way *way, int *ret_fd, struct stat *ret, const char **ret_objection)
{
	cleanup_(closep) int fd = -1;
	struct stat st;
	int number = find_number(path), r = 0;
	bool passed = number >= 0;
	*ret_objection = NULL;
	if (!passed)
		r = open_path(path, way, &fd);
	else if (!file_is_passed(number))
		r = -ENOENT; /* as the kernel reports closed descriptors */
	else if ((fd = open(path, O_PATH | O_CLOEXEC)) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_objection = passed ? NULL : find_objection(&st, way, trust);
	if (*ret_objection)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	*ret = st;
	return 0;
}

static int open_found(int place, const struct stat *st, int *ret_fd, struct gd_error *err)
{
	char found[32];
	if (S_ISREG(st->st_mode))
		return error_set(err, -EPERM, "it has just been replaced");
	if (!S_ISFIFO(st->st_mode) && !S_ISCHR(st->st_mode))
		return error_set(err, -EINVAL, "it is neither a file, nor a pipe, nor a character device");
	snprintf(found, sizeof(found), "/proc/self/fd/%d", place);
	*ret_fd = open(found, FLAGS);
	if (*ret_fd < 0 && errno == ENXIO && S_ISFIFO(st->st_mode))
		return error_set(err, -ENXIO, "no process is reading from it");
	return *ret_fd < 0 ? error_set(err, -errno, "%s", error_words(-errno)) : 0;
}

int named_file_open_special(const char *path, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int place = -1, fd = -1;
	struct trust_way way = TRUST_WAY_INIT;
	const char *objection;
	struct stat st;
	int number = find_number(path);
	if (number >= 0)
		return open_passed(number, ret_fd, err);
	int r = named_file_find(path, false, &way, &place, &st, &objection);
	if (r < 0)
		return error_set(err, r, "%s", objection ? objection : error_words(r));
	if (way.replaceable)
		return error_set(err, -EPERM, "it is a %s that another user may have %s; pass it with '>'",
			S_ISFIFO(st.st_mode) ? "pipe" : "device", S_ISFIFO(st.st_mode) ? "moved there" : "chosen");
	r = open_found(place, &st, &fd, err);
	if (r < 0)
		return r;
	r = make_blocking(fd);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	*ret_fd = take_fd(&fd);
	return 0;
}

int named_file_open(const char *path, int *ret_fd, enum named_file_origin *ret_origin, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct stat st;
	int number = find_number(path);
	*ret_origin = number >= 0 ? NAMED_FILE_PASSED : NAMED_FILE_FOUND;
	if (number >= 0)
		return open_passed(number, ret_fd, err);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return named_file_open_special(path, ret_fd, err);
	int r = open_regular(path, &fd, ret_origin, err);
	if (r < 0)
		return r;
	/* In the meantime, another user may have put a pipe there and never read from it. */
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EPERM, "it has just been replaced");
	if (is_of_others(&st))
		return error_set(err, -EPERM, "it belongs to another user");
	const char *objection = trust_objection(fd);
	if (objection)
		return trust_refuse_path(path, false, "remove it, or choose another file", err,
			"it %s, so others could change it afterwards", objection);
	r = make_blocking(fd);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	*ret_fd = take_fd(&fd);
	return 0;
}

/*
 * Creates a file with an unpredictable name. The name does not contain that of the final file, which may have the
 * maximum length. Returns its descriptor, or a negative errno value.
 */
static int create_draft(int dir_fd, char ret[DRAFT_ROOM])
{
	uint64_t random;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -errno;
	snprintf(ret, DRAFT_ROOM, ".gpuq-%016" PRIx64, random);
	int fd = create(dir_fd, ret);
	return fd < 0 ? -errno : fd;
}

int named_file_replace(int dir_fd, const char *name, int old_fd, const struct text *content)
{
	char draft[DRAFT_ROOM];
	cleanup_(closep) int fd = create_draft(dir_fd, draft);
	if (fd < 0)
		return fd;
	int r = file_write_all(fd, content->data, content->length);
	if (r == 0 && old_fd >= 0)
		file_copy_access(old_fd, fd);
	if (r == 0 && renameat(dir_fd, draft, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, draft, 0);
	return r;
}
