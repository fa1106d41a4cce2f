/* SPDX-License-Identifier: MIT */
#include "queue/journal/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_put.h"
#include "queue/journal/content_store.h"
#include "queue/journal/draft.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal_private.h"
#include "queue/journal/record.h"
#include "queue/journal/trust.h"

#define FLUSH_BYTES   ((size_t)1 << 20)
#define SEEN_PER_LINE 1000

struct pruning {
	struct journal *journal;
	struct follow follow;
	bool *drop; /* by position in follow.jobs */
	struct journal_reader reader;
	struct draft draft;
	struct text dropped;
	int archive_fd;
	off_t archive_size; /* size before this prune */
};

/* ---- Choice of jobs --------------------------------------------------------------- */

static bool may_go(const struct job *job, const struct prune_choice *choice)
{
	int64_t end = job->attempts && job->attempts->end_ms ? job->attempts->end_ms : job->submit_ms;
	/* A hook that has not run yet needs its job. */
	return job_is_final(job) && end <= choice->before_ms && !job->hooks_due &&
	       (!choice->only || number_set_has(choice->only, job->id));
}

uint64_t prune_choose(const struct jobs *js, const struct prune_choice *choice, bool *drop)
{
	for (size_t i = 0; i < js->count; i++)
		drop[i] = may_go(js->by_id[i], choice);
	/* Keep the jobs that a remaining job waits for or waited for, in chains of any length: it may be retried. */
	for (size_t i = js->count; i-- > 0;)
		for (uint64_t k = 1; !drop[i] && js->by_id[i]->after && k <= js->by_id[i]->after[0]; k++) {
			size_t at = jobs_index(js, js->by_id[i]->after[k]);
			if (at < js->count)
				drop[at] = false;
		}
	uint64_t n = 0;
	for (size_t i = 0; i < js->count; i++)
		n += drop[i];
	return n;
}

static bool is_dropped(const struct pruning *p, uint64_t id)
{
	size_t at = jobs_index(&p->follow.jobs, id);
	return at < p->follow.jobs.count && p->drop[at];
}

/* ---- Lines -------------------------------------------------------------------------- */

static int flush_dropped(struct pruning *p, size_t above)
{
	if (text_error(&p->dropped))
		return text_error(&p->dropped);
	if (p->dropped.length <= above)
		return 0;
	int r = file_write_all(p->archive_fd, p->dropped.data, p->dropped.length);
	text_clear(&p->dropped);
	return r;
}

/* Archives a line as in the file, with its seal. */
static int archive_line(struct pruning *p, const char *line, size_t size)
{
	const struct journal_reader *r = &p->reader;
	bool sealed = line == r->line && size < r->line_size;
	/* The reader has replaced the seal's comma with a brace. */
	text_append(&p->dropped, r->line, sealed ? size - 1 : r->line_size);
	if (sealed) {
		text_append_char(&p->dropped, ',');
		text_append(&p->dropped, r->line + size, r->line_size - size);
	}
	text_append_char(&p->dropped, '\n');
	return flush_dropped(p, FLUSH_BYTES);
}

static bool is_needed_keeper(const struct pruning *p, const struct record *r)
{
	const struct keeper_info *k = jobs_keeper(&p->follow.jobs, r->keeper.data, r->keeper.size);
	char path[96];
	snprintf(path, sizeof(path), "keepers/%.64s", k ? k->name : "");
	return k && faccessat(p->journal->dir_fd, path, F_OK, 0) == 0;
}

/* Keeps the pilots of remaining jobs, which are shown with the node of their pilot. */
static void mark_pilots(struct pruning *p)
{
	const struct jobs *js = &p->follow.jobs;
	for (struct queue_pilot *q = js->pilots; q; q = q->next)
		q->needed = !q->gone;
	for (size_t i = 0; i < js->count; i++) {
		const struct keeper_info *k = js->by_id[i]->keeper;
		struct queue_pilot *q =
			k && k->is_pilot && !p->drop[i] ? jobs_pilot(js, k->name, strlen(k->name)) : NULL;
		if (q)
			q->needed = true;
	}
}

