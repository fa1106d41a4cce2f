/* SPDX-License-Identifier: MIT */
#include "slurm/slurm_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "slurm/listing_text.h"
#include "slurm/sbatch_refusal.h"
#include "slurm/slurm_command.h"

#define DEFAULT_TIMEOUT_MS 30000
#define MOST_WORDS         128

enum client_request_kind { REQUEST_SUBMIT, REQUEST_LIST, REQUEST_CANCEL };

struct client_request {
	struct client_request *next;
	enum client_request_kind kind;
	char name[FRAME_NAME_ROOM]; /* the job name to submit */
	char *words[MOST_WORDS];    /* arguments of its command, ends with NULL; memory of the request */
	char *memory;
};

/* BOOT_TIME before and after the rest: a controller that was restarted in between may have forgotten jobs. */
enum list_step { LIST_BOOT_BEFORE, LIST_JOBS, LIST_NODES, LIST_BOOT_AFTER, LIST_STEPS };

struct slurm_client {
	struct slurm_client_options options;
	struct client_request *first, **last; /* the first one runs */
	struct slurm_command *command;
	struct loop_source *next; /* starts the next request, from the loop */
	enum list_step step;
	uint64_t begun_ns;
	int64_t boot_before_ms;
	struct listing_builder builder;
	char user[24];
	char prefix[FRAME_NAME_ROOM]; /* a copy: the caller's may not live as long */
};

static void release(struct client_request *r)
{
	free(r->memory);
	free(r);
}

static void start_first(struct slurm_client *c);

/* The first request is finished. */
static void finish_first(struct slurm_client *c)
{
	struct client_request *r = c->first;
	c->first = r->next;
	if (!c->first)
		c->last = &c->first;
	release(r);
	if (c->first)
		loop_set_deadline(c->next, 1);
}

static void on_next(void *context, uint32_t events)
{
	struct slurm_client *c = context;
	(void)events;
	if (c->first && !c->command)
		start_first(c);
}

/* The first line of a command's standard error. */
static void first_line(const char *text, char ret[FRAME_WORDS_ROOM])
{
	snprintf(ret, FRAME_WORDS_ROOM, "%.*s", (int)strcspn(text, "\n"), text);
}

/* ---- Submitting ------------------------------------------------------------------- */

/* The result for the callback. */
static int judge_failure(int result, const char *err)
{
	switch (result == -ECHILD ? sbatch_refusal_classify(err) : SBATCH_UNCERTAIN) {
	case SBATCH_REFUSES_FINALLY:
		return -ENOTSUP;
	case SBATCH_REFUSES:
		return -EINVAL;
	case SBATCH_REFUSES_NOW:
		return -EAGAIN;
	case SBATCH_UNCERTAIN:
		break;
	}
	return result;
}

static void on_submitted(void *context, int result, const char *out, size_t size, const char *err)
{
	struct slurm_client *c = context;
	char name[FRAME_NAME_ROOM], words[FRAME_WORDS_ROOM];
	uint64_t id = 0;
	c->command = NULL;
	memcpy(name, c->first->name, sizeof(name));
	sbatch_refusal_words(err, words, sizeof(words));
	result = result == 0 ? listing_parse_submitted(out, size, &id) : judge_failure(result, err);
	finish_first(c);
	c->options.ops->submitted(c->options.context, name, result, id, words);
}

/* ---- Listing ---------------------------------------------------------------------- */

static int start_step(struct slurm_client *c);

static void finish_listing(struct slurm_client *c, bool ok, const char *words)
{
	struct slurm_listing l = {.ok = ok};
	struct listing_builder b = c->builder;
	uint64_t begun = c->begun_ns;
	c->builder = (struct listing_builder){0};
	if (ok) {
		l.boot_before_ms = c->boot_before_ms;
		l.boot_after_ms = b.boot_ms;
		l.cgroup = b.cgroup;
		l.jobs = b.jobs;
		l.num_jobs = b.num_jobs;
		l.nodes = b.nodes;
		l.num_nodes = b.num_nodes;
	}
	finish_first(c);
	c->options.ops->listed(c->options.context, begun, &l, words);
	listing_builder_finish(&b);
}

static void on_listed(void *context, int result, const char *out, size_t size, const char *err)
{
	struct slurm_client *c = context;
	char words[FRAME_WORDS_ROOM];
	c->command = NULL;
	first_line(err, words);
	int r = result;
	if (r == 0 && c->step == LIST_JOBS)
		r = listing_add_jobs(&c->builder, out, size, c->prefix);
	else if (r == 0 && c->step == LIST_NODES)
		r = listing_add_nodes(&c->builder, out, size);
	else if (r == 0)
		r = listing_set_config(&c->builder, out, size);
	if (r == 0 && c->step == LIST_BOOT_BEFORE)
		c->boot_before_ms = c->builder.boot_ms;
	if (r == 0 && ++c->step < LIST_STEPS && start_step(c) == 0)
		return;
	bool ok = r == 0 && c->step == LIST_STEPS;
	if (r == -EBADMSG)
		snprintf(words, sizeof(words), "the answer of Slurm is invalid");
	else if (r == -ETIMEDOUT)
		snprintf(words, sizeof(words), "Slurm does not answer");
	else if (!ok && !*words)
		snprintf(words, sizeof(words), "%s failed", c->step == LIST_JOBS ? "squeue" : "scontrol");
	finish_listing(c, ok, words);
}

