/* SPDX-License-Identifier: MIT */
#include "slurm/address_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "slurm/secret.h"

_Static_assert(MAC_SIZE == MAC_KEY_SIZE, "a MAC is used as a key");

int address_file_read(int dir_fd, const char *name, struct address_file *ret)
{
	struct address_file a;
	char text[400], digits[SECRET_DIGITS + 1];
	unsigned port;
	int end = 0, r = file_read_small(dir_fd, name, text, sizeof(text));
	if (r < 0)
		return r;
	_Static_assert(SECRET_DIGITS == 64, "the width in the format");
	int n = sscanf(text, "%255s %u %64s%n", a.host, &port, digits, &end);
	if (n < 2 || port == 0 || port > 65535)
		return -EBADMSG;
	if (n == 2)
		return -EPROTONOSUPPORT;
	if (text[end] != '\0' || secret_parse(digits, a.challenge) < 0)
		return -EBADMSG;
	a.port = (uint16_t)port;
	*ret = a;
	return 0;
}

/* Writes the file completely before renaming it. */
int address_file_write(int dir_fd, const char *name, const struct address_file *a)
{
	char text[400], digits[SECRET_DIGITS + 1], new[80];
	secret_format(a->challenge, digits);
	int n = snprintf(text, sizeof(text), "%s %u %s\n", a->host, a->port, digits);
	snprintf(new, sizeof(new), "%s.new", name);
	/* A file that came with a copy of the queue may be readable by others. */
	(void)unlinkat(dir_fd, new, 0);
	cleanup_(closep) int fd = openat(dir_fd, new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : file_write_all(fd, text, (size_t)n);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir_fd, new, dir_fd, name) < 0))
		r = -errno;
	return r;
}

void address_file_key(const struct address_file *a, const uint8_t secret[MAC_KEY_SIZE], uint8_t ret_key[MAC_KEY_SIZE])
{
	struct mac_part parts[] = {{"gpuq-s3 listener", 16}, {a->challenge, sizeof(a->challenge)}};
	mac_compute(secret, parts, 2, ret_key);
}
