/* SPDX-License-Identifier: MIT */
/* gpuq-launch, the program behind gpuq launch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/launch_arguments.h"
#include "cli/launch_dry_run.h"
#include "cli/launch_durations.h"
#include "cli/launch_publish.h"
#include "cli/launch_slurm.h"
#include "cli/launch_summary.h"
#include "cli/launch_view.h"
#include "cli/launch_words.h"
#include "cli/say.h"
#include "cli/stop_signals.h"
#include "cli/summary_file.h"
#include "launch/history.h"
#include "launch/plugins.h"
#include "launch/print.h"
#include "launch/remote.h"

static void stop(void *run)
{
	gd_launcher_stop(run);
	launch_durations_cancel();
}

static bool is_stopped(void)
{
	return stop_signals_count() > 0;
}

/* ---- Callbacks of the launcher ----------------------------------------------- */

static struct launch_slurm *on_slurm;
static struct gd_launcher *launcher;

static void tell_durations(void)
{
	static bool told;
	if (told || !launch_durations_given_up())
		return;
	told = true;
	say("warning: reading the durations of several files took too long; no more durations are read, so the ETA is estimated from sizes");
}

static void on_progress(void *context, const struct gd_launch_progress *progress)
{
	if (on_slurm && launch_slurm_look(on_slurm)) {
		gd_launcher_stop(launcher);
		gd_launcher_stop(launcher); /* ends running files, too */
		launch_durations_cancel();
	}
	tell_durations();
	launch_view_progress(context, progress);
}

static void on_result(void *context, const struct gd_file_result *result)
{
	launch_view_result(context, result);
}

static void on_warning(void *context, const char *words)
{
	(void)context; /* not needed: a panel shows what is written to standard error */
	cleanup_(text_finish) struct text line = {0};
	launch_words_append(&line, words);
	say("warning: %s", text_string(&line));
}

static void on_mistake(void *context, const struct gd_error *err)
{
	(void)context;
	launch_words_say(err->message);
}

/* ---- Before and after the run -------------------------------------------------- */

/* Checks for a worker before anything starts. A dry run needs none: it works before a worker is installed. */
static int require_worker(const struct launch_arguments *a)
{
	const struct gd_launch_options *o = &a->options;
	struct gd_error err = {0};
	cleanup_(freep) char *path = NULL;
	if (a->dry_run || o->plugin || o->program || o->command || plugins_find(NULL, &path, &err) == 0)
		return 0;
	launch_words_say(err.message);
	for (size_t i = 0; i < o->num_settings; i++)
		if (strcmp(o->settings[i].key, "model_size") == 0)
			say("--model-size %s is the file ggml-%s.bin; whisper.cpp's models/download-ggml-model.sh %s downloads it",
				(const char *)o->settings[i].value, (const char *)o->settings[i].value,
				(const char *)o->settings[i].value);
	return err.code;
}

static int list_workers(void)
{
	struct plugin *plugins;
	size_t count;
	int r = plugins_list(&plugins, &count);
	if (r < 0) {
		say("cannot search for plug-ins: %s", error_words(r));
		return EXIT_WORK_FAILED;
	}
	for (size_t i = 0; i < count; i++) {
		char words[512];
		cleanup_(text_finish) struct text line = {0};
		bool usable = plugins_describe(&plugins[i], words, sizeof(words));
		launch_words_append(&line, words);
		printf("%-16s %s%s\n", plugins[i].name, usable ? "" : "not usable: ", text_string(&line));
	}
	if (count == 0)
		puts("No plug-ins are installed. Use --worker FILE.so to load one from a file.");
	plugins_free(plugins, count);
	return EXIT_DONE;
}

static int write_json(const struct gd_launch_summary *summary, struct summary_file *file)
{
	cleanup_(text_finish) struct text t = {0};
	launch_summary_format(&t, summary);
	return summary_file_write(file, &t);
}

/* Explains why no files were found. */
static void explain_nothing(const struct gd_files *files, const struct gd_launch_options *o, bool watching)
{
	cleanup_(text_finish) struct text patterns = {0};
	for (size_t i = 0; i < o->num_patterns; i++)
		text_appendf(&patterns, "%s'%s'", i ? " or " : "", o->patterns[i]);
	say("no file in '%s' matches %s%s", o->input_dir, o->num_patterns ? text_string(&patterns) : "'*.wav'",
		watching ? " yet" : "");
	if (files->others)
		say("there %s %llu other file%s'%s'; choose files with --pattern", files->others == 1 ? "is" : "are",
			(unsigned long long)files->others, files->others == 1 ? ", " : "s, such as ", files->other);
	if (files->other_folders)
		say("there %s %llu folder%s; use --recursive to search %s", files->other_folders == 1 ? "is" : "are",
			(unsigned long long)files->other_folders, files->other_folders == 1 ? "" : "s",
			files->other_folders == 1 ? "it" : "them");
}

static void tell_files(const struct gd_files *files, const struct gd_launch_options *o)
{
	unsigned long long folders = files->other_folders;
	if (o->watch)
		say("watching '%s' for new files; press Ctrl-C to stop", o->input_dir);
	if (files->count == 0)
		explain_nothing(files, o, o->watch);
	else if (folders)
		say("%llu folder%s in '%s' %s not searched; use --recursive to include %s", folders,
			folders == 1 ? "" : "s", o->input_dir, folders == 1 ? "is" : "are",
			folders == 1 ? "it" : "them");
}

