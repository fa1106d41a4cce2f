/* SPDX-License-Identifier: MIT */
/* Full searches of a watched folder. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/trust.h"
#include "launch/find.h"
#include "launch/launcher_watch.h"

#define SEARCH_NS (5 * NS_PER_S) /* between searches if folders cannot be watched */
/* The longest pause between searches, unless a search took longer: then as long as it took. Others can delay it. */
#define SEARCH_MOST_NS (10 * NS_PER_S)
#define SERVE_NS       (10 * NS_PER_MS) /* between services of the workers, during a search */
/* Other users can put any number of entries into a folder that each cause a warning, and each warning is kept. */
#define MOST_WARNINGS 1000

void watch_serve_if_due(struct gd_launcher *l)
{
	if (clock_now_ns() < l->watch->serve_at_ns)
		return;
	(void)launcher_serve(l);
	l->watch->serve_at_ns = clock_now_ns() + SERVE_NS;
}

/*
 * Whether to search the folder that is now at the path of the input folder. A user who can rename folders may have put
 * any folder there that this user can read, not only a folder of their own.
 */
static bool is_acceptable(const struct gd_launcher *l, int fd)
{
	struct stat before, now;
	if (fstat(fd, &now) < 0 || fstat(l->input_fd, &before) < 0)
		return false;
	bool same = now.st_dev == before.st_dev && now.st_ino == before.st_ino;
	return same || trust_is_known_to_movers(fd);
}

/* Checks the folder itself, at the beginning of a search. */
static int enter_root(struct gd_launcher *l, int fd)
{
	if (!is_acceptable(l, fd))
		return -ESTALE;
	int copy = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (copy < 0)
		return -errno;
	close(l->input_fd);
	l->input_fd = copy;
	l->input_replaceable = trust_check_way(copy, NULL) < 0;
	return 0;
}

static int enter_folder(void *context, int fd, const char *prefix)
{
	struct gd_launcher *l = context;
	struct launch_watch *w = l->watch;
	int r = *prefix ? 0 : enter_root(l, fd);
	if (r < 0)
		return r;
	watch_serve_if_due(l);
	return w->folders ? folder_watch_add(w->folders, fd, prefix) : 0;
}

bool watch_warn_once(struct gd_launcher *l, const char *words)
{
	struct launch_watch *w = l->watch;
	if (w->told_all || path_map_get(&w->said, words))
		return false;
	if (w->said.count == MOST_WARNINGS) {
		w->told_all = true;
		launcher_warn(l, "further files of '%s' are skipped without a warning", l->options.input_dir);
		return false;
	}
	const char *copy = arena_copy(&w->arena, words, strlen(words));
	if (!copy || !path_map_put(&w->said, copy, 0))
		return false;
	launcher_warn(l, "%s", words);
	return true;
}

static void say_limit(struct gd_launcher *l, int error)
{
	struct launch_watch *w = l->watch;
	if (w->told_limit == (error != 0))
		return;
	w->told_limit = error != 0;
	if (!error)
		launcher_warn(l, "all folders of '%s' are being watched again", l->options.input_dir);
	else
		launcher_warn(l, "cannot watch '%s': %s; searching it for new files every %d seconds instead",
			l->options.input_dir,
			error == -ENOSPC || error == -EMFILE
				? "the inotify limit is reached (sysctl fs.inotify.max_user_watches and max_user_instances)"
				: error_words(error),
			(int)(SEARCH_NS / NS_PER_S));
}

static void take_search(struct gd_launcher *l, const struct gd_files *files)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < files->count && !launcher_is_ending(l); i++) {
		r = watch_consider(l, files->files[i], launcher_owner(l, find_owner(files, i)));
		watch_serve_if_due(l);
	}
	if (r < 0 && l->watch->folders)
		folder_watch_set_stale(l->watch->folders); /* out of memory: retry later */
}

static bool is_stopped(void *context)
{
	struct gd_launcher *l = context;
	watch_serve_if_due(l);
	return launcher_is_ending(l);
}

