/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/job_log.h"
#include "cli/log_dir.h"
#include "cli/log_hole.h"
#include "cli/log_tail.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/job_selection.h"
#include "queue/journal/follow.h"

enum { OPTION_RAW = 0x200, OPTION_ATTEMPT };

#define ALL_LINES (-1)

/* With several jobs, a longer line is printed in pieces, each as a line: other users may have written the log. */
#define MAX_LINE_BYTES ((size_t)1 << 20)

struct log {
	uint64_t id;
	uint32_t attempt; /* attempt whose log is open */
	int fd;
	bool known;   /* the job exists or existed */
	bool waiting; /* the user was told that it has not started */
	bool over;
	struct text line; /* incomplete line, with several jobs */
	struct terminal_text filter;
};

struct logs {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids; /* ids of the selection */
	bool follow, raw;
	int64_t lines;   /* number of last lines, or ALL_LINES */
	int64_t attempt; /* 0: the last one */
	bool filters;    /* the output of jobs goes to a terminal */
	struct text out;
	struct log *logs;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"follow", 'f', 0, 0, "Follow the output until the jobs have ended", 1},
	{"lines", 'n', "N", 0, "Print only the last N lines; with -f, also all new ones", 1},
	{"attempt", OPTION_ATTEMPT, "N", 0, "Show the Nth attempt (default: the last one)", 1},
	{"raw", OPTION_RAW, 0, 0, "Print all bytes unchanged, even control sequences on a terminal", 1},
	{0},
};