static bool is_needed_pilot(const struct pruning *p, const struct record *r)
{
	const struct queue_pilot *q = jobs_pilot(&p->follow.jobs, r->pilot.data, r->pilot.size);
	return !q || q->needed;
}

/* Whether a line is obsolete. Only the last coordinator matters; its line has the longest lease of all coordinators. */
static bool is_outlived(const struct pruning *p, const struct record *r)
{
	switch (r->event) {
	case EVENT_KEEPER:
		return !is_needed_keeper(p, r);
	case EVENT_COORDINATOR:
		return r->epoch > 0 && (uint64_t)r->epoch < p->follow.jobs.epoch;
	case EVENT_PILOT:
		return !is_needed_pilot(p, r);
	default:
		return false;
	}
}

static int sort_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct pruning *p = context;
	struct record r;
	(void)line_no;
	bool bad = size == 0 || record_parse(line, size, &r) < 0;
	/* The new file already has its own first line, and lost numbers of the old file mean nothing in it. */
	if (!bad && (r.event == EVENT_JOURNAL || r.event == EVENT_LOSS))
		return 0;
	if (bad || (r.id && is_dropped(p, r.id)) || is_outlived(p, &r))
		return archive_line(p, line, size);
	cleanup_(text_finish) struct text kept = {0};
	text_append(&kept, line, size);
	text_append_char(&kept, '\n');
	return text_error(&kept) ? text_error(&kept) : draft_add(&p->draft, kept.data, kept.length);
}

/* ---- Lines of commands files ------------------------------------------------------------ */

static void end_seen(struct text *t)
{
	text_append_string(t, "\"}\n");
}

static int write_seen(struct pruning *p)
{
	const struct jobs *js = &p->follow.jobs;
	const char *file = NULL;
	size_t in_line = 0;
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (!p->drop[i] || !job->wish->file || (job->reason && strcmp(job->reason, REASON_NOT_SYNCED) == 0))
			continue;
		/* Interned: the same file has the same address. */
		if (job->wish->file != file || in_line == SEEN_PER_LINE) {
			if (file)
				end_seen(&t);
			file = job->wish->file;
			in_line = 0;
			record_begin_seen(&t, file);
		}
		char hash[HASH_TEXT];
		hash_format(hash_bytes(job->command, job->command_size), hash);
		text_append(&t, hash, HASH_TEXT - 1);
		in_line++;
	}
	if (file)
		end_seen(&t);
	return text_error(&t) ? text_error(&t) : t.length ? draft_add(&p->draft, t.data, t.length) : 0;
}

/* ---- Pruning ------------------------------------------------------------------------------ */

static int archive_failed(const char *path, int code, struct gd_error *err)
{
	return error_set(err, code, "cannot open archive '%s': %s", path, error_words(code));
}

