/* SPDX-License-Identifier: MIT */
/*
 * A Spin model of the queue's protocol for one job: which process starts it, which one writes its end, and the state
 * after a kill at any point.
 *
 *     spin -a queue.pml && cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000
 *
 * Processes: `gpuq add`, two runners, two keepers with a job process each, `gpuq cancel`, `gpuq prune`, and a killer that
 * may kill any of them KILLS times, between any two steps. A killed runner is started again by its user, a killed keeper
 * is replaced by the nursery.
 *
 * Checked in every reachable state:
 *   1. The job is executed at most once, and only after its `start` is in the journal.
 *   2. No `start` is appended after a cancellation, after an end, or for a job that was pruned.
 *   3. Each start gets at most one end.
 *   4. When no step is possible anymore: a job that `add` has accepted is in a final state (or pruned after that). So no
 *      job is forgotten between an `add` and a runner that leaves, no start is lost with its keeper, and no process waits
 *      for a lock forever.
 *
 * A step contains operations that other processes cannot observe separately: a read and the decision under the lock are
 * one step, and each write to a file ends a step. A kill inside a step would have the same effect as one before or after.
 *
 * Not modeled, because other tests check it: torn lines and power cuts (tests/power), damaged journals, several jobs.
 *
 * Each macro MUTANT_… removes one rule. test_model.py checks that Spin finds each of these errors.
 */

/* Number of kills; NO_CANCEL and NO_PRUNE leave these commands out, to have fewer states. */
#ifndef KILLS
#define KILLS 1
#endif

/* ---- The journal ---- */

/* The state of the job according to the journal. */
#define ABSENT    0
#define PENDING   1
#define RUNNING   2
#define FINAL     3 /* ended */
#define CANCELLED 4 /* before it started */
#define PRUNED    5

byte job = ABSENT;
byte start_keeper;  /* named by the `start` line: which keeper, */
byte start_life;    /* and which of its lives */
byte lines;         /* in the file */
byte generation;    /* of the file: prune puts another one at the path */

/* The line of counters in append.lock. */
byte counted_lines;
byte counted_generation;
byte counted_fence;

#define NOBODY 255
byte append_lock = NOBODY;
byte runner_lock = NOBODY;

/* Variables of the process that holds the append lock. */
byte fence;
bool dirty;

/* journal_lock(): counters that do not fit the file are rebuilt, and the fence is raised. */
inline lock_journal(me)
{
	atomic {
		append_lock == NOBODY -> append_lock = me;
		fence = counted_fence;
		dirty = false;
		if
		:: counted_lines != lines || counted_generation != generation ->
			fence++;
			dirty = true
		:: else
		fi
	}
}

/* One pwrite(). */
inline write_counters()
{
	d_step {
		counted_lines = lines;
		counted_generation = generation;
		counted_fence = fence;
		dirty = false
	}
}

/* journal_unlock(): the append and the counters are two writes; a kill comes between them. */
inline unlock_journal()
{
	atomic {
		if
		:: dirty -> write_counters()
		:: else
		fi;
		append_lock = NOBODY;
		fence = 0
	}
}

inline raise_fence()
{
	fence++;
	write_counters()
}

/* ---- Processes ---- */

/* Process numbers of locks: runners 0 and 1, keepers 2 and 3, jobs 4 and 5. */
#define RUNNER(i) (i)
#define KEEPER(k) (2 + (k))
#define CHILD(k)  (4 + (k))
#define ADDER     6
#define CANCELLER 7
#define PRUNER    8
#define PROCESSES 9

bool killed[PROCESSES];
byte kills;
bool wanted[2];  /* a user has started this runner */
bool accepted;   /* `add` has returned */
byte executed;   /* how often the job's command was executed */

/* Keepers. */
bool keeper_lock[2]; /* held by a living keeper */
byte keeper_life[2]; /* increased each time a keeper is started */

/* From the runner to a keeper, and back. */
#define NOTHING 0
#define ORDERED 1
#define TAKEN   2
#define VOID    3 /* the start was refused: the fence has changed */
#define ENDED   4
byte order[2];
byte order_fence[2];
byte order_life[2]; /* of the runner that waits for the answer */
byte runner_life;   /* how many there were */

/* The job's first process, a child of its keeper. It learns late that its keeper is dead (PDEATHSIG). */
#define NONE  0
#define FRESH 1 /* it will append `start` */
#define WAS_VOID 2
#define DONE  3
byte child[2];
byte child_fence[2];

/* The kernel releases the locks of a process that died. */
inline release(me)
{
	atomic {
		if
		:: append_lock == me -> append_lock = NOBODY; fence = 0; dirty = false
		:: else
		fi;
		if
		:: me < 2 && runner_lock == me -> runner_lock = NOBODY
		:: else
		fi
	}
}

/* Under the append lock. */
inline append_end()
{
	atomic {
		assert(job == RUNNING);    /* 3: one end for each start */
		assert(child[start_keeper] != FRESH || keeper_life[start_keeper] != start_life);
		job = FINAL;
		lines++;
		dirty = true
	}
}

