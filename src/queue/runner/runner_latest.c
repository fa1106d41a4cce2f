/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_latest.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "queue/runner/latest_link.h"
#include "queue/runner/runner_private.h"

void runner_latest_note(struct runner *r, const char *log)
{
	free(r->following.latest);
	r->following.latest = strdup(log);
}

void runner_latest_link(struct runner *r)
{
	if (r->following.latest)
		latest_link_make(r->following.latest);
	free(take_ptr(r->following.latest));
}
