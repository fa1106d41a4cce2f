/* SPDX-License-Identifier: MIT */
#include "slurm/pilot_supply.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "slurm/pilot_kind.h"
#include "slurm/sbatch_refusal.h"
#include "slurm/slurm_client.h"

/* How often to check pilots that have not connected. */
#define LOOK_NS (2 * NS_PER_S)
/* Digits of the queue's id in names of jobs. */
#define QUEUE_DIGITS 12
/* For a message to the user: words, options and advice. */
#define SAY_ROOM 480

struct supplied_kind {
	const char *options;
	char mark[10]; /* part of the names of its pilots: a hash of the options */
	struct pilot_kind kind;
	struct submission *submission;
	struct submission_demand demand;
	double pilots; /* needed to run all jobs of the demand; negative: unknown */
	char said[SAY_ROOM];
};

struct pilot_supply {
	struct pilot_supply_options options;
	struct slurm_client *client;
	struct supplied_kind *kinds;
	size_t num_kinds;
	struct text script, output;
	uint64_t next_look_ns;
	size_t num_vain; /* waiting jobs that fit no kind */
	char vain_words[FRAME_WORDS_ROOM];
	char said_vain[SAY_ROOM];
	char silence[FRAME_WORDS_ROOM]; /* why the last list failed; "" if it did not */
	char said_silence[SAY_ROOM];
	/* Pilots of an earlier coordinator with other options, which were cancelled. */
	uint64_t *superseded;
	size_t num_superseded, superseded_capacity;
};

/* Reports each reason once. */
static void say(struct pilot_supply *s, char said[SAY_ROOM], const char *words)
{
	if (strcmp(words, said) == 0)
		return;
	snprintf(said, SAY_ROOM, "%s", words);
	if (*words)
		s->options.ops->say(s->options.context, said);
}

static void on_submitted(void *context, const char *name, int result, uint64_t slurm_job, const char *words)
{
	struct pilot_supply *s = context;
	for (size_t i = 0; i < s->num_kinds; i++)
		(void)submission_submitted(s->kinds[i].submission, clock_now_ns(), name, result, slurm_job, words);
}

/* The user has changed --slurm, probably because the pilot would never start. If this fails, the next list contains it
 * again. */
static void supersede(struct pilot_supply *s, const struct listed_job *job)
{
	char words[FRAME_WORDS_ROOM];
	for (size_t i = 0; i < s->num_superseded; i++)
		if (s->superseded[i] == job->slurm_job)
			return;
	if (array_reserve(s->superseded, &s->superseded_capacity, s->num_superseded + 1) < 0 ||
		slurm_client_cancel(s->client, job->slurm_job) < 0)
		return;
	s->superseded[s->num_superseded++] = job->slurm_job;
	snprintf(words, sizeof(words),
		"cancelling Slurm job %llu, a pending pilot of an earlier run with other options",
		(unsigned long long)job->slurm_job);
	s->options.ops->say(s->options.context, words);
}

/* A pending pilot of an earlier coordinator. */
static void adopt_one(struct pilot_supply *s, const struct listed_job *job)
{
	for (size_t i = 0; i < s->num_kinds; i++)
		if (strstr(job->name, s->kinds[i].mark)) {
			(void)submission_adopt(s->kinds[i].submission, clock_now_ns(), job);
			return;
		}
	supersede(s, job);
}

static void adopt(struct pilot_supply *s, const struct slurm_listing *l)
{
	for (size_t k = 0; k < l->num_jobs; k++) {
		bool known = l->jobs[k].state != LISTED_PENDING;
		for (size_t i = 0; i < s->num_kinds && !known; i++)
			known = submission_has_job(s->kinds[i].submission, l->jobs[k].slurm_job);
		if (!known)
			adopt_one(s, &l->jobs[k]);
	}
}

static void on_listed(void *context, uint64_t begun_ns, const struct slurm_listing *listing, const char *words)
{
	struct pilot_supply *s = context;
	char reason[100];
	sbatch_refusal_words(words, reason, sizeof(reason));
	*s->silence = '\0';
	if (!listing->ok)
		snprintf(s->silence, sizeof(s->silence), "cannot ask Slurm for pilots (%s); trying again", reason);
	say(s, s->said_silence, s->silence);
	for (size_t i = 0; i < s->num_kinds; i++)
		(void)submission_listed(s->kinds[i].submission, clock_now_ns(), begun_ns, listing);
	if (!listing->ok)
		return;
	adopt(s, listing);
	s->options.ops->listed(s->options.context, listing);
}

/* Appends a path in single quotes, for the shell of the batch script. */
static void append_quoted(struct text *t, const char *word)
{
	text_append_char(t, '\'');
	for (; *word; word++)
		if (*word == '\'')
			text_append_string(t, "'\\''");
		else
			text_append_char(t, *word);
	text_append_char(t, '\'');
}

