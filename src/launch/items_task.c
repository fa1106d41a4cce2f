/* SPDX-License-Identifier: MIT */
#include "launch/items_task.h"

#include <errno.h>
#include <string.h>

_Static_assert(
	ITEMS_FAILED == -EIO && ITEMS_OUT_OF_MEMORY == -ENOMEM && ITEMS_NOT_BEGUN == -EAGAIN && ITEMS_LOST == -EPIPE,
	"the pool passes errno values on");

struct head {
	uint32_t count;
	uint32_t alone;
};

#define FAILED_BIT (UINT32_C(1) << 31)

void items_task_begin(struct text *t)
{
	const struct head head = {0};
	text_append(t, &head, sizeof(head));
	text_append_char(t, '[');
}

void items_task_seal(struct text *t, uint32_t count, bool alone)
{
	const struct head head = {.count = count, .alone = alone};
	text_append_char(t, ']');
	if (!text_error(t))
		memcpy(t->data, &head, sizeof(head));
}

int items_task_read(const struct gd_bytes *bytes, struct items_task *ret)
{
	struct head head;
	if (bytes->size <= sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes->data, sizeof(head));
	if (head.count == 0)
		return -EBADMSG;
	*ret = (struct items_task){
		.count = head.count,
		.alone = head.alone != 0,
		.values = (const char *)bytes->data + sizeof(head),
		.size = bytes->size - sizeof(head),
	};
	return 0;
}

void items_answer_put(struct text *t, bool failed, const void *data, size_t size)
{
	if (size >= FAILED_BIT) {
		t->error = -EMSGSIZE;
		return;
	}
	uint32_t head = (uint32_t)size | (failed ? FAILED_BIT : 0);
	text_append(t, &head, sizeof(head));
	text_append(t, data, size);
}

int items_answer_next(struct gd_bytes *bytes, struct items_answer *ret)
{
	uint32_t head;
	if (bytes->size == 0)
		return 0;
	if (bytes->size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes->data, sizeof(head));
	size_t size = head & ~FAILED_BIT;
	if (size > bytes->size - sizeof(head))
		return -EBADMSG;
	*ret = (struct items_answer){
		.failed = head & FAILED_BIT, .data = (const char *)bytes->data + sizeof(head), .size = size};
	bytes->data = (const char *)bytes->data + sizeof(head) + size;
	bytes->size -= sizeof(head) + size;
	return 1;
}
