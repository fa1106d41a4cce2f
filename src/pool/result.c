/* SPDX-License-Identifier: MIT */
#include "pool/result.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct gd_result {
	atomic_size_t references;
	struct gd_bytes bytes;
	struct parcel parcel; /* its mapping, if it has one */
	max_align_t copy[];
};

static struct gd_result *result_new(size_t room)
{
	if (room > SIZE_MAX - sizeof(struct gd_result))
		return NULL;
	struct gd_result *result = malloc(sizeof(*result) + room);
	if (!result)
		return NULL;
	atomic_init(&result->references, 1);
	result->parcel = PARCEL_NONE;
	return result;
}

int result_copy(struct gd_bytes bytes, struct gd_result **ret)
{
	struct gd_result *result = result_new(bytes.size);
	if (!result)
		return -ENOMEM;
	if (bytes.size)
		memcpy(result->copy, bytes.data, bytes.size);
	result->bytes = (struct gd_bytes){.data = result->copy, .size = bytes.size};
	*ret = result;
	return 0;
}

int result_adopt(struct parcel *parcel, struct gd_result **ret)
{
	struct gd_result *result = result_new(0);
	if (!result) {
		parcel_finish(parcel);
		return -ENOMEM;
	}
	close_fd(&parcel->fd); /* the mapping keeps the bytes */
	result->parcel = *parcel;
	result->bytes = (struct gd_bytes){.data = parcel->data, .size = parcel->size};
	*parcel = PARCEL_NONE;
	*ret = result;
	return 0;
}

struct gd_result *result_hold(struct gd_result *result)
{
	atomic_fetch_add_explicit(&result->references, 1, memory_order_relaxed);
	return result;
}

int gd_event_hold(const struct gd_event *event, struct gd_result **ret)
{
	if (!event->internal)
		return result_copy(event->result, ret);
	*ret = result_hold((struct gd_result *)event->internal);
	return 0;
}

struct gd_bytes gd_result_bytes(const struct gd_result *result)
{
	return result->bytes;
}

void gd_result_free(struct gd_result *result)
{
	if (!result || atomic_fetch_sub_explicit(&result->references, 1, memory_order_acq_rel) > 1)
		return;
	parcel_finish(&result->parcel);
	free(result);
}
