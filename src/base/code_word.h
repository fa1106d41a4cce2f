/* SPDX-License-Identifier: MIT */
/*
 * Where in a word a name is inserted. Many arguments are small languages: "subtitles=NAME" is a list of filters for
 * ffmpeg, "file=@NAME" a form for curl, "location=NAME" a pipeline for gst-launch-1.0. A name that is a whole word, a
 * part of a path or the value of "--option=" is not read as such a language. Anywhere else, only simple names are safe.
 *
 * An argument is one word. A script is a sequence of words, which blanks and operators of the shell separate. Text that
 * these functions cannot follow, such as backslashes, is never a safe place.
 */
#ifndef BASE_CODE_WORD_H
#define BASE_CODE_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* Zero is the beginning of an argument. */
struct code_word {
	char quote;          /* the open quotation mark of a script; 0: none */
	bool lost;           /* the script cannot be followed */
	bool is_value;       /* "--option=" precedes the text */
	bool is_odd;         /* the text has a character that a path does not need */
	bool has_slash;      /* the text or a name in it has a slash */
	size_t length;       /* of the text */
	size_t dashes;       /* at the beginning of the text; SIZE_MAX: the text cannot be the name of an option */
	unsigned separators; /* those that occur in the names of this word */
};

/* The command's own text follows. False: it has a separator that also occurs in a name before it: "{dir}:/in". */
bool code_word_add_text(struct code_word *w, const char *text, size_t size);

/* A name follows. False: the name is a part of a word that may be code. */
bool code_word_add_name(struct code_word *w, const char *name, size_t size);

#endif
