/* SPDX-License-Identifier: MIT */
#include "queue/input/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/trust.h"

#define LARGEST_SCRIPT ((size_t)10 << 20)
#define MAX_WORDS      64

void script_finish(struct script *s)
{
	text_finish(&s->content);
	job_options_finish(&s->options);
	free(s->interpreter);
	free(s->argument);
	free(s->log_dir);
	free(s->on_finish);
	free(s->on_idle);
	free(s->array);
	*s = (struct script){0};
}

static void note(struct script *s, size_t line, const char *format, ...) GD_PRINTF(3, 4);

static void note(struct script *s, size_t line, const char *format, ...)
{
	cleanup_(text_finish) struct text t = {0};
	va_list args;
	text_appendf(&t, "%s:%zu: ", s->path, line);
	va_start(args, format);
	text_vappendf(&t, format, args);
	va_end(args);
	if (s->note && !text_error(&t))
		s->note(s->context, text_string(&t));
}

/* ---- Words ---------------------------------------------------------------------------- */

/*
 * Splits a line in place as a shell does, without expansions; a word that begins with # ends it. Returns the number of
 * words, or -EINVAL for an open quotation mark or too many words.
 */
static int split(char *line, char *words[MAX_WORDS])
{
	char *p = line;
	int n = 0;
	for (;;) {
		p += strspn(p, " \t\r");
		if (!*p || *p == '#')
			return n;
		if (n == MAX_WORDS)
			return -EINVAL;
		char *out = p, mark = 0;
		words[n++] = out;
		for (; *p && (mark || !strchr(" \t\r", *p)); p++) {
			if (mark ? *p == mark : *p == '\'' || *p == '"')
				mark = mark ? 0 : *p;
			else if (*p == '\\' && mark != '\'' && p[1])
				*out++ = *++p;
			else
				*out++ = *p;
		}
		if (mark)
			return -EINVAL;
		p += *p != '\0';
		*out = '\0';
	}
}

/* ---- #GPUQ ---------------------------------------------------------------------------- */

int script_set(struct script *s, enum job_option option, const char *value, struct gd_error *err)
{
	return job_options_set(&s->options, option, value, err);
}

static int set_string(char **place, const char *value, struct gd_error *err)
{
	char *copy = strdup(value);
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	free(*place);
	*place = copy;
	return 0;
}

/* Option names have '_' instead of '-'. */
static enum job_option find_option(const char *name)
{
	for (enum job_option o = 0; o < JOB_OPTIONS; o++) {
		const char *known = job_option_name(o);
		size_t i = 0;
		while (name[i] && (known[i] == name[i] || (known[i] == '_' && name[i] == '-')))
			i++;
		if (!name[i] && !known[i])
			return o;
	}
	return JOB_OPTIONS;
}

static bool takes_value(const char *name)
{
	return strcmp(name, "exclusive") != 0 && strcmp(name, "hold") != 0;
}

static int set_gpuq(struct script *s, const char *name, const char *value, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	enum job_option option = find_option(name);
	if (takes_value(name) && !value)
		return error_set(err, -EINVAL, "a value is missing");
	if (option < JOB_OPTIONS)
		return script_set(s, option, value ? value : "yes", err);
	if (strcmp(name, "hold") == 0) {
		s->hold = true;
		return 0;
	}
	if (strcmp(name, "array") == 0)
		return set_string(&s->array, value, err);
	if (strcmp(name, "log-dir") == 0)
		return set_string(&s->log_dir, value, err);
	if (strcmp(name, "on-finish") == 0)
		return set_string(&s->on_finish, value, err);
	if (strcmp(name, "on-idle") == 0)
		return set_string(&s->on_idle, value, err);
	return error_set(err, -EINVAL, "unknown option '%s'; options of jobs are those of 'gpuq add'",
		display_quote(name, quote));
}

/* ---- Lines ---------------------------------------------------------------------------- */

/* "--name=value", "--name value", "-J value", "-Jvalue" */
static int read_directive(struct script *s, size_t line, const char *mark, char *text, struct gd_error *err)
{
	char *words[MAX_WORDS];
	bool sbatch = strcmp(mark, "#SBATCH") == 0;
	int n = split(text, words);
	if (n < 0)
		return error_set(err, -EINVAL, "%s:%zu: %s: a quotation mark is not closed", s->path, line, mark);
	for (int i = 0; i < n; i++) {
		char *name = words[i] + strspn(words[i], "-"), *value = NULL, letter[2] = {*name};
		const char *dashes = name - words[i] == 1 ? "-" : "--";
		struct gd_error why = {0};
		if (name == words[i])
			return error_set(
				err, -EINVAL, "%s:%zu: %s: expected options, not '%s'", s->path, line, mark, words[i]);
		if (name - words[i] == 1 && name[0] && name[1]) {
			value = name + 1;
			name = letter;
		} else if ((value = strchr(name, '='))) {
			*value++ = '\0';
		}
		bool wants = sbatch ? script_sbatch_takes_value(name) : takes_value(name);
		if (!value && wants && i + 1 < n)
			value = words[++i];
		int r = sbatch ? script_set_sbatch(s, name, value, &why) : set_gpuq(s, name, value, &why);
		if (r == 2)
			note(s, line, "%s %s%s: %s", mark, dashes, name, why.message);
		else if (r > 0)
			note(s, line, "%s %s%s is ignored%s%s", mark, dashes, name, why.message[0] ? ": " : "",
				why.message);
		if (r < 0)
			return error_set(err, r, "%s:%zu: %s %s%s: %s", s->path, line, mark, dashes, name, why.message);
	}
	return 0;
}

