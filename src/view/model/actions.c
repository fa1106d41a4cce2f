/* SPDX-License-Identifier: MIT */
#include "view/model/actions.h"

#include <string.h>

static const char *const names[VIEW_ACTIONS] = {
	[VIEW_CANCEL] = "cancel",
	[VIEW_RETRY] = "retry",
	[VIEW_HOLD] = "hold",
	[VIEW_RELEASE] = "release",
	[VIEW_URGENT] = "urgent",
};

const char *view_action_name(enum view_action action)
{
	return names[action];
}

int view_action_parse(const char *word)
{
	for (int i = 0; i < VIEW_ACTIONS; i++)
		if (strcmp(names[i], word) == 0)
			return i;
	return -1;
}

bool view_action_applies(enum view_action action, const struct view_job *job)
{
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD;
	switch (action) {
	case VIEW_CANCEL:
		return waits || (job->state == VIEW_JOB_RUNNING && !job->cancelling);
	case VIEW_RETRY:
		return !waits && job->state != VIEW_JOB_RUNNING;
	case VIEW_HOLD:
		return job->state == VIEW_JOB_PENDING;
	case VIEW_RELEASE:
		return job->state == VIEW_JOB_HELD;
	case VIEW_URGENT:
		return waits;
	}
	return false;
}
