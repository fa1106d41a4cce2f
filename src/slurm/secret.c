/* SPDX-License-Identifier: MIT */
#include "slurm/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"

#define NEW_FILE SECRET_FILE ".new"

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void secret_format(const uint8_t bytes[MAC_KEY_SIZE], char ret[SECRET_DIGITS + 1])
{
	for (size_t i = 0; i < MAC_KEY_SIZE; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

int secret_parse(const char *digits, uint8_t ret[MAC_KEY_SIZE])
{
	if (strlen(digits) != SECRET_DIGITS)
		return -EBADMSG;
	for (size_t i = 0; i < MAC_KEY_SIZE; i++) {
		int high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
		if (high < 0 || low < 0)
			return -EBADMSG;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int parse_file(char *text, size_t size, uint8_t ret[MAC_KEY_SIZE])
{
	if (size != SECRET_DIGITS + 1 || text[SECRET_DIGITS] != '\n')
		return -EBADMSG;
	text[SECRET_DIGITS] = '\0';
	return secret_parse(text, ret);
}

int secret_load(int dir_fd, uint8_t ret[MAC_KEY_SIZE], struct gd_error *err)
{
	char text[SECRET_DIGITS + 2];
	struct stat st;
	cleanup_(closep) int fd = file_open_regular(dir_fd, SECRET_FILE, O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, fd, "cannot read '" SECRET_FILE "': %s", error_words(fd));
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot read '" SECRET_FILE "': %s", error_words(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, -EPERM,
			"'" SECRET_FILE "' must belong to you and be readable only by you; remove it from the queue's "
			"folder (such as jobs.jsonl.d) and run gpuq again");
	ssize_t n = file_read_full(fd, text, sizeof(text));
	int r = n < 0 ? (int)n : parse_file(text, (size_t)n, ret);
	explicit_bzero(text, sizeof(text));
	if (r < 0)
		return error_set(err, r, "cannot read '" SECRET_FILE "': %s",
			r == -EBADMSG ? "it is damaged; remove it from the queue's folder (such as jobs.jsonl.d) and "
					"run gpuq again"
				      : error_words(r));
	return 0;
}

/* Writes and syncs the file before renaming it, so a pilot never reads an incomplete secret. */
static int create(int dir_fd)
{
	uint8_t random[MAC_KEY_SIZE];
	char text[SECRET_DIGITS + 1];
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	secret_format(random, text);
	text[SECRET_DIGITS] = '\n';
	(void)unlinkat(dir_fd, NEW_FILE, 0); /* left by a killed coordinator; safe because we hold runner.lock */
	cleanup_(closep) int fd = openat(dir_fd, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, text, SECRET_DIGITS + 1);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(random, sizeof(random));
	if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || renameat(dir_fd, NEW_FILE, dir_fd, SECRET_FILE) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, NEW_FILE, 0);
	return r;
}

int secret_load_or_create(int dir_fd, uint8_t ret[MAC_KEY_SIZE], struct gd_error *err)
{
	int r = secret_load(dir_fd, ret, err);
	if (r != -ENOENT)
		return r;
	r = create(dir_fd);
	if (r < 0)
		return error_set(err, r, "cannot create '" SECRET_FILE "': %s", error_words(r));
	return secret_load(dir_fd, ret, err);
}
