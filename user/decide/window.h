/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * window.h: outcomes of the last W ns in N buckets (CONTROL 2). Half-open intervals (now - W, now], exact at the edges of
 * buckets; after a gap of W or longer only what is new counts; adding costs O(1), summing O(buckets), whatever the gap.
 * What is empty costs next to nothing, and no memory: hosts have many services that nobody asks.
 * Order: rotate, record, evaluate (c91). Time behind the newest bucket is taken as that bucket's (c94).
 *
 * Outcomes are kept by source cell, so that one source weighs at most a share of the window: 20 % with >= 5 active cells,
 * 5 % with >= 20. A cell's outcomes beyond its share are scaled down, successes and failures alike.
 *
 * Failures of unproven sources count as far as known-good sources bear them out (DECISIONS 9): where they would lift the
 * failure rate above that of known-good sources in the summed time, only as many count as lift it to that, and the rest
 * is discounted, which means that they are no outcomes. So strangers alone can bring a window nowhere where known-good
 * sources are not already, however many there are. Under WINDOW_KNOWN_FAILURES failures of known-good sources, which may
 * be chance, none counts; where known-good sources have failures and not one success, all count.
 */
#ifndef SLUICE_WINDOW_H
#define SLUICE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"

#define WINDOW_BUCKETS_MAX 128
#define WINDOW_SOME_CELLS 5 /* with as many active cells one weighs at most 1 / WINDOW_SOME_PARTS of the window */
#define WINDOW_SOME_PARTS 5
#define WINDOW_MANY_CELLS 20
#define WINDOW_MANY_PARTS 20
#define WINDOW_KNOWN_FAILURES 5 /* fewer bear nothing out: of 10 outcomes at 1 %, 5 are once in 40 million chance */

struct cell_counts {
	uint32_t success; /* slow ones among them, unless slow is a failure */
	uint32_t failure; /* by proven sources */
	uint32_t unproven; /* failures by sources without a good turn so far */
	uint32_t slow;
};

/* What one tick saw: outcomes of the current generation, not met under pressure. `unanswered` is in the cells already. */
struct sample {
	uint64_t at_ns;
	bool empty; /* known to hold nothing: none of the cells needs to be read; false says nothing */
	struct cell_counts cells[SLC_CELLS];
	uint32_t known_success, known_failure; /* of these, by known-good sources */
	uint32_t
		always; /* failures that count whoever caused them: no_listener; they are in no cell's failure or unproven */
	uint32_t always_sources; /* cells they came from; within one second of the clock each cell comes once */
	uint32_t unanswered; /* of the proven failures in cells: they began timeout ago */
	uint32_t certain; /* failures in cells that a service alone can cause, as a sum: a client can not */
	uint32_t pressed; /* outcomes met under pressure, of any kind: they are in none of the above */
};

struct window; /* opaque: sized by its number of buckets */

/* NULL: out of memory. `width_ns` x `buckets` is the window's length. */
struct window *window_new(uint64_t width_ns, unsigned int buckets);
void window_free(struct window **window);
void window_clear(struct window *window);
void window_add(struct window *window, const struct sample *sample);

/*
 * Sums with weights applied. Rates are absent (has_* false) without a single outcome, never -1 or NaN (c89). `always`
 * failures weigh as an outcome does on average; how many sources they add is at least the most of any one second.
 * So do unproven failures where only a part of them counts; they add as many sources as they come from, or as count.
 */
struct tally {
	uint64_t outcomes; /* raw: successes and failures that count */
	uint64_t failures; /* raw */
	uint64_t certain; /* of these at most so many are of a kind that no client can cause alone */
	double success_weight, failure_weight, slow_weight;
	unsigned int active; /* cells with any outcome */
	unsigned int failing; /* cells with a failure that counts */
	bool has_rate;
	double failure_rate; /* 0 to 1, weighted */
	double slow_rate;
	uint64_t discounted; /* failures that did not count: of unproven sources, and by window_doubt() */
};

/* Of everything in (now - W, now]. */
void window_sum(const struct window *window, uint64_t now_ns, struct tally *ret_tally);
/*
 * Of the newest buckets only: as few as hold `outcomes` outcomes, none older than `within_ns`; fewer may be there. Unproven
 * failures come on top of those: a flood of them must not narrow the view to a tick in which a known-good source failed.
 */
void window_newest(const struct window *window, uint64_t now_ns, uint64_t outcomes, uint64_t within_ns,
		   struct tally *ret_tally);

/* Failures that a client can cause alone do not count: what is left may be too many by those of kind `certain` that did not. */
void window_doubt(struct tally *tally);

#endif /* SLUICE_WINDOW_H */
