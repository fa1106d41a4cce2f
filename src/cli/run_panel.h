/* SPDX-License-Identifier: MIT */
/* The live panel of `gpuq run`: what the runner tells, put into a model and drawn. */
#ifndef CLI_RUN_PANEL_H
#define CLI_RUN_PANEL_H

#include "cli/queue_choice.h"
#include "queue/runner/runner.h"

struct run_panel;

/*
 * Looks on at a runner, and draws on the descriptor of `out`. NULL where no panel
 * can be shown there: the lines for people are all there is. Each job that ends gets a
 * line above the panel, unless it is to be quiet. `q` stays the caller's.
 */
struct run_panel *run_panel_create(FILE *out, bool quiet, const struct queue_choice *q);
/* For the runner's options; belongs to the panel. NULL where there is none. */
const struct runner_watch *run_panel_watch(const struct run_panel *p);
/* The last picture stays; below it, which jobs failed, and the command that retries them. */
void run_panel_destroy(struct run_panel *p);

#endif
