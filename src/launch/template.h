/* SPDX-License-Identifier: MIT */
/*
 * A command with {words} in it, filled in for each file. `{{` and `}}` stand for
 * the braces themselves; any other brace that is not part of a known {word} is an
 * error, so that a mistyped word is not passed on as text. An argument stays one
 * argument whatever is filled in. File names never become code: see base/code_place.h.
 */
#ifndef LAUNCH_TEMPLATE_H
#define LAUNCH_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch_launch.h"

/* The values of the words. */
struct template_values {
	const struct gd_file *file;
	int gpu;
	int64_t seed;
	const struct gd_setting *settings;
	size_t num_settings;
};

/* Checks that every word of argv is known and every brace paired; otherwise -EINVAL, naming the bad word and the known
 * ones. */
int template_check(
	const char *const *argv, const struct gd_setting *settings, size_t num_settings, struct gd_error *err);

/* Whether the command contains a name of the file, as {file} or {output}. */
bool template_has_names(const char *const *argv);

/*
 * The arguments for a file; one allocation, release with free(). -EINVAL if template_check() would have failed;
 * -EPERM: the command could execute the file's name or take it for an option. err is set for all codes.
 */
int template_fill(const char *const *argv, const struct template_values *values, char ***ret, struct gd_error *err);

/* Sets GPUQ_FILE, GPUQ_NAME, GPUQ_STEM, GPUQ_DIR and GPUQ_OUTPUT in this process, which executes the command. */
int template_set_variables(const struct template_values *values);

#endif
