/* SPDX-License-Identifier: MIT */
#include "queue/input/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

#define CHUNK          (256 * 1024)
#define MAX_LINE_BYTES ((size_t)64 << 20)
/* A limit, because the copy of the file is in memory. */
#define MAX_FILE_BYTES ((off_t)1 << 30)

/*
 * The unread bytes of the buffer are [begin, end). A command is used in place; its continuation lines are joined there.
 */
struct commands {
	char *name;
	int fd;
	bool close_fd;
	bool is_file;
	char *buf;
	size_t capacity, begin, end;
	bool at_end;
	int failed; /* error of a failed read, after which nothing more is read */
	uint64_t line;
	struct job_options pending; /* options from the comments since the last command */
	uint64_t pending_line;
	struct job_options current;
};

static int commands_new(const char *name, struct commands **ret)
{
	struct commands *c = calloc(1, sizeof(*c));
	char *copy = strdup(name);
	if (!c || !copy) {
		free(c);
		free(copy);
		return -ENOMEM;
	}
	c->name = copy;
	c->fd = -1;
	*ret = c;
	return 0;
}

static int open_file(const char *path, enum trust_choice choice, int *ret_fd, struct gd_error *err)
{
	int r = trust_open(path, choice, "name it with --commands-file", ret_fd, err);
	if (r == -EPERM)
		return r;
	if (r == -EINVAL && !(choice & TRUST_NAMED))
		return error_set(err, r,
			"cannot read commands file '%s': not a regular file; name it with --commands-file to use it anyway",
			path);
	if (r < 0)
		return error_set(err, r, "cannot read commands file '%s': %s%s", path, error_words(r),
			r == -ENOENT ? "; expected one shell command per line" : "");
	return 0;
}

int commands_open(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err)
{
	bool is_stdin = !strcmp(path, "-");
	cleanup_(closep) int fd = -1;
	struct commands *c;
	int r = is_stdin ? 0 : open_file(path, choice, &fd, err);
	if (r < 0)
		return r;
	r = commands_new(is_stdin ? "standard input" : path, &c);
	if (r < 0)
		return error_set(err, r, "cannot read commands file '%s': out of memory", path);
	c->close_fd = !is_stdin;
	c->fd = is_stdin ? STDIN_FILENO : take_fd(&fd);
	*ret = c;
	return 0;
}

void commands_close(struct commands *c)
{
	if (!c)
		return;
	if (c->close_fd)
		close(c->fd);
	job_options_finish(&c->pending);
	job_options_finish(&c->current);
	free(c->buf);
	free(c->name);
	free(c);
}

