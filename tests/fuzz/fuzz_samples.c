/* SPDX-License-Identifier: MIT */
/* Any bytes as samples.jsonl: samples that were read can be appended, and are then read unchanged. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"
#include "queue/journal/samples.h"

/* Sums over everything that was read: cheap to compare. */
struct tally {
	int copy_dir; /* -1: only count */
	uint64_t samples, gpus, jobs, sum;
};

static int take(void *context, const struct sample *s)
{
	struct tally *t = context;
	FUZZ_CHECK(s->time_ms >= 0);
	t->samples++;
	t->sum = t->sum * 31 + (uint64_t)s->time_ms;
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct sample_gpu *g = &s->gpus[i];
		FUZZ_CHECK(g->gpu >= 0 && g->util >= -1 && g->util <= 100);
		t->gpus++;
		t->sum = t->sum * 31 + (uint64_t)g->gpu + (uint64_t)(g->mem_used_mb < 0 ? -1 : g->mem_used_mb);
		for (size_t k = 0; k < g->num_jobs; k++, t->jobs++)
			t->sum = t->sum * 31 + g->jobs[k];
	}
	if (t->copy_dir >= 0)
		FUZZ_CHECK(samples_append(t->copy_dir, s) == 0);
	return 0;
}

/* Creates a directory, in memory if possible; called once for each of two. */
static int open_dir(const char *name)
{
	static char base[64];
	if (!base[0]) {
		snprintf(base, sizeof(base), "%s/fuzz-samples-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		FUZZ_CHECK(mkdtemp(base));
	}
	char path[96];
	snprintf(path, sizeof(path), "%s/%s", base, name);
	FUZZ_CHECK(mkdir(path, 0700) == 0);
	int fd = open(path, O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	return fd;
}

static int in_dir = -1, copy_dir = -1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (in_dir < 0) {
		in_dir = open_dir("in");
		copy_dir = open_dir("copy");
	}
	unlinkat(copy_dir, "samples.jsonl", 0);
	int fd = openat(in_dir, "samples.jsonl", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && file_write_all(fd, data, size) == 0);
	close(fd);
	struct tally first = {.copy_dir = copy_dir}, again = {.copy_dir = -1};
	FUZZ_CHECK(samples_read(in_dir, take, &first) == 0);
	if (!first.samples)
		return 0;
	FUZZ_CHECK(samples_read(copy_dir, take, &again) == 0);
	FUZZ_CHECK(first.samples == again.samples && first.gpus == again.gpus);
	FUZZ_CHECK(first.jobs == again.jobs && first.sum == again.sum);
	return 0;
}
