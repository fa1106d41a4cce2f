/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/say.h"

static void check(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	say("cannot write the output: %s", strerror(errno));
	_exit(EXIT_WORK_FAILED);
}

void output_check_at_exit(void)
{
	atexit(check);
}
