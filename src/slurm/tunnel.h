/* SPDX-License-Identifier: MIT */
/*
 * An authenticated stream between a pilot and its coordinator: bytes in, frames out, and the reverse. No I/O.
 *
 * Both sides know a secret, which belongs to one coordinator (address_file.h). The pilot opens with its Slurm job id, a
 * nonce and a MAC over both. A recorded opening can be sent again, so it does not prove that the sender knows the
 * secret. But only a process that knows the secret can create an opening, and the listener accepts each opening once.
 * The coordinator answers with its epoch, a nonce and a proof of the secret over its role, both nonces, the epoch and
 * the job id. Only then does the pilot send its own proof, and neither side takes a frame before it has checked the
 * proof of the other. Proofs of the two roles differ, so neither can be reflected.
 *
 * Each direction has its own key, derived from the secret and both nonces, and each frame has a counter and a MAC:
 * a frame that is changed, repeated, left out or moved ends the tunnel. A peer that has not proven the secret can make
 * us buffer at most TUNNEL_OPENING_MAX bytes.
 *
 * Frames are not encrypted. They carry commands, which are also in the journal; environments are sent by name.
 */
#ifndef SLURM_TUNNEL_H
#define SLURM_TUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "slurm/mac.h"

#define TUNNEL_NONCE_SIZE  32
#define TUNNEL_OPENING_MAX 128
/* A command may have 10 MiB before escaping. */
#define TUNNEL_FRAME_MAX ((size_t)64 << 20)

enum tunnel_role {
	TUNNEL_COORDINATOR,
	TUNNEL_PILOT,
};

enum tunnel_stage {
	TUNNEL_WAITS_FOR_OPENING, /* coordinator */
	TUNNEL_WAITS_FOR_PROOF,   /* both */
	TUNNEL_OPEN,
	TUNNEL_BROKEN, /* see error */
};

struct tunnel {
	enum tunnel_role role;
	enum tunnel_stage stage;
	int error;
	uint64_t epoch;     /* the pilot knows it when the tunnel is open */
	uint64_t slurm_job; /* the coordinator knows it when the tunnel is open */
	uint8_t secret[MAC_KEY_SIZE];
	uint8_t pilot_nonce[TUNNEL_NONCE_SIZE], coordinator_nonce[TUNNEL_NONCE_SIZE];
	uint8_t send_key[MAC_KEY_SIZE], receive_key[MAC_KEY_SIZE];
	uint64_t sent, received; /* counters of the last frames */
	struct text in;          /* received bytes; in_done of them belong to frames already returned */
	size_t in_done;
	struct text out; /* bytes to send; the caller removes them */
};

/* number: the epoch of a coordinator, the Slurm job id of a pilot. The pilot's opening is put into `out`. */
int tunnel_init(struct tunnel *t, enum tunnel_role role, const uint8_t secret[MAC_KEY_SIZE], uint64_t number);
void tunnel_finish(struct tunnel *t);

/*
 * Processes bytes from the peer. Returns 0, or a negative errno value, after which the tunnel is broken: -EKEYREJECTED
 * (the peer does not know the secret), -EPROTO (not our protocol), -EMSGSIZE, -EBADMSG (a frame was changed or
 * repeated), -ENOMEM. Answers of the opening are put into `out`.
 */
int tunnel_receive(struct tunnel *t, const void *data, size_t size);
/* Gets the next frame. 1: its bytes are valid until the next call; 0: none is complete; or a negative errno value as
 * above. */
int tunnel_next(struct tunnel *t, const char **ret, size_t *ret_size);

/* -ENOTCONN before the tunnel is open; -EMSGSIZE. */
int tunnel_send(struct tunnel *t, const void *data, size_t size);

#endif
