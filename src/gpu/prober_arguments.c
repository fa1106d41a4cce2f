/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/prober.h"

enum {
	NUM_ARGUMENTS = 5,
};

void prober_write_arguments(const struct prober_settings *settings, struct prober_arguments *ret)
{
	size_t room = sizeof(ret->text[0]);
	/* Structures are sent over the socket unchanged: both sides must be of the same build. */
	snprintf(ret->text[0], room, GD_VERSION "-%zu-%zu", sizeof(struct gd_gpu), sizeof(struct gd_gpu_process));
	snprintf(ret->text[1], room, "%d", (int)settings->parent);
	snprintf(ret->text[2], room, "%u", settings->period_ms);
	snprintf(ret->text[3], room, "%u", settings->answer_ms);
	snprintf(ret->text[4], room, "%d", settings->events);
	ret->argv[0] = (char *)"gpuq-probe";
	for (int i = 0; i < NUM_ARGUMENTS; i++)
		ret->argv[i + 1] = ret->text[i];
	ret->argv[NUM_ARGUMENTS + 1] = NULL;
}

int prober_read_arguments(int argc, char **argv, struct prober_settings *ret)
{
	if (argc != NUM_ARGUMENTS + 1)
		return -EINVAL;
	struct prober_settings s = {
		.socket = PROBER_SOCKET,
		.parent = (pid_t)strtol(argv[2], NULL, 10),
		.period_ms = (unsigned)strtoul(argv[3], NULL, 10),
		.answer_ms = (unsigned)strtoul(argv[4], NULL, 10),
		.events = strcmp(argv[5], "1") == 0,
	};
	/* Formatted again, they must equal the input. */
	struct prober_arguments again;
	prober_write_arguments(&s, &again);
	for (int i = 1; i <= NUM_ARGUMENTS; i++)
		if (strcmp(argv[i], again.argv[i]) != 0)
			return -EINVAL;
	*ret = s;
	return 0;
}
