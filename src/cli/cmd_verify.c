/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json_put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/journal/follow.h"
#include "queue/journal/repair.h"

/* Longer lists of ranges and ids are summarized. */
#define MOST_SHOWN 20

enum { OPTION_JSON = 0x200 };

struct verify_command {
	struct queue_choice queue;
	bool repair, json;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"repair", 'r', NULL, 0, "Replace the journal with a clean copy, and keep the damaged file", 1},
	{"json", OPTION_JSON, NULL, 0, "Print a JSON object instead of lines", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verify_command *v = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->queue;
		return 0;
	case 'r':
		v->repair = true;
		return 0;
	case OPTION_JSON:
		v->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state,
			"unexpected argument '%s'; use 'gpuq verify --jobs-file FILE' to check another queue", arg);
		return EINVAL;
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

/* Jobs that were accepted and whose `add` was lost: their commands are unknown. */
static void print_lost(const struct jobs *js)
{
	print_ranges("Jobs whose 'add' record was lost", &js->lost_ids);
	if (js->lines_lost)
		printf("New lines of commands files are held, because they may have run; 'gpuq release ID' releases one\n");
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
	printf("%s); 'gpuq retry ID' runs one again, 'gpuq cancel ID' cancels it\n", count > MOST_SHOWN ? ", …" : "");
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
		printf("Journal of the original gpu_dispatch: %zu job%s, without checksums\n", js->count,
			plural(js->count));
	else
		printf("Queue %s, generation %" PRIu64 ": %" PRIu64 " line%s, %zu job%s\n",
			*js->queue ? js->queue : "?", js->generation, r->line_no, plural(r->line_no), js->count,
			plural(js->count));
	if (js->bad_lines)
		printf("Bad lines: %" PRIu64 ", the first is line %" PRIu64 "\n", js->bad_lines, js->first_bad_line);
	if (js->orphaned_lines)
		printf("Lines about jobs whose 'add' record is missing: %" PRIu64 "\n", js->orphaned_lines);
	if (r->repeated)
		printf("Repeated lines: %" PRIu64 "\n", r->repeated);
	if (r->disordered)
		printf("Lines are out of order\n");
	if (js->outdated)
		printf("The file is older than the queue: it was replaced with an earlier copy\n");
	print_ranges("Missing records", &js->holes);
	print_ranges("Lost in a power cut before they were synced (no error)", &js->losses);
	print_lost(js);
	print_unknown(js);
	bool needed = repair_is_needed(js, r);
	if (r->original)
		printf("The first command that writes converts it, and keeps this file as '%s.original'\n",
			basename_of(f->path));
	else
		printf("%s\n", needed ? "The journal is damaged; 'gpuq verify --repair' creates a clean copy"
				      : "The journal is intact");
	if (!r->original && r->line_no > 0 && js->bad_lines == r->line_no)
		printf("No line is intact. If the repair refuses the file, first replace it with a backup of the journal or "
		       "an empty file\n");
	return needed ? EXIT_WORK_FAILED : EXIT_DONE;
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* Pairs: the first and the last number of each range. */
static void put_ranges(struct text *t, const char *key, const struct number_set *s)
{
	json_open(t, key, '[');
	for (size_t i = 0; i < s->count; i++) {
		json_open(t, NULL, '[');
		json_put_int(t, NULL, (int64_t)s->ranges[i].first);
		json_put_int(t, NULL, (int64_t)s->ranges[i].last);
		json_close(t, ']');
	}
	json_close(t, ']');
}

/* kept: NULL, or the name of the damaged file after a repair. */
static int print_json(const struct follow *f, const char *kept)
{
	cleanup_(text_finish) struct text t = {0};
	const struct jobs *js = &f->jobs;
	const struct journal_reader *r = &f->reader;
	bool damaged = repair_is_needed(js, r);
	json_open(&t, NULL, '{');
	json_put_any(&t, "path", f->path, strlen(f->path));
	json_put_bool(&t, "damaged", damaged);
	json_put_bool(&t, "original", r->original);
	json_put_string(&t, "queue", js->queue);
	json_put_int(&t, "generation", (int64_t)js->generation);
	json_put_int(&t, "lines", (int64_t)r->line_no);
	json_put_int(&t, "jobs", (int64_t)js->count);
	json_put_int(&t, "bad_lines", (int64_t)js->bad_lines);
	if (js->bad_lines)
		json_put_int(&t, "first_bad_line", (int64_t)js->first_bad_line);
	else
		json_put_null(&t, "first_bad_line");
	json_put_int(&t, "orphaned_lines", (int64_t)js->orphaned_lines);
	json_put_int(&t, "repeated_lines", (int64_t)r->repeated);
	json_put_bool(&t, "disordered", r->disordered);
	json_put_bool(&t, "outdated", js->outdated);
	put_ranges(&t, "missing_records", &js->holes);
	put_ranges(&t, "permitted_losses", &js->losses);
	put_ranges(&t, "lost_jobs", &js->lost_ids);
	json_open(&t, "unknown_jobs", '[');
	for (size_t i = 0; js->counts[JOB_UNKNOWN] && i < js->count; i++)
		if (js->by_id[i]->state == JOB_UNKNOWN)
			json_put_int(&t, NULL, (int64_t)js->by_id[i]->id);
	json_close(&t, ']');
	if (kept)
		json_put_any(&t, "kept_as", kept, strlen(kept));
	else
		json_put_null(&t, "kept_as");
	json_close(&t, '}');
	if (text_error(&t))
		return -ENOMEM;
	puts(text_string(&t));
	return damaged ? EXIT_WORK_FAILED : EXIT_DONE;
}

/* ---- The command -------------------------------------------------------------------------- */

static int verify(struct verify_command *v)
{
	struct follow f;
	int r = queue_choice_follow(&v->queue, false, &f, &v->err);
	if (r < 0)
		return r;
	r = v->json ? print_json(&f, NULL) : explain(&f);
	follow_close(&f);
	return r < 0 ? error_set(&v->err, r, "cannot verify the journal: %s", error_words(r)) : r;
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
	if (v->json) {
		r = print_json(&f, result.repaired ? result.kept : NULL);
		follow_close(&f);
		return r < 0 ? error_set(&v->err, r, "cannot verify the journal: %s", error_words(r)) : r;
	}
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
		"Check the journal: checksums, missing records, and which jobs are affected. Exits with 1 if it is damaged.",
		children, NULL, NULL};
	struct verify_command v = {0};
	command_parse(&argp, argc, argv, &v);
	v.queue.shows = !v.repair;
	int r = queue_choice_resolve(&v.queue, &v.err);
	if (r == 0)
		r = v.repair ? repair_queue(&v) : verify(&v);
	int code = r < 0 ? command_fail(&v.err, r) : r;
	queue_choice_finish(&v.queue);
	return code;
}

const struct command cmd_verify = {"verify", "Check the journal for damage, and repair it", main_verify};
