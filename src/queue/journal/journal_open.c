/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"
#include "queue/journal/content_store.h"
#include "queue/journal/tally.h"
#include "queue/journal/trust.h"

/* Follows links of other users, too: reading needs no trust. */
static int resolve_any(const char *path, char **ret, const char **ret_objection, struct gd_error *err)
{
	cleanup_(freep) char *target = NULL;
	bool foreign = false;
	int r = trust_follow_links(path, &target, &foreign);
	if (r < 0)
		return error_set(err, r, "cannot open journal '%s': %s", path, error_words(r));
	const char *slash = strrchr(target, '/');
	cleanup_(freep) char *dir =
		slash ? strndup(target, slash == target ? 1 : (size_t)(slash - target)) : strdup(".");
	const char *base = slash ? slash + 1 : target;
	if (!dir)
		return error_set(err, -ENOMEM, "cannot open journal '%s': out of memory", path);
	if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return error_set(err, -EISDIR, "cannot open journal '%s': it is a directory; name a file", path);
	cleanup_(freep) char *real_dir = realpath(dir, NULL);
	if (!real_dir)
		return error_set(
			err, -errno, "cannot open journal '%s': directory '%s': %s", path, dir, error_words(errno));
	char *joined;
	if (asprintf(&joined, "%s/%s", strcmp(real_dir, "/") == 0 ? "" : real_dir, base) < 0)
		return error_set(err, -ENOMEM, "cannot open journal '%s': out of memory", path);
	*ret = joined;
	*ret_objection = foreign ? TRUST_FOREIGN_LINK : NULL;
	return 0;
}

/* The path of a file in an open directory. */
static int path_below(int dir_fd, const char *name, char **ret)
{
	char dir[PATH_MAX];
	struct stat st, found;
	int r = file_path(dir_fd, dir);
	if (r < 0)
		return r;
	if (fstat(dir_fd, &st) < 0 || lstat(dir, &found) < 0)
		return -errno;
	if (st.st_dev != found.st_dev || st.st_ino != found.st_ino)
		return -ESTALE;
	if (asprintf(ret, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name) < 0)
		return -ENOMEM;
	return 0;
}

int journal_locate(const struct journal *j, char **ret)
{
	return path_below(j->parent_fd, j->name, ret);
}

/* A link has replaced the journal, for example one that git has checked out: it would hide the jobs of the queue. */
static bool is_link_beside_a_folder(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;
	int n = snprintf(folder, sizeof(folder), "%s.d/append.lock", path);
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && n > 0 && (size_t)n < sizeof(folder) &&
	       lstat(folder, &st) == 0;
}

int journal_resolve(const char *path, char **ret, const char **ret_objection, struct gd_error *err)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	const char *objection = NULL;
	size_t length = strlen(path);
	int r = trust_open_parent(path, false, &dir_fd, &name, NULL);
	bool is_directory =
		length == 0 || path[length - 1] == '/' || (name && (!strcmp(name, ".") || !strcmp(name, "..")));
	if (r == 0 && !is_directory)
		r = path_below(dir_fd, name, ret);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EIO)
		return error_set(err, r, "cannot open journal '%s': %s", path, error_words(r));
	if (r < 0 || is_directory) {
		int e = resolve_any(path, ret, &objection, err);
		if (e < 0)
			return e;
		if (!objection)
			objection = r == -EPERM ? TRUST_FOREIGN_WAY : TRUST_JUST_REPLACED;
	}
	if (!objection && is_link_beside_a_folder(path))
		objection = TRUST_REPLACED_BY_LINK;
	if (ret_objection)
		*ret_objection = objection;
	return 0;
}

/*
 * Called before the check of the directory, whose message would propose --trust to root. The descriptor that is opened
 * later is checked again.
 */
