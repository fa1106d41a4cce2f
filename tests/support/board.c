/* SPDX-License-Identifier: MIT */
#include "support/board.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/process.h"
#include "support/wait.h"

struct board *board;

void board_renew(void)
{
	struct board *fresh = mmap(NULL, sizeof(*fresh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check_true(fresh != MAP_FAILED);
	for (size_t i = 0; i < sizeof(fresh->gates) / sizeof(fresh->gates[0]); i++)
		check_equal(sem_init(&fresh->gates[i], 1, 0), 0);
	if (board)
		munmap(board, sizeof(*board));
	board = fresh;
}

void board_add_pid(pid_t pid)
{
	int i = atomic_fetch_add(&board->num_pids, 1);
	if (i < BOARD_PIDS)
		atomic_store(&board->pids[i], pid);
}

void board_check_all_gone(void)
{
	uint64_t deadline_ns = wait_deadline_ns();
	for (int i = 0; i < atomic_load(&board->num_pids); i++)
		check_true(
			process_await_gone(atomic_load(&board->pids[i]), clock_ms_until(deadline_ns, clock_now_ns())));
}

void board_await(const atomic_int *counter, int at_least)
{
	wait_until(atomic_load(counter) >= at_least);
}

void board_open_gate(int gate)
{
	sem_post(&board->gates[gate]);
}

bool board_pass_gate(int gate)
{
	struct timespec deadline;
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += WAIT_MS / 1000;
	int r;
	do {
		r = sem_clockwait(&board->gates[gate], CLOCK_MONOTONIC, &deadline);
	} while (r < 0 && errno == EINTR);
	return r == 0;
}

/* No deadline: the test ends a worker that waits forever. */
void board_meet(_Atomic uint64_t *word, int slot, int num_slots)
{
	uint64_t all = (UINT64_C(1) << num_slots) - 1;
	atomic_fetch_or(word, UINT64_C(1) << slot);
	while (atomic_load(word) != all)
		poll(NULL, 0, 1);
}