static int start_step(struct slurm_client *c)
{
	const char *const config[] = {"scontrol", "show", "config", NULL};
	/* -a: include hidden partitions. -t all: include finished jobs. */
	const char *const jobs[] = {"squeue", "-h", "-a", "-t", "all", "-u", c->user, "-O", LISTING_JOB_FIELDS, NULL};
	const char *const nodes[] = {"scontrol", "-a", "-o", "show", "nodes", NULL};
	const char *const *argv = c->step == LIST_JOBS ? jobs : c->step == LIST_NODES ? nodes : config;
	return slurm_command_start(c->options.loop, argv, c->options.timeout_ms, on_listed, c, &c->command);
}

/* ---- Requests --------------------------------------------------------------------- */

static void on_cancelled(void *context, int result, const char *out, size_t size, const char *err)
{
	struct slurm_client *c = context;
	(void)result;
	(void)out;
	(void)size;
	(void)err;
	c->command = NULL;
	finish_first(c);
}

static void start_first(struct slurm_client *c)
{
	const struct client_request *r = c->first;
	int e;
	if (r->kind == REQUEST_LIST) {
		c->step = LIST_BOOT_BEFORE;
		c->begun_ns = clock_now_ns();
		e = start_step(c);
		if (e < 0)
			finish_listing(c, false, "cannot execute scontrol");
		return;
	}
	bool submit = r->kind == REQUEST_SUBMIT;
	e = slurm_command_start(c->options.loop, (const char *const *)r->words, c->options.timeout_ms,
		submit ? on_submitted : on_cancelled, c, &c->command);
	if (e == 0)
		return;
	char name[FRAME_NAME_ROOM];
	memcpy(name, r->name, sizeof(name));
	finish_first(c);
	/* Nothing was executed, so nothing was submitted. */
	if (submit)
		c->options.ops->submitted(c->options.context, name, -EINVAL, 0, "sbatch could not be executed");
}

static void add_request(struct slurm_client *c, struct client_request *r)
{
	*c->last = r;
	c->last = &r->next;
	if (c->first == r)
		loop_set_deadline(c->next, 1); /* report from the loop, even if it fails at once */
}

int slurm_client_create(const struct slurm_client_options *options, struct slurm_client **ret)
{
	struct slurm_client *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->options = *options;
	if (c->options.timeout_ms == 0)
		c->options.timeout_ms = DEFAULT_TIMEOUT_MS;
	c->options.prefix = NULL;
	snprintf(c->prefix, sizeof(c->prefix), "%s", options->prefix);
	c->last = &c->first;
	snprintf(c->user, sizeof(c->user), "%u", (unsigned)geteuid());
	int r = loop_add_timer(options->loop, on_next, c, &c->next);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void slurm_client_destroy(struct slurm_client *c)
{
	if (!c)
		return;
	slurm_command_cancel(c->command);
	loop_remove(c->next);
	while (c->first) {
		struct client_request *r = c->first;
		c->first = r->next;
		release(r);
	}
	listing_builder_finish(&c->builder);
	free(c);
}

/* The words are `memory`, each ended by a NUL. */
static int set_words(struct client_request *r, struct text *memory)
{
	size_t n = 0, size = memory->length;
	r->memory = text_take(memory);
	if (!r->memory)
		return -ENOMEM;
	for (char *p = r->memory; p < r->memory + size; p += strlen(p) + 1) {
		if (n == MOST_WORDS - 1)
			return -EINVAL;
		r->words[n++] = p;
	}
	r->words[n] = NULL;
	return 0;
}

static void put_word(struct text *t, const char *before, const char *word)
{
	text_append_string(t, before);
	text_append(t, word, strlen(word) + 1);
}

int slurm_client_submit(
	struct slurm_client *c, const char *name, const char *options, const char *output, const char *script)
{
	struct text t = {0};
	put_word(&t, "", "sbatch");
	int e = shell_split(options, &t);
	put_word(&t, "", "--parsable");
	put_word(&t, "", "--no-requeue");
	put_word(&t, "", "--nodes=1");
	put_word(&t, "", "--ntasks=1");
	put_word(&t, "--job-name=", name);
	put_word(&t, "--output=", output);
	put_word(&t, "", "--open-mode=append");
	put_word(&t, "--wrap=", script);
	struct client_request *r = calloc(1, sizeof(*r));
	if (e >= 0)
		e = r ? set_words(r, &t) : -ENOMEM;
	text_finish(&t);
	if (e < 0) {
		if (r)
			release(r);
		return e;
	}
	r->kind = REQUEST_SUBMIT;
	snprintf(r->name, sizeof(r->name), "%s", name);
	add_request(c, r);
	return 0;
}

int slurm_client_list(struct slurm_client *c)
{
	for (const struct client_request *r = c->first; r; r = r->next)
		if (r->kind == REQUEST_LIST && (r != c->first || !c->command))
			return 0;
	struct client_request *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->kind = REQUEST_LIST;
	add_request(c, r);
	return 0;
}

int slurm_client_cancel(struct slurm_client *c, uint64_t slurm_job)
{
	struct text t = {0};
	put_word(&t, "", "scancel");
	text_append_number(&t, slurm_job);
	text_append(&t, "", 1);
	struct client_request *r = calloc(1, sizeof(*r));
	int e = r ? set_words(r, &t) : -ENOMEM;
	text_finish(&t);
	if (e < 0) {
		if (r)
			release(r);
		return e;
	}
	r->kind = REQUEST_CANCEL;
	add_request(c, r);
	return 0;
}
