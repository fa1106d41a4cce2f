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
#include "base/units.h"
#include "cli/frozen_links.h"
#include "cli/git.h"
#include "cli/git_trust.h"
#include "cli/git_work_tree.h"

#define GIT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* State of freezing a tree. */
struct freezing {
	const char *journal_path, *log_dir;
	bool trust;
	struct text top, prefix; /* of the original tree */
	struct text index;       /* a temporary index file */
	struct text excludes[4]; /* pathspecs of the queue's own files */
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
	free(t->path);
	free(t->cwd);
	free(t->commit);
	*t = (struct frozen_tree){0};
}

static void cut_newline(struct text *t)
{
	if (t->length && t->data[t->length - 1] == '\n')
		t->data[--t->length] = '\0';
}

/* ---- Selecting files ------------------------------------------------------------------ */

/* Excludes a path if it is in the tree; `suffix` is part of the pattern. */
static void exclude(struct freezing *f, const char *path, const char *suffix)
{
	const char *top = text_string(&f->top);
	size_t size = strlen(top);
	if (!path || strncmp(path, top, size) != 0 || path[size] != '/')
		return;
	struct text *t = &f->excludes[f->num_excludes++];
	text_append_string(t, ":(exclude,top,glob)");
	for (const char *p = path + size + 1; *p; p++) {
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
	size_t n = f->trust ? 0 : 2;
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

static int check_size(struct freezing *f, struct gd_error *err)
{
	cleanup_(text_finish) struct text files = {0};
	unsigned long long total = 0, largest = 0;
	const char *largest_name = "";
	int r = git_files(f, GIT("ls-files", "-o", "--exclude-standard", "-z"), &files, err);
	for (const char *p = text_string(&files); r == 0 && p < text_string(&files) + files.length;
		p += strlen(p) + 1) {
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
	if (r == 0 && total > FROZEN_TREE_MAX_BYTES)
		return error_set(err, -EINVAL,
			"untracked files have %s ('%s' is the largest), more than the limit of 100 MiB; add data to .gitignore to link it instead",
			units_format_size(total, words), largest_name);
	return r;
}

/* Refuses submodules, and repositories inside the tree, which git add treats as submodules. index: as listed. */
static int check_submodules(const struct text *index, struct gd_error *err)
{
	const char *p = text_string(index), *end = p + index->length;
	for (; p < end; p += strlen(p) + 1)
		if (strncmp(p, "160000 ", 7) == 0)
			return error_set(err, -EINVAL,
				"'%s' is a submodule or another git repository, which cannot be frozen",
				strchr(p, '\t') ? strchr(p, '\t') + 1 : p);
	return 0;
}

/* Checks the files before git reads any. The queue checks its folder itself. */
static int check_files(const struct freezing *f, struct gd_error *err)
{
	cleanup_(text_finish) struct text index = {0};
	cleanup_(text_finish) struct text skip = {0};
	struct gd_error why = {0};
	const char *top = text_string(&f->top);
	size_t size = strlen(top);
	int r = git_top(f, NULL, GIT("ls-files", "-s", "-z"), &index, err);
	/* git add would check submodules for changes, and run programs named in their configuration. */
	if (r == 0)
		r = check_submodules(&index, err);
	if (r < 0 || f->trust)
		return r;
	if (strncmp(f->journal_path, top, size) == 0 && f->journal_path[size] == '/')
		text_appendf(&skip, "%s.d", f->journal_path + size + 1);
	r = git_work_tree_check(top, &index, text_string(&skip), &why);
	if (r < 0)
		return error_set(err, r, "%s%s", why.message, r == -EPERM ? ", or use --trust if you accept that" : "");
	return 0;
}

/* ---- The commit ----------------------------------------------------------------------- */

/* Copies the index, so that git need not read unchanged files again. Without an index, all files are new. */
static int copy_index(struct freezing *f, const char *trees, struct gd_error *err)
{
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&f->index, "%s/index.%d", trees, (int)getpid());
	int r = git_run(text_string(&f->top), NULL, GIT("rev-parse", "--path-format=absolute", "--git-path", "index"),
		&path, err);
	if (r < 0)
		return r;
	cut_newline(&path);
	FILE *from = fopen(text_string(&path), "re"), *to = fopen(text_string(&f->index), "we");
	char chunk[65536];
	size_t n = 0;
	bool good = to != NULL;
	while (from && good && (n = fread(chunk, 1, sizeof(chunk), from)) > 0)
		good = fwrite(chunk, 1, n, to) == n;
	good = good && (!from || !ferror(from));
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
	cut_newline(&tree);
	bool born = git_run(top, NULL, GIT("rev-parse", "--verify", "--quiet", "HEAD"), &head, NULL) == 0 &&
		    git_run(top, NULL, GIT("rev-parse", "HEAD^{tree}"), &head_tree, NULL) == 0;
	cut_newline(&head);
	cut_newline(&head_tree);
	if (born && strcmp(text_string(&head_tree), text_string(&tree)) == 0) {
		text_append_string(commit, text_string(&head));
		return text_error(commit);
	}
	r = git_top(f, NULL,
		born ? GIT("commit-tree", text_string(&tree), "-p", text_string(&head), "-m",
			       "gpuq: snapshot of the working tree")
		     : GIT("commit-tree", text_string(&tree), "-m", "gpuq: snapshot of the working tree"),
		commit, err);
	cut_newline(commit);
	return r;
}

/* ---- The worktree --------------------------------------------------------------------- */

/* The path of the current directory relative to the top: "", or "a/b/". */
static int find_prefix(struct freezing *f, struct gd_error *err)
{
	cleanup_(freep) char *here = getcwd(NULL, 0);
	const char *top = text_string(&f->top);
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);
	if (!here)
		return error_set(err, -errno, "cannot find the current directory: %s", error_words(-errno));
	if (strncmp(here, top, size) != 0 || (here[size] && here[size] != '/'))
		return error_set(err, -EINVAL, "the current directory '%s' is not in the tree '%s'", here, top);
	if (here[size] && here[size + 1])
		text_appendf(&f->prefix, "%s/", here + size + 1);
	return text_error(&f->prefix) ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int find_tree(struct freezing *f, struct gd_error *err)
{
	struct gd_error why = {0};
	int r = f->trust ? git_find_top(".", &f->top, err) : git_find_trusted_top(&f->top, err);
	if (r == -EPERM) {
		why = *err;
		return error_set(err, r, "%s, or use --trust if you accept that", why.message);
	}
	if (r < 0)
		return r;
	r = f->trust ? 0 : git_trust_check(text_string(&f->top), &why);
	if (r == -EPERM)
		return error_set(err, r, "%s, or use --trust if you accept that", why.message);
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	r = find_prefix(f, err);
	return r < 0 ? r : check_files(f, err);
}

static int make(struct freezing *f, struct frozen_tree *t, struct gd_error *err)
{
	cleanup_(text_finish) struct text commit = {0};
	cleanup_(text_finish) struct text path = {0};
	cleanup_(text_finish) struct text out = {0};
	int r = find_tree(f, err);
	if (r < 0)
		return r;
	exclude(f, f->journal_path, "");
	exclude(f, f->journal_path, ".*");
	exclude(f, f->journal_path, ".*/**");
	exclude(f, f->log_dir, "");
	text_appendf(&path, "%s.d/trees", f->journal_path);
	if (mkdir(text_string(&path), 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, "cannot create '%s': %s", text_string(&path), error_words(-errno));
	r = copy_index(f, text_string(&path), err);
	if (r == 0)
		r = check_size(f, err);
	if (r == 0)
		r = make_commit(f, &commit, err);
	if (r < 0)
		return r;
	text_appendf(&path, "/%.12s.XXXXXX", text_string(&commit));
	if (text_error(&path) || !mkdtemp(path.data))
		return error_set(err, -errno, "cannot create '%s': %s", text_string(&path), error_words(-errno));
	t->path = strdup(text_string(&path));
	t->commit = strdup(text_string(&commit));
	if (asprintf(&t->cwd, "%s/%s", text_string(&path), text_string(&f->prefix)) < 0)
		t->cwd = NULL;
	if (!t->path || !t->commit || !t->cwd)
		return error_set(err, -ENOMEM, "out of memory");
	r = git_top(f, NULL, GIT("worktree", "add", "--detach", "--quiet", t->path, t->commit), &out, err);
	return r < 0 ? r : frozen_links_create(text_string(&f->top), t->path, f->journal_path, f->log_dir, err);
}

int frozen_tree_make(
	const char *journal_path, const char *log_dir, bool trust, struct frozen_tree *ret, struct gd_error *err)
{
	cleanup_(freezing_finish) struct freezing f = {
		.journal_path = journal_path, .log_dir = log_dir, .trust = trust};
	struct frozen_tree t = {0};
	struct gd_error why = {0};
	/* Others must not be able to change objects before git checks them out. */
	mode_t before = umask(022);
	umask(trust ? before : before | 022);
	int r = make(&f, &t, &why);
	umask(before);
	if (r < 0) {
		if (t.path && frozen_tree_remove(t.path, NULL, trust, NULL) != 0)
			(void)rmdir(t.path);
		frozen_tree_finish(&t);
		return error_set(err, r, "--freeze: %s", why.message);
	}
	size_t size = strlen(t.cwd);
	if (size > 1 && t.cwd[size - 1] == '/')
		t.cwd[size - 1] = '\0';
	*ret = t;
	return 0;
}

/* ---- Removing a worktree -------------------------------------------------------------- */

/* A link that we created, or a cache. */
static bool is_ours(const char *tree, const char *entry)
{
	char path[PATH_MAX], target[PATH_MAX];
	size_t size = strlen(entry);
	bool link = snprintf(path, sizeof(path), "%s/%s", tree, entry) < (int)sizeof(path) &&
		    readlink(path, target, sizeof(target)) > 0;
	return (link && !strchr(entry, '/')) || (size > 12 && strcmp(entry + size - 12, "__pycache__/") == 0) ||
	       strcmp(entry, "__pycache__/") == 0 || strstr(entry, "__pycache__/");
}

static bool is_same_directory(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int frozen_tree_remove(const char *path, const char *commit, bool trust, struct gd_error *err)
{
	cleanup_(text_finish) struct text top = {0};
	cleanup_(text_finish) struct text head = {0};
	cleanup_(text_finish) struct text status = {0};
	cleanup_(text_finish) struct text out = {0};
	cleanup_(text_finish) struct text common = {0};
	if (access(path, F_OK) < 0)
		return 0;
	/* The path may have been replaced by a directory of another working tree. */
	int r = git_find_top(path, &top, err);
	if (r == 0 && !is_same_directory(text_string(&top), path))
		return error_set(err, -EINVAL, "not a git working tree");
	if (r == 0 && !trust)
		r = git_trust_check(path, err);
	if (r == 0)
		r = git_run(path, NULL,
			GIT("--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all",
				"--ignored=matching", "--no-renames"),
			&status, err);
	for (const char *p = text_string(&status); r == 0 && p < text_string(&status) + status.length;
		p += strlen(p) + 1)
		if ((strncmp(p, "?? ", 3) != 0 && strncmp(p, "!! ", 3) != 0) || !is_ours(path, p + 3))
			return 1;
	/* The job may have created commits that nothing else refers to. */
	if (r == 0 && commit)
		r = git_run(path, NULL, GIT("rev-parse", "HEAD"), &head, err);
	cut_newline(&head);
	if (r == 0 && commit && strcmp(text_string(&head), commit) != 0)
		return 1;
	if (r == 0)
		r = git_run(path, NULL, GIT("rev-parse", "--path-format=absolute", "--git-common-dir"), &common, err);
	cut_newline(&common);
	return r < 0 ? r : git_run(text_string(&common), NULL, GIT("worktree", "remove", "--force", path), &out, err);
}
