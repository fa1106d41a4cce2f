/* SPDX-License-Identifier: MIT */
#include "launch/map_record.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/named_file.h"
#include "base/terminal_text.h"
#include "base/trust.h"
#include "launch/map_origin.h"
#include "launch/outputs.h"

/* ---- Opening ------------------------------------------------------------ */

static int refuse(const char *path, const char *it, const char *objection, struct gd_error *err)
{
	return trust_refuse_path(path, false, "choose another place, or use --trust if you accept that", err,
		"refusing to use output '%s': %s%s; others could change its results", path, it, objection);
}

static int lock(struct map_file *f, struct gd_error *err)
{
	char busy[sizeof(err->message) - 64];
	cleanup_(freep) char *path = NULL, *name = NULL;
	if (asprintf(&path, "/proc/self/fd/%d/%s.lock", f->dir_fd, f->entry) < 0)
		path = NULL;
	if (asprintf(&name, "%s.lock", f->name) < 0)
		name = NULL;
	if (!path || !name)
		return error_set(err, -ENOMEM, "cannot open '%s': out of memory", f->name);
	snprintf(busy, sizeof(busy), "cannot write '%.300s': another gpuq map is writing to this file", f->name);
	int r = output_lock_take(&f->lock, path, name, busy, err);
	/* The path of the descriptor means nothing to users. */
	if (r == -EPERM)
		return error_set(err, r,
			"cannot write '%s': '%s.lock' is not an empty regular file of yours without other hard links; move it away",
			f->name, f->entry);
	if (r < 0 && r != -EBUSY)
		return error_set(
			err, r, "cannot write '%s': cannot create '%s.lock': %s", f->name, f->entry, error_words(r));
	return r;
}

mode_t map_record_mode(const struct map_record *r)
{
	return r->is_private ? 0600 : 0644;
}

static bool is_own_and_empty(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size == 0;
}

