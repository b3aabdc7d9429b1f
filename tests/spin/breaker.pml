/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breaker.pml: the breaker with the kernel, the service, clients and operators around it, for SPIN.
 *
 * The transition relation is the table that user/decide/breaker.c reads. Time is abstract: what waits for a deadline may
 * find it past at any moment. Slots are claimed by compare and swap, by flows on CPUs of their own.
 *
 * Of generations only equality is ever asked. So what was let through, and the slot it holds, is `fresh` as long as the
 * generation that was pushed last is its own, and a slot that is not fresh is as good as empty; `ahead` are the transitions
 * that the controller has made since its last push.
 *
 *   PROBES, CLOSE_AFTER, FLOWS   sizes
 *   PROGRESS                     the model for the claim about progress; else the one for what must never be
 *   PLANT_*                      faults that must be found
 *
 * Never: more than PROBES tickets and probes; a transition without a new generation, or the reverse; a result of another
 * generation that counts; a slot held by nobody; a state that asks for what the table does not have. What others do (orders,
 * reloads, the service, clients, time, a controller that is killed) is chosen anew each time.
 *
 * Progress: from wherever that has left it, once the service is healthy, orders are over and one client comes again and
 * again, closed is reached; with spoofed SYNs beside, and with a dependency that never lets go.
 */
/*
 * What scripts/check runs: kind, parameters, and the fault that is planted.
 *
 * run: never     PROBES=1 CLOSE_AFTER=1 FLOWS=3
 * run: never     PROBES=2 CLOSE_AFTER=1 FLOWS=2
 * run: progress  PROBES=1 CLOSE_AFTER=1 FLOWS=2
 * run: progress  PROBES=2 CLOSE_AFTER=2 FLOWS=1
 * plant: never     PROBES=1 CLOSE_AFTER=1 FLOWS=2 PLANT_CLAIM     a ticket is claimed without looking who came between
 * plant: never     PROBES=1 CLOSE_AFTER=1 FLOWS=2 PLANT_LATE      a result is written whoever has the slot by now
 * plant: never     PROBES=1 CLOSE_AFTER=1 FLOWS=2 PLANT_LEAK      a neutral end does not give the slot back
 * plant: progress  PROBES=1 CLOSE_AFTER=1 FLOWS=2 PLANT_TIMER     the open state ends by an event that a restart loses
 * plant: progress  PROBES=1 CLOSE_AFTER=1 FLOWS=2 PLANT_SPOOF     a first SYN gets a ticket
 * plant: progress  PROBES=2 CLOSE_AFTER=2 FLOWS=1 PLANT_RESERVED  slots are kept for known-good sources that never come
 */
#include "user/decide/breaker_transitions.h"

/* As breaker.c has it: never so many that strangers alone cannot bring the verdict. */
#if defined(PLANT_RESERVED) || PROBES / 2 < PROBES - CLOSE_AFTER
#define RESERVED (PROBES / 2)
#else
#define RESERVED (PROBES - CLOSE_AFTER)
#endif

#define STATE(name) S_##name,
#define RULE(name, trips, text) R_##name,
mtype = { BREAKER_STATES(STATE) BREAKER_RULES(RULE) V_unheld, V_ticket, V_owed, V_success, V_failure };

/* The controller's. */
mtype state = S_closed;
byte ahead = 0;
bool elapsed = false; /* the deadline of the state is past */
bool enforce = true;
byte order = 0; /* 1: open, 2: closed */

/* What was pushed: the decision that CPUs read. */
mtype d_state = S_closed;
bool d_enforce = true;

/* slc_probe */
typedef slot_t {
	mtype state = V_unheld;
	byte tag = 0;
	bool fresh = false;
	bool late = false /* past its deadline */
};
slot_t slot[PROBES];

/* slc_signals: there is a failure in the row of the generation that was pushed last. */
bool failed = false;

/* Flows, each on the CPU its packets come to. */
typedef flow_t {
	byte at = 0; /* its slot */
	bool fresh = false;
	bool ticket = false; /* let through, and in time */
	bool probe = false;
	bool gone = false; /* the client has vanished */
	bool running = false; /* a packet is in the program, between reading the slot and the swap */
	bool beaten = false; /* another one wrote the slot meanwhile */
	bool overtaken = false /* a push came meanwhile */
};
flow_t flow[FLOWS];

