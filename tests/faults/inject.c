/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: one call of gpuq, of its runner or of its keepers fails.
 *
 *     INJECT_CALL     the call: a name from the list in this file
 *     INJECT_ERRNO    the number of the error
 *     INJECT_COUNTER  a file of two 64-bit numbers, shared by all processes: calls to let pass, then calls to fail
 *     INJECT_LEAST    only allocations of at least this many bytes count (optional)
 *     INJECT_PROCESS  only calls of processes with this name count: gpuq, gpuq-keeper… (optional)
 *
 * Only programs called gpuq and gpuq-… are affected, not the commands of jobs. Their standard output and error, and
 * reads and writes of pipes and terminals, are not affected.
 */
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *call = "";
static volatile int64_t *counter;
static int number;
static size_t least;
static const char *process;

static int is_process(void)
{
	char name[16] = "";
	return !process || (prctl(PR_GET_NAME, name) == 0 && strcmp(name, process) == 0);
}

static int due(const char *name)
{
	if (!counter || strcmp(name, call) != 0 || !is_process())
		return 0;
	if (__atomic_fetch_sub(&counter[0], 1, __ATOMIC_SEQ_CST) > 0)
		return 0;
	if (__atomic_fetch_sub(&counter[1], 1, __ATOMIC_SEQ_CST) <= 0)
		return 0;
	errno = number;
	return 1;
}

