/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dist.h: percentiles of struct slc_dist: log-linear bins, 32 per octave from 2^14 ns. A quantile is the middle of its
 * bin, which is within 1.6 % of every sample in it (below 2^14 ns and beyond 2^36 ns nothing is promised). The kernel only
 * counts; windows are differences of readings.
 */
#ifndef SLUICE_DIST_H
#define SLUICE_DIST_H

#include <stdbool.h>
#include <stdint.h>

#include "maps/abi.h"

unsigned int dist_bin(uint64_t ns); /* as bpf/dist.h has it */
uint64_t dist_lower_ns(unsigned int bin);
uint64_t dist_upper_ns(unsigned int bin);

/* Counts of one period. */
struct dist_counts {
	uint64_t total, sum_ns;
	uint32_t bin[SLC_DIST_BINS];
};

/* q in 1/10000 (9900: P99). False: no samples. */
bool dist_quantile(const struct dist_counts *counts, unsigned int q, uint64_t *ret_ns);
/* Of `count` samples in the bin of `ns` those at or below it, were they spread evenly. */
uint64_t dist_part(uint64_t count, uint64_t ns);
/* Samples at or below `ns`; the bin that `ns` cuts is counted in proportion. For Prometheus buckets. */
uint64_t dist_below(const struct dist_counts *counts, uint64_t ns);

struct dist_window; /* buckets of counts over a sliding time, and the kernel's counts when last taken */
struct dist_window *dist_window_new(uint64_t width_ns, unsigned int buckets);
void dist_window_free(struct dist_window **window);
/*
 * What came since the last call goes to the bucket of now_ns. The first call takes none: those are from before; nor does
 * the first one after the kernel's slot was emptied for another owner, known from a sum that fell.
 */
void dist_window_take(struct dist_window *window, const struct slc_dist *dist, uint64_t now_ns);
void dist_window_sum(const struct dist_window *window, uint64_t now_ns, struct dist_counts *ret_counts);

#endif /* SLUICE_DIST_H */
