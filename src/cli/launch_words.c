/* SPDX-License-Identifier: MIT */
#include "cli/launch_words.h"

#include <string.h>

#include "base/cleanup.h"
#include "cli/say.h"

static const struct {
	const char *field;
	const char *option;
} words[] = {
	{"set trust_output_dir", "use --trust"},
	{"set trust_input", "use --trust"},
	{"another output_dir", "another --output-dir"},
	{"set force", "use --force"},
	{"set recursive", "use --recursive"},
	{"set gpus to sim:4", "use --gpus sim:4"},
	{"set plugin to", "use --worker"},
	{"set only one of command, program, plugin, worker and worker_argv",
		"use only one of --worker, --worker-command and a COMMAND"},
	{"set command, program or plugin to a worker of your own",
		"use a worker of your own: -- COMMAND {file} {output}, --worker-command 'PROGRAM' or --worker FILE.so"},
	{"set a value for the setting model_size", "set a value with --model-size"},
	{"set a value for the setting language", "set a value with --language"},
	{"the setting model_size", "--model-size"},
	{"the setting language", "--language"},
	{"(max_failures)", "(--max-failures)"},
	{"the names of settings", "every KEY of --set KEY=VALUE"},
	{"the setting ", "--set "},
};

#define NUM_WORDS (sizeof(words) / sizeof(*words))

void launch_words_append(struct text *out, const char *message)
{
	bool quoted = false;
	while (*message) {
		size_t i = quoted ? NUM_WORDS : 0;
		while (i < NUM_WORDS && strncmp(message, words[i].field, strlen(words[i].field)) != 0)
			i++;
		if (i < NUM_WORDS) {
			text_append_string(out, words[i].option);
			message += strlen(words[i].field);
			continue;
		}
		quoted ^= *message == '\'';
		text_append_char(out, *message++);
	}
}

void launch_words_say(const char *message)
{
	cleanup_(text_finish) struct text line = {0};
	launch_words_append(&line, message);
	say("%s", text_string(&line));
}
