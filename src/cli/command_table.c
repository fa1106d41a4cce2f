/* SPDX-License-Identifier: MIT */
#include "cli/command_table.h"

#include <string.h>

#include "cli/command_names.h"

const struct command *const command_table[COMMAND_TABLE_SIZE] = {
	&cmd_run,
	&cmd_add,
	&cmd_exec,
	&cmd_shell,
	&cmd_status,
	&cmd_queues,
	&cmd_top,
	&cmd_info,
	&cmd_logs,
	&cmd_wait,
	&cmd_why,
	&cmd_web,
	&cmd_cancel,
	&cmd_edit,
	&cmd_retry,
	&cmd_hold,
	&cmd_release,
	&cmd_pause,
	&cmd_resume,
	&cmd_urgent,
	&cmd_prune,
	&cmd_verify,
	&cmd_launch,
	&cmd_map,
	&cmd_report,
	&cmd_gpus,
	&cmd_config,
	&cmd_doctor,
	&cmd_slurm,
};

const struct command *command_table_find(const char *name)
{
	const char *alias = command_names_alias(name);
	for (size_t i = 0; i < COMMAND_TABLE_SIZE; i++)
		if (strcmp(command_table[i]->name, alias ? alias : name) == 0)
			return command_table[i];
	return NULL;
}
