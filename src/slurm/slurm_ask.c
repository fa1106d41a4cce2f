/* SPDX-License-Identifier: MIT */
#include "slurm/slurm_ask.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "slurm/slurm_command.h"

#define PATIENCE_MS 30000

struct asked {
	struct slurm_answer *answer;
	bool over;
};

static void on_answer(void *context, int result, const char *out, size_t size, const char *err)
{
	struct asked *a = context;
	a->over = true;
	a->answer->result = result;
	text_append(&a->answer->out, out, size);
	snprintf(a->answer->words, sizeof(a->answer->words), "%.*s", (int)strcspn(err, "\n"), err);
}

int slurm_ask(const char *const *argv, struct slurm_answer *ret)
{
	struct asked a = {.answer = ret};
	struct slurm_command *command;
	struct loop *loop = NULL;
	text_clear(&ret->out);
	*ret->words = '\0';
	int r = loop_create(&loop);
	if (r == 0)
		r = slurm_command_start(loop, argv, PATIENCE_MS, on_answer, &a, &command);
	while (r == 0 && !a.over)
		r = loop_round(loop, -1);
	loop_destroy(loop);
	if (r < 0)
		ret->result = r;
	if (ret->result == 0 && text_error(&ret->out))
		ret->result = -ENOMEM;
	return ret->result;
}
