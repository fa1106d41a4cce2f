/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: records the changes that gpuq and its keepers make to the files of a queue, and simulates another
 * boot.
 *
 *     POWER_LOG     the file to which a line is appended for each call (format: crash_states.py)
 *     POWER_ROOT    only files below this directory count
 *     POWER_BOOT    a file that is read instead of the kernel's boot id
 *     POWER_INODES  "here=there …": files with the inode number `here` report `there` instead
 *
 * A write is recorded before it is executed, a sync before and after: data recorded as synced is on disk. Only programs
 * called gpuq and gpuq-… record; the commands of jobs do not.
 */
/* Both families of names are replaced: on 64-bit machines they are the same calls. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *log_path, *root, *boot, *inodes;

__attribute__((constructor)) static void begin(void)
{
	boot = getenv("POWER_BOOT");
	inodes = getenv("POWER_INODES");
	root = getenv("POWER_ROOT");
	if (root && strncmp(program_invocation_short_name, "gpuq", 4) == 0)
		log_path = getenv("POWER_LOG");
}

/* ---- The log ---- */

static void log_line(const char *line, size_t size)
{
	int saved = errno;
	int fd = NEXT(open)(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || NEXT(write)(fd, line, size) != (ssize_t)size)
		abort();
	close(fd);
	errno = saved;
}

__attribute__((format(printf, 1, 2))) static void log_words(const char *format, ...)
{
	char line[3 * PATH_MAX];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	log_line(line, (size_t)n);
}

static int below_root(const char *path)
{
	return strncmp(path, root, strlen(root)) == 0 && path[strlen(root)] == '/';
}

