/* SPDX-License-Identifier: MIT */
/* gpuq-launch, the program behind gpuq launch. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/launch_arguments.h"
#include "cli/launch_audio.h"
#include "cli/launch_dry_run.h"
#include "cli/launch_summary.h"
#include "cli/launch_view.h"
#include "cli/named_file.h"
#include "cli/output.h"
#include "cli/say.h"
#include "launch/plugins.h"
#include "launch/worker.h"

/* For the signal handler; a signal that comes before there is a launcher is kept for it. */
static struct gd_launcher *volatile launcher;
static volatile sig_atomic_t signals;

/* SIGINT asks politely the first time; the others mean it at once. */
static void on_signal(int number)
{
	int stops = number == SIGINT ? 1 : 2;
	signals += stops;
	for (int i = 0; launcher && i < stops; i++)
		gd_launcher_stop(launcher);
}

static bool is_stopped(void)
{
	return signals > 0;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error like a full disk */
}

/* ---- What the launcher tells ------------------------------------------------- */

static void on_progress(void *context, const struct gd_launch_progress *progress)
{
	launch_view_progress(context, progress);
}

static void on_result(void *context, const struct gd_file_result *result)
{
	launch_view_result(context, result);
}

static void on_warning(void *context, const char *words)
{
	launch_view_warning(context, words);
}

static void on_mistake(void *context, const struct gd_error *err)
{
	(void)context;
	say_error(err);
}

/* ---- Before and after the run -------------------------------------------------- */

static int choose_plugin(struct launch_arguments *a)
{
	static const char *const nothing[] = {"true", NULL};
	struct gd_error err = {0};
	int r = plugins_find(a->worker, &a->plugin, &err);
	if (r < 0 && !a->worker && a->dry_run) {
		a->options.command = nothing; /* one may look at what there is before anything is installed */
		return 0;
	}
	if (r < 0) {
		say_error(&err);
		return r;
	}
	a->options.plugin = a->plugin;
	return 0;
}

static int choose_worker(struct launch_arguments *a)
{
	if (a->worker || (!a->worker_command && !a->options.command)) {
		int r = choose_plugin(a);
		if (r < 0)
			return r;
	}
	if (!a->worker_command)
		return 0;
	int r = launch_command_argv(a->worker_command, &a->program);
	if (r < 0) {
		say("--worker-command '%s': %s", a->worker_command, r == -EINVAL ? "it is empty" : error_words(r));
		return r;
	}
	a->options.program = (const char *const *)a->program;
	return 0;
}

static int list_workers(void)
{
	struct plugin *plugins;
	size_t count;
	int r = plugins_list(&plugins, &count);
	if (r < 0) {
		say("looking for plug-ins: %s", error_words(r));
		return EXIT_WORK_FAILED;
	}
	for (size_t i = 0; i < count; i++) {
		char words[256];
		bool usable = plugins_describe(&plugins[i], words, sizeof(words));
		printf("%-16s %s%s\n", plugins[i].name, usable ? "" : "not usable: ", words);
	}
	if (count == 0)
		puts("No plug-in is installed. --worker FILE.so takes one from anywhere.");
	plugins_free(plugins, count);
	return EXIT_DONE;
}

/* Opened before anything starts, for what cannot be written to is a mistake; but after all others: they make no file.
 */
static int open_json(const char *path, int *ret)
{
	*ret = -1;
	if (!path)
		return 0;
	if (strcmp(path, "-") == 0) {
		*ret = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? -errno : 0;
	}
	struct gd_error err = {0};
	int r = named_file_open(path, ret, &err);
	if (r < 0)
		say("--json '%s': %s", path, err.message);
	return r;
}

static int write_json(const struct gd_launch_summary *summary, const char *path, int fd)
{
	struct stat st;
	int r = 0;
	if (strcmp(path, "-") == 0)
		fflush(stdout);
	else if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0)
		r = -errno;
	if (r == 0)
		r = launch_summary_write_json(summary, fd);
	if (r < 0 && strcmp(path, "-") == 0)
		say("writing the summary to standard output: %s", error_words(r));
	else if (r < 0)
		say("writing '%s': %s", path, error_words(r));
	return r;
}

