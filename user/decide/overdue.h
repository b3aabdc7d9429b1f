/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overdue.h: turns that got no answer within `timeout`. The kernel has no timer for them: it counts started and finished
 * per 100 ms of start time, and what a slot has grown by, started less finished, once it is older than timeout, is
 * unanswered (abi.h: struct slc_turns). Who owed it comes from coarser slots by cell, in proportion: the numbers are
 * exact, whose they are is where nobody else began a turn at about that time and is still owed its answer.
 * Coarse cells are SLC_CELLS / SLC_OWED_CELLS cells; their turns are counted in the first of these, never spread over
 * them: one source must not look like several.
 *
 * A change of timeout, or a gap of more than a round of the ring less timeout, takes new bases: what was overdue then is
 * not known and not counted.
 */
#ifndef SLUICE_OVERDUE_H
#define SLUICE_OVERDUE_H

#include "user/decide/window.h"

struct overdue; /* bases of all slots, and the newest slot that was taken */

struct overdue *overdue_new(void);
void overdue_free(struct overdue **overdue);

/* One tick's unanswered turns; those of slots that began before `since_ns` (the generation's start) are `stale`. */
struct overdue_counts {
	uint32_t proven[SLC_CELLS], unproven[SLC_CELLS];
	uint32_t pressure; /* of turns admitted under pressure */
	uint32_t stale;
	uint32_t total; /* all of them */
};
void overdue_take(struct overdue *overdue, const struct slc_signals *signals, const struct slc_measure *measure,
		  uint64_t now_ns, uint64_t since_ns, struct overdue_counts *ret_counts);
/*
 * Turns that are owed an answer and are younger than timeout, right after overdue_take(): unlike begun less ended,
 * without those that were given up on and hang on in open connections. Turns from before the bases are left out.
 */
uint64_t overdue_in_flight(const struct overdue *overdue, const struct slc_signals *signals, uint64_t now_ns);

/*
 * Coarse cells that began turns within the last span_ns, at most a round of their slots, and got no answer in time, or
 * none so far; right after overdue_take(). Those of proven sources whatever the pressure, of others without it.
 */
struct overdue_waiting {
	unsigned int proven, unproven;
};
struct overdue_waiting overdue_waiting(const struct overdue *overdue, const struct slc_signals *signals,
				       uint64_t now_ns, uint64_t span_ns);

#endif /* SLUICE_OVERDUE_H */