static int find(struct gd_launcher *l, const struct launch_arguments *a)
{
	struct gd_error err = {0};
	int r = gd_launcher_find(l, &err);
	if (r == -ECANCELED)
		return EXIT_INTERRUPTED;
	if (r < 0) {
		launch_words_say(err.message);
		return gd_launch_exit_code(r, NULL);
	}
	tell_files(gd_launcher_files(l), &a->options);
	return EXIT_DONE;
}

static void start_views(struct gd_launcher *l, const struct launch_arguments *a, struct pool_view *view)
{
	const struct gd_launch_options *o = &a->options;
	const char *const plugin[] = {o->plugin, NULL};
	pool_view_publish(view, "launch", gd_launcher_files(l)->folder,
		o->command   ? o->command
		: o->program ? o->program
			     : plugin);
	pool_view_start(view);
}

/* Whether the summary has a file of its own. Otherwise it would replace the record of finished files. */
static bool is_separate(const struct summary_file *json, const char *output)
{
	cleanup_(text_finish) struct text record = {0};
	text_appendf(&record, "%s/" HISTORY_NAME, output ? output : "data/outputs");
	if (!text_error(&record) && !summary_file_is(json, text_string(&record)))
		return true;
	say("--json '%s': it is also the record of this launch; name another file", json->path);
	return false;
}

static int run(struct gd_launcher *l, const struct launch_arguments *a, struct pool_view *view)
{
	cleanup_(summary_file_close) struct summary_file json = SUMMARY_FILE_NONE;
	if (summary_file_open(a->pool.json, &json) < 0 || !is_separate(&json, a->options.output_dir))
		return EXIT_USAGE;
	size_t count;
	struct gd_error err = {0};
	struct gd_launch_summary summary;
	gd_launcher_todo(l, &count);
	size_t skipped = gd_launcher_files(l)->count - count;
	struct launch_slurm slurm;
	launch_slurm_init(&slurm, &a->slurm);
	on_slurm = &slurm;
	launcher = l;
	launcher_set_remote(l, &slurm.remote);
	bool works = count > 0 || a->options.watch;
	if (skipped)
		launch_summary_print_skipped(skipped, count == 0, view->out);
	if (works)
		start_views(l, a, view);
	int r = gd_launcher_run(l, &err);
	launch_slurm_end(&slurm); /* before another launcher can use the output folder */
	gd_launcher_summary(l, &summary, sizeof(summary));
	launch_publish_end(&view->published, &summary);
	pool_view_end(view);
	bool begun = r == 0 || r == -ECANCELED || r == -ECHILD || r == -EDQUOT;
	/* Failures have already been printed. */
	if ((works || summary.inputs_skipped) && begun && launch_print_summary(&summary, false, view->out) == -ENOMEM)
		say("cannot print the summary: out of memory");
	if (err.message[0] && !slurm.exit_code)
		launch_words_say(r == -ECANCELED ? "interrupted; run the same command again to continue" : err.message);
	int code = slurm.exit_code ? slurm.exit_code : gd_launch_exit_code(r, &summary);
	/* -EBUSY: nothing was processed, and the launch that uses the output folder may write to the same summary. */
	if (json.fd >= 0 && r != -EBUSY && write_json(&summary, &json) < 0 && code == EXIT_DONE)
		code = EXIT_WORK_FAILED;
	return code;
}

static int launch(struct launch_arguments *a, struct pool_view *view)
{
	struct gd_launcher *l;
	struct gd_error err = {0};
	if (gd_launcher_create(&a->options, &l, &err) < 0) {
		/* Report all mistakes, not just the first. */
		if (gd_launch_validate(&a->options, on_mistake, NULL) == 0)
			launch_words_say(err.message);
		return EXIT_USAGE;
	}
	unsetenv("GPUQ_LAUNCH_INPUT"); /* not for a launch that a worker starts */
	if (require_worker(a) < 0) {
		gd_launcher_destroy(l);
		return EXIT_USAGE;
	}
	stop_signals_attach(l);
	int code = find(l, a);
	if (code == EXIT_DONE && a->dry_run) {
		int r = launch_dry_run(l, &a->options, a->slurm.num_kinds ? "of a node" : NULL, is_stopped);
		tell_durations();
		if (r == -ENOMEM)
			say("cannot plan the run: out of memory");
		code = gd_launch_exit_code(r, NULL);
	} else if (code == EXIT_DONE) {
		code = run(l, a, view);
	}
	stop_signals_detach();
	gd_launcher_destroy(l);
	return code;
}

int main(int argc, char **argv)
{
	file_fill_stdio(true);
	if (argc == 2 && strcmp(argv[1], LAUNCH_DURATIONS_ARGUMENT) == 0)
		return launch_durations_main();
	static char name[] = "gpuq launch";
	pool_arguments_prepare(name, argv);
	struct launch_arguments a;
	struct pool_view view;
	launch_arguments_parse(&a, argc, argv);
	pool_view_begin(&view, summary_file_is_standard(a.pool.json) ? stderr : stdout);
	a.options.seconds = launch_durations_read;
	a.options.context = &view;
	a.options.on_progress = on_progress;
	a.options.on_result = on_result;
	a.options.on_warning = on_warning;
	stop_signals_catch(stop, STOP_SIGNALS_LAST);
	int code = a.list_workers ? list_workers() : launch(&a, &view);
	launch_durations_end();
	launch_arguments_finish(&a);
	return code;
}