static int open_archive(struct pruning *p, const char *path, struct gd_error *err)
{
	int dir_fd = p->journal->parent_fd;
	const char *name = strrchr(path, '/') + 1;
	const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	char last;
	p->archive_fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL, 0600);
	if (p->archive_fd >= 0)
		return 0;
	p->archive_fd = errno == EEXIST ? openat(dir_fd, name, flags) : -1;
	if (p->archive_fd < 0 || fstat(p->archive_fd, &st) < 0)
		return archive_failed(path, -errno, err);
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "cannot open archive '%s': it is not a regular file", path);
	if (st.st_nlink > 1)
		return error_set(err, -EPERM,
			"refusing to change '%s': it has several names (hard links), and may be the journal of another queue; move it away, or replace it with a copy",
			path);
	int r = p->journal->accepted ? 0 : trust_check(p->archive_fd, path, TRUST_OTHER_JOURNAL, err);
	if (r < 0)
		return r;
	if (!journal_recognize_archive(p->archive_fd, st.st_size))
		return error_set(
			err, -EINVAL, "refusing to change '%s': it is not an archive of gpuq; move it away", path);
	p->archive_size = st.st_size;
	/* An incomplete line after a crash must not corrupt our first line. */
	if (st.st_size > 0 && pread(p->archive_fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
		text_append_char(&p->dropped, '\n');
	return 0;
}

static int open_files(struct pruning *p, struct gd_error *err)
{
	cleanup_(freep) char *archive = NULL;
	if (asprintf(&archive, "%s.archive", p->journal->path) < 0)
		return error_set(err, -ENOMEM, "cannot prune: out of memory");
	int r = open_archive(p, archive, err);
	if (r < 0)
		return r;
	return draft_open(&p->draft, p->journal, err);
}

static int write_files(struct pruning *p)
{
	int e = write_seen(p);
	if (e < 0)
		return e;
	mark_pilots(p);
	/* The locked file, regardless of the file at the path. */
	e = journal_reader_init_open(&p->reader, p->journal);
	if (e < 0)
		return e;
	p->reader.sorted = p->follow.reader.sorted;
	e = journal_reader_read(&p->reader, sort_line, p);
	if (e == 1)
		e = -ESTALE; /* another file is at the path */
	if (e == 0)
		e = flush_dropped(p, 0);
	/* Sync the archive first: it must contain what is removed from the journal. */
	if (e == 0 && fsync(p->archive_fd) < 0)
		e = -errno;
	return e == 0 ? draft_sync(&p->draft) : e;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Removes environments that no job needs anymore: they contain secrets. */
static void sweep_environments(struct pruning *p)
{
	const struct jobs *js = &p->follow.jobs;
	cleanup_(freep) const char **used = calloc(js->count + 1, sizeof(*used));
	size_t n = 0;
	if (!used)
		return; /* the next prune does it */
	for (size_t i = 0; i < js->count; i++) {
		const char *env = js->by_id[i]->wish->env;
		/* A job without an environment uses the runner's, whose name is not recorded. */
		if (!p->drop[i] && !env)
			return;
		/* Interned: consecutive jobs with equal environments have the same address. */
		if (!p->drop[i] && (n == 0 || used[n - 1] != env))
			used[n++] = env;
	}
	qsort(used, n, sizeof(*used), compare_names);
	content_store_sweep(p->journal->dir_fd, STORE_ENVIRONMENTS, used, n);
}

static void sweep_scripts(struct pruning *p)
{
	const struct jobs *js = &p->follow.jobs;
	cleanup_(freep) const char **used = calloc(js->count + 1, sizeof(*used));
	size_t n = 0;
	for (size_t i = 0; used && i < js->count; i++)
		if (!p->drop[i] && js->by_id[i]->wish->script)
			used[n++] = js->by_id[i]->wish->script;
	if (!used)
		return;
	qsort(used, n, sizeof(*used), compare_names);
	content_store_sweep(p->journal->dir_fd, STORE_SCRIPTS, used, n);
}

/* Groups equal paths, which are interned: they have the same address. */
static int compare_trees(const void *a, const void *b)
{
	const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
	if (x->wish->tree != y->wish->tree)
		return x->wish->tree < y->wish->tree ? -1 : 1;
	return 0;
}

/* Lists the worktrees that only pruned jobs use. If out of memory, they are not removed. */
static void collect_trees(struct pruning *p, struct prune_result *ret)
{
	const struct jobs *js = &p->follow.jobs;
	cleanup_(freep) const struct job **with = calloc(js->count + 1, sizeof(*with));
	size_t n = 0;
	for (size_t i = 0; with && i < js->count; i++)
		if (js->by_id[i]->wish->tree)
			with[n++] = js->by_id[i];
	ret->trees = n ? calloc(n, sizeof(*ret->trees)) : NULL;
	if (!ret->trees)
		return;
	qsort(with, n, sizeof(*with), compare_trees);
	for (size_t i = 0, next; i < n; i = next) {
		bool needed = false;
		for (next = i; next < n && with[next]->wish->tree == with[i]->wish->tree; next++)
			needed = needed || !is_dropped(p, with[next]->id);
		if (needed)
			continue;
		struct pruned_tree *t = &ret->trees[ret->num_trees];
		t->path = strdup(with[i]->wish->tree);
		t->commit = strdup(with[i]->wish->commit ? with[i]->wish->commit : "");
		ret->num_trees++;
	}
}

/* If out of memory, some ids are missing from the result: the prune itself is done. */
static void collect_ids(struct pruning *p, struct prune_result *ret)
{
	const struct jobs *js = &p->follow.jobs;
	for (size_t i = 0; i < js->count; i++)
		if (p->drop[i] && number_set_add(&ret->ids, js->by_id[i]->id, js->by_id[i]->id) < 0)
			return;
}

void prune_result_finish(struct prune_result *r)
{
	number_set_finish(&r->ids);
	for (size_t i = 0; i < r->num_trees; i++) {
		free(r->trees[i].path);
		free(r->trees[i].commit);
	}
	free(r->trees);
	*r = (struct prune_result){0};
}

/* Removes contents that only pruned jobs needed. */
static void sweep(struct pruning *p)
{
	sweep_environments(p);
	sweep_scripts(p);
}

static int prune_locked(
	struct pruning *p, const struct prune_choice *choice, struct prune_result *ret, struct gd_error *err)
{
	int r = follow_open_journal(p->journal, &p->follow, err);
	if (r < 0)
		return r;
	if (p->follow.reader.dev != p->journal->dev || p->follow.reader.ino != p->journal->ino)
		return error_set(
			err, -ESTALE, "cannot prune '%s': it was replaced meanwhile; try again", p->journal->path);
	const struct jobs *js = &p->follow.jobs;
	/* The clean copy would hide that records are missing. */
	if (js->damaged)
		return error_set(err, -EBADMSG,
			"cannot prune '%s': the journal is damaged; run 'gpuq verify', then 'gpuq verify --repair'",
			p->journal->path);
	p->drop = calloc(js->count + 1, sizeof(*p->drop));
	if (!p->drop)
		return error_set(err, -ENOMEM, "cannot prune: out of memory");
	*ret = (struct prune_result){.pruned = prune_choose(js, choice, p->drop)};
	ret->kept = js->count - ret->pruned;
	if (ret->pruned == 0) {
		sweep(p);
		return 0;
	}
	r = open_files(p, err);
	if (r < 0)
		return r;
	r = write_files(p);
	if (r < 0) {
		bool cut = ftruncate(p->archive_fd, p->archive_size) == 0;
		return error_set(err, r, "cannot prune '%s': %s; the journal is unchanged%s", p->journal->path,
			error_words(r), cut ? "" : ", but its archive has changed");
	}
	r = draft_commit(&p->draft, err);
	if (r == 0) {
		sweep(p);
		collect_trees(p, ret);
		collect_ids(p, ret);
	}
	return r;
}

int prune(struct journal *j, const struct prune_choice *choice, struct prune_result *ret, struct gd_error *err)
{
	struct pruning p = {.journal = j, .archive_fd = -1, .follow = {.watch_fd = -1, .dir_fd = -1}};
	p.follow.reader.fd = p.reader.fd = p.draft.fd = -1;
	int r = journal_lock(j, err);
	if (r < 0)
		return r;
	r = prune_locked(&p, choice, ret, err);
	draft_close(&p.draft);
	journal_unlock(j);
	journal_reader_finish(&p.reader);
	follow_close(&p.follow);
	free(p.drop);
	text_finish(&p.dropped);
	closep(&p.archive_fd);
	return r;
}
