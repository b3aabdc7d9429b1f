/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flow_table.h: slc_flows as a table: sets of four records in one cache line, found by the flow's keyed hash. A miss
 * after eviction is charged like a new attempt and counted, never taken for guilt.
 */
#ifndef SLC_FLOW_TABLE_H
#define SLC_FLOW_TABLE_H

#include "bucket.h"
#include "maps/maps.bpf.h"

#define SLC_TICK_MASK 0xfffffu

static __always_inline __u32 slc_ticks(__u64 now)
{
	return now >> 20 & SLC_TICK_MASK;
}

static __always_inline __u32 slc_flow_age(union slc_flow_head head, __u32 ticks)
{
	return (ticks - (__u32)head.last_ms) & SLC_TICK_MASK;
}

static __always_inline _Bool slc_flow_live(const struct slc_flow *flow, union slc_flow_head head, __u64 now)
{
	return head.passes && now - READ_ONCE(flow->last_ns) < SLC_FLOW_TTL_NS;
}

static __always_inline struct slc_flow_set *slc_flow_set_of(const struct slc_control *control, __u64 flow_hash)
{
	__u32 index = (__u32)flow_hash & (control->flow_sets - 1);

	return bpf_map_lookup_elem(&slc_flows, &index);
}

#define SLC_FLOW_FOUND 4u

/*
 * The way of the live record with this tag, with SLC_FLOW_FOUND; else the way to take: the one whose last pass is
 * longest ago by its 20-bit time, an unused one first. Arithmetic as in slc_source_way(), and for the same reason.
 */
static __always_inline __u32 slc_flow_way(const struct slc_flow_set *set, __u32 tag, __u64 now)
{
	__u32 ticks = slc_ticks(now);
	__u64 best = 0, best_key = 0;
	union slc_flow_head head;

	SLC_UNROLL
	for (__u64 i = 0; i < SLC_FLOW_WAYS; i++) {
		__u64 key, take;

		head.word = READ_ONCE(set->way[i].head.word);
		key = slc_greater(1, (__u64)head.tag ^ tag) << 21 | slc_greater(1, head.passes) << 20 |
		      slc_flow_age(head, ticks);
		take = -slc_greater(key + 1, best_key);
		best_key ^= (best_key ^ (key + 1)) & take;
		best ^= (best ^ i) & take;
	}
	best &= SLC_FLOW_WAYS - 1;
	head.word = READ_ONCE(set->way[best].head.word);
	if (head.tag == tag && slc_flow_live(&set->way[best], head, now))
		best |= SLC_FLOW_FOUND;
	return best;
}

static __always_inline struct slc_flow *slc_flow_find(struct slc_flow_set *set, __u64 flow_hash, __u64 now)
{
	__u32 way;

	if (!set)
		return NULL;
	way = slc_flow_way(set, flow_hash >> 32, now);
	if (!(way & SLC_FLOW_FOUND))
		return NULL;
	return &set->way[way & (SLC_FLOW_WAYS - 1)];
}

/* A first pass takes this way over, unless another CPU was quicker. */
static __always_inline void slc_flow_put(struct slc_flow *flow, union slc_flow_head old, union slc_flow_head next,
					 __u64 flow_hash, __u64 now)
{
	next.tag = flow_hash >> 32;
	next.last_ms = slc_ticks(now);
	next.passes = 1;
	if (__sync_val_compare_and_swap(&flow->head.word, old.word, next.word) == old.word)
		WRITE_ONCE(flow->last_ns, now);
}

#endif /* SLC_FLOW_TABLE_H */
