/* SPDX-License-Identifier: MIT */
/* Any bytes as the content of a frame between coordinator and pilot: refused, or encoded as the same bytes again. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "slurm/frame_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame f;
	struct frame_arrays arrays = {0};
	struct text t = {0};
	int r = frame_decode(data, size, &arrays, &f);
	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	if (r == 0) {
		frame_encode(&t, &f);
		FUZZ_CHECK(text_error(&t) == 0 && t.length == size && memcmp(t.data, data, size) == 0);
	}
	frame_arrays_finish(&arrays);
	text_finish(&t);
	return 0;
}
