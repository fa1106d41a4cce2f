/* SPDX-License-Identifier: MIT */
#include "slurm/tunnel.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const char magic[8] = {'g', 'p', 'u', 'q', '-', 's', '3', '\n'};

#define OPENING_SIZE (sizeof(magic) + sizeof(uint64_t) + TUNNEL_NONCE_SIZE + MAC_SIZE)
#define ANSWER_SIZE  (sizeof(magic) + sizeof(uint64_t) + TUNNEL_NONCE_SIZE + MAC_SIZE)
#define HEAD_SIZE    (sizeof(uint32_t) + sizeof(uint64_t)) /* size of the content, counter */

_Static_assert(OPENING_SIZE <= TUNNEL_OPENING_MAX && ANSWER_SIZE <= TUNNEL_OPENING_MAX, "TUNNEL_OPENING_MAX");

static int broken(struct tunnel *t, int code)
{
	t->stage = TUNNEL_BROKEN;
	t->error = code;
	return code;
}

/* All parts have a fixed size, and so do the labels. */
static void prove(const struct tunnel *t, const char label[16], uint8_t ret[MAC_SIZE])
{
	uint64_t epoch = htole64(t->epoch), job = htole64(t->slurm_job);
	struct mac_part parts[] = {{magic, sizeof(magic)}, {label, 16}, {t->pilot_nonce, TUNNEL_NONCE_SIZE},
		{t->coordinator_nonce, TUNNEL_NONCE_SIZE}, {&epoch, sizeof(epoch)}, {&job, sizeof(job)}};
	mac_compute(t->secret, parts, sizeof(parts) / sizeof(parts[0]), ret);
}

/* For the opening, which is sent before the coordinator has chosen its nonce. */
static void prove_opening(const struct tunnel *t, uint8_t ret[MAC_SIZE])
{
	uint64_t job = htole64(t->slurm_job);
	struct mac_part parts[] = {{magic, sizeof(magic)}, {"opening         ", 16},
		{t->pilot_nonce, TUNNEL_NONCE_SIZE}, {&job, sizeof(job)}};
	mac_compute(t->secret, parts, sizeof(parts) / sizeof(parts[0]), ret);
}

#define PROOF_OF_COORDINATOR "coordinator     "
#define PROOF_OF_PILOT       "pilot           "
#define KEY_OF_COORDINATOR   "from coordinator"
#define KEY_OF_PILOT         "from pilot      "

static void derive_keys(struct tunnel *t)
{
	bool pilot = t->role == TUNNEL_PILOT;
	prove(t, KEY_OF_PILOT, pilot ? t->send_key : t->receive_key);
	prove(t, KEY_OF_COORDINATOR, pilot ? t->receive_key : t->send_key);
}

int tunnel_init(struct tunnel *t, enum tunnel_role role, const uint8_t secret[MAC_KEY_SIZE], uint64_t number)
{
	*t = (struct tunnel){.role = role};
	uint8_t *nonce = role == TUNNEL_PILOT ? t->pilot_nonce : t->coordinator_nonce;
	if (getrandom(nonce, TUNNEL_NONCE_SIZE, 0) != TUNNEL_NONCE_SIZE)
		return -EIO;
	memcpy(t->secret, secret, MAC_KEY_SIZE);
	if (role == TUNNEL_COORDINATOR) {
		t->epoch = number;
		t->stage = TUNNEL_WAITS_FOR_OPENING;
		return 0;
	}
	t->slurm_job = number;
	t->stage = TUNNEL_WAITS_FOR_PROOF;
	uint64_t job = htole64(number);
	uint8_t proof[MAC_SIZE];
	prove_opening(t, proof);
	text_append(&t->out, magic, sizeof(magic));
	text_append(&t->out, &job, sizeof(job));
	text_append(&t->out, nonce, TUNNEL_NONCE_SIZE);
	text_append(&t->out, proof, sizeof(proof));
	return text_error(&t->out);
}

