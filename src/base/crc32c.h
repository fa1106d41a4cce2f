/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C (Castagnoli): finds lines of a log that were damaged on disk. It does not
 * protect against somebody who changes a line on purpose.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Begin with crc 0; to continue over more bytes pass the value returned before. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* The same without the processor's instruction; for the test that compares both. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
