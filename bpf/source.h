/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * source.h: what one source may ask for. Tokens pay for attempts and are not returned when a later stage refuses:
 * else a greedy source would reach the gate as often as it sends.
 */
#ifndef SLC_SOURCE_H
#define SLC_SOURCE_H

#include "attempt.h"
#include "cold.h"
#include "flow_table.h"
#include "trust.h"

/* Where the policy says so a VLAN's sources have buckets of their own; sockops cannot know the VLAN, so nothing else. */
static __always_inline __u16 slc_key_vlan(const struct slc_attempt *a)
{
	return a->policy->flags & SLC_P_VLAN ? a->pkt.vlan : 0;
}

static __always_inline struct slc_set *slc_source_set(const struct slc_attempt *a, __u64 hash)
{
	__u32 index = a->policy->set_base + ((__u32)hash & a->policy->set_mask);

	return bpf_map_lookup_elem(&slc_sources, &index);
}

/*
 * Finds the two lines that a SYN of an unknown source misses the cache on, and starts loading both before either is
 * needed: BPF has no prefetch, but the CPU overlaps two loads that are next to each other.
 */
static __always_inline void slc_source_touch(struct slc_attempt *a)
{
	a->flows = slc_flow_set_of(a->control, a->flow_hash);
	a->sources = slc_source_set(a, a->source);
	if (a->flows && a->sources) {
		__u64 flow = READ_ONCE(a->flows->way[0].head.word), source = READ_ONCE(a->sources->way[0].word);

		SLC_OPAQUE(flow);
		SLC_OPAQUE(source);
	}
}

static __always_inline void slc_source_key(struct slc_attempt *a)
{
	a->key = a->pkt.saddr;
	slc_addr_mask(&a->key, a->policy->v4_prefix, a->policy->v6_prefix);
	a->source = slc_hash_source(a->control->secret, &a->key, a->policy->uid, 0, SLC_TIER_OWN);
	a->flow_hash = slc_hash_flow(a->source, &a->pkt.saddr, &a->pkt.daddr, a->pkt.sport, a->pkt.dport, a->pkt.seq,
				     a->pkt.proto);
	slc_source_touch(a);
}

static __always_inline __u32 slc_source_charge(struct slc_attempt *a, struct slc_set *set, __u64 hash, __u64 interval,
					       __u64 depth)
{
	if (!set)
		return SLC_TAKEN;
	return slc_source_take(set, hash >> 40, a->now >> (a->policy->shift & 63) & SLC_TAT_MASK, interval, depth);
}

/* What a bucket said (enum slc_taken and flags). */
static __always_inline int slc_source_verdict(struct slc_attempt *a, __u32 r)
{
	if (r & SLC_CONTENDED)
		REFUSE(a, contended);
	if (r & SLC_EMPTY)
		REFUSE(a, rate_limited);
	return SLC_NEXT;
}

SLC_STAGE_FN __u64 slc_source_vlan(const struct slc_attempt *a)
{
	return slc_hash_source(a->control->secret, &a->key, a->policy->uid, a->pkt.vlan, SLC_TIER_OWN);
}

/* source.wide: the prefix the source is in, by a bucket of its own. */
SLC_STAGE_FN int slc_source_wide(struct slc_attempt *a)
{
	struct slc_addr wide = a->pkt.saddr;
	__u64 hash;
	__u32 r;

	slc_addr_mask(&wide, a->policy->wide_v4_prefix, a->policy->wide_v6_prefix);
	hash = slc_hash_source(a->control->secret, &wide, a->policy->uid, slc_key_vlan(a), SLC_TIER_WIDE);
	r = slc_source_charge(a, slc_source_set(a, hash), hash, a->policy->wide_interval, a->policy->wide_depth);
	return slc_source_verdict(a, r);
}

/* Interval and depth that hold for this source. Returns 0 where it is unlimited. */
static __always_inline _Bool slc_source_limit(struct slc_attempt *a, __u64 *interval, __u64 *depth)
{
	const struct slc_policy *policy = a->policy;
	const struct slc_rule *rule = NULL;

	if (slc_ordered(a, SLC_O_SOURCE, a->override->source_until_ns)) {
		*interval = a->override->source_interval;
		*depth = a->override->source_depth;
	} else if (policy->flags & SLC_P_SOURCE) {
		*interval = policy->source_interval;
		*depth = policy->source_depth;
	} else {
		return 0;
	}
	if (policy->flags & SLC_P_OVERRIDES)
		rule = slc_trust_find(a->snapshot, policy->uid, &a->pkt.saddr);
	if (rule) { /* one prefix's own limit is more specific than either */
		*interval = rule->interval;
		*depth = rule->depth;
	}
	return 1;
}

static __always_inline int slc_stage_source(struct slc_attempt *a)
{
	__u64 interval, depth, hash = a->source;
	struct slc_set *set = a->sources;
	__u32 r;
	int reason;

	if (!slc_source_limit(a, &interval, &depth))
		return SLC_NEXT;
	if (a->decision && a->decision->flags & SLC_D_SOURCE)
		interval = slc_max(interval, a->decision->source_interval);
	if (slc_key_vlan(a)) {
		hash = slc_source_vlan(a);
		set = slc_source_set(a, hash);
	}
	r = slc_source_charge(a, set, hash, interval, depth);
	a->seen_before = !!(r & SLC_SEEN_BEFORE);
	a->counters->inherited += !!(r & SLC_INHERITED);
	reason = slc_source_verdict(a, r);
	return reason == SLC_NEXT && a->policy->flags & SLC_P_WIDE ? slc_source_wide(a) : reason;
}

static __always_inline int slc_stage_concurrency(struct slc_attempt *a)
{
	const struct slc_cold *cold;
	__u32 limit;

	if (slc_ordered(a, SLC_O_CONCURRENT, a->override->concurrent_until_ns))
		limit = a->override->source_concurrent;
	else if (a->policy->flags & SLC_P_CONCURRENT)
		limit = a->policy->source_concurrent;
	else
		return SLC_NEXT;
	cold = slc_cold_find(a->control, a->source);
	if (cold && cold->head.open >= limit)
		REFUSE(a, source_concurrency);
	return SLC_NEXT;
}

SLC_STAGE_FN void slc_source_write(struct slc_attempt *a, __u32 attempts, __u32 refused)
{
	struct slc_cold *cold = slc_cold_get(a->control, a->source, &a->key, a->policy->uid, a->now);

	if (!cold)
		return;
	__sync_fetch_and_add(&cold->attempts, attempts);
	if (refused)
		__sync_fetch_and_add(&cold->refused, refused);
	WRITE_ONCE(cold->seen_ns, a->now);
}

/*
 * Bookkeeping after the verdict, with shared lines kept out of the way of sources seen once. The clock's low bits are
 * part of the sample's dice: the copies of one SYN must not all be invisible.
 */
static __always_inline void slc_source_note(struct slc_attempt *a, _Bool refused)
{
	if (!refused && a->seen_before)
		slc_source_write(a, 1, 0);
	else if (refused && !((a->flow_hash ^ a->now) % SLC_SAMPLE))
		slc_source_write(a, SLC_SAMPLE, SLC_SAMPLE);
}

#endif /* SLC_SOURCE_H */
