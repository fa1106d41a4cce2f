/* SPDX-License-Identifier: MIT */
/* A new model for each test. */
#ifndef TESTS_VIEW_MODEL_RIG_H
#define TESTS_VIEW_MODEL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "view/model/model.h"

/* The test's model, empty at first; *state is the same. */
extern struct view_model *model;

int model_rig_setup(void **state);
int model_rig_teardown(void **state);
#define model_rig_test(test) cmocka_unit_test_setup_teardown(test, model_rig_setup, model_rig_teardown)

#endif
