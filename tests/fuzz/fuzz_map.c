/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the input of gpuq map, as its output and as an answer of its worker: every byte of the input belongs to
 * one line, a record that was read is written again as it was, and no answer lies outside the bytes.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "launch/items_task.h"
#include "launch/map_batch.h"
#include "launch/map_input.h"
#include "launch/map_record.h"

static void check_item(const struct map_line *line, bool lines)
{
	struct items_task task;
	struct map_batch *b = map_batch_create();
	FUZZ_CHECK(b && map_batch_add(b, &(struct map_item){0}, line->text, line->size, lines) == 0);
	FUZZ_CHECK(map_batch_seal(b) == 0);
	struct gd_bytes bytes = {.data = b->task.data, .size = b->task.length};
	FUZZ_CHECK(items_task_read(&bytes, &task) == 0 && task.count == 1);
	/* A message is one line, also for readers that end a line at a carriage return. */
	FUZZ_CHECK(!memchr(task.values, '\n', task.size) && !memchr(task.values, '\r', task.size));
	map_batch_destroy(b);
}

static void check_input(int fd, size_t size, bool lines)
{
	struct map_input in = {.fd = fd, .lines = lines, .regular = true, .limit = size};
	struct map_line line;
	uint64_t last = 0;
	FUZZ_CHECK(map_input_rewind(&in) == 0);
	for (;;) {
		enum map_input_event event = map_input_next(&in, MAP_INPUT_ITEM, &line);
		if (event == MAP_INPUT_END)
			break;
		if (event == MAP_INPUT_MORE) {
			FUZZ_CHECK(map_input_read(&in) == 0);
			continue;
		}
		FUZZ_CHECK(line.number > last);
		last = line.number;
		if (!line.bad)
			check_item(&line, lines);
	}
	FUZZ_CHECK(in.taken == size);
	in.fd = -1;
	map_input_finish(&in);
}

static void check_record(int fd, size_t size)
{
	struct map_record r = MAP_RECORD_NONE;
	struct map_file f = {.name = "out", .fd = fd};
	struct gd_error err = {0};
	uint64_t end = 0;
	int e = map_record_load(&r, &f, &end, &err);
	FUZZ_CHECK(e == 0 ? end <= size : err.message[0] != '\0');
	FUZZ_CHECK(r.failed <= r.count && r.count <= size);
	map_record_finish(&r);
}

static void check_answers(const uint8_t *data, size_t size)
{
	struct gd_bytes rest = {.data = data, .size = size};
	struct items_answer answer;
	while (items_answer_next(&rest, &answer) > 0)
		FUZZ_CHECK((const uint8_t *)answer.data >= data &&
			   (const uint8_t *)answer.data + answer.size <= data + size);
}

/* The highest number of an item decides how much memory a record takes: leave such numbers out. */
static bool has_long_number(const uint8_t *data, size_t size)
{
	size_t digits = 0;
	for (size_t i = 0; i < size; i++) {
		digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
		if (digits > 6)
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	check_input(fd, size, false);
	check_input(fd, size, true);
	if (!has_long_number(data, size))
		check_record(fd, size);
	check_answers(data, size);
	close(fd);
	return 0;
}
