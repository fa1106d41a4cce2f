/* SPDX-License-Identifier: MIT */
/* Any bytes as a message between the two ends of a launch on a cluster: refused, or encoded as the same bytes again. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "slurm/file_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file_message m;
	struct text t = {0};
	int r = file_message_decode(data, size, &m);
	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	if (r == 0) {
		FUZZ_CHECK(strlen(m.node) < FILE_NODE_ROOM && m.size <= size);
		file_message_encode(&t, &m);
		FUZZ_CHECK(text_error(&t) == 0 && t.length == size && memcmp(t.data, data, size) == 0);
	}
	text_finish(&t);
	return 0;
}
