/* SPDX-License-Identifier: MIT */
/*
 * The secret that a coordinator and its pilots share: `slurm.secret` in the queue's folder, readable only by its
 * owner. Only a process that can read it can make pilots execute commands.
 */
#ifndef SLURM_SECRET_H
#define SLURM_SECRET_H

#include <stdint.h>

#include "gpu_dispatch.h"
#include "slurm/mac.h"

#define SECRET_FILE   "slurm.secret"
#define SECRET_DIGITS (2 * MAC_KEY_SIZE)

/* For pilots. -EPERM: the file belongs to another user, or other users can read or write it. -EBADMSG: it is damaged.
 */
int secret_load(int dir_fd, uint8_t ret[MAC_KEY_SIZE], struct gd_error *err);
/* For the coordinator: the same, but creates the file if it is missing. */
int secret_load_or_create(int dir_fd, uint8_t ret[MAC_KEY_SIZE], struct gd_error *err);

/* Bytes as hexadecimal digits, and the reverse. -EBADMSG: not exactly SECRET_DIGITS of them. */
void secret_format(const uint8_t bytes[MAC_KEY_SIZE], char ret[SECRET_DIGITS + 1]);
int secret_parse(const char *digits, uint8_t ret[MAC_KEY_SIZE]);

#endif
