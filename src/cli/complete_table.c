/* SPDX-License-Identifier: MIT */
#include "cli/complete_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static int add(struct complete_table *t, struct complete_option option)
{
	if (array_reserve(t->options, &t->capacity, t->count + 1) < 0)
		return -ENOMEM;
	t->options[t->count++] = option;
	return 0;
}

static bool is_end(const struct argp_option *o)
{
	return !o->name && !o->key && !o->doc && !o->group;
}

static int add_options(struct complete_table *t, const struct argp_option *o)
{
	const struct argp_option *real = o;
	int r = 0;
	for (; r == 0 && o && !is_end(o); o++) {
		if (!o->name && !o->key) /* the title of a group */
			continue;
		if (!(o->flags & OPTION_ALIAS))
			real = o;
		r = add(t, (struct complete_option){.name = o->name,
				   .letter = (char)(o->key > 0 && o->key < 128 && isprint(o->key) ? o->key : 0),
				   .arg = real->arg,
				   .doc = real->doc,
				   .hidden = (o->flags | real->flags) & OPTION_HIDDEN});
	}
	return r;
}

static int add_argp(struct complete_table *t, const struct argp *argp)
{
	int r = add_options(t, argp->options);
	for (const struct argp_child *child = argp->children; r == 0 && child && child->argp; child++)
		r = add_argp(t, child->argp);
	return r;
}

int complete_table_fill(struct complete_table *t, const struct argp *argp)
{
	/* argp adds these to every table. */
	static const struct argp_option added[] = {
		{"help", '?', NULL, 0, "Give this help list", 0},
		{"usage", 0x100, NULL, 0, "Give a short usage message", 0},
		{"version", 'V', NULL, 0, "Print program version", 0},
		{0},
	};
	int r = add_argp(t, argp);
	return r < 0 ? r : add_options(t, added);
}

void complete_table_finish(struct complete_table *t)
{
	free(t->options);
	*t = (struct complete_table){0};
}

const struct complete_option *complete_table_by_name(const struct complete_table *t, const char *name, size_t size)
{
	const struct complete_option *found = NULL;
	size_t num_found = 0;
	for (size_t i = 0; i < t->count; i++) {
		const struct complete_option *o = &t->options[i];
		if (!o->name || strncmp(o->name, name, size) != 0)
			continue;
		if (!o->name[size])
			return o;
		found = o;
		num_found++;
	}
	return num_found == 1 ? found : NULL;
}

const struct complete_option *complete_table_by_letter(const struct complete_table *t, char letter)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->options[i].letter == letter)
			return &t->options[i];
	return NULL;
}

bool complete_table_takes(const struct argp *argp, const char *word)
{
	const char *p = argp->args_doc ? argp->args_doc : "";
	for (bool is_value = false; *p;) {
		p += strspn(p, " \n[]");
		size_t size = strcspn(p, " \n[]");
		bool is_option = size > 2 && strncmp(p, "--", 2) == 0;
		size_t letters = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		if (!is_value && letters == strlen(word) && strncmp(p, word, letters) == 0)
			return true;
		is_value = is_option;
		p += size;
	}
	return false;
}
