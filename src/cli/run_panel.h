/* SPDX-License-Identifier: MIT */
/* The live panel of `gpuq run`: puts the runner's reports into a model and draws it. */
#ifndef CLI_RUN_PANEL_H
#define CLI_RUN_PANEL_H

#include "cli/queue_choice.h"
#include "queue/runner/runner.h"

struct run_panel;

/*
 * Watches a runner, and draws on the descriptor of `out`. NULL if no panel can be shown
 * there: then only lines are printed. Each ended job gets a line above the panel,
 * unless `quiet`. `q` is borrowed.
 */
struct run_panel *run_panel_create(FILE *out, bool quiet, const struct queue_choice *q);
/* For the runner's options; belongs to the panel. NULL if p is NULL. */
const struct runner_watch *run_panel_watch(const struct run_panel *p);
/* The last picture stays; prints below it which jobs failed, and the command that retries them. */
void run_panel_destroy(struct run_panel *p);

#endif
