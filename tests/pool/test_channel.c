/* SPDX-License-Identifier: MIT */
/* The memory shared with a worker: which side may write where, and which processes inherit it. Also parcels and briefs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd_message.h"
#include "pool/brief.h"
#include "pool/channel.h"
#include "pool/parcel.h"

/* Whether the kernel can write to it for us: tests this without a crash. */
static bool writable(void *memory)
{
	int ends[2];
	char byte = 0;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], &byte, 1), 1);
	ssize_t n = read(ends[0], memory, 1);
	bool refused = n < 0 && errno == EFAULT;
	close(ends[0]);
	close(ends[1]);
	assert_true(n == 1 || refused);
	return !refused;
}

static void test_the_memory_cannot_be_resized(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(channel_create(&fds[0], &fds[1]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fds[i], 4096), -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(ftruncate(fds[i], 1 << 30), -1);
		assert_int_equal(errno, EPERM);
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		close(fds[i]);
	}
}

static void test_each_side_writes_its_own_half(void **state)
{
	(void)state;
	int in_fd, out_fd;
	struct channel ours = {0}, theirs = {0};
	assert_int_equal(channel_create(&in_fd, &out_fd), 0);
	assert_int_equal(channel_map(&ours, in_fd, out_fd, true), 0);
	assert_int_equal(channel_map(&theirs, in_fd, out_fd, false), 0);
	assert_true(writable(ours.in));
	assert_false(writable(ours.out));
	assert_false(writable(theirs.in));
	assert_true(writable(theirs.out));
	atomic_store(&ours.in->head, 5);
	assert_int_equal(atomic_load(&theirs.in->head), 5);
	channel_unmap(&ours);
	channel_unmap(&theirs);
	assert_null(ours.in);
	close(in_fd);
	close(out_fd);
}

