/* SPDX-License-Identifier: MIT */
/* A command behind the options of gpuq: "gpuq add --mem 8G python train.py -v". */
#ifndef CLI_COMMAND_WORDS_H
#define CLI_COMMAND_WORDS_H

#include <argp.h>

struct command_words {
	char **words; /* of argv, and ended by its NULL */
	int count;
};

/*
 * For ARGP_KEY_ARG under command_parse_in_order(): the first word that is no option begins the command, and all that
 * follows belongs to the command. A word behind it that is one of `options`, of job_argp or of queue_choice_argp, may
 * have been meant for gpuq: it is an error, unless the command follows "--".
 */
void command_words_take(struct command_words *w, struct argp_state *state, const struct argp_option *options);

#endif