/* Why there is nothing, for those who expected something. */
static void explain_nothing(const struct gd_files *files, const struct gd_launch_options *o)
{
	cleanup_(text_finish) struct text patterns = {0};
	for (size_t i = 0; i < o->num_patterns; i++)
		text_appendf(&patterns, "%s'%s'", i ? " or " : "", o->patterns[i]);
	say("no file in '%s' matches %s", o->input_dir, o->num_patterns ? text_string(&patterns) : "'*.wav'");
	if (files->others)
		say("there are %llu others, such as '%s': --pattern says which are meant",
			(unsigned long long)files->others, files->other);
	if (files->other_folders)
		say("there are %llu folders: --recursive looks into them", (unsigned long long)files->other_folders);
}

static int find(struct gd_launcher *l, const struct launch_arguments *a)
{
	struct gd_error err = {0};
	int r = gd_launcher_find(l, &err);
	if (r == -ECANCELED)
		return EXIT_INTERRUPTED;
	if (r < 0) {
		say("%s", err.message);
		return gd_launch_exit_code(r, NULL);
	}
	if (gd_launcher_files(l)->count == 0)
		explain_nothing(gd_launcher_files(l), &a->options);
	return EXIT_DONE;
}

static int run(struct gd_launcher *l, const struct launch_arguments *a, struct launch_view *view)
{
	cleanup_(closep) int json = -1;
	if (open_json(a->json, &json) < 0)
		return EXIT_USAGE;
	size_t count;
	struct gd_error err = {0};
	struct gd_launch_summary summary;
	gd_launcher_todo(l, &count);
	size_t skipped = gd_launcher_files(l)->count - count;
	if (skipped)
		launch_summary_print_skipped(skipped, count == 0, view->out);
	if (count)
		launch_view_start(view);
	int r = gd_launcher_run(l, &err);
	launch_view_end(view);
	gd_launcher_summary(l, &summary, sizeof(summary));
	bool begun = r == 0 || r == -ECANCELED || r == -ECHILD || r == -EDQUOT;
	if (count > 0 && begun && launch_summary_print(&summary, view->live, view->out) < 0)
		say("printing the summary: out of memory");
	if (err.message[0])
		say("%s", r == -ECANCELED ? "interrupted: the same command goes on where this one was" : err.message);
	int code = gd_launch_exit_code(r, &summary);
	if (json >= 0 && write_json(&summary, a->json, json) < 0 && code == EXIT_DONE)
		code = EXIT_WORK_FAILED;
	return code;
}

static int launch(struct launch_arguments *a, struct launch_view *view)
{
	struct gd_launcher *l;
	struct gd_error err = {0};
	if (choose_worker(a) < 0)
		return EXIT_USAGE;
	if (gd_launcher_create(&a->options, &l, &err) < 0) {
		/* All of them, not just the first. */
		if (gd_launch_validate(&a->options, on_mistake, NULL) == 0)
			say_error(&err);
		return EXIT_USAGE;
	}
	launcher = l;
	for (int i = 0; i < signals; i++)
		gd_launcher_stop(l);
	int code = find(l, a);
	if (code == EXIT_DONE && a->dry_run) {
		int r = launch_dry_run(l, &a->options, is_stopped);
		if (r == -ENOMEM)
			say("planning: out of memory");
		code = gd_launch_exit_code(r, NULL);
	} else if (code == EXIT_DONE) {
		code = run(l, a, view);
	}
	launcher = NULL;
	gd_launcher_destroy(l);
	return code;
}

int main(int argc, char **argv)
{
	setlocale(LC_ALL, "");
	setlocale(LC_NUMERIC, "C"); /* numbers are written so that they can be read again */
	argp_program_version = "gpuq " GD_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	output_check_at_exit();
	static char name[] = "gpuq launch";
	argv[0] = name;
	struct launch_arguments a;
	struct launch_view view;
	launch_arguments_parse(&a, argc, argv);
	launch_view_begin(&view, a.json && strcmp(a.json, "-") == 0 ? stderr : stdout);
	a.options.seconds = launch_audio_seconds;
	a.options.context = &view;
	a.options.on_progress = on_progress;
	a.options.on_result = on_result;
	a.options.on_warning = on_warning;
	catch_signals();
	int code = a.list_workers ? list_workers() : launch(&a, &view);
	launch_arguments_finish(&a);
	return code;
}