static void test_a_fork_inherits_no_mapping(void **state)
{
	(void)state;
	int in_fd, out_fd;
	struct channel c = {0};
	assert_int_equal(channel_create(&in_fd, &out_fd), 0);
	assert_int_equal(channel_map(&c, in_fd, out_fd, true), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int ends[2];
		if (pipe(ends) < 0)
			_exit(2);
		bool in = write(ends[1], c.in, 1) < 0 && errno == EFAULT;
		bool out = write(ends[1], c.out, 1) < 0 && errno == EFAULT;
		_exit(in && out ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	channel_unmap(&c);
	close(in_fd);
	close(out_fd);
}

static void test_a_brief_arrives_as_it_was_written(void **state)
{
	(void)state;
	struct inbox *in = calloc(1, sizeof(*in) + RING_LINE);
	assert_non_null(in);
	struct inbox *box = (struct inbox *)(((uintptr_t)in + RING_LINE - 1) / RING_LINE * RING_LINE);
	const struct brief numbers = {.slot = 3, .gpu = 7, .seed = -5, .announce = 1};
	brief_write(box, &numbers);
	const struct brief *b;
	assert_int_equal(brief_read(box, &b), 0);
	assert_int_equal(b->slot, 3);
	assert_int_equal(b->gpu, 7);
	assert_true(b->seed == -5);
	free(in);
}

static void test_a_brief_of_another_version_is_refused(void **state)
{
	(void)state;
	struct inbox *in = aligned_alloc(RING_LINE, sizeof(*in));
	assert_non_null(in);
	brief_write(in, &(struct brief){0});
	((struct brief *)in->brief)->size++;
	const struct brief *b;
	assert_int_equal(brief_read(in, &b), -EPROTO);
	free(in);
}

static void test_a_parcel_is_sent_sealed(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	struct parcel sent, received;
	assert_int_equal(parcel_create(10000, &sent), 0);
	memset(sent.data, 'a', 9000);
	assert_int_equal(parcel_seal(&sent, 9000), 0);
	assert_int_equal(sent.size, 9000);
	assert_false(writable(sent.data));
	assert_int_equal(parcel_send(&sent, ends[0], false), 0);
	assert_int_equal(parcel_receive(ends[1], 9000, false, &received), 0);
	assert_memory_equal(received.data, sent.data, 9000);
	assert_false(writable(received.data));
	parcel_finish(&received);
	parcel_finish(&sent);
	assert_int_equal(sent.fd, -1);
	/* No data, and no peer. */
	assert_int_equal(parcel_receive(ends[1], 1, false, &received), -EPROTO);
	close(ends[0]);
	assert_int_equal(parcel_receive(ends[1], 1, true, &received), -EPIPE);
	close(ends[1]);
}

/* The number that the next descriptor will have. */
static int next_fd(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static void test_a_parcel_that_differs_from_its_announcement_is_refused(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	struct parcel p, received;
	/* Not sealed: it could shrink while it is used. */
	assert_int_equal(parcel_create(4096, &p), 0);
	assert_int_equal(parcel_send(&p, ends[0], false), 0);
	assert_int_equal(parcel_receive(ends[1], 4096, false, &received), -EPROTO);
	/* Smaller than announced. */
	assert_int_equal(parcel_seal(&p, 4096), 0);
	assert_int_equal(parcel_send(&p, ends[0], false), 0);
	assert_int_equal(parcel_receive(ends[1], 4097, false, &received), -EPROTO);
	parcel_finish(&p);
	/* Not a memfd at all. */
	struct parcel pipe_end = {.fd = dup(ends[0])};
	assert_int_equal(parcel_send(&pipe_end, ends[0], false), 0);
	assert_int_equal(parcel_receive(ends[1], 1, false, &received), -EPROTO);
	parcel_finish(&pipe_end);
	/* No descriptor with it. */
	assert_int_equal(send(ends[0], "p", 1, 0), 1);
	assert_int_equal(parcel_receive(ends[1], 1, false, &received), -EPROTO);
	/* More than one, even if each is valid; none is left open. */
	assert_int_equal(parcel_create(4096, &p), 0);
	assert_int_equal(parcel_seal(&p, 4096), 0);
	const int twice[2] = {p.fd, p.fd};
	int before = next_fd();
	assert_int_equal(fd_message_send(ends[0], "p", 1, twice, 2, 0), 0);
	assert_int_equal(parcel_receive(ends[1], 4096, false, &received), -EPROTO);
	assert_int_equal(next_fd(), before);
	parcel_finish(&p);
	close(ends[0]);
	close(ends[1]);
}

struct looking {
	unsigned asked;
	unsigned ready_at; /* number of calls until it is ready; 0: never */
};

static bool is_ready(void *context)
{
	struct looking *l = context;
	return ++l->asked == l->ready_at;
}

/* How many times is_ready() was called until channel_look() gave up. */
static unsigned looks_in_vain(unsigned *looks)
{
	struct looking l = {0};
	assert_false(channel_look(looks, is_ready, &l));
	return l.asked;
}

static void test_spinning_takes_longer_where_it_succeeds_but_never_long(void **state)
{
	(void)state;
	unsigned looks = 0;
	unsigned least = looks_in_vain(&looks);
	assert_true(least > 0);
	assert_int_equal(looks_in_vain(&looks), least);
	for (int i = 0; i < 100; i++) {
		struct looking l = {.ready_at = 2};
		assert_true(channel_look(&looks, is_ready, &l));
		assert_int_equal(l.asked, 2);
	}
	unsigned most = looks_in_vain(&looks);
	assert_true(most > least && most <= 2000); /* some ten microseconds */
	for (int i = 0; i < 100; i++)
		looks_in_vain(&looks);
	assert_int_equal(looks_in_vain(&looks), least);
}

static void open_both(struct channel *ours, struct channel *theirs)
{
	int in_fd, out_fd;
	assert_int_equal(channel_create(&in_fd, &out_fd), 0);
	assert_int_equal(channel_map(ours, in_fd, out_fd, true), 0);
	assert_int_equal(channel_map(theirs, in_fd, out_fd, false), 0);
	close(in_fd);
	close(out_fd);
}

#define LONG_NAP_NS 999999999L

static void *nap(void *argument)
{
	struct channel *theirs = argument;
	return (void *)(uintptr_t)channel_nap(theirs, LONG_NAP_NS, 0);
}

static void test_a_nap_ends_when_we_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct channel ours = {0}, theirs = {0};
		open_both(&ours, &theirs);
		pthread_t thread;
		void *undisturbed = NULL;
		uint64_t began_ns = clock_now_ns();
		assert_int_equal(pthread_create(&thread, NULL, nap, &theirs), 0);
		while (i % 2 == 0 && !atomic_load(&ours.out->napping))
			sched_yield();
		channel_note_wait(&ours); /* before, while or exactly when it falls asleep */
		assert_int_equal(pthread_join(thread, &undisturbed), 0);
		assert_null(undisturbed);
		assert_true(clock_now_ns() - began_ns < LONG_NAP_NS);
		channel_unmap(&ours);
		channel_unmap(&theirs);
	}
}

static void test_a_nap_ends_by_itself(void **state)
{
	(void)state;
	struct channel ours = {0}, theirs = {0};
	open_both(&ours, &theirs);
	assert_true(channel_nap(&theirs, 1000, 0));
	assert_int_equal(atomic_load(&ours.out->napping), 0);
	channel_note_wait(&ours);
	assert_false(channel_nap(&theirs, LONG_NAP_NS, 0));
	assert_true(channel_nap(&theirs, 1000, 1));
	channel_unmap(&ours);
	channel_unmap(&theirs);
}

static void test_a_claimed_wake_of_a_channel_that_is_gone_does_no_harm(void **state)
{
	(void)state;
	struct channel ours = {0}, theirs = {0};
	open_both(&ours, &theirs);
	assert_null(channel_claim_wake(&ours));
	channel_announce_sleep(&theirs);
	const _Atomic uint32_t *claimed = channel_claim_wake(&ours);
	assert_non_null(claimed);
	assert_null(channel_claim_wake(&ours)); /* once is enough */
	channel_unmap(&ours);
	channel_unmap(&theirs);
	channel_wake(claimed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_memory_cannot_be_resized),
		cmocka_unit_test(test_each_side_writes_its_own_half),
		cmocka_unit_test(test_a_fork_inherits_no_mapping),
		cmocka_unit_test(test_spinning_takes_longer_where_it_succeeds_but_never_long),
		cmocka_unit_test(test_a_nap_ends_when_we_wait),
		cmocka_unit_test(test_a_nap_ends_by_itself),
		cmocka_unit_test(test_a_claimed_wake_of_a_channel_that_is_gone_does_no_harm),
		cmocka_unit_test(test_a_brief_arrives_as_it_was_written),
		cmocka_unit_test(test_a_brief_of_another_version_is_refused),
		cmocka_unit_test(test_a_parcel_is_sent_sealed),
		cmocka_unit_test(test_a_parcel_that_differs_from_its_announcement_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
