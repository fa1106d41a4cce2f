/* SPDX-License-Identifier: MIT */
/*
 * SANITIZER_ADDRESS: 1 if compiled with the address sanitizer, which is slow and needs memory; otherwise 0.
 * SANITIZER_THREAD: the same for the thread sanitizer, which has its own thread.
 */
#ifndef TESTS_SUPPORT_SANITIZER_H
#define TESTS_SUPPORT_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER_ADDRESS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZER_ADDRESS 1
#endif
#endif
#ifndef SANITIZER_ADDRESS
#define SANITIZER_ADDRESS 0
#endif

#if defined(__SANITIZE_THREAD__)
#define SANITIZER_THREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZER_THREAD 1
#endif
#endif
#ifndef SANITIZER_THREAD
#define SANITIZER_THREAD 0
#endif

#endif
