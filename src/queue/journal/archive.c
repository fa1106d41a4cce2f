/* SPDX-License-Identifier: MIT */
#include "queue/journal/archive.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/journal.h"

int archive_read(const char *journal_path, bool checked, struct jobs *ret, struct gd_error *err)
{
	struct journal_reader reader;
	struct jobs jobs;
	cleanup_(freep) char *path = NULL;
	if (asprintf(&path, "%s.archive", journal_path) < 0) {
		path = NULL;
		return error_set(err, -ENOMEM, "cannot read the archive of '%s': out of memory", journal_path);
	}
	jobs_init(&jobs);
	int r = journal_reader_init(&reader, path);
	if (r == 0) {
		reader.unordered = true;
		reader.checked = checked;
		r = journal_reader_read(&reader, jobs_apply, &jobs);
		if (r < 0)
			journal_reader_explain(&reader, r, err);
		journal_reader_finish(&reader);
	} else {
		error_set(err, r, "cannot read archive '%s': %s", path, error_words(r));
	}
	if (r < 0) {
		jobs_finish(&jobs);
		return r;
	}
	*ret = jobs;
	return 0;
}
