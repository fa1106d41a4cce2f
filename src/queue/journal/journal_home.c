/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/journal/journal_private.h"

#define NAME "home"
#define ROOM 64

/* Not in linux/magic.h. */
#define GPFS_MAGIC   0x47504653
#define LUSTRE_MAGIC 0x0BD00BD0
#define ZFS_MAGIC    0x2FC12FC1

/* Some network and FUSE file systems, such as sshfs, give files new numbers at each mount. */
static bool has_lasting_inodes(int fd)
{
	static const unsigned long types[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
		TMPFS_MAGIC, NFS_SUPER_MAGIC, ZFS_MAGIC, LUSTRE_MAGIC, GPFS_MAGIC};
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if ((unsigned long)fs.f_type == types[i])
			return true;
	return false;
}

static bool describe(int dir_fd, char text[ROOM])
{
	struct stat st;
	if (!has_lasting_inodes(dir_fd) || fstat(dir_fd, &st) < 0)
		return false;
	snprintf(text, ROOM, "inode %ju;", (uintmax_t)st.st_ino);
	return true;
}

/* A link comes from elsewhere: the author of a copy could still write to its target. */
static bool read_home(int dir_fd, char text[ROOM])
{
	cleanup_(closep) int fd = file_open_regular(dir_fd, NAME, O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : file_read_full(fd, text, ROOM);
	if (n < 0 || n == ROOM)
		return false;
	text[n] = '\0';
	return true;
}

bool journal_home_is_here(int dir_fd)
{
	char expected[ROOM], found[ROOM];
	return !describe(dir_fd, expected) || (read_home(dir_fd, found) && strcmp(expected, found) == 0);
}

bool journal_home_is_lost(int dir_fd)
{
	return dir_fd < 0 || (faccessat(dir_fd, NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT);
}

/* Replaces the file as a whole: after a power cut, an incomplete one would make the queue look like a copy. */
static int replace(int dir_fd, const char *text)
{
	char draft[32];
	snprintf(draft, sizeof(draft), NAME ".%d", (int)getpid());
	(void)unlinkat(dir_fd, draft, 0);
	cleanup_(closep) int fd = openat(dir_fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, text, strlen(text));
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, draft, dir_fd, NAME) < 0))
		r = -errno;
	/* Some file systems cannot sync a directory and fail with EINVAL. */
	if (r == 0 && fsync(dir_fd) < 0 && errno != EINVAL)
		return -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, draft, 0);
	return r;
}

int journal_home_set(const struct journal *j)
{
	char text[ROOM];
	return !describe(j->dir_fd, text) || journal_home_is_here(j->dir_fd) ? 0 : replace(j->dir_fd, text);
}

/* ---- Copies --------------------------------------------------------------------------------- */

/*
 * The entry is opened once: another user who can change the folder of a trusted queue could replace it with a link or a
 * second name of a file of this user.
 */
static int clean_entry(int dir_fd, const char *name)
{
	struct stat st;
	char opened[32];
	cleanup_(closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	bool is_linked = S_ISLNK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink > 1);
	if (is_linked)
		return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	return S_ISREG(st.st_mode) && chmod(opened, st.st_mode & 0700) < 0 ? -errno : 0;
}

/* Closes fd. */
static int clean(const struct journal *j, int fd, bool is_top, struct gd_error *err)
{
	cleanup_(closedirp) DIR *d = fdopendir(fd);
	if (!d) {
		closep(&fd);
		return error_set(err, -ENOMEM, "cannot examine '%s': out of memory", j->dir_path);
	}
	int r = fchmod(fd, 0700) < 0 ? journal_refuse_part(j, fd, ".", -errno, err) : 0;
	for (const struct dirent *e; r == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = clean_entry(fd, e->d_name);
		if (r < 0)
			return journal_refuse_part(j, fd, e->d_name, r, err);
		bool is_part = is_top && strncmp(e->d_name, "trees", 5) != 0;
		int part = is_part ? openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (part >= 0)
			r = clean(j, part, false, err);
	}
	return r;
}

/*
 * Frozen trees of a copy belong to the queue that was copied. Renames their folder, because prune would run git in
 * them, with the configuration of their repository. Removes the folder if it is empty.
 */
static int set_trees_aside(int dir_fd, char ret_name[JOURNAL_TREES_ROOM])
{
	char name[JOURNAL_TREES_ROOM] = "";
	if (unlinkat(dir_fd, "trees", AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	for (int i = 1; !*name || faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; i++)
		snprintf(name, sizeof(name), "trees.copied-%d", i);
	if (renameat(dir_fd, "trees", dir_fd, name) < 0)
		return errno == ENOENT ? 0 : -errno;
	memcpy(ret_name, name, sizeof(name));
	return 0;
}

int journal_home_clean(struct journal *j, bool trusted, char ret_trees[JOURNAL_TREES_ROOM], struct gd_error *err)
{
	struct stat st;
	*ret_trees = '\0';
	if (fstat(j->fd, &st) == 0 && st.st_nlink > 1)
		return error_set(err, -EPERM,
			"refusing to use '%s': it has several names (hard links), and may be the journal of another queue; remove it, or replace it with a copy",
			j->path);
	int fd = openat(j->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : trusted ? 0 : set_trees_aside(fd, ret_trees);
	if (r < 0) {
		closep(&fd);
		return error_set(err, r, "cannot examine '%s': %s", j->dir_path, error_words(r));
	}
	r = clean(j, fd, true, err);
	return r < 0 ? r : journal_open_folder(j, err);
}
