/* SPDX-License-Identifier: MIT */
/*
 * Where a listener can be reached: "HOST PORT CHALLENGE" in the directory of the queue, replaced by rename, so a reader
 * gets all three from the same listener.
 *
 * Each listener chooses a random challenge, and the key of its tunnels is derived from the secret of the queue and this
 * challenge. So whatever a pilot sends is valid for this listener only. While there is no listener, other users can
 * listen on its port: they cannot use what pilots send to them, neither later nor by passing it on to the next
 * listener. The challenge need not be secret.
 */
#ifndef SLURM_ADDRESS_FILE_H
#define SLURM_ADDRESS_FILE_H

#include <stdint.h>

#include "slurm/mac.h"

struct address_file {
	char host[256]; /* an address or a name */
	uint16_t port;
	uint8_t challenge[MAC_KEY_SIZE];
};

/* -EBADMSG: the file is damaged; -EPROTONOSUPPORT: it has no challenge, so another version of gpuq has written it. */
int address_file_read(int dir_fd, const char *name, struct address_file *ret);
int address_file_write(int dir_fd, const char *name, const struct address_file *a);
/* The key of tunnels to the listener that has this challenge. */
void address_file_key(const struct address_file *a, const uint8_t secret[MAC_KEY_SIZE], uint8_t ret_key[MAC_KEY_SIZE]);

#endif
