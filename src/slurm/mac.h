/* SPDX-License-Identifier: MIT */
/* HMAC-SHA-256, by nettle: the only cryptography that the coordinator and its pilots use. */
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

/* Of all parts, one after the other. The caller makes sure that their borders are unambiguous. */
void mac_compute(
	const uint8_t key[MAC_KEY_SIZE], const struct mac_part *parts, size_t num_parts, uint8_t ret[MAC_SIZE]);
/* Takes the same time wherever they differ. */
bool mac_equal(const uint8_t a[MAC_SIZE], const uint8_t b[MAC_SIZE]);

#endif
