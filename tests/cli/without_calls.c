/* SPDX-License-Identifier: MIT */
/*
 * Runs a program as on a kernel that lacks a system call.
 *
 *     without_calls NAME PROGRAM [ARGUMENT…]
 *
 * NAME is one of support/missing_calls.c, "fchmod", or "all". Without arguments it lists them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/missing_calls.h"

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 1 && i < num_missing_calls; i++)
		puts(missing_calls[i].name);
	if (argc < 3)
		return argc == 1 ? 0 : 2;
	int r = missing_calls_forbid(strcmp(argv[1], "all") == 0 ? NULL : argv[1]);
	if (r < 0) {
		fprintf(stderr, "without_calls: cannot forbid '%s': %s\n", argv[1], strerror(-r));
		return 2;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
