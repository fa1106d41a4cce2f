/* SPDX-License-Identifier: MIT */
/*
 * A Spin model of the queue on a cluster: one job, two pilots, two coordinators one after the other, a slurmctld that forgets.
 *
 *     spin -a slurm.pml && cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000
 *
 * Time is a clock that ticks at any moment. A lease is LEASE ticks, the coordinator waits MARGIN longer. Each process may
 * be stopped for any time between two of its steps. Messages are slots that may be read at any later time,
 * or never.
 *
 * Checked in every reachable state:
 *   1. No attempt begins twice, and none while another one runs on the other pilot.
 *   2. Nothing begins after the job has completed and its end is in an outbox.
 *   3. An attempt is recorded as lost or void only if it does not run; void only if it was never begun.
 *   4. The journal has one end.
 *
 * Each macro MUTANT_… removes one rule. test_slurm_model.py checks that Spin finds each of these errors.
 */

#define PILOTS       2
#define COORDINATORS 2
/* With 1 every pilot dies at the first tick, and all states are searched in a minute; with 2 a renewal saves it. */
#ifndef LEASE
#define LEASE        1
#define MARGIN       1
#endif
#define ATTEMPTS     2 /* at most */
#define SESSIONS     1 /* of each pilot, after the first */

#define PENDING 0
#define RUNNING 1
#define DONE    2

/* ---- The journal, and its synced part ---- */
byte fence; /* raised by each coordinator; in the file at once */
byte j_state, j_attempt, j_pilot;
byte s_state, s_attempt, s_pilot;
bool gone[PILOTS];  /* recorded */
bool voided[ATTEMPTS + 1];

/* ---- Pilots ---- */
bool alive[PILOTS] = true;
byte runs[PILOTS];    /* the attempt that runs; 0: none */
byte seen[PILOTS];   /* the highest attempt that was ever granted to it */
byte out[PILOTS];    /* an end that is not acknowledged */
byte outbox[PILOTS]; /* the last end in its outbox file, which survives it */
byte lease[PILOTS] = LEASE; /* ticks until the kernel's timer fires; 0: no lease yet */
byte peer[PILOTS] = 0; /* the coordinator of its session */
bool welcomed[PILOTS] = true;
byte sessions[PILOTS];
byte newest[PILOTS] = 1; /* the highest epoch that has welcomed it */
bool begun[ATTEMPTS + 1];
bool completed;

/* ---- Messages, by coordinator * PILOTS + pilot ---- */
#define AT(c, p) ((c) * PILOTS + (p))
byte hello[4];   /* 1 + the attempt that it lists; 0: none */
byte beat[4];    /* 0: none, 1: sent, 3: answered */
byte age[4];     /* ticks since the heartbeat was sent */
byte grant[4];   /* an attempt; 0: none */
bool stale[4];   /* the grant is of an older session */

/* ---- Coordinators ---- */
bool works[COORDINATORS];
byte epoch[COORDINATORS];
byte since[4]; /* ticks since it last answered the pilot, or began */
bool greeted[4];
byte owed[COORDINATORS];    /* an attempt whose start is written and not granted */
bool unsynced[COORDINATORS];

#define WAIT (LEASE + MARGIN)

/* Resets variables that are not read again, so that there are fewer states. */
inline forget_slot(i)
{
	hello[i] = 0;
	beat[i] = 0;
	age[i] = 0;
	grant[i] = 0;
	stale[i] = false
}

inline die(p)
{
	alive[p] = false;
	forget_slot(AT(0, p));
	forget_slot(AT(1, p));
	seen[p] = 0;
	newest[p] = 0;
	out[p] = 0;
	lease[p] = 0;
	sessions[p] = SESSIONS;
	runs[p] = 0;
	welcomed[p] = false;
	peer[p] = COORDINATORS
}

inline stop_work(c)
{
	works[c] = false;
	forget_slot(AT(c, 0));
	forget_slot(AT(c, 1));
	since[AT(c, 0)] = 0;
	since[AT(c, 1)] = 0;
	greeted[AT(c, 0)] = false;
	greeted[AT(c, 1)] = false;
	owed[c] = 0;
	unsynced[c] = false
}

inline begin(p, a)
{
	assert(!begun[a]);
	assert(runs[0] == 0 && runs[1] == 0);
	assert(!completed);
	begun[a] = true;
	seen[p] = a;
	runs[p] = a
}

