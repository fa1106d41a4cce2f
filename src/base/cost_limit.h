/* SPDX-License-Identifier: MIT */
/*
 * Ends a command that uses too much CPU time or memory for a file that another user may have written. A file of a few
 * megabytes must not keep a command busy for hours or exhaust the memory of the machine, whatever the algorithms are.
 *
 * CPU time is counted between cost_limit_start() and cost_limit_stop(), so a command that runs for days and reads the
 * file again and again is not ended. Only for programs that may end at any time: a signal handler prints the message
 * and calls _exit(). One limit per process.
 */
#ifndef BASE_COST_LIMIT_H
#define BASE_COST_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COST_LIMIT_EXIT 1

/* Sanitizers need far more memory than the program. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COST_LIMIT_HAS_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COST_LIMIT_HAS_MEMORY 0
#endif
#endif
#ifndef COST_LIMIT_HAS_MEMORY
#define COST_LIMIT_HAS_MEMORY 1
#endif

/*
 * Has no effect until the first cost_limit_start(). `allow` is what the user can do, such as "set GPUQ_TRUST=1 to read
 * it anyway"; it must remain valid.
 */
void cost_limit_enable(uint64_t cpu_ns, size_t memory_bytes, const char *allow);

/* Begins to count, unless it counts already. Has no effect without cost_limit_enable(). */
void cost_limit_start(const char *path);

/* Stops counting: the computation from the file is done, and the program waits for the next change. */
void cost_limit_stop(void);

/* In a child process, before it executes another program: removes the memory limit, which is inherited. */
void cost_limit_leave(void);

/* Whether the terminal shows a full screen, which the handler must leave before the message. */
void cost_limit_set_screen(bool on);

#endif
