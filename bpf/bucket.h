/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bucket.h: token buckets as GCRA (ITU-T I.371, virtual scheduling), plain C: time comes in as an argument.
 *
 * One word per bucket: the theoretical arrival time (TAT). A packet conforms if max(TAT, now) + T - now <= max(tau, T),
 * and then TAT becomes max(TAT, now) + T, by compare-and-swap: exact on any number of CPUs, no division, no timer.
 * T is the interval between tokens and may be pushed at any time; tau, the depth, is burst x T of the configured rate
 * and stays. A TAT beyond now + max(tau, T) was left by a slower rate: it is stored back to that bound, so a raised
 * rate acts within one depth, a lowered one hands out nothing, and no sequence of pushes admits more than configured
 * rate x time + burst.
 *
 * A `now` that is behind another CPU's makes max(TAT, now) larger, never smaller: time going back creates no token.
 */
#ifndef SLC_BUCKET_H
#define SLC_BUCKET_H

#include <linux/types.h>

#include "hash.h"
#include "maps/abi.h"

#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#endif

enum slc_taken { SLC_TAKEN, SLC_EMPTY, SLC_CONTENDED };

static __always_inline __u64 slc_max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 slc_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* --- 64-bit buckets, 1/16 ns: totals, ceilings, shares, resets, events ------------------------------------------- */

/* How far TAT is ahead of now: the time until the bucket is full. Bounded by `bound`, what a stored-back TAT has. */
static __always_inline __u64 slc_bucket_ahead(__u64 tat, __u64 now16, __u64 bound)
{
	return tat > now16 ? slc_min(tat - now16, bound) : 0;
}

/* Would a packet conform? `threshold` <= max(tau, T): the part of the depth this caller may use (its class). */
static __always_inline _Bool slc_bucket_peek(__u64 tat, __u64 now16, __u64 interval, __u64 depth, __u64 threshold)
{
	__u64 ahead = slc_bucket_ahead(tat, now16, slc_max(depth, interval));

	return ahead + interval <= slc_max(threshold, interval);
}

#define SLC_BUCKET_TRIES 8 /* a CPU that loses this often refuses: others were admitted meanwhile */

/*
 * A TAT is stored back only when it is beyond the bound by more than two CPUs' clocks or a preemption between reading
 * the clock and using it can explain: else a late `now` would hand out the difference again.
 */
#define SLC_SKEW16 (16ULL * 1000000) /* 1 ms in 1/16 ns */
#define SLC_SKEW_UNITS (1ULL << 20) /* of a source bucket */

/* `word` is never NULL; verified alone, the function cannot know. */
SLC_VERIFIED_ALONE enum slc_taken slc_bucket_take(__u64 *word, __u64 now16, __u64 interval, __u64 depth,
						  __u64 threshold)
{
	__u64 bound = slc_max(depth, interval);
	__u64 tat;

	if (!word)
		return SLC_EMPTY;
	tat = READ_ONCE(*word);

	for (int i = 0; i < SLC_BUCKET_TRIES; i++) {
		__u64 ahead = slc_bucket_ahead(tat, now16, bound);
		__u64 next = now16 + ahead + interval, seen;

		if (ahead + interval > slc_max(threshold, interval)) {
			if (tat > now16 + bound + SLC_SKEW16)
				__sync_val_compare_and_swap(word, tat, now16 + bound);
			return SLC_EMPTY;
		}
		seen = __sync_val_compare_and_swap(word, tat, next);
		if (seen == tat)
			return SLC_TAKEN;
		tat = seen;
	}
	return SLC_CONTENDED;
}

/* Charges without asking (allowed sources): at most to an empty bucket. */
SLC_VERIFIED_ALONE int slc_bucket_charge(__u64 *word, __u64 now16, __u64 interval, __u64 depth)
{
	__u64 bound = slc_max(depth, interval);
	__u64 tat;

	if (!word)
		return 0;
	tat = READ_ONCE(*word);

	for (int i = 0; i < SLC_BUCKET_TRIES; i++) {
		__u64 ahead = slc_bucket_ahead(tat, now16, bound);
		__u64 next = now16 + slc_min(ahead + interval, bound);
		__u64 seen = __sync_val_compare_and_swap(word, tat, next);

		if (seen == tat)
			break;
		tat = seen;
	}
	return 0;
}

/* --- 40-bit buckets: sources, eight to a cache line ---------------------------------------------------------------- */

#define SLC_TAT_MASK ((1ULL << 40) - 1)
/*
 * TATs are compared modulo 2^40. max(tau, T) <= 2^32 units, so a distance up to this is the future and anything more
 * is the past; the slack is for a `now` read before another CPU's. The sweep keeps TATs from growing so old that they
 * would come round to the future.
 */
