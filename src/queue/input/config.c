/* SPDX-License-Identifier: MIT */
#include "queue/input/config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "queue/input/config_keys.h"

/* A larger file is not a configuration. */
#define LARGEST_FILE (1024 * 1024)

const struct config_row config_rows[CONFIG_KEYS] = {
	[CONFIG_GPUS] = {"gpus", CONFIG_KIND_TEXT, offsetof(struct config, gpus)},
	[CONFIG_MIN_FREE_MEM] = {"min_free_mem_mb", CONFIG_KIND_MB, offsetof(struct config, min_free_mem_bytes)},
	[CONFIG_POLL_INTERVAL] = {"poll_interval", CONFIG_KIND_DURATION, offsetof(struct config, poll_interval_ms), 1},
	[CONFIG_COMMANDS_FILE] = {"commands_file", CONFIG_KIND_PATH, offsetof(struct config, commands_file)},
	[CONFIG_LOG_DIR] = {"log_dir", CONFIG_KIND_PATH, offsetof(struct config, log_dir)},
	[CONFIG_LOG_ACCESS] = {"log_access", CONFIG_KIND_ACCESS, offsetof(struct config, log_access)},
	[CONFIG_MAX_LOG_SIZE] = {"max_log_size", CONFIG_KIND_SIZE, offsetof(struct config, max_log_bytes), 1 << 20},
	[CONFIG_JOBS_FILE] = {"jobs_file", CONFIG_KIND_PATH, offsetof(struct config, jobs_file)},
	[CONFIG_JOBS_PER_GPU] = {"jobs_per_gpu", CONFIG_KIND_INTEGER, offsetof(struct config, jobs_per_gpu)},
	[CONFIG_TIMEOUT] = {"timeout", CONFIG_KIND_DURATION, offsetof(struct config, timeout_ms)},
	[CONFIG_RETRIES] = {"retries", CONFIG_KIND_INTEGER, offsetof(struct config, retries)},
	[CONFIG_MAX_FAILURES] = {"max_failures", CONFIG_KIND_INTEGER, offsetof(struct config, max_failures)},
	[CONFIG_KEEP] = {"keep", CONFIG_KIND_FLAG, offsetof(struct config, keep)},
	[CONFIG_BACKGROUND] = {"background", CONFIG_KIND_FLAG, offsetof(struct config, background)},
	[CONFIG_JSON] = {"json", CONFIG_KIND_FLAG, offsetof(struct config, json)},
	[CONFIG_ON_FINISH] = {"on_finish", CONFIG_KIND_TEXT, offsetof(struct config, on_finish)},
	[CONFIG_ON_IDLE] = {"on_idle", CONFIG_KIND_TEXT, offsetof(struct config, on_idle)},
	[CONFIG_EXCLUSIVE] = {"exclusive", CONFIG_KIND_FLAG, offsetof(struct config, exclusive)},
	[CONFIG_HOST_MEM] = {"host_mem", CONFIG_KIND_SIZE, offsetof(struct config, host_mem_bytes)},
	[CONFIG_CPUS] = {"cpus", CONFIG_KIND_INTEGER, offsetof(struct config, cpus)},
	[CONFIG_CPU_AFFINITY] = {"cpu_affinity", CONFIG_KIND_AFFINITY, offsetof(struct config, cpu_affinity)},
	[CONFIG_IDLE_WARN] = {"idle_warn", CONFIG_KIND_DURATION, offsetof(struct config, idle_warn_ms)},
	[CONFIG_SLURM] = {"slurm", CONFIG_KIND_TEXT, offsetof(struct config, slurm)},
	[CONFIG_MAX_NODES] = {"max_nodes", CONFIG_KIND_INTEGER, offsetof(struct config, max_nodes), 1},
	[CONFIG_SLURM_SILENCE] = {"slurm_silence", CONFIG_KIND_DURATION, offsetof(struct config, slurm_silence_ms), 1},
	[CONFIG_SLURM_LEASE] = {"slurm_lease", CONFIG_KIND_DURATION, offsetof(struct config, slurm_lease_ms), 1},
	[CONFIG_SLURM_ADDRESS] = {"slurm_address", CONFIG_KIND_TEXT, offsetof(struct config, slurm_address)},
};

static void *field(const struct config *c, enum config_key key)
{
	return (char *)c + config_rows[key].offset;
}

static bool is_string(enum config_key key)
{
	return config_rows[key].kind == CONFIG_KIND_TEXT || config_rows[key].kind == CONFIG_KIND_PATH;
}

