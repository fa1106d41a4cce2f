/* SPDX-License-Identifier: MIT */
/* Any bytes as a commands file: each command is read unchanged from a file that contains only it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"
#include "queue/input/commands.h"

/* Opens the bytes as an anonymous file. */
static struct commands *open_bytes(const void *data, size_t size)
{
	int fd = memfd_create("commands", 0); /* close-on-exec would mark it as internal */
	FUZZ_CHECK(fd >= 0 && file_write_all(fd, data, size) == 0);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct commands *c;
	FUZZ_CHECK(commands_open(path, TRUST_NAMED, &c, NULL) == 0);
	close(fd);
	return c;
}

static void check_alone(const struct gd_bytes *bytes)
{
	const char *text = bytes->data;
	/* Alone in a file these bytes mean something else: a comment, a byte order mark, the end of a line. */
	if (text[0] == '#' || text[bytes->size - 1] == '\r' ||
		!memcmp(text, "\xef\xbb\xbf", bytes->size < 3 ? bytes->size : 3))
		return;
	char *line = malloc(bytes->size + 1);
	FUZZ_CHECK(line);
	memcpy(line, text, bytes->size);
	line[bytes->size] = '\n';
	struct commands *c = open_bytes(line, bytes->size + 1);
	struct shell_command command;
	FUZZ_CHECK(commands_next(c, &command, NULL) == 1);
	FUZZ_CHECK(command.bytes.size == bytes->size && !memcmp(command.bytes.data, line, bytes->size));
	FUZZ_CHECK(commands_next(c, &command, NULL) == 0);
	commands_close(c);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct commands *c = open_bytes(data, size);
	struct shell_command command;
	struct gd_error err = {0};
	uint64_t line = 0;
	int r;
	while ((r = commands_next(c, &command, &err)) != 0) {
		FUZZ_CHECK(r == 1 || (r == -EINVAL && err.message[0] && !strchr(err.message, '\n')));
		if (r != 1)
			continue;
		FUZZ_CHECK(command.bytes.size > 0 && command.line > line);
		FUZZ_CHECK(!memchr(command.bytes.data, '\0', command.bytes.size));
		FUZZ_CHECK(!memchr(command.bytes.data, '\n', command.bytes.size));
		const struct job_options *o = command.options;
		FUZZ_CHECK(!(o->set & 1u << JOB_OPTION_NAME) == !o->name);
		FUZZ_CHECK(!(o->set & 1u << JOB_OPTION_AFTER) == !o->after.count);
		FUZZ_CHECK(!(o->set & 1u << JOB_OPTION_AFTER_ANY) == !o->after_any.count);
		line = command.line;
		check_alone(&command.bytes);
	}
	commands_close(c);
	return 0;
}
