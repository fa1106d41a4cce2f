/* SPDX-License-Identifier: MIT */
#include "cli/gpus_option.h"

#include <stdlib.h>
#include <string.h>

#include "base/display.h"
#include "cli/arguments.h"
#include "cli/say.h"
#include "gpu_dispatch.h"

static const char *given;

void gpus_option_take(struct argp_state *state, const char *value)
{
	struct gd_error err = {0};
	char quote[DISPLAY_QUOTE_ROOM];
	if (strncmp(value, "sim:", 4) != 0)
		arguments_error(state,
			"--gpus '%s': for a number of GPUs use --num-gpus N, for specific ones --gpu 0,2; the GPUs of the queue are "
			"set with 'gpuq run --gpus' or $GPUQ_GPUS",
			display_quote(value, quote));
	if (gd_gpu_count(value, &err) < 0)
		arguments_error(state, "--gpus: %s", err.message);
	setenv("GPUQ_GPUS", value, 1);
	given = value;
}

void gpus_option_settle(bool active)
{
	if (given && active)
		say("a runner is already active with its own GPUs; --gpus %s has no effect", given);
	given = NULL;
}