static int write_words(struct pilot_supply *s)
{
	const struct journal *j = s->options.journal;
	text_append_string(&s->script, "exec ");
	append_quoted(&s->script, s->options.program);
	text_append_string(&s->script, " pilot --jobs-file ");
	append_quoted(&s->script, j->path);
	/* sbatch takes the path of the output for a pattern, in which %% is a percent sign. */
	for (const char *p = j->dir_path; *p; p++) {
		if (*p == '%')
			text_append_char(&s->output, '%');
		text_append_char(&s->output, *p);
	}
	text_append_string(&s->output, "/pilot-%j.out");
	return text_error(&s->script) ? text_error(&s->script) : text_error(&s->output);
}

static int create_kinds(struct pilot_supply *s, const char *prefix)
{
	const struct pilot_supply_options *o = &s->options;
	s->kinds = calloc(o->num_kinds, sizeof(*s->kinds));
	if (!s->kinds)
		return -ENOMEM;
	for (; s->num_kinds < o->num_kinds; s->num_kinds++) {
		struct supplied_kind *k = &s->kinds[s->num_kinds];
		struct submission_settings settings = {.max_nodes = o->max_nodes, .give_up = o->give_up};
		k->options = o->kinds[s->num_kinds];
		pilot_kind_parse(&k->kind, k->options);
		snprintf(k->mark, sizeof(k->mark), ".%08x", (unsigned)hash_bytes(k->options, strlen(k->options)).a);
		snprintf(settings.prefix, sizeof(settings.prefix), "%.20s%llu.%zu%s", prefix,
			(unsigned long long)o->epoch, s->num_kinds + 1, k->mark);
		int r = submission_create(&settings, &k->submission);
		if (r < 0)
			return r;
	}
	return 0;
}

