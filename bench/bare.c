/* SPDX-License-Identifier: MIT */
#include "bare.h"

#include <err.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool/channel.h"

/* Keeps the compiler from optimizing away the computation of the value. */
static void needed(uint64_t value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

/* ---- Rings -------------------------------------------------------------- */

struct bare {
	struct channel ours;
	struct ring in;
	uint64_t consumed;
	pid_t pid;
};

static bool pushed(void *context)
{
	struct channel *c = context;
	return atomic_load(&c->in->closing) || atomic_load(&c->in->head) != atomic_load(&c->out->ended);
}

/* The worker: copies each payload back, as the hook of the dispatcher's benchmark does. */
static _Noreturn void echo(int in_fd, int out_fd)
{
	struct channel c;
	if (channel_map(&c, in_fd, out_fd, false) < 0)
		_exit(1);
	struct ring out;
	ring_init(&out, outbox_descs(c.out), outbox_arena(c.out), CHANNEL_ARENA);
	uint64_t next = 0;
	uint64_t head = 0;
	for (;;) {
		if (next == head)
			head = atomic_load_explicit(&c.in->head, memory_order_acquire);
		if (next == head) {
			if (atomic_load(&c.in->closing))
				_exit(0);
			atomic_store(&c.out->ended, next);
			channel_sleep(&c, pushed, &c);
			continue;
		}
		const struct ring_desc *task = ring_at(inbox_descs(c.in), next);
		void *room;
		while (!(room = ring_reserve(&out, task->size)))
			ring_release(&out, atomic_load_explicit(&c.in->consumed, memory_order_acquire));
		memcpy(room, inbox_arena(c.in) + task->offset, task->size);
		struct ring_desc *d = ring_take(&out, room, task->size);
		d->kind = RING_DONE;
		d->id = task->id;
		atomic_store_explicit(&c.out->head, out.head, memory_order_release);
		next++;
	}
}

static void bare_start(struct bare *b)
{
	int in_fd, out_fd;
	if (channel_create(&in_fd, &out_fd) < 0 || channel_map(&b->ours, in_fd, out_fd, true) < 0)
		errx(1, "not enough memory for a channel");
	ring_init(&b->in, inbox_descs(b->ours.in), inbox_arena(b->ours.in), CHANNEL_ARENA);
	b->pid = fork();
	if (b->pid < 0)
		err(1, "fork");
	if (b->pid == 0)
		echo(in_fd, out_fd);
	close(in_fd);
	close(out_fd);
}

static bool bare_push(struct bare *b, const char *payload, size_t size, uint64_t id)
{
	void *room = ring_reserve(&b->in, size);
	if (!room)
		return false;
	memcpy(room, payload, size);
	struct ring_desc *d = ring_take(&b->in, room, size);
	d->kind = RING_TASK;
	d->id = id;
	return true;
}

static void bare_publish(struct bare *b)
{
	atomic_store_explicit(&b->ours.in->head, b->in.head, memory_order_release);
	channel_wake_worker(&b->ours);
}

static uint64_t bare_pop(struct bare *b)
{
	uint64_t head = atomic_load_explicit(&b->ours.out->head, memory_order_acquire);
	uint64_t n = head - b->consumed;
	if (n == 0)
		return 0;
	uint64_t sum = 0;
	for (; b->consumed < head; b->consumed++)
		sum += ring_at(outbox_descs(b->ours.out), b->consumed)->id;
	needed(sum);
	ring_release(&b->in, b->consumed);
	atomic_store_explicit(&b->ours.in->consumed, b->consumed, memory_order_release);
	return n;
}

double bare_rings(int workers, size_t payload, uint64_t tasks)
{
	struct bare *all = calloc((size_t)workers, sizeof(*all));
	char *bytes = calloc(1, payload + 1);
	if (!all || !bytes)
		errx(1, "out of memory");
	for (int i = 0; i < workers; i++)
		bare_start(&all[i]);
	uint64_t sent = 0, done = 0, start = clock_now_ns();
	while (done < tasks) {
		uint64_t before = sent + done;
		for (int i = 0; i < workers; i++) {
			for (int k = 0; k < 64 && sent < tasks && bare_push(&all[i], bytes, payload, sent); k++)
				sent++;
			bare_publish(&all[i]);
			done += bare_pop(&all[i]);
		}
		if (sent + done == before)
			sched_yield();
	}
	double seconds = (double)(clock_now_ns() - start) / NS_PER_S;
	for (int i = 0; i < workers; i++) {
		atomic_store(&all[i].ours.in->closing, 1);
		channel_wake_worker(&all[i].ours);
		waitpid(all[i].pid, NULL, 0);
		channel_unmap(&all[i].ours);
	}
	free(all);
	free(bytes);
	return (double)tasks / seconds;
}

/* ---- Futex -------------------------------------------------------------- */

void pin(int which)
{
	static cpu_set_t all;
	static bool known;
	if (!known && sched_getaffinity(0, sizeof(all), &all) < 0)
		err(1, "sched_getaffinity");
	known = true;
	if (which < 0) {
		sched_setaffinity(0, sizeof(all), &all);
		return;
	}
	int wanted = which % CPU_COUNT(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || wanted-- > 0)
			continue;
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double percentile(double *values, size_t count, double fraction)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[(size_t)(fraction * (double)(count - 1))];
}

static void futex_wait_for(_Atomic uint32_t *word, uint32_t value)
{
	for (uint32_t now; (now = atomic_load(word)) != value;)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void futex_set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bare_futex(int rounds, double *ret_p50, double *ret_p99)
{
	_Atomic uint32_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double *took = calloc((size_t)rounds, sizeof(*took));
	if (words == MAP_FAILED || !took)
		errx(1, "out of memory");
	_Atomic uint32_t *there = words, *back = words + 64;
	pin(0);
	pid_t pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		pin(1);
		for (uint32_t i = 1; i <= (uint32_t)rounds; i++) {
			futex_wait_for(there, i);
			futex_set(back, i);
		}
		_exit(0);
	}
	for (uint32_t i = 1; i <= (uint32_t)rounds; i++) {
		uint64_t start = clock_now_ns();
		futex_set(there, i);
		futex_wait_for(back, i);
		took[i - 1] = (double)(clock_now_ns() - start) / 1000;
	}
	waitpid(pid, NULL, 0);
	pin(-1);
	*ret_p50 = percentile(took, (size_t)rounds, 0.5);
	*ret_p99 = percentile(took, (size_t)rounds, 0.99);
	munmap(words, 4096);
	free(took);
}

/* ---- memcpy ------------------------------------------------------------- */

double bare_memcpy(size_t block)
{
	size_t size = block > ((size_t)64 << 20) ? block : (size_t)64 << 20;
	char *from = malloc(size), *to = malloc(size);
	if (!from || !to)
		errx(1, "out of memory");
	memset(from, 1, size);
	memset(to, 2, size);
	uint64_t start = clock_now_ns(), copied = 0;
	for (size_t at = 0; clock_now_ns() - start < NS_PER_S / 2; at = at + 2 * block <= size ? at + block : 0) {
		memcpy(to + at, from + at, block);
		needed((uint64_t)to[at]);
		copied += block;
	}
	double seconds = (double)(clock_now_ns() - start) / NS_PER_S;
	free(from);
	free(to);
	return (double)copied / seconds;
}
