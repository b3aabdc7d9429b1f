// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/overdue.h"

#include <stdlib.h>
#include <string.h>

/* A packet that is being counted while its slot comes of age: the kernel reads the clock before it adds. */
#define MARGIN_NS 10000000ULL

/* The kernel writes while we read. */
#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

#define OWED_GRADES 2 /* proven and unproven; who is owed under pressure is known of proven sources alone */

struct overdue {
	bool primed;
	uint32_t uid;
	uint64_t timeout_ns;
	uint8_t owed_shift;
	uint64_t next; /* slot of time that comes of age next */
	uint64_t count_from; /* slots before this hold turns from before the bases */
	uint32_t base[SLC_GRADE_COUNT][SLC_TURN_SLOTS]; /* started less finished of the rounds before */
	uint64_t owed_next; /* coarse slot whose base is renewed next */
	uint32_t owed_base[SLC_GRADE_COUNT][SLC_OWED_SLOTS][SLC_OWED_CELLS];
	bool left[SLC_GRADE_COUNT][SLC_OWED_SLOTS]
		 [SLC_OWED_CELLS]; /* a round whose base is renewed left some unanswered */
	uint32_t given[OWED_GRADES][SLC_OWED_SLOTS][SLC_OWED_CELLS]; /* of this round, already attributed */
};

struct overdue *overdue_new(void)
{
	return calloc(1, sizeof(struct overdue));
}

void overdue_free(struct overdue **overdue)
{
	free(*overdue);
	*overdue = NULL;
}

static uint32_t open_turns(const struct slc_signals *signals, unsigned int grade, uint64_t slot)
{
	const struct slc_turns *turns = &signals->started[grade][slot % SLC_TURN_SLOTS];

	return LOAD(turns->started) - LOAD(turns->finished);
}

/* First slot of which a turn can still finish in time. */
static uint64_t young_slot(const struct overdue *overdue, uint64_t now_ns)
{
	uint64_t age_ns = overdue->timeout_ns + MARGIN_NS;

	return now_ns > age_ns ? (now_ns - age_ns) / SLC_TURN_SLOT_NS : 0;
}

static void take_bases(struct overdue *overdue, const struct slc_signals *signals, const struct slc_measure *measure,
		       uint64_t now_ns)
{
	overdue->primed = true;
	overdue->uid = signals->uid;
	overdue->timeout_ns = measure->timeout_ns;
	overdue->owed_shift = measure->owed_shift;
	overdue->next = young_slot(overdue, now_ns);
	overdue->count_from = now_ns / SLC_TURN_SLOT_NS + 1;
	for (unsigned int grade = 0; grade < SLC_GRADE_COUNT; grade++)
		for (unsigned int slot = 0; slot < SLC_TURN_SLOTS; slot++)
			overdue->base[grade][slot] = open_turns(signals, grade, slot);
	overdue->owed_next = (overdue->next * SLC_TURN_SLOT_NS) >> overdue->owed_shift;
	memcpy(overdue->owed_base, signals->owed, sizeof(overdue->owed_base));
	memset(overdue->given, 0, sizeof(overdue->given));
	memset(overdue->left, 0, sizeof(overdue->left));
}

/* --- who owed it ----------------------------------------------------------------------------------------------------- */

/* Coarse slots that the 100 ms of a slot touch, at most a round of them. */
struct span {
	uint64_t first, last;
};

static struct span span_of(const struct overdue *overdue, uint64_t slot)
{
	struct span span = {
		.first = (slot * SLC_TURN_SLOT_NS) >> overdue->owed_shift,
		.last = ((slot + 1) * SLC_TURN_SLOT_NS - 1) >> overdue->owed_shift,
	};

	if (span.last - span.first >= SLC_OWED_SLOTS)
		span.first = span.last - (SLC_OWED_SLOTS - 1);
	return span;
}

/* Turns of this cell that began in the coarse slot, have not finished in time so far, and are not attributed yet. */
static uint32_t still_owed(const struct overdue *overdue, const struct slc_signals *signals, unsigned int grade,
			   uint64_t coarse, unsigned int cell)
{
	unsigned int at = coarse % SLC_OWED_SLOTS;
	uint32_t owed =
		signals->owed[grade][at][cell] - overdue->owed_base[grade][at][cell] - overdue->given[grade][at][cell];

	return (int32_t)owed > 0 ? owed : 0; /* less than none: the base was taken while they were under way */
}

