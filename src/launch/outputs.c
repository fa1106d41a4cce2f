/* SPDX-License-Identifier: MIT */
#include "launch/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"

/* The files of gpuq launch itself in the output folder. */
static const char *const reserved[] = {"launch.jsonl", "launch.lock", "launch.logs", "launch.slurm"};

#define OUTPUTS_NO_FILE SIZE_MAX /* the owner of a name that no file gets */

void outputs_finish(struct outputs *o)
{
	path_map_finish(&o->owners);
	path_map_finish(&o->above);
	path_map_finish(&o->next);
	arena_finish(&o->arena);
}

const char *outputs_stem(const char *path, size_t *ret_length)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t length = strlen(name);
	const char *dot = strrchr(name, '.');
	size_t stem = dot ? (size_t)(dot - name) : length;
	bool usable = stem > 0 && !(stem <= 2 && strspn(name, ".") >= stem);
	*ret_length = usable ? stem : length;
	return name;
}

/* Whether the path stays below its folder. */
static bool is_below(const char *path)
{
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

bool outputs_is_reserved(const char *path)
{
	size_t first = strcspn(path, "/");
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		if (strlen(reserved[i]) == first && strncmp(path, reserved[i], first) == 0)
			return true;
	return false;
}

/* Files in a folder whose name is reserved have their results in "launch.logs+/…". */
static void leave_reserved(const char *path, char ret[PATH_MAX + 8])
{
	size_t first = strcspn(path, "/");
	bool reserved_folder = path[first] && outputs_is_reserved(path);
	snprintf(ret, PATH_MAX + 8, "%.*s%s%s", (int)first, path, reserved_folder ? "+" : "", path + first);
}

/*
 * A folder "b" of another user next to a b.wav must not add files to the results of b.wav, which are in "b": the
 * results of "b/c.wav" are then in "b+c".
 */
static void leave_owned(const struct outputs *o, char *path)
{
	for (char *slash = path; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		bool owned = path_map_get(&o->owners, path);
		*slash = owned ? '+' : '/';
	}
}

/* Gives the folder to the file. Returns a copy of the path, or NULL: no memory. */
static const char *own(struct outputs *o, const char *output, size_t file)
{
	char above[PATH_MAX + 32];
	char *copy = arena_copy(&o->arena, output, strlen(output));
	if (!copy || !path_map_put(&o->owners, copy, file))
		return NULL;
	snprintf(above, sizeof(above), "%s", output);
	for (char *slash; (slash = strrchr(above, '/'));) {
		*slash = '\0';
		if (path_map_get(&o->above, above))
			break;
		char *folder = arena_copy(&o->arena, above, strlen(above));
		if (!folder || !path_map_put(&o->above, folder, 0))
			return NULL;
	}
	return copy;
}

int outputs_claim(struct outputs *o, const char *output, size_t file)
{
	if (!is_below(output) || outputs_is_reserved(output))
		return 0;
	const size_t *owner = path_map_get(&o->owners, output);
	if (owner)
		return *owner == file;
	return own(o, output, file) ? 1 : -ENOMEM;
}

/* 1 if `output` belongs to the file from now on. */
static int try_output(struct outputs *o, const char *output, size_t file, const char **ret)
{
	if (outputs_is_reserved(output) || path_map_get(&o->owners, output) || path_map_get(&o->above, output))
		return 0;
	*ret = own(o, output, file);
	return *ret ? 1 : -ENOMEM;
}

int outputs_avoid(struct outputs *o, const char *path, size_t length)
{
	const char *copy = arena_copy(&o->arena, path, length);
	return copy && path_map_put(&o->owners, copy, OUTPUTS_NO_FILE) ? 0 : -ENOMEM;
}

/*
 * "b.mp3+2", "b.mp3+3" …. Other users choose the names of files: they must not make each file try all numbers of the
 * files before it.
 */
static int choose_number(struct outputs *o, const char *path, size_t file, const char **ret)
{
	char output[PATH_MAX + 32];
	bool is_new = !path_map_get(&o->next, path);
	const char *key = is_new ? arena_copy(&o->arena, path, strlen(path)) : path;
	size_t *next = key ? path_map_put(&o->next, key, 2) : NULL;
	if (!next)
		return -ENOMEM;
	int r = 0;
	while (r == 0) {
		snprintf(output, sizeof(output), "%s+%zu", path, (*next)++);
		r = try_output(o, output, file, ret);
	}
	return r;
}

int outputs_choose(struct outputs *o, const char *wanted, size_t file, const char **ret)
{
	char path[PATH_MAX + 8], output[PATH_MAX + 32];
	if (strlen(wanted) >= PATH_MAX)
		return -ENAMETOOLONG;
	leave_reserved(wanted, path);
	leave_owned(o, path);
	size_t stem;
	const char *name = outputs_stem(path, &stem);
	size_t before = (size_t)(name - path);
	snprintf(output, sizeof(output), "%.*s", (int)(before + stem), path);
	int r = try_output(o, output, file, ret);
	if (r == 0) {
		snprintf(output, sizeof(output), "%s", path);
		r = try_output(o, output, file, ret);
	}
	/* The whole name is also taken, for example by "b.mp3.wav", which came before b.mp3. */
	if (r == 0)
		r = choose_number(o, path, file, ret);
	return r < 0 ? r : 0;
}

static bool is_ours(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

/* Workers create files with any mode, and a default access list replaces the umask. */
static const char *find_objection(int fd)
{
	const char *objection = trust_objection(fd);
	return objection ? objection : trust_objection_to_new_files(fd);
}

int outputs_close_folder(int fd)
{
	struct stat st;
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	return !(st.st_mode & 0077) || chmod(path, st.st_mode & 0700) == 0 ? 0 : -errno;
}

/*
 * Opens the folder `name`, which may be a link of ours, and makes it if it is missing: then returns OUTPUTS_MADE.
 * With rules->trust, others may be able to replace a directory on the path of the link.
 */
static int enter_folder(
	int dir_fd, const char *name, const struct outputs_rules *rules, int *ret_fd, const char **ret_objection)
{
	struct stat st;
	/* Not writable by the group, whatever the umask: workers follow links in this folder. */
	bool made = mkdirat(dir_fd, name, rules->private ? 0700 : 0755) == 0;
	if (!made && errno != EEXIST)
		return -errno;
	cleanup_(closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	int r = 0;
	if (rules->no_links && !S_ISDIR(st.st_mode))
		return OUTPUTS_TAKEN;
	if (S_ISLNK(st.st_mode)) {
		close_fd(&fd);
		r = trust_open_directory_at(dir_fd, name, !rules->trust, &fd, NULL);
		if (r == -EPERM)
			*ret_objection =
				"has a symbolic link of another user, or a directory that others can write to, in its path";
	} else if (!S_ISDIR(st.st_mode)) {
		r = -ENOTDIR;
	} else if (rules->private) {
		r = outputs_close_folder(fd);
	}
	if (r < 0)
		return r;
	if (made && !rules->trust)
		file_remove_default_list(fd);
	*ret_fd = take_fd(&fd);
	return made ? OUTPUTS_MADE : 0;
}

/* Copies the next name of a path and moves `path` past it. 0 at the end. */
static int next_name(const char **path, char name[NAME_MAX + 1])
{
	const char *p = *path + strspn(*path, "/");
	size_t length = strcspn(p, "/");
	if (length > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, p, length);
	name[length] = '\0';
	*path = p + length;
	return length > 0;
}

/* Also false if it cannot be read. */
static bool is_empty(int dir_fd)
{
	cleanup_(closep) int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return false;
	take_fd(&fd);
	errno = 0;
	for (const struct dirent *d; (d = readdir(dir));)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			return false;
	return errno == 0;
}

static bool is_folder(int fd, const struct stat *folder)
{
	struct stat st;
	return folder && fstat(fd, &st) == 0 && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

int outputs_make_result_folder(
	int root_fd, const char *path, const struct outputs_rules *rules, size_t *ret_taken, const char **ret_objection)
{
	char name[NAME_MAX + 1];
	cleanup_(closep) int fd = -1;
	int r, made = 0;
	*ret_objection = NULL;
	for (const char *rest = path; (r = next_name(&rest, name)) > 0;) {
		int next = -1;
		*ret_taken = (size_t)(rest - path);
		made = enter_folder(fd < 0 ? root_fd : fd, name, rules, &next, ret_objection);
		if (made < 0 || made == OUTPUTS_TAKEN)
			return made;
		close_fd(&fd);
		fd = next;
		if (is_folder(fd, rules->input))
			return OUTPUTS_TAKEN;
		const char *objection = rules->trust ? NULL : find_objection(fd);
		if (rules->unused && !*rest && !made && (objection || !is_empty(fd)))
			return OUTPUTS_TAKEN;
		*ret_objection = objection;
		if (objection)
			return -EPERM;
	}
	return r < 0 ? r : made;
}

int outputs_close_result_folder(int root_fd, const char *path)
{
	char name[NAME_MAX + 1];
	cleanup_(closep) int fd = -1;
	int r;
	while ((r = next_name(&path, name)) > 0) {
		int next = openat(fd < 0 ? root_fd : fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
		close_fd(&fd);
		fd = next;
		r = outputs_close_folder(fd);
		if (r < 0)
			return r;
	}
	return r;
}

int outputs_open_trusted(const char *path, int *ret_fd, struct gd_error *err)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(path, true, &fd, &why);
	const char *objection = r == 0 ? find_objection(fd) : NULL;
	if (r == -ENOENT)
		return r;
	if (r < 0 && r != -EPERM)
		return error_set(err, r, "output folder '%s': %s", path, error_words(r));
	if (r == -EPERM || objection)
		return trust_refuse_path(path, false,
			"choose another output_dir, or set trust_output_dir if you accept that", err,
			"refusing to use output folder '%s': %s%s; others could make this account overwrite its files",
			path, objection ? "it " : "", objection ? objection : why.message);
	*ret_fd = take_fd(&fd);
	return 0;
}

int outputs_make_private(int dirfd, const char *path)
{
	struct stat st;
	if (mkdirat(dirfd, path, 0700) == 0)
		return 0;
	cleanup_(closep) int fd = -1;
	int r = errno == EEXIST ? trust_open_directory_at(dirfd, path, false, &fd, NULL) : -errno;
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return is_ours(&st) ? 0 : -EPERM;
}

void outputs_drop_default_list(int dirfd, const char *path)
{
	cleanup_(closep) int fd = openat(dirfd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		file_remove_default_list(fd);
}

int outputs_make_folder(int dirfd, const char *path, mode_t mode)
{
	if (mkdirat(dirfd, path, mode) == 0)
		return OUTPUTS_MADE;
	struct stat st;
	if (errno == EEXIST)
		return fstatat(dirfd, path, &st, 0) == 0 && S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	if (errno != ENOENT)
		return -errno;
	char above[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path || (size_t)(slash - path) >= sizeof(above))
		return -ENOENT;
	snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	int r = outputs_make_folder(dirfd, above, 0755);
	if (r < 0)
		return r;
	if (mkdirat(dirfd, path, mode) == 0)
		return OUTPUTS_MADE;
	return errno == EEXIST ? 0 : -errno;
}
