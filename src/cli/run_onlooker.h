/* SPDX-License-Identifier: MIT */
/*
 * What `gpuq run` shows of its jobs while another runner executes them: the lines and the panel that it would show if
 * it ran them itself. Jobs come from the journal, GPUs from what the runner publishes.
 */
#ifndef CLI_RUN_ONLOOKER_H
#define CLI_RUN_ONLOOKER_H

#include "cli/run_own_jobs.h"
#include "cli/run_parts.h"

/* How often to look, if there is a panel. */
#define RUN_ONLOOKER_PERIOD_MS 250

struct run_onlooker;

/* `run` and `f` stay the caller's. Until it is destroyed, what is said goes above the panel. */
int run_onlooker_create(struct run *run, struct follow *f, struct run_onlooker **ret);
/* For run_own_jobs_watch(). */
void run_onlooker_changed(void *context, const struct job *job, enum job_state old);
/* Draws the panel. */
void run_onlooker_look(struct run_onlooker *o, bool over);
bool run_onlooker_has_panel(const struct run_onlooker *o);
void run_onlooker_destroy(struct run_onlooker *o); /* NULL is fine */

#endif
