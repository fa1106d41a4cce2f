/* SPDX-License-Identifier: MIT */
#include "slurm/submission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "slurm/sbatch_refusal.h"

#define IDLE_NS      (30 * NS_PER_S)
#define BACK_OFF_NS  (5 * NS_PER_S)
#define BACK_OFF_MAX (600 * NS_PER_S)
/* Interval between listings while they are needed. */
#define LIST_NS (5 * NS_PER_S)
/* After this many refusals in a row, a refusal of the options counts as permanent. */
#define REFUSALS 3
/* Longest wait after a refusal that may be temporary. */
#define DELAY_MAX (60 * NS_PER_S)
/* A pilot that had no job and ends by itself within this time after it connected has failed. */
#define SOON_NS (60 * NS_PER_S)

enum submission_stage {
	STAGE_SUBMITTING, /* sbatch runs */
	STAGE_UNCERTAIN,  /* sbatch failed or timed out: Slurm may have the job */
	STAGE_PENDING,    /* Slurm has the job; the pilot has not connected */
	STAGE_JOINED,
};

struct submitted_pilot {
	enum submission_stage stage;
	char name[FRAME_NAME_ROOM];  /* of the Slurm job */
	char pilot[FRAME_NAME_ROOM]; /* of the process, once it has joined */
	char reason[FRAME_WORDS_ROOM];
	uint64_t slurm_job;
	uint64_t since_ns;   /* when this stage began */
	size_t num_attempts; /* current number */
	bool running;        /* running according to Slurm, but it has not joined */
	bool had_work, releasing, cancelling;
	bool hopeless; /* Slurm will never start it */
};

struct submission {
	struct submission_settings settings;
	struct submission_demand demand;
	struct submitted_pilot *pilots;
	size_t count, capacity;
	unsigned number;   /* of the last job name */
	unsigned failures; /* in a row */
	unsigned delays;   /* temporary refusals and unanswered commands in a row */
	unsigned refusals; /* in a row */
	uint64_t not_before_ns, next_list_ns;
	uint64_t failed_job; /* see submission_failed_job() */
	bool leaving;
	bool accepted, joined;        /* at least one pilot was */
	bool given_up;                /* nothing more is submitted */
	bool refused;                 /* because Slurm refuses the options */
	char words[FRAME_WORDS_ROOM]; /* of the last failure */
};

int submission_create(const struct submission_settings *settings, struct submission **ret)
{
	struct submission *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->settings = *settings;
	if (!s->settings.max_nodes)
		s->settings.max_nodes = 1;
	if (!s->settings.max_pending)
		s->settings.max_pending = SUBMISSION_MAX_PENDING;
	if (!s->settings.idle_ns)
		s->settings.idle_ns = IDLE_NS;
	*ret = s;
	return 0;
}

void submission_destroy(struct submission *s)
{
	if (s)
		free(s->pilots);
	free(s);
}

void submission_set_demand(struct submission *s, const struct submission_demand *demand)
{
	s->demand = *demand;
}

void submission_set_leaving(struct submission *s, bool leaving)
{
	s->leaving = leaving;
}

void submission_set_max_nodes(struct submission *s, unsigned max_nodes)
{
	s->settings.max_nodes = max_nodes;
}

bool submission_has_given_up(const struct submission *s)
{
	return s->given_up;
}

bool submission_is_refused(const struct submission *s, const char **ret_words)
{
	*ret_words = s->words;
	return s->refused;
}

uint64_t submission_failed_job(const struct submission *s)
{
	return s->failed_job;
}

size_t submission_count(const struct submission *s)
{
	return s->count;
}

/* ---- Counting -------------------------------------------------------------------------- */

static size_t count_stage(const struct submission *s, enum submission_stage stage)
{
	size_t count = 0;
	for (size_t i = 0; i < s->count; i++)
		count += s->pilots[i].stage == stage && !s->pilots[i].cancelling;
	return count;
}

size_t submission_num_pending(const struct submission *s)
{
	return s->count - count_stage(s, STAGE_JOINED);
}

size_t submission_num_running(const struct submission *s)
{
	return count_stage(s, STAGE_JOINED);
}

/* Number of pilots that could run all waiting jobs. */
static size_t wanted(const struct submission *s)
{
	const struct submission_demand *d = &s->demand;
	size_t jobs = d->fitting_jobs_per_pilot;
	if (!d->waiting_jobs)
		return 0;
	if (d->pilots)
		return d->pilots;
	if (jobs)
		return (d->waiting_jobs + jobs - 1) / jobs;
	/* Jobs without a GPU need no pilot of their own. */
	size_t by_gpus = s->settings.gpus ? (d->waiting_gpus + s->settings.gpus - 1) / s->settings.gpus : 1;
	return by_gpus ? by_gpus : 1;
}

