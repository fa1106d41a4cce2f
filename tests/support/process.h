/* SPDX-License-Identifier: MIT */
/* Functions to watch and kill processes, children or not. */
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Waits until the process has ended; a zombie has ended. False on timeout. */
bool process_await_gone(pid_t pid, int timeout_ms);
bool process_alive(pid_t pid);

/* Sends SIGKILL and waits for the end. Does not reap. */
void process_kill(pid_t pid);

/* Sends SIGKILL to a child and reaps it. */
void process_kill_child(pid_t pid);

/* Reaps a child and returns its exit code. Fails if a signal ended it. */
int process_exit_code(pid_t pid);

pid_t process_parent(pid_t pid);

/* Waits until the thread sleeps, which means that it has reached its wait. */
void process_await_asleep(pid_t tid);

/* A field such as "VmHWM" of this process, in KiB; or 0. */
size_t process_status_kib(const char *field);

/* How many descriptors this process has open. */
int process_count_fds(void);

/* The inode of the memfd that is mapped at the address in this process; 0: not a memfd. */
uint64_t process_memfd_at(const void *address);

/* Pauses until this process is killed. */
_Noreturn void process_hang(void);

#endif
