/* SPDX-License-Identifier: MIT */
#include "cli/frozen_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/frozen_directory.h"
#include "cli/frozen_links.h"
#include "cli/frozen_readers.h"
#include "cli/git.h"
#include "cli/git_trust.h"
#include "cli/git_work_tree.h"

#define GIT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* State of freezing a tree. */
struct freezing {
	const struct frozen_source *source;
	struct text top, prefix; /* of the original tree */
	struct text index;       /* a temporary index file */
	struct text excludes[5]; /* pathspecs of the queue's own files */
	size_t num_excludes;
};

static void freezing_finish(struct freezing *f)
{
	if (f->index.length)
		unlink(text_string(&f->index));
	text_finish(&f->top);
	text_finish(&f->prefix);
	text_finish(&f->index);
	for (size_t i = 0; i < f->num_excludes; i++)
		text_finish(&f->excludes[i]);
}

void frozen_tree_finish(struct frozen_tree *t)
{
	closep(&t->cwd_fd);
	free(t->path);
	free(t->cwd);
	free(t->commit);
	*t = FROZEN_TREE_INIT;
}

/* The part of a path below the top: "" for the top itself, NULL if the path is not in the tree. */
static const char *below_top(const struct freezing *f, const char *path)
{
	const char *top = text_string(&f->top);
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);
	if (strncmp(path, top, size) != 0 || (path[size] && path[size] != '/'))
		return NULL;
	return path + size + (path[size] == '/');
}

/* ---- Selecting files ------------------------------------------------------------------ */

/*
 * Excludes a path if it is in the tree; `suffix` is part of the pattern. `git add` fails if an ignored path equals, or
 * is a directory in, the part of a pathspec before its first wildcard, even if this pathspec is an exclusion. So the
 * pattern begins with a wildcard: [\j]obs.jsonl. Such a pattern does not match the files in a directory.
 */
static void exclude(struct freezing *f, const char *path, const char *suffix)
{
	const char *name = path ? below_top(f, path) : NULL;
	if (!name || !*name)
		return;
	struct text *t = &f->excludes[f->num_excludes++];
	text_append_string(t, ":(exclude,top,glob)");
	text_appendf(t, "[\\%c]", *name);
	for (const char *p = name + 1; *p; p++) {
		if (strchr("*?[\\", *p))
			text_append_char(t, '\\');
		text_append_char(t, *p);
	}
	text_append_string(t, suffix);
}

/* Runs git at the top. Without `trust`, nothing that it creates in the repository can be written by a group. */
static int git_top(
	const struct freezing *f, const char *index, const char *const *words, struct text *out, struct gd_error *err)
{
	const char *argv[20] = {"-c", "core.sharedRepository=umask"};
	size_t n = f->source->trust ? 0 : 2;
	while (*words)
		argv[n++] = *words++;
	argv[n] = NULL;
	return git_run(text_string(&f->top), index, argv, out, err);
}

/* Runs "git WORDS… -- . EXCLUDES…" at the top. */
static int git_files(const struct freezing *f, const char *const *words, struct text *out, struct gd_error *err)
{
	const char *argv[16];
	size_t n = 0;
	while (*words)
		argv[n++] = *words++;
	argv[n++] = "--";
	argv[n++] = ".";
	for (size_t i = 0; i < f->num_excludes; i++)
		argv[n++] = text_string(&f->excludes[i]);
	argv[n] = NULL;
	return git_top(f, text_string(&f->index), argv, out, err);
}

/* untracked: the names of files, each NUL-terminated. */
static int check_size(const struct freezing *f, const struct text *untracked, struct gd_error *err)
{
	unsigned long long total = 0, largest = 0;
	const char *largest_name = "";
	for (const char *p = text_string(untracked), *end = p + untracked->length; p < end; p += strlen(p) + 1) {
		char path[PATH_MAX];
		struct stat st;
		if (snprintf(path, sizeof(path), "%s/%s", text_string(&f->top), p) >= (int)sizeof(path) ||
			lstat(path, &st) < 0)
			continue;
		total += (unsigned long long)st.st_size;
		if ((unsigned long long)st.st_size > largest) {
			largest = (unsigned long long)st.st_size;
			largest_name = p;
		}
	}
	char words[UNITS_ROOM];
	if (total > FROZEN_TREE_MAX_BYTES)
		return error_set(err, -EINVAL,
			"untracked files take up %s ('%s' is the largest), more than the limit of 100 MiB; add data to .gitignore to link it instead",
			units_format_size(total, words), largest_name);
	return 0;
}