/* In wild times everybody else does as they like. */
#ifdef PROGRESS
bool calm = false;
bool held = false; /* by a dependency */
bool hold_over = false; /* for 4 x cap */
bool surprise = true; /* half-open may still be over too soon, once */
bool armed = true; /* PLANT_TIMER: the event that ends the open state is still to come */
#define WILD (!calm)
#define MAY_PROBE (WILD || !held || hold_over)
#else
#define WILD true
#define MAY_PROBE true
#endif

#ifdef PLANT_TIMER
#define WAIT_OVER (elapsed && armed)
#else
#define WAIT_OVER elapsed
#endif

byte at; /* of loops within one step */
byte count;

/* --- the one table ----------------------------------------------------------------------------------------------------- */

#define ROW(from, rule, to, openings) :: state == S_##from && r == R_##rule -> state = S_##to
#define TRIP(name, trips, text) :: trips -> rule = R_##name

inline move(r)
{
	if
	BREAKER_TRANSITIONS(ROW)
	:: else -> assert(false) /* a state asks for what the table does not have */
	fi;
	ahead++;
	elapsed = false;
#ifdef PROGRESS
	hold_over = false;
	armed = true
#endif
}

/* --- controller --------------------------------------------------------------------------------------------------------- */

byte won, lost; /* results in slots of the present generation */

inline view()
{
	at = 0;
	do
	:: at < PROBES ->
		if
		:: slot[at].fresh && slot[at].state == V_success -> won++
		:: slot[at].fresh && slot[at].state == V_failure -> lost++
		:: slot[at].fresh && slot[at].state == V_owed && slot[at].late -> lost++
		:: else
		fi;
		at++
	:: else -> break
	od;
	at = 0
}

inline choose_freely()
{
	if
	:: WILD ->
		if :: elapsed = true :: elapsed = false fi;
		if :: enforce = true :: enforce = false fi;
		if :: order = 0 :: order = 1 :: order = 2 fi
	:: else
	fi
}

inline decide()
{
	if
	:: order == 1 && state != S_forced_open -> rule = R_order_open
	:: order == 2 && state != S_forced_closed -> rule = R_order_closed
	:: order == 0 && (state == S_forced_open || state == S_forced_closed) -> rule = R_order_over
	:: else ->
		if
		:: state == S_closed && (failed || WILD) ->
			if
			BREAKER_RULES(TRIP)
			:: true /* under the threshold */
			fi
		:: state == S_open && WAIT_OVER && !enforce && !failed -> rule = R_recovered
		:: state == S_open && WAIT_OVER && enforce && MAY_PROBE -> rule = R_wait_over
		:: state == S_half_open && !enforce && !failed -> rule = R_recovered
		:: state == S_half_open && (enforce || failed) ->
			if
			:: lost > 0 -> rule = R_probe_failed
			:: lost == 0 && won >= CLOSE_AFTER -> rule = R_probes_succeeded
			:: lost == 0 && won < CLOSE_AFTER && elapsed -> rule = R_half_open_over
			:: else
			fi
		:: else
		fi
	fi
}

/* A run of the program takes microseconds and a tick 100 ms: one push may come during a run, two cannot. */
#if FLOWS == 3
#define NOBODY_OVERTAKEN (!flow[0].overtaken && !flow[1].overtaken && !flow[2].overtaken)
#elif FLOWS == 2
#define NOBODY_OVERTAKEN (!flow[0].overtaken && !flow[1].overtaken)
#else
#define NOBODY_OVERTAKEN (!flow[0].overtaken)
#endif

/* What went before is of another generation now. */
inline age()
{
	failed = false;
	at = 0;
	do
	:: at < FLOWS ->
		flow[at].overtaken = flow[at].running;
		flow[at].fresh = false;
		flow[at].ticket = false;
		at++
	:: else -> break
	od;
	at = 0;
	do
	:: at < PROBES -> vacate(at); at++
	:: else -> break
	od;
	at = 0
}

