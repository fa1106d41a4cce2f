/* SPDX-License-Identifier: MIT */
/*
 * A Spin model of leases on a cluster: one job, two pilots, two coordinators, a slurmctld that forgets. slurm.pml models the
 * whole protocol with the shortest lease; this file models only leases that are longer, are renewed and expire.
 *
 *     spin -a leases.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * A lease is LEASE ticks of the pilot's clock from the moment at which the answered heartbeat was sent. A pilot's clock may miss one tick
 * in each lease; the coordinator waits MARGIN ticks longer. The second coordinator begins at any time, also while the first one still works or
 * is stopped between any two steps. Messages take any time, or never arrive.
 *
 * Checked in every reachable state: the job never runs on two pilots, and no coordinator considers a living pilot dead.
 *
 * Each macro MUTANT_… removes one rule. test_slurm_model.py checks that Spin finds each of these errors.
 */

#define LEASE  2
#ifdef MUTANT_NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif
#define WAIT     (LEASE + MARGIN)
#define ATTEMPTS 2 /* at most */
#define AT(c, p) ((c) * 2 + (p))
#define NOBODY   2

/* ---- The journal; every line is synced at once, slurm.pml also models unsynced lines ---- */
byte fence;          /* raised by each coordinator */
byte runs_on = NOBODY; /* by the journal: the pilot of the job, or NOBODY */
byte attempts;

/* ---- Pilots ---- */
bool alive[2] = true;
bool runs[2];
byte lease[2] = LEASE;
bool late[2];    /* its clock has missed a tick in this lease */
bool slow[2];    /* the same since its last heartbeat was sent */
byte newest[2] = 1; /* the highest epoch that has answered it */
byte beat[2];    /* 0: none; 1 + c: on its way to coordinator c; 3 + c: answered by it, the answer on its way */
byte age[2];     /* ticks of its clock since the heartbeat was sent */
byte grant[2];   /* 0: none; the epoch of the grant that is on its way */

/* ---- Coordinators ---- */
bool works[2];
byte since[4];   /* ticks since its last answer to the pilot, or since it began */
bool greeted[4];
bool heard[4];   /* it has checked its epoch since the last heartbeat arrived, and has not answered it */
bool dead[2];    /* recorded in the journal, by whichever coordinator */

#define EPOCH(c) ((c) + 1)
#define OWNS(c)  (fence == EPOCH(c))

inline die(p)
{
	alive[p] = false;
	runs[p] = false;
	lease[p] = 0;
	late[p] = false;
	slow[p] = false;
	beat[p] = 0;
	age[p] = 0;
	grant[p] = 0;
	heard[AT(0, p)] = false;
	heard[AT(1, p)] = false;
	newest[p] = 0
}

/* Resets variables that are not read again, so that there are fewer states. */
inline stop_work(c)
{
	works[c] = false;
	since[AT(c, 0)] = 0;
	since[AT(c, 1)] = 0;
	heard[AT(c, 0)] = false;
	heard[AT(c, 1)] = false;
	greeted[AT(c, 0)] = false;
	greeted[AT(c, 1)] = false
}

inline tick_pilot(p)
{
	lease[p]--;
	if
	:: beat[p] != 0 && age[p] < LEASE -> age[p]++
	:: else
	fi;
#ifdef MUTANT_NO_KILL
	if
	:: lease[p] == 0 -> lease[p] = 1
	:: else
	fi
#else
	if
	:: lease[p] == 0 -> die(p)
	:: else
	fi
#endif
}