/* Git stores files so that everybody who can read the repository can read them, and they stay there. */
static int check_private(const struct freezing *f, const struct text *untracked, struct gd_error *err)
{
	cleanup_(text_finish) struct text modified = {0};
	cleanup_(frozen_readers_finish) struct frozen_readers readers = FROZEN_READERS_INIT;
	const char *top = text_string(&f->top);
	int r = f->source->trust ? 0 : frozen_readers_find(top, &readers, err);
	if (r <= 0)
		return r;
	r = frozen_readers_check(&readers, top, untracked, "add it to .gitignore", err);
	if (r == 0)
		r = git_files(f, GIT("ls-files", "-m", "-z"), &modified, err);
	if (r < 0)
		return r;
	/* No rule of .gitignore applies to a file that git tracks. */
	return frozen_readers_check(&readers, top, &modified, "let others read it if it contains nothing private", err);
}

/* Refuses submodules, and repositories inside the tree, which git add treats as submodules. index: as listed. */
static int check_submodules(const struct text *index, struct gd_error *err)
{
	const char *p = text_string(index), *end = p + index->length;
	for (; p < end; p += strlen(p) + 1)
		if (strncmp(p, "160000 ", 7) == 0)
			return error_set(err, -EINVAL,
				"'%s' is a submodule or another git repository, which cannot be frozen; add the job without --freeze, in a clone that you do not change until it has ended",
				strchr(p, '\t') ? strchr(p, '\t') + 1 : p);
	return 0;
}

/* Checks the files before git reads any. The queue checks its folder itself. */
static int check_files(const struct freezing *f, struct gd_error *err)
{
	cleanup_(text_finish) struct text index = {0};
	cleanup_(text_finish) struct text skip = {0};
	struct gd_error why = {0};
	const char *journal = below_top(f, f->source->journal_path);
	int r = git_top(f, NULL, GIT("ls-files", "-s", "-z"), &index, err);
	/* git add would check submodules for changes, and run programs named in their configuration. */
	if (r == 0)
		r = check_submodules(&index, err);
	if (r < 0 || f->source->trust)
		return r;
	if (journal)
		text_appendf(&skip, "%s.d", journal);
	r = git_work_tree_check(text_string(&f->top), &index, text_string(&skip), &why);
	if (r < 0)
		return error_set(err, r, "%s%s", why.message, r == -EPERM ? ", or use --trust if you accept that" : "");
	return 0;
}

/* ---- The commit ----------------------------------------------------------------------- */

/* Gives the copied index the time of the original. Git also reads files again that seem to be unchanged but are not
 * older than the index: if the copy were newer, git would miss a change made just after `git add`. */
static bool copy_time(FILE *from, FILE *to)
{
	struct stat st;
	return fflush(to) == 0 && fstat(fileno(from), &st) == 0 &&
	       futimens(fileno(to), (const struct timespec[]){st.st_atim, st.st_mtim}) == 0;
}

/* Copies the index, so that git need not read unchanged files again. Without an index, all files are new. */
static int copy_index(struct freezing *f, const char *trees, struct gd_error *err)
{
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&f->index, "%s/index.%d", trees, (int)getpid());
	int r = git_run(text_string(&f->top), NULL, GIT("rev-parse", "--path-format=absolute", "--git-path", "index"),
		&path, err);
	if (r < 0)
		return r;
	git_cut_newline(&path);
	/* Left by a killed process, or a link that came with a copied queue. */
	(void)unlink(text_string(&f->index));
	FILE *from = fopen(text_string(&path), "re"), *to = fopen(text_string(&f->index), "wxe");
	char chunk[65536];
	size_t n = 0;
	bool good = to != NULL;
	while (from && good && (n = fread(chunk, 1, sizeof(chunk), from)) > 0)
		good = fwrite(chunk, 1, n, to) == n;
	good = good && (!from || (!ferror(from) && copy_time(from, to)));
	if (from)
		fclose(from);
	else
		unlink(text_string(&f->index)); /* git does not accept an empty index file */
	if (to && fclose(to) != 0)
		good = false;
	return good ? 0
		    : error_set(err, -EIO, "cannot copy the index of git to '%s': %s", text_string(&f->index),
			      error_words(-errno));
}

