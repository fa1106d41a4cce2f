/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "pool/binding.h"
#include "pool/pool_private.h"
#include "pool/settings.h"
#include "pool/worker.h"

#define LOG_NAME "worker-%zu.log"

static bool names(const char *entry, const char *name)
{
	size_t n = strlen(name);
	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static bool is_changed(const char *entry, const struct gd_env_change *changes)
{
	if (names(entry, WORKER_ENV))
		return true;
	for (const struct gd_env_change *c = changes; c->name; c++)
		if (names(entry, c->name))
			return true;
	return false;
}

static char *assignment(const char *name, const char *value)
{
	char *entry;
	return asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry;
}

static void free_strings(char **strings)
{
	for (size_t i = 0; strings && strings[i]; i++)
		free(strings[i]);
	free(strings);
}

/* The given environment with the changes, and the mark of a worker. NULL if out of memory. */
static char **make_environment(const char *const *given, const struct gd_env_change *changes)
{
	size_t room = 2;
	for (const char *const *e = given; e && *e; e++)
		room++;
	for (const struct gd_env_change *c = changes; c->name; c++)
		room++;
	char **result = calloc(room, sizeof(*result));
	if (!result)
		return NULL;
	size_t n = 0;
	bool failed = false;
	for (const char *const *e = given; e && *e && !failed; e++)
		if (!is_changed(*e, changes))
			failed = !(result[n++] = strdup(*e));
	for (const struct gd_env_change *c = changes; c->name && !failed; c++)
		if (c->value)
			failed = !(result[n++] = assignment(c->name, c->value));
	if (!failed)
		failed = !(result[n++] = assignment(WORKER_ENV, WORKER_PROTOCOL));
	if (!failed)
		return result;
	free_strings(result);
	return NULL;
}

static int plan_environments(struct gd_pool *p, struct bindings *bindings)
{
	p->env_changes = calloc(p->num_slots + 1, sizeof(*p->env_changes));
	p->environments = calloc(p->num_slots + 1, sizeof(*p->environments));
	if (!p->env_changes || !p->environments)
		return -ENOMEM;
	const char *const *given = p->options.worker_env ? p->options.worker_env : (const char *const *)environ;
	for (size_t i = 0; i < p->num_slots; i++) {
		p->env_changes[i] = take_ptr(bindings->items[i].changes);
		if (!p->options.worker_argv)
			continue;
		p->environments[i] = make_environment(given, p->env_changes[i]);
		if (!p->environments[i])
			return -ENOMEM;
	}
	return 0;
}

/* A log that a worker has created is private. */
static const char *log_objection(const struct stat *st)
{
	if (st->st_uid != geteuid())
		return "it belongs to another user";
	if (st->st_mode & 077)
		return "other users may access it";
	return st->st_nlink > 1 ? "it has several names (hard links)" : NULL;
}

/*
 * Workers open their logs by path whenever they start, so no other user may be able to put a file there. -ENOENT: the
 * folder does not exist, and err is not set.
 */
static int check_outputs(const char *folder, size_t num_slots, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	int r = trust_open_directory(folder, true, &fd, &why);
	if (r == -ENOENT)
		return r;
	if (r < 0 && r != -EPERM)
		return error_set(
			err, r, "cannot open the folder for the workers' output '%s': %s", folder, error_words(r));
	const char *objection = r == 0 ? trust_objection(fd) : NULL;
	if (r < 0 || objection)
		return trust_refuse_path(folder, false, "choose another folder, or set GPUQ_TRUST=1 if you accept that",
			err, "refusing to write the workers' output to '%s': %s%s", folder, objection ? "it " : "",
			objection ? objection : why.message);
	for (size_t i = 0; i < num_slots; i++) {
		char name[32];
		struct stat st;
		snprintf(name, sizeof(name), LOG_NAME, i);
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		objection = log_objection(&st);
		if (objection)
			return error_set(err, -EPERM,
				"refusing to append the workers' output to '%s/%s': %s; remove it, or set GPUQ_TRUST=1 if you accept that",
				folder, name, objection);
	}
	return 0;
}

/* Checked before it is created, and again afterwards: another user may have created it in between. */
static int make_output_folder(const struct gd_pool *p, struct gd_error *err)
{
	const char *folder = p->options.output_dir;
	bool check = !p->trust_output && !trust_is_off();
	int r = check ? check_outputs(folder, p->num_slots, err) : -ENOENT;
	if (r != -ENOENT)
		return r;
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, "cannot create the folder for the workers' output '%s': %s", folder,
			error_words(errno));
	r = check ? check_outputs(folder, p->num_slots, err) : 0;
	return r == -ENOENT ? error_set(err, r, "cannot open the folder for the workers' output '%s': %s", folder,
				      error_words(r))
			    : r;
}

static int plan_outputs(struct gd_pool *p, struct gd_error *err)
{
	const struct gd_options *o = &p->options;
	if (o->output == GD_OUTPUT_INHERIT)
		return 0;
	int r = o->output == GD_OUTPUT_FILES ? make_output_folder(p, err) : 0;
	if (r < 0)
		return r;
	p->output_paths = calloc(p->num_slots + 1, sizeof(*p->output_paths));
	if (!p->output_paths)
		return -ENOMEM;
	for (size_t i = 0; i < p->num_slots; i++) {
		char *path;
		int n = o->output == GD_OUTPUT_SILENT ? asprintf(&path, "/dev/null")
						      : asprintf(&path, "%s/" LOG_NAME, o->output_dir, i);
		if (n < 0)
			return -ENOMEM;
		p->output_paths[i] = path;
	}
	return 0;
}

/* Packed once for all workers. */
static int plan_settings(struct gd_pool *p, struct gd_error *err)
{
	int r = settings_pack(p->options.settings, p->options.num_settings, &p->settings_fd);
	if (r < 0)
		return error_set(err, r, "cannot pack %zu settings for the workers: %s", p->options.num_settings,
			error_words(r));
	return 0;
}

int plan_fill(struct gd_pool *p, struct bindings *bindings, struct gd_error *err)
{
	const struct gd_options *o = &p->options;
	int r = plan_environments(p, bindings);
	if (r >= 0)
		r = plan_outputs(p, err);
	if (r == -ENOMEM)
		return error_set(err, r, "not enough memory for %zu workers", p->num_slots);
	if (r >= 0)
		r = plan_settings(p, err);
	if (r < 0)
		return r;
	p->plan = (struct warden_plan){
		.num_slots = p->num_slots,
		.ops = o->worker,
		.argv = o->worker_argv,
		.environments = (char *const *const *)p->environments,
		.env_changes = (const struct gd_env_change *const *)p->env_changes,
		.output_paths = (const char *const *)p->output_paths,
		.event_fd = p->event_fd,
		.settings_fd = p->settings_fd,
		.grace_ns = (uint64_t)o->grace_ms * 1000000,
		.setup_timeout_ns = (uint64_t)o->setup_timeout_ms * 1000000,
		.cleanup_timeout_ns = (uint64_t)o->cleanup_timeout_ms * 1000000,
		.kill_wait_ns = (uint64_t)o->kill_wait_ms * 1000000,
		.max_rss_bytes = o->max_worker_rss_bytes,
	};
	return 0;
}

void plan_free(struct gd_pool *p)
{
	close_fd(&p->settings_fd);
	for (size_t i = 0; i < p->num_slots; i++) {
		if (p->env_changes)
			free(p->env_changes[i]);
		if (p->environments)
			free_strings(p->environments[i]);
	}
	free(p->env_changes);
	free(p->environments);
	free_strings(p->output_paths);
}
