/* SPDX-License-Identifier: MIT */
#include "base/cpu_list.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

static bool take_number(const char **p, unsigned *ret)
{
	unsigned n = 0;
	const char *c = *p;
	for (; *c >= '0' && *c <= '9'; c++)
		if ((n = n * 10 + (unsigned)(*c - '0')) >= CPU_LIST_MAX)
			return false;
	bool found = c > *p;
	*p = c;
	*ret = n;
	return found;
}

int cpu_list_parse(const char *text, struct cpu_list *l)
{
	struct cpu_list found = *l;
	for (const char *p = text; *p && *p != '\n';) {
		unsigned first, last;
		if (!take_number(&p, &first))
			return -EINVAL;
		last = first;
		if (*p == '-' && (p++, !take_number(&p, &last)))
			return -EINVAL;
		for (unsigned i = first; i <= last; i++)
			found.bits[i / 64] |= UINT64_C(1) << i % 64;
		if (last < first || (*p && *p != ',' && *p != '\n'))
			return -EINVAL;
		p += *p == ',';
	}
	*l = found;
	return 0;
}

static bool has(const struct cpu_list *l, unsigned cpu)
{
	return cpu < CPU_LIST_MAX && l->bits[cpu / 64] >> cpu % 64 & 1;
}

void cpu_list_format(const struct cpu_list *l, struct text *out)
{
	const char *comma = "";
	for (unsigned i = 0; i < CPU_LIST_MAX; i++) {
		unsigned last = i;
		if (!has(l, i))
			continue;
		while (has(l, last + 1))
			last++;
		text_appendf(out, last > i ? "%s%u-%u" : "%s%u", comma, i, last);
		comma = ",";
		i = last;
	}
}

bool cpu_list_is_empty(const struct cpu_list *l)
{
	for (size_t i = 0; i < CPU_LIST_MAX / 64; i++)
		if (l->bits[i])
			return false;
	return true;
}

void cpu_list_intersect(struct cpu_list *l, const struct cpu_list *other)
{
	for (size_t i = 0; i < CPU_LIST_MAX / 64; i++)
		l->bits[i] &= other->bits[i];
}

int cpu_list_get_affinity(struct cpu_list *ret)
{
	struct cpu_list l = {0};
	if (sched_getaffinity(0, sizeof(l.bits), (cpu_set_t *)(void *)l.bits) < 0)
		return -errno;
	*ret = l;
	return 0;
}

int cpu_list_set_affinity(const struct cpu_list *l)
{
	return sched_setaffinity(0, sizeof(l->bits), (const cpu_set_t *)(const void *)l->bits) < 0 ? -errno : 0;
}