/* On network file systems, the kernel reports only changes made by this machine. */
static bool is_remote(const char *folder)
{
	static const uint32_t types[] = {
		0x6969,     /* NFS */
		0xff534d42, /* CIFS */
		0xfe534d42, /* SMB2 */
		0x517b,     /* SMB */
		0x65735546, /* FUSE: sshfs and others */
		0x01021997, /* 9p */
		0x00c36400, /* Ceph */
		0x0bd00bd0, /* Lustre */
		0x47504653, /* GPFS */
		0x5346414f, /* AFS */
	};
	struct statfs st;
	if (statfs(folder, &st) < 0)
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if ((uint32_t)st.f_type == types[i])
			return true;
	return false;
}

static void say_lost(struct gd_launcher *l, int error, const struct gd_error *err)
{
	const int seconds = (int)(SEARCH_NS / NS_PER_S);
	if (error == -ESTALE)
		launcher_warn(l,
			"'%s' was replaced, possibly by another user, so it is not searched; start gpuq launch again if you replaced it yourself",
			l->options.input_dir);
	else
		launcher_warn(l, "%s; looking for it again every %d seconds", err->message, seconds);
}

static void search(struct gd_launcher *l)
{
	struct launch_watch *w = l->watch;
	const struct gd_launch_options *o = &l->options;
	const struct gd_find_options find = {.size = sizeof(find),
		.patterns = o->patterns,
		.num_patterns = o->num_patterns,
		.recursive = o->recursive != 0,
		.trust_input = o->trust_input,
		.exclude = o->output_dir,
		.stopped = is_stopped,
		.context = l};
	const struct find_again again = {l->input_way.replaceable, enter_folder, l};
	struct gd_files *files = NULL;
	struct gd_error err = {0};
	if (!w->folders && folder_watch_open(o->recursive, &w->folders) < 0)
		w->folders = NULL;
	if (w->folders)
		folder_watch_begin_search(w->folders);
	int r = find_files(l->files->folder, &find, &again, &files, &err);
	if (w->folders)
		folder_watch_end_search(w->folders, r == 0);
	if (r == 0) {
		for (size_t i = 0; i < files->num_warnings; i++)
			(void)watch_warn_once(l, files->warnings[i]);
		say_limit(l, w->folders ? folder_watch_error(w->folders) : -EMFILE);
		launcher_note_search(l, files);
		take_search(l, files);
		gd_files_free(files);
	} else if (r != -ECANCELED && r != w->lost) {
		say_lost(l, r, &err);
	}
	w->lost = r;
	w->remote = is_remote(l->files->folder);
}

/* The kernel does not report that a folder above the watched one was renamed. */
static void compare_if_due(struct gd_launcher *l, uint64_t now)
{
	struct launch_watch *w = l->watch;
	struct stat st, watched;
	if (!w->folders || now < w->compare_at_ns)
		return;
	w->compare_at_ns = now + SEARCH_NS;
	if (stat(l->files->folder, &st) < 0 || fstat(l->input_fd, &watched) < 0 || st.st_dev != watched.st_dev ||
		st.st_ino != watched.st_ino)
		folder_watch_set_stale(w->folders);
}

/* A large folder is searched less often. */
void watch_search_if_due(struct gd_launcher *l, uint64_t now)
{
	struct launch_watch *w = l->watch;
	compare_if_due(l, now);
	bool blind = !w->folders || w->told_limit || w->lost || w->remote;
	bool due = (blind && now >= w->searched_at_ns + SEARCH_NS) ||
		   (w->folders && !w->lost && folder_watch_is_stale(w->folders));
	if (!(due || w->searched_at_ns == 0) || now < w->search_at_ns)
		return;
	uint64_t began_ns = clock_now_ns();
	search(l);
	w->searched_at_ns = clock_now_ns();
	uint64_t took = w->searched_at_ns - began_ns, pause = took * WATCH_PART;
	uint64_t most = took > SEARCH_MOST_NS ? took : SEARCH_MOST_NS;
	pause = pause > most ? most : pause;
	w->search_at_ns = w->searched_at_ns + (pause > SEARCH_LEAST_NS ? pause : SEARCH_LEAST_NS);
}