/* The path of a descriptor, if it is recorded. */
static int path_of(int fd, char path[PATH_MAX])
{
	char name[40];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static int absolute(int dir, const char *path, char ret[PATH_MAX])
{
	char base[PATH_MAX] = "";
	if (path[0] != '/' && (dir == AT_FDCWD ? !getcwd(base, sizeof(base)) : !path_of(dir, base)))
		return 0;
	int n = path[0] == '/' ? snprintf(ret, PATH_MAX, "%s", path) : snprintf(ret, PATH_MAX, "%s/%s", base, path);
	return n > 0 && n < PATH_MAX && below_root(ret);
}

static int counts(int fd, struct stat *ret)
{
	char path[PATH_MAX];
	return log_path && NEXT(fstat)(fd, ret) == 0 && S_ISREG(ret->st_mode) && path_of(fd, path) && below_root(path);
}

static void log_write(const struct stat *st, long long offset, const unsigned char *data, size_t size)
{
	char *line = malloc(size * 2 + 128);
	if (!line)
		abort();
	int n = sprintf(line, "write %llu %lld ", (unsigned long long)st->st_ino, offset);
	for (size_t i = 0; i < size; i++)
		n += sprintf(line + n, "%02x", data[i]);
	line[n++] = '\n';
	log_line(line, (size_t)n);
	free(line);
}

/* ---- Calls that change files ---- */

ssize_t write(int fd, const void *data, size_t size)
{
	struct stat st;
	if (size > 0 && counts(fd, &st)) {
		off_t at = NEXT(fcntl)(fd, F_GETFL) & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
		log_write(&st, at, data, size);
	}
	return NEXT(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	struct stat st;
	if (counts(fd, &st))
		log_write(&st, offset, data, size);
	return NEXT(pwrite)(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
	return pwrite(fd, data, size, offset);
}

int ftruncate(int fd, off_t size)
{
	struct stat st;
	if (counts(fd, &st))
		log_words("truncate %llu %lld\n", (unsigned long long)st.st_ino, (long long)size);
	return NEXT(ftruncate)(fd, size);
}

int ftruncate64(int fd, off_t size)
{
	return ftruncate(fd, size);
}

static int recorded_sync(int fd, int (*sync)(int))
{
	struct stat st;
	char path[PATH_MAX];
	int known = log_path && NEXT(fstat)(fd, &st) == 0 && path_of(fd, path) &&
		    (below_root(path) || strcmp(path, root) == 0);
	if (known)
		log_words(
			"sync %d %llu %s\n", getpid(), (unsigned long long)st.st_ino, S_ISDIR(st.st_mode) ? path : "");
	int r = sync(fd);
	if (known && r == 0)
		log_words("synced %d %llu\n", getpid(), (unsigned long long)st.st_ino);
	return r;
}

int fsync(int fd)
{
	return recorded_sync(fd, NEXT(fsync));
}

int fdatasync(int fd)
{
	return recorded_sync(fd, NEXT(fdatasync));
}

/* ---- Calls that change directories ---- */

static int recorded_open(int dir, const char *path, int flags, mode_t mode)
{
	char full[PATH_MAX];
	if (boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
		path = boot;
	int known = log_path && (flags & (O_CREAT | O_TRUNC)) && absolute(dir, path, full);
	int existed = known && access(full, F_OK) == 0;
	int fd = NEXT(openat)(dir, path, flags, mode);
	struct stat st;
	if (fd >= 0 && known && NEXT(fstat)(fd, &st) == 0) {
		if (!existed)
			log_words("create %llu %s\n", (unsigned long long)st.st_ino, full);
		else if (flags & O_TRUNC)
			log_words("truncate %llu 0\n", (unsigned long long)st.st_ino);
	}
	return fd;
}

#define MODE_ARGUMENT                                                                                                  \
	mode_t mode = 0;                                                                                               \
	if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
		va_list args;                                                                                          \
		va_start(args, flags);                                                                                 \
		mode = (mode_t)va_arg(args, int);                                                                      \
		va_end(args);                                                                                          \
	}

int open(const char *path, int flags, ...)
{
	MODE_ARGUMENT
	return recorded_open(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	MODE_ARGUMENT
	return recorded_open(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT
	return recorded_open(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT
	return recorded_open(dir, path, flags, mode);
}

int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return recorded_open(AT_FDCWD, path, flags, 0);
}

int __openat_2(int dir, const char *path, int flags);
int __openat_2(int dir, const char *path, int flags)
{
	return recorded_open(dir, path, flags, 0);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	char full[PATH_MAX];
	int r = NEXT(mkdirat)(dir, path, mode);
	if (r == 0 && log_path && absolute(dir, path, full))
		log_words("mkdir %s\n", full);
	return r;
}

int mkdir(const char *path, mode_t mode)
{
	return mkdirat(AT_FDCWD, path, mode);
}

int renameat(int old_dir, const char *old, int new_dir, const char *new)
{
	char from[PATH_MAX], to[PATH_MAX];
	if (log_path && absolute(old_dir, old, from) && absolute(new_dir, new, to))
		log_words("rename %s %s\n", from, to);
	return NEXT(renameat)(old_dir, old, new_dir, new);
}

int rename(const char *old, const char *new)
{
	return renameat(AT_FDCWD, old, AT_FDCWD, new);
}

int linkat(int old_dir, const char *old, int new_dir, const char *new, int flags)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r = NEXT(linkat)(old_dir, old, new_dir, new, flags);
	if (r == 0 && log_path && absolute(old_dir, old, from) && absolute(new_dir, new, to))
		log_words("link %s %s\n", from, to);
	return r;
}

int unlinkat(int dir, const char *path, int flags)
{
	char full[PATH_MAX];
	int r = NEXT(unlinkat)(dir, path, flags);
	if (r == 0 && log_path && !(flags & AT_REMOVEDIR) && absolute(dir, path, full))
		log_words("unlink %s\n", full);
	return r;
}

int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

/* ---- Inode numbers ---- */

static int pretend(int r, struct stat *st)
{
	for (const char *p = inodes; r == 0 && p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : "") {
		unsigned long long here, there;
		if (sscanf(p, "%llu=%llu", &here, &there) == 2 && here == st->st_ino) {
			st->st_ino = there;
			break;
		}
	}
	return r;
}

int fstat(int fd, struct stat *st)
{
	return pretend(NEXT(fstat)(fd, st), st);
}

int stat(const char *path, struct stat *st)
{
	return pretend(NEXT(stat)(path, st), st);
}

int lstat(const char *path, struct stat *st)
{
	return pretend(NEXT(lstat)(path, st), st);
}

/* The restored files were created at another time. */
int statx(int dir, const char *path, int flags, unsigned int mask, struct statx *st)
{
	int r = NEXT(statx)(dir, path, flags, mask, st);
	if (r == 0 && inodes)
		st->stx_mask &= ~STATX_BTIME;
	return r;
}

int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return pretend(NEXT(fstatat)(dir, path, st, flags), st);
}

int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)st);
}

int stat64(const char *path, struct stat64 *st)
{
	return stat(path, (struct stat *)st);
}

int lstat64(const char *path, struct stat64 *st)
{
	return lstat(path, (struct stat *)st);
}

int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return fstatat(dir, path, (struct stat *)st, flags);
}
