/* SPDX-License-Identifier: MIT */
#include "queue/journal/archive.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "queue/journal/journal.h"

int archive_read(const char *journal_path, struct jobs *ret)
{
	struct journal_reader reader;
	struct jobs jobs;
	cleanup_(freep) char *path = NULL;
	if (asprintf(&path, "%s.archive", journal_path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	int r = journal_reader_init(&reader, path);
	if (r < 0)
		return r;
	jobs_init(&jobs);
	r = journal_reader_read(&reader, jobs_apply, &jobs);
	journal_reader_finish(&reader);
	if (r < 0) {
		jobs_finish(&jobs);
		return r;
	}
	*ret = jobs;
	return 0;
}
