/* SPDX-License-Identifier: MIT */
/* `gpuq add`: warnings about jobs that can never start or will fail at once. They are added nevertheless. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "cli/add_parts.h"
#include "cli/program_search.h"
#include "cli/say.h"
#include "queue/journal/follow.h"
#include "queue/runner/verdicts.h"

void add_warn(const struct journal *j, const struct job_spec *spec, const struct id_list *ids, bool started)
{
	cleanup_(text_finish) struct text words = {0};
	if (verdicts_warn(j->dir_fd, spec, ids->count, started, &words) < 0 || words.length == 0)
		return;
	if (ids->count == 1)
		say("job %" PRIu64 " %s", ids->ids[0], text_string(&words));
	else
		say("jobs with these options %s", text_string(&words));
}

void add_warn_of_dependencies(struct journal *j, const struct id_list *ids)
{
	cleanup_(text_finish) struct text words = {0};
	struct follow f;
	struct verdicts *v = NULL;
	const struct job *at;
	if (follow_open_journal(j, &f, NULL) < 0)
		return;
	const struct job *job = jobs_find(&f.jobs, ids->ids[0]);
	if (job && verdicts_open(&f, NULL, NULL, VERDICTS_QUICK, &v, NULL) == 0 &&
		verdicts_obstacle(v, job, &words, &at) == 0 && at != job && words.length > 0 && !text_error(&words))
		say("job %" PRIu64 " waits for job %" PRIu64 ", which %s", job->id, at->id, text_string(&words));
	verdicts_close(v);
	follow_close(&f);
}

/* The first word of shell text if no expansion, assignment or quote can change it; otherwise "". */
static void first_word(const char *command, struct text *ret)
{
	const char *begin = command + strspn(command, " \t\n");
	size_t size = strcspn(begin, " \t\n;&|<>()");
	for (size_t i = 0; i < size; i++)
		if (strchr("\"'`$\\*?[]~={}#%!", begin[i]))
			return;
	text_append(ret, begin, size);
}

void add_warn_of_missing_program(const struct add *a)
{
	cleanup_(text_finish) struct text word = {0};
	char quoted[DISPLAY_QUOTE_ROOM];
	if (a->is_script || a->num_words == 0)
		return;
	first_word(a->words[0], &word);
	/* Several words are quoted one by one: a space in the first word is part of the name. */
	const char *name = text_string(&word);
	if (!*name || (a->num_words > 1 && strcmp(name, a->words[0]) != 0))
		return;
	if (program_search_is_builtin(name) || program_search_finds(name))
		return;
	display_quote(name, quoted);
	if (!strchr(name, '/') && access(name, F_OK) == 0)
		say("'%s' is a file here, but the shell searches only PATH; write './%s' or 'sh %s'", quoted, quoted,
			quoted);
	else
		say("'%s' is neither a file nor a program in PATH; the job will fail unless it exists when the job starts",
			quoted);
}
