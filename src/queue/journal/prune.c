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
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_put.h"
#include "queue/journal/environment.h"
#include "queue/journal/follow.h"
#include "queue/journal/record.h"
#include "queue/journal/trust.h"

#define DRAFT         "prune.draft"
#define FLUSH_BYTES   ((size_t)1 << 20)
#define SEEN_PER_LINE 1000

struct pruning {
	struct journal *journal;
	struct follow follow;
	bool *drop; /* by position in follow.jobs */
	uint64_t legacy_id;
	struct text kept, dropped;
	int draft_fd, archive_fd;
	off_t archive_size; /* before */
};

/* ---- Which ------------------------------------------------------------------------ */

static uint64_t choose(struct pruning *p, int64_t before_ms)
{
	const struct jobs *js = &p->follow.jobs;
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		int64_t end = job->attempts && job->attempts->end_ms ? job->attempts->end_ms : job->submit_ms;
		/* The hook that the next runner is to run must find its job. */
		bool hook = job->hook_due && job->wish->on_finish;
		p->drop[i] = job_is_final(job) && end <= before_ms && !hook;
	}
	/* What a job that stays waits for or waited for, however long the chain: it may be tried again. */
	for (size_t i = js->count; i-- > 0;)
		for (uint64_t k = 1; !p->drop[i] && js->by_id[i]->after && k <= js->by_id[i]->after[0]; k++) {
			size_t at = jobs_index(js, js->by_id[i]->after[k]);
			if (at < js->count)
				p->drop[at] = false;
		}
	uint64_t n = 0;
	for (size_t i = 0; i < js->count; i++)
		n += p->drop[i];
	return n;
}

static bool is_dropped(const struct pruning *p, uint64_t id)
{
	size_t at = jobs_index(&p->follow.jobs, id);
	return at < p->follow.jobs.count && p->drop[at];
}

/* ---- Lines -------------------------------------------------------------------------- */

static int flush(struct text *t, int fd, size_t above)
{
	if (t->length <= above)
		return 0;
	int r = text_error(t) ? text_error(t) : file_write_all(fd, t->data, t->length);
	text_clear(t);
	return r;
}

/* In our own words, for its id was only its place in the file. */
static void write_legacy(struct text *t, const struct job *job)
{
	const struct job_attempt *a = job->attempts;
	struct job_spec spec = {.command = job->command,
		.command_size = job->command_size,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1};
	record_write_add(t, job->id, job->submit_ms, &spec);
	if (!a)
		return;
	record_write_start(t, &(struct attempt_start){.id = job->id,
				      .attempt = a->attempt,
				      .time_ms = a->start_ms,
				      .pid = a->pid,
				      .keeper = "",
				      .log = a->log,
				      .gpus = a->gpus,
				      .num_gpus = a->num_gpus});
	record_write_end(t, &(struct attempt_end){.id = job->id,
				    .attempt = a->attempt,
				    .time_ms = a->end_ms ? a->end_ms : a->start_ms,
				    .state = (enum job_state)a->state,
				    .exit_code = a->exit_code,
				    .signal = a->signal,
				    .reason = a->reason,
				    .duration_ms = a->duration_ms,
				    .peak_mem_mb = a->peak_mem_mb});
}

static bool is_needed_keeper(const struct pruning *p, const struct record *r)
{
	const struct jobs *js = &p->follow.jobs;
	for (size_t i = 0; i < js->num_keepers; i++)
		if (json_is(&r->keeper, js->keepers[i]->name)) {
			char path[96];
			snprintf(path, sizeof(path), "keepers/%.64s", js->keepers[i]->name);
			return faccessat(p->journal->dir_fd, path, F_OK, 0) == 0;
		}
	return false;
}

