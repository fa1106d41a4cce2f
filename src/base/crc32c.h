/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C (Castagnoli), to detect lines of a log that were damaged on disk. It does not protect against an attacker who
 * changes a line.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Begin with crc 0; to continue over more bytes pass the value returned before. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* Does not use the processor's CRC instruction. Only a test, which compares both, calls it directly. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
