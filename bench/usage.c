/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <err.h>
#include <sys/resource.h>

#include "base/clock.h"

static void add(struct usage *u, int who)
{
	struct rusage r;
	if (getrusage(who, &r) < 0)
		err(1, "getrusage");
	u->cpu_ns += (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * (double)NS_PER_S;
	u->cpu_ns += (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
	u->switches += (double)(r.ru_nvcsw + r.ru_nivcsw);
}

struct usage usage_now(void)
{
	struct usage u = {.wall_ns = (double)clock_now_ns()};
	add(&u, RUSAGE_SELF);
	add(&u, RUSAGE_CHILDREN);
	return u;
}

struct usage usage_per_task(struct usage start, uint64_t tasks)
{
	struct usage now = usage_now();
	return (struct usage){
		.wall_ns = (now.wall_ns - start.wall_ns) / (double)tasks,
		.cpu_ns = (now.cpu_ns - start.cpu_ns) / (double)tasks,
		.switches = (now.switches - start.switches) / (double)tasks,
	};
}