static int make_commit(struct freezing *f, struct text *commit, struct gd_error *err)
{
	cleanup_(text_finish) struct text index = {0};
	cleanup_(text_finish) struct text tree = {0};
	cleanup_(text_finish) struct text head = {0};
	cleanup_(text_finish) struct text head_tree = {0};
	const char *top = text_string(&f->top);
	int r = git_files(f, GIT("add", "-A"), &index, err);
	text_clear(&index);
	if (r == 0)
		r = git_top(f, text_string(&f->index), GIT("ls-files", "-s", "-z"), &index, err);
	if (r == 0)
		r = check_submodules(&index, err);
	if (r == 0)
		r = git_top(f, text_string(&f->index), GIT("write-tree"), &tree, err);
	if (r < 0)
		return r;
	git_cut_newline(&tree);
	bool born = git_run(top, NULL, GIT("rev-parse", "--verify", "--quiet", "HEAD"), &head, NULL) == 0 &&
		    git_run(top, NULL, GIT("rev-parse", "HEAD^{tree}"), &head_tree, NULL) == 0;
	git_cut_newline(&head);
	git_cut_newline(&head_tree);
	if (born && strcmp(text_string(&head_tree), text_string(&tree)) == 0) {
		text_append_string(commit, text_string(&head));
		return text_error(commit);
	}
	r = git_top(f, NULL,
		born ? GIT("commit-tree", text_string(&tree), "-p", text_string(&head), "-m",
			       "gpuq: snapshot of the working tree")
		     : GIT("commit-tree", text_string(&tree), "-m", "gpuq: snapshot of the working tree"),
		commit, err);
	git_cut_newline(commit);
	return r;
}

/* ---- The worktree --------------------------------------------------------------------- */

