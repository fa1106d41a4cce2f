/* SPDX-License-Identifier: MIT */
#include "queue/input/line_tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct line_tally_entry {
	struct hash hash;
	uint64_t count; /* 0: free */
};

static struct line_tally_entry *find_entry(struct line_tally_entry *entries, size_t room, struct hash h)
{
	size_t i = h.a & (room - 1);
	while (entries[i].count && (entries[i].hash.a != h.a || entries[i].hash.b != h.b))
		i = (i + 1) & (room - 1);
	return &entries[i];
}

static int add_hash(struct line_tally *t, struct hash h)
{
	if (t->used * 2 >= t->room) {
		size_t room = t->room ? t->room * 2 : 1024;
		struct line_tally_entry *entries = calloc(room, sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		for (size_t i = 0; i < t->room; i++)
			if (t->entries[i].count)
				*find_entry(entries, room, t->entries[i].hash) = t->entries[i];
		free(t->entries);
		t->entries = entries;
		t->room = room;
	}
	struct line_tally_entry *e = find_entry(t->entries, t->room, h);
	t->used += e->count == 0;
	/* One more than the occurrences, so that an entry whose occurrences were all taken is not free. */
	e->count = e->count ? e->count + 1 : 2;
	e->hash = h;
	return 0;
}

bool line_tally_take(struct line_tally *t, const void *line, size_t size)
{
	struct hash h = hash_bytes(line, size);
	struct line_tally_entry *e = t->room ? find_entry(t->entries, t->room, h) : NULL;
	if (!e || e->count < 2)
		return false;
	e->count--;
	return true;
}

void line_tally_finish(struct line_tally *t)
{
	free(t->entries);
}

int line_tally_add_file(struct line_tally *t, const struct jobs *js, const char *file)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		bool accepted = !job->reason || strcmp(job->reason, REASON_NOT_SYNCED) != 0;
		if (accepted && job->wish->file && strcmp(job->wish->file, file) == 0)
			r = add_hash(t, hash_bytes(job->command, job->command_size));
	}
	for (const struct seen_lines *s = js->seen; s; s = s->next)
		for (size_t i = 0; r == 0 && strcmp(s->file, file) == 0 && i < s->count; i++)
			r = add_hash(t, hash_parse(s->hashes + i * (HASH_TEXT - 1)));
	return r;
}
