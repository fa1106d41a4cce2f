/* SPDX-License-Identifier: MIT */
#include "launch/workload.h"

#include <errno.h>

#include "base/sized.h"

SIZED_NO_TAIL(gd_workload, smallest);

int found_check(const struct gd_found *const *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (files[i]->size < sizeof(struct gd_found))
			return -EINVAL;
	return 0;
}

double workload_seconds_per_byte(const struct gd_found *const *files, size_t count)
{
	double seconds = 0, bytes = 0;
	for (size_t i = 0; i < count; i++) {
		if (!found_has_seconds(files[i]))
			continue;
		seconds += files[i]->seconds;
		bytes += (double)files[i]->size_bytes;
	}
	return bytes > 0 ? seconds / bytes : 0;
}

void gd_files_workload(const struct gd_found *const *files, size_t count, struct gd_workload *ret, size_t size)
{
	struct gd_workload w = {.size = sizeof(w), .files = count};
	for (size_t i = 0; i < count; i++) {
		const struct gd_found *f = files[i];
		w.bytes += f->size_bytes;
		if (found_has_seconds(f))
			w.audio_seconds += f->seconds;
		else
			w.audio_unknown++;
		if (!w.largest || f->size_bytes > w.largest_bytes) {
			w.largest = f->path;
			w.largest_bytes = f->size_bytes;
		}
		if (!w.smallest || f->size_bytes < w.smallest_bytes) {
			w.smallest = f->path;
			w.smallest_bytes = f->size_bytes;
		}
	}
	sized_write(ret, size, &w, sizeof(w));
}
