/* SPDX-License-Identifier: MIT */
/* gpuq report: writes one page about a queue. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/named_file.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/launch_model.h"
#include "cli/queue_choice.h"
#include "cli/queue_view.h"
#include "cli/run_history.h"
#include "cli/say.h"
#include "launch/history.h"
#include "queue/journal/follow.h"
#include "queue/journal/samples.h"
#include "view/report/report.h"

#define DEFAULT_NAME "report.html"

static const char default_name[] = DEFAULT_NAME;

enum { OPTION_SINCE = 0x200, OPTION_LAUNCH };

struct report_command {
	struct queue_choice queue;
	const char *out;
	const char *launch; /* an output folder; NULL: report on the queue */
	uint64_t since_ms;  /* maximum age; 0: all */
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "Where to write it (" DEFAULT_NAME "); - is standard output", 1},
	{"since", OPTION_SINCE, "AGE", 0, "Include only jobs that ran or were added in the last 2h, 1d…", 1},
	{"launch", OPTION_LAUNCH, "FOLDER", 0, "Report on a launch with this output folder, instead of a queue", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct report_command *c = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->queue;
		return 0;
	case 'o':
		c->out = named_file_is_stdout(arg) ? "-" : arg;
		return 0;
	case OPTION_LAUNCH:
		c->launch = arg;
		return 0;
	case OPTION_SINCE:
		if (units_parse_duration(arg, &c->since_ms, &c->err) < 0)
			arguments_error(state, "--since: %s", c->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- The file ------------------------------------------------------------------------ */

static int write_failed(struct report_command *c, int code)
{
	return error_set(&c->err, code, "cannot write report '%s': %s", c->out, error_words(code));
}

/*
 * A report quotes commands, error messages and names, so a new one is private. An old one keeps its access, unless
 * another user may have moved it there. Returns the descriptor of an old file whose access is kept, or -1.
 */
static int open_old(const struct report_command *c, int dir_fd, const char *name)
{
	struct stat st;
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid())
		return -1;
	if (trust_check_place(dir_fd, NULL) == 0)
		return take_fd(&fd);
	if (st.st_mode & 077)
		say("warning: '%s' is replaced with a private file: another user may have moved the old one there",
			c->out);
	return -1;
}

/* Whether the file is what the report was made from: the journal, or the record of a launch. */
static bool is_source(const struct report_command *c, int dir_fd, const char *name)
{
	struct stat source, st;
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&path, "%s%s", c->launch ? c->launch : c->queue.journal_path, c->launch ? "/launch.jsonl" : "");
	return !text_error(&path) && fstatat(dir_fd, name, &st, 0) == 0 && stat(text_string(&path), &source) == 0 &&
	       source.st_dev == st.st_dev && source.st_ino == st.st_ino;
}

static int replace_file(struct report_command *c, int dir_fd, const char *name, const struct text *page)
{
	if (is_source(c, dir_fd, name))
		return error_set(&c->err, -EINVAL,
			"cannot write report '%s': it is the file that the report describes; name another file with --output",
			c->out);
	cleanup_(closep) int old = open_old(c, dir_fd, name);
	int r = named_file_replace(dir_fd, name, old, page);
	return r < 0 ? write_failed(c, r) : 0;
}

static int refuse(struct report_command *c, const char *objection)
{
	return error_set(&c->err, -EPERM, "refusing to write report '%s': it %s; name another file with --output",
		c->out, objection);
}

/* A pipe, a device or a passed descriptor that the user named is written to, not replaced. Does not wait for a pipe
 * without a reader. */
static int write_special(struct report_command *c, const struct text *page)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	int r = named_file_open_special(c->out, &fd, &why);
	if (r < 0)
		return error_set(&c->err, r, "cannot write report '%s': %s", c->out, why.message);
	r = file_write_all(fd, page->data, page->length);
	return r < 0 ? write_failed(c, r) : 0;
}

/* Links of the user and of root are followed, including links to directories, unless another user may have moved them.
 */