void tunnel_finish(struct tunnel *t)
{
	text_finish(&t->in);
	text_finish(&t->out);
	explicit_bzero(t, sizeof(*t));
}

/* Coordinator: the pilot's opening → our answer. */
static int take_opening(struct tunnel *t, const char *p)
{
	uint8_t proof[MAC_SIZE], theirs[MAC_SIZE];
	uint64_t number;
	memcpy(&number, p + sizeof(magic), sizeof(number));
	t->slurm_job = le64toh(number);
	memcpy(t->pilot_nonce, p + sizeof(magic) + sizeof(number), TUNNEL_NONCE_SIZE);
	memcpy(theirs, p + OPENING_SIZE - MAC_SIZE, sizeof(theirs));
	prove_opening(t, proof);
	if (!mac_equal(proof, theirs))
		return -EKEYREJECTED;
	prove(t, PROOF_OF_COORDINATOR, proof);
	number = htole64(t->epoch);
	text_append(&t->out, magic, sizeof(magic));
	text_append(&t->out, &number, sizeof(number));
	text_append(&t->out, t->coordinator_nonce, TUNNEL_NONCE_SIZE);
	text_append(&t->out, proof, sizeof(proof));
	t->stage = TUNNEL_WAITS_FOR_PROOF;
	return text_error(&t->out);
}

static int check_proof(struct tunnel *t, const char *p, const char label[16])
{
	uint8_t proof[MAC_SIZE], theirs[MAC_SIZE];
	prove(t, label, proof);
	memcpy(theirs, p, sizeof(theirs));
	if (!mac_equal(proof, theirs))
		return -EKEYREJECTED;
	derive_keys(t);
	t->stage = TUNNEL_OPEN;
	return 0;
}

/* Pilot: the coordinator's answer → our proof. */
static int take_answer(struct tunnel *t, const char *p)
{
	uint8_t proof[MAC_SIZE];
	uint64_t number;
	memcpy(&number, p + sizeof(magic), sizeof(number));
	t->epoch = le64toh(number);
	memcpy(t->coordinator_nonce, p + sizeof(magic) + sizeof(number), TUNNEL_NONCE_SIZE);
	int r = check_proof(t, p + ANSWER_SIZE - MAC_SIZE, PROOF_OF_COORDINATOR);
	if (r < 0)
		return r;
	prove(t, PROOF_OF_PILOT, proof);
	text_append(&t->out, proof, sizeof(proof));
	return text_error(&t->out);
}

/* One message of the opening: 1 if it was complete. */
static int take_opening_message(struct tunnel *t)
{
	const char *p = t->in.data + t->in_done;
	size_t size = t->in.length - t->in_done, need;
	bool has_magic = true;
	if (t->role == TUNNEL_PILOT) {
		need = ANSWER_SIZE;
	} else {
		has_magic = t->stage == TUNNEL_WAITS_FOR_OPENING;
		need = has_magic ? OPENING_SIZE : MAC_SIZE;
	}
	/* Check early: a peer with another protocol may never send a complete opening. */
	if (has_magic && memcmp(p, magic, size < sizeof(magic) ? size : sizeof(magic)) != 0)
		return -EPROTO;
	if (size < need)
		return 0;
	t->in_done += need;
	int r = t->role == TUNNEL_PILOT ? take_answer(t, p)
		: has_magic             ? take_opening(t, p)
					: check_proof(t, p, PROOF_OF_PILOT);
	return r < 0 ? r : 1;
}

/* The size in the head of the next frame; 0: the head is not complete. */
static size_t next_size(const struct tunnel *t)
{
	uint32_t size;
	if (t->in.length - t->in_done < sizeof(size))
		return 0;
	memcpy(&size, t->in.data + t->in_done, sizeof(size));
	return le32toh(size) + (size_t)1;
}

