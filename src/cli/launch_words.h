/* SPDX-License-Identifier: MIT */
/*
 * The library's messages speak of the fields of struct gd_launch_options; gpuq launch prints them with its options.
 */
#ifndef CLI_LAUNCH_WORDS_H
#define CLI_LAUNCH_WORDS_H

#include "base/text.h"

/* Appends the message with options in place of fields. What stands between single quotes (names of files) stays. */
void launch_words_append(struct text *out, const char *message);

/* say() for such a message. */
void launch_words_say(const char *message);

#endif
