/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_latest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "queue/runner/runner_private.h"

void runner_latest_note(struct runner *r, const char *log)
{
	free(r->latest);
	r->latest = strdup(log);
}

void runner_latest_link(struct runner *r)
{
	char *slash = r->latest ? strrchr(r->latest, '/') : NULL;
	cleanup_(freep) char *link = NULL;
	cleanup_(freep) char *draft = NULL;
	if (slash && asprintf(&link, "%.*s/latest", (int)(slash - r->latest), r->latest) >= 0 &&
		asprintf(&draft, "%s.%d", link, (int)getpid()) >= 0) {
		unlink(draft);
		if (symlink(slash + 1, draft) == 0 && rename(draft, link) < 0)
			unlink(draft);
	}
	free(take_ptr(r->latest));
}
