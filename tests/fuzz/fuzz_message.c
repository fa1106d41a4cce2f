/* SPDX-License-Identifier: MIT */
/* Any bytes as a line of a worker's program: refused with a reason, or a message whose fields make sense. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/json_read.h"
#include "base/text.h"
#include "fuzz.h"
#include "launch/message.h"

static void check_line(const struct text *t)
{
	struct json_cursor c;
	struct json_value key, value;
	int r;
	FUZZ_CHECK(text_error(t) == 0 && t->length > 1 && memchr(t->data, '\n', t->length) == t->data + t->length - 1);
	FUZZ_CHECK(json_begin(&c, t->data, t->length - 1) == 0);
	while ((r = json_next_member(&c, &key, &value)) > 0)
		;
	FUZZ_CHECK(r == 0 && json_end(&c) == 0);
}

static void check_written(const uint8_t *data, size_t size)
{
	char words[256];
	size = size < sizeof(words) ? size : sizeof(words) - 1;
	memcpy(words, data, size);
	words[size] = '\0';
	struct gd_setting settings[] = {{words, "a"}, {"b", words}, {words, words}};
	struct gd_file file = {.size = sizeof(file), .path = words, .output_dir = words, .stem = words};
	struct text t = {0};
	message_put_setup(&t, 0, -1, 7, settings, sizeof(settings) / sizeof(*settings));
	check_line(&t);
	text_clear(&t);
	message_put_task(&t, 3, &file);
	check_line(&t);
	text_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message m;
	const char *why = NULL;
	check_written(data, size);
	int r = message_read((const char *)data, size, &m, &why);
	if (r < 0) {
		FUZZ_CHECK(r == -EBADMSG && why && *why);
		return 0;
	}
	FUZZ_CHECK(m.kind >= MESSAGE_READY && m.kind <= MESSAGE_OTHER);
	FUZZ_CHECK(m.seconds == -1 || (isfinite(m.seconds) && m.seconds >= 0));
	FUZZ_CHECK(memchr(m.error, '\0', sizeof(m.error)));
	for (const char *p = m.error; *p; p++)
		FUZZ_CHECK((unsigned char)*p >= ' ' && *p != 0x7f);
	return 0;
}
