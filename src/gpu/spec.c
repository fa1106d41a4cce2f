/* SPDX-License-Identifier: MIT */
#include "gpu/spec.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"

#define SIM_DEFAULT_BYTES (UINT64_C(16) << 30)
#define SIM_MAX_BYTES     (UINT64_C(1) << 50)
#define GPUS_ENV          "GPUQ_GPUS"
#define FORMS             "auto, all, 0,1,2, 0-3, GPU-…, MIG-… or sim:4x16G"

void gpu_spec_finish(struct gpu_spec *spec)
{
	for (size_t i = 0; i < spec->num_items; i++)
		free(spec->items[i].uuid);
	free(spec->items);
	free(spec->text);
	*spec = (struct gpu_spec){0};
}

/* Decimal digits at *p, at most `max`; advances. */
static bool take_number(const char **p, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;
	const char *c = *p;
	if (!isdigit((unsigned char)*c))
		return false;
	for (; isdigit((unsigned char)*c); c++) {
		value = value * 10 + (uint64_t)(*c - '0');
		if (value > max)
			return false;
	}
	*p = c;
	*ret = value;
	return true;
}

static int parse_sim(struct gpu_spec *spec, const char *p, struct gd_error *err)
{
	uint64_t count;
	if (!take_number(&p, GPU_SPEC_MAX_SIM, &count) || count == 0 || (*p != '\0' && *p != 'x'))
		return error_set(err, -EINVAL,
			"%s '%s': expected sim:N or sim:NxSIZE with N from 1 to %d, as in sim:4x16G", spec->source,
			spec->text, GPU_SPEC_MAX_SIM);
	uint64_t bytes = SIM_DEFAULT_BYTES;
	if (*p == 'x' && (units_parse_size(p + 1, 0, &bytes, NULL) < 0 || bytes == 0 || bytes > SIM_MAX_BYTES))
		return error_set(err, -EINVAL, "%s '%s': '%s' is not a size; expected one like 16G or 512M",
			spec->source, spec->text, p + 1);
	spec->kind = GPU_SPEC_ALL;
	spec->sim_count = (int)count;
	spec->sim_memory_bytes = bytes;
	return 0;
}

static int parse_item(struct gpu_spec *spec, const char *p, struct gpu_spec_item *ret, struct gd_error *err)
{
	if (strncasecmp(p, "GPU-", 4) == 0 || strncasecmp(p, "MIG-", 4) == 0) {
		char *uuid = strdup(p);
		if (!uuid)
			return error_set(err, -ENOMEM, "%s '%s': out of memory", spec->source, spec->text);
		*ret = (struct gpu_spec_item){.uuid = uuid};
		return 0;
	}
	uint64_t first, last;
	const char *c = p;
	bool good = take_number(&c, GPU_SPEC_MAX_INDEX, &first);
	last = good ? first : 0;
	if (good && *c == '-') {
		c++;
		good = take_number(&c, GPU_SPEC_MAX_INDEX, &last);
	}
	if (!good || *c != '\0')
		return error_set(
			err, -EINVAL, "%s '%s': '%s' is not a GPU; expected " FORMS, spec->source, spec->text, p);
	if (last < first)
		return error_set(err, -EINVAL, "%s '%s': the range '%s' is reversed", spec->source, spec->text, p);
	*ret = (struct gpu_spec_item){.first = (int)first, .last = (int)last};
	return 0;
}

/* Removes leading and trailing blanks; changes the text. */
static char *trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	size_t length = strlen(s);
	while (length > 0 && isspace((unsigned char)s[length - 1]))
		s[--length] = '\0';
	return s;
}

static int parse_items(struct gpu_spec *spec, char *rest, struct gd_error *err)
{
	char *piece;
	while ((piece = strsep(&rest, ","))) {
		if (array_reserve(spec->items, &spec->capacity, spec->num_items + 1) < 0)
			return error_set(err, -ENOMEM, "%s '%s': out of memory", spec->source, spec->text);
		int r = parse_item(spec, trim(piece), &spec->items[spec->num_items], err);
		if (r < 0)
			return r;
		spec->num_items++;
	}
	spec->kind = GPU_SPEC_ITEMS;
	return 0;
}

static bool is_auto(const char *text)
{
	static const char blanks[] = " \t\n\v\f\r";
	text += strspn(text, blanks);
	return strncmp(text, "auto", 4) == 0 && text[4 + strspn(text + 4, blanks)] == '\0';
}

/* Parses only the text, independent of $GPUQ_GPUS. */
static int parse_text(const char *text, const char *source, struct gpu_spec *ret, struct gd_error *err)
{
	cleanup_(gpu_spec_finish) struct gpu_spec spec = {.text = strdup(text), .source = source};
	cleanup_(freep) char *copy = strdup(text);
	if (!spec.text || !copy)
		return error_set(err, -ENOMEM, "%s '%s': out of memory", source, text);

	char *s = trim(copy);
	int r = 0;
	if (!*s)
		r = error_set(err, -EINVAL, "%s '%s': empty value; expected " FORMS, source, text);
	else if (strncmp(s, "sim:", 4) == 0)
		r = parse_sim(&spec, s + 4, err);
	else if (strcmp(s, "auto") != 0 && strcmp(s, "all") != 0)
		r = parse_items(&spec, s, err);
	if (r < 0)
		return r;
	*ret = spec;
	spec = (struct gpu_spec){0};
	return 0;
}

/* Parses $GPUQ_GPUS or, instead of it, the machine that another process recorded. */
static int parse_default(const char *machine, struct gpu_spec *ret, struct gd_error *err)
{
	if (machine)
		return parse_text(strcmp(machine, GPU_MACHINE_REAL) == 0 ? "auto" : machine, "machine", ret, err);
	const char *value = getenv(GPUS_ENV);
	return parse_text(value && *value ? value : "auto", "$" GPUS_ENV, ret, err);
}

int gpu_spec_parse(const char *text, const char *machine, struct gpu_spec *ret, struct gd_error *err)
{
	cleanup_(gpu_spec_finish) struct gpu_spec spec = {0};
	cleanup_(gpu_spec_finish) struct gpu_spec usual = {0};
	bool automatic = !text || is_auto(text);
	int r = automatic ? 0 : parse_text(text, "GPU specification", &spec, err);
	/* An explicit "sim:N" does not depend on the variable. */
	if (r == 0 && spec.sim_count == 0)
		r = parse_default(machine, &usual, err);
	if (r < 0)
		return r;
	if (spec.sim_count == 0) {
		spec.sim_count = usual.sim_count;
		spec.sim_memory_bytes = usual.sim_memory_bytes;
	}
	struct gpu_spec *chosen = automatic ? &usual : &spec;
	*ret = *chosen;
	*chosen = (struct gpu_spec){0};
	return 0;
}

void gpu_spec_machine(const struct gpu_spec *spec, char ret[GPU_MACHINE_SIZE])
{
	if (spec->sim_count == 0)
		snprintf(ret, GPU_MACHINE_SIZE, GPU_MACHINE_REAL);
	else
		snprintf(ret, GPU_MACHINE_SIZE, "sim:%dx%" PRIu64 "B", spec->sim_count, spec->sim_memory_bytes);
}