active proctype clock()
{
	byte i;
end:	do
	:: d_step {
		i = 0;
		do
		:: i < PILOTS ->
			if
			:: alive[i] && lease[i] > 0 ->
				lease[i]--;
#ifndef MUTANT_NO_KILL
				if
				:: lease[i] == 0 -> die(i)
				:: else
				fi
#else
				if
				:: lease[i] == 0 -> lease[i] = 1
				:: else
				fi
#endif
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < 4 ->
			if
			:: beat[i] != 0 && age[i] < LEASE -> age[i]++
			:: else
			fi;
			if
			:: works[i / PILOTS] && !gone[i % PILOTS] && since[i] < WAIT -> since[i]++
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	   }
	od
}

proctype pilot(byte p)
{
	byte c;
end:	do
	:: alive[p] -> atomic {
		alive[p] ->
		if
		/* A new session: older grants do not count any more. */
		:: sessions[p] < SESSIONS ->
			if
			:: c = 0
			:: c = 1
			fi;
			if
			:: works[c] && hello[AT(c, p)] == 0 ->
				sessions[p]++;
				peer[p] = c;
				welcomed[p] = false;
#ifndef MUTANT_NO_SESSION
				stale[AT(0, p)] = (grant[AT(0, p)] != 0);
				stale[AT(1, p)] = (grant[AT(1, p)] != 0);
#endif
				hello[AT(c, p)] = 1 + (runs[p] -> runs[p] : out[p]);
				beat[AT(c, p)] = 1;
				age[AT(c, p)] = 0
			:: else
			fi;
			c = 0
		:: welcomed[p] && beat[AT(peer[p], p)] == 0 ->
			beat[AT(peer[p], p)] = 1;
			age[AT(peer[p], p)] = 0
		/* An answer: the lease counts from when the heartbeat was sent. */
		:: peer[p] < COORDINATORS && beat[AT(peer[p], p)] == 3 ->
			c = peer[p];
			beat[AT(c, p)] = 0;
			if
			:: epoch[c] >= newest[p] ->
				newest[p] = epoch[c];
				welcomed[p] = true;
#ifdef MUTANT_LEASE_FROM_RECEIPT
				lease[p] = LEASE
#else
				if
				:: LEASE - age[AT(c, p)] > lease[p] -> lease[p] = LEASE - age[AT(c, p)]
				:: else
				fi
#endif
			:: else -> peer[p] = COORDINATORS
			fi;
			age[AT(c, p)] = 0;
			c = 0
		:: welcomed[p] && grant[AT(peer[p], p)] != 0 && runs[p] == 0 ->
			c = grant[AT(peer[p], p)];
			grant[AT(peer[p], p)] = 0;
			if
			:: !stale[AT(peer[p], p)] && lease[p] > 0 && c > seen[p] && epoch[peer[p]] == newest[p] -> begin(p, c)
			:: else
			fi;
			stale[AT(peer[p], p)] = false;
			c = 0
		:: runs[p] != 0 -> /* it completes */
			out[p] = runs[p];
			outbox[p] = runs[p];
			runs[p] = 0;
			completed = true
		:: p == 0 -> die(p) /* power loss */
		fi
	   }
	:: !alive[p] -> break
	od
}

/* The journal goes back to what was synced. */
inline lose_unsynced()
{
	j_state = s_state;
	j_attempt = s_attempt;
	j_pilot = s_pilot
}

inline sync_journal()
{
	s_state = j_state;
	s_attempt = j_attempt;
	s_pilot = j_pilot
}

/* All lines except a pilot's own end are fenced: a coordinator that was replaced notices this and stops. */
#define OWNS(c) (epoch[c] == fence)

inline void_or_lost(c, p, is_void)
{
	if
	:: OWNS(c) ->
		assert(runs[p] != j_attempt);
		if
		:: is_void -> assert(!begun[j_attempt])
		:: else
		fi;
		voided[j_attempt] = is_void;
		j_state = PENDING
	:: else -> stop_work(c)
	fi
}

inline write_end(a)
{
	if
	:: j_state == RUNNING && j_attempt == a ->
		j_state = DONE;
		sync_journal()
	:: else
	fi
}