/* `n` parts in proportion to the weights, which sum to `whole` > 0; largest remainders make the sum exact. */
static void apportion(uint32_t n, const uint32_t weights[SLC_OWED_CELLS], uint64_t whole,
		      uint32_t parts[SLC_OWED_CELLS])
{
	uint64_t remainders[SLC_OWED_CELLS];
	uint32_t left = n;

	for (unsigned int cell = 0; cell < SLC_OWED_CELLS; cell++) {
		parts[cell] = (uint64_t)n * weights[cell] / whole;
		remainders[cell] = (uint64_t)n * weights[cell] % whole;
		left -= parts[cell];
	}
	for (; left > 0; left--) { /* fewer than there are cells with a remainder */
		unsigned int largest = 0;

		for (unsigned int cell = 1; cell < SLC_OWED_CELLS; cell++)
			if (remainders[cell] > remainders[largest])
				largest = cell;
		remainders[largest] = 0;
		parts[largest]++;
	}
}

/* Gives `n` turns to those who are owed by this coarse slot; returns how many it gave: none if nobody is. */
static uint32_t attribute_coarse(struct overdue *overdue, const struct slc_signals *signals, unsigned int grade,
				 uint64_t coarse, bool last, uint32_t n, uint32_t *ret_cells)
{
	uint32_t weights[SLC_OWED_CELLS], parts[SLC_OWED_CELLS];
	uint64_t whole = 0;

	for (unsigned int cell = 0; cell < SLC_OWED_CELLS; cell++) {
		weights[cell] = still_owed(overdue, signals, grade, coarse, cell);
		whole += weights[cell];
	}
	if (!whole)
		return 0;
	if (!last && n > whole)
		n = whole;
	apportion(n, weights, whole, parts);
	for (unsigned int cell = 0; cell < SLC_OWED_CELLS; cell++) {
		overdue->given[grade][coarse % SLC_OWED_SLOTS][cell] += parts[cell];
		if (ret_cells)
			ret_cells[cell * (SLC_CELLS / SLC_OWED_CELLS)] += parts[cell];
	}
	return n;
}

/*
 * What is left of the coarse slots that end within this slot is due in full; of the last one others may still be answered:
 * there the rest is shared in proportion. Whose they are is not known where the coarse slots are older than their round
 * or were under way when the bases were taken: then they are all one cell's, which weighs as one source.
 */
static void attribute(struct overdue *overdue, const struct slc_signals *signals, unsigned int grade, uint64_t slot,
		      uint32_t n, uint32_t *ret_cells)
{
	struct span span = span_of(overdue, slot);

	for (uint64_t coarse = span.first; coarse <= span.last && n > 0; coarse++)
		n -= attribute_coarse(overdue, signals, grade, coarse, coarse == span.last, n, ret_cells);
	if (ret_cells)
		ret_cells[0] += n;
}

static void renew_slot(struct overdue *overdue, const struct slc_signals *signals, unsigned int at)
{
	for (unsigned int grade = 0; grade < SLC_GRADE_COUNT; grade++) {
		for (unsigned int cell = 0; cell < SLC_OWED_CELLS; cell++) {
			uint32_t now = LOAD(signals->owed[grade][at][cell]);

			overdue->left[grade][at][cell] = (int32_t)(now - overdue->owed_base[grade][at][cell]) > 0;
			overdue->owed_base[grade][at][cell] = now;
		}
	}
	for (unsigned int grade = 0; grade < OWED_GRADES; grade++)
		memset(overdue->given[grade][at], 0, sizeof(overdue->given[grade][at]));
}

/* Coarse slots all of whose turns are counted by now; what is left in them is from before the next round. */
static void renew_owed(struct overdue *overdue, const struct slc_signals *signals)
{
	uint64_t end = (overdue->next * SLC_TURN_SLOT_NS) >> overdue->owed_shift;

	if (end - overdue->owed_next > SLC_OWED_SLOTS)
		overdue->owed_next = end - SLC_OWED_SLOTS;
	for (; overdue->owed_next < end; overdue->owed_next++)
		renew_slot(overdue, signals, overdue->owed_next % SLC_OWED_SLOTS);
}

/* Whether this cell began turns in the coarse slot that got no answer. */
static bool waits(const struct overdue *overdue, const struct slc_signals *signals, unsigned int grade, uint64_t coarse,
		  unsigned int cell)
{
	unsigned int at = coarse % SLC_OWED_SLOTS;

	if (coarse < overdue->owed_next)
		return overdue->left[grade][at][cell];
	return (int32_t)(LOAD(signals->owed[grade][at][cell]) - overdue->owed_base[grade][at][cell]) > 0;
}

