/* SPDX-License-Identifier: MIT */
/*
 * The library's messages name fields of struct gd_launch_options; gpuq launch prints its own options instead.
 */
#ifndef CLI_LAUNCH_WORDS_H
#define CLI_LAUNCH_WORDS_H

#include "base/text.h"

/* Appends the message with options instead of fields. Text between single quotes (file names) stays unchanged. */
void launch_words_append(struct text *out, const char *message);

/* say() for such a message. */
void launch_words_say(const char *message);

#endif
