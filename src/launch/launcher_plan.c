/* SPDX-License-Identifier: MIT */
/* The plan: the files to process, without those done by an earlier run, and their output folders. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "launch/find.h"
#include "launch/launcher_private.h"

static const char *const kinds[] = {
	[0] = "hooks",
	[LAUNCH_TEMPLATE] = "command",
	[LAUNCH_PROGRAM] = "program",
	[LAUNCH_PLUGIN] = "plug-in",
	[LAUNCH_ARGV] = "worker program",
};

static int by_key(const void *x, const void *y)
{
	const struct gd_setting *a = x, *b = y;
	int r = strcmp(a->key, b->key);
	return r ? r : strcmp(a->value, b->value);
}

/* Worker and settings, each with its NUL: any difference changes the fingerprint. */
void launcher_fingerprint(struct gd_launcher *l)
{
	const struct gd_launch_options *o = &l->options;
	cleanup_(text_finish) struct text t = {0};
	text_append_string(&t, kinds[l->worker.kind]);
	text_append_char(&t, '\0');
	text_append_string(&l->worker_words, kinds[l->worker.kind]);
	/* A plug-in is identified by its real path, not by how the path is written or by its name. */
	cleanup_(freep) char *plugin = o->plugin ? realpath(o->plugin, NULL) : NULL;
	const char *one[] = {l->worker.kind != LAUNCH_PLUGIN ? o->worker_name : plugin ? plugin : o->plugin, NULL};
	for (const char *const *word = l->worker.argv ? l->worker.argv : one; *word; word++) {
		text_append(&t, *word, strlen(*word) + 1);
		text_appendf(&l->worker_words, " %s", *word);
	}
	if (l->worker.kind == LAUNCH_ARGV)
		text_append(&t, o->worker_name, strlen(o->worker_name) + 1);
	text_append_char(&t, '\0');
	cleanup_(freep) struct gd_setting *sorted = calloc(o->num_settings + 1, sizeof(*sorted));
	for (size_t i = 0; sorted && i < o->num_settings; i++)
		sorted[i] = o->settings[i];
	if (sorted)
		qsort(sorted, o->num_settings, sizeof(*sorted), by_key);
	for (size_t i = 0; sorted && i < o->num_settings; i++) {
		text_append(&t, sorted[i].key, strlen(sorted[i].key) + 1);
		text_append_string(&t, sorted[i].value);
		text_append_char(&t, '\0');
	}
	hash_format(hash_bytes(text_string(&t), t.length), l->fingerprint);
}

static bool is_stopped(void *context)
{
	const struct gd_launcher *l = context;
	return atomic_load(&l->stops) > 0;
}

static int find_inputs(struct gd_launcher *l, struct gd_error *err)
{
	const struct gd_launch_options *o = &l->options;
	const struct gd_find_options find = {
		.size = sizeof(find),
		.patterns = o->patterns,
		.num_patterns = o->num_patterns,
		.recursive = o->recursive != 0,
		.trust_input = o->trust_input,
		.exclude = o->output_dir,
		.stopped = is_stopped,
		.context = l,
	};
	int r = gd_files_find(o->input_dir, &find, &l->files, err);
	for (size_t i = 0; r == 0 && i < l->files->num_warnings; i++)
		launcher_warn(l, "%s", l->files->warnings[i]);
	if (r == 0)
		launcher_note_search(l, l->files);
	return r;
}

static int read_history(struct gd_launcher *l, struct gd_error *err)
{
	char path[PATH_MAX + sizeof(HISTORY_NAME) + 1];
	snprintf(path, sizeof(path), "%s/" HISTORY_NAME, l->options.output_dir);
	int r = history_load(&l->history, l->output_fd, path, !l->options.trust_output_dir, err);
	if (r == 0 && l->history.bad_lines)
		launcher_warn(l, "'%s': %llu bad line%s skipped, the first is line %llu", path,
			(unsigned long long)l->history.bad_lines, l->history.bad_lines == 1 ? "" : "s",
			(unsigned long long)l->history.first_bad_line);
	return r;
}

const char *launcher_input_name(const struct gd_launcher *l)
{
	return l->input_name ? l->input_name : l->files->folder;
}

bool launcher_is_done(const struct gd_launcher *l, const struct gd_found *f, const struct history_entry *e)
{
	return e && e->done && e->size_bytes == f->size_bytes && e->mtime_ns == f->mtime_ns &&
	       strcmp(e->fingerprint, l->fingerprint) == 0 && faccessat(l->output_fd, e->output, F_OK, 0) == 0;
}

static int claim_outputs(struct gd_launcher *l)
{
	for (size_t i = 0; i < l->history.count; i++) {
		int r = outputs_claim(&l->outputs, l->history.entries[i].output, i);
		if (r < 0)
			return r;
	}
	return 0;
}

const struct history_entry *launcher_find_entry(const struct gd_launcher *l, const char *path, uid_t owner)
{
	if (launcher_is_open_to_others(l))
		return history_find(&l->history, path, owner);
	const struct history_entry *e = history_find(&l->history, path, 0);
	return e || !owner ? e : history_find(&l->history, path, owner);
}

bool launcher_has_folder_of_another(const struct gd_launcher *l, size_t i)
{
	const struct launcher_output *output = &l->output_of[i];
	const struct gd_found *f = l->todo[i];
	return output->owner == TRUST_SEVERAL_USERS && output->is_own &&
	       (output->size_bytes != f->size_bytes || output->mtime_ns != f->mtime_ns);
}

