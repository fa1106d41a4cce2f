/* SPDX-License-Identifier: MIT */
/*
 * The output of `gpuq run` while another runner executes its jobs: the same lines and panel as if it ran them itself.
 * Jobs come from the journal, GPUs from the runner's published state.
 */
#ifndef CLI_RUN_ONLOOKER_H
#define CLI_RUN_ONLOOKER_H

#include "cli/run_own_jobs.h"
#include "cli/run_parts.h"

/* How often to update, if there is a panel. */
#define RUN_ONLOOKER_PERIOD_MS 250

struct run_onlooker;

/* `run` and `f` are borrowed. Until it is destroyed, messages go above the panel. */
int run_onlooker_create(struct run *run, struct follow *f, struct run_onlooker **ret);
/* For run_own_jobs_watch(). */
void run_onlooker_changed(void *context, const struct job *job, enum job_state old);
/* Draws the panel. */
void run_onlooker_look(struct run_onlooker *o, bool over);
bool run_onlooker_has_panel(const struct run_onlooker *o);
void run_onlooker_destroy(struct run_onlooker *o); /* NULL is fine */

#endif
