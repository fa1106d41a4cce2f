/* SPDX-License-Identifier: MIT */
#include "launch/workload.h"

double workload_seconds_per_byte(const struct gd_found *files, size_t count)
{
	double seconds = 0, bytes = 0;
	for (size_t i = 0; i < count; i++) {
		if (files[i].seconds < 0)
			continue;
		seconds += files[i].seconds;
		bytes += (double)files[i].size_bytes;
	}
	return bytes > 0 ? seconds / bytes : 0;
}

void gd_workload_estimate(const struct gd_found *files, size_t count, struct gd_workload *ret)
{
	struct gd_workload w = {.files = count};
	for (size_t i = 0; i < count; i++) {
		const struct gd_found *f = &files[i];
		w.bytes += f->size_bytes;
		if (f->seconds >= 0)
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
	*ret = w;
}
