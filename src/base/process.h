/* SPDX-License-Identifier: MIT */
/* Other processes, as /proc describes them. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_info {
	pid_t ppid;
	pid_t session;
	uint64_t start_ticks; /* identifies the process together with the PID: ticks since boot */
	char state;           /* 'Z': a zombie */
	char name[16];        /* as in /proc/PID/comm */
	bool is_exiting;      /* its descriptors may be closed already, and its locks free */
};

/* -ESRCH if there is no such process. */
int process_info(pid_t pid, struct process_info *ret);

enum process_part {
	PROCESS_OWNER,  /* the owner of /proc/PID */
	PROCESS_PARENT, /* /proc/PID/stat */
};

/* Whether the process exists, belongs to another user, and /proc does not show this part (the mount option hidepid). */
bool process_hides(int64_t pid, enum process_part part);

/* Reaps a child that has ended, without waiting: its PID; 0: none has ended; -1: there are no children. ret_status may
 * be NULL. */
pid_t process_reap(int *ret_status);

/* The children of pid, in memory to be freed; how many, or a negative errno value. */
int process_children(pid_t pid, pid_t **ret);

/*
 * Signals the process with this PID and this start time, and not a later one with the same PID. -ESRCH if it is gone.
 */
int process_signal(pid_t pid, uint64_t start_ticks, int signal);

/* Signals every descendant of pid, not pid itself. Returns how many there were. */
int process_signal_descendants(pid_t pid, int signal);

/* The same, but only for processes that have a handler for the signal, so it does not end any process. */
int process_signal_catching(pid_t pid, int signal);

/* Longer values are cut. */
#define PROCESS_MARK_ROOM 128

/* Returns the signal that the process gets; 0: none. */
typedef int process_marked_fn(void *context, pid_t pid, const char *value);

/*
 * Calls the function for each process that has this variable in its environment. One walk through /proc, for any number
 * of values.
 */
int process_signal_marked(const char *name, process_marked_fn *fn, void *context);

#endif
