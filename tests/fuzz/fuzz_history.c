/* SPDX-License-Identifier: MIT */
/* Any bytes as launch.jsonl: loaded data survives writing and loading unchanged. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"
#include "launch/history_writer.h"

static void load(struct history *h, const void *data, size_t size, int *ret_code)
{
	int fd = memfd_create("history", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && file_write_all(fd, data, size) == 0);
	FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
	struct gd_error err = {0};
	*h = (struct history){0};
	*ret_code = history_read(h, fd, "launch.jsonl", false, &err);
	FUZZ_CHECK(*ret_code == 0 || (err.code == *ret_code && err.message[0] && !strchr(err.message, '\n')));
	close(fd);
}

static void check_entry(const struct history_entry *e)
{
	FUZZ_CHECK(e->file[0] && e->output[0] && strlen(e->fingerprint) <= HASH_TEXT - 1);
	FUZZ_CHECK(e->audio_seconds == -1 || e->audio_seconds >= 0);
	FUZZ_CHECK(e->processing_seconds >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct history h, again;
	struct history_writer w = HISTORY_WRITER_CLOSED;
	int r;
	load(&h, data, size, &r);
	for (size_t i = 0; i < h.count; i++) {
		check_entry(&h.entries[i]);
		FUZZ_CHECK(history_find(&h, h.entries[i].file, h.entries[i].owner) == &h.entries[i]);
		history_writer_add(
			&w, &h.entries[i], &(struct history_place){.attempt = 1}, h.entries[i].done ? NULL : "failed");
	}
	FUZZ_CHECK(text_error(&w.pending) == 0);
	load(&again, text_string(&w.pending), w.pending.length, &r);
	FUZZ_CHECK(r == 0 && again.bad_lines == 0 && again.count == h.count);
	for (size_t i = 0; i < h.count; i++) {
		const struct history_entry *a = &h.entries[i], *b = history_find(&again, a->file, a->owner);
		FUZZ_CHECK(b && !strcmp(a->output, b->output) && a->done == b->done);
		FUZZ_CHECK(a->size_bytes == b->size_bytes && a->mtime_ns == b->mtime_ns);
	}
	history_finish(&h);
	history_finish(&again);
	history_writer_close(&w);
	return 0;
}
