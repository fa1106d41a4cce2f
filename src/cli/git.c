/* SPDX-License-Identifier: MIT */
#include "cli/git.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/git_child.h"

extern char **environ;

#define MAX_WORDS 48

static int spawn(const char *const *argv, char *const *env, int out, int messages, pid_t *ret)
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
	int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
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

/* The first line of git's error output. */
static int failed(int messages, struct gd_error *err)
{
	char words[400];
	ssize_t n = pread(messages, words, sizeof(words) - 1, 0);
	words[n > 0 ? n : 0] = '\0';
	words[strcspn(words, "\n")] = '\0';
	return error_set(err, -EINVAL, "%s", *words ? words : "git failed");
}

/* Whether `entry`, "NAME=VALUE", is one of the variables. */
static bool is_replaced(const char *entry, const char *const *variables)
{
	for (; *variables; variables++)
		if (strncmp(entry, *variables, strcspn(*variables, "=") + 1) == 0)
			return true;
	return false;
}

/* The environment with these variables; allocated, but the strings are not copied. */
static char **with_variables(const char *const *variables)
{
	size_t n = 0, added = 0, kept = 0;
	while (environ[n])
		n++;
	while (variables[added])
		added++;
	char **env = calloc(n + added + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (!is_replaced(environ[i], variables))
			env[kept++] = environ[i];
	for (size_t i = 0; env && i < added; i++)
		env[kept++] = (char *)(uintptr_t)variables[i];
	return env;
}

int git_run(const char *dir, const char *index, const char *const *words, struct text *out, struct gd_error *err)
{
	cleanup_(freep) char *variable = NULL;
	if (index && asprintf(&variable, "GIT_INDEX_FILE=%s", index) < 0) {
		variable = NULL;
		return error_set(err, -ENOMEM, "cannot start git: out of memory");
	}
	return git_run_with(dir, (const char *const[]){variable, NULL}, words, out, err);
}

int git_run_with(
	const char *dir, const char *const *variables, const char *const *words, struct text *out, struct gd_error *err)
{
	const char *argv[MAX_WORDS + 14] = {"git", "-C", dir, "-c", "core.hooksPath=/dev/null", "-c",
		"core.fsmonitor=false", "-c", "user.name=gpuq", "-c", "user.email=gpuq@localhost"};
	size_t n = 11;
	cleanup_(freep) char **env = with_variables(variables);
	cleanup_(closep) int messages = memfd_create("git", MFD_CLOEXEC);
	int fds[2], status = 0;
	pid_t pid = 0;
	for (; *words && n < MAX_WORDS + 13; words++)
		argv[n++] = *words;
	if (messages < 0 || !env || pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, -ENOMEM, "cannot start git: %s", error_words(-errno));
	int r = spawn(argv, env, fds[1], messages, &pid);
	close(fds[1]);
	if (r == 0)
		r = git_child_read(pid, fds[0], &(struct git_patience)GIT_PATIENCE, out);
	close(fds[0]);
	if (r < 0 && pid == 0)
		return error_set(err, r, "cannot start git: %s", error_words(r));
	while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == -ETIME)
		return error_set(err, r, "git did nothing for 30 s; is a .gitignore or .gitattributes a pipe?");
	if (r == -EFBIG)
		return error_set(err, r, "git worked for more than 10 min; is there a huge file in the tree?");
	if (r < 0)
		return error_set(err, r, "cannot read the output of git: %s", error_words(r));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : failed(messages, err);
}
