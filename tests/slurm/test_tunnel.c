/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/secret.h"
#include "slurm/tunnel.h"
#include "support/scratch.h"

static const uint8_t ours[MAC_KEY_SIZE] = "the secret of this queue", theirs[MAC_KEY_SIZE] = "the secret of another";

struct pair {
	struct tunnel coordinator, pilot;
};

static void make(struct pair *p, const uint8_t *coordinator, const uint8_t *pilot)
{
	assert_int_equal(tunnel_init(&p->coordinator, TUNNEL_COORDINATOR, coordinator, 7), 0);
	assert_int_equal(tunnel_init(&p->pilot, TUNNEL_PILOT, pilot, 4711), 0);
}

static void finish(struct pair *p)
{
	tunnel_finish(&p->coordinator);
	tunnel_finish(&p->pilot);
}

/* Transfers all waiting bytes, in pieces of this size. */
static int carry(struct tunnel *from, struct tunnel *to, size_t piece)
{
	int r = 0;
	for (size_t at = 0; r == 0 && at < from->out.length; at += piece)
		r = tunnel_receive(
			to, from->out.data + at, from->out.length - at < piece ? from->out.length - at : piece);
	text_clear(&from->out);
	return r;
}

static void open_both(struct pair *p, size_t piece)
{
	make(p, ours, ours);
	assert_int_equal(carry(&p->pilot, &p->coordinator, piece), 0);
	assert_int_equal(carry(&p->coordinator, &p->pilot, piece), 0);
	assert_int_equal(p->pilot.stage, TUNNEL_OPEN);
	assert_int_equal(p->coordinator.stage, TUNNEL_WAITS_FOR_PROOF);
	assert_int_equal(carry(&p->pilot, &p->coordinator, piece), 0);
	assert_int_equal(p->coordinator.stage, TUNNEL_OPEN);
	assert_int_equal(p->pilot.epoch, 7);
	assert_int_equal(p->coordinator.slurm_job, 4711);
}

static void check_frame(struct tunnel *t, const char *expected)
{
	const char *data;
	size_t size;
	assert_int_equal(tunnel_next(t, &data, &size), 1);
	assert_int_equal(size, strlen(expected));
	assert_memory_equal(data, expected, size);
}

static int next(struct tunnel *t)
{
	const char *data;
	size_t size;
	return tunnel_next(t, &data, &size);
}

static void test_frames_arrive_in_order_whatever_the_pieces(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 200; piece += piece < 50 ? 1 : 37) {
		struct pair p;
		open_both(&p, piece);
		assert_int_equal(tunnel_send(&p.pilot, "one", 3), 0);
		assert_int_equal(tunnel_send(&p.pilot, "", 0), 0);
		assert_int_equal(tunnel_send(&p.pilot, "three", 5), 0);
		assert_int_equal(tunnel_send(&p.coordinator, "back", 4), 0);
		assert_int_equal(carry(&p.pilot, &p.coordinator, piece), 0);
		assert_int_equal(carry(&p.coordinator, &p.pilot, piece), 0);
		check_frame(&p.coordinator, "one");
		check_frame(&p.coordinator, "");
		check_frame(&p.coordinator, "three");
		assert_int_equal(next(&p.coordinator), 0);
		check_frame(&p.pilot, "back");
		finish(&p);
	}
}

/* The first frames may come in the same piece as the proof. */
static void test_frames_right_behind_the_proof_arrive(void **state)
{
	(void)state;
	struct pair p;
	char *long_frame = calloc(1, 5000);
	make(&p, ours, ours);
	carry(&p.pilot, &p.coordinator, SIZE_MAX / 2);
	carry(&p.coordinator, &p.pilot, SIZE_MAX / 2);
	assert_int_equal(tunnel_send(&p.pilot, long_frame, 5000), 0);
	assert_int_equal(tunnel_send(&p.pilot, "two", 3), 0);
	assert_int_equal(carry(&p.pilot, &p.coordinator, SIZE_MAX / 2), 0);
	assert_int_equal(next(&p.coordinator), 1);
	check_frame(&p.coordinator, "two");
	free(long_frame);
	finish(&p);
}

static void test_fake_coordinator_is_refused_before_the_pilot_proves_anything(void **state)
{
	(void)state;
	struct pair p;
	char answer[80] = "gpuq-s3\n"; /* without the secret, the opening reveals nothing */
	make(&p, theirs, ours);
	text_clear(&p.pilot.out);
	assert_int_equal(tunnel_receive(&p.pilot, answer, sizeof(answer)), -EKEYREJECTED);
	assert_int_equal(p.pilot.out.length, 0);
	assert_int_equal(tunnel_send(&p.pilot, "x", 1), -ENOTCONN);
	/* Later bytes are refused, too. */
	assert_int_equal(tunnel_receive(&p.pilot, "grant", 5), -EKEYREJECTED);
	assert_int_equal(next(&p.pilot), -EKEYREJECTED);
	finish(&p);
}

