/* SPDX-License-Identifier: MIT */
#include "queue/input/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/trust.h"
#include "queue/input/line_tally.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal_home.h"

/* Lines are buffered up to about this size before they are written. */
#define BATCH_BYTES ((size_t)4 << 20)

int submit_begin(struct submit *s, struct journal *j, struct id_list *ids, struct gd_error *err)
{
	*s = (struct submit){.journal = j, .ids = ids, .now_ms = date_now_ms()};
	int r = journal_lock(j, err);
	if (r < 0 || j->next_id > 1)
		return r;
	/* Before the first job is added, a command that failed may have removed the folder. Then journal_lock() has
	 * created a new one, which has no file `home` yet. */
	r = journal_home_set(j);
	if (r < 0) {
		journal_unlock(j);
		return error_set(err, r, "cannot write to '%s': %s", j->dir_path, error_words(r));
	}
	return 0;
}

int submit_describe_cwd(struct job_spec *spec, int fd)
{
	struct stat st;
	cleanup_(closep) int here = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0 || fstat(here, &st) < 0)
		return -errno;
	spec->cwd_own = !trust_objection(here);
	spec->cwd_id = (struct directory_id){st.st_dev, st.st_ino};
	return 0;
}

static int submit_flush(struct submit *s, struct gd_error *err)
{
	size_t written = 0;
	int r = s->lines.length ? journal_append(s->journal, s->lines.data, s->lines.length, &written, err) : 0;
	size_t kept = 0;
	for (const char *p = s->lines.data; kept < s->pending_ids && (size_t)(p - s->lines.data) < written; kept++)
		p = (const char *)memchr(p, '\n', written - (size_t)(p - s->lines.data)) + 1;
	s->ids->count -= s->pending_ids - kept;
	s->pending_ids = 0;
	text_clear(&s->lines);
	return r;
}

/* In JSON, a byte takes at most six; this leaves space for the rest of the line. */
#define MAX_COMMAND_BYTES ((size_t)10 << 20)

int submit_check_size(size_t command_size, struct gd_error *err)
{
	if (command_size <= MAX_COMMAND_BYTES)
		return 0;
	return error_set(err, -E2BIG,
		"cannot add the job: its command is %zu MiB long, the limit is %zu MiB; put it into a script",
		command_size >> 20, MAX_COMMAND_BYTES >> 20);
}

int submit_add(struct submit *s, const struct job_spec *spec, struct gd_error *err)
{
	int r = submit_check_size(spec->command_size, err);
	if (r < 0)
		return r;
	uint64_t id = journal_take_ids(s->journal, 1);
	if (!id)
		return error_set(err, -EOVERFLOW,
			"cannot add the job: journal '%s' has no ids left; use another journal", s->journal->path);
	struct job_spec grouped;
	if (s->grouped) {
		s->group = s->group ? s->group : id;
		grouped = *spec;
		grouped.group = s->group;
		spec = &grouped;
	}
	record_write_add(&s->lines, id, s->now_ms, spec);
	if (text_error(&s->lines) || id_list_add(s->ids, id) < 0)
		return error_set(err, -ENOMEM, "cannot add the job: out of memory");
	s->pending_ids++;
	return s->lines.length > BATCH_BYTES ? submit_flush(s, err) : 0;
}

void submit_abort(struct submit *s)
{
	s->ids->count -= s->pending_ids;
	journal_unlock(s->journal);
	text_finish(&s->lines);
}

/* Jobs that could not be synced were not accepted: cancel them in the journal. */
static void take_back(struct journal *j, struct id_list *ids)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < ids->count; i++)
		record_write_control(&t, EVENT_CANCEL, ids->ids[i], REASON_NOT_SYNCED);
	if (t.length && !text_error(&t) && journal_lock(j, NULL) == 0) {
		if (journal_raise_fence(j, NULL) == 0)
			journal_append(j, t.data, t.length, NULL, NULL);
		journal_unlock(j);
	}
	ids->count = 0;
}

int submit_commit(struct submit *s, struct gd_error *err)
{
	int r = submit_flush(s, err);
	journal_unlock(s->journal);
	text_finish(&s->lines);
	if (s->ids->count == 0)
		return r;
	struct gd_error sync_error;
	int synced = journal_sync(s->journal, &sync_error);
	if (synced < 0) {
		take_back(s->journal, s->ids);
		return error_set(err, synced, "%s; the jobs already added were cancelled", sync_error.message);
	}
	return r;
}

/* ---- A commands file ------------------------------------------------------------------ */

/* A commands file that is being added. */
struct file_submit {
	struct commands *commands;
	struct job_spec base;
	struct job_after base_after; /* jobs that `base` waits for */
	struct job_after after;      /* jobs that the current line waits for */
	const struct jobs *jobs;
	struct line_name *names; /* names in the lines so far */
	size_t num_names, names_capacity;
};

/* A line that names its job. */
struct line_name {
	char *name;
	uint64_t id; /* 0: the line is only being checked, or was added before */
};

static void forget_names(struct file_submit *f)
{
	for (size_t i = 0; i < f->num_names; i++)
		free(f->names[i].name);
	f->num_names = 0;
}

static int note_name(struct file_submit *f, const struct job_options *o, uint64_t id)
{
	if (!(o->set & 1u << JOB_OPTION_NAME))
		return 0;
	char *name = strdup(o->name);
	if (!name || array_reserve(f->names, &f->names_capacity, f->num_names + 1) < 0) {
		free(name);
		return -ENOMEM;
	}
	f->names[f->num_names++] = (struct line_name){name, id};
	return 0;
}

