/* SPDX-License-Identifier: MIT */
/*
 * Selecting and ordering jobs.
 *
 * Sorting is by one number per job, byte by byte (a radix sort: it is stable, so equal jobs stay ordered by id). It
 * selects and sorts 100,000 jobs fast enough to do so at every key press, so nothing is cached.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "view/model/model_private.h"

#define MAX_WORDS 16
#define WORD_ROOM 128

/* ---- Matching ------------------------------------------------------------------- */

struct filter_word {
	char text[WORD_ROOM]; /* in lower case */
	size_t size;
	bool number;
	int gpu; /* of "gpu 3"; -1 */
};

struct filter_words {
	struct filter_word words[MAX_WORDS];
	size_t count;
};

static unsigned char small(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

static char large(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c & ~0x20) : c;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static void add_word(struct filter_words *w, const char *text, size_t size)
{
	struct filter_word *last = w->count ? &w->words[w->count - 1] : NULL;
	struct filter_word word = {.size = size < WORD_ROOM ? size : WORD_ROOM - 1, .gpu = -1};
	for (size_t i = 0; i < word.size; i++)
		word.text[i] = (char)small((unsigned char)text[i]);
	word.number = is_number(word.text);
	if (last && word.number && word.size < 6 && strcmp(last->text, "gpu") == 0) {
		last->size = (size_t)snprintf(last->text, WORD_ROOM, "gpu %.6s", word.text);
		last->gpu = atoi(word.text);
		return;
	}
	if (strncmp(word.text, "gpu", 3) == 0 && word.size < 9 && is_number(word.text + 3))
		word.gpu = atoi(word.text + 3);
	if (w->count < MAX_WORDS)
		w->words[w->count++] = word;
}

static void split(struct filter_words *w, const char *text)
{
	w->count = 0;
	while (text && *text) {
		text += strspn(text, " \t");
		size_t size = strcspn(text, " \t");
		if (size)
			add_word(w, text, size);
		text += size;
	}
}

static bool begins_with(const char *text, const struct filter_word *w)
{
	for (size_t i = 1; i < w->size; i++)
		if (small((unsigned char)text[i]) != (unsigned char)w->text[i])
			return false;
	return true;
}

static bool contains(const char *text, const struct filter_word *w)
{
	if (!text)
		return false;
	char first[3] = {w->text[0], large(w->text[0]), 0};
	if (first[0] == first[1]) {
		for (text = strchr(text, first[0]); text; text = strchr(text + 1, first[0]))
			if (begins_with(text, w))
				return true;
		return false;
	}
	for (text = strpbrk(text, first); text; text = strpbrk(text + 1, first))
		if (begins_with(text, w))
			return true;
	return false;
}

static bool on_gpu(const struct view_job *job, int gpu)
{
	const struct view_attempt *last = view_job_last(job);
	for (size_t i = 0; last && i < last->num_gpus; i++)
		if (last->gpus[i] == gpu)
			return true;
	return false;
}

static bool id_contains(uint64_t id, const struct filter_word *w)
{
	char digits[24];
	snprintf(digits, sizeof(digits), "%" PRIu64, id);
	return strstr(digits, w->text);
}

static bool word_matches(const struct view_job *job, const struct filter_word *w)
{
	return (w->gpu >= 0 && on_gpu(job, w->gpu)) || (w->number && id_contains(view_id_number(job->id), w)) ||
	       contains(job->name, w) || contains(job->queue, w) || contains(job->command, w) ||
	       contains(job->reason, w);
}

static bool matches(const struct view_job *job, unsigned states, const struct filter_words *w)
{
	if (states && !(states & (1u << job->state)))
		return false;
	for (size_t i = 0; i < w->count; i++)
		if (!word_matches(job, &w->words[i]))
			return false;
	return true;
}

/* ---- Ordering ---------------------------------------------------------------------- */

struct sort_item {
	uint64_t key;
	const struct view_job *job;
};

#define UNKNOWN UINT64_MAX

static uint64_t known(int64_t value)
{
	return value < 0 ? UNKNOWN : (uint64_t)value;
}

static uint64_t duration_of(const struct view_attempt *last, int64_t now_ms)
{
	if (!last)
		return UNKNOWN;
	if (last->duration_ms >= 0)
		return known(last->duration_ms);
	if (last->end_ms >= 0)
		return known(last->end_ms - last->start_ms);
	return now_ms > last->start_ms ? known(now_ms - last->start_ms) : 0;
}

static uint64_t key_of(const struct view_job *job, const struct view_selection *s)
{
	static const unsigned char ranks[VIEW_JOB_STATES] = {
		[VIEW_JOB_RUNNING] = 0,
		[VIEW_JOB_PENDING] = 1,
		[VIEW_JOB_HELD] = 2,
		[VIEW_JOB_UNKNOWN] = 3,
		[VIEW_JOB_FAILED] = 4,
		[VIEW_JOB_CANCELLED] = 5,
		[VIEW_JOB_COMPLETED] = 6,
	};
	const struct view_attempt *last = view_job_last(job);
	switch (s->order) {
	case VIEW_BY_STATE:
		return ranks[job->state];
	case VIEW_BY_START:
		return last ? known(last->start_ms) : UNKNOWN;
	case VIEW_BY_DURATION:
		return duration_of(last, s->now_ms);
	case VIEW_BY_GPU:
		return last && last->num_gpus ? known(last->gpus[0]) : UNKNOWN;
	case VIEW_BY_MEMORY:
		return last && last->peak_mem_mb >= 0 ? known(last->peak_mem_mb) : known(job->mem_mb);
	case VIEW_BY_NAME:
	case VIEW_BY_ID:
		break;
	}
	return job->id;
}

/* One pass per byte in which keys differ. Returns the array with the result: a or b. */
static struct sort_item *radix_sort(struct sort_item *a, struct sort_item *b, size_t count)
{
	uint64_t all = 0, any = ~UINT64_C(0);
	for (size_t i = 0; i < count; i++) {
		all |= a[i].key;
		any &= a[i].key;
	}
	for (int shift = 0; shift < 64; shift += 8) {
		if (!(((all ^ any) >> shift) & 0xff))
			continue;
		size_t starts[257] = {0};
		for (size_t i = 0; i < count; i++)
			starts[((a[i].key >> shift) & 0xff) + 1]++;
		for (size_t i = 0; i < 256; i++)
			starts[i + 1] += starts[i];
		for (size_t i = 0; i < count; i++)
			b[starts[(a[i].key >> shift) & 0xff]++] = a[i];
		struct sort_item *t = a;
		a = b;
		b = t;
	}
	return a;
}

static const char *name_of(const struct view_job *job)
{
	return job->name && *job->name ? job->name : job->command ? job->command : "";
}

static int compare_names(const void *a, const void *b)
{
	const struct sort_item *x = a, *y = b;
	int c = strcasecmp(name_of(x->job), name_of(y->job));
	return c ? c : (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* The length of the common prefix of all names: "train_" would fill the keys. */
static size_t common_beginning(const struct sort_item *items, size_t count)
{
	const char *first = name_of(items[0].job);
	size_t common = strlen(first);
	for (size_t i = 1; i < count && common; i++) {
		const char *name = name_of(items[i].job);
		size_t k = 0;
		while (k < common && name[k] && small((unsigned char)name[k]) == small((unsigned char)first[k]))
			k++;
		common = k;
	}
	return common;
}

static uint64_t name_key(const char *name)
{
	uint64_t key = 0;
	for (int i = 0; i < 8; i++) {
		key = key << 8 | small((unsigned char)*name);
		name += *name != 0;
	}
	return key;
}

static struct sort_item *sort_names(struct sort_item *a, struct sort_item *b, size_t count)
{
	size_t common = common_beginning(a, count);
	for (size_t i = 0; i < count; i++)
		a[i].key = name_key(name_of(a[i].job) + common);
	a = radix_sort(a, b, count);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && a[end].key == a[i].key; end++)
			;
		/* If the key contains a NUL, the names are equal. */
		if (end - i > 1 && (a[i].key & 0xff))
			qsort(a + i, end - i, sizeof(*a), compare_names);
	}
	return a;
}

/* ---- Both ---------------------------------------------------------------------------- */

/* Jobs without a key stay after the others. */
static void write_out(const struct sort_item *items, size_t count, const struct view_selection *s,
	const struct view_job **ret, size_t max)
{
	size_t with_key = count;
	if (s->order != VIEW_BY_NAME && s->order != VIEW_BY_ID)
		while (with_key && items[with_key - 1].key == UNKNOWN)
			with_key--;
	for (size_t i = 0; i < count && i < max; i++)
		ret[i] = items[s->reverse && i < with_key ? with_key - 1 - i : i].job;
}

static size_t collect(const struct view_model *m, const struct view_selection *s, struct sort_item *items)
{
	struct filter_words words;
	split(&words, s->text);
	struct view_entry **entries = view_jobs_in_order(m);
	size_t count = 0;
	for (size_t i = 0; i < m->num_jobs; i++) {
		const struct view_job *job = &entries[i]->job;
		if (!matches(job, s->states, &words))
			continue;
		if (items)
			items[count] = (struct sort_item){key_of(job, s), job};
		count++;
	}
	return count;
}

size_t view_select(const struct view_model *m, const struct view_selection *s, const struct view_job **ret, size_t max)
{
	if (!m->num_jobs || !max)
		return collect(m, s, NULL);
	struct sort_item *items = malloc(2 * m->num_jobs * sizeof(*items));
	if (!items)
		return 0;
	size_t count = collect(m, s, items);
	struct sort_item *sorted = items;
	if (count && s->order == VIEW_BY_NAME)
		sorted = sort_names(items, items + m->num_jobs, count);
	else if (s->order != VIEW_BY_ID)
		sorted = radix_sort(items, items + m->num_jobs, count);
	write_out(sorted, count, s, ret, max);
	free(items);
	return count;
}