int tunnel_receive(struct tunnel *t, const void *data, size_t size)
{
	if (t->stage == TUNNEL_BROKEN)
		return t->error;
	if (t->in_done == t->in.length) {
		text_clear(&t->in);
		t->in_done = 0;
	}
	if (t->stage != TUNNEL_OPEN && t->in.length + size > TUNNEL_OPENING_MAX + t->in_done) {
		/* Bytes beyond the opening are frames, which the peer may send right after its proof. */
		size_t first = TUNNEL_OPENING_MAX + t->in_done - t->in.length;
		int r = tunnel_receive(t, data, first);
		if (r < 0)
			return r;
		if (t->stage != TUNNEL_OPEN && t->in.length - t->in_done >= TUNNEL_OPENING_MAX)
			return broken(t, -EPROTO);
		return tunnel_receive(t, (const char *)data + first, size - first);
	}
	if (size == 0)
		return 0;
	text_append(&t->in, data, size);
	if (text_error(&t->in))
		return broken(t, -ENOMEM);
	int r = 1;
	while (r > 0 && t->stage != TUNNEL_OPEN && t->in.length > t->in_done)
		r = take_opening_message(t);
	if (r >= 0 && t->stage == TUNNEL_OPEN && next_size(t) > TUNNEL_FRAME_MAX + 1)
		r = -EMSGSIZE;
	return r < 0 ? broken(t, r) : 0;
}

static void compute_frame(
	const uint8_t key[MAC_KEY_SIZE], const char *head, const void *data, size_t size, uint8_t *ret)
{
	struct mac_part parts[] = {{head, HEAD_SIZE}, {data, size}};
	mac_compute(key, parts, 2, ret);
}

int tunnel_next(struct tunnel *t, const char **ret, size_t *ret_size)
{
	if (t->stage == TUNNEL_BROKEN)
		return t->error;
	size_t have = t->in.length - t->in_done, size = next_size(t);
	if (t->stage != TUNNEL_OPEN || size-- == 0)
		return 0;
	const char *p = t->in.data + t->in_done;
	if (size > TUNNEL_FRAME_MAX)
		return broken(t, -EMSGSIZE);
	if (have < HEAD_SIZE + size + MAC_SIZE) {
		/* Avoid moving the rest of a long frame repeatedly. */
		if (t->in_done > have) {
			memmove(t->in.data, p, have);
			t->in.length = have;
			t->in_done = 0;
		}
		return 0;
	}
	uint8_t mac[MAC_SIZE], theirs[MAC_SIZE];
	uint64_t counter;
	memcpy(&counter, p + sizeof(uint32_t), sizeof(counter));
	memcpy(theirs, p + HEAD_SIZE + size, sizeof(theirs));
	compute_frame(t->receive_key, p, p + HEAD_SIZE, size, mac);
	if (le64toh(counter) != t->received + 1 || !mac_equal(mac, theirs))
		return broken(t, -EBADMSG);
	t->received++;
	t->in_done += HEAD_SIZE + size + MAC_SIZE;
	*ret = p + HEAD_SIZE;
	*ret_size = size;
	return 1;
}

int tunnel_send(struct tunnel *t, const void *data, size_t size)
{
	char head[HEAD_SIZE];
	uint8_t mac[MAC_SIZE];
	uint32_t frame_size = htole32((uint32_t)size);
	uint64_t counter = htole64(t->sent + 1);
	if (t->stage != TUNNEL_OPEN)
		return -ENOTCONN;
	if (size > TUNNEL_FRAME_MAX)
		return -EMSGSIZE;
	memcpy(head, &frame_size, sizeof(frame_size));
	memcpy(head + sizeof(frame_size), &counter, sizeof(counter));
	compute_frame(t->send_key, head, data, size, mac);
	size_t before = t->out.length;
	text_append(&t->out, head, sizeof(head));
	text_append(&t->out, data, size);
	text_append(&t->out, mac, sizeof(mac));
	if (text_error(&t->out)) {
		t->out.length = before;
		t->out.error = 0;
		return -ENOMEM;
	}
	t->sent++;
	return 0;
}
