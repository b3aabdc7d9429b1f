/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overdue.h: turns that got no answer within `timeout`. The kernel has no timer for them: it counts started and finished
 * per 100 ms of start time, and what a slot has grown by, started less finished, once it is older than timeout, is
 * unanswered (abi.h: struct slc_turns). Who owed it comes from coarser slots by cell, in proportion.
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

/* One tick's unanswered turns; those that began before `since_ns` (the generation's start) are `stale`. */
struct overdue_counts {
	uint32_t proven[SLC_CELLS], unproven[SLC_CELLS];
	uint32_t pressure; /* of turns admitted under pressure */
	uint32_t stale;
	uint32_t total; /* all of them */
};
void overdue_take(struct overdue *overdue, const struct slc_signals *signals, const struct slc_measure *measure,
		  uint64_t now_ns, uint64_t since_ns, struct overdue_counts *ret_counts);

#endif /* SLUICE_OVERDUE_H */
