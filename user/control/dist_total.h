/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dist_total.h: all counts of a distribution since its map was made, for Prometheus: the kernel's bins have 32 bits and
 * come round, these have 64.
 */
#ifndef SLUICE_DIST_TOTAL_H
#define SLUICE_DIST_TOTAL_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"

struct dist_total {
	bool primed;
	uint32_t seen[SLC_DIST_BINS];
	uint64_t bin[SLC_DIST_BINS];
	uint64_t total, sum_ns;
};

/* The first call takes what is there: a daemon that starts again goes on where the map is. */
void dist_total_take(struct dist_total *total, const struct slc_dist *dist);
/* Samples at or below `ns`; of the bin that it cuts in proportion. Grows with `ns` and with every call of take. */
uint64_t dist_total_below(const struct dist_total *total, uint64_t ns);

#endif /* SLUICE_DIST_TOTAL_H */
