/* SPDX-License-Identifier: MIT */
/* `gpuq add train.sh`: the command is a script; the job runs a copy of it, made when the job is added. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/add_parts.h"
#include "cli/program_search.h"
#include "cli/say.h"
#include "queue/journal/content_store.h"

static void say_note(void *context, const char *words)
{
	(void)context;
	say("%s", words);
}

static const char *basename_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Options that are not on the command line come from the script. */
static int take_options(struct add *a)
{
	struct script *s = &a->script;
	struct config *c = &a->queue.command_line;
	const char *base = basename_of(s->path);
	int r = 0;
	job_options_fill(&a->options, &s->options);
	a->hold = a->hold || s->hold;
	if (!(a->options.set & 1u << JOB_OPTION_NAME) && job_selection_is_name(base))
		r = job_options_set(&a->options, JOB_OPTION_NAME, base, &a->err);
	if (r == 0 && s->log_dir && !config_has(c, CONFIG_LOG_DIR))
		r = config_set(c, CONFIG_LOG_DIR, s->path, s->log_dir, &a->err);
	if (r == 0 && s->on_finish && !config_has(c, CONFIG_ON_FINISH))
		r = config_set(c, CONFIG_ON_FINISH, s->path, s->on_finish, &a->err);
	if (r == 0 && s->on_idle && !config_has(c, CONFIG_ON_IDLE))
		r = config_set(c, CONFIG_ON_IDLE, s->path, s->on_idle, &a->err);
	struct gd_error why;
	if (r == 0 && s->array && !a->indices.count && (r = sweep_parse_array(s->array, &a->indices, &why)) < 0)
		error_set(&a->err, r, "%s: array %s", s->path, why.message);
	return r;
}

/*
 * A file without arguments is a script. With arguments, it is a script only if it has job options or could not be run
 * otherwise: programs such as ./train.py may depend on their own location. A name without a slash is a program in PATH
 * first, as in a shell: a repository may contain a file "python3".
 */
static bool counts(const struct add *a)
{
	const char *path = a->words[0];
	bool complete = a->num_words == 1 || a->script.has_options;
	if (strchr(path, '/'))
		return complete;
	if (!program_search_in_path(path))
		return true;
	if (complete)
		say("'%s' is the program in PATH; write './%s' for the script in this directory", path, path);
	return false;
}

/* Another user may have put the file there. */
static int refuse(struct add *a)
{
	const char *name = a->words[0];
	if (!program_search_in_path(name) && !program_search_is_builtin(name))
		return error_set(&a->err, -EPERM,
			"refusing to use the script '%s', because another user could have put it there or changed it; write './%s' to use it",
			name, name);
	say("'%s' in this directory is not used, because another user could have put it there or changed it; write './%s' to use it",
		name, name);
	return 0;
}

int add_read_script(struct add *a)
{
	int r = a->num_words ? script_read(&a->script, a->words[0], say_note, NULL, &a->err) : 0;
	/* With arguments, run the file itself, not a copy: archives with a "#!" line, such as .pex and .run, are often
	 * large. */
	if ((r == -EFBIG || r == -ENOEXEC) && a->num_words > 1)
		r = 0;
	else if (r == -EFBIG || r == -ENOEXEC)
		r = -EINVAL;
	if (r == 0 && a->script.refused)
		return refuse(a);
	if (r <= 0 || !counts(a))
		return r < 0 ? r : 0;
	a->is_script = true;
	return take_options(a);
}

int add_take_script(struct add *a)
{
	char name[HASH_TEXT];
	if (!a->is_script)
		return 0;
	content_store_name(a->script.content.data, a->script.content.length, name);
	a->script_words = calloc((size_t)a->num_words + 2, sizeof(*a->script_words));
	if (!a->script_words ||
		asprintf(&a->script_path, "%s.d/" STORE_SCRIPTS "/%s", a->queue.journal_path, name) < 0) {
		a->script_path = NULL;
		return error_set(&a->err, -ENOMEM, "cannot add the job: out of memory");
	}
	int n = 0;
	a->script_words[n++] = a->script.interpreter;
	if (a->script.argument)
		a->script_words[n++] = a->script.argument;
	a->script_words[n++] = a->script_path;
	for (int i = 1; i < a->num_words; i++)
		a->script_words[n++] = a->words[i];
	a->words = a->script_words;
	a->num_words = n;
	return 0;
}

int add_keep_script(struct add *a, const struct journal *j, char name[HASH_TEXT], struct job_spec *spec)
{
	if (!a->is_script)
		return 0;
	int r = content_store_save(j->dir_fd, STORE_SCRIPTS, a->script.content.data, a->script.content.length, name);
	if (r < 0)
		return error_set(&a->err, r, "cannot store script '%s': %s", a->script.path,
			r == -EEXIST ? "its file in the journal's folder has different content" : error_words(r));
	const char *base = basename_of(a->script.path);
	spec->script = name;
	spec->script_name = utf8_whole(base, strlen(base)) == strlen(base) ? base : NULL;
	return 0;
}
