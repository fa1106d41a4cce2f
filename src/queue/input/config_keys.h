/* SPDX-License-Identifier: MIT */
/* The table of settings, shared by config.c (values) and config_yaml.c (syntax). */
#ifndef QUEUE_INPUT_CONFIG_KEYS_H
#define QUEUE_INPUT_CONFIG_KEYS_H

#include "base/text.h"
#include "queue/input/config.h"

enum config_kind {
	CONFIG_KIND_TEXT,
	CONFIG_KIND_PATH,     /* text; in a file, "~/" at its beginning means the home directory */
	CONFIG_KIND_SIZE,     /* with a unit */
	CONFIG_KIND_MB,       /* MB, or with a unit */
	CONFIG_KIND_DURATION, /* seconds, or with a unit */
	CONFIG_KIND_INTEGER,  /* 0 or more */
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

/* Appends the value in the syntax of the file; nothing if it has no value. */
void config_append_value(const struct config *c, enum config_key key, struct text *t);

/* Sets the value from its text; the error message does not name the setting. */
int config_set_value(struct config *c, enum config_key key, const char *value, struct gd_error *err);

#endif
