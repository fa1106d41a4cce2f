/* SPDX-License-Identifier: MIT */
/*
 * Decides where file names and values of parameters may be inserted into a command. Other users who can write the input
 * folder or the parameter file choose them, so none may become code, and no name may become an option.
 *
 * A simple name contains no character with a meaning for any language, and may be inserted anywhere. A plain name
 * contains no character with a meaning for a shell, and may be inserted where it is a whole word or a part of a path;
 * see base/code_word.h. Any other name may be inserted only in such a place, and only if the argument is not code: the
 * argument's own text is plain, so it is not a script; no option that introduces code precedes it; and the command does
 * not pass its arguments to a shell. Commands also find each name in their environment.
 *
 * Many programs give a meaning to the first character of an argument: '-' is an option, '|' is a command for sox, '@'
 * is a file of options for gcc. Others give a meaning to text before a colon: "msl:x" is a script for ImageMagick,
 * "host:x" a file of another machine for tar. A name begins an argument only if its own first character is a letter, a
 * digit, '_' or '.', and no colon is before its first '/'.
 */
#ifndef BASE_CODE_PLACE_H
#define BASE_CODE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Only letters of any script, digits and _.,:=@%+/- */
bool place_is_plain(const char *text, size_t size);

/* Only letters of any script, digits and _./+- */
bool place_is_simple(const char *text, size_t size);

/*
 * Only letters of any script, digits, blanks and _./+-(), and no blank before '/' or an option. If other users choose
 * the names of files, only such names are inserted into commands: each program gives its own meaning to other
 * characters. For example, "a:/usr/bin" is a mount for apptainer -B.
 */
bool place_is_ordinary(const char *text, size_t size);

/* Whether an argument may begin with this name: with a letter of any script, a digit, '_' or '.', or '/' of a path, but
 * not with "word:". */
bool place_may_begin(const char *name, size_t size);

/* Whether the argument argv[i], whose own text is plain, is executed as code or passed to a program that does so. */
bool place_is_code(const char *const *argv, size_t i);

/* Whether the program interprets the whole argument argv[i] as code in which characters such as ',' and '=' have a
 * meaning: the filters of ffmpeg, the forms of curl, SQL. */
bool place_is_language(const char *const *argv, size_t i);

/* Whether the argument argv[i] is a playlist for SoX, which passes addresses in it to a shell. */
bool place_is_playlist(const char *const *argv, size_t i);

/*
 * The characters that make a name a pattern for the program that gets the argument argv[i]; "" if it expands none.
 * With such a name, it reads or writes other files: sox expands "[ab].wav" even for its output, ffmpeg and ImageMagick
 * replace "%d".
 */
const char *place_pattern_signs(const char *const *argv, size_t i);

#endif
