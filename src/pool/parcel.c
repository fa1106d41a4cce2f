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
#include "base/file.h"

static int map_parcel(struct parcel *p, int prot)
{
	p->data = NULL;
	if (p->size == 0)
		return 0;
	void *data = mmap(NULL, p->size, prot, MAP_SHARED, p->fd, 0);
	if (data == MAP_FAILED)
		return errno == EAGAIN ? -ENOMEM : -errno; /* -EAGAIN is for what passes by itself */
	madvise(data, p->size, MADV_DONTFORK); /* a child would keep a gigabyte alive; it has no other use for it */
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

/* A message of one byte with room for a descriptor. It points into itself, so it cannot be copied. */
struct fd_message {
	char byte;
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr header;
};

static void fd_message_init(struct fd_message *m)
{
	*m = (struct fd_message){.byte = 'p'};
	m->iov = (struct iovec){.iov_base = &m->byte, .iov_len = 1};
	m->header = (struct msghdr){
		.msg_iov = &m->iov,
		.msg_iovlen = 1,
		.msg_control = m->control,
		.msg_controllen = sizeof(m->control),
	};
}

int parcel_send(const struct parcel *p, int sock, bool wait)
{
	struct fd_message message;
	fd_message_init(&message);
	struct cmsghdr *c = CMSG_FIRSTHDR(&message.header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &p->fd, sizeof(int));
	for (;;) {
		if (sendmsg(sock, &message.header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

static int receive_fd(int sock, bool wait)
{
	struct fd_message message;
	fd_message_init(&message);
	ssize_t n;
	do {
		n = recvmsg(sock, &message.header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EPROTO : -errno;
	if (n == 0)
		return -EPIPE;
	if (message.header.msg_flags & MSG_CTRUNC)
		return -EMFILE; /* the kernel had no descriptor left for it */
	struct cmsghdr *c = CMSG_FIRSTHDR(&message.header);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EPROTO;
	int fd;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

int parcel_receive(int sock, size_t size, bool wait, struct parcel *ret)
{
	cleanup_(closep) int fd = receive_fd(sock, wait);
	if (fd < 0)
		return fd;
	int seals = fcntl(fd, F_GET_SEALS);
	int needed = F_SEAL_SHRINK | F_SEAL_WRITE;
	struct stat st;
	if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) < 0 || st.st_size < 0 ||
		(size_t)st.st_size < size)
		return -EPROTO;
	struct parcel p = {.fd = fd, .size = size};
	int r = map_parcel(&p, PROT_READ);
	if (r < 0)
		return r;
	take_fd(&fd);
	*ret = p;
	return 0;
}

void parcel_finish(struct parcel *p)
{
	unmap_parcel(p);
	if (p->fd >= 0)
		close(p->fd);
	*p = PARCEL_NONE;
}
