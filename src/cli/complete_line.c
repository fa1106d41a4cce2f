/* SPDX-License-Identifier: MIT */
#include "cli/complete_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note(struct complete_line *l, const struct complete_option *o, const char *value)
{
	const char *name = o->name ? o->name : "";
	if (strcmp(name, "trust") == 0)
		l->trust = true;
	else if (strcmp(name, "jobs-file") == 0)
		l->jobs_file = value;
	else if (strcmp(name, "config") == 0)
		l->config_file = value;
	else if (strcmp(name, "gpus") == 0)
		l->gpus = value;
}

/* The option that a word names, and its value if it is in the same word. NULL: unknown option. */
static const struct complete_option *find_option(
	const struct complete_table *t, const char *word, const char **ret_value)
{
	const char *equals = strchr(word, '=');
	*ret_value = NULL;
	if (strncmp(word, "--", 2) == 0) {
		const struct complete_option *o =
			complete_table_by_name(t, word + 2, equals ? (size_t)(equals - word) - 2 : strlen(word + 2));
		*ret_value = equals ? equals + 1 : NULL;
		return o;
	}
	/* -rf is -r -f; -n5 and -n 5 have a value. */
	for (const char *p = word + 1; *p; p++) {
		const struct complete_option *o = complete_table_by_letter(t, *p);
		if (!o || o->arg || !p[1]) {
			*ret_value = o && o->arg && p[1] ? p + 1 : NULL;
			return o;
		}
	}
	return NULL;
}

static bool is_option(const struct complete_line *l, const char *word)
{
	return word[0] == '-' && word[1] && !l->after_dashes;
}

/* Reads a word before the one to complete. Returns the number of words, including the option's value. */
static int read_word(
	struct complete_line *l, const struct complete_table *t, char **words, int at, int last, bool takes_command)
{
	const char *value, *word = words[at];
	if (is_option(l, word) && strcmp(word, "--") == 0) {
		l->after_dashes = true;
		return 1;
	}
	if (!is_option(l, word)) {
		if (takes_command)
			l->command_at = at;
		return 1;
	}
	const struct complete_option *o = find_option(t, word, &value);
	if (!o)
		return 1;
	if (!o->arg || value) {
		note(l, o, value);
		return 1;
	}
	if (at + 1 == last) {
		l->part = COMPLETE_VALUE;
		l->option = o;
	} else {
		note(l, o, words[at + 1]);
	}
	return 2;
}

void complete_line_read(
	struct complete_line *l, const struct complete_table *t, char **words, int count, bool takes_command)
{
	int last = count - 1, at = 0;
	*l = (struct complete_line){.word = words[last], .head = words[last], .command_at = -1};
	while (at < last && l->command_at < 0)
		at += read_word(l, t, words, at, last, takes_command);
	if (l->command_at >= 0) {
		l->part = COMPLETE_ARGUMENTS;
		return;
	}
	if (l->part == COMPLETE_VALUE || !(l->word[0] == '-' && !l->after_dashes))
		return;
	const char *equals = strncmp(l->word, "--", 2) == 0 ? strchr(l->word, '=') : NULL;
	l->part = COMPLETE_OPTION;
	if (!equals)
		return;
	l->part = COMPLETE_VALUE;
	l->option = complete_table_by_name(t, l->word + 2, (size_t)(equals - l->word) - 2);
	l->word = equals + 1;
}

char *complete_line_expand(const char *path)
{
	const char *home = getenv("HOME");
	char *whole = NULL;
	if (!path || strncmp(path, "~/", 2) != 0 || !home)
		return path ? strdup(path) : NULL;
	return asprintf(&whole, "%s%s", home, path + 1) < 0 ? NULL : whole;
}