/* ---- Failures -------------------------------------------------------------------------- */

static void set_words(struct submission *s, const char *words)
{
	snprintf(s->words, sizeof(s->words), "%s", words && *words ? words : "no reason was given");
}

static void failed(struct submission *s, uint64_t now_ns, const char *words)
{
	uint64_t wait = BACK_OFF_NS << (s->failures < 16 ? s->failures : 16);
	/* Count pilots that fail together as one failure: nothing was submitted since the wait began. */
	if (s->failures && now_ns < s->not_before_ns)
		return;
	s->failures++;
	s->not_before_ns = now_ns + (wait < BACK_OFF_MAX ? wait : BACK_OFF_MAX);
	s->failed_job = 0;
	s->given_up = s->given_up || (s->settings.give_up && s->failures >= s->settings.give_up);
	set_words(s, words);
}

/* Not a failure of a pilot: the same command may succeed later. */
static void delayed(struct submission *s, uint64_t now_ns, const char *words)
{
	uint64_t wait = BACK_OFF_NS << (s->delays < 16 ? s->delays : 16);
	s->delays++;
	s->not_before_ns = now_ns + (wait < DELAY_MAX ? wait : DELAY_MAX);
	s->failed_job = 0;
	set_words(s, words);
}

/* Once Slurm has accepted a pilot, its configuration may be changing: try again, but not forever without any pilot. */
static void refused(struct submission *s, uint64_t now_ns, bool final, const char *words)
{
	s->refusals++;
	delayed(s, now_ns, words);
	if (!s->accepted && (final || s->refusals >= REFUSALS))
		s->refused = s->given_up = true;
	else if (s->settings.give_up && s->refusals >= s->settings.give_up && s->count <= 1)
		s->given_up = true;
}

static void forget(struct submission *s, struct submitted_pilot *p)
{
	*p = s->pilots[--s->count];
}

static struct submitted_pilot *find_name(struct submission *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->pilots[i].name, name) == 0)
			return &s->pilots[i];
	return NULL;
}

static struct submitted_pilot *find_job(struct submission *s, uint64_t slurm_job)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->pilots[i].slurm_job == slurm_job && slurm_job)
			return &s->pilots[i];
	return NULL;
}

bool submission_has_job(const struct submission *s, uint64_t slurm_job)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->pilots[i].slurm_job == slurm_job && slurm_job)
			return true;
	return false;
}

static struct submitted_pilot *find_pilot(struct submission *s, const char *pilot)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->pilots[i].stage == STAGE_JOINED && strcmp(s->pilots[i].pilot, pilot) == 0)
			return &s->pilots[i];
	return NULL;
}

static struct submitted_pilot *add(struct submission *s, uint64_t now_ns, enum submission_stage stage, const char *name)
{
	if (array_reserve(s->pilots, &s->capacity, s->count + 1) < 0)
		return NULL;
	struct submitted_pilot *p = &s->pilots[s->count++];
	*p = (struct submitted_pilot){.stage = stage, .since_ns = now_ns};
	snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

/* ---- Steps ----------------------------------------------------------------------------- */

static bool may_submit(const struct submission *s, uint64_t now_ns)
{
	size_t pending = submission_num_pending(s);
	if (s->leaving || s->given_up || now_ns < s->not_before_ns)
		return false;
	if (count_stage(s, STAGE_UNCERTAIN) || count_stage(s, STAGE_SUBMITTING))
		return false;
	return s->count < s->settings.max_nodes && pending < s->settings.max_pending && pending < wanted(s);
}

/* A pending pilot that will never start, or is no longer needed: the last one submitted, which would start last. */
static struct submitted_pilot *superfluous(struct submission *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->pilots[i].hopeless && !s->pilots[i].cancelling)
			return &s->pilots[i];
	if (!s->leaving && count_stage(s, STAGE_PENDING) <= wanted(s))
		return NULL;
	for (size_t i = s->count; i > 0; i--) {
		struct submitted_pilot *p = &s->pilots[i - 1];
		if (p->stage == STAGE_PENDING && !p->cancelling && p->slurm_job && (s->leaving || !p->running))
			return p;
	}
	return NULL;
}

static bool is_idle(const struct submission *s, const struct submitted_pilot *p, uint64_t now_ns)
{
	bool useless = now_ns >= p->since_ns + s->settings.idle_ns;
	return p->stage == STAGE_JOINED && !p->releasing && p->num_attempts == 0 && (useless || s->leaving);
}