static void set_number(struct argp_state *state, const char *option, const char *arg, int64_t least, int64_t *ret)
{
	struct gd_error why;
	if (units_parse_integer(arg, least, INT32_MAX, ret, &why) < 0)
		arguments_error(state, "%s: %s", option, why.message);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct logs *l = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &l->queue;
		return 0;
	case 'f':
		l->follow = true;
		return 0;
	case 'n':
		set_number(state, "-n", arg, 0, &l->lines);
		return 0;
	case OPTION_ATTEMPT:
		set_number(state, "--attempt", arg, 1, &l->attempt);
		return 0;
	case OPTION_RAW:
		l->raw = true;
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&l->selection, arg, &l->err) < 0)
			arguments_error(state, "%s", l->err.message);
		return 0;
	case ARGP_KEY_END:
		if (l->selection.count == 0)
			argp_error(state, "no job given; 'gpuq status' lists all jobs, @ is the last one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void flush_filtered(struct logs *l)
{
	fwrite(text_string(&l->out), 1, l->out.length, stdout);
	text_clear(&l->out);
}

/* The part of the line that a terminal shows: everything after its last carriage return. */
static void filter_line(struct logs *l, struct log *log)
{
	const char *s = log->line.data;
	size_t size = log->line.length;
	bool ended = size > 0 && s[size - 1] == '\n';
	size -= ended;
	while (size > 0 && s[size - 1] == '\r')
		size--;
	const char *back = memrchr(s, '\r', size);
	size -= back ? (size_t)(back + 1 - s) : 0;
	terminal_text_append(&log->filter, &l->out, back ? back + 1 : s, size);
	terminal_text_end(&log->filter, &l->out);
	if (ended)
		text_append_char(&l->out, '\n');
}

static void put_line(struct logs *l, struct log *log)
{
	printf("%" PRIu64 ": ", log->id);
	if (l->filters) {
		filter_line(l, log);
		flush_filtered(l);
	} else {
		fwrite(log->line.data, 1, log->line.length, stdout);
	}
	text_clear(&log->line);
}

/* With several jobs, prints only whole lines, each with its id. */
static void put_lines(struct logs *l, struct log *log, const char *data, size_t size)
{
	while (size > 0) {
		const char *newline = memchr(data, '\n', size);
		size_t n = newline ? (size_t)(newline - data) + 1 : size;
		text_append(&log->line, data, n);
		if (!newline && log->line.length >= MAX_LINE_BYTES)
			text_append_char(&log->line, '\n');
		if (newline || log->line.length >= MAX_LINE_BYTES)
			put_line(l, log);
		data += n;
		size -= n;
	}
}

static void put(struct logs *l, struct log *log, const char *data, size_t size)
{
	if (l->ids.count > 1) {
		put_lines(l, log, data, size);
	} else if (l->filters) {
		terminal_text_append(&log->filter, &l->out, data, size);
		flush_filtered(l);
	} else {
		fwrite(data, 1, size, stdout);
	}
}

/* Reports a hole instead of printing zeros. */
static void put_gap(struct logs *l, struct log *log, uint64_t bytes)
{
	char size[UNITS_ROOM], words[128];
	int n = snprintf(words, sizeof(words),
		"\n[gpuq: %s missing: removed by max_log_size, or never written by the job]\n",
		units_format_size(bytes, size));
	put(l, log, words, (size_t)n);
}

/* At the end of the log: writes the text that was held back. */
static void put_end(struct logs *l, struct log *log, bool over)
{
	if (over && log->line.length) {
		text_append_char(&log->line, '\n');
		put_line(l, log);
	}
	terminal_text_end(&log->filter, &l->out);
	flush_filtered(l);
}

static int copy(struct logs *l, struct log *log)
{
	char buf[65536];
	while (log->fd >= 0) {
		uint64_t skipped = log_hole_skip(log->fd);
		if (skipped)
			put_gap(l, log, skipped);
		ssize_t n = read(log->fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(&l->err, -errno, "cannot read the log of job %" PRIu64 ": %s", log->id,
				error_words(errno));
		if (n == 0)
			break;
		put(l, log, buf, (size_t)n);
	}
	if (text_error(&l->out) || text_error(&log->line))
		return error_set(&l->err, -ENOMEM, "cannot read the log of job %" PRIu64 ": out of memory", log->id);
	if (fflush(stdout) != 0)
		return error_set(&l->err, -errno, "cannot write the output: %s", error_words(errno));
	return 0;
}

/* The selected attempt; NULL: it has not started. */
static int find_attempt(struct logs *l, const struct job *job, const struct job_attempt **ret)
{
	const struct job_attempt *a = job->attempts;
	while (l->attempt && a && a->attempt != l->attempt)
		a = a->earlier;
	if (l->attempt && !a && (job_is_final(job) || !l->follow))
		return error_set(&l->err, -ENOENT, "job %" PRIu64 ": no attempt %" PRId64 "; the job has %u attempt%s",
			job->id, l->attempt, job->num_attempts, job->num_attempts == 1 ? "" : "s");
	*ret = a;
	return 0;
}

static void say_of_lease(struct log *log, const struct job *job)
{
	if (job->lease && !log->attempt)
		say("job %" PRIu64 " has no log: its output goes to the terminal of 'gpuq exec'", log->id);
	if (job->lease)
		log->attempt = 1;
}

/*
 * Another user who can write the log folder could put a link to a private file of this user there, and the output may
 * be shown to others.
 */
static int open_no_foreign_link(const char *path)
{
	cleanup_(closep) int found = -1;
	cleanup_(closep) int fd = -1;
	struct stat seen, st;
	struct trust_way way = TRUST_WAY_INIT;
	int r = trust_open_any(AT_FDCWD, path, &found, &way);
	if (r < 0)
		return r;
	if (fstat(found, &seen) < 0)
		return -errno;
	if (way.chooser && way.chooser != seen.st_uid && !trust_is_off())
		return -EPERM;
	fd = file_open_regular(AT_FDCWD, path, 0);
	if (fd < 0)
		return fd;
	/* The file may have been replaced since. */
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == seen.st_dev && st.st_ino == seen.st_ino ? take_fd(&fd) : -EPERM;
}

/* Others may have written the journal: it must not choose which file of this account is printed. */
static int open_foreign_log(struct logs *l, struct log *log, const char *path, const struct follow *f)
{
	cleanup_(freep) char *log_dir = log_dir_find(&l->queue.config, f->path);
	int fd = -1;
	if (!log_dir)
		return error_set(&l->err, -ENOMEM, "cannot open log '%s': out of memory", path);
	const struct job_log_source source = {.log_dir = log_dir,
		.is_named = config_has(&l->queue.config, CONFIG_LOG_DIR),
		.journal_fd = f->reader.fd};
	int r = job_log_open(path, log->id, &source, &fd, &l->err);
	if (r == -EPERM)
		return error_set(&l->err, r,
			"cannot open log '%s': other users can write to the journal, and this file is not in the log folder of the journal's owner; use --trust to print it",
			path);
	return r < 0 ? r : fd;
}

/* The directory of the queue may have been renamed. */
static int open_moved_log(const struct logs *l, const struct log *log, const char *path, const struct follow *f)
{
	cleanup_(freep) char *log_dir = log_dir_find(&l->queue.config, f->path);
	cleanup_(freep) char *moved = log_dir ? job_log_moved_path(path, log->id, log_dir) : NULL;
	return moved ? open_no_foreign_link(moved) : -ENOENT;
}

static bool is_foreign(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_uid != 0 && !trust_is_user(st.st_uid);
}

static int open_file(struct logs *l, struct log *log, const char *path, const struct follow *f)
{
	if (!l->queue.trust && f->reader.fd >= 0 && trust_objection(f->reader.fd))
		return open_foreign_log(l, log, path, f);
	int fd = open_no_foreign_link(path);
	/* Another user may have taken the old path. */
	int moved_fd = fd < 0 || (!l->queue.trust && is_foreign(fd)) ? open_moved_log(l, log, path, f) : -ENOENT;
	if (moved_fd >= 0) {
		if (fd >= 0)
			close(fd);
		fd = moved_fd;
	}
	if (fd >= 0 && !l->queue.trust && is_foreign(fd)) {
		close(fd);
		return error_set(&l->err, -EPERM,
			"cannot open log '%s': it belongs to another user, who may have replaced the log; use --trust to print it",
			path);
	}
	if (fd == -EPERM)
		return error_set(
			&l->err, fd, "cannot open log '%s': its path contains a symbolic link of another user", path);
	if (fd == -EINVAL)
		return error_set(&l->err, fd, "cannot open log '%s': it is not a regular file", path);
	return fd < 0 ? error_set(&l->err, fd, "cannot open log '%s': %s", path, error_words(fd)) : fd;
}

static int open_log(struct logs *l, struct log *log, const struct job_attempt *a, const struct follow *f)
{
	if (!a || a->attempt == log->attempt || !a->log)
		return 0;
	close_fd(&log->fd);
	int fd = open_file(l, log, a->log, f);
	/* On a cluster, the start is recorded before the node creates the log. The next step tries again. */
	if (fd == -ENOENT && a->state == JOB_RUNNING && a->pid <= 0) {
		l->err = (struct gd_error){0};
		return 0;
	}
	if (fd < 0)
		return fd;
	log->fd = fd;
	/* When following, all lines of a later attempt are new. */
	int r = l->lines == ALL_LINES || log->attempt ? 0 : log_tail_seek(fd, (uint64_t)l->lines);
	if (r < 0)
		return error_set(&l->err, r, "cannot read log '%s': %s", a->log, error_words(r));
	log->attempt = a->attempt;
	if (f->watch_fd >= 0)
		inotify_add_watch(f->watch_fd, a->log, IN_MODIFY);
	return 0;
}

/* Says why there is no output yet: otherwise a job that has not started would look like one that prints nothing. */
static void say_if_waiting(const struct logs *l, struct log *log, const struct job *job, const struct job_attempt *a)
{
	if (log->waiting || !job || job_is_final(job) || job->state == JOB_RUNNING || (a && l->attempt))
		return;
	/* Without --follow, the log of an earlier attempt was printed. */
	if (!l->follow && (job->num_attempts || job->lease))
		return;
	log->waiting = true;
	if (!l->follow)
		say("job %" PRIu64 " %s; 'gpuq logs -f %" PRIu64 "' waits for its output", job->id,
			job->state == JOB_HELD ? "is held and has not started" : "has not started", job->id);
	else if (job->state == JOB_HELD)
		say("job %" PRIu64 " is held; waiting for 'gpuq release %" PRIu64 "'", job->id, job->id);
	else
		say("job %" PRIu64 " %s; waiting ('gpuq why %" PRIu64 "' explains why)", job->id,
			job->num_attempts ? "will be retried" : "has not started", job->id);
}

/* Checks the state first, then reads the file: so nothing that was written before the end is missed. */
static int step(struct logs *l, struct follow *f, bool *ret_all_over)
{
	*ret_all_over = true;
	for (size_t i = 0; i < l->ids.count; i++) {
		struct log *log = &l->logs[i];
		bool lost = follow_is_lost(f, log->id);
		const struct job *job = jobs_find(&f->jobs, log->id);
		/* A known job that is missing was pruned: it has ended. */
		if (!job && !log->known)
			return error_set(
				&l->err, -ENOENT, "job %" PRIu64 ": %s", log->id, jobs_absence(&f->jobs, log->id));
		log->known = true;
		if (job)
			say_of_lease(log, job);
		const struct job_attempt *a = NULL;
		int r = copy(l, log);
		if (r == 0 && job)
			r = find_attempt(l, job, &a);
		if (r == 0 && job)
			r = open_log(l, log, a, f);
		if (r == 0)
			r = copy(l, log);
		bool over = !job || job_is_final(job) || lost || (l->attempt && a && a->state != JOB_RUNNING);
		say_if_waiting(l, log, job, a);
		if (r < 0)
			return r;
		if (over || !l->follow)
			put_end(l, log, over);
		log->over = over;
		/* Close the log when it is finished: there may be more logs than a process may hold open. */
		if (over || !l->follow)
			close_fd(&log->fd);
		*ret_all_over = *ret_all_over && over;
	}
	return fflush(stdout) != 0 ? error_set(&l->err, -errno, "cannot write the output: %s", error_words(errno)) : 0;
}

static int print_logs(struct logs *l)
{
	struct follow f;
	bool over = false;
	l->queue.shows = true;
	int r = queue_choice_resolve(&l->queue, &l->err);
	if (r == 0)
		r = queue_choice_follow(&l->queue, l->follow, &f, &l->err);
	if (r < 0)
		return r;
	r = job_selection_resolve(&l->selection, &f.jobs, &l->ids, NULL, &l->err);
	l->logs = calloc(l->ids.count + 1, sizeof(*l->logs));
	if (r == 0 && !l->logs)
		r = error_set(&l->err, -ENOMEM, "cannot read the logs: out of memory");
	for (size_t i = 0; r == 0 && i < l->ids.count; i++)
		l->logs[i] = (struct log){.id = l->ids.ids[i], .fd = -1, .filter = {.one_line = l->ids.count > 1}};
	l->filters = !l->raw && isatty(STDOUT_FILENO);
	if (r == 0)
		r = step(l, &f, &over);
	while (r == 0 && l->follow && !over) {
		follow_wait(&f);
		r = follow_update(&f, &l->err);
		if (r == 0)
			r = step(l, &f, &over);
	}
	follow_close(&f);
	return r;
}

static int main_logs(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "ID…",
		"Print the output of jobs, standard output and standard error together; with several jobs, each line begins with the job's id.",
		children, NULL, NULL};
	struct logs l = {.lines = ALL_LINES};
	command_parse(&argp, argc, argv, &l);
	int r = print_logs(&l);
	int code = r < 0 ? command_fail(&l.err, r) : EXIT_DONE;
	for (size_t i = 0; l.logs && i < l.ids.count; i++) {
		closep(&l.logs[i].fd);
		text_finish(&l.logs[i].line);
	}
	free(l.logs);
	text_finish(&l.out);
	job_selection_finish(&l.selection);
	id_list_finish(&l.ids);
	queue_choice_finish(&l.queue);
	return code;
}

const struct command cmd_logs = {"logs", "Show the output of a job", main_logs};
