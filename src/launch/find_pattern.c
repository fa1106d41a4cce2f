/* SPDX-License-Identifier: MIT */
#include "launch/find_pattern.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int find_check_pattern(const char *pattern, struct gd_error *err)
{
	if (!*pattern)
		return error_set(err, -EINVAL, "empty pattern; '*' matches every file");
	if (strchr(pattern, '/'))
		return error_set(err, -EINVAL,
			"pattern '%s': a pattern matches names and cannot contain '/'; set recursive to search subfolders",
			pattern);
	return 0;
}

int find_patterns_init(struct find_patterns *p, const char *const *texts, size_t count, struct gd_error *err)
{
	static const char *const usual[] = {"*.wav"};
	const char *const *from = count ? texts : usual;
	p->count = count ? count : 1;
	p->list = calloc(p->count, sizeof(*p->list));
	if (!p->list)
		return error_set(err, -ENOMEM, "not enough memory for %zu patterns", p->count);
	for (size_t i = 0; i < p->count; i++) {
		const char *text = from[i];
		int r = find_check_pattern(text, err);
		if (r < 0)
			return r;
		bool suffix = text[0] == '*' && !strpbrk(text + 1, "*?[\\");
		p->list[i] = (struct find_pattern){suffix ? text + 1 : text, strlen(text) - suffix, suffix};
	}
	return 0;
}

void find_patterns_finish(struct find_patterns *p)
{
	free(p->list);
	*p = (struct find_patterns){0};
}

bool find_patterns_match(const struct find_patterns *patterns, const char *name, size_t length)
{
	for (size_t i = 0; i < patterns->count; i++) {
		const struct find_pattern *p = &patterns->list[i];
		if (p->suffix && name[0] != '.' && length >= p->length &&
			memcmp(name + length - p->length, p->text, p->length) == 0)
			return true;
		if (!p->suffix && fnmatch(p->text, name, FNM_PERIOD) == 0)
			return true;
	}
	return false;
}