/* The path of the current directory relative to the top: "", or "a/b". */
static int find_prefix(struct freezing *f, struct gd_error *err)
{
	cleanup_(freep) char *here = getcwd(NULL, 0);
	const char *prefix = here ? below_top(f, here) : NULL;
	if (!here)
		return error_set(err, -errno, "cannot find the current directory: %s", error_words(-errno));
	if (!prefix)
		return error_set(
			err, -EINVAL, "the current directory '%s' is not in the tree '%s'", here, text_string(&f->top));
	text_append_string(&f->prefix, prefix);
	return text_error(&f->prefix) ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int find_tree(struct freezing *f, struct gd_error *err)
{
	struct gd_error why = {0};
	int r = f->source->trust ? git_find_top(".", &f->top, err)
				 : git_find_trusted_top(f->source->cwd_fd, &f->top, err);
	if (r == -EPERM) {
		why = *err;
		return error_set(err, r, "%s, or use --trust if you accept that", why.message);
	}
	if (r < 0)
		return r;
	r = f->source->trust ? 0 : git_trust_check(text_string(&f->top), &why);
	if (r == -EPERM)
		return error_set(err, r, "%s, or use --trust if you accept that", why.message);
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	r = find_prefix(f, err);
	return r < 0 ? r : check_files(f, err);
}

/*
 * Creates the folder of worktrees. The journal's folder was checked by its descriptor, but git needs a path: checks
 * that this path leads to the same folder, and that no other user can change that.
 */
static int make_folder(const struct freezing *f, struct text *ret, struct gd_error *err)
{
	cleanup_(closep) int queue_fd = -1;
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	bool check = !f->source->trust;
	text_appendf(ret, "%s.d", f->source->journal_path);
	int r = trust_open_directory(text_string(ret), check, &queue_fd, &why);
	if (r == 0 && !frozen_directory_is_same(queue_fd, f->source->queue_fd))
		r = error_set(&why, -EPERM, "'%s' is no longer the folder of the queue", text_string(ret));
	text_append_string(ret, "/trees");
	if (r == 0 && mkdirat(queue_fd, "trees", 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, "cannot create '%s': %s", text_string(ret), error_words(-errno));
	if (r == 0)
		r = trust_open_directory(text_string(ret), check, &fd, &why);
	const char *objection = r == 0 && check ? trust_objection(fd) : NULL;
	if (objection)
		r = error_set(&why, -EPERM, "'%s' %s", text_string(ret), objection);
	if (r == 0 && check)
		file_remove_default_list(fd);
	return r < 0 ? error_set(err, r, "%s; use another queue, or change the permissions", why.message) : 0;
}

/* Checks out the commit in a new directory in the folder. */
static int make_worktree(
	struct freezing *f, struct text *folder, const char *commit, struct frozen_tree *t, struct gd_error *err)
{
	cleanup_(text_finish) struct text out = {0};
	text_appendf(folder, "/%.12s.XXXXXX", commit);
	if (text_error(folder) || !mkdtemp(folder->data))
		return error_set(err, -errno, "cannot create '%s': %s", text_string(folder), error_words(-errno));
	t->path = strdup(text_string(folder));
	t->commit = strdup(commit);
	const char *slash = f->prefix.length ? "/" : "";
	if (asprintf(&t->cwd, "%s%s%s", text_string(folder), slash, text_string(&f->prefix)) < 0)
		t->cwd = NULL;
	if (!t->path || !t->commit || !t->cwd)
		return error_set(err, -ENOMEM, "out of memory");
	int r = git_top(f, NULL, GIT("worktree", "add", "--detach", "--quiet", t->path, t->commit), &out, err);
	if (r < 0)
		return r;
	const char *top = text_string(&f->top);
	return frozen_links_create(top, t->path, f->source->journal_path, f->source->log_dir, err);
}

static int make(struct freezing *f, struct frozen_tree *t, struct gd_error *err)
{
	cleanup_(text_finish) struct text commit = {0};
	cleanup_(text_finish) struct text path = {0};
	cleanup_(text_finish) struct text untracked = {0};
	int r = find_tree(f, err);
	if (r < 0)
		return r;
	exclude(f, f->source->journal_path, "");
	exclude(f, f->source->journal_path, ".*");
	exclude(f, f->source->journal_path, ".*/**");
	exclude(f, f->source->log_dir, "");
	exclude(f, f->source->log_dir, "/**");
	r = make_folder(f, &path, err);
	if (r == 0)
		r = copy_index(f, text_string(&path), err);
	if (r == 0)
		r = git_files(f, GIT("ls-files", "-o", "--exclude-standard", "-z"), &untracked, err);
	if (r == 0)
		r = check_size(f, &untracked, err);
	if (r == 0)
		r = check_private(f, &untracked, err);
	if (r == 0)
		r = make_commit(f, &commit, err);
	if (r == 0)
		r = make_worktree(f, &path, text_string(&commit), t, err);
	if (r < 0)
		return r;
	const struct frozen_directory d = {.top = text_string(&f->top),
		.prefix = text_string(&f->prefix),
		.tree = t->path,
		.cwd_fd = f->source->cwd_fd,
		.trust = f->source->trust};
	return frozen_directory_open(&d, &t->cwd_fd, err);
}

int frozen_tree_make(const struct frozen_source *source, struct frozen_tree *ret, struct gd_error *err)
{
	cleanup_(freezing_finish) struct freezing f = {.source = source};
	cleanup_(frozen_tree_finish) struct frozen_tree t = FROZEN_TREE_INIT;
	struct gd_error why = {0};
	/* Others must not be able to change objects before git checks them out. */
	mode_t before = umask(022);
	umask(source->trust ? before : before | 022);
	int r = make(&f, &t, &why);
	umask(before);
	if (r < 0) {
		if (t.path && frozen_tree_remove(t.path, NULL, source->trust, NULL) != 0)
			(void)rmdir(t.path);
		return error_set(err, r, "--freeze: %s", why.message);
	}
	*ret = t;
	t = FROZEN_TREE_INIT;
	return 0;
}