active proctype clock()
{
	byte i;
end:	do
	:: atomic {
		i = 0;
		do
		:: i < 2 ->
			if
			:: alive[i] && !late[i] && !slow[i] -> /* its clock misses this tick */
				late[i] = true;
				slow[i] = (beat[i] != 0)
			:: alive[i] -> tick_pilot(i)
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < 4 ->
			if
			:: works[i / 2] && !dead[i % 2] && since[i] < WAIT -> since[i]++
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
	:: atomic {
		alive[p] ->
		if
		/* A heartbeat, or the hello to the other coordinator; the last one may have been lost. */
		:: if
		   :: c = 0
		   :: c = 1
		   fi;
		   if
		   :: works[c] && EPOCH(c) >= newest[p] ->
			beat[p] = 1 + c;
			heard[AT(0, p)] = false; /* answers have the number of a heartbeat: another one needs another check */
			heard[AT(1, p)] = false;
			slow[p] = false;
			age[p] = 0
		   :: else
		   fi
		:: beat[p] >= 3 ->
			c = beat[p] - 3;
			if
			:: EPOCH(c) >= newest[p] ->
				newest[p] = EPOCH(c);
#ifdef MUTANT_LEASE_FROM_RECEIPT
				lease[p] = LEASE;
				late[p] = slow[p]
#else
				if
				:: LEASE - age[p] > lease[p] ->
					lease[p] = LEASE - age[p];
					late[p] = slow[p]
				:: else
				fi
#endif
			:: else
			fi;
			beat[p] = 0;
			slow[p] = false;
			age[p] = 0
		:: grant[p] != 0 ->
			if
			:: grant[p] == newest[p] && !runs[p] ->
				assert(!runs[1 - p]);
				runs[p] = true
			:: else
			fi;
			grant[p] = 0
		:: p == 0 -> die(p) /* power loss */
		fi;
		c = 0
	   }
	:: !alive[p] -> break
	od
}

/* An answer of Slurm that meets all conditions is never wrong: the pilot is dead. A slurmctld that forgets may answer "not R" for any job. */
#ifdef MUTANT_NOT_R
#define PROOF(c, p) true
#else
#ifdef MUTANT_NO_WAIT
#define PROOF(c, p) (since[AT(c, p)] > 0)
#else
#define PROOF(c, p) (since[AT(c, p)] >= WAIT || !alive[p])
#endif
#endif

proctype coordinator(byte c)
{
	byte p;
	atomic {
		(c == 0 || fence == 1) ->
		fence = EPOCH(c);
		works[c] = true;
#ifdef MUTANT_RESTART_KNOWS_NOTHING
		since[AT(c, 0)] = (c == 0 -> 0 : WAIT);
		since[AT(c, 1)] = (c == 0 -> 0 : WAIT);
#endif
		greeted[AT(c, 0)] = (c == 0);
		greeted[AT(c, 1)] = (c == 0)
	}
end:	do
	:: atomic {
		works[c] ->
		if
		:: p = 0
		:: p = 1
		fi;
		if
		/* The epoch is checked after the heartbeat has come, and before it is answered. It may be stopped in between. */
		:: !heard[AT(c, p)] && beat[p] == 1 + c && !dead[p] ->
#ifdef MUTANT_NO_CHECK
			heard[AT(c, p)] = true
#else
			if
			:: OWNS(c) -> heard[AT(c, p)] = true
			:: else -> stop_work(c)
			fi
#endif
		:: heard[AT(c, p)] && !dead[p] ->
			beat[p] = 3 + c;
			heard[AT(c, p)] = false;
			greeted[AT(c, p)] = true;
			since[AT(c, p)] = 0
		:: !dead[p] && PROOF(c, p) ->
			if
			:: OWNS(c) ->
#ifndef MUTANT_NO_KILL
				assert(!alive[p]);
#endif
				dead[p] = true;
				if
				:: runs_on == p -> runs_on = NOBODY
				:: else
				fi
			:: else -> stop_work(c)
			fi
		/* All pilots have greeted it or are dead. */
		:: runs_on == NOBODY && attempts < ATTEMPTS && greeted[AT(c, p)] && !dead[p] && (greeted[AT(c, 1 - p)] || dead[1 - p]) ->
			if
			:: OWNS(c) ->
				runs_on = p;
				attempts++;
				grant[p] = EPOCH(c)
			:: else -> stop_work(c)
			fi
		:: else
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
		run coordinator(0);
		run coordinator(1)
	}
}
