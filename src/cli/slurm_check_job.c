/* SPDX-License-Identifier: MIT */
/* gpuq slurm check: the job, until its report arrives. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/shell_words.h"
#include "cli/slurm_check.h"
#include "slurm/check_peers.h"
#include "slurm/listing_text.h"
#include "slurm/sbatch_refusal.h"
#include "slurm/slurm_ask.h"

#define LOOK_MS 250
/* How often to query Slurm. */
#define ASK_MS 1000
/* The output of a job may become visible only after its end. */
#define LATE_MS 5000
/* How long to wait until the job has seen that it may exit. */
#define LEAVE_MS   5000
#define MOST_WORDS 128

/* ---- Submitting ------------------------------------------------------------------------- */

static void put_word(struct text *t, const char *before, const char *word)
{
	text_append_string(t, before);
	text_append(t, word, strlen(word) + 1);
}

/* In a file, not in arguments of sbatch, which other users can see. */
static int write_script(const struct slurm_check *c, const char *name, const char *argument)
{
	cleanup_(text_finish) struct text t = {0};
	char program[PATH_MAX] = "";
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return -errno;
	text_appendf(&t, "#!/bin/sh\nexport " NODE_CHECK_TOKEN "=%s\nexec ", c->token);
	shell_quote(&t, program, strlen(program));
	text_append_string(&t, " node-check ");
	shell_quote(&t, c->dir, strlen(c->dir));
	text_appendf(&t, " %s %u%s%s\n", c->address.host, c->address.port, *argument ? " " : "", argument);
	if (text_error(&t))
		return text_error(&t);
	cleanup_(closep) int fd = node_check_create(c->dir_fd, name);
	return fd < 0 ? fd : file_write_all(fd, t.data, t.length);
}

static int write_words(const struct slurm_check *c, const char *option, const char *script, struct text *t)
{
	const char *options = c->doctor.queue.config.slurm;
	put_word(t, "", "sbatch");
	/* If there are several kinds, use the first. */
	cleanup_(freep) char *first = options ? strndup(options, strcspn(options, "\n")) : NULL;
	int n = first ? shell_split(first, t) : options ? -ENOMEM : 0;
	put_word(t, "", "--parsable");
	put_word(t, "", "--no-requeue");
	put_word(t, "", "--nodes=1");
	put_word(t, "", "--ntasks=1");
	put_word(t, "", "--job-name=gpuq-check");
	/* Not into our directory, which may not exist on the node. */
	put_word(t, "", "--output=/dev/null");
	if (option)
		put_word(t, "", option);
	text_appendf(t, "%s/%s", c->dir, script);
	text_append(t, "", 1);
	return n < 0 ? n : text_error(t);
}

int slurm_check_sbatch(const struct slurm_check *c, const char *option, const char *script, const char *argument,
	uint64_t *ret_job, char words[256])
{
	cleanup_(text_finish) struct text line = {0};
	const char *argv[MOST_WORDS + 1] = {NULL};
	struct slurm_answer a = {0};
	size_t n = 0;
	int r = write_script(c, script, argument);
	if (r == 0)
		r = write_words(c, option, script, &line);
	for (const char *p = text_string(&line); r == 0 && p < line.data + line.length && n < MOST_WORDS;
		p += strlen(p) + 1)
		argv[n++] = p;
	if (r == 0)
		r = slurm_ask(argv, &a);
	if (r == 0)
		r = listing_parse_submitted(text_string(&a.out), a.out.length, ret_job);
	if (r < 0)
		snprintf(words, 256, "%s", *a.words ? a.words : error_words(r));
	text_finish(&a.out);
	return r;
}

bool slurm_check_submit(struct slurm_check *c)
{
	char words[256];
	int r = slurm_check_sbatch(c, NULL, NODE_CHECK_SCRIPT, "", &c->job.id, words);
	if (r < 0)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "sbatch", sbatch_refusal_advice(words), "refused: %s", words);
	return r == 0;
}

/* ---- Waiting ---------------------------------------------------------------------------- */

/* The value of "Name=value" in the output of scontrol -o. */
static void find_value(const char *text, const char *name, char *ret, size_t size)
{
	size_t n = strlen(name);
	*ret = '\0';
	for (const char *p = text; (p = strstr(p, name)); p += n)
		if ((p == text || p[-1] == ' ') && p[n] == '=') {
			snprintf(ret, size, "%.*s", (int)strcspn(p + n + 1, " \n"), p + n + 1);
			return;
		}
}

void slurm_check_ask(struct check_job *job)
{
	char number[24], code[32];
	struct slurm_answer a = {0};
	snprintf(number, sizeof(number), "%" PRIu64, job->id);
	const char *const argv[] = {"scontrol", "-o", "show", "job", number, NULL};
	if (slurm_ask(argv, &a) == 0) {
		find_value(text_string(&a.out), "JobState", job->state, sizeof(job->state));
		find_value(text_string(&a.out), "Reason", job->reason, sizeof(job->reason));
		find_value(text_string(&a.out), "ExitCode", code, sizeof(code));
		job->exit_code = atoi(code);
	}
	text_finish(&a.out);
}

