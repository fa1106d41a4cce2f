/* SPDX-License-Identifier: MIT */
/* gpuq prune: moves finished jobs out of the journal. Asks first on a terminal. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/json_put.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/frozen_tree.h"
#include "cli/job_list.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/journal/prune.h"

/* A longer list is summarized. */
#define MOST_SHOWN 10

enum { OPTION_JSON = 0x200, OPTION_DRY_RUN };

struct prune_command {
	struct queue_choice queue;
	uint64_t older_ms;
	bool yes, dry_run, json;
	struct number_set shown; /* the jobs that were shown to the user */
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"older", 'o', "AGE", 0, "Prune only jobs that ended at least this long ago: 30d, 12h (all finished jobs)", 1},
	{"yes", 'y', 0, 0, "Do not ask for confirmation (without a terminal, gpuq does not ask)", 1},
	{"dry-run", OPTION_DRY_RUN, 0, 0, "Show what would be pruned, and prune nothing", 1},
	{"json", OPTION_JSON, 0, 0, "Print a JSON object: pruned, kept, ids, archive", 1},
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
			arguments_error(state, "--older: %s", p->err.message);
		return 0;
	case 'y':
		p->yes = true;
		return 0;
	case OPTION_DRY_RUN:
		p->dry_run = true;
		return 0;
	case OPTION_JSON:
		p->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state,
			"unexpected argument '%s'; use --older AGE to select jobs by age, or 'gpuq cancel' to end a job",
			arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- Showing and asking ----------------------------------------------------------------- */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void append_counts(struct text *t, const struct jobs *js, const bool *drop, uint64_t count)
{
	static const enum job_state order[] = {JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
	const char *before = ":";
	text_appendf(t, "%" PRIu64 " job%s", count, plural(count));
	for (size_t k = 0; k < sizeof(order) / sizeof(*order); k++) {
		size_t n = 0;
		for (size_t i = 0; i < js->count; i++)
			n += drop[i] && js->by_id[i]->state == order[k];
		if (n)
			text_appendf(t, "%s %zu %s", before, n, job_state_name(order[k]));
		before = n ? "," : before;
	}
}

/* The newest jobs: these are the ones that the user remembers. */
static int append_lines(struct text *t, const struct jobs *js, const bool *drop, uint64_t count, int fd)
{
	struct job_list l = {0};
	uint64_t skip = count > MOST_SHOWN ? count - MOST_SHOWN : 0;
	int r = 0;
	if (skip)
		text_appendf(t, "    … %" PRIu64 " more\n", skip);
	for (size_t i = 0; r == 0 && i < js->count; i++)
		if (drop[i] && (skip == 0 || skip-- == 0))
			r = job_list_add(&l, js->by_id[i]);
	struct job_line_options line = {.color = isatty(fd) && terminal_has_color() ? job_list_color : NULL,
		.width = isatty(fd) ? terminal_width() : 0};
	job_list_measure(&l, js->last_id, &line);
	for (size_t i = 0; r == 0 && i < l.count; i++) {
		line.keep_from = line.width ? job_list_difference(&l, i, line.command_width) : 0;
		job_line_write(t, l.jobs[i], &line);
		text_append_char(t, '\n');
	}
	job_list_finish(&l);
	return r;
}

static void put_json(const struct prune_command *p, const struct number_set *ids, uint64_t pruned, uint64_t kept)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(text_finish) struct text archive = {0};
	text_appendf(&archive, "%s.archive", p->queue.journal_path);
	json_open(&t, NULL, '{');
	json_put_bool(&t, "dry_run", p->dry_run);
	json_put_int(&t, "pruned", (int64_t)pruned);
	json_put_int(&t, "kept", (int64_t)kept);
	json_open(&t, "ids", '[');
	for (size_t i = 0; i < ids->count; i++)
		for (uint64_t id = ids->ranges[i].first; id <= ids->ranges[i].last; id++)
			json_put_int(&t, NULL, (int64_t)id);
	json_close(&t, ']');
	json_put_any(&t, "archive", text_string(&archive), archive.length);
	json_close(&t, '}');
	puts(text_string(&t));
}

