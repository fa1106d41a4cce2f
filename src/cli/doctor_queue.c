/* SPDX-License-Identifier: MIT */
/* `gpuq doctor`: settings, the queue, and the directory that all queues of the machine share. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/install_dirs.h"
#include "base/process.h"
#include "base/state_dir.h"
#include "base/trust.h"
#include "cli/doctor_parts.h"
#include "cli/queue_place.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal_home.h"
#include "queue/journal/repair.h"
#include "queue/journal/trust.h"
#include "queue/runner/verdicts.h"
#include "queue/schedule/claim_directory.h"
#include "queue/schedule/claim_folders.h"

/* ---- Settings -------------------------------------------------------------------------- */

static void report_state_dir(struct doctor *d, const char *path, int code)
{
	struct gd_error why = {0};
	char advice[TRUST_REMEDY_SIZE + 64], remedy[TRUST_REMEDY_SIZE];
	if (code != -EPERM) {
		doctor_add(d, DOCTOR_PROBLEM, "state", "it must belong to you, and nobody else may write there",
			"'%s': %s", path, error_words(code));
		return;
	}
	state_dir_explain_host(&why);
	snprintf(advice, sizeof(advice), "%sset XDG_STATE_HOME to a directory of your own",
		trust_remedy(path, false, remedy));
	doctor_add(d, DOCTOR_PROBLEM, "state", advice, "'%s' is refused: %s", path, why.message);
}

static void check_state_dir(struct doctor *d)
{
	char path[PATH_MAX];
	cleanup_(closep) int fd = -1;
	int r = state_dir_host_path(path);
	if (r < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "state", "set HOME or XDG_STATE_HOME",
			"no directory for gpuq's state: %s", error_words(r));
		return;
	}
	r = state_dir_open_host(false, &fd);
	if (r == 0)
		doctor_add(d, DOCTOR_OK, "state", NULL, "%s", path);
	else if (r == -ENOENT)
		doctor_add(d, DOCTOR_OK, "state", NULL, "%s, not created yet", path);
	else
		report_state_dir(d, path, r);
}

/* Files here are used by default only if no other user could have put them here. */
static void check_here(struct doctor *d)
{
	struct gd_error why = {0};
	char advice[TRUST_REMEDY_SIZE + 128], remedy[TRUST_REMEDY_SIZE];
	cleanup_(freep) char *path = getcwd(NULL, 0);
	cleanup_(closep) int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!path || fd < 0 || d->queue.trust)
		return;
	int r = trust_check_place(fd, &why);
	const char *objection = trust_objection_to_new_files(fd);
	if (r == 0 && objection) {
		snprintf(advice, sizeof(advice), "%skeep the results of jobs elsewhere",
			trust_remedy(path, false, remedy));
		doctor_add(d, DOCTOR_NOTE, "this directory", advice, "'%s' %s", path, objection);
		return;
	}
	if (r == 0) {
		doctor_add(d, DOCTOR_OK, "this directory", NULL, "no other user can change '%s'", path);
		return;
	}
	/* Not even --trust lets root change the queue of another user. */
	snprintf(advice, sizeof(advice), "%sname files: --commands-file, --config, --jobs-file%s",
		trust_remedy(path, false, remedy),
		geteuid() == 0 && queue_place_is_planted() ? "" : "; or use --trust");
	doctor_add(d, DOCTOR_NOTE, "this directory", advice,
		"jobs.jsonl, commands.txt and gpuq.yaml in it are refused: %s", why.message);
}

void doctor_check_settings(struct doctor *d)
{
	struct gd_error err = {0};
	check_state_dir(d);
	int r = queue_choice_configure(&d->queue, &err);
	if (r < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "configuration", "see gpuq.yaml(5)", "%s", err.message);
		return;
	}
	doctor_add(d, DOCTOR_OK, "configuration", NULL, "%s",
		d->queue.config_path ? d->queue.config_path : "none; all settings have their defaults");
	r = queue_choice_resolve(&d->queue, &err);
	if (r < 0)
		doctor_add(
			d, DOCTOR_PROBLEM, "queue", "name one with --jobs-file or $GPUQ_JOBS_FILE", "%s", err.message);
	else
		d->has_queue = true;
	check_here(d);
}

/* ---- The queue ---------------------------------------------------------------------------- */

