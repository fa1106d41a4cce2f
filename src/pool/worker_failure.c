/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "pool/interrupt.h"
#include "pool/worker_private.h"

#define ERRNO_MAX 4095 /* the kernel's limit */

static void GD_PRINTF(2, 0) set_words(struct failure *f, const char *format, va_list args)
{
	int n = vsnprintf(f->words, sizeof(f->words), format, args);
	if (n >= (int)sizeof(f->words))
		f->words[utf8_whole(f->words, sizeof(f->words) - 1)] = '\0';
	if (n < 0)
		f->words[0] = '\0'; /* the format is wrong */
	f->given = true;
}

static void GD_PRINTF(2, 3) say(struct failure *f, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	set_words(f, format, args);
	va_end(args);
}

void failure_clear(struct failure *f)
{
	if (f->parcel.fd >= 0)
		parcel_finish(&f->parcel);
	else
		free(f->data);
	f->data = NULL;
	f->size = 0;
	f->words[0] = '\0';
	f->given = false;
}

static struct failure *allocate(void)
{
	struct failure *f = calloc(1, sizeof(*f));
	if (f)
		f->parcel = PARCEL_NONE;
	return f;
}

struct failure *failure_new(const char *format, ...)
{
	struct failure *f = allocate();
	if (!f)
		return NULL;
	va_list args;
	va_start(args, format);
	set_words(f, format, args);
	va_end(args);
	return f;
}

void failure_free(struct failure *f)
{
	failure_clear(f);
	free(f);
}

void failure_lose_bytes(struct failure *f, size_t size, int error)
{
	char words[WORDS_MAX];
	memcpy(words, f->words, sizeof(words));
	failure_clear(f);
	say(f, "%s (its %zu bytes are lost: %s)", words, size, error_words(error));
}

/* Large ones go into a parcel at once, sealed: it may be sent for several tasks. */
static int keep_bytes(struct failure *f, const void *data, size_t size)
{
	if (size <= CHANNEL_IN_PLACE) {
		f->data = malloc(size);
		if (!f->data)
			return -ENOMEM;
		memcpy(f->data, data, size);
		f->size = size;
		return 0;
	}
	struct parcel parcel = PARCEL_NONE;
	int r = parcel_fill(data, size, &parcel);
	if (r < 0)
		return r;
	f->parcel = parcel;
	f->data = parcel.data;
	f->size = size;
	return 0;
}

static void set_failure(struct failure *f, const char *message, const void *data, size_t size)
{
	failure_clear(f);
	say(f, "%s", message ? message : "");
	int r = size > 0 ? keep_bytes(f, data, size) : 0;
	if (r < 0)
		failure_lose_bytes(f, size, r);
}

/* The code of a failure: always a negative errno value. */
static int negative(int code)
{
	if (code < 0)
		return code;
	return code > 0 && code <= ERRNO_MAX ? -code : -EIO;
}

int failure_of_hook(struct failure *f, const char *hook, int returned)
{
	int code = negative(returned);
	if (returned < 0 || (f->given && f->words[0] != '\0'))
		return code;
	const char *known = returned <= ERRNO_MAX ? strerrordesc_np(returned) : NULL;
	if (known)
		say(f, "%s returned %d; hooks return 0 or a negative errno value (did you mean %d, %s?)", hook,
			returned, -returned, known);
	else
		say(f, "%s returned %d; hooks return 0 or a negative errno value", hook, returned);
	return code;
}

struct failure *failure_cancelled(struct failure *f)
{
	failure_clear(f);
	say(f, "cancelled while it was being processed");
	return f;
}

int gd_worker_fail(struct gd_worker *w, int code, const char *format, ...)
{
	interrupt_defer(w);
	failure_clear(&w->failure);
	va_list args;
	va_start(args, format);
	set_words(&w->failure, format, args);
	va_end(args);
	interrupt_resume(w);
	return negative(code);
}

int gd_worker_fail_with(struct gd_worker *w, int code, const char *message, const void *data, size_t size)
{
	interrupt_defer(w);
	set_failure(&w->failure, message, data, size);
	interrupt_resume(w);
	return negative(code);
}

/* Between interrupt_defer() and interrupt_resume(). */
static int fail_item(struct gd_worker *w, size_t i, int code, struct failure *failure)
{
	worker_fail_item(w, i, negative(code), failure);
	worker_settle_answered(w);
	interrupt_resume(w);
	return negative(code);
}

int gd_worker_batch_fail(struct gd_worker *w, size_t i, int code, const char *format, ...)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	interrupt_defer(w);
	struct failure *f = allocate();
	if (f) {
		va_list args;
		va_start(args, format);
		set_words(f, format, args);
		va_end(args);
	}
	return fail_item(w, i, code, f);
}

int gd_worker_batch_fail_with(
	struct gd_worker *w, size_t i, int code, const char *message, const void *data, size_t size)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	interrupt_defer(w);
	struct failure *f = allocate();
	if (f)
		set_failure(f, message, data, size);
	return fail_item(w, i, code, f);
}
