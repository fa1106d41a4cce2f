/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/frozen_tree.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/journal/prune.h"

struct prune_command {
	struct queue_choice queue;
	uint64_t older_ms;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"older", 'o', "AGE", 0, "Only what ended so long ago: 30d, 12h (all that is over)", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct prune_command *p = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->queue;
		return 0;
	case 'o':
		if (units_parse_duration(arg, &p->older_ms, &p->err) < 0)
			argp_error(state, "--older: %s", p->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int prune_queue(struct prune_command *p, struct prune_result *ret)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	int r = queue_choice_resolve(&p->queue, &p->err);
	if (r == 0)
		r = queue_choice_open(&p->queue, &j, &p->err);
	return r < 0 ? r : prune(j, (int64_t)p->older_ms, ret, &p->err);
}

/* What --freeze made, if nothing has been written there. */
static void remove_trees(const struct prune_result *result, bool trust)
{
	for (size_t i = 0; i < result->num_trees; i++) {
		const struct pruned_tree *t = &result->trees[i];
		struct gd_error why = {0};
		if (!t->path || !t->commit)
			continue;
		int r = frozen_tree_remove(t->path, t->commit, trust, &why);
		if (r > 0)
			say("kept '%s': files have changed there; 'git worktree remove' removes it", t->path);
		else if (r == -EPERM)
			say("cannot remove '%s': %s, who could make this account run anything; 'git worktree remove' removes it",
				t->path, why.message);
		else if (r < 0)
			say("cannot remove '%s': %s", t->path, why.message);
	}
}

static int main_prune(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Takes finished jobs out of the journal, into FILE.archive beside it, while runners and jobs go on.",
		children, NULL, NULL};
	struct prune_command p = {0};
	struct prune_result result = {0};
	command_parse(&argp, argc, argv, &p);
	int r = prune_queue(&p, &result);
	int code = r < 0 ? command_fail(&p.err, r) : EXIT_DONE;
	if (r == 0)
		printf("%" PRIu64 " pruned, %" PRIu64 " kept\n", result.pruned, result.kept);
	remove_trees(&result, p.queue.trust);
	prune_result_finish(&result);
	queue_choice_finish(&p.queue);
	return code;
}

const struct command cmd_prune = {"prune", "Take finished jobs out of the journal", main_prune};