static size_t field_size(enum config_key key)
{
	switch (config_rows[key].kind) {
	case CONFIG_KIND_TEXT:
	case CONFIG_KIND_PATH:
		return sizeof(char *);
	case CONFIG_KIND_FLAG:
	case CONFIG_KIND_AFFINITY:
		return sizeof(bool);
	case CONFIG_KIND_ACCESS:
		return sizeof(enum log_access);
	case CONFIG_KIND_SIZE:
	case CONFIG_KIND_MB:
	case CONFIG_KIND_DURATION:
	case CONFIG_KIND_INTEGER:
		break;
	}
	return sizeof(uint64_t);
}

int64_t config_min_free_mem_mb(const struct config *c)
{
	return config_has(c, CONFIG_MIN_FREE_MEM) ? (int64_t)((c->min_free_mem_bytes + UNITS_MB - 1) / UNITS_MB) : -1;
}

int config_defaults(struct config *c)
{
	struct config d = {
		.min_free_mem_bytes = 6000 * UNITS_MB,
		.poll_interval_ms = 60 * 1000,
		.commands_file = strdup("commands.txt"),
		.log_dir = strdup("./logs"),
		.max_nodes = 1,
		.slurm_silence_ms = 15 * 1000,
		.slurm_lease_ms = 900 * 1000,
	};
	if (!d.commands_file || !d.log_dir) {
		config_finish(&d);
		return -ENOMEM;
	}
	*c = d;
	return 0;
}

void config_finish(struct config *c)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		if (is_string(key))
			free(*(char **)field(c, key));
	*c = (struct config){0};
}

void config_overlay(struct config *c, struct config *over)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
		if (!config_has(over, key))
			continue;
		if (is_string(key))
			free(*(char **)field(c, key));
		memcpy(field(c, key), field(over, key), field_size(key));
		if (is_string(key))
			*(char **)field(over, key) = NULL;
	}
	c->set |= over->set;
	config_finish(over);
}

static const char *const access_names[] = {
	[LOG_ACCESS_OWNER] = "owner", [LOG_ACCESS_GROUP] = "group", [LOG_ACCESS_ALL] = "all"};

static int access_parse(const char *value, enum log_access *ret, struct gd_error *err)
{
	for (size_t i = 0; i < sizeof(access_names) / sizeof(*access_names); i++)
		if (strcmp(value, access_names[i]) == 0) {
			*ret = (enum log_access)i;
			return 0;
		}
	char quote[DISPLAY_QUOTE_ROOM];
	return error_set(err, -EINVAL, "'%s' is invalid; expected owner, group or all", display_quote(value, quote));
}

static int affinity_parse(const char *value, bool *ret, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	if (strcmp(value, "gpu") != 0 && strcmp(value, "none") != 0)
		return error_set(err, -EINVAL, "'%s' is invalid; expected gpu or none", display_quote(value, quote));
	*ret = strcmp(value, "gpu") == 0;
	return 0;
}

/* 0, or at least `least`. */
static int size_parse(const char *value, uint64_t plain_unit, uint64_t least, uint64_t *ret, struct gd_error *err)
{
	uint64_t bytes;
	char text[UNITS_ROOM];
	int r = units_parse_size(value, plain_unit, &bytes, err);
	if (r == 0 && bytes > 0 && bytes < least)
		return error_set(err, -ERANGE, "must be 0 or at least %s", units_format_size(least, text));
	if (r == 0)
		*ret = bytes;
	return r;
}

static int string_parse(const char *value, char **place, struct gd_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "empty value; omit the setting for the default");
	char *copy = strdup(value);
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	free(*place);
	*place = copy;
	return 0;
}

int config_set_value(struct config *c, enum config_key key, const char *value, struct gd_error *err)
{
	const struct config_row *row = &config_rows[key];
	void *place = field(c, key);
	int r = -EINVAL;
	switch (row->kind) {
	case CONFIG_KIND_TEXT:
	case CONFIG_KIND_PATH:
		r = string_parse(value, place, err);
		break;
	case CONFIG_KIND_SIZE:
	case CONFIG_KIND_MB:
		r = size_parse(value, row->kind == CONFIG_KIND_MB ? UNITS_MB : 0, row->least, place, err);
		break;
	case CONFIG_KIND_DURATION: {
		uint64_t ms;
		r = units_parse_duration(value, &ms, err);
		if (r == 0 && ms < row->least)
			r = error_set(err, -ERANGE, "must be greater than 0");
		if (r == 0)
			*(uint64_t *)place = ms;
		break;
	}
	case CONFIG_KIND_INTEGER:
		r = units_parse_integer(value, (int64_t)row->least, INT_MAX, place, err);
		break;
	case CONFIG_KIND_FLAG:
		r = units_parse_flag(value, place, err);
		break;
	case CONFIG_KIND_ACCESS:
		r = access_parse(value, place, err);
		break;
	case CONFIG_KIND_AFFINITY:
		r = affinity_parse(value, place, err);
		break;
	}
	if (r == 0)
		c->set |= 1u << key;
	return r == -ERANGE ? -EINVAL : r;
}