/* As commands that change the queue, with --trust. */
static int check_root(const struct doctor *d, const struct follow *f, struct gd_error *err)
{
	int r = trust_check_links(d->queue.given_path, d->queue.objection, true, err);
	return r < 0 ? r : trust_check_root(f->reader.fd, f->reader.path, err);
}

static void check_trust(struct doctor *d, struct follow *f)
{
	static const char advice[] = "see gpuq(1), \"SHARED MACHINES\"; --trust or GPUQ_TRUST=1 accepts it";
	struct gd_error err = {0};
	enum doctor_level level = d->queue.trust ? DOCTOR_NOTE : DOCTOR_PROBLEM;
	if (check_root(d, f, &err) < 0)
		doctor_add(d, DOCTOR_PROBLEM, "trust", "see gpuq(1), \"SHARED MACHINES\"", "%s", err.message);
	else if (d->queue.objection)
		doctor_add(d, level, "trust", advice, "'%s' %s", d->queue.given_path, d->queue.objection);
	else if (follow_insist_on_trust(f, &err) < 0)
		doctor_add(d, level, "trust", advice, "%s", err.message);
	else
		doctor_add(d, DOCTOR_OK, "trust", NULL, "no other user can change it");
}

static void check_journal(struct doctor *d, const struct follow *f)
{
	const struct jobs *js = &f->jobs;
	if (f->reader.original)
		doctor_add(d, DOCTOR_NOTE, "journal", "the first command that writes converts it, and keeps a copy",
			"of the original gpu_dispatch");
	else if (repair_is_needed(js, &f->reader))
		doctor_add(d, DOCTOR_PROBLEM, "journal",
			"run 'gpuq verify' for details, 'gpuq verify --repair' to repair it", "damaged");
	else
		doctor_add(d, DOCTOR_OK, "journal", NULL, "intact, version %d, generation %llu", js->version,
			(unsigned long long)js->generation);
}

/* Commands that change such a queue are refused. */
static void check_copy(struct doctor *d, const struct follow *f)
{
	char words[QUEUE_WORK_ROOM];
	bool is_here = f->dir_fd < 0 ? f->dir_fd != -ENOENT : journal_home_is_here(f->dir_fd);
	queue_choice_describe_work(&f->jobs, words);
	if (f->reader.original || is_here || !*words)
		return;
	bool is_lost = journal_home_is_lost(f->dir_fd);
	doctor_add(d, d->queue.trust ? DOCTOR_NOTE : DOCTOR_PROBLEM, "copy",
		is_lost ? "if you have a backup of the folder (.d), remove the new folder and put the backup in its place, then use --trust once to continue: jobs whose environment is missing fail, so add them again; or remove the journal and its folder to start a new queue"
			: "if the original still exists, it runs them, too: remove the journal and its folder (.d) to start a new queue, or use --trust once to continue this one here",
		"the queue has %s, but %s", words,
		is_lost ? "its folder was removed, or was not copied with it" : "it was copied here");
}

/* Reports why the runner starts no jobs, for example an error. A paused queue is reported elsewhere. */
static void check_runner(struct doctor *d, struct follow *f, pid_t runner)
{
	struct verdicts *v = NULL;
	const char *pause = verdicts_open(f, NULL, NULL, VERDICTS_QUICK, &v, NULL) == 0 ? verdicts_pause(v) : NULL;
	if (pause && !f->jobs.paused)
		doctor_add(d, DOCTOR_NOTE, "runner",
			"if it does not continue, end it with 'kill' and its PID (running jobs continue), then use 'gpuq run'",
			"PID %d: %s", (int)runner, pause);
	else
		doctor_add(d, DOCTOR_OK, "runner", NULL, "PID %d", (int)runner);
	verdicts_close(v);
}

