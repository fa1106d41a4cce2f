/* SPDX-License-Identifier: MIT */
/*
 * Any parameters and any words of a command: no value changes the words that a shell reads.
 *
 * Input: lines. The first is the text of --param, the others are the words. Each command that is made is read as a
 * shell does, and must have as many words as were given; in shell text, values have no special character of a shell.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/shell_words.h"
#include "fuzz.h"
#include "queue/input/sweep.h"

#define MAX_WORDS 8

/* How many words a shell reads, where everything special is inside '…' or is \'. */
static size_t count_words(const char *s)
{
	size_t n = 1;
	bool quoted = false;
	for (; *s; s++) {
		if (*s == '\'')
			quoted = !quoted;
		else if (!quoted && *s == '\\') {
			FUZZ_CHECK(s[1] == '\'');
			s++;
		} else if (!quoted && *s == ' ')
			n++;
		else
			FUZZ_CHECK(quoted || shell_is_plain(s, 1));
	}
	FUZZ_CHECK(!quoted);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text, *words[MAX_WORDS];
	size_t count = 0;
	struct sweep s = {0};
	struct gd_error err = {0};
	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	const char *param = strsep(&rest, "\n");
	while (rest && count < MAX_WORDS)
		words[count++] = strsep(&rest, "\n");
	struct id_list indices = {0};
	(void)sweep_parse_array(param, &indices, NULL);
	FUZZ_CHECK(indices.count <= SWEEP_MAX_JOBS);
	id_list_finish(&indices);
	int r = sweep_add_param(&s, param, &err);
	FUZZ_CHECK(r == 0 || err.message[0]);
	if (r == 0 && count > 0)
		r = sweep_prepare(&s, false, words, count, &err);
	for (size_t i = 0; r == 0 && count > 0 && i < s.count && i < 100; i++) {
		struct text command = {0};
		sweep_fill(&s, i, &command);
		if (count > 1)
			FUZZ_CHECK(count_words(text_string(&command)) == count);
		text_finish(&command);
	}
	sweep_finish(&s);
	free(text);
	return 0;
}