/* Finds jobs of earlier lines, including those added from this file before. Jobs of other files do not match. */
static int find_name(void *context, const char *name, struct id_list *ret)
{
	const struct file_submit *f = context;
	bool found = false;
	int r = 0;
	for (size_t i = 0; r == 0 && i < f->num_names; i++) {
		if (strcmp(f->names[i].name, name) != 0)
			continue;
		found = true;
		if (f->names[i].id)
			r = id_list_add(ret, f->names[i].id);
	}
	for (size_t i = 0; r == 0 && found && f->base.file && i < f->jobs->count; i++) {
		const struct job *job = f->jobs->by_id[i];
		if (job->name && strcmp(job->name, name) == 0 && job->wish->file &&
			strcmp(job->wish->file, f->base.file) == 0)
			r = id_list_add(ret, job->id);
	}
	return r < 0 ? r : found;
}

/* The job of one line: `base` with the options of the line applied. */
static int line_spec(struct file_submit *f, const struct shell_command *c, struct job_spec *ret, struct gd_error *err)
{
	struct gd_error why;
	*ret = f->base;
	ret->command = c->bytes.data;
	ret->command_size = c->bytes.size;
	struct job_names names = {find_name, f};
	int r = job_options_resolve(c->options, f->jobs, &names, &f->after, ret, &why);
	if (r == 0)
		r = job_options_apply(c->options, ret, &why);
	return r < 0 ? error_set(err, r, "%s:%" PRIu64 ": %s", commands_name(f->commands), c->line, why.message) : 0;
}

static int rewind_file(struct commands *c, struct gd_error *err)
{
	int r = commands_rewind(c);
	return r < 0 ? error_set(err, r, "cannot read '%s': %s", commands_name(c), error_words(r)) : 0;
}

/* First pass, which adds nothing: a mistake in the last line must not leave the first half queued. */
static int check_file(struct file_submit *f, struct gd_error *err)
{
	struct shell_command command;
	struct job_spec spec;
	int r = rewind_file(f->commands, err);
	while (r == 0) {
		r = commands_next(f->commands, &command, err);
		if (r <= 0)
			return r;
		r = submit_check_size(command.bytes.size, err);
		if (r == 0)
			r = line_spec(f, &command, &spec, err);
		if (r == 0 && note_name(f, command.options, 0) < 0)
			r = error_set(err, -ENOMEM, "cannot read '%s': out of memory", commands_name(f->commands));
	}
	return r;
}

/* was_added: the line was added when the file was added before. */
static int add_line(struct file_submit *f, struct submit *s, const struct shell_command *c, struct job_spec *spec,
	bool was_added, struct gd_error *err)
{
	/* Hold the job if records are missing: one of them may be an earlier job of this line. */
	spec->held = spec->held || (f->base.file && (f->jobs->damaged || f->jobs->lines_lost));
	int r = was_added ? 0 : submit_add(s, spec, err);
	if (r == 0 && note_name(f, c->options, was_added ? 0 : s->ids->ids[s->ids->count - 1]) < 0)
		r = error_set(err, -ENOMEM, "cannot read '%s': out of memory", commands_name(f->commands));
	return r;
}

static int add_new_lines(struct file_submit *f, struct submit *s, struct gd_error *err)
{
	cleanup_(line_tally_finish) struct line_tally tally = {0};
	const struct jobs *js = f->jobs;
	const char *file = f->base.file;
	struct shell_command command;
	struct job_spec spec;
	int r = file ? line_tally_add_file(&tally, js, file) : 0;
	if (r < 0)
		return error_set(err, r, "cannot read '%s': out of memory", commands_name(f->commands));
	forget_names(f);
	r = rewind_file(f->commands, err);
	while (r == 0) {
		r = commands_next(f->commands, &command, err);
		if (r <= 0)
			return r;
		r = line_spec(f, &command, &spec, err);
		if (r == 0)
			r = add_line(f, s, &command, &spec,
				file && line_tally_take(&tally, command.bytes.data, command.bytes.size), err);
	}
	return r;
}

static int add_file(struct file_submit *f, struct submit *s, const struct job_options *options, struct gd_error *err)
{
	struct gd_error why;
	int r = options ? job_options_resolve(options, f->jobs, NULL, &f->base_after, &f->base, &why) : 0;
	return r < 0 ? error_set(err, r, "cannot add the jobs %s", why.message) : add_new_lines(f, s, err);
}

int submit_file(struct journal *j, struct commands *c, const struct job_spec *base, const struct job_options *options,
	struct id_list *ids, struct gd_error *err)
{
	struct follow f;
	struct submit s;
	/* Read most of the journal before taking the lock, to hold it only briefly. */
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	struct file_submit file = {.commands = c, .base = *base, .jobs = &f.jobs};
	r = check_file(&file, err);
	if (r == 0)
		r = submit_begin(&s, j, ids, err);
	if (r == 0) {
		r = follow_update(&f, err);
		if (r == 0)
			r = add_file(&file, &s, options, err);
		struct gd_error commit_error;
		int committed = submit_commit(&s, &commit_error);
		if (r == 0 && committed < 0)
			r = error_set(err, committed, "%s", commit_error.message);
	}
	job_after_finish(&file.base_after);
	job_after_finish(&file.after);
	forget_names(&file);
	free(file.names);
	follow_close(&f);
	return r;
}
