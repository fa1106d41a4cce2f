/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/journal/follow.h"
#include "queue/journal/repair.h"

/* More ranges and ids than these are summed up. */
#define MOST_SHOWN 20

struct verify_command {
	struct queue_choice queue;
	bool repair;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"repair", 'r', NULL, 0, "Replace the journal by a clean copy, and keep the damaged file", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verify_command *v = state->input;
	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->queue;
		return 0;
	case 'r':
		v->repair = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_ranges(const char *what, const struct number_set *s)
{
	if (s->count == 0)
		return;
	printf("%s: %" PRIu64 " (", what, number_set_size(s));
	for (size_t i = 0; i < s->count && i < MOST_SHOWN; i++) {
		const struct number_range *r = &s->ranges[i];
		printf("%s%" PRIu64, i ? ", " : "", r->first);
		if (r->last > r->first)
			printf("-%" PRIu64, r->last);
	}
	printf("%s)\n", s->count > MOST_SHOWN ? ", …" : "");
}

/* Jobs that were accepted and whose `add` was lost: nobody knows their commands. */
static void print_lost(const struct jobs *js)
{
	print_ranges("Jobs whose 'add' was lost", &js->lost_ids);
	if (js->lines_lost)
		printf("New lines of commands files are held, for they may have run; 'gpuq release ID' lets one run\n");
}

static void print_unknown(const struct jobs *js)
{
	size_t shown = 0, count = js->counts[JOB_UNKNOWN];
	if (count == 0)
		return;
	printf("Unknown jobs: %zu (", count);
	for (size_t i = 0; i < js->count && shown < MOST_SHOWN; i++)
		if (js->by_id[i]->state == JOB_UNKNOWN)
			printf("%s%" PRIu64, shown++ ? ", " : "", js->by_id[i]->id);
	printf("%s); 'gpuq retry ID' runs one again, 'gpuq cancel ID' gives it up\n", count > MOST_SHOWN ? ", …" : "");
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static const char *basename_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int explain(const struct follow *f)
{
	const struct jobs *js = &f->jobs;
	const struct journal_reader *r = &f->reader;
	if (r->original)
		printf("Journal of the first gpu_dispatch: %zu job%s, without checksums\n", js->count,
			plural(js->count));
	else
		printf("Queue %s, generation %" PRIu64 ": %" PRIu64 " line%s, %zu job%s\n",
			*js->queue ? js->queue : "?", js->generation, r->line_no, plural(r->line_no), js->count,
			plural(js->count));
	if (js->bad_lines)
		printf("Bad lines: %" PRIu64 ", the first is line %" PRIu64 "\n", js->bad_lines, js->first_bad_line);
	if (js->orphaned_lines)
		printf("Lines about jobs whose 'add' is missing: %" PRIu64 "\n", js->orphaned_lines);
	if (r->repeated)
		printf("Repeated lines: %" PRIu64 "\n", r->repeated);
	if (r->disordered)
		printf("Lines are out of order\n");
	if (js->outdated)
		printf("The file is older than the queue: an earlier copy was put in its place\n");
	print_ranges("Missing records", &js->holes);
	print_ranges("Lost in a power cut before they were synced, which is permitted", &js->losses);
	print_lost(js);
	print_unknown(js);
	bool needed = repair_is_needed(js, r);
	if (r->original)
		printf("The first command that writes converts it, and keeps this file as '%s.original'\n",
			basename_of(f->path));
	else
		printf("%s\n", needed ? "The journal is damaged; 'gpuq verify --repair' makes a clean copy"
				      : "The journal is intact");
	if (!r->original && r->line_no > 0 && js->bad_lines == r->line_no)
		printf("No line is intact. If the repair refuses the file, move it away and put a copy of the journal, or an "
		       "empty file, in its place first\n");
	return needed ? EXIT_WORK_FAILED : EXIT_DONE;
}

static int verify(struct verify_command *v)
{
	struct follow f;
	int r = queue_choice_follow(&v->queue, false, &f, &v->err);
	if (r < 0)
		return r;
	r = explain(&f);
	follow_close(&f);
	return r < 0 ? error_set(&v->err, r, "verifying: %s", error_words(r)) : r;
}

static int repair_queue(struct verify_command *v)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	struct repair_result result;
	int r = queue_choice_open(&v->queue, &j, &v->err);
	if (r == 0)
		r = repair(j, &result, &v->err);
	if (r < 0)
		return r;
	struct follow f;
	r = follow_open_journal(j, &f, &v->err);
	if (r < 0)
		return r;
	if (result.repaired)
		printf("Repaired; the damaged file is kept as '%s'\n", result.kept);
	else
		printf("The journal is intact\n");
	print_lost(&f.jobs);
	print_unknown(&f.jobs);
	follow_close(&f);
	return EXIT_DONE;
}

static int main_verify(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Checks the journal: checksums, missing records, and what they mean for its jobs. Exits with 1 if it is damaged.",
		children, NULL, NULL};
	struct verify_command v = {0};
	command_parse(&argp, argc, argv, &v);
	int r = queue_choice_resolve(&v.queue, &v.err);
	if (r == 0)
		r = v.repair ? repair_queue(&v) : verify(&v);
	int code = r < 0 ? command_fail(&v.err, r) : r;
	queue_choice_finish(&v.queue);
	return code;
}

const struct command cmd_verify = {"verify", "Check the journal for damage, and repair it", main_verify};
