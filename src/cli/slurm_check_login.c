/* SPDX-License-Identifier: MIT */
/* gpuq slurm check: checks on the login node. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/slurm_check.h"
#include "queue/journal/follow.h"
#include "queue/schedule/run_times.h"
#include "slurm/node_address.h"
#include "slurm/slurm_ask.h"

/* ---- Slurm ------------------------------------------------------------------------------ */

static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];
	for (const char *p = path ? path : ""; *p;) {
		size_t n = strcspn(p, ":");
		if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, p, name) < (int)sizeof(file) &&
			access(file, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

bool slurm_check_commands(struct slurm_check *c)
{
	static const char *const names[] = {"sbatch", "squeue", "scontrol", "scancel", "sinfo"};
	cleanup_(text_finish) struct text missing = {0};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!is_in_path(names[i]))
			text_appendf(&missing, "%s%s", missing.length ? ", " : "", names[i]);
	if (missing.length)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "commands",
			"run gpuq on a login node; load the module of Slurm, or ask for the package slurm-client on this host",
			"not found in PATH: %s", text_string(&missing));
	else
		doctor_add(&c->doctor, DOCTOR_OK, "commands", NULL, "sbatch, squeue, scontrol, scancel, sinfo");
	return missing.length == 0;
}

/* The value of "Name   = value" in the output of scontrol; false: not found. */
static bool find_setting(const char *text, const char *name, char *ret, size_t size)
{
	size_t n = strlen(name);
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (strncmp(line, name, n) != 0 || (line[n] != ' ' && line[n] != '='))
			continue;
		const char *value = line + n + strspn(line + n, " =");
		snprintf(ret, size, "%.*s", (int)strcspn(value, "\n"), value);
		return true;
	}
	return false;
}

bool slurm_check_controller(struct slurm_check *c)
{
	static const char *const argv[] = {"scontrol", "show", "config", NULL};
	struct slurm_answer a = {0};
	char version[64] = "", tracking[64] = "";
	int r = slurm_ask(argv, &a);
	if (r == 0) {
		(void)find_setting(text_string(&a.out), "SLURM_VERSION", version, sizeof(version));
		(void)find_setting(text_string(&a.out), "ProctrackType", tracking, sizeof(tracking));
		doctor_add(&c->doctor, DOCTOR_OK, "controller", NULL, "answers, version %s", version);
	} else {
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "controller",
			"ask the administrator whether slurmctld is running and whether this host may connect to it (munge, slurm.conf)",
			"does not answer: %s", *a.words ? a.words : error_words(r));
	}
	bool cgroup = strcmp(tracking, "proctrack/cgroup") == 0;
	if (r == 0)
		doctor_add(&c->doctor, cgroup ? DOCTOR_OK : DOCTOR_NOTE, "processes",
			cgroup ? NULL
			       : "ask for ProctrackType=proctrack/cgroup: without it the end of a Slurm job does not prove that its processes have ended, "
				 "and jobs of a lost pilot start elsewhere only after --slurm-lease",
			"%s", *tracking ? tracking : "ProctrackType is unknown");
	text_finish(&a.out);
	return r == 0;
}

/* ---- Limits of the account -------------------------------------------------------------- */

/* The smallest number, 0 or more, in column `column` (from 0) of lines whose columns are separated by '|'; -1: none. */
static int64_t smallest(const char *text, int column)
{
	int64_t least = -1;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *field = line;
		for (int i = 0; i < column && *field && *field != '\n'; i++)
			field += strcspn(field, "|\n") + 1;
		char *end;
		int64_t n = strtoll(field, &end, 10);
		if (end != field && n >= 0 && (least < 0 || n < least))
			least = n;
	}
	return least;
}

/* The lowest limit in the first four columns of the answer; -1: none, or Slurm's accounting does not answer. */
static int64_t ask_limit(const char *const *argv, bool *ret_answers)
{
	struct slurm_answer a = {0};
	int64_t least = -1;
	*ret_answers = slurm_ask(argv, &a) == 0 && a.out.length > 0;
	for (int column = 0; *ret_answers && column < 4; column++) {
		int64_t n = smallest(text_string(&a.out), column);
		least = n >= 0 && (least < 0 || n < least) ? n : least;
	}
	text_finish(&a.out);
	return least;
}