/* Earlier owners are identified by their index in the history, new ones by the numbers after those. */
int launcher_choose_output(struct gd_launcher *l, size_t i, uid_t owner)
{
	const struct history_entry *e = launcher_find_entry(l, l->todo[i]->path, owner);
	struct launcher_output *output = &l->output_of[i];
	*output = (struct launcher_output){.owner = e ? e->owner : owner};
	const size_t *file = e ? path_map_get(&l->outputs.owners, e->output) : NULL;
	if (file && *file == (size_t)(e - l->history.entries)) {
		output->folder = e->output;
		output->is_own = e->has_folder;
		output->size_bytes = e->size_bytes;
		output->mtime_ns = e->mtime_ns;
		if (!launcher_has_folder_of_another(l, i))
			return 0;
		output->is_own = false;
	}
	return outputs_choose(&l->outputs, l->todo[i]->path, l->history.count + i, &output->folder);
}

static const char *other_input(const struct gd_launcher *l, const struct history_entry *e)
{
	return e && e->done && e->input && strcmp(e->input, launcher_input_name(l)) != 0 ? e->input : NULL;
}

const char *launcher_other_input(const struct gd_launcher *l, size_t i)
{
	return l->options.force ? NULL
				: other_input(l, launcher_find_entry(l, l->todo[i]->path, l->output_of[i].owner));
}

static void count_earlier(struct gd_launcher *l)
{
	double audio = 0, audio_processing = 0, bytes = 0, processing = 0;
	for (size_t i = 0; i < l->history.count; i++) {
		const struct history_entry *e = &l->history.entries[i];
		if (!e->done || strcmp(e->fingerprint, l->fingerprint) != 0)
			continue;
		bytes += (double)e->size_bytes;
		processing += e->processing_seconds;
		if (e->audio_seconds <= 0)
			continue;
		audio += e->audio_seconds;
		audio_processing += e->processing_seconds;
	}
	l->earlier = (struct gd_launch_pace){
		.size = sizeof(l->earlier),
		.known = (audio > 0 ? GD_KNOWN_RTF : 0) | (processing > 0 ? GD_KNOWN_BYTES_PER_SECOND : 0),
		.rtf = audio > 0 ? audio_processing / audio : 0,
		.bytes_per_second = processing > 0 ? bytes / processing : 0,
	};
}

static int sort_out(struct gd_launcher *l, size_t *ret_replaced, const char **ret_input)
{
	const struct gd_files *files = l->files;
	l->todo = calloc(files->count + 1, sizeof(*l->todo));
	l->output_of = calloc(files->count + 1, sizeof(*l->output_of));
	l->todo_capacity = l->output_capacity = files->count + 1;
	int r = l->todo && l->output_of ? claim_outputs(l) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < files->count; i++) {
		struct gd_found *f = (struct gd_found *)files->files[i]; /* ours; const for callers only */
		uid_t owner = launcher_owner(l, find_owner(files, i));
		const struct history_entry *e = launcher_find_entry(l, f->path, owner);
		if (!l->options.force && launcher_is_done(l, f, e)) {
			l->num_skipped++;
			continue;
		}
		if (other_input(l, e)) {
			(*ret_replaced)++;
			*ret_input = e->input;
		}
		l->todo[l->num_todo] = f;
		/* Files of other users get their folders later: their b.mp3 must not get "b", the folder of our b.wav.
		 */
		if (owner)
			l->output_of[l->num_todo].owner = owner;
		else
			r = launcher_choose_output(l, l->num_todo, owner);
		if (r == 0)
			l->num_todo++;
	}
	for (size_t k = 0; r == 0 && k < l->num_todo; k++)
		if (!l->output_of[k].folder)
			r = launcher_choose_output(l, k, l->output_of[k].owner);
	return r;
}

void launcher_drop_plan(struct gd_launcher *l)
{
	gd_files_free(l->files);
	l->files = NULL;
	history_finish(&l->history);
	outputs_finish(&l->outputs);
	free(l->todo);
	free(l->output_of);
	l->todo = NULL;
	l->output_of = NULL;
	l->todo_capacity = l->output_capacity = 0;
	l->num_todo = l->num_skipped = 0;
	l->planned = false;
}

int launcher_plan(struct gd_launcher *l, struct gd_error *err)
{
	launcher_drop_plan(l);
	/* A folder that appears after this is not read here: it is examined when the run begins. */
	int r = launcher_enter_output(l, err);
	if (r < 0 && r != -ENOENT)
		return r;
	r = find_inputs(l, err);
	if (r == 0 && l->output_fd >= 0)
		r = read_history(l, err);
	if (r < 0)
		return r;
	size_t replaced = 0;
	const char *input = NULL;
	r = sort_out(l, &replaced, &input);
	if (r < 0)
		return error_set(err, r, "cannot plan the work on %zu files: %s", l->files->count, error_words(r));
	/* Otherwise, another user could prevent the run with one file. Only files with such a name fail. */
	if (replaced && !l->options.force && !launcher_is_open_to_others(l))
		return error_set(err, -EINVAL,
			"output folder '%s' has results of %zu file%s with the same name%s from '%s'; choose another output_dir to keep them, or set force to replace them",
			l->options.output_dir, replaced, replaced == 1 ? "" : "s", replaced == 1 ? "" : "s", input);
	count_earlier(l);
	l->planned = true;
	return 0;
}
