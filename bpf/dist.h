/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dist.h: where a time is counted: log-linear histograms, 32 bins per octave from 2^14 ns, and tenths of a second; plain
 * C, so that user space bins alike.
 */
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

/*
 * ns / SLC_TURN_SLOT_NS, exactly, for 9 years of uptime: BPF leaves divisions by a constant to the processor, 10 ns each.
 * 10^8 is 2^8 x 5^8; the quotient of the upper bits is at most two too small.
 */
#define SLC_TENTH_ODD 390625u
static __always_inline __u32 slc_tenth(__u64 ns)
{
	__u64 y = ns >> 8, quotient = (y >> 18) * ((1ULL << 50) / SLC_TENTH_ODD) >> 32;
	__u64 rest = y - quotient * SLC_TENTH_ODD;

	SLC_UNROLL
	for (int i = 0; i < 2; i++) {
		__u64 more = rest >= SLC_TENTH_ODD;

		quotient += more;
		rest -= more * SLC_TENTH_ODD;
	}
	return quotient;
}
_Static_assert(SLC_TURN_SLOT_NS == 256ULL * SLC_TENTH_ODD, "slots of 100 ms");

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
