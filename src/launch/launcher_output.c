/* SPDX-License-Identifier: MIT */
/*
 * The output folder.
 *
 * Users who can write the input folder can make this account process its private files: they rename them into the
 * folder, or replace a file with a link to one of them after it was checked. Checks of single files cannot prevent
 * that, so the results are private.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/find.h"
#include "launch/launcher_private.h"

bool launcher_is_open_to_others(const struct gd_launcher *l)
{
	return l->input_way.replaceable && !trust_is_off();
}

uid_t launcher_owner(const struct gd_launcher *l, uid_t owner)
{
	return owner == TRUST_SEVERAL_USERS && !launcher_is_open_to_others(l) ? 0 : owner;
}

static int make_output(struct gd_launcher *l, struct gd_error *err)
{
	const char *output = l->options.output_dir;
	bool private = launcher_is_open_to_others(l);
	int r = outputs_make_folder(AT_FDCWD, output, private ? 0700 : 0755);
	if (r < 0)
		return error_set(err, r, "cannot create output folder '%s': %s", output, error_words(r));
	l->made_output = r == OUTPUTS_MADE;
	if (l->made_output && !l->options.trust_output_dir)
		outputs_drop_default_list(AT_FDCWD, output);
	if (r == OUTPUTS_MADE && private)
		launcher_warn(l,
			"created output folder '%s' with mode 0700, because other users can change the content of input folder '%s' (they can write to this folder or to one that is searched, or rename one of them); to let others read the results: chmod 755 '%s' (later launches then mention that others can read them)",
			output, l->options.input_dir, output);
	return 0;
}

static int fail_to_open(const struct gd_launcher *l, int code, struct gd_error *err)
{
	return error_set(err, code, "cannot open output folder '%s': %s", l->options.output_dir, error_words(code));
}

int launcher_enter_output(struct gd_launcher *l, struct gd_error *err)
{
	char root[PATH_MAX];
	cleanup_(closep) int fd = -1;
	const char *output = l->options.output_dir;
	bool trust = l->options.trust_output_dir;
	if (l->writer.fd >= 0)
		return 0;
	close_fd(&l->output_fd);
	free(take_ptr(l->output_root));
	int r = trust ? 0 : outputs_open_trusted(output, &fd, err);
	if (r < 0)
		return r;
	if (trust)
		fd = open(output, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : file_path(fd, root);
	if (r < 0)
		return r == -ENOENT ? r : fail_to_open(l, r, err);
	l->output_root = strdup(root);
	if (!l->output_root)
		return fail_to_open(l, -ENOMEM, err);
	l->output_fd = take_fd(&fd);
	return 0;
}

static bool is_same(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Check it before making it, and again afterwards: another user may have made it in between. */
int launcher_open_output(struct gd_launcher *l, struct gd_error *err)
{
	cleanup_(closep) int planned = take_fd(&l->output_fd);
	int r = launcher_enter_output(l, err);
	if (r == -ENOENT) {
		r = make_output(l, err);
		if (r < 0)
			return r;
		r = launcher_enter_output(l, err);
	}
	if (r < 0)
		return r == -ENOENT ? fail_to_open(l, r, err) : r;
	if (planned >= 0 && !is_same(planned, l->output_fd))
		l->planned = false;
	launcher_warn_if_open(l);
	return 0;
}

void launcher_note_search(struct gd_launcher *l, const struct gd_files *files)
{
	l->input_way.replaceable = l->input_way.replaceable || find_is_open_to_others(files);
	l->inputs_skipped = files->skipped;
	launcher_warn_if_open(l);
}

/*
 * Users who have opened folders or the record while they were readable keep them open. Later files get new folders, see
 * launcher_make_result_folder(); folders that workers may be using now cannot be replaced.
 */
static void close_contents(struct gd_launcher *l)
{
	char path[PATH_MAX + sizeof(HISTORY_NAME) + 1];
	snprintf(path, sizeof(path), "%s/" HISTORY_NAME, l->output_root);
	int r = history_writer_make_private(&l->writer, path);
	for (size_t k = 0; r == 0 && k < l->num_submitted; k++)
		r = outputs_close_result_folder(l->output_fd, l->output_of[l->submitted[k]].folder);
	for (size_t i = 0; i < l->num_todo; i++)
		l->output_of[i].is_own = false;
	if (r < 0)
		launcher_warn(l, "cannot make everything in output folder '%s' private: %s", l->options.output_dir,
			error_words(r));
}

