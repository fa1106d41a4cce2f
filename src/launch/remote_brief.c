/* SPDX-License-Identifier: MIT */
#include "launch/remote_brief.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"

#define MAX_BYTES (16 << 20)

/* ---- Writing -------------------------------------------------------------------------- */

static void put(struct text *t, const char *name, const char *value)
{
	text_append(t, name, strlen(name) + 1);
	text_append(t, value, strlen(value) + 1);
}

static void put_number(struct text *t, const char *name, int64_t number)
{
	char digits[24];
	snprintf(digits, sizeof(digits), "%lld", (long long)number);
	put(t, name, digits);
}

static void put_all(struct text *t, const struct remote_brief *b)
{
	for (char *const *word = b->argv; *word; word++)
		put(t, "word", *word);
	for (size_t i = 0; i < b->num_settings; i++) {
		put(t, "key", b->settings[i].key);
		put(t, "value", b->settings[i].value);
	}
	put_number(t, "task_timeout_ms", b->task_timeout_ms);
	put_number(t, "setup_timeout_ms", b->setup_timeout_ms);
	put_number(t, "retries", b->retries);
	put_number(t, "lease_ms", b->lease_ms);
	put_number(t, "silence_ms", b->silence_ms);
	if (b->log_dir)
		put(t, "log_dir", b->log_dir);
}

int remote_brief_write(int dir_fd, const char *name, const struct remote_brief *brief)
{
	cleanup_(text_finish) struct text t = {0}, new = {0};
	put_all(&t, brief);
	text_appendf(&new, "%s.new", name);
	if (text_error(&t) || text_error(&new))
		return -ENOMEM;
	cleanup_(closep) int fd =
		openat(dir_fd, text_string(&new), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : file_write_all(fd, t.data, t.length);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, text_string(&new), dir_fd, name) < 0))
		r = -errno;
	return r;
}

/* ---- Reading -------------------------------------------------------------------------- */

static int add_word(struct remote_brief *b, char *value)
{
	if (array_reserve(b->argv, &b->args_capacity, b->num_args + 2) < 0)
		return -ENOMEM;
	b->argv[b->num_args++] = value;
	b->argv[b->num_args] = NULL;
	return 0;
}

static int add_key(struct remote_brief *b, const char *key)
{
	if (array_reserve(b->settings, &b->settings_capacity, b->num_settings + 1) < 0)
		return -ENOMEM;
	b->settings[b->num_settings++] = (struct gd_setting){.key = key, .value = ""};
	return 0;
}

static int take(struct remote_brief *b, const char *name, char *value)
{
	const struct {
		const char *name;
		int64_t *to;
	} numbers[] = {{"task_timeout_ms", &b->task_timeout_ms}, {"setup_timeout_ms", &b->setup_timeout_ms},
		{"retries", &b->retries}, {"lease_ms", &b->lease_ms}, {"silence_ms", &b->silence_ms}};
	if (strcmp(name, "word") == 0)
		return add_word(b, value);
	if (strcmp(name, "key") == 0)
		return add_key(b, value);
	if (strcmp(name, "log_dir") == 0) {
		b->log_dir = value;
		return 0;
	}
	if (strcmp(name, "value") == 0 && b->num_settings > 0) {
		b->settings[b->num_settings - 1].value = value;
		return 0;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].to = strtoll(value, NULL, 10);
			return 0;
		}
	return -EBADMSG;
}

static int load(int dir_fd, const char *name, struct remote_brief *b, size_t *ret_size)
{
	struct stat st;
	cleanup_(closep) int fd = file_open_regular(dir_fd, name, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	if (st.st_size <= 0 || st.st_size > MAX_BYTES)
		return -EBADMSG;
	b->data = malloc((size_t)st.st_size);
	if (!b->data)
		return -ENOMEM;
	ssize_t n = file_read_full(fd, b->data, (size_t)st.st_size);
	*ret_size = n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : n > 0 && b->data[n - 1] == '\0' ? 0 : -EBADMSG;
}

int remote_brief_read(int dir_fd, const char *name, struct remote_brief *ret)
{
	size_t size = 0;
	*ret = (struct remote_brief){0};
	int r = load(dir_fd, name, ret, &size);
	for (char *p = ret->data, *end = p + size; r == 0 && p < end;) {
		char *value = p + strlen(p) + 1;
		r = value < end ? take(ret, p, value) : -EBADMSG;
		p = value < end ? value + strlen(value) + 1 : end;
	}
	return r < 0 ? r : ret->num_args > 0 ? 0 : -EBADMSG;
}

void remote_brief_finish(struct remote_brief *b)
{
	free(b->argv);
	free(b->settings);
	free(b->data);
	*b = (struct remote_brief){0};
}