inline vacate(n)
{
	slot[n].state = V_unheld;
	slot[n].tag = 0;
	slot[n].fresh = false;
	slot[n].late = false
}

inline push()
{
	/* A new generation with each transition, and with nothing else. */
	assert(ahead <= 1);
	assert((ahead == 0) == (state == d_state));
	if
	:: ahead > 0 -> age()
	:: else
	fi;
	ahead = 0;
	d_state = state;
	d_enforce = enforce
}

active proctype controller()
{
	mtype rule = R_none;

	do
	:: atomic {
		view();
		choose_freely();
		decide();
		won = 0;
		lost = 0;
		if
		:: rule != R_none -> move(rule); rule = R_none
		:: else
		fi;
		order = 0;
		if
		:: WILD -> elapsed = false
		:: else
		fi
	   };
	   if
	   :: atomic { NOBODY_OVERTAKEN -> push() }
	   :: atomic {
		/* Killed before the push or after it, and started again: from what was pushed. */
		WILD ->
		state = d_state;
		ahead = 0;
#ifdef PROGRESS
		armed = false
#endif
	      }
	   fi
	od
}

/* --- time --------------------------------------------------------------------------------------------------------------- */

/* A ticket is late when its handshake takes too long; in calm times that is only one whose client has vanished. */
#define STALE(i) (slot[i].state == V_ticket && !slot[i].late && (WILD || flow[slot[i].tag].gone))
#define FORGETS (failed && state != S_closed)

inline pass_deadline(i)
{
	slot[i].late = true;
	flow[slot[i].tag].ticket = false
}

active proctype sweeper()
{
	do
	:: atomic { FORGETS -> failed = false }
	:: atomic { !FORGETS && STALE(0) -> pass_deadline(0) }
#if PROBES == 2
	:: atomic { !FORGETS && !STALE(0) && STALE(1) -> pass_deadline(1) }
#endif
	od
}

#ifdef PROGRESS

#define WAITING (state == S_open || (state == S_half_open && surprise))

active proctype deadlines()
{
	do
	:: atomic { calm && WAITING && !elapsed ->
		elapsed = true;
		surprise = (state == S_half_open -> false : surprise)
	   }
	:: atomic { calm && state == S_open && elapsed && held && !hold_over -> hold_over = true }
	od
}

/* The end of all disturbance, sooner or later; a dependency may go on holding it, and the mode is what it is. */
active proctype rest()
{
	atomic {
		calm = true;
		if :: held = true :: held = false fi;
		if :: enforce = true :: enforce = false fi
	}
}

#endif

/* --- flows: a client, its packets in the kernel, its answer ------------------------------------------------------------- */

#define MY flow[id]
#define HELD slot[flow[id].at]
#define MINE(s) (HELD.state == s && HELD.fresh && MY.fresh && HELD.tag == id)
#define CLAIMABLE(i) (!slot[i].fresh || slot[i].state == V_unheld || (slot[i].state == V_ticket && slot[i].late))

/* Tickets, probes, and verdicts of probes: of the present generation at most PROBES, however they came about. */
inline check_cap()
{
	at = 0;
	do
	:: at < FLOWS ->
		if
		:: flow[at].fresh && (flow[at].ticket || flow[at].probe) -> count++
		:: else
		fi;
		at++
	:: else -> break
	od;
	at = 0;
	do
	:: at < PROBES ->
		if
		:: slot[at].fresh && (slot[at].state == V_success || slot[at].state == V_failure) -> count++
		:: slot[at].fresh && slot[at].state == V_owed && slot[at].late -> count++
		:: else
		fi;
		at++
	:: else -> break
	od;
	assert(count <= PROBES);
	count = 0;
	at = 0
}

/* Whoever runs and has read this slot has read something else. */
inline beat()
{
	at = 0;
	do
	:: at < FLOWS ->
		if
		:: at != id && flow[at].running && flow[at].at == MY.at -> flow[at].beaten = true
		:: else
		fi;
		at++
	:: else -> break
	od;
	at = 0
}

#ifdef PLANT_LATE
#define MAY_REPORT (HELD.state == V_owed)
#else
#define MAY_REPORT MINE(V_owed)
#endif

