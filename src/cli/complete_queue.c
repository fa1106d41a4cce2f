/* SPDX-License-Identifier: MIT */
#include "cli/complete_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/queue_choice.h"
#include "queue/input/job_selection.h"
#include "queue/runner/runner_rules.h"

/* Only this many of the newest jobs: more are of no help at a prompt. */
#define MOST_JOBS 1000

struct complete_source {
	char *jobs_file, *config_file; /* strings that the choice points to */
	struct queue_choice choice;
	struct follow follow;
	bool has_follow;
};

/* A journal that others can change offers nothing: its text would be inserted into this user's command line. */
static bool open_source(struct complete_source *s, const struct complete_line *l)
{
	struct gd_error err;
	*s = (struct complete_source){
		.jobs_file = complete_line_expand(l->jobs_file), .config_file = complete_line_expand(l->config_file)};
	s->choice = (struct queue_choice){.jobs_file = s->jobs_file,
		.config_file = s->config_file,
		.trust = l->trust,
		.shows = true,
		.silent = true};
	if (queue_choice_resolve(&s->choice, &err) < 0)
		return false;
	s->has_follow = queue_choice_follow_trusted(&s->choice, &s->follow, &err) == 0;
	return s->has_follow;
}

static void close_source(struct complete_source *s)
{
	if (s->has_follow)
		follow_close(&s->follow);
	queue_choice_finish(&s->choice);
	free(s->jobs_file);
	free(s->config_file);
}

/* ---- Jobs ----------------------------------------------------------------------------- */

static void offer_id(const struct job *job, struct complete_offer *o)
{
	char id[24];
	cleanup_(text_finish) struct text words = {0};
	snprintf(id, sizeof(id), "%llu", (unsigned long long)job->id);
	text_appendf(&words, "%s: %s", job_state_name(job->state), job->name ? job->name : "");
	if (!job->name)
		text_append(&words, job->command, job->command_size);
	complete_offer_add(o, id, text_string(&words), words.length);
}

/* Whether an earlier candidate, from a newer job, is the same. */
static bool is_offered(const struct text *seen, const char *word)
{
	const char *p = text_string(seen);
	for (size_t size = strlen(word); *p; p = strchr(p, '\n') + 1)
		if (strncmp(p, word, size) == 0 && p[size] == '\n')
			return true;
	return false;
}

static void offer_once(struct text *seen, const char *word, const char *description, struct complete_offer *o)
{
	/* A name such as "--all" would be read as an option. */
	if (*word == '-' || strchr(word, '\n') || is_offered(seen, word))
		return;
	text_append_string(seen, word);
	text_append_char(seen, '\n');
	complete_offer_add(o, word, description, strlen(description));
}

static void offer_name(const struct job *job, struct text *seen, struct complete_offer *o)
{
	if (job->name && job_selection_is_name(job->name))
		offer_once(seen, job->name, "jobs with this name", o);
}

static void offer_group(const struct job *job, struct text *seen, struct complete_offer *o)
{
	char name[JOB_GROUP_ROOM];
	if (job->group)
		offer_once(seen, job_group_name(job->group, name), "a sweep", o);
}

static void offer_tags(const struct job *job, const char *prefix, struct text *seen, struct complete_offer *o)
{
	for (const char *p = job->wish->tags; p && *p; p += *p == ',') {
		cleanup_(text_finish) struct text tag = {0};
		size_t size = strcspn(p, ",");
		text_append_string(&tag, prefix);
		text_append(&tag, p, size);
		offer_once(seen, text_string(&tag), "jobs with this tag", o);
		p += size;
	}
}

static bool is_wanted(const struct job *job, unsigned states)
{
	return states == 0 || states & 1u << job->state;
}

/* Number of older jobs that are not examined. */
static size_t end_of(const struct jobs *js)
{
	return js->count > MOST_JOBS ? js->count - MOST_JOBS : 0;
}

