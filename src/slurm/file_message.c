/* SPDX-License-Identifier: MIT */
#include "slurm/file_message.h"

#include <errno.h>
#include <string.h>

/* The members before `bytes`; the bytes follow them. */
#define HEAD_SIZE offsetof(struct file_message, bytes)

void file_message_encode(struct text *t, const struct file_message *m)
{
	text_clear(t);
	text_append(t, m, HEAD_SIZE);
	text_append(t, m->bytes, m->size);
}

int file_message_decode(const void *data, size_t size, struct file_message *ret)
{
	struct file_message m = {0};
	if (size < HEAD_SIZE)
		return -EBADMSG;
	memcpy(&m, data, HEAD_SIZE);
	if (m.kind < FILE_HELLO || m.kind > FILE_PONG || m.outcome > FILE_UNPROCESSED ||
		!memchr(m.node, '\0', sizeof(m.node)))
		return -EBADMSG;
	/* Only a hello and an answer have an outcome; in an answer the file has ended. */
	if (m.kind == FILE_ANSWER ? m.outcome < FILE_DONE : m.kind != FILE_HELLO && m.outcome != FILE_NONE)
		return -EBADMSG;
	m.bytes = (const char *)data + HEAD_SIZE;
	m.size = size - HEAD_SIZE;
	*ret = m;
	return 0;
}
