/* SPDX-License-Identifier: MIT */
/* A result that Python objects refer to without a copy: a read-only buffer around a gd_result. */
#ifndef HELD_BUFFER_H
#define HELD_BUFFER_H

#include "engine.h"

/* Call it only during the event's callback. */
PyObject *held_buffer_make(const struct gd_event *event);

#endif