void complete_queue_jobs(const struct complete_line *l, unsigned states, struct complete_offer *o)
{
	struct complete_source s;
	cleanup_(text_finish) struct text seen = {0};
	if (open_source(&s, l)) {
		const struct jobs *js = &s.follow.jobs;
		for (size_t i = js->count; i > end_of(js); i--)
			if (is_wanted(js->by_id[i - 1], states))
				offer_id(js->by_id[i - 1], o);
		for (size_t i = js->count; i > end_of(js); i--) {
			if (!is_wanted(js->by_id[i - 1], states))
				continue;
			offer_name(js->by_id[i - 1], &seen, o);
			offer_group(js->by_id[i - 1], &seen, o);
			offer_tags(js->by_id[i - 1], "tag:", &seen, o);
		}
	}
	close_source(&s);
}

void complete_queue_names(const struct complete_line *l, struct complete_offer *o)
{
	struct complete_source s;
	cleanup_(text_finish) struct text seen = {0};
	if (open_source(&s, l))
		for (size_t i = s.follow.jobs.count; i > end_of(&s.follow.jobs); i--)
			if (s.follow.jobs.by_id[i - 1]->name)
				offer_once(&seen, s.follow.jobs.by_id[i - 1]->name, "jobs with this name", o);
	close_source(&s);
}

void complete_queue_tags(const struct complete_line *l, struct complete_offer *o)
{
	struct complete_source s;
	cleanup_(text_finish) struct text seen = {0};
	if (open_source(&s, l))
		for (size_t i = s.follow.jobs.count; i > end_of(&s.follow.jobs); i--)
			offer_tags(s.follow.jobs.by_id[i - 1], "", &seen, o);
	close_source(&s);
}

/* ---- GPUs ----------------------------------------------------------------------------- */

/* A specification of the GPUs that the runner uses; NULL: no runner on this machine, or it has no GPUs. */
static char *runner_gpus(const struct complete_source *s)
{
	struct runner_rules rules = {0};
	struct machine here = {0};
	char *spec = NULL;
	machine_get(&here);
	if (s->has_follow && follow_runner(&s->follow) != 0 && runner_rules_read(s->follow.dir_fd, &rules) == 0) {
		bool is_simulated = strncmp(rules.machine, "sim:", 4) == 0;
		if (strcmp(rules.host, here.host) == 0 && rules.gpus && strcmp(rules.gpus, RULES_NO_GPUS) != 0)
			spec = strdup(is_simulated ? rules.machine : rules.gpus);
		runner_rules_finish(&rules);
	}
	return spec;
}

static void offer_gpu(const struct gd_gpu *gpu, struct complete_offer *o)
{
	char number[16], memory[UNITS_ROOM];
	cleanup_(text_finish) struct text words = {0};
	snprintf(number, sizeof(number), "%d", gpu->index);
	if (gpu->known & GD_GPU_KNOWN_NAME)
		text_append_string(&words, gpu->name);
	if (gpu->known & GD_GPU_KNOWN_MEMORY_FREE)
		text_appendf(&words, "%s%s free", words.length ? ", " : "",
			units_format_size(gpu->memory_free_bytes, memory));
	if (gpu->mig_index < 0)
		complete_offer_add(o, number, text_string(&words), words.length);
	/* Offer UUIDs only after something was typed: numbers are easier. */
	if (gpu->known & GD_GPU_KNOWN_UUID && *o->typed)
		complete_offer_add(o, gpu->uuid, text_string(&words), words.length);
}

void complete_queue_gpus(const struct complete_line *l, struct complete_offer *o)
{
	struct complete_source s;
	struct gd_gpu_list *list;
	struct gd_error err;
	(void)open_source(&s, l);
	cleanup_(freep) char *spec = runner_gpus(&s);
	const char *chosen = spec ? spec : s.choice.config.gpus;
	if (gd_gpu_list(chosen, &list, &err) == 0) {
		for (size_t i = 0; i < list->count; i++)
			offer_gpu(list->gpus[i], o);
		gd_gpu_list_free(list);
	}
	close_source(&s);
}