static int read_line(struct script *s, size_t line, char *text, bool *in_head, struct gd_error *err)
{
	static const char *const marks[] = {"#GPUQ", "#SBATCH"};
	size_t blank = strspn(text, " \t\r");
	if (text[blank] && text[blank] != '#') {
		*in_head = false;
		if (strstr(text, "SLURM_"))
			note(s, line,
				"variables that begin with SLURM_ are not set; use GPUQ_JOB_ID and GPUQ_ARRAY_INDEX");
	}
	for (size_t i = 0; i < 2; i++) {
		size_t size = strlen(marks[i]);
		if (strncmp(text, marks[i], size) != 0 || !strchr(" \t", text[size]) || !text[size])
			continue;
		s->has_options = s->has_options || *in_head;
		if (*in_head)
			return read_directive(s, line, marks[i], text + size, err);
		note(s, line, "ignoring %s: it comes after the first command", marks[i]);
	}
	return 0;
}

static int read_lines(struct script *s, struct gd_error *err)
{
	cleanup_(freep) char *copy = strdup(text_string(&s->content));
	bool in_head = true;
	size_t number = 0;
	if (!copy)
		return error_set(err, -ENOMEM, "cannot read '%s': out of memory", s->path);
	for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
		int r = read_line(s, ++number, line, &in_head, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* "#!/usr/bin/env -S python -u": everything after the interpreter is one argument, as in the kernel. */
static int read_interpreter(struct script *s, struct gd_error *err)
{
	const char *p = text_string(&s->content) + 2;
	size_t end = strcspn(p, "\r\n");
	while (end > 0 && strchr(" \t", p[end - 1]))
		end--;
	size_t blank = strspn(p, " \t");
	if (blank >= end)
		return error_set(err, -ENOEXEC, "%s:1: no interpreter after #!", s->path);
	p += blank;
	end -= blank;
	size_t size = strcspn(p, " \t\r\n"), next = size + strspn(p + size, " \t");
	s->interpreter = strndup(p, size);
	if (next < end)
		s->argument = strndup(p + next, end - next);
	if (!s->interpreter || (next < end && !s->argument))
		return error_set(err, -ENOMEM, "cannot read '%s': out of memory", s->path);
	return 0;
}

/* A bare name may mean a command in $PATH: another user could change its meaning with a file or a link of this name. */
static int open_content(struct script *s)
{
	struct gd_error why = {0};
	int fd = -1;
	if (strchr(s->path, '/'))
		return file_open_regular(AT_FDCWD, s->path, 0);
	int r = trust_open(s->path, trust_is_off() ? TRUST_ACCEPTED : TRUST_FOUND, "", &fd, &why);
	s->refused = r == -EPERM && why.message[0];
	return r < 0 ? r : fd;
}

/* 1; 0: not a script. */
static int read_content(struct script *s, struct gd_error *err)
{
	char chunk[16384];
	cleanup_(closep) int fd = open_content(s);
	if (fd < 0)
		return 0;
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, -errno, "cannot read '%s': %s", s->path, error_words(errno));
		if (n == 0)
			break;
		text_append(&s->content, chunk, (size_t)n);
		if (s->content.length >= 2 && memcmp(s->content.data, "#!", 2) != 0)
			return 0;
		if (s->content.length > LARGEST_SCRIPT)
			return error_set(err, -EFBIG, "%s: the script is larger than 10 MiB", s->path);
	}
	if (text_error(&s->content))
		return error_set(err, -ENOMEM, "cannot read '%s': out of memory", s->path);
	return s->content.length >= 2;
}

int script_read(struct script *s, const char *path, script_note_fn *fn, void *context, struct gd_error *err)
{
	*s = (struct script){.path = path, .note = fn, .context = context};
	int r = read_content(s, err);
	if (r <= 0)
		return r;
	r = read_interpreter(s, err);
	if (r == 0)
		r = read_lines(s, err);
	return r < 0 ? r : 1;
}
