/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flow.h: slc_flows, SYNs that passed the source bucket. A SYN found there again is a retransmit: it does not pay the
 * source bucket again, at most SLC_REPEATS times and not sooner than SLC_REPEAT_GAP_MS after the last. The tag covers
 * the 4-tuple and the sequence number, so a copy of one admitted SYN buys exactly those passes.
 *
 * The pass count and its time share a word, so that copies racing on two CPUs cannot both pass; the full time beside
 * it says whether the record is still alive. Answered UDP flows live in the same table: bpf/udp.h stamps them.
 */
#ifndef SLC_FLOW_H
#define SLC_FLOW_H

#include "attempt.h"
#include "flow_table.h"
#include "lookup.h"

/* Does the kernel hold a half-done handshake for this 4-tuple? Needs no BTF. */
static __always_inline _Bool slc_half_open(struct xdp_md *ctx, const struct slc_attempt *a)
{
	struct bpf_sock *sk = slc_sk_lookup(ctx, a, a->pkt.sport);
	_Bool half_open;

	if (!sk)
		return 0;
	half_open = sk->state == SLC_TCP_NEW_SYN_RECV;
	bpf_sk_release(sk);
	return half_open;
}

SLC_STAGE_FN int slc_repeated(struct xdp_md *ctx, struct slc_attempt *a)
{
	struct slc_flow *flow = a->flow;
	__u32 ticks = slc_ticks(a->now);
	union slc_flow_head head, next;

	if (!flow)
		return SLC_NEXT;
	head.word = READ_ONCE(flow->head.word);
	a->repeat = 1;
	a->was_admitted = head.admitted;
	a->salt = head.salt;
	if (head.passes > SLC_REPEATS || slc_flow_age(head, ticks) < SLC_TICKS(SLC_REPEAT_GAP_MS))
		REFUSE(a, repeat);
	next = head;
	next.passes = head.passes < 15 ? head.passes + 1 : 15;
	next.last_ms = ticks;
	/* Another CPU holds a copy of this SYN: one of them is enough. */
	if (__sync_val_compare_and_swap(&flow->head.word, head.word, next.word) != head.word)
		REFUSE(a, repeat);
	if (a->was_admitted && slc_half_open(ctx, a))
		return SLC_half_open;
	WRITE_ONCE(flow->last_ns, a->now);
	return SLC_NEXT;
}

/* The record of this SYN, or the way it will take. True if it was there: the SYN is a retransmit. */
static __always_inline _Bool slc_flow_choose(struct slc_attempt *a)
{
	__u32 way;

	if (!a->flows)
		return 0;
	way = slc_flow_way(a->flows, a->flow_hash >> 32, a->now);
	a->flow = &a->flows->way[way & (SLC_FLOW_WAYS - 1)];
	a->salt = a->control->salt_index & 1;
	return !!(way & SLC_FLOW_FOUND);
}

static __always_inline int slc_stage_repeat(struct xdp_md *ctx, struct slc_attempt *a)
{
	return slc_flow_choose(a) ? slc_repeated(ctx, a) : SLC_NEXT;
}

/*
 * Remembers a SYN that passed the source bucket, in the way that stage_repeat chose. Losing the race for it costs a
 * later retransmit its freedom.
 */
static __always_inline void slc_flow_record(struct slc_attempt *a)
{
	struct slc_flow *victim = a->flow;
	union slc_flow_head old;

	if (!victim)
		return;
	old.word = READ_ONCE(victim->head.word);
	a->counters->flow_evicted += slc_flow_live(victim, old, a->now);
	slc_flow_put(victim, old, (union slc_flow_head){.salt = a->salt}, a->flow_hash, a->now);
}

/* Is the service under pressure, so that what fails now says nothing about its health? */
static __always_inline _Bool slc_pressed(const struct slc_attempt *a)
{
	return a->head_age > a->policy->target_ns || (a->decision && a->decision->flags & SLC_D_PRESSURE);
}

/* Admission of the pass, and under what: sockops reads it at establishment. */
static __always_inline void slc_flow_admit(struct slc_attempt *a)
{
	union slc_flow_head head, next;

	if (!a->flow)
		return;
	head.word = READ_ONCE(a->flow->head.word);
	if (head.tag != a->flow_hash >> 32)
		return;
	next = head;
	next.admitted = 1;
	next.class = a->class;
	next.generation = a->generation;
	next.pressure = slc_pressed(a);
	__sync_val_compare_and_swap(&a->flow->head.word, head.word, next.word);
}

#endif /* SLC_FLOW_H */
