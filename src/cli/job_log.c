/* SPDX-License-Identifier: MIT */
#include "cli/job_log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"

static const char *skip_digits(const char *s, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!isdigit((unsigned char)s[i]))
			return NULL;
	return s + count;
}

/* Skips the text and at least one digit after it; p may be NULL. */
static const char *skip_number(const char *p, const char *before)
{
	size_t length = strlen(before);
	if (!p || strncmp(p, before, length) != 0)
		return NULL;
	size_t digits = strspn(p + length, "0123456789");
	return digits ? p + length + digits : NULL;
}

/* job_7_attempt_1_slurm_4711_0123456789abcdef.log: attempt_log_name_on_cluster(). */
static bool is_name_on_cluster(const char *name, uint64_t id)
{
	char start[48];
	snprintf(start, sizeof(start), "job_%" PRIu64 "_attempt_", id);
	const char *p = skip_number(skip_number(name, start), "_slurm_");
	return p && *p == '_' && strspn(p + 1, "0123456789abcdef") == 16 && strcmp(p + 17, ".log") == 0;
}

/* job_20261115_214220_7.log, or …_7_2.log if that name existed already: the names that keepers choose on one machine.
 */
static bool is_name_of(const char *name, uint64_t id)
{
	char number[32];
	int n = snprintf(number, sizeof(number), "_%" PRIu64, id);
	if (is_name_on_cluster(name, id))
		return true;
	if (strncmp(name, "job_", 4) != 0)
		return false;
	const char *p = skip_digits(name + 4, 8);
	p = p && *p == '_' ? skip_digits(p + 1, 6) : NULL;
	if (!p || strncmp(p, number, (size_t)n) != 0)
		return false;
	p += n;
	if (*p == '_') {
		size_t digits = strspn(p + 1, "0123456789");
		p = digits ? p + 1 + digits : p;
	}
	return strcmp(p, ".log") == 0;
}

static bool same_file(int fd, int other_fd)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && fstat(other_fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A default folder must not be reached through a link of another user. */
static int open_folder(const char *path, bool is_named, int *ret_fd)
{
	if (!is_named)
		return trust_open_directory(path, false, ret_fd, NULL);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* If others are shown the log, refuses a folder into which another user could have moved a private file. */
static int open_folder_for(const struct job_log_source *s, const char *path, bool is_named, int *ret_fd)
{
	cleanup_(closep) int fd = -1;
	if (!s->for_everybody)
		return open_folder(path, is_named, ret_fd);
	int r = trust_open_directory(path, true, &fd, NULL);
	if (r < 0 || trust_objection(fd))
		return r < 0 ? r : -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

static bool is_log_folder(int fd, const struct job_log_source *s)
{
	cleanup_(closep) int log_dir = -1;
	return open_folder(s->log_dir, s->is_named, &log_dir) == 0 && same_file(fd, log_dir);
}

static bool is_of_root(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_uid == 0;
}

/* Only files of the journal's owner may be shown. */
static bool is_of_owner(int fd, const struct stat *journal)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_uid == journal->st_uid;
}

static int refuse(const char *path, struct gd_error *err)
{
	return error_set(err, -EPERM,
		"cannot open log '%s': it is not a regular file in the log folder, or another user may have put it there; 'gpuq web --log-dir FOLDER' names another folder",
		path);
}

char *job_log_moved_path(const char *path, uint64_t id, const char *log_dir)
{
	const char *slash = strrchr(path, '/');
	char *moved;
	if (!slash || !is_name_of(slash + 1, id) || asprintf(&moved, "%s/%s", log_dir, slash + 1) < 0)
		return NULL;
	return moved;
}

static int open_log(const char *path, uint64_t id, const struct job_log_source *s, int *ret_fd, struct gd_error *err)
{
	const char *slash = strrchr(path, '/');
	struct stat journal;
	if (path[0] != '/' || !slash[1] || fstat(s->journal_fd, &journal) < 0)
		return refuse(path, err);
	bool trusted = !trust_objection(s->journal_fd), is_name = is_name_of(slash + 1, id);
	cleanup_(freep) char *folder = strndup(path, (size_t)(slash - path) + 1);
	cleanup_(closep) int dir_fd = -1;
	int r = folder ? open_folder_for(s, folder, trusted || s->is_named, &dir_fd) : -ENOMEM;
	if (r < 0)
		return r == -EPERM ? refuse(path, err)
				   : error_set(err, r, "cannot open log '%s': %s", path, error_words(r));
	bool is_folder = is_log_folder(dir_fd, s);
	if (trusted ? !is_folder && !is_name : !is_folder || !is_name || !is_of_owner(dir_fd, &journal))
		return refuse(path, err);
	cleanup_(closep) int fd = file_open_regular(dir_fd, slash + 1, O_NOFOLLOW);
	if (fd == -ELOOP || fd == -EINVAL || fd == -EISDIR)
		return refuse(path, err);
	if (fd < 0)
		return error_set(err, fd, "cannot open log '%s': %s", path, error_words(fd));
	if (!is_of_owner(fd, &journal) && !(trusted && is_of_root(fd)))
		return refuse(path, err);
	*ret_fd = take_fd(&fd);
	return 0;
}

int job_log_open(const char *path, uint64_t id, const struct job_log_source *s, int *ret_fd, struct gd_error *err)
{
	int r = open_log(path, id, s, ret_fd, err);
	/* The directory of the queue may have been renamed, and another user may have taken the old path. */
	cleanup_(freep) char *moved = r < 0 ? job_log_moved_path(path, id, s->log_dir) : NULL;
	return moved && open_log(moved, id, s, ret_fd, NULL) == 0 ? 0 : r;
}
