/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * source.h: what one source may ask for. Tokens pay for attempts and are not returned when a later stage refuses:
 * else a greedy source would reach the gate as often as it sends.
 */
#ifndef SLC_SOURCE_H
#define SLC_SOURCE_H

#include "attempt.h"
#include "cold.h"
#include "trust.h"

/* Where the policy says so a VLAN's sources have buckets of their own; sockops cannot know the VLAN, so nothing else. */
static __always_inline __u16 slc_key_vlan(const struct slc_attempt *a)
{
	return a->policy->flags & SLC_P_VLAN ? a->pkt.vlan : 0;
}

SLC_STAGE_FN void slc_source_key(struct slc_attempt *a)
{
	a->key = a->pkt.saddr;
	slc_addr_mask(&a->key, a->policy->v4_prefix, a->policy->v6_prefix);
	a->source = slc_hash_source(a->control->secret, &a->key, a->policy->uid, 0, SLC_TIER_OWN);
	a->flow_hash = slc_hash_flow(a->source, &a->pkt.saddr, &a->pkt.daddr, a->pkt.sport, a->pkt.dport, a->pkt.seq,
				     a->pkt.proto);
}

static __always_inline __u32 slc_source_charge(struct slc_attempt *a, __u64 hash, __u64 interval, __u64 depth)
{
	__u32 index = a->policy->set_base + ((__u32)hash & a->policy->set_mask);
	struct slc_set *set = bpf_map_lookup_elem(&slc_sources, &index);

	if (!set)
		return SLC_TAKEN;
	return slc_source_take(set, hash >> 40, a->now >> (a->policy->shift & 63) & SLC_TAT_MASK, interval, depth);
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

SLC_STAGE_FN int slc_stage_source(struct slc_attempt *a)
{
	__u64 interval, depth, hash;
	__u32 r;

	if (!slc_source_limit(a, &interval, &depth))
		return SLC_NEXT;
	if (a->decision && a->decision->flags & SLC_D_SOURCE)
		interval = slc_max(interval, a->decision->source_interval);
	hash = slc_key_vlan(a)
		       ? slc_hash_source(a->control->secret, &a->key, a->policy->uid, slc_key_vlan(a), SLC_TIER_OWN)
		       : a->source;
	r = slc_source_charge(a, hash, interval, depth);
	a->seen_before = !!(r & SLC_SEEN_BEFORE);
	a->counters->inherited += !!(r & SLC_INHERITED);
	if (r & SLC_CONTENDED)
		REFUSE(a, contended);
	if (r & SLC_EMPTY)
		REFUSE(a, rate_limited);
	if (a->policy->flags & SLC_P_WIDE) {
		struct slc_addr wide = a->pkt.saddr;

		slc_addr_mask(&wide, a->policy->wide_v4_prefix, a->policy->wide_v6_prefix);
		hash = slc_hash_source(a->control->secret, &wide, a->policy->uid, slc_key_vlan(a), SLC_TIER_WIDE);

		r = slc_source_charge(a, hash, a->policy->wide_interval, a->policy->wide_depth);
		if (r & SLC_CONTENDED)
			REFUSE(a, contended);
		if (r & SLC_EMPTY)
			REFUSE(a, rate_limited);
	}
	return SLC_NEXT;
}

SLC_STAGE_FN int slc_stage_concurrency(struct slc_attempt *a)
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

/* Bookkeeping after the verdict, with shared lines kept out of the way of sources seen once. */
SLC_STAGE_FN void slc_source_note(struct slc_attempt *a, _Bool refused)
{
	__u32 weight = 1;
	struct slc_cold *cold;

	if (refused) {
		if (slc_mix(a->flow_hash ^ a->now) % SLC_SAMPLE)
			return;
		weight = SLC_SAMPLE;
	} else if (!a->seen_before) {
		return;
	}
	cold = slc_cold_get(a->control, a->source, &a->key, a->policy->uid, a->now);
	if (!cold)
		return;
	__sync_fetch_and_add(&cold->attempts, weight);
	if (refused)
		__sync_fetch_and_add(&cold->refused, weight);
	WRITE_ONCE(cold->seen_ns, a->now);
}

#endif /* SLC_SOURCE_H */
