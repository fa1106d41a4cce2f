/* SPDX-License-Identifier: MIT */
#include "slurm/mac.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

void mac_compute(const uint8_t key[MAC_KEY_SIZE], const struct mac_part *parts, size_t num_parts, uint8_t ret[MAC_SIZE])
{
	struct hmac_sha256_ctx c;
	hmac_sha256_set_key(&c, MAC_KEY_SIZE, key);
	for (size_t i = 0; i < num_parts; i++)
		hmac_sha256_update(&c, parts[i].size, parts[i].data);
	hmac_sha256_digest(&c, MAC_SIZE, ret);
}

bool mac_equal(const uint8_t a[MAC_SIZE], const uint8_t b[MAC_SIZE])
{
	return memeql_sec(a, b, MAC_SIZE);
}
