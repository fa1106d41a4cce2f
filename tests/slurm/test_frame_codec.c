/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/frame_codec.h"
#include "support/check.h"

static const struct frame_gpu gpus[2] = {{.index = 3, .total_bytes = 1, .uuid = "GPU-1", .name = "a card"},
	{.index = 5, .free_bytes = UINT64_MAX, .utilization = 99, .utilization_known = true, .healthy = 1}};
static const struct known_attempt attempts[2] = {{{7, 1}, KNOWN_RUNNING}, {{8, 300}, KNOWN_ENDED}};
static const int positions[2] = {1, 0};

/* One of each kind. */
static struct frame make(enum frame_kind kind)
{
	struct frame f = {.kind = kind, .epoch = 5, .session = 6};
	switch (kind) {
	case FRAME_HELLO:
		f.hello = (struct frame_hello){.version = FRAME_VERSION,
			.pilot = "p1",
			.node = "node7",
			.slurm_job = 4711,
			.remaining_ms = -1,
			.lock_is_free = true,
			.gpus = gpus,
			.num_gpus = 2,
			.attempts = attempts,
			.num_attempts = 2};
		break;
	case FRAME_WELCOME:
		f.welcome = (struct frame_welcome){900000, 15000, 3000};
		break;
	case FRAME_REFUSE:
		f.refuse = (struct frame_refuse){REFUSAL_OLD, "too old"};
		break;
	case FRAME_GRANT:
		f.grant = (struct frame_grant){{7, 2}, positions, 2, "order\0\n", 7};
		break;
	case FRAME_REJECT:
		f.reject = (struct frame_reject){{7, 2}, REJECTION_ENDING, "ending"};
		break;
	case FRAME_END:
		f.end = (struct frame_end){{7, 2}, OUTCOME_FAILED, -1, 9, 1794779540605, -1, -1, 77, "timeout"};
		break;
	case FRAME_HEARTBEAT:
		f.heartbeat = (struct frame_heartbeat){9, 1000, gpus, 2};
		break;
	case FRAME_CANCEL:
		f.cancel = (struct frame_cancel){{7, 2}, CANCEL_DISCARD};
		break;
	default:
		f.begun = (struct frame_begun){{7, 2}, 1234};
		break;
	}
	return f;
}

static void test_each_frame_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (unsigned kind = FRAME_HELLO; kind <= FRAME_BYE; kind++) {
		struct text t = {0}, again = {0};
		struct frame_arrays arrays = {0};
		struct frame f = make((enum frame_kind)kind), copy = {0};
		frame_encode(&t, &f);
		assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), 0);
		assert_int_equal(copy.kind, kind);
		assert_int_equal(copy.epoch, 5);
		assert_int_equal(copy.session, 6);
		frame_encode(&again, &copy);
		assert_int_equal(again.length, t.length);
		assert_memory_equal(again.data, t.data, t.length);
		/* Nothing shorter is a frame, but the order of a grant may have any length. */
		for (size_t n = 0; n < t.length && kind != FRAME_GRANT; n++)
			assert_int_equal(frame_decode(t.data, n, &arrays, &copy), -EBADMSG);
		text_append_char(&t, 'x');
		assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), kind == FRAME_GRANT ? 0 : -EBADMSG);
		frame_arrays_finish(&arrays);
		text_finish(&t);
		text_finish(&again);
	}
}

static void test_members_of_a_hello_arrive(void **state)
{
	(void)state;
	struct text t = {0};
	struct frame_arrays arrays = {0};
	struct frame f = make(FRAME_HELLO), copy;
	frame_encode(&t, &f);
	assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), 0);
	assert_string_equal(copy.hello.node, "node7");
	assert_int_equal(copy.hello.slurm_job, 4711);
	assert_int_equal(copy.hello.remaining_ms, -1);
	assert_int_equal(copy.hello.num_gpus, 2);
	assert_string_equal(copy.hello.gpus[0].uuid, "GPU-1");
	assert_true(copy.hello.gpus[1].free_bytes == UINT64_MAX && copy.hello.gpus[1].utilization_known);
	assert_int_equal(copy.hello.attempts[1].id.attempt, 300);
	assert_int_equal(copy.hello.attempts[1].state, KNOWN_ENDED);
	frame_arrays_finish(&arrays);
	text_finish(&t);
}

static void test_unknown_kinds_and_enumerators_are_refused(void **state)
{
	(void)state;
	struct text t = {0};
	struct frame_arrays arrays = {0};
	struct frame f = make(FRAME_CANCEL), copy;
	frame_encode(&t, &f);
	t.data[0] = FRAME_BYE + 1;
	assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), -EBADMSG);
	t.data[0] = FRAME_CANCEL;
	t.data[t.length - 4] = CANCEL_DISCARD + 1;
	assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), -EBADMSG);
	text_finish(&t);
	/* A grant of a GPU that no pilot has. */
	f = make(FRAME_GRANT);
	f.grant.gpus = (const int[]){0, FRAME_MAX_GPUS};
	frame_encode(&t, &f);
	assert_int_equal(frame_decode(t.data, t.length, &arrays, &copy), -EBADMSG);
	frame_arrays_finish(&arrays);
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_frame_is_read_as_it_was_written),
		cmocka_unit_test(test_members_of_a_hello_arrive),
		cmocka_unit_test(test_unknown_kinds_and_enumerators_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
