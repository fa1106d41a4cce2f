/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/exec_parts.h"
#include "cli/exit_code.h"
#include "cli/program_search.h"
#include "cli/say.h"
#include "queue/input/submit.h"

#define EXIT_NOT_FOUND 127

/* ---- The command ---------------------------------------------------------------------- */

static int check_command(const struct exec *e)
{
	const char *name = e->command.words[0];
	if (program_search_finds(name))
		return 0;
	if (e->command.count == 1 && strpbrk(name, " \t|;&<>"))
		say("cannot execute '%s': %s; for shell text: gpuq exec -- sh -c '…'", name, error_words(ENOENT));
	else
		say("cannot execute '%s': %s", name, error_words(ENOENT));
	return -ENOENT;
}

/* ---- The job -------------------------------------------------------------------------- */

static int fill_spec(struct exec *e, struct job_spec *s, char **ret_cwd, struct text *command)
{
	const struct config *c = &e->queue.config;
	*ret_cwd = getcwd(NULL, 0);
	for (int i = 0; i < e->command.count; i++) {
		text_append_string(command, i ? " " : "");
		shell_quote(command, e->command.words[i], strlen(e->command.words[i]));
	}
	if (text_error(command))
		return error_set(&e->err, -ENOMEM, "cannot add the job: out of memory");
	*s = (struct job_spec){.command = text_string(command),
		.command_size = command->length,
		.cwd = *ret_cwd,
		.on_finish = c->on_finish,
		.on_idle = c->on_idle,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = config_has(c, CONFIG_TIMEOUT) ? (int64_t)c->timeout_ms : -1,
		.retries = 0,
		.keeper = e->lease.keeper};
	if (s->cwd && submit_describe_cwd(s, AT_FDCWD) < 0)
		s->cwd = "/"; /* the hook runs in /, because it cannot enter the current directory */
	job_spec_set_defaults(s, c);
	return job_options_apply(&e->options, s, &e->err);
}

static int add(struct exec *e, const struct job_spec *spec)
{
	struct submit s;
	struct id_list ids = {0};
	int r = submit_begin(&s, e->journal, &ids, &e->err);
	if (r < 0)
		return r;
	r = submit_add(&s, spec, &e->err);
	if (r < 0)
		submit_abort(&s);
	else
		r = submit_commit(&s, &e->err);
	e->id = r == 0 ? ids.ids[0] : 0;
	id_list_finish(&ids);
	return r;
}

/* Uses the open journal: a separate reader would open the lock file, too, and closing that descriptor would release the
 * lock that is held while the job is withdrawn. */
static int open_follow(struct exec *e)
{
	int r = follow_open_journal(e->journal, &e->follow, &e->err);
	if (r == 0)
		e->follow.watch_fd = journal_watch(e->follow.path);
	return r;
}

/* ---- The whole command ---------------------------------------------------------------- */

static int wait_and_attend(struct exec *e)
{
	struct lease_message m;
	int number = 0, r = exec_wait(e, &m, &number);
	if (r == -EINTR)
		return 128 + number;
	if (r < 0) {
		say_error(&e->err);
		return EXIT_WAIT;
	}
	return exec_attend(e, &m);
}

static int prepare(struct exec *e)
{
	cleanup_(freep) char *cwd = NULL;
	cleanup_(text_finish) struct text command = {0};
	struct job_spec spec;
	int r = queue_choice_resolve(&e->queue, &e->err);
	/* Find mistakes before a queue is created. */
	if (r == 0)
		r = fill_spec(e, &spec, &cwd, &command);
	if (r == 0)
		r = queue_choice_open(&e->queue, &e->journal, &e->err);
	if (r == 0 && (r = background_check(&e->queue, e->journal->dir_fd, &e->err)) < 0)
		journal_remove_empty(e->journal);
	if (r == 0)
		r = lease_start(e->journal, e->command.words, &e->mask, &e->lease, &e->err);
	if (r == 0) {
		exec_block_signals();
		r = add(e, &spec);
	}
	return r == 0 ? open_follow(e) : r;
}

int exec_main(struct exec *e)
{
	e->queue.adds = true;
	e->lease.fd = -1;
	e->follow.watch_fd = e->follow.dir_fd = e->follow.reader.fd = -1;
	sigprocmask(SIG_BLOCK, NULL, &e->mask);
	if (check_command(e) < 0)
		return EXIT_NOT_FOUND;
	int r = prepare(e), code = EXIT_WAIT;
	if (r < 0)
		say_error(&e->err);
	else
		code = wait_and_attend(e);
	exec_notice_finish(&e->notice);
	/* The keeper exits, unless it is running a hook. */
	lease_finish(&e->lease);
	if (r == 0)
		follow_close(&e->follow);
	journal_close(e->journal);
	job_options_finish(&e->options);
	queue_choice_finish(&e->queue);
	return code;
}

static int main_exec(int argc, char **argv)
{
	struct exec e = {0};
	argp_err_exit_status = EXIT_WAIT;
	command_parse_in_order(&exec_argp, argc, argv, &e);
	return exec_main(&e);
}

const struct command cmd_exec = {"exec", "Run a command in this terminal on a free GPU", main_exec};
