/* SPDX-License-Identifier: MIT */
/* FILE.archive next to a journal: the lines of finished jobs that prune has removed from it. */
#ifndef QUEUE_JOURNAL_ARCHIVE_H
#define QUEUE_JOURNAL_ARCHIVE_H

#include "gpu_dispatch.h"
#include "queue/journal/jobs.h"

/*
 * Reads the whole archive into `ret`; release with jobs_finish(). A missing archive has no jobs. A job that is no
 * longer in the journal is in the archive: prune syncs the archive before it replaces the journal. checked: as for the
 * reader of the journal, refuses an archive that other users can change or have created (-EPERM).
 */
int archive_read(const char *journal_path, bool checked, struct jobs *ret, struct gd_error *err);

#endif