static int sort_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct pruning *p = context;
	struct record r;
	(void)line_no;
	bool bad = size == 0 || record_parse(line, size, &r) < 0;
	if (!bad && r.event == EVENT_JOURNAL)
		return 0; /* a new one has been written */
	if (!bad && r.event == EVENT_LEGACY) {
		struct job *job = jobs_find(&p->follow.jobs, ++p->legacy_id);
		if (job && !is_dropped(p, job->id))
			write_legacy(&p->kept, job);
		if (!job || is_dropped(p, job->id))
			goto archive;
	} else if (bad || (r.id && is_dropped(p, r.id)) || (r.event == EVENT_KEEPER && !is_needed_keeper(p, &r))) {
		goto archive;
	} else {
		text_append(&p->kept, line, size + 1); /* with its newline */
	}
	if (!bad && r.id > p->legacy_id && r.event == EVENT_ADD)
		p->legacy_id = r.id;
	return flush(&p->kept, p->draft_fd, FLUSH_BYTES);
archive:
	if (!bad && r.id > p->legacy_id && r.event == EVENT_ADD)
		p->legacy_id = r.id;
	text_append(&p->dropped, line, size + 1);
	return flush(&p->dropped, p->archive_fd, FLUSH_BYTES);
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
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (!p->drop[i] || !job->wish->file || (job->reason && strcmp(job->reason, REASON_NOT_SYNCED) == 0))
			continue;
		/* Interned: the same file has the same address. */
		if (job->wish->file != file || in_line == SEEN_PER_LINE) {
			if (file)
				end_seen(&p->kept);
			file = job->wish->file;
			in_line = 0;
			record_begin_seen(&p->kept, file);
		}
		char hash[HASH_TEXT];
		hash_format(hash_bytes(job->command, job->command_size), hash);
		text_append(&p->kept, hash, HASH_TEXT - 1);
		in_line++;
	}
	if (file)
		end_seen(&p->kept);
	return flush(&p->kept, p->draft_fd, 0);
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* The journal stays its owner's, also where root prunes it. */
static int keep_owner(int fd, const struct stat *journal)
{
	return journal->st_uid != geteuid() && fchown(fd, journal->st_uid, journal->st_gid) < 0 ? -errno : 0;
}

static int archive_failed(const char *path, int code, struct gd_error *err)
{
	return error_set(err, code, "opening archive '%s': %s", path, error_words(code));
}