static void check_jobs(struct doctor *d, struct follow *f)
{
	const struct jobs *js = &f->jobs;
	cleanup_(text_finish) struct text t = {0};
	pid_t runner = follow_runner(f);
	text_appendf(&t, "%zu", js->count);
	for (enum job_state s = 0; s < JOB_STATES; s++)
		if (js->counts[s])
			text_appendf(&t, ", %zu %s", js->counts[s], job_state_name(s));
	doctor_add(d, js->counts[JOB_UNKNOWN] ? DOCTOR_PROBLEM : DOCTOR_OK, "jobs",
		js->counts[JOB_UNKNOWN] ? "records of some jobs were lost; run 'gpuq verify'" : NULL, "%s",
		text_string(&t));
	if (js->paused)
		doctor_add(d, DOCTOR_NOTE, "paused", "run 'gpuq resume' to continue", "no new jobs start");
	if (runner > 0)
		check_runner(d, f, runner);
	else if (runner < 0)
		doctor_add(d, DOCTOR_NOTE, "runner", NULL, "on another machine or in another container");
	else if (follow_runner_is_hidden(f))
		doctor_add(d, DOCTOR_NOTE, "runner", NULL,
			"only the owner of the queue can see whether a runner is active");
	else if (js->counts[JOB_PENDING])
		doctor_add(d, DOCTOR_PROBLEM, "runner", "start one with 'gpuq run'",
			"none is active, and jobs are pending");
	else
		doctor_add(d, DOCTOR_OK, "runner", NULL, "none is active, and no job is pending");
}

/* Checks the directory of a queue that does not exist yet. The personal queue's was checked with the settings. */
static void check_directory(struct doctor *d)
{
	const char *path = d->queue.journal_path, *slash = strrchr(path, '/');
	struct gd_error err = {0};
	if (d->queue.trust || d->queue.source == QUEUE_SOURCE_PERSONAL || !slash)
		return;
	cleanup_(freep) char *dir = strndup(path, (size_t)(slash - path) + (slash == path));
	cleanup_(closep) int fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0 && trust_check_journal_directory(fd, path, &err) < 0)
		doctor_add(d, DOCTOR_PROBLEM, "trust", NULL, "%s", err.message);
}

void doctor_check_queue(struct doctor *d)
{
	struct follow f;
	struct gd_error err = {0};
	if (!d->has_queue)
		return;
	bool none = access(d->queue.journal_path, F_OK) < 0 && errno == ENOENT;
	doctor_add(d, DOCTOR_OK, "path", NULL, "%s (%s)%s", d->queue.journal_path, queue_choice_words(&d->queue),
		none ? ", not created yet" : "");
	if (none) {
		check_directory(d);
		return;
	}
	queue_limit_cost();
	if (follow_open(d->queue.journal_path, false, &f, &err) < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "journal", NULL, "%s", err.message);
		return;
	}
	check_trust(d, &f);
	check_journal(d, &f);
	check_copy(d, &f);
	check_jobs(d, &f);
	follow_close(&f);
}

/* ---- Claims ------------------------------------------------------------------------------- */

void doctor_check_claims(struct doctor *d)
{
	const char *named = getenv("GPUQ_CLAIMS_DIR");
	struct claim_folders folders = {0};
	struct gd_error err = {0};
	cleanup_(closep) int fd = -1;
	char link[32], path[PATH_MAX];
	int r = claim_directory_open(NULL, false, &fd, &err);
	if (r == -ENOENT && named && *named) {
		doctor_add(d, DOCTOR_OK, "directory", NULL, "'%s', not created yet", named);
		return;
	}
	if (r < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "directory", "see gpuq(1), \"SHARED MACHINES\"", "%s", err.message);
		return;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		doctor_add(d, DOCTOR_PROBLEM, "directory",
			"queues cannot see each other; the directory must be writable and sticky, like /tmp",
			"'%s': %s", path, error_words(errno));
	else if (!(named && *named) && strcmp(path, CLAIM_DIRECTORY_SYSTEM) != 0)
		doctor_add(d, DOCTOR_NOTE, "directory",
			"services with a private /tmp do not see it; as root, run 'systemd-tmpfiles --create " GD_TMPFILES
			"' to create " CLAIM_DIRECTORY_SYSTEM,
			"%s", path);
	else
		doctor_add(d, DOCTOR_OK, "directory", NULL, "%s", path);
	if (process_hides(1, PROCESS_PARENT))
		doctor_add(d, DOCTOR_NOTE, "processes",
			"a user's claim on a GPU may count although only processes of other users are there; the "
			"administrator can add the mount option gid=GROUP, see gpuq(1), \"SHARED MACHINES\"",
			"/proc hides the processes of other users (hidepid)");
	if (claim_folders_update(fd, &folders) == 0)
		doctor_add(d, DOCTOR_OK, "folders", NULL, "%zu (one for each user)", folders.count);
	claim_folders_finish(&folders);
}
