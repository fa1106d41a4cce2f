/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: a wall clock that jumps. CLOCK_FILE: 8 bytes, the current error of the clock in seconds. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong_by;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *page = mmap(NULL, sizeof(*wrong_by), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page != MAP_FAILED)
		wrong_by = page;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(clock, ret);
	if (r == 0 && clock == CLOCK_REALTIME && wrong_by)
		ret->tv_sec += *wrong_by;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