struct overdue_waiting overdue_waiting(const struct overdue *overdue, const struct slc_signals *signals,
				       uint64_t now_ns, uint64_t span_ns)
{
	uint64_t last = now_ns >> overdue->owed_shift;
	uint64_t first = now_ns > span_ns ? ((now_ns - span_ns) >> overdue->owed_shift) + 1 : 0;
	struct overdue_waiting waiting = {0};

	if (!overdue->primed)
		return waiting;
	if (last >= SLC_OWED_SLOTS && first < last - (SLC_OWED_SLOTS - 1))
		first = last - (SLC_OWED_SLOTS - 1);
	for (unsigned int cell = 0; cell < SLC_OWED_CELLS; cell++) {
		bool proven = false, unproven = false;

		for (uint64_t coarse = first; coarse <= last; coarse++) {
			proven |= waits(overdue, signals, SLC_GRADE_proven, coarse, cell) ||
				  waits(overdue, signals, SLC_GRADE_pressure, coarse, cell);
			unproven |= waits(overdue, signals, SLC_GRADE_unproven, coarse, cell);
		}
		waiting.proven += proven;
		waiting.unproven += unproven;
	}
	return waiting;
}

/* --- how many ---------------------------------------------------------------------------------------------------------- */

/* What a slot that has come of age has grown by since its last round; it becomes the base of the next one. */
static uint32_t grown(struct overdue *overdue, const struct slc_signals *signals, unsigned int grade, uint64_t slot)
{
	uint32_t *base = &overdue->base[grade][slot % SLC_TURN_SLOTS];
	uint32_t n = open_turns(signals, grade, slot) - *base;

	*base += n;
	return slot >= overdue->count_from && (int32_t)n > 0 ? n : 0;
}

static void take_slot(struct overdue *overdue, const struct slc_signals *signals, uint64_t slot, bool stale,
		      struct overdue_counts *counts)
{
	for (unsigned int grade = 0; grade < SLC_GRADE_COUNT; grade++) {
		uint32_t n = grown(overdue, signals, grade, slot);
		uint32_t *cells = grade == SLC_GRADE_proven ? counts->proven : counts->unproven;

		if (!n)
			continue;
		counts->total += n;
		if (grade < OWED_GRADES)
			attribute(overdue, signals, grade, slot, n, stale ? NULL : cells);
		if (stale)
			counts->stale += n;
		else if (grade >= OWED_GRADES)
			counts->pressure += n;
	}
}

static bool bases_hold(const struct overdue *overdue, const struct slc_signals *signals,
		       const struct slc_measure *measure, uint64_t now_ns)
{
	return overdue->primed && overdue->uid == signals->uid && overdue->timeout_ns == measure->timeout_ns &&
	       overdue->owed_shift == measure->owed_shift &&
	       now_ns / SLC_TURN_SLOT_NS < overdue->next + SLC_TURN_SLOTS; /* else the ring has lapped */
}

void overdue_take(struct overdue *overdue, const struct slc_signals *signals, const struct slc_measure *measure,
		  uint64_t now_ns, uint64_t since_ns, struct overdue_counts *ret_counts)
{
	memset(ret_counts, 0, sizeof(*ret_counts));
	if (!bases_hold(overdue, signals, measure, now_ns)) {
		take_bases(overdue, signals, measure, now_ns);
		return;
	}
	for (uint64_t end = young_slot(overdue, now_ns); overdue->next < end; overdue->next++)
		take_slot(overdue, signals, overdue->next, overdue->next * SLC_TURN_SLOT_NS < since_ns, ret_counts);
	renew_owed(overdue, signals);
}

uint64_t overdue_in_flight(const struct overdue *overdue, const struct slc_signals *signals, uint64_t now_ns)
{
	uint64_t in_flight = 0;

	for (uint64_t slot = overdue->next; overdue->primed && slot <= now_ns / SLC_TURN_SLOT_NS; slot++) {
		for (unsigned int grade = 0; grade < SLC_GRADE_COUNT; grade++) {
			uint32_t n = open_turns(signals, grade, slot) - overdue->base[grade][slot % SLC_TURN_SLOTS];

			in_flight += (int32_t)n > 0 ? n : 0;
		}
	}
	return in_flight;
}
