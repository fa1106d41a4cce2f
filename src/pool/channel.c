/* SPDX-License-Identifier: MIT */
#include "pool/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LOOKS_MIN 32
#define LOOKS_MAX 512

static int sealed_memfd(const char *name, size_t size)
{
	cleanup_(closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

int channel_create(int *ret_in_fd, int *ret_out_fd)
{
	cleanup_(closep) int in_fd = sealed_memfd("gd-inbox", INBOX_SIZE);
	if (in_fd < 0)
		return in_fd;
	int out_fd = sealed_memfd("gd-outbox", OUTBOX_SIZE);
	if (out_fd < 0)
		return out_fd;
	*ret_in_fd = take_fd(&in_fd);
	*ret_out_fd = out_fd;
	return 0;
}

static int map_one(int fd, size_t size, bool writable, void **ret)
{
	void *p = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (madvise(p, size, MADV_DONTFORK) < 0) {
		int r = -errno;
		munmap(p, size);
		return r;
	}
	*ret = p;
	return 0;
}

int channel_map(struct channel *c, int in_fd, int out_fd, bool ours)
{
	void *in = NULL, *out = NULL;
	int r = map_one(in_fd, INBOX_SIZE, ours, &in);
	if (r < 0)
		return r;
	r = map_one(out_fd, OUTBOX_SIZE, !ours, &out);
	if (r < 0) {
		munmap(in, INBOX_SIZE);
		return r;
	}
	*c = (struct channel){.in = in, .out = out};
	return 0;
}

void channel_unmap(struct channel *c)
{
	if (c->in)
		munmap(c->in, INBOX_SIZE);
	if (c->out)
		munmap(c->out, OUTBOX_SIZE);
	c->in = NULL;
	c->out = NULL;
}

void channel_note_entry(int out_fd)
{
	struct outbox *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED, out_fd, 0);
	if (out == MAP_FAILED)
		return; /* the code that needs it reports the error */
	atomic_store(&out->entered, 1);
	munmap(out, sizeof(*out));
}

static long futex(const _Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

const _Atomic uint32_t *channel_claim_wake(struct channel *c)
{
	/* If we do not see the worker's flag, the worker must see what was stored before. */
	atomic_thread_fence(memory_order_seq_cst);
	uint32_t sleep = atomic_load_explicit(&c->out->sleeping, memory_order_relaxed);
	/* The flag stays set until the worker runs: wake it only once. */
	if (sleep == 0 || sleep == atomic_load_explicit(&c->woken, memory_order_relaxed))
		return NULL;
	atomic_store_explicit(&c->woken, sleep, memory_order_relaxed);
	atomic_fetch_add(&c->in->wake, 1);
	return &c->in->wake;
}

void channel_wake(const _Atomic uint32_t *claimed)
{
	if (claimed)
		futex(claimed, FUTEX_WAKE, INT_MAX, NULL); /* EFAULT: the worker and its channel are gone */
}

void channel_wake_worker(struct channel *c)
{
	channel_wake(channel_claim_wake(c));
}

/* Both sides store their own flag before they load the other's: at least one sees the other. */
bool channel_nap(struct channel *c, long nap_ns, uint64_t waits)
{
	uint32_t seen = atomic_load(&c->in->wake);
	atomic_store(&c->out->napping, 1);
	atomic_thread_fence(memory_order_seq_cst);
	bool awaited = atomic_load(&c->in->waits) != waits;
	if (!awaited)
		futex(&c->in->wake, FUTEX_WAIT, seen, &(struct timespec){.tv_nsec = nap_ns});
	atomic_store(&c->out->napping, 0);
	return !awaited && atomic_load(&c->in->waits) == waits;
}

void channel_note_wait(struct channel *c)
{
	atomic_store_explicit(
		&c->in->waits, atomic_load_explicit(&c->in->waits, memory_order_relaxed) + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&c->out->napping, memory_order_relaxed))
		return;
	atomic_fetch_add(&c->in->wake, 1);
	futex(&c->in->wake, FUTEX_WAKE, INT_MAX, NULL);
}

bool channel_look(unsigned *looks, bool (*ready)(void *context), void *context)
{
	for (unsigned i = 0; i < LOOKS_MIN + *looks; i++) {
		if (ready(context)) {
			*looks = *looks < LOOKS_MAX ? 2 * *looks + LOOKS_MIN : LOOKS_MAX;
			return true;
		}
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#endif
	}
	*looks /= 2;
	return false;
}

void channel_sleep(struct channel *c, bool (*ready)(void *context), void *context)
{
	if (channel_look(&c->looks, ready, context))
		return;
	for (;;) {
		uint32_t seen = atomic_load(&c->in->wake);
		channel_announce_sleep(c);
		if (ready(context))
			break;
		/* EAGAIN: woken in between; EINTR: a signal. Check again in both cases. */
		futex(&c->in->wake, FUTEX_WAIT, seen, NULL);
	}
	atomic_store(&c->out->sleeping, 0);
}