/* In seconds, with as many decimals as needed. */
static void append_seconds(struct text *t, uint64_t ms)
{
	text_appendf(t, "%" PRIu64, ms / 1000);
	if (ms % 1000)
		text_appendf(t, ".%03u", (unsigned)(ms % 1000));
}

void config_append_value(const struct config *c, enum config_key key, struct text *t)
{
	const void *place = field(c, key);
	switch (config_rows[key].kind) {
	case CONFIG_KIND_TEXT:
	case CONFIG_KIND_PATH:
		text_append_string(t, *(char *const *)place ? *(char *const *)place : "");
		break;
	case CONFIG_KIND_MB:
	case CONFIG_KIND_SIZE:
		text_appendf(t, "%" PRIu64 "%s", (*(const uint64_t *)place + UNITS_MB - 1) / UNITS_MB,
			config_rows[key].kind == CONFIG_KIND_SIZE ? "M" : "");
		break;
	case CONFIG_KIND_DURATION:
		append_seconds(t, *(const uint64_t *)place);
		break;
	case CONFIG_KIND_INTEGER:
		text_appendf(t, "%" PRId64, *(const int64_t *)place);
		break;
	case CONFIG_KIND_FLAG:
		text_append_string(t, *(const bool *)place ? "true" : "false");
		break;
	case CONFIG_KIND_ACCESS:
		text_append_string(t, access_names[*(const enum log_access *)place]);
		break;
	case CONFIG_KIND_AFFINITY:
		text_append_string(t, *(const bool *)place ? "gpu" : "none");
		break;
	}
}

int config_set(struct config *c, enum config_key key, const char *option, const char *value, struct gd_error *err)
{
	struct gd_error why = {0};
	if (!value && config_rows[key].kind == CONFIG_KIND_FLAG)
		value = "true";
	int r = value ? config_set_value(c, key, value, &why) : error_set(&why, -EINVAL, "a value is missing");
	return r < 0 ? error_set(err, r, "%s: %s", option, why.message) : 0;
}

/* Reads a whole file or pipe, at most LARGEST_FILE. */
static int read_all(int fd, struct text *t)
{
	char chunk[8192];
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return text_error(t);
		text_append(t, chunk, (size_t)n);
		if (t->length > LARGEST_FILE)
			return -EFBIG;
	}
}

#define OTHERWISE "name a file with --config (/dev/null for no settings)"

int config_load(const char *path, enum trust_choice choice, struct config *ret, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	int r = trust_open(path, choice, OTHERWISE, &fd, err);
	if (r == -EPERM)
		return r;
	if (r == -EINVAL && !(choice & TRUST_NAMED))
		return error_set(err, r,
			"cannot read configuration '%s': not a regular file; name it with --config to use it anyway",
			path);
	if (r < 0)
		return error_set(err, r, "cannot read configuration '%s': %s%s", path, error_words(r),
			r == -ENOENT ? "; expected a YAML file" : "");
	cleanup_(text_finish) struct text t = {0};
	r = read_all(fd, &t);
	if (r < 0)
		return error_set(err, r, "cannot read configuration '%s': %s", path, error_words(r));
	return config_parse(path, text_string(&t), t.length, ret, err);
}

/* Whether the name exists, even as a dangling link: opening it then reports the error. */
static bool exists(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int config_find(const char *option, char **ret)
{
	if (option || exists(CONFIG_HERE)) {
		char *path = strdup(option ? option : CONFIG_HERE);
		if (!path)
			return -ENOMEM;
		*ret = path;
		return 0;
	}
	return config_find_personal(ret);
}

int config_find_personal(char **ret)
{
	cleanup_(text_finish) struct text t = {0};
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	/* The XDG specification says to ignore relative paths. */
	if (base && *base == '/')
		text_appendf(&t, "%s/gpuq/config.yaml", base);
	else if (home && *home == '/')
		text_appendf(&t, "%s/.config/gpuq/config.yaml", home);
	if (text_error(&t))
		return -ENOMEM;
	*ret = t.length && exists(text_string(&t)) ? text_take(&t) : NULL;
	return 0;
}
