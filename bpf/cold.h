/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cold.h: facts about sources in slc_cold: demand, refusals, open connections, good connections. Touched on a source's
 * second packet, at connection events, and on a sample of one refusal in 64, so that a flood of sources seen once
 * costs no second cache line. Tag and open count share a word: an entry with open connections cannot be evicted.
 */
#ifndef SLC_COLD_H
#define SLC_COLD_H

#include "bucket.h"
#include "hash.h"
#include "maps/maps.bpf.h"

#define SLC_SAMPLE 64 /* with one in 16 the four cache lines cost 20 ns a refusal, with this 5 */

static __always_inline struct slc_cold_set *slc_cold_set_of(const struct slc_control *control, __u64 source)
{
	__u32 index = (__u32)source & (control->cold_sets - 1);

	return bpf_map_lookup_elem(&slc_cold, &index);
}

#define SLC_COLD_NONE SLC_COLD_WAYS

/* Way of the entry with this tag, or SLC_COLD_NONE. The ways are lines apart: load all, then look. */
SLC_VERIFIED_ALONE __u32 slc_cold_way(const struct slc_cold_set *set, __u64 tag)
{
	union slc_cold_head head[SLC_COLD_WAYS];

	if (!set)
		return SLC_COLD_NONE;
	SLC_UNROLL
	for (__u32 i = 0; i < SLC_COLD_WAYS; i++)
		head[i].word = READ_ONCE(set->way[i].head.word);
	SLC_UNROLL
	for (__u32 i = 0; i < SLC_COLD_WAYS; i++) {
		if (head[i].tag == tag && set->way[i].seen_ns)
			return i;
	}
	return SLC_COLD_NONE;
}

/* Way without open connections that was seen longest ago, or SLC_COLD_NONE: all are pinned. */
SLC_VERIFIED_ALONE __u32 slc_cold_victim(const struct slc_cold_set *set)
{
	__u64 oldest = ~0ULL;
	__u32 victim = SLC_COLD_NONE;

	if (!set)
		return SLC_COLD_NONE;
	for (__u32 i = 0; i < SLC_COLD_WAYS; i++) {
		union slc_cold_head head = {.word = READ_ONCE(set->way[i].head.word)};

		if (!head.open && set->way[i].seen_ns < oldest) {
			oldest = set->way[i].seen_ns;
			victim = i;
		}
	}
	return victim;
}

static __always_inline struct slc_cold *slc_cold_find(const struct slc_control *control, __u64 source)
{
	struct slc_cold_set *set = slc_cold_set_of(control, source);
	__u32 way;

	if (!set) /* before the arithmetic, which clang would do first */
		return NULL;
	way = slc_cold_way(set, source >> 24);
	return way < SLC_COLD_NONE ? &set->way[way & (SLC_COLD_WAYS - 1)] : NULL;
}

/* Takes an entry over. NULL: all are pinned, or another CPU was quicker. */
static __always_inline struct slc_cold *slc_cold_claim(const struct slc_control *control, __u64 source,
						       const struct slc_addr *key, __u32 uid, __u64 now)
{
	struct slc_cold_set *set = slc_cold_set_of(control, source);
	union slc_cold_head old, next = {.tag = source >> 24};
	__u32 way = slc_cold_victim(set);
	struct slc_cold *victim;

	if (!set || way >= SLC_COLD_NONE)
		return NULL;
	victim = &set->way[way & (SLC_COLD_WAYS - 1)];
	old.word = READ_ONCE(victim->head.word);
	if (old.open || __sync_val_compare_and_swap(&victim->head.word, old.word, next.word) != old.word)
		return NULL;
	__builtin_memcpy(victim->addr, key, sizeof(victim->addr));
	victim->uid = uid;
	victim->attempts = victim->refused = victim->established = victim->good = 0;
	victim->good_since_ns = 0;
	WRITE_ONCE(victim->seen_ns, now);
	return victim;
}

static __always_inline struct slc_cold *slc_cold_get(const struct slc_control *control, __u64 source,
						     const struct slc_addr *key, __u32 uid, __u64 now)
{
	struct slc_cold *cold = slc_cold_find(control, source);

	return cold ? cold : slc_cold_claim(control, source, key, uid, now);
}

/* `count` more good turns, or good connections where turns are not looked at. */
static __always_inline void slc_cold_good(struct slc_cold *cold, __u32 count, __u64 now)
{
	if (!cold->good)
		WRITE_ONCE(cold->good_since_ns, now);
	__sync_fetch_and_add(&cold->good, count);
	WRITE_ONCE(cold->seen_ns, now);
}

#endif /* SLC_COLD_H */
