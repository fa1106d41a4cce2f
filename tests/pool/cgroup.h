/* SPDX-License-Identifier: MIT */
/* A control group (version 1) for one test; if none can be created, the test is skipped. */
#ifndef TESTS_POOL_CGROUP_H
#define TESTS_POOL_CGROUP_H

#include <stdbool.h>
#include <sys/types.h>

struct cgroup {
	char path[128];
};

/* False, with a message, if this machine or user has none. */
bool cgroup_create(const char *controller, struct cgroup *ret);
bool cgroup_write(const struct cgroup *c, const char *file, const char *value);
/* Writes until the file contains the value. */
bool cgroup_settle(const struct cgroup *c, const char *file, const char *value);
bool cgroup_add(const struct cgroup *c, pid_t pid);
void cgroup_remove(const struct cgroup *c); /* once it is empty */

#endif