static int open_file(const struct map_record *r, struct map_file *f, bool trust, struct gd_error *err)
{
	const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	/* First without O_CREAT: with it, the kernel may refuse files of other users without a clear error. */
	cleanup_(closep) int fd = openat(f->dir_fd, f->entry, flags);
	mode_t mode = map_record_mode(r);
	bool missing = fd < 0 && errno == ENOENT;
	if (fd >= 0 && !trust && is_own_and_empty(fd) && map_origin_is_doubtful(r, f->dir_fd, fd)) {
		/* Replace an empty file, such as mktemp creates: another user may have moved it there, and a process
		 * may still have it open for writing. */
		missing = unlinkat(f->dir_fd, f->entry, 0) == 0;
		mode = 0600;
	}
	if (missing) {
		close_fd(&fd);
		fd = openat(f->dir_fd, f->entry, flags | O_CREAT | O_EXCL, mode);
		f->created = fd >= 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot write output '%s': %s", f->name, error_words(-errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EPERM, "cannot write output '%s': it has just been replaced", f->name);
	const char *objection = trust ? NULL : trust_objection(fd);
	if (objection)
		return refuse(f->name, "it ", objection, err);
	if (!trust && st.st_nlink > 1)
		return refuse(f->name, "it ", "has more than one name (hard links)", err);
	if (!trust && !f->created && map_origin_is_doubtful(r, f->dir_fd, fd))
		return error_set(err, -EPERM,
			"refusing to continue '%s': it is in a directory in which others can create files, and another user may have moved it there; remove it, choose another file, or use --trust if you know that it is yours",
			f->name);
	f->fd = take_fd(&fd);
	return 0;
}

static int open_regular(const struct map_record *record, struct map_file *f, bool trust, struct gd_error *err)
{
	struct gd_error why = {0};
	/* No other user may be able to replace a directory above the file: its logs are opened by path. */
	int r = trust_open_parent(f->name, !trust, &f->dir_fd, &f->entry, &why);
	if (r < 0)
		return r == -EPERM ? refuse(f->name, "", why.message, err)
				   : error_set(err, r, "cannot write output '%s': %s", f->name, error_words(r));
	r = lock(f, err);
	return r < 0 ? r : open_file(record, f, trust, err);
}

/* Pipes, terminals, /dev/null, and descriptors as opened by the shell. */
static int open_stream(struct map_file *f, const char *path, struct gd_error *err)
{
	struct gd_error why = {0};
	f->regular = false;
	int r = named_file_open_special(path, &f->fd, &why);
	return r < 0 ? error_set(err, r, "cannot write output '%s': %s", f->name, why.message) : 0;
}

static int open_one(const struct map_record *r, struct map_file *f, const char *path, bool trust, struct gd_error *err)
{
	struct stat st;
	bool standard = strcmp(path, "-") == 0;
	f->name = standard ? "standard output" : path;
	if (standard)
		path = "/dev/stdout";
	if (named_file_is_passed(path) || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return open_stream(f, path, err);
	f->regular = true;
	return open_regular(r, f, trust, err);
}

static int load(struct map_record *r, struct map_file *f, struct gd_error *err)
{
	struct stat st;
	int e = map_record_load(r, f, &f->size, err);
	if (e < 0)
		return e;
	if (fstat(f->fd, &st) < 0 || ((uint64_t)st.st_size != f->size && ftruncate(f->fd, (off_t)f->size) < 0))
		return error_set(err, -errno, "cannot truncate '%s': %s", f->name, error_words(-errno));
	return 0;
}

int map_record_open(struct map_record *r, const char *output, const char *errors, bool trust, struct gd_error *err)
{
	int e = open_one(r, &r->output, output, trust, err);
	if (e == 0 && errors)
		e = open_one(r, &r->errors, errors, trust, err);
	if (e == 0 && r->output.regular)
		e = load(r, &r->output, err);
	if (e == 0 && r->errors.regular)
		e = load(r, &r->errors, err);
	return e;
}

static void finish_file(struct map_file *f)
{
	close_fd(&f->fd);
	history_lock_release(&f->lock);
	close_fd(&f->dir_fd);
	free(f->entry);
	text_finish(&f->pending);
	free(f->ended);
}

void map_record_finish(struct map_record *r)
{
	finish_file(&r->output);
	finish_file(&r->errors);
	free(r->done);
	free(r->bad);
	free(r->checks);
	*r = MAP_RECORD_NONE;
}

/* ---- Logs --------------------------------------------------------------- */

static int append_path(struct text *t, int dir_fd)
{
	char path[PATH_MAX];
	int r = file_path(dir_fd, path);
	if (r < 0)
		return r;
	text_append_string(t, path);
	return text_error(t);
}

int map_record_make_logs(const struct map_record *r, bool trust, struct text *ret, struct gd_error *err)
{
	const struct map_file *f = &r->output;
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	cleanup_(text_finish) struct text name = {0};
	if (!f->regular)
		return 0;
	text_appendf(&name, "%s.logs", f->entry);
	int e = text_error(&name) ? text_error(&name) : outputs_make_private(f->dir_fd, text_string(&name));
	if (e < 0)
		return error_set(err, e, "cannot create folder '%s.logs': %s", f->name,
			e == -EPERM ? "it was created by another user; remove it" : error_words(e));
	e = trust_open_directory_at(f->dir_fd, text_string(&name), !trust, &fd, &why);
	const char *objection = e == 0 && !trust ? trust_objection(fd) : NULL;
	if (e == -EPERM || objection)
		return error_set(err, -EPERM,
			"refusing to write logs to '%s.logs': %s%s; remove it, or use --trust if you accept that",
			f->name, objection ? "it " : "", objection ? objection : why.message);
	e = e < 0 ? e : append_path(ret, fd);
	if (e == 0)
		map_origin_note(r, fd);
	return e < 0 ? error_set(err, e, "cannot open folder '%s.logs': %s", f->name, error_words(e)) : 0;
}

/* ---- Finished items ----------------------------------------------------- */

bool map_record_has(const struct map_record *r, uint64_t number, uint32_t *ret_check)
{
	if (number > r->highest || !(r->done[number / 64] >> (number % 64) & 1))
		return false;
	*ret_check = r->checks[number];
	return true;
}

/* ---- Writing ------------------------------------------------------------ */

/* Writes the digits that end before `end`, two at a time. */
static char *put_number(char *end, uint64_t n)
{
	static const char pairs[] =
		"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
		"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
	for (; n >= 100; n /= 100)
		memcpy(end -= 2, pairs + 2 * (n % 100), 2);
	if (n >= 10)
		memcpy(end -= 2, pairs + 2 * n, 2);
	else
		*--end = (char)('0' + n);
	return end;
}

/* Eight hexadecimal digits, all at once: each digit gets a byte, and letters get the distance from '9' to 'a' added. */
static void put_check(char *to, uint32_t check)
{
	uint64_t x = check;
	x = (x & 0xffff0000) << 16 | (x & 0xffff);
	x = (x & 0x0000ff000000ff00) << 8 | (x & 0x000000ff000000ff);
	x = (x & 0x00f000f000f000f0) << 4 | (x & 0x000f000f000f000f);
	uint64_t letters = (x + 0x0606060606060606) >> 4 & 0x0101010101010101;
	x = htobe64(x + 0x3030303030303030 + letters * ('a' - '9' - 1));
	memcpy(to, &x, 8);
}

void map_record_format(struct text *t, uint64_t number, uint32_t check, bool failed, const void *data, size_t size)
{
	static const char middle[] = ",\"item\":\"", last[] = "\",\"result\":";
	char head[64], *end = head + 32, *begin = put_number(end, number) - 5;
	memcpy(begin, "{\"n\":", 5);
	memcpy(end, middle, sizeof(middle) - 1);
	end += sizeof(middle) - 1;
	put_check(end, check);
	end += 8;
	memcpy(end, last, sizeof(last) - 1);
	if (failed) {
		text_append(t, begin, (size_t)(end + 1 - begin));
		json_put_bytes(t, "error", data, size);
	} else {
		text_append(t, begin, (size_t)(end + sizeof(last) - 1 - begin));
		text_append(t, data, size);
	}
	text_append(t, "}\n", 2);
}

struct map_file *map_record_file(struct map_record *r, bool failed)
{
	return failed && r->errors.name ? &r->errors : &r->output;
}

/* The strings of a result can contain control characters of Unicode, which are valid in JSON. */
static int show(const struct map_file *f)
{
	cleanup_(text_finish) struct text shown = {0};
	struct terminal_text filter = {.one_line = true};
	terminal_text_append(&filter, &shown, f->pending.data, f->pending.length);
	terminal_text_end(&filter, &shown);
	return text_error(&shown) ? text_error(&shown) : file_write_all(f->fd, shown.data, shown.length);
}

int map_record_add_ended(struct map_file *f, const struct map_ended *ended)
{
	if (array_reserve(f->ended, &f->ended_capacity, f->num_ended + 1) < 0)
		return -ENOMEM;
	f->ended[f->num_ended++] = *ended;
	return 0;
}

int map_record_flush(struct map_file *f, struct gd_error *err)
{
	if (text_error(&f->pending))
		return error_set(err, -ENOMEM, "cannot write '%s': out of memory", f->name);
	if (f->pending.length == 0)
		return 0;
	int r = !f->regular && isatty(f->fd) ? show(f) : file_write_all(f->fd, f->pending.data, f->pending.length);
	if (r == 0)
		f->size += f->pending.length;
	else if (f->regular)
		(void)!ftruncate(f->fd, (off_t)f->size); /* on failure, the next run does it */
	text_clear(&f->pending);
	return r < 0 ? error_set(err, r, "cannot write '%s': %s", f->name, error_words(r)) : 0;
}

static int sync_file(const struct map_file *f, struct gd_error *err)
{
	if (f->regular && fdatasync(f->fd) < 0)
		return error_set(err, -errno, "cannot write '%s' to disk: %s", f->name, error_words(-errno));
	return 0;
}

int map_record_sync(struct map_record *r, struct gd_error *err)
{
	int e = sync_file(&r->output, err);
	return e < 0 ? e : sync_file(&r->errors, err);
}
