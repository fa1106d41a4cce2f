/* SPDX-License-Identifier: MIT */
#include "pool/brief.h"

#include <errno.h>
#include <string.h>

int brief_write(struct inbox *in, const struct brief *numbers, const struct gd_setting *settings, size_t num_settings)
{
	struct brief *b = (struct brief *)in->brief;
	*b = *numbers;
	b->size = sizeof(*b);
	b->num_settings = (uint32_t)num_settings;
	size_t used = 0;
	for (size_t i = 0; i < num_settings; i++) {
		const char *strings[2] = {settings[i].key, (const char *)settings[i].value};
		for (int k = 0; k < 2; k++) {
			size_t n = strlen(strings[k]) + 1;
			if (n > BRIEF_SETTINGS_ROOM - used)
				return -E2BIG;
			memcpy(b->settings + used, strings[k], n);
			used += n;
		}
	}
	b->settings_size = (uint32_t)used;
	return 0;
}

int brief_read(const struct inbox *in, const struct brief **ret)
{
	const struct brief *b = (const struct brief *)in->brief;
	if (b->size != sizeof(*b) || b->settings_size > BRIEF_SETTINGS_ROOM)
		return -EPROTO;
	*ret = b;
	return 0;
}

const char *brief_setting(const struct brief *b, const char *key)
{
	const char *p = b->settings;
	for (uint32_t i = 0; i < b->num_settings; i++) {
		const char *value = p + strlen(p) + 1;
		if (strcmp(p, key) == 0)
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}
