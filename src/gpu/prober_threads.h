/* SPDX-License-Identifier: MIT */
/*
 * Data shared by the threads of the probe process. The first thread keeps the time and never calls a driver; all others
 * do, and may hang in a driver forever. So no thread waits for another thread to end, and no thread holds the lock
 * while it calls a driver.
 */
#ifndef GPU_PROBER_THREADS_H
#define GPU_PROBER_THREADS_H

#include <pthread.h>

struct prober_threads {
	pthread_mutex_t lock;
	pthread_cond_t asked; /* a card was asked */
	int wake_fd;          /* an eventfd, not blocking: the first thread waits for it */
};

/* 0 or a negative errno value. Lasts until the process ends. */
int prober_threads_init(struct prober_threads *t);

/* Starts a detached thread. */
int prober_threads_start(void *(*body)(void *), void *arg);

/* Wakes the first thread. */
void prober_threads_wake(struct prober_threads *t);

/* Ends the process: the parent is gone, or out of memory. The parent sees the end of the stream. */
_Noreturn void prober_leave(void);

#endif