#define SLC_TAT_FUTURE (1ULL << 33)
#define SLC_SOURCE_TRIES 3

static __always_inline __u64 slc_tat_ahead(__u64 tat, __u64 now)
{
	__u64 d = (tat - now) & SLC_TAT_MASK;

	return d <= SLC_TAT_FUTURE ? d : 0;
}

/* Larger is older; the newest is the one furthest in the future. */
static __always_inline __u64 slc_tat_age(__u64 tat, __u64 now)
{
	return (now + SLC_TAT_FUTURE - tat) & SLC_TAT_MASK;
}

static __always_inline __u64 slc_way_word(__u64 tag, __u64 tat)
{
	return tag << 40 | (tat & SLC_TAT_MASK);
}

/* Result of slc_source_take(): an enum slc_taken and these. */
#define SLC_SEEN_BEFORE 4u /* the source had an entry */
#define SLC_INHERITED 8u /* a newcomer that took over a debt, or was refused by one */

/* 1 if a > b, for values below 2^63; arithmetic, because eight branches in a row cost the verifier 2^8 paths. */
static __always_inline __u64 slc_greater(__u64 a, __u64 b)
{
	__u64 r = (b - a) >> 63;

	SLC_OPAQUE(r);
	return r;
}

/*
 * The source's way by its tag, else the one with the oldest TAT. Should two ways carry the tag, the one deeper in debt
 * counts, so that the other is never a second bucket.
 */
static __always_inline __u32 slc_source_way(const struct slc_set *set, __u64 tag, __u64 now)
{
	__u64 best = 0, best_key = 0;

	SLC_UNROLL
	for (__u64 i = 0; i < SLC_WAYS; i++) {
		__u64 w = READ_ONCE(set->way[i].word);
		__u64 match = slc_greater(1, w >> 40 ^ tag);
		__u64 unused = slc_greater(1, w >> 1 | (w & 1)) & ~match; /* an own entry of tag 0 comes first */
		__u64 key = (slc_tat_age(w, now) ^ (SLC_TAT_MASK & -match)) | match << 41 | unused << 40;
		__u64 take = -slc_greater(key, best_key);

		best_key ^= (best_key ^ key) & take;
		best ^= (best ^ i) & take;
	}
	return best & (SLC_WAYS - 1);
}

/*
 * A newcomer takes the way with the oldest TAT and starts from that TAT: in the past it is a full bucket, in the future
 * a debt, so nobody gains by eviction. Claim and charge are one compare-and-swap; a refusal writes nothing but a
 * store-back. Two CPUs that claim for one source at once mostly meet in the same way; if the line changed between
 * their looks they may end in two ways, worth at most one more token per further CPU.
 */
SLC_VERIFIED_ALONE __u32 slc_source_take(struct slc_set *set, __u64 tag, __u64 now, __u64 interval, __u64 depth)
{
	__u64 bound = slc_max(depth, interval);

	if (!set)
		return SLC_EMPTY;
	for (int try = 0; try < SLC_SOURCE_TRIES; try++) {
		__u64 *slot = &set->way[slc_source_way(set, tag, now)].word;
		__u64 word = READ_ONCE(*slot), ahead = word ? slc_tat_ahead(word, now) : 0;
		__u32 seen = word >> 40 == tag ? SLC_SEEN_BEFORE : 0;

		if (ahead + interval > bound) {
			if (ahead > bound + SLC_SKEW_UNITS)
				__sync_val_compare_and_swap(slot, word, slc_way_word(word >> 40, now + bound));
			return SLC_EMPTY | seen | (seen ? 0 : SLC_INHERITED);
		}
		if (__sync_val_compare_and_swap(slot, word, slc_way_word(tag, now + ahead + interval)) == word)
			return SLC_TAKEN | seen | (!seen && ahead ? SLC_INHERITED : 0);
	}
	return SLC_CONTENDED;
}

/* The sweep: a TAT older than 2^38 units becomes one 2^38 units old. Returns 1 if it rewrote. */
#define SLC_TAT_OLD (1ULL << 38)
static __always_inline int slc_way_sweep(__u64 *word, __u64 now)
{
	__u64 w = READ_ONCE(*word);

	if (!w || slc_tat_age(w, now) <= SLC_TAT_OLD + SLC_TAT_FUTURE)
		return 0;
	return __sync_val_compare_and_swap(word, w, slc_way_word(w >> 40, now - SLC_TAT_OLD)) == w;
}

#endif /* SLC_BUCKET_H */
