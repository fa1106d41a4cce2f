/* SPDX-License-Identifier: MIT */
/* Any file as a script: it is a script, is not one, or has an error that is reported with its line. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"
#include "queue/input/script.h"

static void on_note(void *context, const char *words)
{
	FUZZ_CHECK(strstr(words, context));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	struct script s;
	struct gd_error err = {0};
	int fd = memfd_create("script", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && file_write_all(fd, data, size) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int r = script_read(&s, path, on_note, path, &err);
	bool refused = r == -EINVAL || r == -EFBIG || r == -ENOEXEC;
	FUZZ_CHECK(r == 0 || r == 1 || (refused && strstr(err.message, path)));
	FUZZ_CHECK(r != 1 || (s.interpreter && *s.interpreter && s.content.length == size));
	script_finish(&s);
	close(fd);
	return 0;
}
