/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "launch/worker.h"

#define BLANKS " \t\n"

/* Everything else may mean something to a shell. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./,:@%^" BLANKS;

/* Words of the shell that are not programs. */
static const char *const builtins[] = {".", ":", "case", "cd", "command", "eval", "exec", "export", "for", "if", "set",
	"trap", "ulimit", "umask", "while"};

static bool needs_shell(const char *command)
{
	const char *word = command + strspn(command, BLANKS);
	size_t size = strcspn(word, BLANKS);
	for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
		if (strlen(builtins[i]) == size && memcmp(builtins[i], word, size) == 0)
			return true;
	/* An "=" is fine in an argument, but makes the first word an assignment. */
	if (memchr(word, '=', size))
		return true;
	for (const char *p = command; *p; p++)
		if (*p != '=' && (!strchr(plain, *p)))
			return true;
	return false;
}

/* Splits the text into words, in place; returns their number. */
static size_t split(char *text, char **words)
{
	size_t n = 0;
	for (char *p = text + strspn(text, BLANKS); *p; p += strspn(p, BLANKS)) {
		words[n++] = p;
		p += strcspn(p, BLANKS);
		if (*p)
			*p++ = '\0';
	}
	return n;
}

int launch_command_argv(const char *command, char ***ret)
{
	if (!command[strspn(command, BLANKS)])
		return -EINVAL;
	size_t size = strlen(command) + 1;
	size_t room = size / 2 + 4; /* for words of one letter, or the shell's three, and NULL */
	char **argv = malloc(room * sizeof(*argv) + size);
	if (!argv)
		return -ENOMEM;
	char *text = (char *)&argv[room];
	memcpy(text, command, size);
	if (needs_shell(command)) {
		argv[0] = (char *)"/bin/sh";
		argv[1] = (char *)"-c";
		argv[2] = text;
		argv[3] = NULL;
	} else {
		argv[split(text, argv)] = NULL;
	}
	*ret = argv;
	return 0;
}