static int spool(int from, int to)
{
	char chunk[64 * 1024];
	for (off_t copied = 0; copied <= MAX_FILE_BYTES;) {
		ssize_t n = read(from, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		int r = file_write_all(to, chunk, (size_t)n);
		if (r < 0)
			return r;
		copied += n;
	}
	return -EFBIG;
}

int commands_read(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err)
{
	cleanup_(commands_closep) struct commands *c = NULL;
	cleanup_(closep) int copy = memfd_create("commands", MFD_CLOEXEC);
	struct stat st;
	if (copy < 0)
		return error_set(err, -errno, "cannot read commands file '%s': %s", path, error_words(errno));
	int r = commands_open(path, choice, &c, err);
	if (r < 0)
		return r;
	r = fstat(c->fd, &st) < 0 ? -errno : st.st_size > MAX_FILE_BYTES ? -EFBIG : spool(c->fd, copy);
	if (r < 0)
		return error_set(err, r, "cannot read commands file '%s': %s", c->name, error_words(r));
	if (c->close_fd)
		close(c->fd);
	c->is_file = c->close_fd && S_ISREG(st.st_mode);
	c->fd = take_fd(&copy);
	c->close_fd = true;
	r = commands_rewind(c);
	if (r < 0)
		return error_set(err, r, "cannot read commands file '%s': %s", c->name, error_words(r));
	*ret = take_ptr(c);
	return 0;
}

int commands_rewind(struct commands *c)
{
	if (lseek(c->fd, 0, SEEK_SET) < 0)
		return -errno;
	c->begin = c->end = 0;
	c->at_end = false;
	c->failed = 0;
	c->line = 0;
	job_options_finish(&c->pending);
	job_options_finish(&c->current);
	return 0;
}

const char *commands_name(const struct commands *c)
{
	return c->name;
}

bool commands_is_file(const struct commands *c)
{
	return c->is_file;
}

static int complain(struct commands *c, uint64_t line, struct gd_error *err, const char *format, ...) GD_PRINTF(4, 5);

static int complain(struct commands *c, uint64_t line, struct gd_error *err, const char *format, ...)
{
	struct gd_error words;
	va_list args;
	va_start(args, format);
	error_vset(&words, -EINVAL, format, args);
	va_end(args);
	return error_set(err, -EINVAL, "%s:%" PRIu64 ": %s", c->name, line, words.message);
}

/* Makes space after `end`: moves the unread bytes to the front, or grows the buffer. */
static int make_room(struct commands *c)
{
	size_t used = c->end - c->begin;
	if (c->capacity - c->end >= CHUNK / 2)
		return 0;
	if (c->begin >= c->capacity / 2 && c->begin > 0) {
		memmove(c->buf, c->buf + c->begin, used);
		c->begin = 0;
		c->end = used;
		return 0;
	}
	return array_reserve(c->buf, &c->capacity, c->capacity + CHUNK);
}

/* Reads some more bytes; sets at_end at the end of the file. */
static int fill(struct commands *c)
{
	/* A line of a sparse file could fill the memory. */
	if (c->end - c->begin >= MAX_LINE_BYTES)
		return -EFBIG;
	int r = make_room(c);
	if (r < 0)
		return r;
	ssize_t n;
	do
		n = read(c->fd, c->buf + c->end, c->capacity - c->end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EINVAL ? -EIO : -errno; /* -EINVAL is for mistakes in the file */
	c->end += (size_t)n;
	c->at_end = n == 0;
	return 0;
}

/*
 * Finds the line that begins `offset` bytes after c->begin (the buffer may move meanwhile): its length without and with
 * the line break. Returns 0 at the end of the file.
 */
static int find_line(struct commands *c, size_t offset, size_t *ret_length, size_t *ret_whole)
{
	size_t seen = 0;
	for (;;) {
		const char *p = c->buf ? c->buf + c->begin + offset : NULL;
		size_t have = c->end - c->begin - offset;
		const char *nl = have > seen ? memchr(p + seen, '\n', have - seen) : NULL;
		if (nl || (c->at_end && have > 0)) {
			size_t length = nl ? (size_t)(nl - p) : have;
			*ret_whole = length + (nl != NULL);
			while (length > 0 && p[length - 1] == '\r')
				length--;
			*ret_length = length;
			return 1;
		}
		if (c->at_end)
			return 0;
		seen = have;
		int r = fill(c);
		if (r < 0)
			return r;
	}
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/* Whether the text ends in a backslash that is not itself escaped. */
static bool ends_in_backslash(const char *s, size_t length)
{
	size_t n = 0;
	while (n < length && s[length - 1 - n] == '\\')
		n++;
	return n % 2;
}

static void trim(const char **s, size_t *length)
{
	while (*length > 0 && is_space(**s)) {
		(*s)++;
		(*length)--;
	}
	/* "\ " at the end is an intended space. */
	while (*length > 0 && is_space((*s)[*length - 1]) && !ends_in_backslash(*s, *length - 1))
		(*length)--;
}

/* The text after "# gpuq:", or NULL for any other comment. */
static const char *options_text(const char *s, const char *end)
{
	static const char mark[] = "gpuq:";
	s++;
	while (s < end && is_space(*s))
		s++;
	size_t n = sizeof(mark) - 1;
	return (size_t)(end - s) >= n && !memcmp(s, mark, n) ? s + n : NULL;
}

/* Parses one `key=value` or `key='v a l u e'`; NUL-terminates its parts in place. There is a NUL at `end`. */
static int split_option(char **p, char *end, char **ret_key, char **ret_value, struct gd_error *err)
{
	char *s = *p, *key = s;
	while (s < end && *s != '=' && !is_space(*s))
		s++;
	if (s == key || s == end || *s != '=')
		return error_set(err, -EINVAL, "expected options of the form name=value, like mem=12G");
	*s++ = '\0';
	char *value = s;
	if (s < end && (*s == '\'' || *s == '"')) {
		char mark = *s;
		value = ++s;
		while (s < end && *s != mark)
			s++;
		if (s == end)
			return error_set(err, -EINVAL, "%s: the quotation mark %c is not closed", key, mark);
		*s++ = '\0';
		if (s < end && !is_space(*s))
			return error_set(err, -EINVAL, "%s: expected a space after the quotation mark", key);
	} else {
		while (s < end && !is_space(*s))
			s++;
		if (s < end)
			*s++ = '\0';
	}
	*p = s;
	*ret_key = key;
	*ret_value = value;
	return 0;
}

static int set_option(struct commands *c, const char *key, const char *value, struct gd_error *err)
{
	const char *names[JOB_OPTIONS];
	enum job_option option = 0;
	for (size_t i = 0; i < JOB_OPTIONS; i++)
		names[i] = job_option_name((enum job_option)i);
	while (option < JOB_OPTIONS && strcmp(names[option], key) != 0)
		option++;
	if (option == JOB_OPTIONS) {
		char quote[DISPLAY_QUOTE_ROOM];
		const char *near = suggest(key, names, JOB_OPTIONS);
		return error_set(err, -EINVAL, "unknown option '%s'; %s%s%s", display_quote(key, quote),
			near ? "did you mean '"
			     : "known options: mem, num_gpus, gpu, exclusive, host_mem, cpus, timeout, name, priority, "
			       "retries, after, after_any, begin, tag, signal, requeue_on, idle_warn",
			near ? near : "", near ? "'?" : "");
	}
	if (c->pending.set & (1u << option))
		return error_set(err, -EINVAL, "%s is given twice for the next command", key);
	struct gd_error why;
	int r = job_options_set(&c->pending, option, value, &why);
	return r < 0 ? error_set(err, r, "%s: %s", key, why.message) : 0;
}

static int read_options(struct commands *c, const char *s, size_t size, struct gd_error *err)
{
	if (memchr(s, '\0', size))
		return complain(c, c->line, err, "the line contains a NUL byte");
	cleanup_(freep) char *copy = strndup(s, size);
	if (!copy)
		return error_set(err, -ENOMEM, "cannot read commands file '%s': out of memory", c->name);
	char *p = copy, *end = copy + size;
	c->pending_line = c->line;
	while (p < end) {
		if (is_space(*p)) {
			p++;
			continue;
		}
		char *key = NULL, *value = NULL;
		struct gd_error why = {0};
		int r = split_option(&p, end, &key, &value, &why);
		if (r == 0)
			r = set_option(c, key, value, &why);
		if (r == -EINVAL)
			return complain(c, c->line, err, "%s", why.message);
		if (r < 0)
			return error_set(err, r, "%s", why.message);
	}
	return 0;
}

/* Appends the continuation lines to the first line, of *length bytes, in place. Updates *length, and *whole: the bytes
 * used of the buffer. */
static int join(struct commands *c, size_t *length, size_t *whole, bool *ret_unfinished)
{
	size_t last = *length; /* length of the current line alone: backslashes before it do not count */
	while (ends_in_backslash(c->buf + c->begin + *length - last, last)) {
		size_t next_length, next_whole;
		int r = find_line(c, *whole, &next_length, &next_whole);
		if (r < 0)
			return r;
		if (r == 0) {
			*ret_unfinished = true;
			return 0;
		}
		char *first = c->buf + c->begin;
		memmove(first + *length - 1, first + *whole, next_length);
		*length += next_length - 1;
		*whole += next_whole;
		last = next_length;
		c->line++;
	}
	return 0;
}

/* Reads a command whose first line has been found. */
static int read_command(
	struct commands *c, size_t length, size_t whole, struct shell_command *ret, struct gd_error *err)
{
	uint64_t line = c->line;
	bool unfinished = false;
	int r = join(c, &length, &whole, &unfinished);
	if (r < 0)
		return r;
	const char *s = c->buf + c->begin;
	c->begin += whole;
	trim(&s, &length);
	if (!length && !unfinished)
		return 0;

	job_options_finish(&c->current);
	c->current = c->pending;
	c->pending = (struct job_options){0};
	if (unfinished)
		return complain(c, c->line, err, "the last line ends with '\\', but no line follows");
	if (memchr(s, '\0', length))
		return complain(c, line, err, "the command contains a NUL byte");
	*ret = (struct shell_command){.bytes = {s, length}, .options = &c->current, .line = line};
	return 1;
}

/* 1: a command; 0: a line without a command. */
static int read_line(struct commands *c, size_t length, size_t whole, struct shell_command *ret, struct gd_error *err)
{
	const char *s = c->buf + c->begin, *end = s + length;
	while (s < end && is_space(*s))
		s++;
	if (s < end && *s != '#')
		return read_command(c, length, whole, ret, err);
	c->begin += whole;
	const char *options = s < end ? options_text(s, end) : NULL;
	return options ? read_options(c, options, (size_t)(end - options), err) : 0;
}

/* Size of the byte order mark that some editors put at the beginning of a file. */
static size_t byte_order_mark(const char *s, size_t length)
{
	return length >= 3 && !memcmp(s, "\xef\xbb\xbf", 3) ? 3 : 0;
}

static int finish(struct commands *c, struct gd_error *err)
{
	if (!c->pending.set)
		return 0;
	job_options_finish(&c->pending);
	return complain(c, c->pending_line, err, "no command follows these options");
}

int commands_next(struct commands *c, struct shell_command *ret, struct gd_error *err)
{
	int r = c->failed;
	while (r == 0) {
		size_t length, whole;
		r = find_line(c, 0, &length, &whole);
		if (r == 0)
			return finish(c, err);
		if (r > 0) {
			size_t mark = c->line++ ? 0 : byte_order_mark(c->buf + c->begin, length);
			c->begin += mark;
			r = read_line(c, length - mark, whole - mark, ret, err);
		}
	}
	if (r > 0 || r == -EINVAL)
		return r;
	c->failed = r;
	return error_set(err, r, "cannot read commands file '%s': %s", c->name, error_words(r));
}