#define MAY_START(c, p) \
	(greeted[AT(c, p)] && !gone[p] && peer[p] == c && welcomed[p] && j_attempt < ATTEMPTS && \
	 (greeted[AT(c, 1 - p)] || gone[1 - p]))

#ifdef MUTANT_NO_SYNC
#define MAY_GRANT(c) true
#else
#define MAY_GRANT(c) (!unsynced[c])
#endif

/* An answer of Slurm that meets all conditions is never wrong; a slurmctld that forgets may answer "not R" for any job. */
#ifdef MUTANT_NO_WAIT
#define PROOF(c, p) (peer[p] != c)
#else
#ifdef MUTANT_NOT_R
#define PROOF(c, p) true
#else
#define PROOF(c, p) (since[AT(c, p)] >= WAIT || !alive[p])
#endif
#endif

proctype coordinator(byte c)
{
	byte p;
	atomic {
		/* At the beginning, the first one has welcomed both pilots. */
		greeted[AT(c, 0)] = (c == 0);
		greeted[AT(c, 1)] = (c == 0);
		fence++;
		epoch[c] = fence;
		sync_journal();
		since[AT(c, 0)] = 0;
		since[AT(c, 1)] = 0;
		works[c] = true
	}
end:	do
	:: works[c] -> atomic {
		works[c] ->
		if
		:: p = 0
		:: p = 1
		fi;
		if
		:: hello[AT(c, p)] != 0 ->
			if
			:: gone[p] -> die(p)
			:: else ->
				greeted[AT(c, p)] = true;
				if
				:: j_state == RUNNING && j_pilot == p && owed[c] == 0 && hello[AT(c, p)] != 1 + j_attempt ->
					void_or_lost(c, p, true)
				:: else
				fi
			fi;
			hello[AT(c, p)] = 0
		/* The epoch is checked after the heartbeat has arrived. The answer may take any time. */
		:: beat[AT(c, p)] == 1 && hello[AT(c, p)] == 0 && greeted[AT(c, p)] ->
			if
			:: OWNS(c) -> beat[AT(c, p)] = 3; since[AT(c, p)] = 0
			:: else -> stop_work(c)
			fi
		/* `start` is written, synced, and only then granted. */
		:: j_state == PENDING && owed[c] == 0 && MAY_START(c, p) ->
			if
			:: OWNS(c) ->
				j_attempt++;
				j_state = RUNNING;
				j_pilot = p;
				owed[c] = j_attempt;
				unsynced[c] = true
			:: else -> stop_work(c)
			fi
		:: owed[c] != 0 && unsynced[c] -> unsynced[c] = false; sync_journal()
		:: owed[c] != 0 && j_pilot == p && MAY_GRANT(c) ->
			if
			:: peer[p] == c && grant[AT(c, p)] == 0 && hello[AT(c, p)] == 0 ->
				grant[AT(c, p)] = owed[c];
				stale[AT(c, p)] = false;
				owed[c] = 0
			:: else -> /* the grant never left */
				owed[c] = 0;
				void_or_lost(c, p, true)
			fi
		/* An end of a session; acknowledged when it is synced. */
		:: peer[p] == c && welcomed[p] && out[p] != 0 -> write_end(out[p]); out[p] = 0
		/* Proof of death: the lease, or an answer of Slurm that meets all conditions, which is never wrong. */
		:: !gone[p] && hello[AT(c, p)] == 0 && owed[c] == 0 && PROOF(c, p) ->
			if
			:: !OWNS(c) -> stop_work(c)
			:: else ->
				if
				:: j_state == RUNNING && j_pilot == p && outbox[p] == j_attempt -> write_end(j_attempt)
				:: j_state == RUNNING && j_pilot == p && outbox[p] != j_attempt ->
					void_or_lost(c, p, false)
				:: else
				fi;
				gone[p] = true
			fi
		/* Its host loses power, and with it what is not synced. A kill is the same as making no more steps. */
		:: c == 0 && OWNS(c) && unsynced[c] -> stop_work(c); lose_unsynced()
		fi;
		p = 0
	   }
	:: !works[c] -> break
	od
}

init {
	atomic {
		run pilot(0);
		run pilot(1);
		run coordinator(0)
	}
	/* At any moment, even while the first one is alive and only stopped. */
	run coordinator(1)
}
