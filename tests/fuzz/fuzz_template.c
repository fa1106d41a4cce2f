/* SPDX-License-Identifier: MIT */
/*
 * Any words as a command with {words}: template_fill() succeeds exactly if template_check() finds no error, keeps
 * the number of arguments, leaves arguments without braces as they are, and never puts a name with a blank into an
 * argument that looks like a script.
 *
 * Input: one argument per line; the first line is also the key of a setting.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "launch/template.h"

#define MAX_ARGUMENTS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text;
	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	const char *argv[MAX_ARGUMENTS + 1];
	size_t count = 0;
	while (rest && count < MAX_ARGUMENTS)
		argv[count++] = strsep(&rest, "\n");
	argv[count] = NULL;

	struct gd_setting settings[] = {{"language", "en"}, {argv[0], "{file}"}};
	struct gd_file file = {
		.size = sizeof(file), .path = "/in/a b.wav", .output_dir = "/out/a b", .stem = "a b", .size_bytes = 1};
	struct template_values values = {.file = &file, .gpu = 3, .seed = -1, .settings = settings, .num_settings = 2};
	struct gd_error err = {0}, why = {0};
	char **filled = NULL;
	int checked = template_check(argv, settings, 2, &err);
	int r = template_fill(argv, &values, &filled, &why);
	FUZZ_CHECK(checked == 0 || (checked == -EINVAL && err.message[0]));
	/* A setting that hides a word is refused by the check alone. */
	FUZZ_CHECK(r == -EINVAL ? checked == -EINVAL : r == 0 || (r == -EPERM && why.message[0]));
	for (size_t i = 0; r == 0 && i < count; i++) {
		FUZZ_CHECK(filled[i]);
		if (!strpbrk(argv[i], "{}"))
			FUZZ_CHECK(!strcmp(filled[i], argv[i]));
		else if (strpbrk(argv[i], " '\"$;"))
			FUZZ_CHECK(strstr(argv[i], "/in/a b") || !strstr(filled[i], "/in/a b"));
	}
	FUZZ_CHECK(r < 0 || !filled[count]);
	free(filled);
	free(text);
	return 0;
}