bool slurm_check_is_over(const struct check_job *job)
{
	return *job->state && strcmp(job->state, "PENDING") != 0 && strcmp(job->state, "CONFIGURING") != 0 &&
	       strcmp(job->state, "RUNNING") != 0 && strcmp(job->state, "COMPLETING") != 0;
}

/* A node that could connect has sent its report before it writes the file: that report may be on its way. */
static void read_file(struct slurm_check *c)
{
	char report[NODE_CHECK_ROOM];
	uint64_t now = clock_now_ns();
	if (*c->report || node_check_read(c->dir_fd, NODE_CHECK_ANSWER, report, sizeof(report)) <= 0 ||
		!node_check_is_ours(report, c->token))
		return;
	if (!c->file_ns) {
		c->file_ns = now;
		c->received_ms = date_now_ms();
	}
	if (!strstr(report, "\ntcp 0\n") || now >= c->file_ns + CHECK_PEERS_MS * NS_PER_MS)
		memcpy(c->report, report, sizeof(report));
}

static void take_report(struct slurm_check *c, const struct check_peer *peer)
{
	memcpy(c->report, peer->report, sizeof(peer->report));
	c->received_ms = peer->since_ms;
	c->by_tcp = true;
	c->peer_fd = peer->fd;
}

void slurm_check_wait(struct slurm_check *c)
{
	uint64_t begin = clock_now_ns(), deadline = begin + c->wait_ms * NS_PER_MS, next_ask = 0, over_ns = 0;
	struct check_peers peers;
	struct check_peer peer;
	check_peers_init(&peers, c->address.fd, c->token);
	while (!*c->report && clock_now_ns() < deadline && !slurm_check_is_interrupted()) {
		int n = check_peers_wait(&peers, LOOK_MS, &peer);
		if (n < 0)
			break;
		if (n > 0)
			take_report(c, &peer);
		read_file(c);
		uint64_t now = clock_now_ns();
		if (!*c->report && now >= next_ask) {
			slurm_check_ask(&c->job);
			next_ask = now + ASK_MS * NS_PER_MS;
		}
		if (slurm_check_is_over(&c->job) && !over_ns)
			over_ns = now;
		if (over_ns && now >= over_ns + LATE_MS * NS_PER_MS)
			break;
	}
	/* No time is left to wait for the report through the connection: use the file. */
	if (!*c->report && c->file_ns) {
		c->file_ns = 1;
		read_file(c);
	}
	check_peers_finish(&peers);
}

/* ---- The end ---------------------------------------------------------------------------- */

static void remove_directory(struct slurm_check *c)
{
	static const char *const names[] = {NODE_CHECK_GREETING, NODE_CHECK_LOGIN_LOCK, NODE_CHECK_NODE_LOCK,
		NODE_CHECK_ANSWER, NODE_CHECK_ANSWER ".new", NODE_CHECK_DONE, NODE_CHECK_SCRIPT, NODE_CHECK_SECOND_LOCK,
		NODE_CHECK_SECOND, NODE_CHECK_SECOND ".new", NODE_CHECK_SECOND_SCRIPT, NODE_CHECK_SEEN,
		NODE_CHECK_SEEN ".new"};
	for (size_t i = 0; c->dir_fd >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlinkat(c->dir_fd, names[i], 0);
	if (*c->dir)
		(void)unlinkat(c->parent_fd, strrchr(c->dir, '/') + 1, AT_REMOVEDIR);
}

/* may_leave: it has reported, and sees that it may exit. */
static void end_job(struct check_job *job, bool may_leave)
{
	char number[24];
	struct slurm_answer a = {0};
	uint64_t deadline = clock_now_ns() + LEAVE_MS * NS_PER_MS;
	for (slurm_check_ask(job); may_leave && !slurm_check_is_over(job) && clock_now_ns() < deadline;
		slurm_check_ask(job))
		poll(NULL, 0, LOOK_MS);
	if (slurm_check_is_over(job))
		return;
	snprintf(number, sizeof(number), "%" PRIu64, job->id);
	(void)slurm_ask((const char *const[]){"scancel", number, NULL}, &a);
	text_finish(&a.out);
}

void slurm_check_end(struct slurm_check *c)
{
	if (c->job.id) {
		closep(&c->peer_fd);
		int done_fd = node_check_create(c->dir_fd, NODE_CHECK_DONE);
		closep(&done_fd);
		end_job(&c->job, *c->report);
	}
	if (c->second.id)
		end_job(&c->second, strcmp(c->second.state, "RUNNING") == 0);
	remove_directory(c);
	closep(&c->lock_fd);
	closep(&c->dir_fd);
	closep(&c->parent_fd);
	closep(&c->address.fd);
}
