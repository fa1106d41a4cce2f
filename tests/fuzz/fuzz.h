/* SPDX-License-Identifier: MIT */
/* An assertion that stops the fuzzer even with NDEBUG. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(claim)                                                                                              \
	do {                                                                                                           \
		if (!(claim))                                                                                          \
			abort();                                                                                       \
	} while (0)

#endif
