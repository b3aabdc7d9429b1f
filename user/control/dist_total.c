// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/dist_total.h"

#include "user/decide/dist.h"

void dist_total_take(struct dist_total *total, const struct slc_dist *dist)
{
	for (unsigned int b = 0; b < SLC_DIST_BINS; b++) {
		uint32_t now = __atomic_load_n(&dist->bin[b], __ATOMIC_RELAXED);
		uint32_t grown = now - (total->primed ? total->seen[b] : 0);

		total->bin[b] += grown;
		total->total += grown;
		total->seen[b] = now;
	}
	total->sum_ns = __atomic_load_n(&dist->sum_ns, __ATOMIC_RELAXED);
	total->primed = true;
}

uint64_t dist_total_below(const struct dist_total *total, uint64_t ns)
{
	unsigned int bin = dist_bin(ns);
	uint64_t below = 0;

	if (bin == SLC_DIST_BINS - 1)
		return total->total;
	for (unsigned int b = 0; b < bin; b++)
		below += total->bin[b];
	return below + dist_part(total->bin[bin], ns);
}
