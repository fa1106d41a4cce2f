/* SPDX-License-Identifier: MIT */
#include "pool/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd_message.h"
#include "base/file.h"

static int map_parcel(struct parcel *p, int prot)
{
	p->data = NULL;
	if (p->size == 0)
		return 0;
	void *data = mmap(NULL, p->size, prot, MAP_SHARED, p->fd, 0);
	if (data == MAP_FAILED)
		return errno == EAGAIN ? -ENOMEM : -errno; /* -EAGAIN is for temporary conditions */
	madvise(data, p->size, MADV_DONTFORK);             /* a child would only keep its memory alive */
	p->data = data;
	return 0;
}

static void unmap_parcel(struct parcel *p)
{
	if (p->data)
		munmap(p->data, p->size);
	p->data = NULL;
}

int parcel_create(size_t size, struct parcel *ret)
{
	cleanup_(closep) int fd = file_above_stdio(memfd_create("gd-parcel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	struct parcel p = {.fd = fd, .size = size};
	int r = map_parcel(&p, PROT_READ | PROT_WRITE);
	if (r < 0)
		return r;
	take_fd(&fd);
	*ret = p;
	return 0;
}

int parcel_seal(struct parcel *p, size_t size)
{
	/* A seal against writing is refused while a writable mapping exists. */
	unmap_parcel(p);
	if (size < p->size && ftruncate(p->fd, (off_t)size) < 0)
		return -errno;
	p->size = size;
	if (fcntl(p->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return map_parcel(p, PROT_READ);
}

int parcel_fill(const void *data, size_t size, struct parcel *ret)
{
	cleanup_(parcel_finish) struct parcel p = PARCEL_NONE;
	int r = parcel_create(size, &p);
	if (r < 0)
		return r;
	if (size)
		memcpy(p.data, data, size);
	r = parcel_seal(&p, size);
	if (r < 0)
		return r;
	*ret = p;
	p = PARCEL_NONE;
	return 0;
}

int parcel_send(const struct parcel *p, int sock, bool wait)
{
	return fd_message_send(sock, "p", 1, &p->fd, 1, wait ? 0 : MSG_DONTWAIT);
}

static int receive_fd(int sock, bool wait)
{
	char byte;
	cleanup_(fd_message_close) struct fd_message message = {0};
	ssize_t n = fd_message_receive(sock, &byte, 1, wait ? 0 : MSG_DONTWAIT, &message);
	if (n < 0)
		return n == -EAGAIN ? -EPROTO : (int)n;
	if (n == 0)
		return -EPIPE;
	if (message.truncated && message.num_fds == 0)
		return -EMFILE; /* this process has no free descriptors */
	if (message.truncated || message.num_fds != 1)
		return -EPROTO;
	message.num_fds = 0; /* the caller's from now on */
	return message.fds[0];
}

/* The size of a memfd whose bytes can neither change nor vanish; mapping anything else could fault later. */
static int sealed_size(int fd, size_t *ret)
{
	int seals = fcntl(fd, F_GET_SEALS);
	int needed = F_SEAL_SHRINK | F_SEAL_WRITE;
	struct stat st;
	if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) < 0 || st.st_size < 0)
		return -EPROTO;
	*ret = (size_t)st.st_size;
	return 0;
}

int parcel_receive(int sock, size_t size, bool wait, struct parcel *ret)
{
	cleanup_(closep) int fd = receive_fd(sock, wait);
	if (fd < 0)
		return fd;
	size_t sealed;
	int r = sealed_size(fd, &sealed);
	if (r < 0 || sealed < size)
		return -EPROTO;
	struct parcel p = {.fd = fd, .size = size};
	r = map_parcel(&p, PROT_READ);
	if (r < 0)
		return r;
	take_fd(&fd);
	*ret = p;
	return 0;
}

int parcel_map_sealed(int fd, const void **ret_data, size_t *ret_size)
{
	size_t size;
	int r = sealed_size(fd, &size);
	if (r < 0)
		return r;
	void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret_data = data;
	*ret_size = size;
	return 0;
}

void parcel_finish(struct parcel *p)
{
	unmap_parcel(p);
	if (p->fd >= 0)
		close(p->fd);
	*p = PARCEL_NONE;
}
