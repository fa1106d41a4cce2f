/* SPDX-License-Identifier: MIT */
/* One file of a watched folder: whether it is new, and its number. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "launch/being_written.h"
#include "launch/find.h"
#include "launch/launcher_watch.h"

int watch_set_state(struct launch_watch *w, size_t i, enum watch_state state)
{
	if (array_reserve(w->states, &w->states_capacity, i + 1) < 0)
		return -ENOMEM;
	w->states[i] = (uint8_t)state;
	return 0;
}

int watch_make_fresh(struct launch_watch *w, size_t i)
{
	if (array_reserve(w->fresh, &w->fresh_capacity, w->num_fresh + 1) < 0 ||
		watch_set_state(w, i, WATCH_WAITING) < 0)
		return -ENOMEM;
	w->fresh[w->num_fresh++] = i;
	return 0;
}

static struct gd_found *keep_file(struct launch_watch *w, const struct gd_found *f)
{
	struct gd_found *copy = arena_alloc(&w->arena, sizeof(*copy));
	const char *path = arena_copy(&w->arena, f->path, strlen(f->path));
	if (!copy || !path)
		return NULL;
	*copy = *f;
	copy->path = path;
	return copy;
}

/* Whether the file has the owner of file i, if that is relevant. */
static bool is_same_owner(const struct gd_launcher *l, size_t i, uid_t owner)
{
	return l->output_of[i].owner == owner || !launcher_is_open_to_others(l);
}

/* A number for the file; `before`: the previous number of its path, or NULL. */
static int add_file(struct gd_launcher *l, const struct gd_found *given, uid_t owner, const size_t *before)
{
	struct launch_watch *w = l->watch;
	size_t i = l->num_todo;
	struct gd_found *f = keep_file(w, given);
	if (!f || array_reserve(l->todo, &l->todo_capacity, i + 1) < 0 ||
		array_reserve(l->output_of, &l->output_capacity, i + 1) < 0 ||
		array_reserve(w->fresh, &w->fresh_capacity, w->num_fresh + 1) < 0 ||
		watch_set_state(w, i, WATCH_WAITING) < 0)
		return -ENOMEM;
	l->todo[i] = f;
	if (before && *before != WATCH_SKIPPED && is_same_owner(l, *before, owner))
		l->output_of[i] = l->output_of[*before];
	else if (launcher_choose_output(l, i, owner) < 0)
		return -ENOMEM;
	size_t *number = path_map_put(&w->known, f->path, i);
	if (!number)
		return -ENOMEM;
	*number = i; /* nothing may fail from here on: a known file is in a queue or has a result */
	l->num_todo++;
	w->total++;
	launch_amount_add(&l->total, f);
	return watch_make_fresh(w, i);
}

static int skip_file(struct gd_launcher *l, const char *path)
{
	struct launch_watch *w = l->watch;
	const char *copy = arena_copy(&w->arena, path, strlen(path));
	if (!copy || !path_map_put(&w->known, copy, WATCH_SKIPPED))
		return -ENOMEM;
	w->total++;
	l->num_skipped++;
	return 0;
}

static bool is_same(const struct gd_found *a, const struct gd_found *b)
{
	return a->size_bytes == b->size_bytes && a->mtime_ns == b->mtime_ns;
}

/*
 * A file of another owner has replaced file i at its path. Drops file i if it waits, so that the new file does not wait
 * in its place. If a worker has file i, its result is recorded as usual.
 */
static void drop_file(struct gd_launcher *l, size_t i)
{
	struct launch_watch *w = l->watch;
	bool waits = w->states[i] == WATCH_WAITING, aside = w->states[i] == WATCH_ASIDE;
	if (!waits && !aside)
		return;
	launch_amount_remove(&l->total, l->todo[i]);
	w->total -= waits; /* does not include files that were set aside */
	w->states[i] = WATCH_GONE;
}

int watch_consider(struct gd_launcher *l, const struct gd_found *f, uid_t owner)
{
	struct launch_watch *w = l->watch;
	const size_t *known = path_map_get(&w->known, f->path);
	if (known && *known != WATCH_SKIPPED && !is_same_owner(l, *known, owner)) {
		drop_file(l, *known);
		return add_file(l, f, owner, known);
	}
	if (known && *known != WATCH_SKIPPED) {
		switch ((enum watch_state)w->states[*known]) {
		case WATCH_WAITING:
			return 0; /* it is checked when its turn comes */
		case WATCH_BEGUN:
		case WATCH_BEGUN_AGAIN:
			w->states[*known] = WATCH_BEGUN_AGAIN;
			return 0;
		case WATCH_ASIDE:
			if (l->output_of[*known].owner == 0)
				w->aside_at_ns = 0;
			return 0;
		case WATCH_OVER:
			return is_same(l->todo[*known], f) ? 0 : add_file(l, f, owner, known);
		case WATCH_GONE:
			return add_file(l, f, owner, known);
		}
	}
	bool done = !l->options.force && launcher_is_done(l, f, launcher_find_entry(l, f->path, owner));
	if (done)
		return known ? 0 : skip_file(l, f->path);
	return add_file(l, f, owner, known);
}

