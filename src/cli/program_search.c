/* SPDX-License-Identifier: MIT */
#include "cli/program_search.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

bool program_search_in_path(const char *name)
{
	const char *path = getenv("PATH");
	cleanup_(freep) char *copy = strdup(path ? path : "/bin:/usr/bin");
	if (!copy)
		return true; /* no warning about a missing program if memory ran out */
	char *rest = copy;
	for (const char *directory; (directory = strsep(&rest, ":"));) {
		cleanup_(text_finish) struct text file = {0};
		text_appendf(&file, "%s/%s", *directory ? directory : ".", name);
		if (access(text_string(&file), X_OK) == 0)
			return true;
	}
	return false;
}

bool program_search_finds(const char *name)
{
	return strchr(name, '/') ? access(name, F_OK) == 0 : program_search_in_path(name);
}

bool program_search_is_builtin(const char *name)
{
	static const char *const names[] = {"!", ".", ":", "[", "alias", "bg", "break", "case", "cd", "command",
		"continue", "declare", "echo", "eval", "exec", "exit", "export", "false", "fc", "fg", "for", "function",
		"getopts", "hash", "if", "jobs", "kill", "let", "local", "printf", "pwd", "read", "readonly", "return",
		"set", "shift", "source", "test", "time", "times", "trap", "true", "type", "ulimit", "umask", "unalias",
		"unset", "until", "wait", "while", "{"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}
