/* SPDX-License-Identifier: MIT */
/* A failure with a message and bytes of any length: the worker must not wait for space that never becomes free. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/worker_private.h"

struct words_rig {
	struct gd_worker worker;
	struct gd_worker_ops ops;
	struct item item;
	char *words;
};

/* A worker with one task, and messages of any length. A worker that waits for space is killed. */
static int setup(void **state)
{
	struct words_rig *rig = calloc(1, sizeof(*rig));
	struct gd_worker *w = &rig->worker;
	int in_fd, out_fd;
	assert_non_null(rig);
	assert_int_equal(channel_create(&in_fd, &out_fd), 0);
	assert_int_equal(channel_map(&w->channel, in_fd, out_fd, false), 0);
	close(in_fd);
	close(out_fd);
	ring_init(&w->out, outbox_descs(w->channel.out), outbox_arena(w->channel.out), CHANNEL_ARENA);
	w->failure.parcel = PARCEL_NONE;
	rig->item = (struct item){.payload = PARCEL_NONE, .result = PARCEL_NONE};
	w->ops = &rig->ops;
	w->items = &rig->item;
	w->in_hand = 1;
	rig->words = calloc(1, 2 * CHANNEL_ARENA);
	assert_non_null(rig->words);
	*state = rig;
	alarm(20);
	return 0;
}

static int teardown(void **state)
{
	struct words_rig *rig = *state;
	alarm(0);
	channel_unmap(&rig->worker.channel);
	free(rig->words);
	free(rig);
	return 0;
}

static const char *words_of(struct words_rig *rig, size_t size)
{
	memset(rig->words, 'w', size);
	rig->words[size] = '\0';
	return rig->words;
}

static void check_record(struct words_rig *rig, enum ring_kind kind, size_t words, size_t size)
{
	const struct outbox *out = rig->worker.channel.out;
	assert_int_equal(atomic_load(&out->head), 1);
	const struct ring_desc *d = ring_at(outbox_descs(out), 0);
	assert_int_equal(d->kind, kind);
	assert_int_equal(d->code, -EIO);
	assert_int_equal(d->words, words);
	assert_int_equal(d->size, size);
	assert_int_equal(d->flags, 0);
	assert_int_equal(d->offset, 0);
	assert_memory_equal(outbox_arena(out), rig->words, words);
	assert_memory_equal(outbox_arena(out) + ring_aligned(words), rig->words, size);
}

static void check_failure(void **state, size_t said, size_t told, size_t size)
{
	struct words_rig *rig = *state;
	const char *words = words_of(rig, said);
	worker_fail_item(
		&rig->worker, 0, gd_worker_fail_with(&rig->worker, EIO, words, words, size), &rig->worker.failure);
	worker_settle(&rig->worker);
	check_record(rig, RING_DONE, told, size);
	failure_clear(&rig->worker.failure);
}

static void test_a_message_that_fits_is_reported_in_full(void **state)
{
	check_failure(state, WORDS_MAX - 1, WORDS_MAX - 1, 0);
}

static void test_a_message_longer_than_the_arena_is_cut(void **state)
{
	check_failure(state, 2 * CHANNEL_ARENA - 1, WORDS_MAX - 1, 0);
}

static void test_the_longest_message_has_room_beside_the_most_bytes(void **state)
{
	check_failure(state, CHANNEL_IN_PLACE, WORDS_MAX - 1, CHANNEL_IN_PLACE);
}

static void test_a_setup_fails_with_a_message_that_is_cut(void **state)
{
	struct words_rig *rig = *state;
	gd_worker_fail(&rig->worker, -EIO, "%s", words_of(rig, CHANNEL_ARENA));
	worker_tell(&rig->worker, RING_SETUP_FAILED, -EIO);
	check_record(rig, RING_SETUP_FAILED, WORDS_MAX - 1, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_a_message_that_fits_is_reported_in_full),
		CASE(test_a_message_longer_than_the_arena_is_cut),
		CASE(test_the_longest_message_has_room_beside_the_most_bytes),
		CASE(test_a_setup_fails_with_a_message_that_is_cut),
	};
	return cmocka_run_group_tests_name("pool words", tests, NULL, NULL);
}
