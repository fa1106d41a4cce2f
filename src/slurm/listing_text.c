/* SPDX-License-Identifier: MIT */
#include "slurm/listing_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/date.h"

struct slice {
	const char *data;
	size_t size;
};

void listing_builder_finish(struct listing_builder *b)
{
	free(b->jobs);
	free(b->nodes);
	*b = (struct listing_builder){0};
}

/* Removes the bytes up to and including `c` from the front; false if there is no such byte. */
static bool take_until(struct slice *s, char c, struct slice *ret)
{
	const char *at = s->size ? memchr(s->data, c, s->size) : NULL;
	if (!at)
		return false;
	*ret = (struct slice){s->data, (size_t)(at - s->data)};
	s->size -= ret->size + 1;
	s->data = at + 1;
	return true;
}

static bool parse_number(const struct slice *s, uint64_t most, uint64_t *ret)
{
	uint64_t n = 0;
	if (s->size == 0 || s->size > 18)
		return false;
	for (size_t i = 0; i < s->size; i++) {
		if (s->data[i] < '0' || s->data[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(s->data[i] - '0');
	}
	*ret = n;
	return n <= most;
}

/* False if it does not fit. */
static bool copy(const struct slice *s, char *ret, size_t room)
{
	if (s->size >= room || memchr(s->data, '\0', s->size))
		return false;
	memcpy(ret, s->data, s->size);
	ret[s->size] = '\0';
	return true;
}

/* Long informational text may be truncated. */
static void copy_words(struct slice s, char *ret, size_t room)
{
	if (s.size >= room)
		s.size = room - 1;
	for (size_t i = 0; i < s.size; i++)
		ret[i] = s.data[i] >= ' ' && s.data[i] < 0x7f ? s.data[i] : '?';
	ret[s.size] = '\0';
}

/* The commands run with TZ=UTC. 0: "None", "Unknown", "N/A". */
static bool parse_time(const struct slice *s, int64_t *ret)
{
	char text[32];
	*ret = 0;
	if (s->size == 0)
		return false;
	if (s->data[0] == 'N' || s->data[0] == 'U')
		return true;
	if (s->size != 19 || !copy(s, text, sizeof(text)))
		return false;
	strcat(text, "Z");
	return date_parse(text, strlen(text), ret) == 0;
}

/* ---- Jobs ------------------------------------------------------------------------- */

/* Names of other jobs may contain newlines: a line that does not begin with a number continues such a name. */
static int take_job(struct listing_builder *b, struct slice line, const char *prefix)
{
	struct slice id, state, restarts, node, reason;
	struct listed_job job = {0};
	uint64_t n;
	char word[64];
	if (!take_until(&line, '|', &id) || !parse_number(&id, UINT64_MAX, &job.slurm_job))
		return b->name_is_open ? 0 : -EBADMSG;
	if (job.slurm_job == 0 || !take_until(&line, '|', &state) || !take_until(&line, '|', &restarts) ||
		!take_until(&line, '|', &node) || !take_until(&line, '|', &reason) || line.size == 0)
		return -EBADMSG;
	b->name_is_open = line.size < strlen(prefix) || memcmp(line.data, prefix, strlen(prefix)) != 0;
	if (b->name_is_open)
		return 0;
	if (line.data[--line.size] != '|')
		return -EBADMSG;
	if (!parse_number(&restarts, UINT32_MAX, &n) || !copy(&state, word, sizeof(word)) ||
		!copy(&node, job.node, sizeof(job.node)) || !copy(&line, job.name, sizeof(job.name)))
		return -EBADMSG;
	job.restarts = (uint32_t)n;
	job.state = listed_state_parse(word);
	if (reason.size != 4 || memcmp(reason.data, "None", 4) != 0)
		copy_words(reason, job.reason, sizeof(job.reason));
	if (array_reserve(b->jobs, &b->jobs_room, b->num_jobs + 1) < 0)
		return -ENOMEM;
	b->jobs[b->num_jobs++] = job;
	return 0;
}

/* A line without its newline was cut off. */
static int each_line(struct listing_builder *b, const char *text, size_t size, const char *prefix,
	int (*take)(struct listing_builder *, struct slice, const char *))
{
	struct slice rest = {text, size}, line;
	int r = 0;
	while (r == 0 && take_until(&rest, '\n', &line))
		r = take(b, line, prefix);
	return r < 0 ? r : rest.size ? -EBADMSG : 0;
}

int listing_add_jobs(struct listing_builder *b, const char *text, size_t size, const char *prefix)
{
	b->name_is_open = false;
	return each_line(b, text, size, prefix, take_job);
}

/* ---- Nodes ------------------------------------------------------------------------ */

/* The value after the first " KEY="; free text (Reason, Comment) comes after all keys that are looked up. */
static bool find_value(const struct slice *line, const char *key, struct slice *ret)
{
	const char *at = memmem(line->data, line->size, key, strlen(key));
	if (!at)
		return false;
	const char *begin = at + strlen(key), *end = line->data + line->size;
	const char *space = begin < end ? memchr(begin, ' ', (size_t)(end - begin)) : NULL;
	*ret = (struct slice){begin, (size_t)((space ? space : end) - begin)};
	return true;
}

static bool has_word(const struct slice *s, const char *word)
{
	return memmem(s->data, s->size, word, strlen(word)) != NULL;
}

static bool is_responding(const struct slice *state)
{
	return !has_word(state, "*") && !has_word(state, "NOT_RESPONDING") && !has_word(state, "DOWN") &&
	       !has_word(state, "UNKNOWN") && !has_word(state, "POWER");
}

static int take_node(struct listing_builder *b, struct slice line, const char *prefix)
{
	static const char first[] = "NodeName=";
	struct slice name, state, value;
	struct listed_node node = {0};
	(void)prefix;
	if (line.size < sizeof(first) - 1 || memcmp(line.data, first, sizeof(first) - 1) != 0 ||
		!find_value(&line, first, &name) || !find_value(&line, " State=", &state) || name.size == 0 ||
		!copy(&name, node.name, sizeof(node.name)))
		return -EBADMSG;
	node.responding = is_responding(&state);
	if (find_value(&line, " BootTime=", &value) && !parse_time(&value, &node.boot_ms))
		return -EBADMSG;
	if (find_value(&line, " SlurmdStartTime=", &value) && !parse_time(&value, &node.slurmd_start_ms))
		return -EBADMSG;
	if (array_reserve(b->nodes, &b->nodes_room, b->num_nodes + 1) < 0)
		return -ENOMEM;
	b->nodes[b->num_nodes++] = node;
	return 0;
}

int listing_add_nodes(struct listing_builder *b, const char *text, size_t size)
{
	return each_line(b, text, size, "", take_node);
}

/* ---- The rest --------------------------------------------------------------------- */

/* "KEY     = value" at the beginning of a line. */
static bool find_setting(const char *text, size_t size, const char *key, struct slice *ret)
{
	struct slice rest = {text, size}, line;
	size_t n = strlen(key);
	while (take_until(&rest, '\n', &line)) {
		if (line.size <= n || memcmp(line.data, key, n) != 0)
			continue;
		while (n < line.size && line.data[n] == ' ')
			n++;
		if (line.size - n < 2 || line.data[n] != '=' || line.data[n + 1] != ' ')
			return false;
		*ret = (struct slice){line.data + n + 2, line.size - n - 2};
		return true;
	}
	return false;
}

int listing_set_config(struct listing_builder *b, const char *text, size_t size)
{
	struct slice boot, tracking;
	int64_t ms;
	if (!find_setting(text, size, "BOOT_TIME ", &boot) || !parse_time(&boot, &ms) || ms == 0)
		return -EBADMSG;
	b->boot_ms = ms;
	b->cgroup = find_setting(text, size, "ProctrackType ", &tracking) && tracking.size == 16 &&
		    memcmp(tracking.data, "proctrack/cgroup", 16) == 0;
	return 0;
}

int listing_parse_submitted(const char *text, size_t size, uint64_t *ret)
{
	struct slice rest = {text, size}, line, id;
	if (!take_until(&rest, '\n', &line) || rest.size)
		return -EBADMSG;
	if (!take_until(&line, ';', &id))
		id = line;
	return parse_number(&id, UINT64_MAX, ret) && *ret ? 0 : -EBADMSG;
}