/* ---- gpuq add ---- */

active proctype add()
{
	{
		atomic { lock_journal(ADDER); job = PENDING; lines++; dirty = true };
		unlock_journal();
		/* After its append: a runner that leaves has either read the line or already released the lock. */
		atomic {
			if
			:: runner_lock == NOBODY -> wanted[1] = true
			:: else
			fi;
			accepted = true
		}
	} unless { killed[ADDER] };
	atomic { killed[ADDER] = true; release(ADDER) }
}

/* ---- gpuq run ---- */

/* Reads all lines, under the append lock, and takes the fence over. */
inline resync(i, raise)
{
	atomic {
		lock_journal(RUNNER(i));
		seen = job; seen_lines = lines; seen_generation = generation;
		if
		:: raise -> raise_fence()
		:: else
		fi;
		my_fence = fence
	};
	unlock_journal()
}

#define start_is_kept (keeper_lock[start_keeper] && keeper_life[start_keeper] == start_life)
#define given_lives (given != NOBODY && keeper_lock[given] && keeper_life[given] == given_life)
#define to_do (seen == PENDING || seen == RUNNING)

proctype runner(byte i)
{
	byte seen, seen_lines, seen_generation; /* what it has read */
	byte my_fence;                          /* as it was when everything had been read */
	byte given = NOBODY;                    /* the keeper that has the job, */
	byte given_life;                        /* in which of its lives */
	byte k;
again:
	{
		wanted[i];
		if
		:: atomic { runner_lock == NOBODY -> runner_lock = i; runner_life++ }
		/* Another runner has the lock: `gpuq run` hands over and waits. It becomes the runner when the other one dies. */
		fi;
#ifdef MUTANT_TAKEOVER_KEEPS_FENCE
		resync(i, false);
#else
		resync(i, true);
#endif
		do
		/* Follow the file, without a lock. */
		:: atomic { seen_lines != lines || seen_generation != generation ->
			seen = job; seen_lines = lines; seen_generation = generation }

		/* Place the job. */
		:: seen == PENDING && given == NOBODY ->
			atomic {
				if
				:: keeper_lock[0] && order[0] == NOTHING -> k = 0
				:: keeper_lock[1] && order[1] == NOTHING -> k = 1
				fi;
				given = k;
				given_life = keeper_life[k];
				order_fence[k] = my_fence;
				order_life[k] = runner_life;
				order[k] = ORDERED;
				k = 0
			}

		/* Its start was refused: learn why, and decide again. */
		:: given_lives && order[given] == VOID ->
			atomic { order[given] = NOTHING; given = NOBODY; given_life = 0 };
			resync(i, false)

		/* Its keeper is dead, but the keeper's child may be about to append `start`. From here on it cannot. */
		:: given != NOBODY && !given_lives ->
#ifdef MUTANT_DEAD_KEEPER_KEEPS_FENCE
			resync(i, false);
#else
			resync(i, true);
#endif
			atomic { given = NOBODY; given_life = 0 }

		/* Its end was written: read it before the next decision. */
		:: given_lives && order[given] == ENDED ->
			atomic {
				order[given] = NOTHING; given = NOBODY; given_life = 0;
#ifndef MUTANT_PLACE_BEFORE_READING
				seen = job; seen_lines = lines; seen_generation = generation
#endif
			}

		/* It runs, and its keeper is gone: kill its remaining processes; then only this runner can write the end. */
		:: seen == RUNNING && !start_is_kept && given == NOBODY ->
			child[start_keeper] == NONE || keeper_life[start_keeper] != start_life;
#ifndef MUTANT_JUDGE_WITHOUT_READING
			atomic {
				lock_journal(RUNNER(i));
				seen = job; seen_lines = lines; seen_generation = generation;
				if
				:: seen == RUNNING && !start_is_kept -> append_end(); seen = FINAL; seen_lines = lines
				:: else
				fi
			};
#else
			lock_journal(RUNNER(i));
			append_end(); seen = FINAL;
#endif
			unlock_journal()

		/* Nothing to do: leave, under the append lock, having read everything. */
		:: !to_do && given == NOBODY && seen_lines == lines ->
#ifdef MUTANT_LEAVE_WITHOUT_LOCK
			runner_lock = NOBODY;
			break
#else
			atomic {
				lock_journal(RUNNER(i));
				seen = job; seen_lines = lines; seen_generation = generation;
				if
				:: !to_do -> runner_lock = NOBODY
				:: else
				fi
			};
			unlock_journal();
			if
			:: !to_do -> break
			:: else
			fi
#endif
		od;
		atomic { wanted[i] = false; seen = ABSENT; seen_lines = 0; seen_generation = 0; my_fence = 0; k = 0 };
		goto again
	} unless { killed[RUNNER(i)] };
	release(RUNNER(i));
	/* An order that it had sent is in the keeper's pipe; no process reads the answer. */
	atomic { killed[RUNNER(i)] = false; seen = ABSENT; seen_lines = 0; given = NOBODY; given_life = 0; my_fence = 0; seen_generation = 0; k = 0 };
	goto again
}

