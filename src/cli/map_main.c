/* SPDX-License-Identifier: MIT */
/* gpuq-map, the program behind gpuq map. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/exit_code.h"
#include "cli/map_arguments.h"
#include "cli/map_summary.h"
#include "cli/map_view.h"
#include "cli/say.h"
#include "cli/stop_signals.h"
#include "cli/summary_file.h"

static void stop(void *run)
{
	map_stop(run);
}

/* ---- Callbacks of the run ---------------------------------------------------- */

static void on_start(void *context, const struct map_summary *summary)
{
	struct map_view *view = context;
	const struct map_options *o = view->options;
	if (summary->tried_again)
		fprintf(view->pool.out, "retrying %llu item%s that failed before\n",
			(unsigned long long)summary->tried_again, summary->tried_again == 1 ? "" : "s");
	pool_view_publish(&view->pool, "map", strcmp(o->input, "-") == 0 ? "standard input" : o->input, o->program);
	map_view_start(view);
}

static void on_progress(void *context, const struct map_progress *progress)
{
	map_view_progress(context, progress);
}

static void on_failure(void *context, uint64_t number, const char *reason)
{
	map_view_failure(context, number, reason);
}

static void on_warning(void *context, const char *words)
{
	(void)context; /* not needed: a panel shows what is written to standard error */
	say("warning: %s", words);
}

static int write_json(const struct map_summary *summary, struct summary_file *file)
{
	cleanup_(text_finish) struct text t = {0};
	map_summary_format(&t, summary);
	return summary_file_write(file, &t);
}

/* ---- The run ----------------------------------------------------------------- */

static int exit_code(int r, const struct map_summary *s)
{
	switch (r) {
	case 0:
		return s->failed + s->failed_before ? EXIT_WORK_FAILED : EXIT_DONE;
	case -ECANCELED:
		return EXIT_INTERRUPTED;
	case -EBADMSG: /* the output belongs to another input or another program */
	case -EBUSY:
	case -EPERM:
	case -EACCES:
	case -EINVAL:
	case -EISDIR:
	case -ENOENT:
	case -ENOTDIR:
		return EXIT_USAGE;
	default:
		return EXIT_WORK_FAILED;
	}
}

static void print_end(FILE *out, int r, const struct map_summary *s, const struct gd_error *err)
{
	if (s->total_known && s->skipped == s->total && r == 0)
		fprintf(out, "all %llu items are in the output already, %llu of them failed\n",
			(unsigned long long)s->total, (unsigned long long)s->failed_before);
	else if ((s->done + s->failed > 0 || r == 0) && map_summary_print(s, out) < 0)
		say("cannot print the summary: out of memory");
	if (r == -ECANCELED)
		say("interrupted; run the same command again to continue");
	else if (err->message[0])
		say("%s", err->message);
}

/* Whether the summary has a file of its own. Otherwise it would replace the results or the items. */
static bool is_separate(const struct summary_file *json, const struct map_options *o)
{
	bool reads_stdin = strcmp(o->input, "-") == 0, writes_stdout = strcmp(o->output, "-") == 0;
	if (!summary_file_is(json, reads_stdin ? "/dev/stdin" : o->input) &&
		!summary_file_is(json, writes_stdout ? "/dev/stdout" : o->output) &&
		!(o->errors && summary_file_is(json, o->errors)))
		return true;
	say("--json '%s': it is also the input, the output or the file of --errors; name another file", json->path);
	return false;
}

static int run(struct map *m, const struct map_arguments *a, struct map_view *view)
{
	cleanup_(summary_file_close) struct summary_file json = SUMMARY_FILE_NONE;
	struct gd_error err = {0};
	struct map_summary summary;
	if (summary_file_open(a->pool.json, &json) < 0 || !is_separate(&json, &a->options))
		return EXIT_USAGE;
	int r = map_run(m, &err);
	map_get_summary(m, &summary);
	map_view_end(view, &summary);
	print_end(view->pool.out, r, &summary, &err);
	int code = exit_code(r, &summary);
	fflush(view->pool.out);
	if (json.fd >= 0 && code != EXIT_USAGE && write_json(&summary, &json) < 0 && code == EXIT_DONE)
		code = EXIT_WORK_FAILED;
	return code;
}

static int map(struct map_arguments *a, struct map_view *view)
{
	struct map *m;
	struct gd_error err = {0};
	if (map_create(&a->options, &m, &err) < 0) {
		say("%s", err.message);
		return EXIT_USAGE;
	}
	stop_signals_attach(m);
	int code = run(m, a, view);
	stop_signals_detach();
	map_destroy(m);
	return code;
}

int main(int argc, char **argv)
{
	static char name[] = "gpuq map";
	file_fill_stdio(true);
	pool_arguments_prepare(name, argv);
	struct map_arguments a;
	struct map_view view = {.options = &a.options};
	map_arguments_parse(&a, argc, argv);
	pool_view_begin(&view.pool, a.takes_stdout ? stderr : stdout);
	a.options.context = &view;
	a.options.on_start = on_start;
	a.options.on_progress = on_progress;
	a.options.on_failure = on_failure;
	a.options.on_warning = on_warning;
	stop_signals_catch(stop, STOP_SIGNALS_LAST);
	int code = map(&a, &view);
	map_arguments_finish(&a);
	return code;
}
