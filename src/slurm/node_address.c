/* SPDX-License-Identifier: MIT */
#include "slurm/node_address.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "slurm/address_file.h"
#include "slurm/agent.h"
#include "slurm/slurm_ask.h"

static bool can_resolve(const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
	bool can = getaddrinfo(host, NULL, &hints, &list) == 0;
	if (can)
		freeaddrinfo(list);
	return can;
}

/* All names of a partition may be unknown on this host, so try several. */
static bool find_resolved(const char *lines, char *ret, size_t size)
{
	int tries = 0;
	for (const char *p = lines; *p && tries < 8; tries++) {
		size_t n = strcspn(p, "\n");
		snprintf(ret, size, "%.*s", (int)n, p);
		ret[strcspn(ret, " ")] = '\0';
		if (*ret && can_resolve(ret))
			return true;
		p += n + (p[n] == '\n');
	}
	return false;
}

static bool find_last(int dir_fd, char *ret, size_t size)
{
	struct address_file a;
	if (address_file_read(dir_fd, AGENT_ADDRESS_FILE, &a) < 0 || strlen(a.host) >= size)
		return false;
	strcpy(ret, a.host);
	return true;
}

int node_address_find(int dir_fd, char *ret, size_t size, struct gd_error *err)
{
	/* One line per node: the address by which Slurm reaches it. */
	static const char *const argv[] = {"sinfo", "-h", "-a", "-N", "-o", "%o", NULL};
	struct slurm_answer a = {0};
	int r = slurm_ask(argv, &a);
	if (a.result == -ENOENT)
		r = error_set(err, a.result,
			"'sinfo' was not found: --slurm needs the commands of Slurm; run gpuq on a login node of the cluster");
	else if (a.result == 0 && find_resolved(text_string(&a.out), ret, size))
		r = 0;
	else if (find_last(dir_fd, ret, size))
		r = 0;
	else if (a.result < 0)
		r = error_set(err, a.result, "cannot list the nodes of Slurm: %s",
			*a.words ? a.words : error_words(a.result));
	else
		r = error_set(err, -EHOSTUNREACH,
			"no node of this cluster has a name that this host can resolve; use --slurm-address to name an address of this host that nodes can reach");
	text_finish(&a.out);
	return r;
}
