/* SPDX-License-Identifier: MIT */
#include "queue/keeper/hook_order.h"

#include <string.h>

#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/job_order.h"
#include "queue/keeper/keeper_messages.h"

int hook_order_write(const struct job *job, const struct due_hook *h, const struct order_defaults *d, uint64_t fence,
	struct keeper_order *ret, struct text *payload)
{
	cleanup_(text_finish) struct text input = {0};
	int e = hook_describe(job, h, &input);
	if (e < 0)
		return e;
	text_append(payload, "", 1); /* no command */
	e = job_order_append_directory(payload, job, d);
	if (e < 0)
		return e;
	const char *strings[] = {
		job->wish->env ? job->wish->env : d->env, "", h->command, job->name, "", text_string(&input)};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		text_append(payload, strings[i] ? strings[i] : "", strings[i] ? strlen(strings[i]) + 1 : 1);
	*ret = (struct keeper_order){.kind = KEEPER_ORDER_HOOK,
		.id = h->id,
		.size = payload->length,
		.attempt = h->attempt,
		.fence = fence,
		.hook_try = h->tries + 1,
		.hook_idle = h->idle,
		.cwd_own = job->wish->cwd_own,
		.cwd_dev = job->wish->cwd_id.dev,
		.cwd_ino = job->wish->cwd_id.ino,
		.added_ms = job->submit_ms};
	return text_error(payload);
}

void hook_order_give_up(struct text *line, const struct due_hook *h)
{
	record_write_hook(line, &(struct hook_record){.id = h->id,
					.idle = h->idle,
					.attempt = h->attempt,
					.state = JOB_FAILED,
					.exit_code = -1,
					.reason = REASON_KEEPER_LOST});
}

void hook_failure_words(struct text *t, const struct job *job, const struct record *outcome)
{
	text_appendf(t, "the --%s hook of job %llu ", outcome->event == EVENT_IDLE ? "on-idle" : "on-finish",
		(unsigned long long)job->id);
	if (outcome->exit_code >= 0)
		text_appendf(t, "failed with exit code %lld", (long long)outcome->exit_code);
	else if (outcome->signal)
		text_appendf(t, "was killed by signal %lld", (long long)outcome->signal);
	else
		text_append_string(t, "did not end");
}

void hook_given_up_words(struct text *t, const struct due_hook *h)
{
	text_appendf(t, "the hook of job %llu will not be retried: its keeper died %d times", (unsigned long long)h->id,
		HOOK_TRIES);
}