/* The QOS of --qos, else the default of the association; "": none. */
static void find_qos(const struct slurm_check *c, const char *who, char *ret, size_t size)
{
	const char *const argv[] = {"sacctmgr", "-n", "-P", "show", "assoc", "where", who, "format=DefaultQOS", NULL};
	const char *options = c->doctor.queue.config.slurm, *given = options ? strstr(options, "--qos=") : NULL;
	struct slurm_answer a = {0};
	*ret = '\0';
	if (given)
		snprintf(ret, size, "%.*s", (int)strcspn(given + 6, " \t\n'\""), given + 6);
	else if (slurm_ask(argv, &a) == 0)
		snprintf(ret, size, "%.*s", (int)strcspn(text_string(&a.out), "|\n"), text_string(&a.out));
	text_finish(&a.out);
}

static bool is_too_low(struct slurm_check *c, int64_t limit, const char *whose)
{
	int64_t nodes = c->doctor.queue.config.max_nodes;
	if (limit < 0 || limit >= nodes)
		return false;
	doctor_add(&c->doctor, DOCTOR_PROBLEM, "account",
		"ask for more jobs at a time (MaxJobs, MaxSubmitJobs), or give a smaller --max-nodes",
		"your %s may have %" PRId64 " job%s at a time, --max-nodes is %" PRId64, whose, limit,
		limit == 1 ? "" : "s", nodes);
	return true;
}

void slurm_check_account(struct slurm_check *c)
{
	const struct passwd *me = getpwuid(geteuid());
	char who[80], qos[64], name[80], whose[80];
	int64_t nodes = c->doctor.queue.config.max_nodes;
	bool answers = false, qos_answers;
	snprintf(who, sizeof(who), "user=%.64s", me ? me->pw_name : "");
	const char *const assoc[] = {"sacctmgr", "-n", "-P", "show", "assoc", "where", who,
		"format=MaxJobs,MaxSubmitJobs,GrpJobs,GrpSubmit", NULL};
	/* Many clusters have no accounting, or hide it: then sbatch reports what is not allowed. */
	int64_t limit = me ? ask_limit(assoc, &answers) : -1;
	if (!answers || is_too_low(c, limit, "account"))
		return;
	find_qos(c, who, qos, sizeof(qos));
	snprintf(name, sizeof(name), "name=%s", qos);
	snprintf(whose, sizeof(whose), "QOS %s", qos);
	const char *const of_qos[] = {"sacctmgr", "-n", "-P", "show", "qos", "where", name,
		"format=MaxJobsPerUser,MaxSubmitJobsPerUser,GrpJobs,GrpSubmit", NULL};
	if (*qos && is_too_low(c, ask_limit(of_qos, &qos_answers), whose))
		return;
	doctor_add(&c->doctor, DOCTOR_OK, "account", NULL, "allows %" PRId64 " pilot%s at a time", nodes,
		nodes == 1 ? "" : "s");
}

/* ---- The queue's directory -------------------------------------------------------------- */

static int make_files(struct slurm_check *c)
{
	unsigned char random[16];
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(c->token + 2 * i, 3, "%02x", random[i]);
	cleanup_(closep) int fd = node_check_create(c->dir_fd, NODE_CHECK_GREETING);
	int r = fd < 0 ? fd : file_write_all(fd, c->token, strlen(c->token));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* The node opens the directory of the check by its path: nobody else may be able to replace it. */
static int open_parent(struct slurm_check *c, const char *path, struct gd_error *err)
{
	if (c->doctor.queue.trust) {
		c->parent_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		return c->parent_fd < 0 ? error_set(err, -errno, "'%s': %s", path, error_words(errno)) : 0;
	}
	int r = trust_open_directory(path, true, &c->parent_fd, err);
	return r < 0 ? r : trust_check_way(c->parent_fd, err);
}

static int make_in(struct slurm_check *c, const char *parent, struct gd_error *err)
{
	uint64_t number;
	int r = open_parent(c, parent, err);
	if (r < 0)
		return r;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return error_set(err, -EIO, "cannot get random numbers");
	int at = snprintf(c->dir, sizeof(c->dir), "%s/.gpuq-check-%016" PRIx64, parent, number);
	if (at >= (int)sizeof(c->dir) - 16 || mkdirat(c->parent_fd, strrchr(c->dir, '/') + 1, 0700) < 0) {
		r = at >= (int)sizeof(c->dir) - 16 ? -ENAMETOOLONG : -errno;
		*c->dir = '\0';
		return error_set(err, r, "cannot write to '%s': %s", parent, error_words(r));
	}
	r = node_check_open(c->parent_fd, strrchr(c->dir, '/') + 1, &c->dir_fd);
	if (r == 0)
		r = make_files(c);
	return r < 0 ? error_set(err, r, "'%s': %s", c->dir, error_words(r)) : 0;
}

static bool make_directory(struct slurm_check *c)
{
	const char *journal = c->doctor.queue.journal_path, *slash = strrchr(journal, '/');
	cleanup_(freep) char *parent =
		slash ? strndup(journal, (size_t)(slash - journal) + (slash == journal)) : strdup(".");
	struct gd_error err = {0};
	int r = parent ? make_in(c, parent, &err) : error_set(&err, -ENOMEM, "out of memory");
	if (r < 0)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "directory",
			r == -EPERM
				? "use --jobs-file with a file in a directory of your own, change the permissions, or use --trust if you trust these users"
				: "choose another place for the queue: --jobs-file",
			"%s", err.message);
	return r == 0;
}

