/* SPDX-License-Identifier: MIT */
/* The table of settings, shared by config.c (what they mean) and config_yaml.c (how they are written). */
#ifndef QUEUE_INPUT_CONFIG_KEYS_H
#define QUEUE_INPUT_CONFIG_KEYS_H

#include "base/text.h"
#include "queue/input/config.h"

enum config_kind {
	CONFIG_KIND_TEXT,
	CONFIG_KIND_PATH,     /* text; "~/" at its beginning is the home folder in a file */
	CONFIG_KIND_SIZE,     /* with a unit */
	CONFIG_KIND_MB,       /* MB, or with a unit */
	CONFIG_KIND_DURATION, /* seconds, or with a unit */
	CONFIG_KIND_INTEGER,  /* from 0 */
	CONFIG_KIND_FLAG,
	CONFIG_KIND_ACCESS,   /* owner, group or all */
	CONFIG_KIND_AFFINITY, /* none or gpu */
};

struct config_row {
	const char *name;
	enum config_kind kind;
	size_t offset;
	uint64_t least;
};

extern const struct config_row config_rows[CONFIG_KEYS];

/* The value as it can be written into a file; nothing where it has none. */
void config_append_value(const struct config *c, enum config_key key, struct text *t);

/* The value from its text; the words do not name the setting. */
int config_set_value(struct config *c, enum config_key key, const char *value, struct gd_error *err);

#endif
