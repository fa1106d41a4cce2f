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

static struct line_tally_entry *find_entry(const struct line_tally *t, struct hash h)
{
	size_t i = hash_seeded(&h, sizeof(h), t->seed) & (t->room - 1);
	while (t->entries[i].count && (t->entries[i].hash.a != h.a || t->entries[i].hash.b != h.b))
		i = (i + 1) & (t->room - 1);
	return &t->entries[i];
}

static int add_hash(struct line_tally *t, struct hash h)
{
	if (t->used * 2 >= t->room) {
		struct line_tally larger = {.room = t->room ? t->room * 2 : 1024, .used = t->used};
		larger.seed = t->seed ? t->seed : hash_seed();
		larger.entries = calloc(larger.room, sizeof(*larger.entries));
		if (!larger.entries)
			return -ENOMEM;
		for (size_t i = 0; i < t->room; i++)
			if (t->entries[i].count)
				*find_entry(&larger, t->entries[i].hash) = t->entries[i];
		free(t->entries);
		*t = larger;
	}
	struct line_tally_entry *e = find_entry(t, h);
	t->used += e->count == 0;
	/* One more than the remaining occurrences, so that an entry with none left is not free. */
	e->count = e->count ? e->count + 1 : 2;
	e->hash = h;
	return 0;
}

bool line_tally_take(struct line_tally *t, const void *line, size_t size)
{
	struct hash h = hash_bytes(line, size);
	struct line_tally_entry *e = t->room ? find_entry(t, h) : NULL;
	if (!e || e->count < 2)
		return false;
	e->count--;
	return true;
}

void line_tally_finish(struct line_tally *t)
{
	free(t->entries);
}

static bool is_from(const char *origin, const char *file)
{
	return origin && (strcmp(origin, file) == 0 || strcmp(origin, JOB_ANY_FILE) == 0);
}

int line_tally_add_file(struct line_tally *t, const struct jobs *js, const char *file)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		bool accepted = !job->reason || strcmp(job->reason, REASON_NOT_SYNCED) != 0;
		if (accepted && is_from(job->wish->file, file))
			r = add_hash(t, hash_bytes(job->command, job->command_size));
	}
	for (const struct seen_lines *s = js->seen; s; s = s->next)
		for (size_t i = 0; r == 0 && is_from(s->file, file) && i < s->count; i++)
			r = add_hash(t, hash_parse(s->hashes + i * (HASH_TEXT - 1)));
	return r;
}
