/* SPDX-License-Identifier: MIT */
#include "cli/queue_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cost_limit.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/command.h"
#include "cli/debug.h"
#include "cli/queue_place.h"
#include "cli/say.h"
#include "queue/input/config_keys.h"
#include "queue/journal/journal_home.h"
#include "queue/journal/journal_limits.h"
#include "queue/journal/queue_registry.h"
#include "queue/journal/trust.h"
#include "slurm/secret.h"

/* The queue may be removed while it is opened. */
#define MOST_TRIES 10

enum { OPTION_JOBS_FILE = 0x1000, OPTION_CONFIG, OPTION_TRUST };

static const struct argp_option options[] = {
	{"jobs-file", OPTION_JOBS_FILE, "FILE", 0,
		"The journal of the queue ($GPUQ_JOBS_FILE, ./jobs.jsonl, a parent directory's, or your personal queue)",
		100},
	{"config", OPTION_CONFIG, "FILE", 0, "Settings (./gpuq.yaml, else ~/.config/gpuq/config.yaml)", 100},
	{"trust", OPTION_TRUST, 0, 0,
		"Use a journal, configuration or input file even if others can write to it or a link of theirs leads to it ($GPUQ_TRUST=1)",
		100},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct queue_choice *q = state->input;
	switch (key) {
	case OPTION_JOBS_FILE:
		q->jobs_file = arg;
		return 0;
	case OPTION_CONFIG:
		q->config_file = arg;
		return 0;
	case OPTION_TRUST:
		q->trust = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {{&command_help_argp, 0, NULL, 0}, {0}};
const struct argp queue_choice_argp = {.options = options, .parser = parse, .children = children};

enum trust_choice queue_choice_trust(const struct queue_choice *q, bool named)
{
	bool accepted = q->trust || trust_is_off();
	return (named ? TRUST_NAMED : TRUST_FOUND) | (accepted ? TRUST_ACCEPTED : 0);
}

/* given: bits of the settings given on the command line. */
static void debug_settings(const struct queue_choice *q, unsigned given)
{
	if (!debug_is_on())
		return;
	if (q->config_path)
		debug_say("configuration: '%s'", q->config_path);
	else
		debug_say(
			"configuration: none; there is neither ./gpuq.yaml nor gpuq/config.yaml in $XDG_CONFIG_HOME or ~/.config");
	for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
		cleanup_(text_finish) struct text value = {0};
		if (!config_has(&q->config, key))
			continue;
		config_append_value(&q->config, key, &value);
		debug_say("setting: %s: %s, from %s", config_rows[key].name, text_string(&value),
			given & 1u << key ? "the command line" : q->config_path);
	}
	const char *gpus = getenv("GPUQ_GPUS");
	if (gpus && *gpus && !config_has(&q->config, CONFIG_GPUS))
		debug_say("setting: gpus: %s, from $GPUQ_GPUS", gpus);
}

/* The settings of the file at `path`. 1: it is refused, and ignored. */
static int load(struct queue_choice *q, const char *path, struct gd_error *err)
{
	struct config file = {0};
	struct gd_error why = {0};
	int r = config_load(path, queue_choice_trust(q, q->config_file), &file, &why);
	if (r == 0)
		config_overlay(&q->config, &file);
	config_finish(&file);
	if (r == -EPERM && q->shows && !q->config_file) {
		if (!q->silent)
			say("not using '%s', which other users could have written; name it with --config to use it",
				path);
		return 1;
	}
	return r < 0 ? error_set(err, r, "%s", why.message) : 0;
}

/* If ./gpuq.yaml is ignored, the personal configuration applies, as if ./gpuq.yaml were missing. */
static int load_found(struct queue_choice *q, char **path, struct gd_error *err)
{
	int r = *path ? load(q, *path, err) : 0;
	for (bool is_personal = false; r == 1; is_personal = true) {
		cleanup_(freep) char *ignored = *path;
		*path = NULL;
		r = is_personal ? 0 : config_find_personal(path);
		if (r < 0)
			return error_set(err, r, "cannot read the configuration: %s", error_words(r));
		if (*path && strcmp(*path, ignored) == 0) {
			freep(path);
			*path = NULL;
		}
		r = *path ? load(q, *path, err) : 0;
	}
	return r;
}

int queue_choice_configure(struct queue_choice *q, struct gd_error *err)
{
	cleanup_(freep) char *path = NULL;
	if (q->configured)
		return 0;
	q->trust = q->trust || trust_is_off();
	int r = config_defaults(&q->config);
	if (r == 0)
		r = config_find(q->config_file, &path);
	if (r < 0)
		return error_set(err, r, "cannot read the configuration: %s", error_words(r));
	r = load_found(q, &path, err);
	if (r < 0)
		return r;
	unsigned given = q->command_line.set;
	config_overlay(&q->config, &q->command_line);
	q->config_path = take_ptr(path);
	q->configured = true;
	debug_settings(q, given);
	return 0;
}

static void choose(struct queue_choice *q, enum queue_source source, const char *path)
{
	q->source = source;
	q->given_path = path;
}

/* Finds a queue if none was named. */
static int search(struct queue_choice *q, struct gd_error *err)
{
	/* Another user's journal would be refused, so anyone who can create files here could stop all commands. */
	bool skip = !q->trust && !q->creates_here && queue_place_is_planted();
	struct gd_error why = {0};
	if (queue_place_is_here() && !skip) {
		choose(q, QUEUE_SOURCE_HERE, QUEUE_PLACE_HERE);
		return 0;
	}
	int r = q->only_here ? 0 : queue_place_find_above(q->trust, &q->found_path, &q->skipped);
	if (r < 0)
		return error_set(err, r, "cannot find a queue: %s", error_words(r));
	if (skip && !q->silent)
		say("not using '" QUEUE_PLACE_HERE
		    "', which belongs to another user; name it with --jobs-file to %s it",
			geteuid() == 0 ? "read" : "use");
	if (q->found_path) {
		choose(q, QUEUE_SOURCE_ABOVE, q->found_path);
		return 0;
	}
	bool is_refused = q->falls_back && !q->trust && queue_place_is_refused(&why);
	if (q->creates_here && !is_refused) {
		choose(q, QUEUE_SOURCE_CREATED, QUEUE_PLACE_HERE);
		return 0;
	}
	q->adds = q->adds || is_refused;
	r = queue_place_personal(q->adds, &q->found_path, err);
	choose(q, QUEUE_SOURCE_PERSONAL, q->found_path);
	if (r == 0 && is_refused && !q->silent)
		say("using the personal queue, '%s', because other users can replace a queue in this directory: %s",
			q->found_path, why.message);
	return r;
}

/* If the personal queue does not exist yet, there is nothing to resolve. */
static bool is_missing(const struct queue_choice *q)
{
	return q->source == QUEUE_SOURCE_PERSONAL && access(q->found_path, F_OK) < 0 && errno == ENOENT;
}

static int resolve(struct queue_choice *q, struct gd_error *err)
{
	const char *variable = getenv("GPUQ_JOBS_FILE");
	int r = queue_choice_configure(q, err);
	if (r < 0)
		return r;
	if (q->jobs_file)
		choose(q, QUEUE_SOURCE_OPTION, q->jobs_file);
	else if (variable && *variable)
		choose(q, QUEUE_SOURCE_ENVIRONMENT, variable);
	else if (q->config.jobs_file)
		choose(q, QUEUE_SOURCE_CONFIGURATION, q->config.jobs_file);
	else
		r = search(q, err);
	if (r < 0)
		return r;
	if (!is_missing(q) || q->adds)
		return journal_resolve(q->given_path, &q->journal_path, &q->objection, err);
	q->journal_path = strdup(q->found_path);
	return q->journal_path ? 0 : error_set(err, -ENOMEM, "cannot find a queue: out of memory");
}

int queue_choice_resolve(struct queue_choice *q, struct gd_error *err)
{
	char remedy[TRUST_REMEDY_SIZE];
	int r = resolve(q, err);
	if (q->skipped.why && !q->silent)
		say("not using '%s': %s, so other users could run commands as you; %suse --trust if you trust these users",
			q->skipped.path, q->skipped.why, trust_remedy(q->skipped.path, true, remedy));
	else if (r == 0 && q->skipped.path)
		debug_say("queue: '%s' belongs to another user and is skipped", q->skipped.path);
	if (r == 0)
		debug_say("queue: '%s' (%s)", q->journal_path, queue_choice_source(q));
	return r;
}

bool queue_choice_may_surprise(const struct queue_choice *q)
{
	cleanup_(freep) char *here = getcwd(NULL, 0);
	const char *slash = strrchr(q->journal_path, '/');
	if (q->source == QUEUE_SOURCE_OPTION || q->source == QUEUE_SOURCE_HERE || q->source == QUEUE_SOURCE_CREATED)
		return false;
	/* A variable or the configuration may also name ./jobs.jsonl. */
	return !here || strcmp(slash, strrchr(QUEUE_PLACE_HERE, '/')) != 0 ||
	       strncmp(here, q->journal_path, strlen(here)) != 0 || q->journal_path + strlen(here) != slash;
}

const char *queue_choice_source(const struct queue_choice *q)
{
	switch (q->source) {
	case QUEUE_SOURCE_OPTION:
		return "--jobs-file";
	case QUEUE_SOURCE_ENVIRONMENT:
		return "$GPUQ_JOBS_FILE";
	case QUEUE_SOURCE_CONFIGURATION:
		return q->config_path;
	case QUEUE_SOURCE_HERE:
	case QUEUE_SOURCE_CREATED:
		return "found in this directory";
	case QUEUE_SOURCE_ABOVE:
		return "found in a parent directory";
	case QUEUE_SOURCE_PERSONAL:
		break;
	}
	return "the personal queue";
}

const char *queue_choice_words(const struct queue_choice *q)
{
	switch (q->source) {
	case QUEUE_SOURCE_ENVIRONMENT:
		return "queue of $GPUQ_JOBS_FILE";
	case QUEUE_SOURCE_CONFIGURATION:
		return "configured queue";
	case QUEUE_SOURCE_ABOVE:
		return "queue of a parent directory";
	case QUEUE_SOURCE_PERSONAL:
		return "personal queue";
	case QUEUE_SOURCE_OPTION:
	case QUEUE_SOURCE_HERE:
	case QUEUE_SOURCE_CREATED:
		break;
	}
	return "queue";
}

void queue_choice_say_where_added(const struct queue_choice *q)
{
	if (q->skipped.path && !q->skipped.why)
		say("not using '%s', which belongs to another user", q->skipped.path);
	if (queue_choice_may_surprise(q))
		say("added to the %s, '%s'", queue_choice_words(q), q->journal_path);
}

static int refuse_missing(const struct queue_choice *q, struct gd_error *err)
{
	return error_set(err, -ENOENT,
		"no jobs yet: neither jobs.jsonl in this directory nor the personal queue '%s' exists; add jobs with 'gpuq add' or 'gpuq run'",
		q->journal_path);
}

/* Checks that there is a queue, and that no other user controls where its path leads. */
static int check_choice(const struct queue_choice *q, struct gd_error *err)
{
	if (is_missing(q))
		return refuse_missing(q, err);
	return q->objection && !q->trust ? trust_refuse(q->given_path, q->objection, err) : 0;
}

void queue_limit_cost(void)
{
	cost_limit_enable(JOURNAL_FOREIGN_COST_NS, JOURNAL_FOREIGN_COST_BYTES, "set GPUQ_TRUST=1 to read it anyway");
}

int queue_choice_follow(const struct queue_choice *q, bool watch, struct follow *ret, struct gd_error *err)
{
	int r = check_choice(q, err);
	if (!q->trust)
		queue_limit_cost();
	return r < 0 ? r : follow_open(q->journal_path, watch, ret, err);
}

int queue_choice_follow_trusted(const struct queue_choice *q, struct follow *ret, struct gd_error *err)
{
	if (q->trust)
		return queue_choice_follow(q, false, ret, err);
	int r = check_choice(q, err);
	return r < 0 ? r : follow_open_trusted(q->journal_path, ret, err);
}

/* Done here, and not by the first append, to inform the user. */
static int convert(struct journal *j, struct gd_error *err)
{
	int r = journal_lock(j, err);
	if (r < 0)
		return r;
	journal_unlock(j);
	char unreadable[64] = "";
	if (j->unreadable)
		snprintf(unreadable, sizeof(unreadable), "; %" PRIu64 " line%s could not be read", j->unreadable,
			j->unreadable == 1 ? "" : "s");
	if (j->converted)
		say("converted %" PRIu64 " job%s of the original gpu_dispatch%s; the old file is kept as '%s.original'",
			j->converted, j->converted == 1 ? "" : "s", unreadable, j->name);
	return 0;
}

static uint64_t count_hooks(const struct jobs *jobs)
{
	uint64_t count = 0;
	for (const struct due_hook *h = jobs->hooks; h; h = h->next)
		count++;
	return count;
}

void queue_choice_describe_work(const struct jobs *jobs, char words[QUEUE_WORK_ROOM])
{
	const uint64_t *counts = jobs->counts;
	uint64_t hooks = count_hooks(jobs),
		 unfinished = counts[JOB_PENDING] + counts[JOB_HELD] + counts[JOB_RUNNING] + counts[JOB_UNKNOWN];
	char more[QUEUE_WORK_ROOM / 2] = "";
	words[0] = '\0';
	if (hooks)
		snprintf(more, sizeof(more), "%" PRIu64 " hook%s to run", hooks, hooks == 1 ? "" : "s");
	if (unfinished)
		snprintf(words, QUEUE_WORK_ROOM, "%" PRIu64 " unfinished job%s%s%s", unfinished,
			unfinished == 1 ? "" : "s", hooks ? " and " : "", more);
	else
		snprintf(words, QUEUE_WORK_ROOM, "%s", more);
}

static int refuse_copy(const struct journal *j, const char *words, struct gd_error *err)
{
	if (journal_home_is_lost(j->dir_fd))
		return error_set(err, -EPERM,
			"queue '%s' has %s, but its folder '%s.d' was removed, or was not copied with it; if you have a backup of the folder, remove the new '%s.d' and put the backup in its place, then use --trust once to continue: jobs whose environment is missing fail, so add them again; or remove '%s' and '%s.d' to start a new queue",
			j->path, words, j->name, j->name, j->name, j->name);
	return error_set(err, -EPERM,
		"queue '%s' has %s, but it was copied here; if the original still exists, it runs them, too; check with 'gpuq status', then remove '%s' and '%s.d' to start a new queue, or use --trust once to continue this one here",
		j->path, words, j->name, j->name);
}

/*
 * A copy must neither repeat jobs and hooks of the original nor end its jobs. A copy without unfinished jobs and due
 * hooks is an ordinary queue. A journal of the original gpu_dispatch has no folder yet, so it cannot be judged.
 */
static int check_copy(const struct queue_choice *q, struct journal *j, struct gd_error *err)
{
	int r;
	if (!q->trust && !j->original && !journal_home_is_here(j->dir_fd)) {
		struct follow f;
		r = follow_open_journal(j, &f, err);
		if (r < 0)
			return r;
		char words[QUEUE_WORK_ROOM];
		queue_choice_describe_work(&f.jobs, words);
		follow_close(&f);
		/* Another process may have created the queue meanwhile: it adds jobs only after journal_home_set(). */
		if (*words && !journal_home_is_here(j->dir_fd))
			return refuse_copy(j, words, err);
	}
	char trees[JOURNAL_TREES_ROOM] = "";
	if (!journal_home_is_here(j->dir_fd) && (r = journal_home_clean(j, q->trust, trees, err)) < 0)
		return r;
	if (*trees)
		say("queue '%s' was copied here, so its frozen trees were renamed to '%s/%s'; if no other user can have made or changed the copy, rename this folder to 'trees' before you retry jobs of these trees",
			j->path, j->dir_path, trees);
	/* Another user who made the copy knows its secret and could pose as a pilot. A new secret is created when
	 * needed.
	 */
	if (!journal_home_is_here(j->dir_fd) && unlinkat(j->dir_fd, SECRET_FILE, 0) < 0 && errno != ENOENT)
		return error_set(
			err, -errno, "cannot remove '%s/" SECRET_FILE "': %s", j->dir_path, error_words(errno));
	r = journal_home_set(j);
	return r < 0 ? error_set(err, r, "cannot write to '%s': %s", j->dir_path, error_words(r)) : 0;
}

static int open_once(const struct queue_choice *q, struct journal **ret, struct gd_error *err)
{
	if (!q->adds && is_missing(q))
		return refuse_missing(q, err);
	cleanup_(journal_closep) struct journal *j = NULL;
	int r = trust_check_links(q->given_path, q->objection, q->trust, err);
	if (r == 0)
		r = journal_open(q->journal_path, q->trust, &j, err);
	/* Another user may have put a link of this user into the path. The caller uses files next to the journal. */
	if (r == 0 && !q->trust && strcmp(j->path, q->journal_path) != 0) {
		journal_remove_empty(j);
		return trust_refuse(q->journal_path, TRUST_JUST_REPLACED, err);
	}
	if (r == 0)
		r = check_copy(q, j, err);
	if (r == 0)
		*ret = take_ptr(j);
	return r;
}

int queue_choice_open(const struct queue_choice *q, struct journal **ret, struct gd_error *err)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	int r = -ENOENT;
	/* Another command that created the queue, and failed, may remove it at any time: see journal_remove_empty(). */
	for (int tries = 0; r == -ENOENT && tries < MOST_TRIES; tries++)
		r = open_once(q, &j, err);
	if (r == 0 && j->original)
		r = convert(j, err);
	if (r < 0)
		return r;
	/* The list of queues is optional: a queue works without it. */
	(void)queue_registry_add(j->path);
	*ret = take_ptr(j);
	return 0;
}

void queue_choice_finish(struct queue_choice *q)
{
	config_finish(&q->config);
	config_finish(&q->command_line);
	free(q->journal_path);
	free(q->found_path);
	queue_place_skipped_finish(&q->skipped);
	free(q->config_path);
	q->config_path = NULL;
	q->journal_path = q->found_path = NULL;
}
