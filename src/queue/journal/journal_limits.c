/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_limits.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/cost_limit.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/journal.h"

#define LINES_PER_LOOK 64

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void journal_limits_init(struct journal_limits *l, int fd, bool trusted)
{
	const char *objection = trusted || trust_is_off() ? NULL : trust_objection(fd);
	*l = (struct journal_limits){.foreign = objection,
		.max_line_bytes = objection ? JOURNAL_MAX_FOREIGN_LINE_BYTES : JOURNAL_MAX_LINE_BYTES,
		.max_cpu_ns = JOURNAL_MAX_FOREIGN_CPU_NS};
	snprintf(l->objection, sizeof(l->objection), "%s", objection ? objection : "");
}

int journal_limits_refuse(const struct journal_limits *l, const char *path, const char *words, struct gd_error *err)
{
	return error_set(err, -EFBIG, "cannot read journal '%s': it %s and %s; set GPUQ_TRUST=1 to read it anyway",
		path, l->objection, words);
}

int journal_limits_look(struct journal_limits *l, int fd, const char *path, off_t *ret_size, struct gd_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (l->foreign && st.st_size > JOURNAL_MAX_FOREIGN_BYTES)
		return journal_limits_refuse(l, path, "is larger than 256 MiB", err);
	l->hole_bytes += file_count_holes(fd, l->looked_at, st.st_size, JOURNAL_MAX_HOLE_BYTES);
	l->looked_at = st.st_size;
	if (l->hole_bytes > JOURNAL_MAX_HOLE_BYTES)
		return error_set(err, -EFBIG,
			"cannot read journal '%s': it has more than 64 MiB of holes: the file is damaged; move it away",
			path);
	l->end_cpu_ns = l->foreign ? cpu_ns() + l->max_cpu_ns : 0;
	if (l->foreign)
		cost_limit_start(path);
	*ret_size = st.st_size;
	return 0;
}

int journal_limits_line(struct journal_limits *l, const char *path, struct gd_error *err)
{
	if (!l->foreign || ++l->lines % LINES_PER_LOOK || cpu_ns() < l->end_cpu_ns)
		return 0;
	journal_limits_refuse(l, path, "takes too long to read", err);
	return err->code = -ETIME;
}
