/* SPDX-License-Identifier: MIT */
#include "cli/complete.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/command_table.h"
#include "cli/complete_line.h"
#include "cli/complete_offer.h"
#include "cli/complete_programs.h"
#include "cli/complete_queue.h"
#include "cli/complete_values.h"
#include "cli/exit_code.h"

/* For on_argp(), which is called from within the command. */
static const struct command *asked;

static void finish(struct complete_offer *o)
{
	if (text_error(&o->out) == 0 && o->out.length)
		(void)file_write_all(STDOUT_FILENO, o->out.data, o->out.length);
	_exit(EXIT_DONE);
}

static void offer_option(struct complete_offer *o, const char *name, const char *doc)
{
	complete_offer_add(o, name, doc, doc ? strlen(doc) : 0);
}

/* Offers short options only after a single dash. */
static void offer_options(const struct complete_table *t, struct complete_offer *o)
{
	for (size_t i = 0; i < t->count; i++) {
		const struct complete_option *option = &t->options[i];
		char name[64];
		if (option->hidden)
			continue;
		if (option->letter && strcmp(o->typed, "-") == 0) {
			snprintf(name, sizeof(name), "-%c", option->letter);
			offer_option(o, name, option->doc);
		}
		if (option->name) {
			snprintf(name, sizeof(name), "--%s", option->name);
			offer_option(o, name, option->doc);
		}
	}
}

/*
 * `gpuq exec` executes the word itself, so the shell may complete any file there. Elsewhere a second shell may read the
 * word: offer only programs with plain names.
 */
static void offer_command(const struct complete_line *l, bool takes_script, struct complete_offer *o)
{
	bool executes = strcmp(asked->name, "exec") == 0;
	char words[32];
	if (l->part == COMPLETE_ARGUMENTS) {
		/* Counted from the word after "gpuq", which is the name of the command. */
		snprintf(words, sizeof(words), "arguments %d", l->command_at + 1);
		complete_offer_ask(o, words);
		return;
	}
	if (!executes || !strchr(l->word, '/'))
		complete_programs(takes_script, o);
	if (executes && o->out.length == 0)
		complete_offer_ask(o, "files");
}

/* gpuq launch accepts its command only after "--". */
static bool needs_dashes(const struct argp *argp)
{
	return strstr(argp->args_doc, "[-- COMMAND") != NULL;
}

static void offer_argument(const struct argp *argp, const struct complete_line *l, const struct complete_table *t,
	struct complete_offer *o)
{
	if (complete_table_takes(argp, "ID")) {
		complete_offer_begin_list(o);
		complete_queue_jobs(l, asked->job_states, o);
	} else if (complete_table_takes(argp, "COMMAND") && (l->after_dashes || !needs_dashes(argp))) {
		offer_command(l, complete_table_takes(argp, "SCRIPT"), o);
	} else if (!*l->word) {
		offer_options(t, o);
	}
}

static void on_argp(const struct argp *argp, int argc, char **argv)
{
	struct complete_table t = {0};
	struct complete_line l;
	if (complete_table_fill(&t, argp) < 0 || argc < 2)
		_exit(EXIT_DONE);
	complete_line_read(&l, &t, argv + 1, argc - 1, complete_table_takes(argp, "COMMAND"));
	struct complete_offer o = {.head = l.head, .typed = l.word};
	switch (l.part) {
	case COMPLETE_OPTION:
		offer_options(&t, &o);
		break;
	case COMPLETE_VALUE:
		complete_values(&l, &o);
		break;
	case COMPLETE_ARGUMENT:
		offer_argument(argp, &l, &t, &o);
		break;
	case COMPLETE_ARGUMENTS:
		offer_command(&l, false, &o);
		break;
	}
	complete_table_finish(&t);
	finish(&o);
}

static void offer_commands(const char *typed, bool for_help)
{
	struct complete_offer o = {.head = typed, .typed = typed};
	for (size_t i = 0; i < COMMAND_TABLE_SIZE; i++)
		offer_option(&o, command_table[i]->name, command_table[i]->summary);
	if (for_help) {
		offer_option(&o, "--all", "List all commands");
	} else {
		offer_option(&o, "help", "Explain a command");
		offer_option(&o, "--help", "Print an overview");
		offer_option(&o, "--verbose", "Show decisions as they are made");
		offer_option(&o, "--version", "Print the version");
	}
	finish(&o);
}

static void give_up(int number)
{
	(void)number;
	_exit(EXIT_DONE);
}

static void keep_quiet(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
	signal(SIGALRM, give_up);
	alarm(COMPLETE_SECONDS);
}

int complete_main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "--") != 0)
		return EXIT_DONE;
	keep_quiet();
	char **words = argv + 2;
	int count = argc - 2;
	for (; count > 1 && strcmp(*words, "--verbose") == 0; count--)
		words++;
	if (count == 1)
		offer_commands(words[0], false);
	if (strcmp(*words, "help") == 0 && count == 2)
		offer_commands(words[1], true);
	asked = command_table_find(*words);
	if (!asked)
		return EXIT_DONE;
	command_set_hook(on_argp);
	(void)asked->run(count, words);
	return EXIT_DONE;
}
