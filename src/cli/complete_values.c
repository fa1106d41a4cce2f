/* SPDX-License-Identifier: MIT */
#include "cli/complete_values.h"

#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/signals.h"
#include "cli/complete_programs.h"
#include "cli/complete_queue.h"
#include "launch/plugins.h"
#include "queue/journal/job.h"

static void offer_files(const struct complete_line *l, struct complete_offer *o)
{
	(void)l;
	complete_offer_ask(o, "files");
}

static void offer_directories(const struct complete_line *l, struct complete_offer *o)
{
	(void)l;
	complete_offer_ask(o, "directories");
}

static void offer_commands(const struct complete_line *l, struct complete_offer *o)
{
	(void)l;
	complete_programs(false, o);
}

static void offer_jobs(const struct complete_line *l, struct complete_offer *o)
{
	complete_queue_jobs(l, 0, o);
}

static void offer_states(const struct complete_line *l, struct complete_offer *o)
{
	(void)l;
	for (enum job_state state = 0; state < JOB_STATES; state++)
		complete_offer_add(o, job_state_name(state), NULL, 0);
}

static void offer_signals(const struct complete_line *l, struct complete_offer *o)
{
	static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGCONT};
	(void)l;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		complete_offer_add(o, signal_name(signals[i]) + strlen("SIG"), NULL, 0);
}

static void offer_spec(const struct complete_line *l, struct complete_offer *o)
{
	static const char of_the_environment[] = "the GPUs of $GPUQ_GPUS, or all", all[] = "all usable GPUs",
			  simulated[] = "simulated GPUs";
	if (o->head + strlen(o->head) - strlen(l->word) == o->typed) {
		complete_offer_add(o, "auto", of_the_environment, strlen(of_the_environment));
		complete_offer_add(o, "all", all, strlen(all));
		complete_offer_add(o, "sim:4", simulated, strlen(simulated));
	}
	complete_queue_gpus(l, o);
}

static void offer_plugins(const struct complete_line *l, struct complete_offer *o)
{
	struct plugin *plugins;
	size_t count;
	if (plugins_list(&plugins, &count) == 0) {
		for (size_t i = 0; i < count; i++)
			if (!plugins[i].refusal)
				complete_offer_add(o, plugins[i].name, NULL, 0);
		plugins_free(plugins, count);
	}
	offer_files(l, o);
}

/* "gpu|none": offers the values themselves. */
static void offer_enumeration(const char *values, struct complete_offer *o)
{
	for (const char *p = values; *p; p += *p == '|') {
		size_t size = strcspn(p, "|");
		cleanup_(text_finish) struct text value = {0};
		text_append(&value, p, size);
		complete_offer_add(o, text_string(&value), NULL, 0);
		p += size;
	}
}

static bool is_enumeration(const char *arg)
{
	return strchr(arg, '|') && arg[strspn(arg, "abcdefghijklmnopqrstuvwxyz-|")] == '\0';
}

static const struct {
	const char *arg;
	bool is_list; /* comma-separated */
	void (*offer)(const struct complete_line *l, struct complete_offer *o);
} kinds[] = {
	{"FILE", false, offer_files},
	{"DIR", false, offer_directories},
	{"FOLDER", false, offer_directories},
	{"COMMAND", false, offer_commands},
	{"ID[,ID...]", true, offer_jobs},
	{"NAME", false, complete_queue_names},
	{"TAG[,TAG...]", true, complete_queue_tags},
	{"GPU[,GPU...]", true, complete_queue_gpus},
	{"STATE[,STATE...]", true, offer_states},
	{"SIGNAL[@TIME]", false, offer_signals},
	{"SPEC", true, offer_spec},
	{"NAME|FILE.so", false, offer_plugins},
};

void complete_values(const struct complete_line *l, struct complete_offer *o)
{
	const char *arg = l->option && l->option->arg ? l->option->arg : "";
	if (is_enumeration(arg))
		offer_enumeration(arg, o);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(arg, kinds[i].arg) != 0)
			continue;
		if (kinds[i].is_list)
			complete_offer_begin_list(o);
		kinds[i].offer(l, o);
	}
}
