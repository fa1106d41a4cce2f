/* SPDX-License-Identifier: MIT */
#include "launch/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int settings_check(const struct gd_setting *settings, size_t i, struct gd_error *err)
{
	const struct gd_setting *s = &settings[i];
	if (!s->key || !*s->key || !s->value)
		return error_set(err, -EINVAL, "setting %zu has no %s", i + 1, s->value ? "name" : "value");
	if (s->value_size && memchr(s->value, '\0', s->value_size))
		return error_set(err, -EINVAL,
			"setting '%s': the value contains a NUL byte, but settings of a launch are strings", s->key);
	return 0;
}

static size_t value_length(const struct gd_setting *s)
{
	return s->value_size ? s->value_size : strlen(s->value);
}

static bool is_replaced(const struct gd_setting *settings, size_t count, size_t i)
{
	for (size_t k = i + 1; k < count; k++)
		if (strcmp(settings[k].key, settings[i].key) == 0)
			return true;
	return false;
}

int settings_copy(const struct gd_setting *settings, size_t count, struct gd_setting **ret, size_t *ret_count)
{
	size_t text_size = 0, kept = 0;
	for (size_t i = 0; i < count; i++)
		text_size += strlen(settings[i].key) + value_length(&settings[i]) + 2;
	struct gd_setting *copy = malloc((count + 1) * sizeof(*copy) + text_size);
	if (!copy)
		return -ENOMEM;
	char *text = (char *)(copy + count + 1);
	for (size_t i = 0; i < count; i++) {
		if (is_replaced(settings, count, i))
			continue;
		size_t length = value_length(&settings[i]);
		char *key = text;
		char *value = stpcpy(key, settings[i].key) + 1;
		memcpy(value, settings[i].value, length);
		value[length] = '\0';
		text = value + length + 1;
		copy[kept++] = (struct gd_setting){.key = key, .value = value};
	}
	*ret = copy;
	*ret_count = kept;
	return 0;
}
