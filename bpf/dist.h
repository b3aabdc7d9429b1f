/* SPDX-License-Identifier: GPL-2.0-only */
/* dist.h: log-linear histograms, 32 bins per octave from 2^14 ns; plain C, so that user space bins alike. */
#ifndef SLC_DIST_H
#define SLC_DIST_H

#include "hash.h"
#include "maps/abi.h"

static __always_inline __u32 slc_dist_bin(__u64 ns)
{
	__u32 octave = 0, bin;
	__u64 v = ns >> SLC_DIST_FIRST;

	if (!v)
		return 0;
	SLC_UNROLL
	for (int step = 32; step; step >>= 1) {
		if (v >> step) {
			v >>= step;
			octave += step;
		}
	}
	bin = octave * SLC_DIST_OCTAVE + (ns >> (octave + SLC_DIST_FIRST - 5) & (SLC_DIST_OCTAVE - 1));
	return bin < SLC_DIST_BINS ? bin : SLC_DIST_BINS - 1;
}

static __always_inline void slc_dist_add(struct slc_dist *dist, __u64 ns)
{
	__u32 bin = slc_dist_bin(ns);

	SLC_OPAQUE(bin);
	if (bin >= SLC_DIST_BINS)
		return;
	__sync_fetch_and_add(&dist->bin[bin], 1);
	__sync_fetch_and_add(&dist->sum_ns, ns);
}

#endif /* SLC_DIST_H */
