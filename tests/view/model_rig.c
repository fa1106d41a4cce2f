/* SPDX-License-Identifier: MIT */
#include "model_rig.h"

struct view_model *model;

int model_rig_setup(void **state)
{
	*state = model = view_model_create(0);
	return model ? 0 : -1;
}

int model_rig_teardown(void **state)
{
	(void)state;
	view_model_destroy(model);
	model = NULL;
	return 0;
}

struct view_gpu model_rig_unknown_gpu(int id)
{
	return (struct view_gpu){
		.id = id,
		.since_ns = -1,
		.last_duration_ns = -1,
		.memory_total_bytes = -1,
		.memory_used_bytes = -1,
		.utilization_percent = -1,
		.temperature_celsius = -1,
		.power_milliwatts = -1,
	};
}
