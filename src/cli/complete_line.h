/* SPDX-License-Identifier: MIT */
/* Finds the part of a command line to complete. */
#ifndef CLI_COMPLETE_LINE_H
#define CLI_COMPLETE_LINE_H

#include "cli/complete_table.h"

enum complete_part {
	COMPLETE_ARGUMENT,  /* neither an option nor its value */
	COMPLETE_OPTION,    /* the name of an option */
	COMPLETE_VALUE,     /* the value of `option` */
	COMPLETE_ARGUMENTS, /* a word of the command that begins at `command_at` */
};

struct complete_line {
	enum complete_part part;
	const struct complete_option *option;
	const char *word; /* text to complete; "ru" for "--state=ru" */
	const char *head; /* the whole word, which ends with `word` */
	int command_at;   /* index of the first word of a command; -1: none begins before the word to complete */
	bool after_dashes;
	/* Options that choose the queue; NULL: not given. */
	const char *jobs_file, *config_file, *gpus;
	bool trust;
};

/* words[count - 1] is the word to complete. takes_command: the first argument begins a command, whose options are not
 * parsed. */
void complete_line_read(
	struct complete_line *l, const struct complete_table *t, char **words, int count, bool takes_command);

/* Expands a leading "~/", which the shell has not expanded yet. The caller frees the result; NULL: out of memory, or
 * no path. */
char *complete_line_expand(const char *path);

#endif
