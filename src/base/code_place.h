/* SPDX-License-Identifier: MIT */
/*
 * Where the names of files, and values of parameters, may stand in a command. Whoever can write the input folder or the
 * file of parameters chooses them, and none may become code; no name may become an option.
 *
 * A plain name has nothing that a shell or another language gives a meaning to, and goes anywhere. Any other goes only
 * into an argument that is not code: its own text is plain, so it is no script; no option that announces code is before
 * it; and the command hands its arguments to no shell. Commands find each name in their environment, too.
 *
 * Many programs give a meaning to the first character of an argument: '-' is an option, '|' a command for sox, '@' a
 * file of options for gcc. A name begins an argument only if its own first character is a letter, a digit, '_' or '.'.
 */
#ifndef BASE_CODE_PLACE_H
#define BASE_CODE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Only letters of any script, digits and _.,:=@%+/- */
bool place_is_plain(const char *text, size_t size);

/* Whether an argument may begin with this name: with a letter of any script, a digit, '_' or '.', or '/' of a path. */
bool place_may_begin(const char *name, size_t size);

/* Whether the argument argv[i], whose own text is plain, is executed as code or handed to a program that does that. */
bool place_is_code(const char *const *argv, size_t i);

#endif