static void test_pilot_of_another_user_is_refused(void **state)
{
	(void)state;
	struct pair p;
	make(&p, ours, theirs);
	/* It gets no answer. */
	assert_int_equal(carry(&p.pilot, &p.coordinator, 1000), -EKEYREJECTED);
	assert_int_equal(p.coordinator.out.length, 0);
	finish(&p);
	/* It repeats an opening that it has recorded. */
	make(&p, ours, ours);
	assert_int_equal(carry(&p.pilot, &p.coordinator, 1000), 0);
	assert_int_equal(tunnel_send(&p.coordinator, "grant", 5), -ENOTCONN);
	uint8_t proof[MAC_SIZE] = {1, 2, 3};
	assert_int_equal(tunnel_receive(&p.coordinator, proof, sizeof(proof)), -EKEYREJECTED);
	finish(&p);
}

/* A fake coordinator has only the proof that the pilot itself would send. */
static void test_reflected_proof_is_refused(void **state)
{
	(void)state;
	struct pair p, real;
	open_both(&real, 1000);
	make(&p, ours, ours);
	carry(&p.pilot, &p.coordinator, 1000);
	/* The coordinator's proof is not valid as a pilot's proof. */
	assert_int_equal(
		tunnel_receive(&p.coordinator, p.coordinator.out.data + p.coordinator.out.length - MAC_SIZE, MAC_SIZE),
		-EKEYREJECTED);
	finish(&p);
	finish(&real);
}

/* A whole recorded conversation, sent to the same coordinator later. */
static void test_recorded_opening_is_refused_later(void **state)
{
	(void)state;
	struct pair p;
	struct tunnel later;
	char opening[TUNNEL_OPENING_MAX], proof[TUNNEL_OPENING_MAX];
	make(&p, ours, ours);
	size_t size = p.pilot.out.length;
	memcpy(opening, p.pilot.out.data, size);
	carry(&p.pilot, &p.coordinator, 1000);
	carry(&p.coordinator, &p.pilot, 1000);
	assert_int_equal(p.pilot.out.length, MAC_SIZE);
	memcpy(proof, p.pilot.out.data, MAC_SIZE);
	assert_int_equal(tunnel_init(&later, TUNNEL_COORDINATOR, ours, 7), 0);
	assert_int_equal(tunnel_receive(&later, opening, size), 0);
	assert_int_equal(tunnel_receive(&later, proof, MAC_SIZE), -EKEYREJECTED);
	tunnel_finish(&later);
	finish(&p);
}

static void test_job_id_and_epoch_are_part_of_the_proof(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		struct pair p;
		make(&p, ours, ours);
		if (which == 0)
			p.pilot.out.data[8] ^= 1; /* the job id */
		assert_int_equal(carry(&p.pilot, &p.coordinator, 1000), which == 0 ? -EKEYREJECTED : 0);
		if (which == 1) {
			p.coordinator.out.data[8] ^= 1; /* the epoch */
			assert_int_equal(carry(&p.coordinator, &p.pilot, 1000), -EKEYREJECTED);
		}
		finish(&p);
	}
}

static void test_changed_byte_ends_the_tunnel(void **state)
{
	(void)state;
	struct pair p;
	open_both(&p, 1000);
	assert_int_equal(tunnel_send(&p.coordinator, "rm -rf build", 12), 0);
	size_t size = p.coordinator.out.length;
	finish(&p);
	for (size_t at = 0; at < size; at++) {
		open_both(&p, 1000);
		tunnel_send(&p.coordinator, "rm -rf build", 12);
		p.coordinator.out.data[at] ^= 1;
		tunnel_send(&p.coordinator, "next", 4);
		tunnel_send(&p.coordinator, "next", 4);
		int r = carry(&p.coordinator, &p.pilot, 1000);
		r = r < 0 ? r : next(&p.pilot);
		/* With a larger size it waits for more bytes, which will not match the MAC. */
		assert_true(r == -EBADMSG || r == -EMSGSIZE || r == 0);
		assert_true(r < 0 || at < 4);
		finish(&p);
	}
}

static void test_replayed_reordered_and_missing_frames_end_the_tunnel(void **state)
{
	(void)state;
	static const int orders[][3] = {{0, 0, -1}, {1, 0, -1}, {0, 2, -1}, {0, 1, 0}};
	for (size_t o = 0; o < 4; o++) {
		struct pair p;
		char frames[3][64];
		open_both(&p, 1000);
		for (int i = 0; i < 3; i++) {
			tunnel_send(&p.coordinator, "same", 4);
			memcpy(frames[i], p.coordinator.out.data, p.coordinator.out.length);
			assert_int_equal(p.coordinator.out.length, 48);
			text_clear(&p.coordinator.out);
		}
		int r = 0;
		for (int i = 0; i < 3 && orders[o][i] >= 0 && r >= 0; i++) {
			r = tunnel_receive(&p.pilot, frames[orders[o][i]], 48);
			r = r < 0 ? r : next(&p.pilot);
		}
		assert_int_equal(r, -EBADMSG);
		finish(&p);
	}
}

