/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * probe.h: the slots of slc_probe, which bound what a half-open breaker lets through. A SYN claims one (XDP), becomes a
 * probe at ESTABLISHED and ends with its turn's outcome (sockops, cgroup_skb).
 *
 * A slot is one word, {tag, generation, state}, that moves by compare-and-swap; its deadline is written before the word
 * that claims it, so that nobody sees a fresh ticket with the deadline of the slot's former holder. Whoever holds a slot
 * knows it by tag and generation: after a change of generation its late result meets another word and is lost.
 */
#ifndef SLC_PROBE_H
#define SLC_PROBE_H

#include "bucket.h"
#include "maps/maps.bpf.h"

#define SLC_PROBE_NONE SLC_PROBES /* no slot */
#define SLC_GENERATION_MASK 0xffffffu /* of a slot */

static __always_inline struct slc_probe *slc_probe_of(__u32 state)
{
	return bpf_map_lookup_elem(&slc_probe, &state);
}

/* The word of a slot: `generation` is the decision's, its low 24 bits are kept. */
static __always_inline __u64 slc_slot_word(__u32 tag, __u32 generation, enum slc_slot_state state)
{
	union slc_slot slot = {.tag = tag, .generation = generation & SLC_GENERATION_MASK, .state = state};

	return slot.word;
}

/* Held by this flow in this generation, and not ended: a retransmit of its SYN may pass. */
static __always_inline _Bool slc_slot_held(union slc_slot slot, union slc_slot ticket)
{
	return slot.tag == ticket.tag && slot.generation == ticket.generation &&
	       (slot.state == SLC_SLOT_ticket || slot.state == SLC_SLOT_probe || slot.state == SLC_SLOT_owed);
}

static __always_inline _Bool slc_slot_claimable(union slc_slot slot, union slc_slot ticket, __u64 deadline, __u64 now)
{
	if (slot.state == SLC_SLOT_free || slot.generation != ticket.generation)
		return 1;
	return (slot.state == SLC_SLOT_ticket || slot.state == SLC_SLOT_probe) && now >= deadline;
}

/* Slot that this flow holds, or SLC_PROBE_NONE. `ticket` is slc_slot_word(tag, generation, SLC_SLOT_ticket). */
SLC_VERIFIED_ALONE __u32 slc_probe_find(const struct slc_probe *probe, __u64 ticket)
{
	union slc_slot want = {.word = ticket};

	if (!probe)
		return SLC_PROBE_NONE;
	for (__u32 i = 0; i < SLC_PROBES; i++) {
		union slc_slot slot = {.word = READ_ONCE(probe->slot[i].word)};

		if (slc_slot_held(slot, want))
			return i;
	}
	return SLC_PROBE_NONE;
}

/* Is one of the slots [first, last) free for `ticket`'s generation? */
SLC_VERIFIED_ALONE __u32 slc_probe_vacant(const struct slc_probe *probe, __u64 ticket, __u32 first, __u32 last,
					  __u64 now)
{
	union slc_slot want = {.word = ticket};

	if (!probe)
		return 0;
	for (__u32 i = 0; i < SLC_PROBES; i++) {
		union slc_slot slot = {.word = READ_ONCE(probe->slot[i].word)};

		if (i >= first && i < last && slc_slot_claimable(slot, want, READ_ONCE(probe->deadline_ns[i]), now))
			return 1;
	}
	return 0;
}

/* Two CPUs may claim one slot: the deadline shows who came between, the word decides. */
static __always_inline _Bool slc_slot_claim(struct slc_probe *probe, __u32 i, union slc_slot want, __u64 now,
					    __u64 deadline)
{
	union slc_slot slot = {.word = READ_ONCE(probe->slot[i].word)};
	__u64 before = READ_ONCE(probe->deadline_ns[i]);

	if (!slc_slot_claimable(slot, want, before, now) ||
	    __sync_val_compare_and_swap(&probe->deadline_ns[i], before, deadline) != before ||
	    __sync_val_compare_and_swap(&probe->slot[i].word, slot.word, want.word) != slot.word)
		return 0;
	__sync_fetch_and_add(&probe->granted, 1);
	if (slot.state == SLC_SLOT_ticket)
		__sync_fetch_and_add(&probe->returned, 1);
	else if (slot.state == SLC_SLOT_probe) /* established, and asked nothing */
		__sync_fetch_and_add(&probe->neutral, 1);
	return 1;
}

/*
 * Claims a slot of [range & 0xff, range >> 8) for `ticket`; it is free again `ticket_ns` after `now` if no connection
 * comes of it. Its number, or SLC_PROBE_NONE: all are taken.
 */
SLC_VERIFIED_ALONE __u32 slc_probe_claim(struct slc_probe *probe, __u64 ticket, __u32 range, __u64 now, __u64 ticket_ns)
{
	union slc_slot want = {.word = ticket};
	__u32 first = range & 0xff, last = range >> 8;

	if (!probe)
		return SLC_PROBE_NONE;
	for (__u32 i = 0; i < SLC_PROBES; i++) {
		if (i >= first && i < last && slc_slot_claim(probe, i, want, now, now + ticket_ns))
			return i;
	}
	return SLC_PROBE_NONE;
}

/* ESTABLISHED: the ticket becomes a probe. Its slot, or SLC_PROBE_NONE: this flow holds none. */
SLC_VERIFIED_ALONE __u32 slc_probe_established(struct slc_probe *probe, __u64 ticket, __u64 deadline)
{
	union slc_slot next = {.word = ticket};

	if (!probe)
		return SLC_PROBE_NONE;
	next.state = SLC_SLOT_probe;
	for (__u32 i = 0; i < SLC_PROBES; i++) {
		if (READ_ONCE(probe->slot[i].word) != ticket ||
		    __sync_val_compare_and_swap(&probe->slot[i].word, ticket, next.word) != ticket)
			continue;
		WRITE_ONCE(probe->deadline_ns[i], deadline);
		__sync_fetch_and_add(&probe->established, 1);
		return i;
	}
	return SLC_PROBE_NONE;
}

/* What a state of the slot is counted as when the probe has ended with it. */
static __always_inline void slc_probe_count(struct slc_probe *probe, __u32 state)
{
	if (state == SLC_SLOT_success)
		__sync_fetch_and_add(&probe->succeeded, 1);
	else if (state == SLC_SLOT_failure)
		__sync_fetch_and_add(&probe->failed, 1);
	else if (state == SLC_SLOT_free)
		__sync_fetch_and_add(&probe->neutral, 1);
}

/*
 * Moves the slot of an established probe to `state`; `mine` is a slc_slot_word() of its tag and generation. True if
 * the slot was still ours. `deadline` counts in the states probe and owed.
 */
SLC_VERIFIED_ALONE __u32 slc_probe_move(struct slc_probe *probe, __u32 slot, __u64 mine, __u32 state, __u64 deadline)
{
	union slc_slot next = {.word = mine}, old = {.word = mine};

	if (!probe || slot >= SLC_PROBES)
		return 0;
	old.word = READ_ONCE(probe->slot[slot].word);
	if (old.tag != next.tag || old.generation != next.generation ||
	    (old.state != SLC_SLOT_probe && old.state != SLC_SLOT_owed))
		return 0;
	next.state = state;
	if (__sync_val_compare_and_swap(&probe->slot[slot].word, old.word, next.word) != old.word)
		return 0;
	if (state == SLC_SLOT_probe || state == SLC_SLOT_owed)
		WRITE_ONCE(probe->deadline_ns[slot], deadline);
	slc_probe_count(probe, state);
	return 1;
}

#endif /* SLC_PROBE_H */