static int open_archive(struct pruning *p, const char *path, const struct stat *journal, struct gd_error *err)
{
	int dir_fd = p->journal->parent_fd;
	const char *name = strrchr(path, '/') + 1;
	const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	char last;
	p->archive_fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL, 0600);
	if (p->archive_fd >= 0) {
		int r = keep_owner(p->archive_fd, journal);
		return r < 0 ? archive_failed(path, r, err) : 0;
	}
	p->archive_fd = errno == EEXIST ? openat(dir_fd, name, flags) : -1;
	if (p->archive_fd < 0 || fstat(p->archive_fd, &st) < 0)
		return archive_failed(path, -errno, err);
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "opening archive '%s': it is not a regular file", path);
	int r = p->journal->accepted ? 0 : trust_check(p->archive_fd, path, err);
	if (r < 0)
		return r;
	p->archive_size = st.st_size;
	/* A line that a crash has cut off must not spoil our first. */
	if (st.st_size > 0 && pread(p->archive_fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
		text_append_char(&p->dropped, '\n');
	return 0;
}

static int open_files(struct pruning *p, struct gd_error *err)
{
	struct stat st;
	cleanup_(freep) char *archive = NULL;
	if (asprintf(&archive, "%s.archive", p->journal->path) < 0)
		return error_set(err, -ENOMEM, "pruning: out of memory");
	if (fstat(p->journal->fd, &st) < 0)
		return error_set(err, -errno, "pruning '%s': %s", p->journal->path, error_words(errno));
	int r = open_archive(p, archive, &st, err);
	if (r < 0)
		return r;
	/* What a prune that was killed has left. */
	unlinkat(p->journal->dir_fd, DRAFT, 0);
	p->draft_fd = openat(p->journal->dir_fd, DRAFT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = p->draft_fd < 0 ? -errno : keep_owner(p->draft_fd, &st);
	if (r == 0 && fchmod(p->draft_fd, st.st_mode & 07777) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(p->journal->dir_fd, DRAFT, 0);
		return error_set(err, r, "pruning '%s': %s", p->journal->path, error_words(r));
	}
	return 0;
}

static int write_files(struct pruning *p)
{
	struct journal_reader r;
	record_write_journal(&p->kept, p->journal->next_id);
	int e = write_seen(p);
	if (e < 0)
		return e;
	/* Not by its path: what another user puts there must not become the journal. */
	e = journal_reader_init_open(&r, p->journal);
	if (e < 0)
		return e;
	e = journal_reader_read(&r, sort_line, p);
	journal_reader_finish(&r);
	if (e == 1)
		e = -ESTALE; /* another file is at the path */
	if (e == 0)
		e = flush(&p->kept, p->draft_fd, 0);
	if (e == 0)
		e = flush(&p->dropped, p->archive_fd, 0);
	/* The archive first: what is taken out of the journal must be there. */
	if (e == 0 && (fsync(p->archive_fd) < 0 || fsync(p->draft_fd) < 0))
		e = -errno;
	return e;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Environments that no job needs any more: they are full of secrets. */
static void sweep_environments(struct pruning *p)
{
	const struct jobs *js = &p->follow.jobs;
	cleanup_(freep) const char **used = calloc(js->count + 1, sizeof(*used));
	size_t n = 0;
	if (!used)
		return; /* the next prune does it */
	for (size_t i = 0; i < js->count; i++) {
		const char *env = js->by_id[i]->wish->env;
		/* A job without one gets the runner's, whose name stands nowhere. */
		if (!p->drop[i] && !env)
			return;
		/* Interned: neighbours with the same have the same address. */
		if (!p->drop[i] && (n == 0 || used[n - 1] != env))
			used[n++] = env;
	}
	qsort(used, n, sizeof(*used), compare_names);
	environment_sweep(p->journal->dir_fd, used, n);
}

static int prune_locked(struct pruning *p, int64_t older_ms, struct prune_result *ret, struct gd_error *err)
{
	int r = follow_open_journal(p->journal, &p->follow, err);
	if (r < 0)
		return r;
	if (p->follow.reader.dev != p->journal->dev || p->follow.reader.ino != p->journal->ino)
		return error_set(err, -ESTALE, "pruning '%s': it was replaced just now; try again", p->journal->path);
	const struct jobs *js = &p->follow.jobs;
	p->drop = calloc(js->count + 1, sizeof(*p->drop));
	if (!p->drop)
		return error_set(err, -ENOMEM, "pruning: out of memory");
	*ret = (struct prune_result){.pruned = choose(p, date_now_ms() - older_ms)};
	ret->kept = js->count - ret->pruned;
	if (ret->pruned == 0) {
		sweep_environments(p);
		return 0;
	}
	r = open_files(p, err);
	if (r < 0)
		return r;
	r = write_files(p);
	if (r < 0) {
		unlinkat(p->journal->dir_fd, DRAFT, 0);
		bool cut = ftruncate(p->archive_fd, p->archive_size) == 0;
		return error_set(err, r, "pruning '%s': %s; it is as it was%s", p->journal->path, error_words(r),
			cut ? "" : ", but its archive is not");
	}
	r = journal_replace(p->journal, DRAFT, err);
	if (r == 0)
		sweep_environments(p);
	return r;
}

int prune(struct journal *j, int64_t older_ms, struct prune_result *ret, struct gd_error *err)
{
	struct pruning p = {.journal = j, .draft_fd = -1, .archive_fd = -1, .follow = {.watch_fd = -1, .dir_fd = -1}};
	p.follow.reader.fd = -1;
	int r = journal_lock(j, err);
	if (r < 0)
		return r;
	r = prune_locked(&p, older_ms, ret, err);
	journal_unlock(j);
	follow_close(&p.follow);
	free(p.drop);
	text_finish(&p.kept);
	text_finish(&p.dropped);
	closep(&p.draft_fd);
	closep(&p.archive_fd);
	return r;
}