int pilot_supply_create(const struct pilot_supply_options *options, struct pilot_supply **ret)
{
	static const struct slurm_client_ops ops = {.submitted = on_submitted, .listed = on_listed};
	char prefix[FRAME_NAME_ROOM];
	struct pilot_supply *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->options = *options;
	if (!s->options.max_nodes)
		s->options.max_nodes = 1;
	snprintf(prefix, sizeof(prefix), "gpuq-%.*s-", QUEUE_DIGITS, options->journal->queue);
	int r = write_words(s);
	if (r == 0)
		r = create_kinds(s, prefix);
	if (r == 0)
		r = slurm_client_create(
			&(struct slurm_client_options){
				.loop = options->loop, .prefix = prefix, .ops = &ops, .context = s},
			&s->client);
	if (r < 0) {
		pilot_supply_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

void pilot_supply_destroy(struct pilot_supply *s)
{
	if (!s)
		return;
	if (s->client)
		slurm_client_destroy(s->client);
	for (size_t i = 0; i < s->num_kinds; i++)
		submission_destroy(s->kinds[i].submission);
	free(s->kinds);
	free(s->superseded);
	text_finish(&s->script);
	text_finish(&s->output);
	free(s);
}

/* ---- Steps ------------------------------------------------------------------------------ */

static void submit(struct pilot_supply *s, const struct supplied_kind *k, const char *name)
{
	int r = slurm_client_submit(s->client, name, k->options, text_string(&s->output), text_string(&s->script));
	/* No answer follows. */
	if (r < 0)
		(void)submission_submitted(k->submission, clock_now_ns(), name, -EINVAL, 0,
			r == -EINVAL ? "unclosed quotation mark in the options for sbatch" : "out of memory");
}

static void execute(struct pilot_supply *s, const struct supplied_kind *k, const struct submission_step *step)
{
	switch (step->kind) {
	case SUBMISSION_SUBMIT:
		submit(s, k, step->name);
		break;
	case SUBMISSION_LIST:
		(void)slurm_client_list(s->client);
		break;
	case SUBMISSION_RELEASE:
		s->options.ops->release(s->options.context, step->name);
		break;
	case SUBMISSION_CANCEL:
		(void)slurm_client_cancel(s->client, step->slurm_job);
		break;
	case SUBMISSION_NONE:
		break;
	}
}

void pilot_supply_begin(struct pilot_supply *s)
{
	for (size_t i = 0; i < s->num_kinds; i++) {
		s->kinds[i].demand = (struct submission_demand){0};
		s->kinds[i].pilots = 0;
	}
	s->num_vain = 0;
	*s->vain_words = '\0';
}

/* Why no kind runs the jobs: the first kind that could run them was given up, or they are too large for the first kind.
 */
static void set_vain_words(struct pilot_supply *s, const struct placement_need *need, size_t num_jobs)
{
	char words[FRAME_WORDS_ROOM];
	size_t i = 0;
	while (i < s->num_kinds && !pilot_kind_takes(&s->kinds[i].kind, need, words))
		i++;
	if (i < s->num_kinds)
		submission_words(s->kinds[i].submission, clock_now_ns(), words);
	else if (s->num_kinds)
		(void)pilot_kind_takes(&s->kinds[0].kind, need, words);
	snprintf(s->vain_words, sizeof(s->vain_words), "no pilot can run %zu %s: %.110s", num_jobs,
		num_jobs == 1 ? "job" : "jobs", s->num_kinds ? words : "");
}

void pilot_supply_need(struct pilot_supply *s, const struct placement_need *need, size_t num_jobs)
{
	char words[FRAME_WORDS_ROOM];
	size_t i = 0;
	while (i < s->num_kinds &&
		(submission_has_given_up(s->kinds[i].submission) || !pilot_kind_takes(&s->kinds[i].kind, need, words)))
		i++;
	if (i == s->num_kinds) {
		if (s->num_vain == 0)
			set_vain_words(s, need, num_jobs);
		s->num_vain += num_jobs;
		return;
	}
	struct supplied_kind *k = &s->kinds[i];
	unsigned capacity = pilot_kind_capacity(&k->kind, need);
	k->demand.waiting_jobs += num_jobs;
	/* Until the first pilot connects, submit one to learn its size. Jobs without a GPU need no pilot of their own.
	 */
	if (need->num_gpus > 0 || capacity)
		k->pilots += capacity ? (double)num_jobs / capacity : 0;
}

/* Kinds share the limit; existing pilots count first. */
static void share_limit(struct pilot_supply *s, size_t of)
{
	size_t others = 0;
	for (size_t i = 0; i < s->num_kinds; i++)
		others += i == of ? 0 : submission_count(s->kinds[i].submission);
	unsigned limit = s->options.max_nodes;
	submission_set_max_nodes(s->kinds[of].submission, others < limit ? limit - (unsigned)others : 0);
}

static uint64_t step_kind(struct pilot_supply *s, size_t i, uint64_t now)
{
	struct supplied_kind *k = &s->kinds[i];
	struct submission_step step;
	size_t most = s->options.max_nodes, pilots = k->pilots < (double)most ? (size_t)k->pilots : most;
	k->demand.pilots = (double)pilots < k->pilots || pilots == 0 ? pilots + 1 : pilots;
	share_limit(s, i);
	submission_set_demand(k->submission, &k->demand);
	for (submission_next(k->submission, now, &step); step.kind != SUBMISSION_NONE;
		submission_next(k->submission, now, &step))
		execute(s, k, &step);
	return step.wake_ns;
}

/* ---- Messages --------------------------------------------------------------------------- */

/* The last line of the pilot's output; "" if there is none. */
static void read_output(const struct pilot_supply *s, uint64_t slurm_job, char ret[FRAME_WORDS_ROOM])
{
	char name[64], data[2048];
	snprintf(name, sizeof(name), "pilot-%llu.out", (unsigned long long)slurm_job);
	*ret = '\0';
	cleanup_(closep) int fd = file_open_regular(s->options.journal->dir_fd, name, O_NOFOLLOW);
	if (fd < 0)
		return;
	off_t size = lseek(fd, 0, SEEK_END), from = size > (off_t)sizeof(data) - 1 ? size - (off_t)sizeof(data) + 1 : 0;
	ssize_t n = pread(fd, data, sizeof(data) - 1, from);
	while (n > 0 && (data[n - 1] == '\n' || data[n - 1] == '\r'))
		n--;
	data[n > 0 ? n : 0] = '\0';
	const char *line = strrchr(data, '\n');
	snprintf(ret, FRAME_WORDS_ROOM, "%.100s", line ? line + 1 : data);
	for (char *p = ret; *p; p++)
		*p = (unsigned char)*p < ' ' ? ' ' : *p;
}

static void kind_words(const struct pilot_supply *s, const struct supplied_kind *k, char words[FRAME_WORDS_ROOM])
{
	char output[FRAME_WORDS_ROOM], *seconds;
	submission_words(k->submission, clock_now_ns(), words);
	/* Do not repeat the message every second. */
	bool again = (seconds = strstr(words, "; next try in"));
	if (again)
		*seconds = '\0';
	uint64_t job = *words ? submission_failed_job(k->submission) : 0;
	if (job)
		read_output(s, job, output);
	size_t length = strlen(words);
	if (job && *output)
		snprintf(words + length, FRAME_WORDS_ROOM - length, ": %s", output);
	else if (again)
		snprintf(words + length, FRAME_WORDS_ROOM - length, "; trying again%s",
			job ? "; 'gpuq slurm check' finds common causes" : "");
}

void pilot_supply_words(const struct pilot_supply *s, char *words, size_t room)
{
	char kind[FRAME_WORDS_ROOM] = "";
	for (size_t i = 0; i < s->num_kinds && !*kind; i++)
		kind_words(s, &s->kinds[i], kind);
	if (!*kind)
		snprintf(kind, sizeof(kind), "%s", s->silence);
	/* The reader may ask about either: a job that waits for its turn, or one that fits no pilot. */
	snprintf(words, room, "%s%s%s", s->vain_words, *s->vain_words && *kind ? "; " : "", kind);
}

/* With several kinds, names the options. Adds advice about a refused kind, unless all are refused: then the run ends
 * with that advice. */
static void say_kind(struct pilot_supply *s, struct supplied_kind *k)
{
	char words[FRAME_WORDS_ROOM], whole[SAY_ROOM];
	const char *reason;
	kind_words(s, k, words);
	/* "all 8 pilots are in use" is normal; only `why` shows it. */
	if (strncmp(words, "all ", 4) == 0)
		*words = '\0';
	bool several = s->num_kinds > 1 && *words, refused = submission_is_refused(k->submission, &reason);
	if (refused && pilot_supply_check_refusal(s, NULL) < 0)
		return;
	snprintf(whole, sizeof(whole), "%s%.60s%s%s%s%s", several ? "--slurm '" : "", several ? k->options : "",
		several ? "': " : "", words, refused ? "; " : "", refused ? sbatch_refusal_advice(reason) : "");
	say(s, k->said, whole);
}

uint64_t pilot_supply_step(struct pilot_supply *s)
{
	uint64_t now = clock_now_ns(), wake = 0;
	for (size_t i = 0; i < s->num_kinds; i++) {
		uint64_t at = step_kind(s, i, now);
		wake = at && (!wake || at < wake) ? at : wake;
	}
	if (pilot_supply_num_pending(s) && now >= s->next_look_ns) {
		s->next_look_ns = now + LOOK_NS;
		(void)slurm_client_list(s->client);
	}
	for (size_t i = 0; i < s->num_kinds; i++)
		say_kind(s, &s->kinds[i]);
	if (pilot_supply_check_refusal(s, NULL) == 0)
		say(s, s->said_vain, s->vain_words);
	return wake;
}

int pilot_supply_check_refusal(const struct pilot_supply *s, struct gd_error *err)
{
	const char *reason = NULL, *first = NULL;
	for (size_t i = 0; i < s->num_kinds; i++) {
		if (!submission_is_refused(s->kinds[i].submission, &reason))
			return 0;
		first = first ? first : reason;
	}
	if (!first)
		return 0;
	return error_set(err, -EINVAL, "Slurm refuses the options of %s: %s; %s; no job was started",
		s->num_kinds > 1 ? "every --slurm" : "--slurm", first, sbatch_refusal_advice(first));
}

bool pilot_supply_is_hopeless(const struct pilot_supply *s)
{
	size_t wanted = 0;
	for (size_t i = 0; i < s->num_kinds; i++)
		wanted += s->kinds[i].demand.waiting_jobs;
	return s->num_vain > 0 && wanted == 0;
}

/* ---- Events ----------------------------------------------------------------------------- */

void pilot_supply_list(struct pilot_supply *s)
{
	(void)slurm_client_list(s->client);
}

int pilot_supply_joined(struct pilot_supply *s, uint64_t slurm_job, const struct coordinator_action *ready)
{
	struct supplied_kind *k = NULL;
	for (size_t i = 0; i < s->num_kinds; i++)
		if (submission_has_job(s->kinds[i].submission, slurm_job))
			k = &s->kinds[i];
	/* A pilot of an earlier coordinator may have other options, and has less time left than a new one. */
	if (k)
		pilot_kind_learn(&k->kind, ready);
	else
		k = &s->kinds[0];
	return submission_joined(k->submission, clock_now_ns(), slurm_job, ready->pilot, ready->num_gpus);
}

void pilot_supply_gone(struct pilot_supply *s, const struct coordinator_action *gone)
{
	for (size_t i = 0; i < s->num_kinds; i++)
		submission_gone(s->kinds[i].submission, clock_now_ns(), gone->pilot,
			gone->proof == PROOF_SLURM || gone->result == 1, gone->words);
}

void pilot_supply_set_busy(struct pilot_supply *s, const char *pilot, size_t num_attempts)
{
	for (size_t i = 0; i < s->num_kinds; i++)
		submission_set_busy(s->kinds[i].submission, clock_now_ns(), pilot, num_attempts);
}

void pilot_supply_set_leaving(struct pilot_supply *s, bool leaving)
{
	for (size_t i = 0; i < s->num_kinds; i++)
		submission_set_leaving(s->kinds[i].submission, leaving);
}

size_t pilot_supply_num_pending(const struct pilot_supply *s)
{
	size_t pending = 0;
	for (size_t i = 0; i < s->num_kinds; i++)
		pending += submission_num_pending(s->kinds[i].submission);
	return pending;
}
