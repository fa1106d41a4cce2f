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
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/shell_words.h"
#include "cli/slurm_check.h"
#include "slurm/listing_text.h"
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

static int write_script(const struct slurm_check *c, struct text *t)
{
	char program[PATH_MAX] = "";
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return -errno;
	text_append_string(t, "exec ");
	shell_quote(t, program, strlen(program));
	text_append_string(t, " node-check ");
	shell_quote(t, c->dir, strlen(c->dir));
	text_appendf(t, " %s %u %s", c->address.host, c->address.port, c->token);
	return text_error(t);
}

static int write_words(const struct slurm_check *c, struct text *t)
{
	const char *options = c->doctor.queue.config.slurm;
	cleanup_(text_finish) struct text script = {0};
	put_word(t, "", "sbatch");
	/* If there are several kinds, use the first. */
	cleanup_(freep) char *first = options ? strndup(options, strcspn(options, "\n")) : NULL;
	int n = first ? shell_split(first, t) : options ? -ENOMEM : 0;
	int r = n < 0 ? n : write_script(c, &script);
	put_word(t, "", "--parsable");
	put_word(t, "", "--no-requeue");
	put_word(t, "", "--nodes=1");
	put_word(t, "", "--ntasks=1");
	put_word(t, "", "--job-name=gpuq-check");
	/* Not into our directory, which may not exist on the node. */
	put_word(t, "", "--output=/dev/null");
	put_word(t, "--wrap=", text_string(&script));
	return r < 0 ? r : text_error(t);
}

static const char *advice_for_refusal(const char *words)
{
	if (strstr(words, "QOS") || strstr(words, "Limit") || strstr(words, "limit"))
		return "ask for less (--gres, --time, --mem), or ask the administrator for a higher limit of your account or QOS";
	if (strstr(words, "ccount"))
		return "name an account that you may use: --account in --slurm; 'sacctmgr show assoc user=$USER' lists them";
	if (strstr(words, "artition"))
		return "name a partition that 'sinfo' lists: --partition in --slurm";
	return "change the options in --slurm; 'sbatch --help' explains them";
}

bool slurm_check_submit(struct slurm_check *c)
{
	cleanup_(text_finish) struct text words = {0};
	const char *argv[MOST_WORDS + 1] = {NULL};
	struct slurm_answer a = {0};
	size_t n = 0;
	int r = write_words(c, &words);
	for (const char *p = text_string(&words); r == 0 && p < words.data + words.length && n < MOST_WORDS;
		p += strlen(p) + 1)
		argv[n++] = p;
	if (r == 0)
		r = slurm_ask(argv, &a);
	if (r == 0)
		r = listing_parse_submitted(text_string(&a.out), a.out.length, &c->job);
	if (r < 0)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "sbatch", advice_for_refusal(a.words), "refused: %s",
			*a.words ? a.words : error_words(r));
	text_finish(&a.out);
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

static void ask_state(struct slurm_check *c)
{
	char number[24], code[32];
	struct slurm_answer a = {0};
	snprintf(number, sizeof(number), "%" PRIu64, c->job);
	const char *const argv[] = {"scontrol", "-o", "show", "job", number, NULL};
	if (slurm_ask(argv, &a) == 0) {
		find_value(text_string(&a.out), "JobState", c->state, sizeof(c->state));
		find_value(text_string(&a.out), "Reason", c->reason, sizeof(c->reason));
		find_value(text_string(&a.out), "ExitCode", code, sizeof(code));
		c->exit_code = atoi(code);
	}
	text_finish(&a.out);
}

static bool is_over(const struct slurm_check *c)
{
	return *c->state && strcmp(c->state, "PENDING") != 0 && strcmp(c->state, "CONFIGURING") != 0 &&
	       strcmp(c->state, "RUNNING") != 0 && strcmp(c->state, "COMPLETING") != 0;
}

static bool is_ours(const struct slurm_check *c, const char *report)
{
	size_t n = strlen(c->token);
	return strncmp(report, "token ", 6) == 0 && strncmp(report + 6, c->token, n) == 0 && report[6 + n] == '\n';
}

static void read_file(struct slurm_check *c)
{
	char report[NODE_CHECK_ROOM];
	if (!*c->report && file_read_small(c->dir_fd, NODE_CHECK_ANSWER, report, sizeof(report)) > 0 &&
		is_ours(c, report)) {
		memcpy(c->report, report, sizeof(report));
		c->received_ms = date_now_ms();
	}
}

/* Others may also connect: only a report with the token counts. */
static void read_peer(struct slurm_check *c)
{
	char report[NODE_CHECK_ROOM] = "";
	size_t have = 0;
	ssize_t n;
	cleanup_(closep) int fd = accept4(c->address.fd, NULL, NULL, SOCK_CLOEXEC);
	struct timeval patience = {.tv_sec = 2};
	if (fd < 0)
		return;
	int64_t received = date_now_ms();
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (have < sizeof(report) - 1 && (n = read(fd, report + have, sizeof(report) - 1 - have)) > 0)
		have += (size_t)n;
	if (!is_ours(c, report))
		return;
	memcpy(c->report, report, sizeof(report));
	c->received_ms = received;
	c->by_tcp = true;
	c->peer_fd = take_fd(&fd);
}

void slurm_check_wait(struct slurm_check *c)
{
	uint64_t begin = clock_now_ns(), deadline = begin + c->wait_ms * NS_PER_MS, next_ask = 0, over_ns = 0;
	while (!*c->report && clock_now_ns() < deadline) {
		struct pollfd p = {c->address.fd, POLLIN, 0};
		int n = poll(&p, 1, LOOK_MS);
		if (n < 0)
			break; /* Ctrl-C */
		if (n > 0)
			read_peer(c);
		read_file(c);
		uint64_t now = clock_now_ns();
		if (!*c->report && now >= next_ask) {
			ask_state(c);
			next_ask = now + ASK_MS * NS_PER_MS;
		}
		if (is_over(c) && !over_ns)
			over_ns = now;
		if (over_ns && now >= over_ns + LATE_MS * NS_PER_MS)
			break;
	}
}

/* ---- The end ---------------------------------------------------------------------------- */

static void remove_directory(struct slurm_check *c)
{
	static const char *const names[] = {NODE_CHECK_GREETING, NODE_CHECK_LOGIN_LOCK, NODE_CHECK_NODE_LOCK,
		NODE_CHECK_ANSWER, NODE_CHECK_ANSWER ".new", NODE_CHECK_DONE};
	for (size_t i = 0; c->dir_fd >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlinkat(c->dir_fd, names[i], 0);
	if (*c->dir)
		(void)rmdir(c->dir);
}

static void end_job(struct slurm_check *c)
{
	char number[24];
	struct slurm_answer a = {0};
	uint64_t deadline = clock_now_ns() + LEAVE_MS * NS_PER_MS;
	closep(&c->peer_fd);
	close(openat(c->dir_fd, NODE_CHECK_DONE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	for (ask_state(c); *c->report && !is_over(c) && clock_now_ns() < deadline; ask_state(c))
		poll(NULL, 0, LOOK_MS);
	if (is_over(c))
		return;
	snprintf(number, sizeof(number), "%" PRIu64, c->job);
	(void)slurm_ask((const char *const[]){"scancel", number, NULL}, &a);
	text_finish(&a.out);
}

void slurm_check_end(struct slurm_check *c)
{
	if (c->job)
		end_job(c);
	remove_directory(c);
	closep(&c->lock_fd);
	closep(&c->dir_fd);
	closep(&c->address.fd);
}
