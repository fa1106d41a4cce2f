/* SPDX-License-Identifier: MIT */
/* Workers that have grown too large are noted for the owner, which replaces them after a task. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "pool/warden_private.h"

#define SAMPLE_NS NS_PER_S

/* "/proc/PID/statm", without stdio: see warden.h. */
static void statm_path(pid_t pid, char path[32])
{
	char digits[12];
	size_t n = 0, at = 0;
	do {
		digits[n++] = (char)('0' + pid % 10);
	} while ((pid /= 10) > 0);
	for (const char *c = "/proc/"; *c; c++)
		path[at++] = *c;
	while (n > 0)
		path[at++] = digits[--n];
	for (const char *c = "/statm"; *c; c++)
		path[at++] = *c;
	path[at] = '\0';
}

static uint64_t take_number(const char **p)
{
	uint64_t value = 0;
	for (; **p >= '0' && **p <= '9'; (*p)++)
		value = value * 10 + (uint64_t)(**p - '0');
	while (**p == ' ')
		(*p)++;
	return value;
}

/* Anonymous resident memory: neither file-backed nor shared. 0 if unknown. */
static uint64_t anonymous_bytes(pid_t pid)
{
	char path[32], buf[256];
	statm_path(pid, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = file_read_full(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	const char *p = buf;
	(void)take_number(&p); /* the address space */
	uint64_t resident = take_number(&p), shared = take_number(&p);
	return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t memory_check(struct warden_process *w, uint64_t now)
{
	if (w->plan->max_rss_bytes == 0 || w->ending)
		return 0;
	if (now < w->sample_at)
		return w->sample_at;
	w->sample_at = now + SAMPLE_NS;
	bool any = false;
	for (size_t i = 0; i < w->plan->num_slots; i++) {
		const struct ward *ward = &w->wards[i];
		if (!ward->pid || ward->closing || ward->kill_deadline)
			continue;
		if (anonymous_bytes(ward->pid) <= w->plan->max_rss_bytes)
			continue;
		atomic_store(&w->shared->notes[i].large, ward->life);
		any = true;
	}
	uint64_t one = 1;
	if (any && write(w->plan->event_fd, &one, sizeof(one)) < 0)
		return w->sample_at; /* EAGAIN: the owner is awake, or about to be */
	return w->sample_at;
}
