/* SPDX-License-Identifier: MIT */
/* A command after the options of gpuq: "gpuq add --mem 8G python train.py -v". */
#ifndef CLI_COMMAND_WORDS_H
#define CLI_COMMAND_WORDS_H

#include <argp.h>

struct command_words {
	char **words; /* part of argv, including its final NULL */
	int count;
};

/*
 * For ARGP_KEY_ARG under command_parse_in_order(): the first word that is not an option begins the command, and all
 * following words belong to it. A following word that is one of `options`, of job_argp or of queue_choice_argp may
 * have been meant for gpuq: it is an error, unless the command follows "--".
 */
void command_words_take(struct command_words *w, struct argp_state *state, const struct argp_option *options);

#endif