static int is_file(int fd)
{
	struct stat st;
	return counter && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

#define NEXT(name)                    ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(name, ...)              return due(#name) ? -1 : NEXT(name)(__VA_ARGS__)
#define FAILS_FILE(as, name, fd, ...) return is_file(fd) && due(as) ? -1 : NEXT(name)(fd, __VA_ARGS__)

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("INJECT_COUNTER"), *name = getenv("INJECT_CALL"), *text = getenv("INJECT_ERRNO");
	if (!path || !name || !text || strncmp(program_invocation_short_name, "gpuq", 4) != 0)
		return;
	int fd = NEXT(open)(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	void *page = NEXT(mmap)(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return;
	number = atoi(text);
	process = getenv("INJECT_PROCESS");
	least = getenv("INJECT_LEAST") ? (size_t)atoll(getenv("INJECT_LEAST")) : 0;
	call = name;
	counter = page;
}

/* ---- Files ---- */

ssize_t write(int fd, const void *data, size_t size)
{
	FAILS_FILE("write", write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	FAILS_FILE("write", pwrite, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
	FAILS_FILE("write", pwrite64, fd, data, size, offset);
}

ssize_t read(int fd, void *data, size_t size)
{
	FAILS_FILE("read", read, fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
	FAILS_FILE("read", pread, fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
	FAILS_FILE("read", pread64, fd, data, size, offset);
}

/* Called by fortified builds. */
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
	(void)room;
	return read(fd, data, size);
}

ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t offset, size_t room)
{
	(void)room;
	return pread64(fd, data, size, offset);
}

int ftruncate(int fd, off_t size)
{
	FAILS(ftruncate, fd, size);
}

int ftruncate64(int fd, off_t size)
{
	return ftruncate(fd, size);
}

int fsync(int fd)
{
	return due("sync") ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
	return due("sync") ? -1 : NEXT(fdatasync)(fd);
}

int renameat(int old_dir, const char *old, int new_dir, const char *new)
{
	return due("rename") ? -1 : NEXT(renameat)(old_dir, old, new_dir, new);
}

int renameat2(int old_dir, const char *old, int new_dir, const char *new, unsigned flags)
{
	return due("rename") ? -1 : NEXT(renameat2)(old_dir, old, new_dir, new, flags);
}

int fstat64(int fd, struct stat64 *st)
{
	return due("stat") ? -1 : NEXT(fstat64)(fd, st);
}

int stat64(const char *path, struct stat64 *st)
{
	return due("stat") ? -1 : NEXT(stat64)(path, st);
}

int lstat64(const char *path, struct stat64 *st)
{
	return due("stat") ? -1 : NEXT(lstat64)(path, st);
}

int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return due("stat") ? -1 : NEXT(fstatat64)(dir, path, st, flags);
}

/* ---- Directories ---- */

int mkdir(const char *path, mode_t mode)
{
	return due("name") ? -1 : NEXT(mkdir)(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return due("name") ? -1 : NEXT(mkdirat)(dir, path, mode);
}

int linkat(int old_dir, const char *old, int new_dir, const char *new, int flags)
{
	return due("name") ? -1 : NEXT(linkat)(old_dir, old, new_dir, new, flags);
}

int symlinkat(const char *target, int dir, const char *path)
{
	return due("name") ? -1 : NEXT(symlinkat)(target, dir, path);
}

int unlinkat(int dir, const char *path, int flags)
{
	return due("name") ? -1 : NEXT(unlinkat)(dir, path, flags);
}

DIR *fdopendir(int fd)
{
	return !least && due("memory") ? NULL : NEXT(fdopendir)(fd);
}

#define MODE_ARGUMENT                                                                                                  \
	va_list args;                                                                                                  \
	va_start(args, flags);                                                                                         \
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(args, int) : 0;                                   \
	va_end(args)

int open(const char *path, int flags, ...)
{
	MODE_ARGUMENT;
	return due("open") ? -1 : NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	MODE_ARGUMENT;
	return due("open") ? -1 : NEXT(open64)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT;
	return due("open") ? -1 : NEXT(openat)(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT;
	return due("open") ? -1 : NEXT(openat64)(dir, path, flags, mode);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
	return open64(path, flags);
}

int __openat64_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags)
{
	return openat64(dir, path, flags);
}

int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	int lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
	return lock && due("lock") ? -1 : NEXT(fcntl64)(fd, command, argument);
}

/* ---- Processes, descriptors, waiting ---- */

pid_t fork(void)
{
	return due("fork") ? -1 : NEXT(fork)();
}

/* Jump, because our stack frame must not be on the stack that both processes use. */
#ifdef __x86_64__
__attribute__((used)) static void *vfork_target(void)
{
	return due("fork") ? NULL : dlsym(RTLD_NEXT, "vfork");
}

__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"\tsub $8, %rsp\n"
	"\tcall vfork_target\n"
	"\tadd $8, %rsp\n"
	"\ttest %rax, %rax\n"
	"\tje 1f\n"
	"\tjmp *%rax\n"
	"1:\tmov $-1, %eax\n"
	"\tret\n"
	".size vfork, . - vfork\n");
#endif

pid_t waitpid(pid_t pid, int *status, int flags)
{
	return due("wait") ? -1 : NEXT(waitpid)(pid, status, flags);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
	return due("wait") ? -1 : NEXT(waitid)(type, id, info, flags);
}

int socket(int domain, int type, int protocol)
{
	return due("descriptor") ? -1 : NEXT(socket)(domain, type, protocol);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	return due("descriptor") ? -1 : NEXT(accept4)(fd, address, size, flags);
}

int eventfd(unsigned count, int flags)
{
	return due("descriptor") ? -1 : NEXT(eventfd)(count, flags);
}

int epoll_ctl(int fd, int what, int target, struct epoll_event *event)
{
	return !least && due("memory") ? -1 : NEXT(epoll_ctl)(fd, what, target, event);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	return !least && due("memory") ? -1 : NEXT(inotify_add_watch)(fd, path, mask);
}

int pipe2(int fds[2], int flags)
{
	return due("descriptor") ? -1 : NEXT(pipe2)(fds, flags);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return due("descriptor") ? -1 : NEXT(socketpair)(domain, type, protocol, fds);
}

int epoll_create1(int flags)
{
	return due("descriptor") ? -1 : NEXT(epoll_create1)(flags);
}

int timerfd_create(int clock, int flags)
{
	return due("descriptor") ? -1 : NEXT(timerfd_create)(clock, flags);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
	return due("descriptor") ? -1 : NEXT(signalfd)(fd, mask, flags);
}

int memfd_create(const char *name, unsigned flags)
{
	return due("descriptor") ? -1 : NEXT(memfd_create)(name, flags);
}

int inotify_init1(int flags)
{
	return due("descriptor") ? -1 : NEXT(inotify_init1)(flags);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
	return due("wait") ? -1 : NEXT(epoll_wait)(fd, events, most, timeout_ms);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	return due("wait") ? -1 : NEXT(poll)(fds, count, timeout_ms);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return due("message") ? -1 : NEXT(sendmsg)(fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return due("message") ? -1 : NEXT(recvmsg)(fd, message, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	return due("message") ? -1 : NEXT(send)(fd, data, size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	return due("message") ? -1 : NEXT(recv)(fd, data, size, flags);
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	return due("message") ? -1 : NEXT(connect)(fd, address, size);
}

/* ---- Memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	return size >= least && due("memory") ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return count * size >= least && due("memory") ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return size >= least && due("memory") ? NULL : __libc_realloc(old, size);
}
