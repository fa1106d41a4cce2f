/* SPDX-License-Identifier: MIT */
/*
 * Memory that a test shares with the processes forked from it: counters that they
 * change, gates at which they wait for each other. Each test defines the meaning of notes, words and gates.
 */
#ifndef TESTS_SUPPORT_BOARD_H
#define TESTS_SUPPORT_BOARD_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BOARD_PIDS 512

struct board {
	atomic_int setups;
	atomic_int begun;
	atomic_int cleanups;
	atomic_int go;
	atomic_int notes[16];
	_Atomic uint64_t words[64];
	atomic_int num_pids;
	atomic_int pids[BOARD_PIDS];
	sem_t gates[4]; /* all closed at first */
};

/* NULL before the first board_renew(). */
extern struct board *board;

/* A new, empty board. Processes that were forked before it keep the old one. */
void board_renew(void);

void board_add_pid(pid_t pid);

/* Waits until all processes on the board have ended. */
void board_check_all_gone(void);

/* Waits until the counter has reached this value. */
void board_await(const atomic_int *counter, int at_least);

/* Lets one process through, now or later. */
void board_open_gate(int gate);

/* Waits up to WAIT_MS to be let through; false on timeout. */
bool board_pass_gate(int gate);

/* In workers: waits until workers of all `num_slots` slots have called it with this word. */
void board_meet(_Atomic uint64_t *word, int slot, int num_slots);

#endif