static int open_folder(struct report_command *c, int *ret_fd, char **ret_name)
{
	cleanup_(freep) char *path = NULL;
	struct gd_error why = {0};
	bool foreign = false;
	int r = trust_open_parent_stable(c->out, ret_fd, ret_name, &why);
	if (r == -EPERM && trust_follow_links(c->out, &path, &foreign) == 0 && foreign)
		return refuse(c, "is a symbolic link of another user");
	if (r == -EPERM)
		return error_set(&c->err, r, "refusing to write report '%s': %s; name another file with --output",
			c->out, why.message);
	return r < 0 ? write_failed(c, r) : 0;
}

/* Links that the user named stay; the file that they point to is replaced. A link with the default name may come from
 * an archive or a git repository, with any target. */
static int write_page(struct report_command *c, const struct text *page)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	bool is_named = c->out != default_name;
	struct stat st;
	if (strcmp(c->out, "-") == 0) {
		int r = file_write_all(STDOUT_FILENO, page->data, page->length);
		return r < 0 ? error_set(&c->err, r, "cannot write the output: %s", error_words(r)) : 0;
	}
	if (!is_named && lstat(c->out, &st) == 0 && S_ISLNK(st.st_mode))
		return refuse(c, "is a symbolic link");
	if (is_named && named_file_is_passed(c->out))
		return write_special(c, page);
	int r = open_folder(c, &dir_fd, &name);
	if (r < 0)
		return r;
	/* The target of a link in /proc, or to /dev/stdout, may have no path. */
	if (is_named && stat(c->out, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return write_special(c, page);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? replace_file(c, dir_fd, name, page) : write_failed(c, -errno);
	if (S_ISDIR(st.st_mode))
		return error_set(&c->err, -EISDIR, "cannot write report '%s': it is a folder; name a file", c->out);
	if (!S_ISREG(st.st_mode))
		return refuse(c, "is not a regular file");
	if (!is_named && st.st_uid != geteuid() && st.st_uid != 0)
		return refuse(c, "belongs to another user");
	return replace_file(c, dir_fd, name, page);
}

/* ---- The queue ------------------------------------------------------------------------ */

static int put_sample(void *context, const struct sample *s)
{
	struct view_model *m = context;
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->num_gpus; i++) {
		const struct sample_gpu *g = &s->gpus[i];
		struct view_sample sample = {.time_ms = s->time_ms,
			.memory_used_bytes = g->mem_used_mb < 0 ? -1 : g->mem_used_mb << 20,
			.utilization_percent = g->util};
		struct view_gpu gpu = view_gpu_unknown(g->gpu, 0);
		gpu.memory_total_bytes = g->mem_total_mb < 0 ? -1 : g->mem_total_mb << 20;
		gpu.memory_used_bytes = sample.memory_used_bytes;
		gpu.utilization_percent = g->util;
		r = view_put_sample(m, g->gpu, &sample);
		if (r == 0)
			r = view_put_gpu(m, &gpu);
	}
	return r;
}

/* A journal without a folder, or a folder without samples, is fine. A symbolic link is ignored: gpuq creates none. */
static int read_samples(struct report_command *c, struct view_model *m)
{
	cleanup_(closep) int fd = follow_open_folder(c->queue.journal_path);
	int r = fd < 0 ? fd : samples_read(fd, put_sample, m);
	/* Usual if the owner of the queue has made only the journal readable. */
	if (r == -EACCES)
		say("samples of the GPUs are missing: '%s.d' cannot be read: %s", c->queue.journal_path,
			error_words(r));
	else if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return error_set(
			&c->err, r, "cannot read samples in '%s.d': %s", c->queue.journal_path, error_words(r));
	return 0;
}

/* Ended runs and active runs. */
static int join_runs(const struct run_history *h, const struct view_model *m, struct view_run **ret, size_t *ret_count)
{
	size_t count = 0;
	struct view_run *runs = calloc(h->count + view_num_runs(m) + 1, sizeof(*runs));
	if (!runs)
		return -ENOMEM;
	for (size_t i = 0; i < h->count; i++)
		runs[count++] = h->runs[i].run;
	for (size_t i = 0; i < view_num_runs(m); i++)
		runs[count++] = *view_run(m, i);
	*ret = runs;
	*ret_count = count;
	return 0;
}

