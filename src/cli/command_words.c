/* SPDX-License-Identifier: MIT */
#include "cli/command_words.h"

#include <stdbool.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/job_argp.h"
#include "cli/queue_choice.h"

static bool is_option_of(const struct argp_option *o, const char *word)
{
	size_t length = strcspn(word, "=");
	for (; o->name; o++)
		if (strlen(o->name) == length && memcmp(o->name, word, length) == 0)
			return true;
	return false;
}

void command_words_take(struct command_words *w, struct argp_state *state, const struct argp_option *options)
{
	w->words = state->argv + state->next - 1;
	w->count = state->argc - state->next + 1;
	state->next = state->argc;
	bool quoted = state->quoted || (w->words > state->argv + 1 && strcmp(w->words[-1], "--") == 0);
	for (int i = 1; !quoted && i < w->count; i++) {
		const char *word = w->words[i];
		if (strncmp(word, "--", 2) != 0)
			continue;
		if (!word[2])
			arguments_error(state, "'--' must be before the command: %s [OPTION…] -- %s …", state->name,
				w->words[0]);
		if (is_option_of(options, word + 2) || is_option_of(job_argp.options, word + 2) ||
			is_option_of(queue_choice_argp.options, word + 2))
			arguments_error(state,
				"%.*s is an option of gpuq, but comes after the command; move it before '%s', or if it belongs to "
				"the command, write '%s [OPTION…] -- %s …'",
				(int)strcspn(word, "="), word, w->words[0], state->name, w->words[0]);
	}
}