/* A folder of another user was found after the start: no file in it has a result yet. */
static bool close_output(struct gd_launcher *l)
{
	if (!l->made_output || outputs_close_folder(l->output_fd) < 0)
		return false;
	l->output_closed = l->writer.fd >= 0; /* otherwise it is empty */
	launcher_warn(l,
		"changed the mode of output folder '%s' to 0700%s, because other users can now change the content of input folder '%s'; to let others read the results: chmod 755 '%s'%s",
		l->options.output_dir, l->output_closed ? ", also of the result folders in it" : "",
		l->options.input_dir, l->options.output_dir, l->output_closed ? " and these folders" : "");
	if (l->output_closed)
		close_contents(l);
	return true;
}

/* The user may have given others write access to a folder above the output folder, whose path workers use. */
static bool is_replaceable(struct gd_launcher *l)
{
	uint64_t now_ns = clock_now_ns();
	if (!l->options.trust_output_dir && now_ns >= l->output_looked_ns + LAUNCHER_LOOK_NS) {
		l->output_looked_ns = now_ns;
		cleanup_(closep) int fd = -1;
		l->output_replaceable = trust_check_way(l->output_fd, NULL) < 0 ||
					trust_open_directory(l->output_root, false, &fd, NULL) == -EPERM;
	}
	return l->output_replaceable;
}

int launcher_check_owner(struct gd_launcher *l, size_t i, uid_t owner)
{
	if (!launcher_is_open_to_others(l) || (owner == l->output_of[i].owner && !launcher_has_folder_of_another(l, i)))
		return 0;
	int r = launcher_choose_output(l, i, owner);
	return r < 0 ? r : LAUNCHER_OTHER_OUTPUT;
}

/* Chooses another folder: the first `taken` bytes of the path lead to a file, a link, the input or a folder in use. */
static int choose_again(struct gd_launcher *l, size_t i, size_t taken)
{
	struct launcher_output *output = &l->output_of[i];
	int r = outputs_avoid(&l->outputs, output->folder, taken);
	output->is_own = false;
	if (r == 0)
		r = outputs_choose(&l->outputs, l->todo[i]->path, l->history.count + i, &output->folder);
	return r < 0 ? r : LAUNCHER_OTHER_OUTPUT;
}

/* If this run is killed, the next one recognizes the folder by this line, which must precede what the worker writes. */
static void record_start(struct gd_launcher *l, size_t i)
{
	const struct history_entry entry = launcher_describe(l, i);
	history_writer_add_start(&l->writer, &entry);
	launcher_flush_history(l);
}

int launcher_make_result_folder(struct gd_launcher *l, size_t i, const char **ret_objection)
{
	struct stat there, mine, input;
	/* The user may have renamed the folder: workers would write to the old path, which another user may have. */
	bool leads = stat(l->output_root, &there) == 0 && fstat(l->output_fd, &mine) == 0 &&
		     there.st_dev == mine.st_dev && there.st_ino == mine.st_ino;
	if (!leads) {
		*ret_objection = "was renamed or replaced";
		return -EPERM;
	}
	if (is_replaceable(l)) {
		*ret_objection = "can be written by other users now";
		return -EPERM;
	}
	struct launcher_output *output = &l->output_of[i];
	bool open = launcher_is_open_to_others(l);
	bool has_input = fstat(l->input_fd, &input) == 0;
	const struct outputs_rules rules = {.trust = l->options.trust_output_dir,
		.private = l->output_closed,
		.no_links = open,
		.unused = open && !output->is_own,
		.input = has_input ? &input : NULL};
	size_t taken = 0;
	int r = outputs_make_result_folder(l->output_fd, output->folder, &rules, &taken, ret_objection);
	if (r < 0)
		return r;
	if (r == OUTPUTS_TAKEN)
		return choose_again(l, i, taken);
	if (rules.unused)
		record_start(l, i);
	output->is_own = true;
	output->size_bytes = l->todo[i]->size_bytes;
	output->mtime_ns = l->todo[i]->mtime_ns;
	return 0;
}

/* The user may have given others write access since the last search. */
static void note_writers(struct gd_launcher *l)
{
	struct stat st;
	if (!l->input_way.replaceable && l->input_fd >= 0)
		l->input_way.replaceable = fstat(l->input_fd, &st) < 0 || trust_objection_cached(l->input_fd, &st,
										  &l->input_way.private_group) != NULL;
}

void launcher_warn_if_open(struct gd_launcher *l)
{
	if (l->output_fd >= 0)
		note_writers(l);
	if (!l->has_run || l->warned_of_readers || !l->input_way.replaceable || l->output_fd < 0 || trust_is_off())
		return;
	l->warned_of_readers = true; /* even if there is nothing to say: the permissions are the user's choice */
	if (trust_is_open_to_others(l->output_fd) && !close_output(l))
		launcher_warn(l,
			"other users can change the content of input folder '%s' (they can write to this folder or to one that is searched, or rename one of them), and others can read the results in output folder '%s'; if you do not want that: chmod 700 '%s'",
			l->options.input_dir, l->options.output_dir, l->options.output_dir);
}