static bool take_lock(struct slurm_check *c)
{
	c->lock_fd = node_check_create(c->dir_fd, NODE_CHECK_LOGIN_LOCK);
	int r = c->lock_fd < 0 ? c->lock_fd : lock_try(c->lock_fd);
	if (r < 0)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "locks",
			"ask for a file system with POSIX locks (NFS: lockd and statd, or NFS 4; Lustre: mount option flock)",
			"'%s': %s", c->dir, error_words(r));
	return r == 0;
}

bool slurm_check_place(struct slurm_check *c)
{
	char towards[256];
	struct gd_error err = {0};
	const char *given = c->doctor.queue.config.slurm_address;
	if (!make_directory(c) || !take_lock(c))
		return false;
	int r = 0;
	if (given)
		snprintf(towards, sizeof(towards), "%s", given);
	else
		r = node_address_find(c->dir_fd, towards, sizeof(towards), &err);
	if (r == 0)
		r = listener_bind(towards, 0, &c->address, &err);
	if (r < 0)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "address",
			"use --slurm-address to name an address of this host that nodes can reach", "%s", err.message);
	else
		doctor_add(&c->doctor, DOCTOR_OK, "address", NULL, "nodes connect to %s", c->address.host);
	return r == 0;
}

/* ---- Time ------------------------------------------------------------------------------- */

static int64_t needed_ms(
	const struct slurm_check *c, const struct run_times *times, const struct job *job, bool *ret_told)
{
	int64_t timeout =
		job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : (int64_t)c->doctor.queue.config.timeout_ms;
	struct duration_estimate e = times ? run_times_estimate(times, job) : (struct duration_estimate){0};
	*ret_told = e.samples == 0;
	return e.samples ? (int64_t)e.high_ms : timeout;
}

void slurm_check_longest(struct slurm_check *c, int64_t left_ms)
{
	struct follow f;
	char need[UNITS_ROOM], left[UNITS_ROOM];
	const struct job *longest = NULL;
	int64_t most = 0;
	bool told = false, is_told = false;
	if (access(c->doctor.queue.journal_path, F_OK) < 0 ||
		follow_open(c->doctor.queue.journal_path, false, &f, NULL) < 0)
		return;
	struct run_times *times = run_times_create();
	for (size_t i = 0; times && i < f.jobs.count; i++)
		run_times_add_job(times, f.jobs.by_id[i]);
	for (size_t i = 0; i < f.jobs.count; i++) {
		const struct job *job = f.jobs.by_id[i];
		int64_t ms = job->state == JOB_PENDING ? needed_ms(c, times, job, &is_told) : 0;
		if (ms > most) {
			most = ms;
			longest = job;
			told = is_told;
		}
	}
	if (longest && most > left_ms)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "longest job",
			"ask Slurm for more time (--time, or a partition with a longer limit), or lower the --timeout of the job",
			"job %" PRIu64 " takes up to %s (%s), but a pilot has %s: the job never starts", longest->id,
			units_format_duration((uint64_t)most, need), told ? "its --timeout" : "as similar ones did",
			units_format_duration((uint64_t)left_ms, left));
	run_times_destroy(times);
	follow_close(&f);
}
