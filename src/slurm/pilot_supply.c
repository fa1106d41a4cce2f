/* SPDX-License-Identifier: MIT */
#include "slurm/pilot_supply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "slurm/slurm_client.h"

/* How often to look what became of pilots that have not greeted. */
#define LOOK_NS (2 * NS_PER_S)
/* Of the queue's id, in names of jobs. */
#define QUEUE_DIGITS 12

struct pilot_supply {
	struct pilot_supply_options options;
	struct slurm_client *client;
	struct submission *submission;
	struct text script, output;
	uint64_t next_look_ns;
	char said[FRAME_WORDS_ROOM];
};

static void on_submitted(void *context, const char *name, int result, uint64_t slurm_job, const char *words)
{
	struct pilot_supply *s = context;
	(void)submission_submitted(s->submission, clock_now_ns(), name, result, slurm_job, words);
}

static void on_listed(void *context, uint64_t begun_ns, const struct slurm_listing *listing, const char *words)
{
	struct pilot_supply *s = context;
	(void)words;
	(void)submission_listed(s->submission, clock_now_ns(), begun_ns, listing);
	if (listing->ok)
		s->options.ops->listed(s->options.context, listing);
}

/* A path between single quotes, for the shell of the batch script. */
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
	text_appendf(&s->output, "%s/pilot-%%j.out", j->dir_path);
	return text_error(&s->script) ? text_error(&s->script) : text_error(&s->output);
}

int pilot_supply_create(const struct pilot_supply_options *options, struct pilot_supply **ret)
{
	static const struct slurm_client_ops ops = {.submitted = on_submitted, .listed = on_listed};
	struct submission_settings settings = {.max_nodes = options->max_nodes};
	char prefix[FRAME_NAME_ROOM];
	struct pilot_supply *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->options = *options;
	snprintf(prefix, sizeof(prefix), "gpuq-%.*s-", QUEUE_DIGITS, options->journal->queue);
	snprintf(settings.prefix, sizeof(settings.prefix), "%.40s%llu", prefix, (unsigned long long)options->epoch);
	int r = write_words(s);
	if (r == 0)
		r = submission_create(&settings, &s->submission);
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
	if (s->submission)
		submission_destroy(s->submission);
	text_finish(&s->script);
	text_finish(&s->output);
	free(s);
}

static void submit(struct pilot_supply *s, const char *name)
{
	int r = slurm_client_submit(
		s->client, name, s->options.sbatch_options, text_string(&s->output), text_string(&s->script));
	/* No answer follows. */
	if (r < 0)
		(void)submission_submitted(s->submission, clock_now_ns(), name, -EINVAL, 0,
			r == -EINVAL ? "an open quotation mark in the options for sbatch" : "out of memory");
}

static void execute(struct pilot_supply *s, const struct submission_step *step)
{
	switch (step->kind) {
	case SUBMISSION_SUBMIT:
		submit(s, step->name);
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

/* Each reason once. */
static void say_words(struct pilot_supply *s, uint64_t now_ns)
{
	char words[FRAME_WORDS_ROOM], *seconds;
	submission_words(s->submission, now_ns, words);
	/* "all 8 pilots are in use" is as it should be; `why` says so. */
	if (strncmp(words, "all ", 4) == 0)
		*words = '\0';
	/* Not again for each second that passes. */
	if ((seconds = strstr(words, "; next try in")))
		*seconds = '\0';
	if (strcmp(words, s->said) == 0)
		return;
	memcpy(s->said, words, sizeof(s->said));
	if (*words)
		s->options.ops->say(s->options.context, words);
}

uint64_t pilot_supply_step(struct pilot_supply *s, const struct submission_demand *demand)
{
	uint64_t now = clock_now_ns();
	struct submission_step step;
	submission_set_demand(s->submission, demand);
	for (submission_next(s->submission, now, &step); step.kind != SUBMISSION_NONE;
		submission_next(s->submission, now, &step))
		execute(s, &step);
	if (submission_num_pending(s->submission) && now >= s->next_look_ns) {
		s->next_look_ns = now + LOOK_NS;
		(void)slurm_client_list(s->client);
	}
	say_words(s, now);
	return step.wake_ns;
}

void pilot_supply_list(struct pilot_supply *s)
{
	(void)slurm_client_list(s->client);
}

int pilot_supply_joined(struct pilot_supply *s, uint64_t slurm_job, const char *pilot, size_t num_gpus)
{
	return submission_joined(s->submission, clock_now_ns(), slurm_job, pilot, num_gpus);
}

void pilot_supply_gone(struct pilot_supply *s, const char *pilot, enum death_proof proof, const char *words)
{
	submission_gone(s->submission, clock_now_ns(), pilot, proof == PROOF_SLURM, words);
}

void pilot_supply_set_busy(struct pilot_supply *s, const char *pilot, size_t num_attempts)
{
	submission_set_busy(s->submission, clock_now_ns(), pilot, num_attempts);
}

void pilot_supply_leave(struct pilot_supply *s)
{
	submission_leave(s->submission);
}

size_t pilot_supply_num_pending(const struct pilot_supply *s)
{
	return submission_num_pending(s->submission);
}
