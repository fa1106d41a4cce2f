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
#include <unistd.h>

#include "base/error.h"
#include "launch/find.h"
#include "launch/launcher_private.h"

static int make_output(struct gd_launcher *l, struct gd_error *err)
{
	const char *output = l->options.output_dir;
	bool private = l->input_way.replaceable && !trust_is_off();
	int r = outputs_make_folder(AT_FDCWD, output, private ? 0700 : 0755);
	if (r < 0)
		return error_set(err, r, "cannot create output folder '%s': %s", output, error_words(r));
	l->made_output = r == OUTPUTS_MADE;
	if (r == OUTPUTS_MADE && private)
		launcher_warn(l,
			"created output folder '%s' with mode 0700, because other users can choose files of input folder '%s' (they can write or rename it, or a folder that is searched); to let others read the results: chmod 755 '%s'",
			output, l->options.input_dir, output);
	return 0;
}

/* Check it before making it, and again afterwards: another user may have made it in between. */
int launcher_open_output(struct gd_launcher *l, struct gd_error *err)
{
	char root[PATH_MAX];
	const char *output = l->options.output_dir;
	bool trust = l->options.trust_output_dir;
	int r = trust ? -ENOENT : outputs_open_trusted(output, &l->output_fd, err);
	if (r == -ENOENT) {
		r = make_output(l, err);
		if (r < 0)
			return r;
		r = trust ? 0 : outputs_open_trusted(output, &l->output_fd, err);
	}
	if (r < 0)
		return r == -ENOENT ? error_set(err, r, "cannot open output folder '%s': %s", output, error_words(r))
				    : r;
	/* The checked folder keeps its path: no other user can rename a part of it. */
	if (realpath(output, root))
		l->output_root = strdup(root);
	if (l->output_root && trust)
		l->output_fd = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!l->output_root || l->output_fd < 0)
		return error_set(err, -errno, "cannot open output folder '%s': %s", output, error_words(-errno));
	launcher_warn_if_open(l);
	return 0;
}

void launcher_note_search(struct gd_launcher *l, const struct gd_files *files)
{
	l->input_way.replaceable = l->input_way.replaceable || find_is_open_to_others(files);
	launcher_warn_if_open(l);
}

/* A folder of another user was found after the start: no result of it exists yet. */
static bool close_output(struct gd_launcher *l)
{
	struct stat st;
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", l->output_fd);
	if (!l->made_output || fstat(l->output_fd, &st) < 0 || !(st.st_mode & 0077) ||
		chmod(path, st.st_mode & 0700) < 0)
		return false;
	launcher_warn(l,
		"changed the mode of output folder '%s' to 0700, because other users can now choose files of input folder '%s'; to let others read the results: chmod 755 '%s'",
		l->options.output_dir, l->options.input_dir, l->options.output_dir);
	return true;
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
	if (l->warned_of_readers || !l->input_way.replaceable || l->output_fd < 0 || trust_is_off())
		return;
	l->warned_of_readers = true; /* also if there is nothing to say: the permissions are the user's choice */
	if (trust_is_open_to_others(l->output_fd) && !close_output(l))
		launcher_warn(l,
			"other users can choose files of input folder '%s' (they can write or rename it, or a folder that is searched), and results of these files are readable by others in output folder '%s'; to keep results private: chmod 700 '%s'",
			l->options.input_dir, l->options.output_dir, l->options.output_dir);
}