/* Shows what prune would do; 1 if there are jobs to prune. Stores their ids in p->shown. */
static int show(struct prune_command *p, const struct jobs *js, const struct prune_choice *choice, FILE *out)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(freep) bool *drop = calloc(js->count + 1, sizeof(*drop));
	if (!drop)
		return -ENOMEM;
	uint64_t count = prune_choose(js, choice, drop), kept = js->count - count;
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++)
		if (drop[i])
			r = number_set_add(&p->shown, js->by_id[i]->id, js->by_id[i]->id);
	if (r == 0 && count && !(p->json && p->dry_run)) {
		append_counts(&t, js, drop, count);
		text_appendf(&t, "; %" PRIu64 " kept\n", kept);
		r = append_lines(&t, js, drop, count, fileno(out));
	}
	if (r < 0 || text_error(&t))
		return -ENOMEM;
	fputs(text_string(&t), out);
	if (p->dry_run && p->json)
		put_json(p, &p->shown, count, kept);
	else if (p->dry_run)
		fprintf(out, "%" PRIu64 " would be pruned, %" PRIu64 " kept\n", count, kept);
	return count > 0;
}

/* The default is no, even if the terminal is closed. */
static bool ask(const struct prune_command *p)
{
	char answer[16] = "";
	const char *slash = strrchr(p->queue.journal_path, '/');
	fprintf(stderr, "Move them to %s.archive? They can then no longer be retried. [y/N] ",
		slash ? slash + 1 : p->queue.journal_path);
	fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin)) {
		fputc('\n', stderr);
		return false;
	}
	return answer[0] == 'y' || answer[0] == 'Y';
}

/* ---- Pruning -------------------------------------------------------------------------- */

/* Removes worktrees of --freeze that are in the folder of this queue, if nothing has been written there. */
static void remove_trees(const struct journal *j, const struct prune_result *result, bool trust)
{
	for (size_t i = 0; i < result->num_trees; i++) {
		const struct pruned_tree *t = &result->trees[i];
		struct gd_error why = {0};
		if (!t->path || !t->commit || access(t->path, F_OK) < 0)
			continue;
		if (!frozen_tree_is_of_queue(t->path, j->dir_fd)) {
			say("kept '%s': it is not in '%s.d/trees', so another queue may need it; if none does, remove it with 'git worktree remove'",
				t->path, j->path);
			continue;
		}
		int r = frozen_tree_remove(t->path, t->commit, trust, &why);
		if (r > 0)
			say("kept '%s': it has changed files; remove it with 'git worktree remove'", t->path);
		else if (r == -EPERM)
			say("cannot remove '%s': %s, or remove the worktree with 'git worktree remove'", t->path,
				why.message);
		else if (r < 0)
			say("cannot remove '%s': %s", t->path, why.message);
	}
}

static int prune_queue(struct prune_command *p, const struct prune_choice *choice)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	struct prune_result result = {0};
	int r = queue_choice_open(&p->queue, &j, &p->err);
	if (r == 0)
		r = prune(j, choice, &result, &p->err);
	if (r == 0 && p->json)
		put_json(p, &result.ids, result.pruned, result.kept);
	else if (r == 0)
		printf("%" PRIu64 " pruned, %" PRIu64 " kept\n", result.pruned, result.kept);
	remove_trees(j, &result, p->queue.trust);
	prune_result_finish(&result);
	return r;
}

/* Shows the jobs; 1 if they should be pruned. */
static int consider(struct prune_command *p, struct prune_choice *choice)
{
	struct follow f;
	int r = p->dry_run ? queue_choice_follow(&p->queue, false, &f, &p->err)
			   : queue_choice_follow_trusted(&p->queue, &f, &p->err);
	if (r < 0)
		return r;
	r = show(p, &f.jobs, choice, p->dry_run ? stdout : stderr);
	follow_close(&f);
	if (r < 0)
		return error_set(&p->err, r, "cannot prune: out of memory");
	if (p->dry_run)
		return 0;
	/* Prune only the jobs that were shown, even if others have ended meanwhile. */
	choice->only = &p->shown;
	if (r == 0 || ask(p))
		return 1;
	say("no jobs were pruned");
	return 0;
}

static int prune_command(struct prune_command *p)
{
	struct prune_choice choice = {.before_ms = date_now_ms() - (int64_t)p->older_ms};
	bool asks = !p->yes && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	int r = queue_choice_resolve(&p->queue, &p->err);
	if (r == 0)
		r = p->dry_run || asks ? consider(p, &choice) : 1;
	if (r == 0 && !p->dry_run)
		return EXIT_WORK_FAILED;
	return r <= 0 ? r : prune_queue(p, &choice);
}

static int main_prune(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Move finished jobs from the journal to FILE.archive next to it. Runners and jobs are not interrupted. On a terminal, lists the jobs and asks first.",
		children, NULL, NULL};
	struct prune_command p = {0};
	command_parse(&argp, argc, argv, &p);
	int r = prune_command(&p);
	int code = r < 0 ? command_fail(&p.err, r) : r;
	number_set_finish(&p.shown);
	queue_choice_finish(&p.queue);
	return code;
}

const struct command cmd_prune = {"prune", "Move finished jobs from the journal to an archive", main_prune};
