/* SPDX-License-Identifier: MIT */
#include "launch/map_worker_note.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define NOTE_NAME "worker"
#define MOST_SIZE 65536

/* "python3 infer.py", then a line for each setting. */
static int describe(struct text *t, const struct map_options *o)
{
	for (const char *const *word = o->program; *word; word++)
		text_appendf(t, "%s%s", word == o->program ? "" : " ", *word);
	text_append_char(t, '\n');
	for (size_t i = 0; i < o->num_settings; i++)
		text_appendf(t, "--set %s=%s\n", o->settings[i].key, (const char *)o->settings[i].value);
	return text_error(t) ? text_error(t) : t->length >= MOST_SIZE ? -E2BIG : 0;
}

static int write_note(int dir_fd, const struct text *t)
{
	cleanup_(closep) int fd =
		openat(dir_fd, NOTE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? -errno : file_write_all(fd, t->data, t->length);
}

int map_worker_note(const char *logs, const struct map_options *o, struct text *ret_before)
{
	char before[MOST_SIZE];
	cleanup_(text_finish) struct text now = {0};
	cleanup_(closep) int dir_fd = open(logs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	int r = describe(&now, o);
	if (r < 0)
		return r;
	int fd = file_open_regular(dir_fd, NOTE_NAME, O_NOFOLLOW);
	ssize_t n = fd < 0 ? 0 : file_read_full(fd, before, sizeof(before));
	closep(&fd);
	if (n < 0)
		n = 0;
	if ((size_t)n == now.length && memcmp(before, now.data, now.length) == 0)
		return 0;
	r = write_note(dir_fd, &now);
	if (r < 0 || n == 0)
		return r;
	/* On one line, as on the command line. */
	for (ssize_t i = 0; i < n - 1; i++)
		text_append_char(ret_before, before[i] == '\n' ? ' ' : before[i]);
	return 1;
}
