/* SPDX-License-Identifier: MIT */
/* `gpuq add train.sh`: the command is a script, whose content as it is now will run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/add_parts.h"
#include "cli/say.h"
#include "queue/journal/content_store.h"

static void say_note(void *context, const char *words)
{
	(void)context;
	say("%s", words);
}

/* What the command line does not say is as the script says. */
static int take_options(struct add *a)
{
	struct script *s = &a->script;
	struct config *c = &a->queue.command_line;
	const char *slash = strrchr(s->path, '/');
	int r = 0;
	job_options_fill(&a->options, &s->options);
	a->hold = a->hold || s->hold;
	if (!(a->options.set & 1u << JOB_OPTION_NAME))
		r = job_options_set(&a->options, JOB_OPTION_NAME, slash ? slash + 1 : s->path, &a->err);
	if (r == 0 && s->log_dir && !config_has(c, CONFIG_LOG_DIR))
		r = config_set(c, CONFIG_LOG_DIR, s->path, s->log_dir, &a->err);
	if (r == 0 && s->on_finish && !config_has(c, CONFIG_ON_FINISH))
		r = config_set(c, CONFIG_ON_FINISH, s->path, s->on_finish, &a->err);
	struct gd_error why;
	if (r == 0 && s->array && !a->indices.count && (r = sweep_parse_array(s->array, &a->indices, &why)) < 0)
		error_set(&a->err, r, "%s: array %s", s->path, why.message);
	return r;
}

int add_read_script(struct add *a)
{
	if (a->num_words != 1 || a->sweep.num_axes)
		return 0;
	int r = script_read(&a->script, a->words[0], say_note, NULL, &a->err);
	if (r <= 0)
		return r;
	a->is_script = true;
	return take_options(a);
}

int add_take_script(struct add *a)
{
	char name[HASH_TEXT];
	if (!a->is_script)
		return 0;
	content_store_name(a->script.content.data, a->script.content.length, name);
	if (asprintf(&a->script_path, "%s.d/" STORE_SCRIPTS "/%s", a->queue.journal_path, name) < 0) {
		a->script_path = NULL;
		return error_set(&a->err, -ENOMEM, "adding a job: out of memory");
	}
	a->num_words = 0;
	a->script_words[a->num_words++] = a->script.interpreter;
	if (a->script.argument)
		a->script_words[a->num_words++] = a->script.argument;
	a->script_words[a->num_words++] = a->script_path;
	a->words = a->script_words;
	return 0;
}

int add_keep_script(struct add *a, const struct journal *j, char name[HASH_TEXT], struct job_spec *spec)
{
	if (!a->is_script)
		return 0;
	int r = content_store_save(j->dir_fd, STORE_SCRIPTS, a->script.content.data, a->script.content.length, name);
	if (r < 0)
		return error_set(&a->err, r, "keeping script '%s': %s", a->script.path, error_words(r));
	spec->script = name;
	return 0;
}