static bool is_wanted(const struct gd_launcher *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	return find_patterns_match(&l->watch->patterns, name, strlen(name));
}

/* Lets a search that begins in a moment examine files that cannot be judged now, or not quickly. */
static void search_soon(struct launch_watch *w)
{
	uint64_t at_ns = clock_now_ns() + SEARCH_LEAST_NS;
	if (!w->folders || folder_watch_is_stale(w->folders))
		return;
	folder_watch_set_stale(w->folders);
	w->search_at_ns = w->search_at_ns > at_ns ? w->search_at_ns : at_ns;
}

int watch_look_at(struct gd_launcher *l, const char *path, struct gd_found *ret, uid_t *ret_owner)
{
	struct stat st;
	const char *objection;
	cleanup_(closep) int fd = -1;
	int r = find_open_entry(l->input_fd, path, l->options.trust_input, &l->input_way, &fd, &st, &objection);
	/* A search counts the holes of a file only once, whatever number of names its user gives it. */
	if (r == 0 && !l->options.trust_input && is_wanted(l, path) && find_may_have_holes(&st) &&
		find_owner_of(fd, NULL, &st, &l->input_way, geteuid()) != 0) {
		search_soon(l->watch);
		return 0;
	}
	if (objection && !is_wanted(l, path) && !S_ISDIR(st.st_mode))
		return 0;
	if (objection) {
		cleanup_(text_finish) struct text words = {0};
		text_appendf(&words, "'%s' is skipped: %s%s", path, objection, find_advice(objection));
		l->inputs_skipped += watch_warn_once(l, text_string(&words));
		return 0;
	}
	if (r == 0 && S_ISDIR(st.st_mode) && l->options.recursive && l->watch->folders)
		folder_watch_set_stale(l->watch->folders); /* a link to a folder */
	if (r < 0 || !S_ISREG(st.st_mode))
		return 0;
	*ret = (struct gd_found){
		.size = sizeof(*ret), .path = path, .size_bytes = (uint64_t)st.st_size, .mtime_ns = file_mtime_ns(&st)};
	*ret_owner = launcher_owner(l, find_owner_of(fd, NULL, &st, &l->input_way, geteuid()));
	return 1;
}

/* ---- Names reported by the kernel ------------------------------------------- */

static bool is_link(const struct gd_launcher *l, const char *path)
{
	struct stat st;
	return fstatat(l->input_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static bool has_several_names(const struct gd_launcher *l, const char *path)
{
	struct stat st;
	return fstatat(l->input_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

/*
 * Whether the file with a new name may be complete; other files are reported again when they are closed. A symbolic
 * link may be complete. If the first name of a hard link is gone already, the times show that the file was linked:
 * writing sets both, linking only st_ctim. A file of this user that no process is writing is complete, too.
 */
static bool may_be_complete(const struct gd_launcher *l, const char *path)
{
	struct stat st;
	cleanup_(closep) int fd = openat(l->input_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return true;
	bool written_last = st.st_mtim.tv_sec == st.st_ctim.tv_sec && st.st_mtim.tv_nsec == st.st_ctim.tv_nsec;
	return S_ISREG(st.st_mode) && (!written_last || (st.st_uid == geteuid() && !being_written(fd, &st)));
}

/* Whether the path leads to a file of this user only. */
static bool is_own(struct gd_launcher *l, const char *path)
{
	struct stat st;
	if (fstatat(l->input_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	l->input_way.chooser = 0;
	return find_owner_of(l->input_fd, path, &st, &l->input_way, geteuid()) == 0;
}

/*
 * Whether the file is going to be checked anyway. Other users can cause events faster than files can be opened, and
 * then the kernel would drop events of this user's files.
 */
static bool will_be_checked(struct gd_launcher *l, const char *path)
{
	const struct launch_watch *w = l->watch;
	const size_t *known = path_map_get(&w->known, path);
	if (!known || *known == WATCH_SKIPPED)
		return false;
	bool of_others = l->output_of[*known].owner != 0, aside = w->states[*known] == WATCH_ASIDE;
	if (w->states[*known] != WATCH_WAITING && !(aside && of_others))
		return false;
	return !of_others || !is_own(l, path);
}

int watch_take_name(void *context, const char *path, bool created)
{
	struct gd_launcher *l = context;
	bool wanted = is_wanted(l, path);
	if ((!wanted && !(created && l->options.recursive)) || (l->watch->root_is_output && outputs_is_reserved(path)))
		return 0;
	/* A file that is renamed with link() and unlink() has two names for a moment, as if another user had named it.
	 */
	if (created && wanted && has_several_names(l, path)) {
		search_soon(l->watch);
		return 0;
	}
	if (created && !(wanted ? may_be_complete(l, path) : is_link(l, path)))
		return 0;
	if (strlen(l->files->folder) + strlen(path) + FIND_PATH_MARGIN >= PATH_MAX)
		return 0;
	struct gd_found f;
	uid_t owner;
	int r = !will_be_checked(l, path) && watch_look_at(l, path, &f, &owner) == 1 && wanted
			? watch_consider(l, &f, owner)
			: 0;
	watch_serve_if_due(l);
	return r;
}
