/* SPDX-License-Identifier: MIT */
#include "pool/settings.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/alignment.h"
#include "pool/parcel.h"

struct entry {
	uint64_t key; /* where it begins in the mapping */
	uint64_t value;
	uint64_t value_size;
};

struct settings {
	uint64_t size; /* of the mapping */
	uint64_t count;
	struct entry entries[];
};

#define MOST_BYTES (SIZE_MAX / 4)

size_t setting_size(const struct gd_setting *s)
{
	return s->value_size ? s->value_size : strlen(s->value);
}

/* The bytes they need after the table; 0 if that overflows. */
static size_t packed_size(const struct gd_setting *settings, size_t count)
{
	if (count > MOST_BYTES / sizeof(struct entry))
		return 0;
	size_t size = alignment_round(sizeof(struct settings) + count * sizeof(struct entry));
	for (size_t i = 0; i < count; i++) {
		size_t value = setting_size(&settings[i]);
		if (value > MOST_BYTES - size)
			return 0;
		size += alignment_round(value + 1) + alignment_round(strlen(settings[i].key) + 1);
	}
	return size;
}

int settings_pack(const struct gd_setting *settings, size_t num_settings, int *ret_fd)
{
	size_t size = packed_size(settings, num_settings);
	if (size == 0)
		return -E2BIG;
	cleanup_(parcel_finish) struct parcel parcel = PARCEL_NONE;
	int r = parcel_create(size, &parcel);
	if (r < 0)
		return r;
	struct settings *s = parcel.data;
	s->size = size;
	s->count = num_settings;
	size_t at = alignment_round(sizeof(*s) + num_settings * sizeof(s->entries[0]));
	for (size_t i = 0; i < num_settings; i++) {
		/* The file is zero-filled, which provides the NULs. */
		size_t key_size = strlen(settings[i].key), value_size = setting_size(&settings[i]);
		s->entries[i] = (struct entry){.value = at, .value_size = value_size};
		memcpy((char *)s + at, settings[i].value, value_size);
		at += alignment_round(value_size + 1);
		s->entries[i].key = at;
		memcpy((char *)s + at, settings[i].key, key_size);
		at += alignment_round(key_size + 1);
	}
	r = parcel_seal(&parcel, size);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&parcel.fd);
	return 0;
}

/* A worker program may be linked to another version of the library. */
static bool is_sound(const struct settings *s, size_t size)
{
	if (s->size != size || s->count > (size - sizeof(*s)) / sizeof(s->entries[0]))
		return false;
	for (uint64_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		if (e->key >= size || !memchr((const char *)s + e->key, '\0', size - e->key))
			return false;
		if (e->value >= size || e->value_size >= size - e->value)
			return false;
	}
	return true;
}

int settings_map(int fd, const struct settings **ret)
{
	size_t size = 0;
	const void *data = NULL;
	int r = parcel_map_sealed(fd, &data, &size);
	if (r < 0)
		return r;
	if (size < sizeof(struct settings) || !is_sound(data, size))
		return -EPROTO;
	*ret = data;
	return 0;
}

bool settings_find(const struct settings *s, const char *key, struct gd_bytes *ret)
{
	const char *base = (const char *)s;
	for (uint64_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		if (strcmp(base + e->key, key) != 0)
			continue;
		*ret = (struct gd_bytes){.data = base + e->value, .size = e->value_size};
		return true;
	}
	return false;
}
