/* SPDX-License-Identifier: MIT */
/* What a worker is told at its start, laid out in its inbox. */
#ifndef POOL_BRIEF_H
#define POOL_BRIEF_H

#include "gpu_dispatch.h"
#include "pool/channel.h"

struct brief {
	uint32_t size; /* of struct brief: an executed program may be linked to another version */
	int32_t slot;
	int32_t gpu;
	int32_t device;
	int64_t seed;
	uint32_t announce; /* wants RING_STARTED records */
	uint32_t num_settings;
	uint32_t settings_size; /* key NUL value NUL … */
	uint32_t spare;
	char settings[];
};

#define BRIEF_SETTINGS_ROOM (CHANNEL_BRIEF - sizeof(struct brief))

/* -E2BIG where the settings do not fit. */
int brief_write(struct inbox *in, const struct brief *numbers, const struct gd_setting *settings, size_t num_settings);

/* The brief in an inbox, if it is one of ours. */
int brief_read(const struct inbox *in, const struct brief **ret);

const char *brief_setting(const struct brief *b, const char *key);

#endif
