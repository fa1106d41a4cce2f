/* SPDX-License-Identifier: MIT */
/*
 * The last two members of every line of a journal: a sequence number and a checksum,
 *
 *     …,"n":1234,"c":"9f3a11d0"}
 *
 * c is the CRC-32C of all bytes of the line before `,"c":`. A line whose seal is missing or wrong is damaged.
 */
#ifndef QUEUE_JOURNAL_SEAL_H
#define QUEUE_JOURNAL_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Appends the line, an object with or without its newline, with a seal and a newline. */
void seal_append(struct text *t, const char *line, size_t size, uint64_t n);

/*
 * Checks the seal of a line without its newline. Returns 0, its number, and the size of the object without seal and
 * closing brace; -EBADMSG if the line is damaged.
 */
int seal_check(const char *line, size_t size, uint64_t *ret_n, size_t *ret_body);

/* Whether a line ends in a seal, correct or not. */
bool seal_is_there(const char *line, size_t size);

#endif
