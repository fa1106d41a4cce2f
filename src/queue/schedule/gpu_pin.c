/* SPDX-License-Identifier: MIT */
#include "queue/schedule/gpu_pin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

#define MAX_INDEX 65535
#define FORMS     "expected the number or UUID of a GPU, or several, like 3 or 0,1 or 0-3 or GPU-5a1f"

static int refuse(const char *item, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	return error_set(err, -EINVAL, "'%s' is not a GPU; " FORMS, display_quote(item, quote));
}

static bool is_uuid(const char *item)
{
	return (strncasecmp(item, "GPU-", 4) == 0 || strncasecmp(item, "MIG-", 4) == 0) && item[4] &&
	       strlen(item) < GPU_PIN_NAME &&
	       !item[strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/")];
}

/* Whether a name is in a comma-separated list. */
static bool has_name(const char *list, const char *name)
{
	size_t length = strlen(name);
	for (const char *p = list; *p;) {
		size_t size = strcspn(p, ",");
		if (size == length && strncasecmp(p, name, size) == 0)
			return true;
		p += size + (p[size] == ',');
	}
	return false;
}

static int append_name(struct text *t, size_t *count, const char *name, struct gd_error *err)
{
	if (has_name(text_string(t), name))
		return error_set(err, -EINVAL, "GPU %s is listed twice; a job gets each GPU only once", name);
	if (++*count > GPU_PIN_MAX)
		return error_set(err, -EINVAL, "more than %d GPUs are listed", GPU_PIN_MAX);
	if (t->length)
		text_append_char(t, ',');
	text_append_string(t, name);
	return 0;
}

static int append_range(struct text *t, size_t *count, char *item, struct gd_error *err)
{
	int64_t first, last;
	char *dash = strchr(item, '-');
	if (dash)
		*dash = '\0';
	int r = units_parse_integer(item, 0, MAX_INDEX, &first, NULL);
	if (r == 0)
		r = units_parse_integer(dash ? dash + 1 : item, 0, MAX_INDEX, &last, NULL);
	if (dash)
		*dash = '-';
	if (r < 0)
		return refuse(item, err);
	if (last < first)
		return error_set(err, -EINVAL, "the range '%s' is reversed", item);
	for (int64_t i = first; i <= last && r == 0; i++) {
		char name[16];
		snprintf(name, sizeof(name), "%d", (int)i);
		r = append_name(t, count, name, err);
	}
	return r;
}

int gpu_pin_parse(const char *text, char **ret, struct gd_error *err)
{
	cleanup_(freep) char *copy = strdup(text);
	cleanup_(text_finish) struct text pin = {0};
	size_t count = 0;
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	char *rest = copy, *item;
	while ((item = strsep(&rest, ","))) {
		int r = is_uuid(item) ? append_name(&pin, &count, item, err) : append_range(&pin, &count, item, err);
		if (r < 0)
			return r;
	}
	char *words = text_take(&pin);
	if (!words)
		return error_set(err, -ENOMEM, "out of memory");
	*ret = words;
	return 0;
}

size_t gpu_pin_count(const char *pin)
{
	size_t count = 1;
	for (const char *p = pin; *p; p++)
		count += *p == ',';
	return count;
}

/* The GPUs of one name: an index, or the beginning of a UUID; an exact match is preferred. */
static int resolve_name(const char *name, const struct gd_gpu *const *gpus, size_t num_gpus, bool *allowed)
{
	bool uuid = is_uuid(name);
	size_t length = strlen(name), found = 0;
	int index = uuid ? -1 : atoi(name);
	for (size_t i = 0; i < num_gpus && uuid; i++)
		if (gpus[i]->known & GD_GPU_KNOWN_UUID && strcasecmp(gpus[i]->uuid, name) == 0) {
			allowed[i] = true;
			return 0;
		}
	for (size_t i = 0; i < num_gpus; i++) {
		if (uuid ? !(gpus[i]->known & GD_GPU_KNOWN_UUID) || strncasecmp(gpus[i]->uuid, name, length) != 0
			 : gpus[i]->index != index)
			continue;
		allowed[i] = true;
		found++;
	}
	return found == 0 ? -ENODEV : found > 1 && uuid ? -ENOTUNIQ : 0;
}

int gpu_pin_resolve(
	const char *pin, const struct gd_gpu *const *gpus, size_t num_gpus, bool *allowed, char ret_name[GPU_PIN_NAME])
{
	int result = 0;
	memset(allowed, 0, num_gpus * sizeof(*allowed));
	for (const char *p = pin; *p;) {
		size_t size = strcspn(p, ",");
		char name[GPU_PIN_NAME];
		snprintf(name, sizeof(name), "%.*s", (int)size, p);
		int r = resolve_name(name, gpus, num_gpus, allowed);
		if (r < 0 && result == 0) {
			result = r;
			if (ret_name)
				memcpy(ret_name, name, sizeof(name));
		}
		p += size + (p[size] == ',');
	}
	return result;
}