static uint64_t wake_ns(const struct submission *s, uint64_t now_ns)
{
	uint64_t wake = s->not_before_ns > now_ns && !s->leaving ? s->not_before_ns : UINT64_MAX;
	for (size_t i = 0; i < s->count; i++) {
		const struct submitted_pilot *p = &s->pilots[i];
		uint64_t at = p->stage == STAGE_UNCERTAIN ? s->next_list_ns : p->since_ns + s->settings.idle_ns;
		bool counts = p->stage == STAGE_UNCERTAIN ||
			      (p->stage == STAGE_JOINED && !p->releasing && p->num_attempts == 0);
		if (counts && at > now_ns && at < wake)
			wake = at;
	}
	return wake == UINT64_MAX ? 0 : wake;
}

void submission_next(struct submission *s, uint64_t now_ns, struct submission_step *ret)
{
	*ret = (struct submission_step){.kind = SUBMISSION_NONE};
	struct submitted_pilot *p = superfluous(s);
	if (p) {
		p->cancelling = true;
		ret->kind = SUBMISSION_CANCEL;
		ret->slurm_job = p->slurm_job;
		return;
	}
	for (size_t i = 0; i < s->count; i++)
		if (is_idle(s, &s->pilots[i], now_ns)) {
			s->pilots[i].releasing = true;
			ret->kind = SUBMISSION_RELEASE;
			memcpy(ret->name, s->pilots[i].pilot, sizeof(ret->name));
			return;
		}
	if (count_stage(s, STAGE_UNCERTAIN) && now_ns >= s->next_list_ns) {
		s->next_list_ns = now_ns + LIST_NS;
		ret->kind = SUBMISSION_LIST;
		return;
	}
	if (may_submit(s, now_ns)) {
		char name[FRAME_NAME_ROOM];
		snprintf(name, sizeof(name), "%.50s-%u", s->settings.prefix, ++s->number);
		if (add(s, now_ns, STAGE_SUBMITTING, name)) {
			ret->kind = SUBMISSION_SUBMIT;
			memcpy(ret->name, name, sizeof(name));
			return;
		}
	}
	ret->wake_ns = wake_ns(s, now_ns);
}

/* ---- Events ---------------------------------------------------------------------------- */

int submission_submitted(
	struct submission *s, uint64_t now_ns, const char *name, int result, uint64_t slurm_job, const char *words)
{
	struct submitted_pilot *p = find_name(s, name);
	if (!p || p->stage != STAGE_SUBMITTING)
		return 0;
	p->since_ns = now_ns;
	if (result == 0) {
		p->stage = STAGE_PENDING;
		p->slurm_job = slurm_job;
		s->accepted = true;
		s->delays = s->refusals = 0;
		return 0;
	}
	if (result == -EINVAL || result == -ENOTSUP)
		refused(s, now_ns, result == -ENOTSUP, words);
	else
		delayed(s, now_ns, words);
	if (result == -EINVAL || result == -ENOTSUP || result == -EAGAIN) {
		forget(s, p);
		return 0;
	}
	p->stage = STAGE_UNCERTAIN;
	s->next_list_ns = now_ns;
	return 0;
}

static const struct listed_job *listed_by_name(const struct slurm_listing *l, const char *name)
{
	for (size_t i = 0; i < l->num_jobs; i++)
		if (strcmp(l->jobs[i].name, name) == 0)
			return &l->jobs[i];
	return NULL;
}

/* False: the pilot is no longer expected. */
static bool follow(struct submission *s, struct submitted_pilot *p, uint64_t now_ns, uint64_t begun_ns,
	const struct slurm_listing *l)
{
	if (p->stage == STAGE_JOINED || p->stage == STAGE_SUBMITTING || begun_ns < p->since_ns)
		return true;
	const struct listed_job *job = listed_by_name(l, p->name);
	if (!job && p->slurm_job)
		job = listing_find_job(l, p->slurm_job);
	if (!job)
		return false; /* it was never submitted, or Slurm dropped it before it started */
	if (p->stage == STAGE_UNCERTAIN) {
		p->stage = STAGE_PENDING;
		p->slurm_job = job->slurm_job;
		s->accepted = true;
		s->delays = s->refusals = 0;
	}
	p->running = job->state == LISTED_RUNNING;
	memcpy(p->reason, job->reason, sizeof(p->reason));
	if (job->state == LISTED_PENDING && !s->joined && !p->hopeless && sbatch_refusal_is_in_reason(job->reason)) {
		p->hopeless = true;
		s->accepted = false;
		refused(s, now_ns, true, job->reason);
	}
	if (job->state != LISTED_TERMINAL)
		return true;
	if (!p->cancelling && !p->hopeless) {
		failed(s, now_ns, "it ended before it reached the coordinator");
		s->failed_job = p->slurm_job;
	}
	return false;
}

