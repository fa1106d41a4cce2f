/* SPDX-License-Identifier: MIT */
/* gpuq slurm check: a second job on another node, while the first one holds its lock. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/slurm_check.h"

/* The first job waits for NODE_CHECK_HOLD_MS; the second one must have reported before. */
#define SECOND_MS (NODE_CHECK_HOLD_MS / 2)
#define SEEN_MS   5000
#define LOOK_MS   250
#define ASK_MS    1000

static void not_tested(struct slurm_check *c, const char *format, ...) GD_PRINTF(2, 3);
static void not_tested(struct slurm_check *c, const char *format, ...)
{
	char words[400];
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	doctor_add(&c->doctor, DOCTOR_NOTE, "node to node",
		"locks between two nodes were not tested: run the check again when two nodes are free", "%s", words);
}

/* A second --exclude would replace the user's own. */
static bool options_name_nodes(const struct slurm_check *c)
{
	static const char *const names[] = {"--exclude", "-x", "--nodelist", "-w", "--nodefile", "-F"};
	const char *options = c->doctor.queue.config.slurm;
	cleanup_(freep) char *first = options ? strndup(options, strcspn(options, "\n")) : NULL;
	cleanup_(text_finish) struct text words = {0};
	if (!first || shell_split(first, &words) <= 0)
		return false;
	for (const char *p = words.data; p < words.data + words.length; p += strlen(p) + 1)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strncmp(p, names[i], strlen(names[i])) == 0)
				return true;
	return false;
}

/* Waits for a file in the directory of the check; false: it did not appear. */
static bool await(struct slurm_check *c, const char *name, uint64_t ms, char *ret, size_t size)
{
	uint64_t deadline = clock_now_ns() + ms * NS_PER_MS, next_ask = 0;
	while (node_check_read(c->dir_fd, name, ret, size) <= 0) {
		uint64_t now = clock_now_ns();
		if (now >= deadline || slurm_check_is_interrupted() || slurm_check_is_over(&c->second))
			return false;
		if (now >= next_ask) {
			slurm_check_ask(&c->second);
			next_ask = now + ASK_MS * NS_PER_MS;
		}
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

static bool is_yes(const char *report, const char *key, const char *value)
{
	char text[32];
	return slurm_check_find(report, key, text, sizeof(text)) && strcmp(text, value) == 0;
}

static void judge(struct slurm_check *c, const char *report)
{
	char first[80], second[80], host[80], other[80], seen[16] = "";
	(void)slurm_check_find(c->report, "node", first, sizeof(first));
	(void)slurm_check_find(c->report, "host", host, sizeof(host));
	(void)slurm_check_find(report, "node", second, sizeof(second));
	(void)slurm_check_find(report, "host", other, sizeof(other));
	bool held = is_yes(report, "own_lock", "0"), sees = is_yes(report, "lock", "1");
	bool seen_by_first = await(c, NODE_CHECK_SEEN, SEEN_MS, seen, sizeof(seen)) && *seen == '1';
	if (!is_yes(report, "folder", "0") || !held)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "node to node", slurm_check_lock_advice(),
			"node %s cannot create locks where node %s can", second, first);
	else if (!sees || !seen_by_first)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "node to node", slurm_check_lock_advice(),
			"node %s does not see a lock of node %s", sees ? first : second, sees ? second : first);
	else if (strcmp(host, other) == 0)
		not_tested(c, "locks work, but both nodes are the host %s", host);
	else
		doctor_add(
			&c->doctor, DOCTOR_OK, "node to node", NULL, "locks are seen between %s and %s", first, second);
}

void slurm_check_second(struct slurm_check *c)
{
	char node[80], option[96], words[256], report[NODE_CHECK_ROOM];
	(void)slurm_check_find(c->report, "node", node, sizeof(node));
	/* In --exclude, other characters would make the name a list of nodes. */
	if (!*node || strspn(node, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(node))
		return;
	if (options_name_nodes(c)) {
		not_tested(c, "%s", "the options of --slurm name nodes");
		return;
	}
	snprintf(option, sizeof(option), "--exclude=%s", node);
	int r = slurm_check_sbatch(c, option, NODE_CHECK_SECOND_SCRIPT, NODE_CHECK_SECOND, &c->second.id, words);
	if (r < 0) {
		not_tested(c, "only one node was available: %s", words);
		return;
	}
	uint64_t wait = c->wait_ms < SECOND_MS ? c->wait_ms : SECOND_MS;
	if (await(c, NODE_CHECK_SECOND, wait, report, sizeof(report)) && node_check_is_ours(report, c->token))
		judge(c, report);
	else if (strcmp(c->second.state, "PENDING") == 0)
		not_tested(c, "only one node was available: a second job is pending (%s)", c->second.reason);
	else
		not_tested(c, "the second job has not reported: %s", c->second.state);
}