/* A result counts for the slot only if that is still this flow's; it is filed only under the generation of its turn. */
inline result(what)
{
	if
	:: MY.probe && MAY_REPORT ->
		assert(MY.fresh && HELD.tag == id);
		HELD.state = what;
		beat()
	:: else
	fi;
	if
	:: what == V_failure && MY.fresh -> failed = true
	:: else
	fi;
	MY.probe = false
}

/* Neither good nor bad: the slot is free for another. */
inline neutral()
{
	if
#ifndef PLANT_LEAK
	:: MY.probe && MINE(V_owed) -> vacate(MY.at); beat()
#endif
	:: else
	fi;
	assert(!(MY.probe && MINE(V_owed)));
	MY.probe = false
}

/* No answer until the probe's deadline: it counts as failed when it is looked at. Other turns: unanswered. */
inline hang()
{
	if
	:: MY.probe && MINE(V_owed) -> HELD.late = true
	:: !MY.probe && MY.fresh -> failed = true
	:: else
	fi;
	MY.probe = false
}

inline find_slot()
{
	do
	:: MY.at < PROBES && !CLAIMABLE(MY.at) -> MY.at++
	:: else -> break
	od
}

/* A claim under a decision that is not the present one any more is a slot of an older generation: as good as empty. */
inline swap()
{
	if
	:: MY.fresh ->
		HELD.state = V_ticket;
		HELD.tag = id;
		HELD.fresh = true;
		HELD.late = false;
		MY.ticket = true
	:: else -> vacate(MY.at)
	fi;
	beat();
	check_cap()
}

#ifdef PLANT_CLAIM
#define SWAPS true
#else
#define SWAPS (!MY.beaten)
#endif

/* In calm times the first is a client that goes through with it; the others are like it, or spoofed. */
#define HONEST (!WILD && id == 0)
#ifdef PLANT_SPOOF
#define MAY_VANISH (!HONEST)
#else
#define MAY_VANISH WILD
#endif

proctype client(byte id)
{
	do
	:: atomic { /* the decision is read once for a packet */
		MY.fresh = true;
		if
		:: d_state == S_closed || d_state == S_forced_closed || !d_enforce -> goto turn
		:: d_state == S_open || d_state == S_forced_open -> goto over
		:: else
		fi;
		if
		:: MY.at = RESERVED /* a stranger that repeats its SYN */
		:: WILD -> MY.at = 0 /* known */
#ifndef PLANT_SPOOF
		:: !HONEST -> goto over /* invited to repeat: who spoofs does not */
#endif
		fi;
		find_slot();
		if
		:: MY.at == PROBES -> MY.at = 0; goto over
		:: else
		fi;
		MY.running = true
	   };
	   atomic { /* compare and swap; another CPU, or a push, may have been between */
		MY.running = false;
		MY.overtaken = false;
		if
		:: SWAPS -> MY.beaten = false; swap()
		:: else -> MY.beaten = false; goto over
		fi
	   };
	   if
	   :: atomic {
		/* Established. Where the ticket was given away meanwhile it is a connection, and no probe. */
		MY.ticket = false;
		if
		:: MINE(V_ticket) ->
			HELD.state = V_owed;
			HELD.late = false;
			MY.probe = true;
			beat();
			check_cap()
		:: else -> goto over
		fi
	      }
	   :: atomic { MAY_VANISH -> MY.gone = true }
	   fi;
	   if
	   :: atomic { MY.gone && !(MINE(V_ticket) && !HELD.late) -> goto over }
	   :: !MY.gone
	   fi;
turn:	   if
	   :: atomic { result(V_success) }
	   :: atomic { WILD -> result(V_failure) }
	   :: atomic { WILD -> hang() }
	   :: atomic { WILD -> neutral() }
	   fi;
over:	   atomic {
		MY.at = 0;
		MY.fresh = false;
		MY.ticket = false;
		MY.gone = false
	   }
	od
}

init {
	atomic {
		run client(0);
#if FLOWS > 1
		run client(1);
#endif
#if FLOWS > 2
		run client(2);
#endif
	}
}

#ifdef PROGRESS
ltl closes { [] (calm -> <> (state == S_closed)) }
#endif
