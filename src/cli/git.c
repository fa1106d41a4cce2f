/* SPDX-License-Identifier: MIT */
#include "cli/git.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "cli/git_child.h"

extern char **environ;

#define MAX_WORDS 48

/* Leaves room in a gd_error for the words that callers add. */
#define MAX_MESSAGE 400

/* in: -1 for no input. */
static int spawn(const char *const *argv, char *const *env, int in, int out, int messages, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, usual;
	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attributes) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	int r = in < 0 ? posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
		       : posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
	r = r ? r : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = r ? r : posix_spawnattr_setsigmask(&attributes, &none);
	r = r ? r : posix_spawnattr_setsigdefault(&attributes, &usual);
	r = r ? r : posix_spawnp(ret, "git", &actions, &attributes, (char *const *)argv, env);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* The first line of git's error output and, if that line announces a list ("…:"), the next lines up to the hints. */
static void first_message(const char *p, struct text *ret)
{
	size_t length = strcspn(p, "\n");
	bool is_list = length && p[length - 1] == ':';
	text_append(ret, p, length);
	while (is_list && *(p += length)) {
		p += strspn(p, "\n\t ");
		length = strcspn(p, "\n");
		if (length == 0 || strncmp(p, "hint:", 5) == 0)
			return;
		text_append_char(ret, ' ');
		text_append(ret, p, length);
	}
}

static int failed(int messages, int status, struct gd_error *err)
{
	cleanup_(text_finish) struct text message = {0};
	char words[4096];
	ssize_t n = pread(messages, words, sizeof(words) - 1, 0);
	words[n > 0 ? n : 0] = '\0';
	first_message(words, &message);
	if (WIFSIGNALED(status))
		return error_set(err, -EINVAL, "git was ended by signal %d", WTERMSIG(status));
	if (message.length == 0)
		return error_set(err, -EINVAL, "git failed");
	bool fits = message.length <= MAX_MESSAGE;
	size_t shown = fits ? message.length : utf8_whole(text_string(&message), MAX_MESSAGE - strlen("…"));
	return error_set(err, -EINVAL, "%.*s%s", (int)shown, text_string(&message), fits ? "" : "…");
}

/* The environment with this variable, "NAME=VALUE"; allocated, but the strings are not copied. */
static char **with_variable(char *variable)
{
	size_t n = 0, kept = 0, name = strcspn(variable, "=") + 1;
	while (environ[n])
		n++;
	char **env = calloc(n + 2, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], variable, name) != 0)
			env[kept++] = environ[i];
	if (env)
		env[kept] = variable;
	return env;
}

/* *ret_status: as of waitpid(), if 0 is returned. */
static int run(const char *const *argv, char *const *env, int in, int messages, struct text *out, int *ret_status,
	struct gd_error *err)
{
	int fds[2];
	pid_t pid = 0;
	if (messages < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot start git: %s", error_words(-errno));
	int r = spawn(argv, env, in, fds[1], messages, &pid);
	close(fds[1]);
	if (r == 0)
		r = git_child_read(pid, fds[0], &(struct git_patience)GIT_PATIENCE, out);
	close(fds[0]);
	if (r < 0 && pid == 0)
		return error_set(err, r, "cannot start git: %s", error_words(r));
	while (pid && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	if (r == -ETIME)
		return error_set(err, r, "git did nothing for 30 s; is a .gitignore or .gitattributes a pipe?");
	if (r == -EFBIG)
		return error_set(err, r, "git ran for more than 10 min; is there a huge file in the tree?");
	return r < 0 ? error_set(err, r, "cannot read the output of git: %s", error_words(r)) : 0;
}

/* accepted: an exit code besides 0 that is not an error; check-ignore exits with 1 if it finds nothing. */
static int run_words(const char *dir, char *const *env, int in, const char *const *words, int accepted,
	struct text *out, struct gd_error *err)
{
	const char *argv[MAX_WORDS + 14] = {"git", "-C", dir, "-c", "core.hooksPath=/dev/null", "-c",
		"core.fsmonitor=false", "-c", "user.name=gpuq", "-c", "user.email=gpuq@localhost"};
	cleanup_(closep) int messages = memfd_create("git", MFD_CLOEXEC);
	int status = 0;
	for (size_t n = 11; *words && n < MAX_WORDS + 13; words++)
		argv[n++] = *words;
	int r = run(argv, env, in, messages, out, &status, err);
	if (r < 0)
		return r;
	bool good = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == accepted);
	return good ? 0 : failed(messages, status, err);
}

int git_run(const char *dir, const char *index, const char *const *words, struct text *out, struct gd_error *err)
{
	cleanup_(freep) char *variable = NULL;
	cleanup_(freep) char **env = NULL;
	if (index && asprintf(&variable, "GIT_INDEX_FILE=%s", index) < 0)
		variable = NULL;
	if (variable)
		env = with_variable(variable);
	if (index && !env)
		return error_set(err, -ENOMEM, "cannot start git: out of memory");
	return run_words(dir, env ? env : environ, -1, words, 0, out, err);
}

void git_cut_newline(struct text *t)
{
	if (t->length && t->data[t->length - 1] == '\n')
		t->data[--t->length] = '\0';
}

int git_list_ignored(const char *top, const struct text *paths, struct text *ret, struct gd_error *err)
{
	cleanup_(closep) int in = memfd_create("paths", MFD_CLOEXEC);
	int r = text_error(paths) ? -ENOMEM : in < 0 ? -errno : file_write_all(in, text_string(paths), paths->length);
	if (r == 0 && lseek(in, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, r, "cannot start git: %s", error_words(r));
	if (paths->length == 0)
		return 0;
	/* Without the index, because git would search all of it for each path. */
	return run_words(top, environ, in, (const char *const[]){"check-ignore", "--no-index", "-z", "--stdin", NULL},
		1, ret, err);
}
