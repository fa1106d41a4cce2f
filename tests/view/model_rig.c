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
