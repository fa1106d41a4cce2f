/* SPDX-License-Identifier: MIT */
/* What the parts of gpuq-launch have in common: what was typed, and who tells what came of it. */
#ifndef CLI_LAUNCH_CLI_H
#define CLI_LAUNCH_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "gpu_dispatch.h"

struct launch_arguments {
	struct gd_launch_options options;
	const char *json;           /* file, "-" or NULL */
	const char *worker;         /* NAME or FILE.so, or NULL */
	const char *worker_command; /* or NULL */
	bool dry_run;
	bool list_workers;
	/* What the options point to. */
	const char **patterns;
	struct gd_setting *settings;
	char **owned; /* keys of settings, cut off their values */
	size_t num_owned;
	char **program;
	char *plugin;
};

/* Leaves with a usage message where it makes no sense. */
void launch_arguments_parse(struct launch_arguments *a, int argc, char **argv);
void launch_arguments_finish(struct launch_arguments *a);

/* What is shown while a run goes on: a panel, or, where there can be none, a line now and then. */
struct launch_view {
	FILE *out;
	bool live;                  /* there can be a panel */
	struct launch_panel *panel; /* NULL: there is none */
	bool told_stop;             /* that Ctrl-C was noticed */
	double next_seconds;
};

void launch_view_begin(struct launch_view *v, FILE *out);
/* From here on workers run. */
void launch_view_start(struct launch_view *v);
void launch_view_progress(struct launch_view *v, const struct gd_launch_progress *p);
void launch_view_result(struct launch_view *v, const struct gd_file_result *r);
void launch_view_warning(struct launch_view *v, const char *words);
void launch_view_end(struct launch_view *v);

/* How many need not be done, and, where that is all of them, what to type to do them all the same. */
void launch_print_skipped(size_t skipped, bool all, FILE *out);
/* Table and totals; the failures once more where they have scrolled by. */
int launch_print_summary(const struct gd_launch_summary *s, bool failures, FILE *out);
/* One object, to `fd`. */
int launch_write_json(const struct gd_launch_summary *s, int fd);
/* What there is, how it would be shared out, how long it would take. */
int launch_dry_run(struct gd_launcher *l, const struct gd_launch_options *o, bool (*stopped)(void));

#endif
