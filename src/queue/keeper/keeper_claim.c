/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_claim.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "queue/schedule/ledger.h"

/* How often the claim is rewritten, so that cleaners of /tmp keep it; a claim that was removed is recreated. */
#define REFRESH_NS (UINT64_C(1800) * NS_PER_S)

static void write_claim(struct keeper_claim *k)
{
	k->written_ns = clock_now_ns();
	if (k->claim)
		(void)claim_update(k->claim, &k->info);
	else if (k->claims)
		(void)claims_announce(k->claims, &k->info, &k->claim);
}

void keeper_claim_take(struct keeper_claim *k, const char *text)
{
	if (!*text || claim_info_parse(text, strlen(text), &k->info) < 0)
		return;
	if (!k->claims && claims_open(NULL, &k->claims, NULL) < 0)
		return;
	/* All of the job's processes are our descendants, including those that leave its session. */
	k->info.pid = getpid();
	k->held = true;
	write_claim(k);
	k->taken_ns = k->written_ns;
}

void keeper_claim_settle(struct keeper_claim *k)
{
	if (!k->held || k->info.settled)
		return;
	k->info.settled = true;
	write_claim(k);
}

void keeper_claim_leave(struct keeper_claim *k)
{
	if (!k->held)
		return;
	k->held = false;
	k->info.num_gpus = 0;
	if (k->claim)
		write_claim(k);
}

void keeper_claim_finish(struct keeper_claim *k)
{
	claims_close(k->claims);
	*k = (struct keeper_claim){0};
}

uint64_t keeper_claim_due(const struct keeper_claim *k, bool runner_gone)
{
	if (!k->held)
		return 0;
	uint64_t refresh = k->written_ns + REFRESH_NS, settle = k->taken_ns + LEDGER_SETTLE_UNSEEN_NS;
	/* Without a runner, the job's memory is no longer watched. */
	return runner_gone && !k->info.settled && settle < refresh ? settle : refresh;
}

void keeper_claim_on_time(struct keeper_claim *k, uint64_t now_ns, bool runner_gone)
{
	uint64_t due = keeper_claim_due(k, runner_gone);
	if (due == 0 || now_ns < due)
		return;
	if (runner_gone && now_ns >= k->taken_ns + LEDGER_SETTLE_UNSEEN_NS)
		k->info.settled = true;
	write_claim(k);
}
