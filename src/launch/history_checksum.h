/* SPDX-License-Identifier: MIT */
/*
 * The checksum of a line of launch.jsonl: its last member, "c", is the CRC-32C of all bytes before that member, as
 * eight hexadecimal digits: {"event":"done","file":"a.wav",…,"c":"e3069283"}
 *
 * Lines of version 1 have no checksum. From the first line of a run of version 2 on, every line has one.
 */
#ifndef LAUNCH_HISTORY_CHECKSUM_H
#define LAUNCH_HISTORY_CHECKSUM_H

#include "base/text.h"

#define HISTORY_VERSION          2
#define HISTORY_WITHOUT_CHECKSUM 1 /* the last version whose lines have no checksum */

/* Inserts the member into the object that begins at offset `from` of the text and has just been closed. */
void history_checksum_put(struct text *t, size_t from);

enum history_checksum {
	HISTORY_CHECKSUM_NONE,
	HISTORY_CHECKSUM_RIGHT,
	HISTORY_CHECKSUM_WRONG,
};

/* Checks a line, with or without its newline. */
enum history_checksum history_checksum_check(const char *line, size_t size);

#endif
