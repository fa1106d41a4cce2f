/* SPDX-License-Identifier: MIT */
/*
 * Checks that work in a test and in a host (support/host.h): in a test a failed
 * check fails the test, in a host it prints the reason and ends the host, because cmocka is not available there.
 */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define check_true(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define check_equal(a, b)     check_equal_at((long long)(a), (long long)(b), __FILE__, __LINE__, #a " == " #b)
/* Checks that the text contains the words. */
#define check_contains(text, words) check_contains_at((text), (words), __FILE__, __LINE__)

_Noreturn void check_failed(const char *file, int line, const char *what);
void check_equal_at(long long a, long long b, const char *file, int line, const char *what);
void check_contains_at(const char *text, const char *words, const char *file, int line);

/* How many times the words occur in the text. */
size_t check_occurrences(const char *text, const char *words);

/* From now on this process is a host. */
void check_become_host(void);

#endif
