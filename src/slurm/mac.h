/* SPDX-License-Identifier: MIT */
/* HMAC-SHA-256, from nettle: the only cryptography that the coordinator and its pilots use. */
#ifndef SLURM_MAC_H
#define SLURM_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_KEY_SIZE 32
#define MAC_SIZE     32

struct mac_part {
	const void *data;
	size_t size;
};

/* Computes the MAC of all parts in order. The caller ensures that the boundaries between parts are unambiguous. */
void mac_compute(
	const uint8_t key[MAC_KEY_SIZE], const struct mac_part *parts, size_t num_parts, uint8_t ret[MAC_SIZE]);
/* Constant-time comparison. */
bool mac_equal(const uint8_t a[MAC_SIZE], const uint8_t b[MAC_SIZE]);

#endif
