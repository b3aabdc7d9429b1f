/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ranges.h: who owns which sets of slc_sources, and moving buckets between ranges. Pure: no map, no clock.
 *
 * A range is a power of two of sets, aligned to its size. The table holds twice what one layout needs, so a new
 * layout finds room beside the live one (see layout_ranges()).
 */
#ifndef SLUICE_RANGES_H
#define SLUICE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"

struct range {
	uint32_t base; /* first set */
	uint32_t size; /* sets, a power of two; 0: none */
};

/* What a service has and gets. */
struct range_want {
	struct range now; /* range in the live snapshot, size 0 if none */
	struct range next; /* out */
};

uint32_t pow2_floor(uint32_t x); /* 0 for 0 */
uint32_t pow2_ceil(uint32_t x); /* 1 for 0; at most 2^31 */

/* Sets each of `services` gets of `configured` sets; 0: too few for them. */
uint32_t range_target(uint32_t configured, size_t services);

/*
 * Fills want[].next: a range of the target size is kept; the others move to free places of `sets`, of which
 * `busy` (the live snapshot's, removed services included) may not be touched yet. A service that finds no place of
 * its target size keeps the range it has, or gets the largest smaller place: *ret_settled is then false, and once this
 * layout is the live one the next call finds the place. -ENOSPC: no room at all, nothing is filled.
 */
int layout_ranges(struct range_want *want, size_t count, const struct range *busy, size_t busy_count, uint32_t sets,
		  uint32_t target, bool *ret_settled);

/*
 * One move of buckets. Units are of 2^shift ns; `now_ns` is one moment on the kernel's monotonic clock.
 * Debts (TATs in the future) are kept; full buckets are the same as no entry and are not.
 */
struct move {
	const struct slc_set *from; /* the old range's first set */
	uint32_t from_sets;
	uint8_t from_shift;
	struct slc_set *to;
	uint32_t to_sets;
	uint8_t to_shift;
	uint64_t now_ns;
};

/*
 * Merges the debts of `from` into `to`, by compare-and-swap, so packets may use both meanwhile. A set of a smaller
 * range gets all the old ones that fold onto it and keeps the largest debts; a larger range gets each debt in every
 * set the source may now belong to: none is lost. Running it twice changes nothing. Returns debts that found no way
 * at once (those that larger ones pushed out later are not counted).
 */
size_t move_debts(const struct move *move);

#endif /* SLUICE_RANGES_H */
