/* SPDX-License-Identifier: MIT */
/*
 * The part of a log's name on a cluster that other users cannot guess.
 *
 * The coordinator writes the name into the journal before the pilot creates the file, so in a folder that others can
 * write, a guessable name could be taken by a file of another user. The pilot does not use another name.
 */
#ifndef SLURM_LOG_NAME_H
#define SLURM_LOG_NAME_H

#include "slurm/frame.h"
#include "slurm/mac.h"

/* The same for the coordinator and the pilot, which share the secret of the queue. */
uint64_t log_name_tag(const uint8_t secret[MAC_KEY_SIZE], struct attempt_id id, uint64_t slurm_job);

#endif
