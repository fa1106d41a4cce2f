/* SPDX-License-Identifier: MIT */
/*
 * An event loop: descriptors and deadlines, each with a function to call.
 *
 * Single-threaded. A function may remove any source, including its own. A removed source is not called again, even if
 * it was ready in the same round.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop;
struct loop_source;

/* events: as in epoll(7); 0 for a timer. */
typedef void loop_fn(void *context, uint32_t events);

int loop_create(struct loop **ret);
void loop_destroy(struct loop *l); /* with all its sources; descriptors of the caller stay open */

/* Calls fn when fd is ready. The caller keeps ownership of the descriptor. */
int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *context, struct loop_source **ret);
int loop_change(struct loop_source *s, uint32_t events);
/*
 * Calls the function of a descriptor, with events 0, before the next round waits: once, however often this was called.
 * For output that is collected during a round. The function must not change state that the caller of loop_round() acts
 * on.
 */
void loop_defer(struct loop_source *s);

/* A deadline on the monotonic clock; none is set at first. */
int loop_add_timer(struct loop *l, loop_fn *fn, void *context, struct loop_source **ret);
/* 0 removes the deadline. */
int loop_set_deadline(struct loop_source *timer, uint64_t deadline_ns);
/* Sets the deadline unless an earlier one is set: callers that repeat this do not postpone the call. */
int loop_advance_deadline(struct loop_source *timer, uint64_t deadline_ns);

/* Blocks these signals and calls fn when one is pending; fd: where to read struct signalfd_siginfo. */
int loop_add_signals(struct loop *l, const int *signals, loop_fn *fn, void *context, int *ret_fd);

/* NULL is allowed. */
void loop_remove(struct loop_source *s);

/* One round: waits up to timeout_ms (-1: forever) and calls the functions of the sources that are ready. */
int loop_round(struct loop *l, int timeout_ms);

#endif