static int check_root(const struct journal *j, struct gd_error *err)
{
	cleanup_(closep) int fd = geteuid() == 0 ? openat(j->parent_fd, j->name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	return fd < 0 ? 0 : trust_check_root(fd, j->path, err);
}

/* With O_CREAT alone, the kernel may refuse files of other users in sticky directories before we can report why. */
static int open_or_create(int dir_fd, const char *name, bool *ret_created)
{
	const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
	for (int tries = 0; tries < 100; tries++) {
		int fd = openat(dir_fd, name, flags);
		*ret_created = fd < 0 && errno == ENOENT;
		if (*ret_created)
			fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL, 0600);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

bool journal_parent_is_removed(const struct journal *j)
{
	struct stat st;
	return fstat(j->parent_fd, &st) < 0 ? errno == ESTALE : st.st_nlink == 0;
}

/* Opens the directory of the journal; opens it again if it was removed and may have been created again. */
static int find_parent(struct journal *j, struct gd_error *err)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	if (j->parent_fd >= 0 && !journal_parent_is_removed(j))
		return 0;
	const char *dir = j->parent_path;
	int r = j->accepted ? 0 : trust_open_directory(dir, false, &fd, &why);
	if (j->accepted)
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (j->accepted && fd < 0)
		r = -errno;
	if (r == -EPERM)
		return trust_refuse(j->path, TRUST_FOREIGN_WAY, err);
	if (r < 0)
		return error_set(err, r, "cannot open journal '%s': directory '%s': %s", j->path, dir, error_words(r));
	closep(&j->parent_fd);
	j->parent_fd = take_fd(&fd);
	return 0;
}

/* The mode of a directory may have changed since the last check. */
static int open_parent(struct journal *j, struct gd_error *err)
{
	int r = find_parent(j, err);
	if (r == 0)
		r = check_root(j, err);
	return r < 0 || j->accepted ? r : trust_check_journal_directory(j->parent_fd, j->path, err);
}

/* NFS with all_squash and CIFS with uid= give new files to another user. Removes the file, which would be refused
 * again. */
static int refuse_new_owner(const struct journal *j, const struct stat *st, struct gd_error *err)
{
	struct stat found;
	bool is_new = fstatat(j->parent_fd, j->name, &found, AT_SYMLINK_NOFOLLOW) == 0 && found.st_dev == st->st_dev &&
		      found.st_ino == st->st_ino && found.st_size == 0;
	if (is_new)
		(void)unlinkat(j->parent_fd, j->name, 0);
	return error_set(err, -EPERM,
		"cannot create journal '%s': the file system gives new files to user %u; use --jobs-file with a file on another file system",
		j->path, (unsigned)st->st_uid);
}

int journal_open_file(struct journal *j, struct gd_error *err)
{
	int r = open_parent(j, err);
	if (r < 0)
		return r;
	bool created;
	cleanup_(closep) int fd = open_or_create(j->parent_fd, j->name, &created);
	if (fd < 0)
		return error_set(err, -errno, "cannot open journal '%s': %s", j->path, error_words(errno));
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot open journal '%s': %s", j->path, error_words(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "cannot open journal '%s': it is not a regular file", j->path);
	r = trust_check_root(fd, j->path, err);
	if (r == 0 && !j->accepted)
		r = trust_check(fd, j->path, TRUST_OTHER_JOURNAL, err);
	if (r < 0)
		return created && st.st_uid != geteuid() ? refuse_new_owner(j, &st, err) : r;
	j->fresh = created;
	j->made = j->made || created;
	j->original = false;
	r = journal_recognize(fd, st.st_size);
	if (r == -EPROTONOSUPPORT)
		return journal_refuse_version(j, err);
	j->recognized = r > 0;
	j->original = r == JOURNAL_ORIGINAL;
	closep(&j->fd);
	j->fd = take_fd(&fd);
	j->dev = st.st_dev;
	j->ino = st.st_ino;
	j->birth = file_birth_ns(j->fd);
	return 0;
}

/* The message must not lead users to remove the folder: pending jobs need the environments and scripts in it. */
static int refuse_folder(
	const struct journal *j, const char *shown, const struct stat *st, const char *objection, struct gd_error *err)
{
	cleanup_(text_finish) struct text way_out = {0};
	/* An incomplete command would be dangerous. */
	bool fits = strlen(shown) + strlen(j->dir_path) < sizeof(err->message) / 2;
	if (trust_is_user(st->st_uid) && !fits) {
		text_append_string(&way_out,
			"use a new queue or, if nobody has changed this one, remove others' write permission and keep the directory, which the jobs need");
	} else if (trust_is_user(st->st_uid)) {
		/* A default access list would give others write access to new files, too. */
		bool by_list = !(st->st_mode & S_IWOTH) && strstr(objection, "access list");
		text_appendf(&way_out, "use a new queue or, if nobody has changed this one, run %s ",
			by_list ? "setfacl -R -b" : "chmod -R go-w");
		shell_quote(&way_out, j->dir_path, strlen(j->dir_path));
		text_append_string(&way_out, " and keep the directory, which the jobs need");
	} else {
		text_append_string(&way_out, "use another queue with --jobs-file");
	}
	if (text_error(&way_out))
		return error_set(err, -ENOMEM, "cannot open directory '%s': out of memory", shown);
	return error_set(err, -EPERM,
		"refusing to use directory '%s': it %s, so other users could run commands as you; %s", shown, objection,
		text_string(&way_out));
}

/*
 * The contents of the folder are executed, like the journal itself, so no other user may write to it. In a directory in
 * which all users may create files, another user may have created the folder first. If the journal of another user is
 * accepted, so is a folder of that user.
 */
static int check_folder(const struct journal *j, int fd, const char *shown, struct gd_error *err)
{
	struct stat st, journal;
	const char *objection = trust_objection(fd);
	if (!objection)
		return 0;
	if (fstat(fd, &st) < 0 || (j->accepted && fstat(j->fd, &journal) < 0))
		return error_set(err, -errno, "cannot examine directory '%s': %s", shown, error_words(errno));
	if (j->accepted) {
		bool ours = st.st_uid == geteuid() || st.st_uid == 0 || st.st_uid == journal.st_uid;
		if (ours && !(st.st_mode & ~journal.st_mode & (S_IWGRP | S_IWOTH)))
			return 0;
	}
	return refuse_folder(j, shown, &st, objection, err);
}

/* Commands that were run with sudo may have created parts of the folder. The remedy is left out if it does not fit into
 * the message: a truncated command would be dangerous. */
int journal_refuse_part(const struct journal *j, int at, const char *name, int code, struct gd_error *err)
{
	cleanup_(text_finish) struct text way_out = {0};
	cleanup_(freep) char *path = NULL;
	struct stat st;
	const char *shown = path_below(at, name, &path) == 0 ? path : name;
	bool is_refused = code == -EACCES || code == -EPERM;
	bool fits = strlen(shown) + strlen(j->dir_path) < sizeof(err->message) / 2;
	if (is_refused && fits && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == 0) {
		text_appendf(&way_out, "; it belongs to root: run sudo chown -R %u ", (unsigned)geteuid());
		shell_quote(&way_out, j->dir_path, strlen(j->dir_path));
	}
	return error_set(err, code, "cannot open '%s': %s%s", shown, error_words(code),
		text_error(&way_out) ? "" : text_string(&way_out));
}

/* Opens one of our directories; creates it if it is missing. */
static int open_dir(
	const struct journal *j, int at, const char *path, const char *shown, int *ret_fd, struct gd_error *err)
{
	bool created = mkdirat(at, path, 0700) == 0;
	if (!created && errno != EEXIST)
		return error_set(err, -errno, "cannot create directory '%s': %s", shown, error_words(errno));
	cleanup_(closep) int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return journal_refuse_part(j, at, path, -errno, err);
	if (created)
		file_remove_default_list(fd);
	if (created && at == j->parent_fd)
		file_write_gitignore(fd, 0600); /* environments and scripts can contain secrets */
	int r = check_folder(j, fd, shown, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static const char *folder_name(const struct journal *j)
{
	return j->dir_path + (j->name - j->path);
}

/*
 * Users make a project readable with chmod -R, but whoever can open these files can also lock them. The rest of the
 * folder stays readable. The mode of runner.lock is changed by name, because closing a descriptor of this file would
 * release the lock of a runner; no other user can replace a name in a folder that was checked.
 */
static void protect_locks(const struct journal *j, int dir_fd, int lock_fd)
{
	struct stat st;
	if (j->accepted)
		return;
	lock_protect(lock_fd);
	bool is_open = fstatat(dir_fd, "runner.lock", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		       st.st_uid == geteuid() && st.st_mode & (S_IRWXG | S_IRWXO);
	if (is_open && fchmodat(dir_fd, "runner.lock", st.st_mode & S_IRWXU, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* best effort: some file systems have no modes */
}

/* The same for folders: environments and scripts can contain secrets, and only this user and root control keepers. */
static void protect_part(const struct journal *j, int fd)
{
	struct stat st;
	if (fd < 0 || j->accepted || fstat(fd, &st) < 0 || st.st_uid != geteuid() || !(st.st_mode & 077))
		return;
	if (fchmod(fd, st.st_mode & 0700) < 0)
		return; /* best effort: some file systems have no modes */
}

/* The folder is missing until a script is stored. */
static int check_scripts(const struct journal *j, int dir_fd, struct gd_error *err)
{
	if (j->accepted)
		return 0;
	cleanup_(closep) int fd = openat(dir_fd, STORE_SCRIPTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return journal_refuse_part(j, dir_fd, STORE_SCRIPTS, -errno, err);
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/" STORE_SCRIPTS, j->dir_path);
	int r = check_folder(j, fd, path, err);
	if (r == 0)
		protect_part(j, fd);
	return r;
}

/* A queue whose `home` cannot be read would look like a copy. */
static int check_home(const struct journal *j, int dir_fd, struct gd_error *err)
{
	if (faccessat(dir_fd, "home", R_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == EACCES)
		return journal_refuse_part(j, dir_fd, "home", -EACCES, err);
	return 0;
}

/*
 * Refuses entries that belong to other users, who were able to write to the folder in the past: the owner of a lock
 * file could block the queue, and the owner of a log could read it. Environments and scripts are checked when a job
 * starts.
 */
static int check_owners(const struct journal *j, int dir_fd, const char *part, struct gd_error *err)
{
	bool is_top = strcmp(part, ".") == 0;
	int fd = openat(dir_fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		int code = -errno;
		closep(&fd);
		return error_set(err, code, "cannot open directory '%s/%s': %s", j->dir_path, part, error_words(code));
	}
	for (const struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (strcmp(e->d_name, "..") == 0 || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			st.st_uid == 0 || trust_is_user(st.st_uid))
			continue;
		return error_set(err, -EPERM,
			"refusing to use '%s%s%s/%s': it belongs to another user, who was able to change everything in this folder; look at the jobs with 'gpuq status', move '%s' and its folder away, and add the jobs again",
			j->dir_path, is_top ? "" : "/", is_top ? "" : part, e->d_name, j->name);
	}
	return 0;
}

/* Opens a file of the folder. An archive of another user can contain a hard link to a file of this user. */
static int open_part(const struct journal *j, int dir_fd, const char *name, int *ret_fd, struct gd_error *err)
{
	struct stat st;
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return journal_refuse_part(j, dir_fd, name, -errno, err);
	if (st.st_nlink > 1)
		return error_set(err, -EPERM,
			"refusing to write to '%s/%s': it has several names (hard links), and may be another file of yours; replace the file with a copy of it",
			j->dir_path, name);
	*ret_fd = take_fd(&fd);
	return 0;
}

int journal_open_folder(struct journal *j, struct gd_error *err)
{
	static const char *const parts[] = {"keepers", STORE_ENVIRONMENTS};
	cleanup_(closep) int dir_fd = -1;
	int r = open_parent(j, err);
	if (r == 0)
		r = open_dir(j, j->parent_fd, folder_name(j), j->dir_path, &dir_fd, err);
	for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		cleanup_(closep) int part_fd = -1;
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s/%s", j->dir_path, parts[i]);
		r = open_dir(j, dir_fd, parts[i], path, &part_fd, err);
		protect_part(j, part_fd);
	}
	if (r == 0)
		r = check_scripts(j, dir_fd, err);
	if (r == 0)
		r = check_home(j, dir_fd, err);
	if (r == 0 && !j->accepted)
		r = check_owners(j, dir_fd, ".", err);
	if (r == 0 && !j->accepted)
		r = check_owners(j, dir_fd, "keepers", err);
	if (r < 0)
		return r;
	cleanup_(closep) int lock_fd = -1, counts_fd = -1;
	r = open_part(j, dir_fd, "append.lock", &lock_fd, err);
	if (r == 0)
		r = open_part(j, dir_fd, TALLY_NAME, &counts_fd, err);
	if (r < 0)
		return r;
	protect_locks(j, dir_fd, lock_fd);
	closep(&j->dir_fd);
	closep(&j->lock_fd);
	closep(&j->counts_fd);
	j->dir_fd = take_fd(&dir_fd);
	j->counts_fd = take_fd(&counts_fd);
	j->lock_fd = take_fd(&lock_fd);
	return 0;
}

/* A file that was damaged at its beginning is still recognized by the counters in its folder, if there is one. */
static int check_recognized(const struct journal *j, struct gd_error *err)
{
	if (j->recognized || faccessat(j->parent_fd, folder_name(j), F_OK, 0) == 0)
		return 0;
	return journal_refuse_unrecognized(j, err);
}

int journal_open_at(int parent_fd, const char *path, bool accepted, struct journal **ret, struct gd_error *err)
{
	cleanup_(journal_closep) struct journal *j = calloc(1, sizeof(*j));
	if (!j)
		return error_set(err, -ENOMEM, "cannot open journal '%s': out of memory", path);
	j->fd = j->dir_fd = j->lock_fd = j->counts_fd = j->parent_fd = -1;
	j->accepted = accepted;
	j->path = strdup(path);
	if (!j->path || asprintf(&j->dir_path, "%s.d", j->path) < 0)
		return error_set(err, -ENOMEM, "cannot open journal '%s': out of memory", path);
	j->name = strrchr(j->path, '/') + 1;
	j->parent_path = strndup(j->path, j->name - 1 == j->path ? 1 : (size_t)(j->name - 1 - j->path));
	if (!j->parent_path)
		return error_set(err, -ENOMEM, "cannot open journal '%s': out of memory", path);
	if (parent_fd >= 0 && (j->parent_fd = fcntl(parent_fd, F_DUPFD_CLOEXEC, 3)) < 0)
		return error_set(err, -errno, "cannot open journal '%s': %s", path, error_words(errno));
	int r = journal_open_file(j, err);
	if (r == 0)
		r = check_recognized(j, err);
	if (r == 0)
		r = journal_open_folder(j, err);
	if (r < 0)
		return r;
	*ret = take_ptr(j);
	return 0;
}

/*
 * Jobs, runners and git use the path of the journal, so it must lead to the directory that was checked, now and later.
 * Between journal_resolve() and the check, another user may have put a link of this user into the path.
 */
static int check_path(const struct journal *j, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct stat st, opened;
	int r = trust_open_directory(j->parent_path, true, &fd, NULL);
	if (r == 0 && (fstat(fd, &st) < 0 || fstat(j->parent_fd, &opened) < 0))
		r = -errno;
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EIO)
		return error_set(err, r, "cannot open journal '%s': %s", j->path, error_words(r));
	bool same = r == 0 && st.st_dev == opened.st_dev && st.st_ino == opened.st_ino;
	return same ? 0 : trust_refuse(j->path, TRUST_JUST_REPLACED, err);
}

int journal_open(const char *path, bool accepted, struct journal **ret, struct gd_error *err)
{
	cleanup_(freep) char *real = NULL;
	cleanup_(journal_closep) struct journal *j = NULL;
	const char *objection = NULL;
	int r = journal_resolve(path, &real, &objection, err);
	if (r == 0)
		r = trust_check_links(path, objection, accepted, err);
	if (r == 0)
		r = journal_open_at(-1, real, accepted, &j, err);
	if (r == 0 && !accepted)
		r = check_path(j, err);
	if (r == 0)
		*ret = take_ptr(j);
	return r;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	journal_unlock(j);
	closep(&j->fd);
	closep(&j->dir_fd);
	closep(&j->lock_fd);
	closep(&j->counts_fd);
	closep(&j->parent_fd);
	free(j->path);
	free(j->parent_path);
	free(j->dir_path);
	free(j);
}

void journal_closep(struct journal **j)
{
	journal_close(*j);
}