static int write_queue(struct report_command *c, const struct queue_view *v, struct view_model *m, struct text *page)
{
	cleanup_(run_history_finish) struct run_history history = {0};
	cleanup_(freep) struct view_run *runs = NULL;
	int64_t now = date_now_ms();
	struct report report = {.model = m,
		.queue = c->queue.journal_path,
		.now_ms = now,
		.since_ms = c->since_ms ? now - (int64_t)c->since_ms : 0};
	int r = queue_view_is_foreign(v) ? 0 : run_history_read(report.since_ms, &history);
	if (r < 0)
		say("finished launches and maps are missing: %s", error_words(r));
	r = join_runs(&history, m, &runs, &report.num_runs);
	report.runs = runs;
	if (r < 0 || report_write(&report, page) < 0)
		return error_set(&c->err, -ENOMEM, "cannot write report '%s': out of memory", c->out);
	return 0;
}

static int report_queue(struct report_command *c, struct text *page)
{
	static const struct queue_view_options all = {.history = REPORT_HISTORY, .no_gpus = true};
	struct queue_view *v = NULL;
	c->queue.shows = true;
	int r = queue_choice_resolve(&c->queue, &c->err);
	if (r == 0)
		r = queue_view_open(&c->queue, &all, &v, &c->err);
	if (r < 0)
		return r;
	r = read_samples(c, queue_view_model(v));
	if (r == 0)
		r = write_queue(c, v, queue_view_model(v), page);
	struct view_facts facts;
	const struct view_actions *actions = queue_view_actions(v);
	actions->facts(actions->context, &facts);
	if (facts.bad_lines)
		say("journal '%s': %" PRIu64 " bad line%s skipped, the first is line %" PRIu64, facts.journal,
			facts.bad_lines, facts.bad_lines == 1 ? "" : "s", facts.first_bad_line);
	queue_view_close(v);
	return r;
}

/* ---- The folder of a launch ------------------------------------------------------------- */

static int report_launch(struct report_command *c, struct text *page)
{
	cleanup_(freep) char *path = NULL;
	struct report_launch launch = {0};
	uint64_t bad_lines = 0;
	struct view_model *m = view_model_create(1);
	int r = m && asprintf(&path, "%s/" HISTORY_NAME, c->launch) >= 0
			? launch_model_read(path, m, &launch, &bad_lines, &c->err)
			: error_set(&c->err, -ENOMEM, "cannot read folder '%s': out of memory", c->launch);
	int64_t now = date_now_ms();
	struct report report = {.model = m,
		.queue = c->launch,
		.now_ms = now,
		.since_ms = c->since_ms ? now - (int64_t)c->since_ms : 0,
		.launch = &launch};
	if (r == 0 && report_write(&report, page) < 0)
		r = error_set(&c->err, -ENOMEM, "cannot write report '%s': out of memory", c->out);
	if (r == 0 && bad_lines)
		say("'%s': %" PRIu64 " bad line%s skipped", path, bad_lines, bad_lines == 1 ? "" : "s");
	launch_model_finish(&launch);
	view_model_destroy(m);
	return r;
}

/* The shell may have inserted a name that another user has chosen. */
static void print_name(const char *name)
{
	cleanup_(text_finish) struct text t = {0};
	if (isatty(STDOUT_FILENO))
		display_append(&t, name, strlen(name), SIZE_MAX);
	puts(isatty(STDOUT_FILENO) && !text_error(&t) ? text_string(&t) : name);
}

static int main_report(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, NULL,
		"Write an HTML report about a queue: timeline, utilization, throughput, failures, waiting times.",
		children, NULL, NULL};
	struct report_command c = {.out = default_name};
	cleanup_(text_finish) struct text page = {0};
	command_parse(&argp, argc, argv, &c);
	int r = c.launch ? report_launch(&c, &page) : report_queue(&c, &page);
	if (r == 0)
		r = write_page(&c, &page);
	if (r == 0 && strcmp(c.out, "-") != 0)
		print_name(c.out);
	int code = r < 0 ? command_fail(&c.err, r) : EXIT_DONE;
	queue_choice_finish(&c.queue);
	return code;
}

const struct command cmd_report = {"report", "Write an HTML report", main_report};