int submission_listed(struct submission *s, uint64_t now_ns, uint64_t begun_ns, const struct slurm_listing *listing)
{
	if (!listing->ok)
		return 0;
	for (size_t i = s->count; i > 0; i--)
		if (!follow(s, &s->pilots[i - 1], now_ns, begun_ns, listing))
			forget(s, &s->pilots[i - 1]);
	return 0;
}

int submission_adopt(struct submission *s, uint64_t now_ns, const struct listed_job *job)
{
	if (find_name(s, job->name))
		return 0;
	struct submitted_pilot *p = add(s, now_ns, STAGE_PENDING, job->name);
	if (!p)
		return -ENOMEM;
	p->slurm_job = job->slurm_job;
	memcpy(p->reason, job->reason, sizeof(p->reason));
	s->accepted = true;
	return 0;
}

int submission_joined(struct submission *s, uint64_t now_ns, uint64_t slurm_job, const char *pilot, size_t num_gpus)
{
	struct submitted_pilot *p = find_pilot(s, pilot);
	if (p)
		return 0;
	p = find_job(s, slurm_job);
	if (!p || p->stage == STAGE_JOINED)
		p = add(s, now_ns, STAGE_JOINED, "");
	if (!p)
		return -ENOMEM;
	p->stage = STAGE_JOINED;
	p->cancelling = p->hopeless = false;
	s->accepted = s->joined = true;
	p->slurm_job = slurm_job;
	p->since_ns = now_ns;
	snprintf(p->pilot, sizeof(p->pilot), "%s", pilot);
	if (!s->settings.gpus)
		s->settings.gpus = (unsigned)num_gpus;
	return 0;
}

void submission_set_busy(struct submission *s, uint64_t now_ns, const char *pilot, size_t num_attempts)
{
	struct submitted_pilot *p = find_pilot(s, pilot);
	if (!p)
		return;
	if (p->num_attempts && !num_attempts)
		p->since_ns = now_ns;
	p->num_attempts = num_attempts;
	if (num_attempts) {
		p->had_work = true;
		s->failures = 0;
	}
}

void submission_gone(struct submission *s, uint64_t now_ns, const char *pilot, bool preempted, const char *words)
{
	struct submitted_pilot *p = find_pilot(s, pilot);
	if (!p)
		return;
	bool soon = now_ns < p->since_ns + SOON_NS;
	if (!p->had_work && !preempted && !p->releasing && !s->leaving && soon)
		failed(s, now_ns, words);
	else if (!p->had_work && p->releasing && s->demand.waiting_jobs && !s->leaving)
		failed(s, now_ns, "no pending job fits on it");
	forget(s, p);
}

const char *submission_words(const struct submission *s, uint64_t now_ns, char words[FRAME_WORDS_ROOM])
{
	size_t pending = count_stage(s, STAGE_PENDING);
	const char *reason = "";
	*words = '\0';
	for (size_t i = 0; i < s->count; i++)
		if (s->pilots[i].stage == STAGE_PENDING && *s->pilots[i].reason)
			reason = s->pilots[i].reason;
	if (s->refused)
		snprintf(words, FRAME_WORDS_ROOM, "Slurm refuses the options of --slurm: %.120s", s->words);
	else if (s->given_up)
		snprintf(words, FRAME_WORDS_ROOM, "no more pilots are submitted: %.120s", s->words);
	else if (count_stage(s, STAGE_UNCERTAIN))
		snprintf(
			words, FRAME_WORDS_ROOM, "sbatch failed (%.80s); waiting for Slurm's list of pilots", s->words);
	else if (s->delays && now_ns < s->not_before_ns)
		snprintf(words, FRAME_WORDS_ROOM, "Slurm accepts no %spilots for now (%.90s); next try in %llu s",
			s->accepted ? "more " : "", s->words,
			(unsigned long long)((s->not_before_ns - now_ns + NS_PER_S - 1) / NS_PER_S));
	else if (s->failures && now_ns < s->not_before_ns)
		snprintf(words, FRAME_WORDS_ROOM, "the last pilot ran no job (%.80s); next try in %llu s", s->words,
			(unsigned long long)((s->not_before_ns - now_ns + NS_PER_S - 1) / NS_PER_S));
	else if (pending)
		snprintf(words, FRAME_WORDS_ROOM, "%zu pilot%s pending in Slurm%s%.100s", pending,
			pending == 1 ? "" : "s", *reason ? ": " : "", reason);
	else if (s->count >= s->settings.max_nodes && wanted(s))
		snprintf(words, FRAME_WORDS_ROOM, "all %u pilots are in use (--max-nodes)", s->settings.max_nodes);
	return words;
}