/* Of the other direction, or of another session with the same secret. */
static void test_frame_of_another_direction_or_session_is_refused(void **state)
{
	(void)state;
	struct pair p, other;
	open_both(&p, 1000);
	open_both(&other, 1000);
	tunnel_send(&p.pilot, "same", 4);
	assert_int_equal(tunnel_receive(&p.pilot, p.pilot.out.data, p.pilot.out.length), 0);
	assert_int_equal(next(&p.pilot), -EBADMSG);
	tunnel_send(&other.pilot, "same", 4);
	assert_int_equal(tunnel_receive(&p.coordinator, other.pilot.out.data, other.pilot.out.length), 0);
	assert_int_equal(next(&p.coordinator), -EBADMSG);
	finish(&p);
	finish(&other);
}

static void test_oversized_frame_is_refused_by_its_head(void **state)
{
	(void)state;
	struct pair p;
	static const uint8_t head[4] = {0xff, 0xff, 0xff, 0x7f};
	open_both(&p, 1000);
	assert_int_equal(tunnel_receive(&p.coordinator, head, 4), -EMSGSIZE);
	assert_int_equal(tunnel_send(&p.pilot, head, TUNNEL_FRAME_MAX + 1), -EMSGSIZE);
	finish(&p);
}

static void test_stranger_costs_no_memory(void **state)
{
	(void)state;
	struct tunnel t;
	char junk[1000];
	memset(junk, 'x', sizeof(junk));
	assert_int_equal(tunnel_init(&t, TUNNEL_COORDINATOR, ours, 7), 0);
	assert_int_equal(tunnel_receive(&t, "GET / HTTP/1.1\r\n", 16), -EPROTO);
	assert_true(t.in.room <= 1024);
	tunnel_finish(&t);
	assert_int_equal(tunnel_init(&t, TUNNEL_COORDINATOR, ours, 7), 0);
	assert_int_equal(tunnel_receive(&t, "gpuq-s3\n", 8), 0);
	assert_true(tunnel_receive(&t, junk, sizeof(junk)) < 0);
	tunnel_finish(&t);
}

/* ---- The secret ------------------------------------------------------------------- */

static void test_secret_is_made_once_and_is_for_its_owner_alone(void **state)
{
	(void)state;
	uint8_t one[MAC_KEY_SIZE], two[MAC_KEY_SIZE];
	struct stat st;
	struct gd_error err;
	umask(0);
	assert_int_equal(secret_load(AT_FDCWD, one, &err), -ENOENT);
	assert_int_equal(secret_load_or_create(AT_FDCWD, one, &err), 0);
	assert_int_equal(stat(SECRET_FILE, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(secret_load_or_create(AT_FDCWD, two, &err), 0);
	assert_memory_equal(one, two, sizeof(one));
	assert_int_equal(chmod(SECRET_FILE, 0640), 0);
	assert_int_equal(secret_load_or_create(AT_FDCWD, two, &err), -EPERM);
	assert_int_equal(chmod(SECRET_FILE, 0600), 0);
	assert_int_equal(truncate(SECRET_FILE, 20), 0);
	assert_int_equal(secret_load_or_create(AT_FDCWD, two, &err), -EBADMSG);
	assert_int_equal(unlink(SECRET_FILE), 0);
	assert_int_equal(symlink("/etc/passwd", SECRET_FILE), 0);
	assert_int_equal(secret_load_or_create(AT_FDCWD, two, &err), -ELOOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_arrive_in_order_whatever_the_pieces),
		cmocka_unit_test(test_frames_right_behind_the_proof_arrive),
		cmocka_unit_test(test_fake_coordinator_is_refused_before_the_pilot_proves_anything),
		cmocka_unit_test(test_pilot_of_another_user_is_refused),
		cmocka_unit_test(test_reflected_proof_is_refused),
		cmocka_unit_test(test_recorded_opening_is_refused_later),
		cmocka_unit_test(test_job_id_and_epoch_are_part_of_the_proof),
		cmocka_unit_test(test_changed_byte_ends_the_tunnel),
		cmocka_unit_test(test_replayed_reordered_and_missing_frames_end_the_tunnel),
		cmocka_unit_test(test_frame_of_another_direction_or_session_is_refused),
		cmocka_unit_test(test_oversized_frame_is_refused_by_its_head),
		cmocka_unit_test(test_stranger_costs_no_memory),
		scratch_test(test_secret_is_made_once_and_is_for_its_owner_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
