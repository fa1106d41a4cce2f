/* SPDX-License-Identifier: MIT */
/* A claim that stops the fuzzer where it is wrong, also without assertions. */
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