/* ---- Keepers and the job's first process ---- */

proctype keeper(byte k)
{
again:
	atomic { child[k] == NONE -> keeper_lock[k] = true; keeper_life[k]++; order[k] = NOTHING };
	{
		do
		:: atomic { order[k] == ORDERED -> order[k] = TAKEN; child_fence[k] = order_fence[k]; order_fence[k] = 0; child[k] = FRESH };
			if
			:: atomic { child[k] == WAS_VOID -> child[k] = NONE; order[k] = VOID }
			:: child[k] == DONE ->
				atomic {
					lock_journal(KEEPER(k));
					if
					:: job == RUNNING && start_keeper == k && start_life == keeper_life[k] -> append_end()
					:: else
					fi
				};
				unlock_journal();
				atomic { child[k] = NONE; order[k] = ENDED }
			fi
		/* The runner that would have read the answer is gone. */
		:: atomic { (order[k] == VOID || order[k] == ENDED) &&
			(runner_lock == NOBODY || order_life[k] != runner_life) -> order[k] = NOTHING }
		od
	} unless { killed[KEEPER(k)] };
	/* The locks are released first; the child gets its signal later. */
	atomic { keeper_lock[k] = false; release(KEEPER(k)) };
	atomic { killed[KEEPER(k)] = false; killed[CHILD(k)] = child[k] != NONE };
	goto again
}

proctype job_process(byte k)
{
	bool started;
again:
	{
		child[k] == FRESH;
		lock_journal(CHILD(k));
		if
#ifdef MUTANT_NO_FENCE
		:: true ->
#else
		:: fence == child_fence[k] ->
#endif
#ifdef MUTANT_UNLOCK_BEFORE_APPEND
			unlock_journal();
#endif
			atomic {
				assert(job == PENDING); /* 2 */
				job = RUNNING;
				start_keeper = k;
				start_life = keeper_life[k];
				lines++;
				dirty = true
			};
#ifndef MUTANT_UNLOCK_BEFORE_APPEND
			unlock_journal();
#endif
			atomic { assert(job != ABSENT && executed == 0); executed++; child[k] = DONE } /* 1 */
		:: else ->
			atomic { unlock_journal(); child[k] = WAS_VOID }
		fi;
		child[k] != DONE && child[k] != WAS_VOID;
		goto again
	} unless { killed[CHILD(k)] };
	release(CHILD(k));
	/* With a living keeper, its end is reported; otherwise it is simply gone. */
	atomic {
		killed[CHILD(k)] = false;
		if
		:: keeper_lock[k] && child[k] == FRESH -> child[k] = (job == RUNNING && start_keeper == k && start_life == keeper_life[k] -> DONE : WAS_VOID)
		:: keeper_lock[k] && child[k] != FRESH
		:: !keeper_lock[k] -> child[k] = NONE
		fi
	};
	goto again
}

/* ---- gpuq cancel and gpuq prune ---- */

active proctype cancel()
{
	{
#ifdef NO_CANCEL
		false;
#endif
		job != ABSENT;
		lock_journal(CANCELLER);
		if
		:: job == PENDING ->
#ifndef MUTANT_CANCEL_KEEPS_FENCE
			raise_fence();
#endif
			atomic { job = CANCELLED; lines++; dirty = true }
		:: else /* running (its keeper is notified) or ended */
		fi;
		unlock_journal()
	} unless { killed[CANCELLER] };
	atomic { killed[CANCELLER] = true; release(CANCELLER) }
}

active proctype prune()
{
	{
#ifdef NO_PRUNE
		false;
#endif
		job == FINAL || job == CANCELLED;
		lock_journal(PRUNER);
		if
		:: job == FINAL || job == CANCELLED ->
			raise_fence(); /* of the old file */
			atomic { job = PRUNED; generation++; lines = 1; dirty = true } /* rename() */
		:: else
		fi;
		unlock_journal()
	} unless { killed[PRUNER] };
	atomic { killed[PRUNER] = true; release(PRUNER) }
}

/* ---- Kills, and the end ---- */

active proctype killer()
{
	byte p;
	do
	:: atomic { kills < KILLS ->
		select(p : 0 .. PROCESSES - 1);
		/* Only processes that are alive. */
		!killed[p] && (p < CHILD(0) || p > CHILD(1) || child[p - CHILD(0)] != NONE);
		killed[p] = true; kills++; p = 0 }
	:: break
	od
}

/* 4: no step is possible anymore. */
active proctype quiet()
{
	timeout;
	assert(append_lock == NOBODY);
	assert(!accepted || job == FINAL || job == CANCELLED || job == PRUNED)
}

init
{
	atomic {
		wanted[0] = true;
		run runner(0);
		run runner(1);
		run keeper(0);
		run keeper(1);
		run job_process(0);
		run job_process(1)
	}
}
