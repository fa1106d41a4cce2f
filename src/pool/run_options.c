/* SPDX-License-Identifier: MIT */
#include "pool/run_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static bool has_key(const struct gd_setting *settings, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (settings[i].key && strcmp(settings[i].key, key) == 0)
			return true;
	return false;
}

/* The options' settings and the run's; the run's replace those of the same key. */
static int merge_settings(struct gd_options *o, const struct gd_run *run, struct gd_setting **ret)
{
	struct gd_setting *all = calloc(o->num_settings + run->num_settings + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	size_t count = 0;
	for (size_t i = 0; i < o->num_settings; i++)
		if (!has_key(run->settings, run->num_settings, o->settings[i].key))
			all[count++] = o->settings[i];
	for (size_t i = 0; i < run->num_settings; i++)
		all[count++] = run->settings[i];
	o->settings = all;
	o->num_settings = count;
	*ret = all;
	return 0;
}

int run_options_fill(const struct gd_options *options, const struct gd_run *run, struct gd_options *o,
	struct gd_setting **ret, struct gd_error *err)
{
	*o = *options;
	o->total_tasks = run->total_tasks;
	if (run->task_timeout_ms)
		o->task_timeout_ms = run->task_timeout_ms;
	if (run->base_seed != 0 || run->has_base_seed)
		o->base_seed = run->base_seed; /* has_base_seed is set: see options_copy() */
	if (run->num_settings == 0)
		return 0;
	if (!run->settings)
		return error_set(
			err, -EINVAL, "num_settings of the run is %zu, but settings is NULL", run->num_settings);
	return merge_settings(o, run, ret) < 0 ? error_set(err, -ENOMEM, "not enough memory for the run's settings")
					       : 0;
}
