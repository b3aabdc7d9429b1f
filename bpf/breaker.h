/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breaker.h: the service's circuit breaker, last of all stages. Open refuses; half-open lets a SYN through that gets a
 * ticket, a slot of slc_probe, so that what a service in doubt is asked never exceeds its probes, on all CPUs together.
 * A ticket is taken when nothing but commit can refuse any more, and given back if that does.
 *
 * Spoofed SYNs must not take all of them: a part of the slots is for known-good sources, and a stranger gets one only
 * when it has had a good turn before, or sends its SYN again, which a spoofed source does not. So its first one is
 * dropped in silence, even where the action is a reset: a client that was reset would not come again. [Tickets for any
 * SYN, 10 000 spoofed a second: the service is never found healthy again; so it is within 0.3 to 0.7 s where a source
 * is known.]
 *
 * An operator's order replaces all of this; in the shadow (metrics-only) nothing is enforced.
 */
#ifndef SLC_BREAKER_H
#define SLC_BREAKER_H

#include "attempt.h"
#include "cold.h"
#include "probe.h"
#include "trust.h"

#define SLC_NS_PER_MS 1000000ULL

static __always_inline __u32 slc_dscp(struct xdp_md *ctx, const struct slc_pkt *pkt)
{
	const __u8 *ip = (void *)(long)ctx->data + (pkt->l3 & SLC_L3_MASK), *end = (void *)(long)ctx->data_end;

	if (ip + 2 > end)
		return 0;
	return pkt->v6 ? (ip[0] & 15) << 2 | ip[1] >> 6 : ip[1] >> 2;
}

/* Marked by somebody whose marks are believed. A mark from elsewhere is nobody's: ignored and counted. */
static __always_inline _Bool slc_dyed(struct xdp_md *ctx, const struct slc_attempt *a, struct slc_probe *probe)
{
	if (!slc_dscp(ctx, &a->pkt))
		return 0;
	SLC_UNROLL
	for (int i = 0; i < 4; i++)
		if (a->global->dscp_ifindex[i] && a->global->dscp_ifindex[i] == ctx->ingress_ifindex)
			return 1;
	if (slc_trust_find(a->snapshot, SLC_SCOPE_DSCP, &a->pkt.saddr))
		return 1;
	__sync_fetch_and_add(&probe->dscp_ignored, 1);
	return 0;
}

/* It has completed handshakes and was answered before: nobody spoofs that, only the address, if he knows it. */
static __always_inline _Bool slc_had_good_turn(const struct slc_attempt *a)
{
	const struct slc_cold *cold = slc_cold_find(a->control, a->source);

	return cold && READ_ONCE(cold->good);
}

/*
 * Must it come again first? Not a listed or known source, nor one that had a good turn: its client may give up sooner
 * than it would send the same SYN again, and then no new one would ever be a repeat. Not a datagram, of which nothing
 * is remembered; and not in a dry run, where it passes anyway.
 */
static __always_inline _Bool slc_must_repeat(const struct slc_attempt *a)
{
	return a->class >= SLC_CLASS_stranger && a->pkt.proto == SLC_PROTO_TCP && !a->repeat &&
	       !slc_dry(a, SLC_STAGE_breaker) && !slc_had_good_turn(a);
}

/* The word of slc_probe by which this SYN's flow holds a slot. */
static __always_inline __u64 slc_ticket_word(const struct slc_attempt *a)
{
	return slc_slot_word(a->flow_hash >> 32, a->generation, SLC_SLOT_ticket);
}

/* SLC_NEXT with a ticket, else circuit_open. */
static __always_inline int slc_ticket_take(struct slc_attempt *a, struct slc_probe *probe)
{
	const struct slc_decision_half *d = a->decision;
	__u32 first = a->class == SLC_CLASS_known ? 0 : d->reserved, slot;
	__u64 ticket = slc_ticket_word(a);

	if (slc_must_repeat(a)) {
		a->silent = slc_probe_vacant(probe, ticket, first, d->probes, a->now);
		if (a->silent)
			__sync_fetch_and_add(&probe->invited, 1);
		return SLC_circuit_open;
	}
	slot = slc_probe_claim(probe, ticket, first | (__u32)d->probes << 8, a->now, d->ticket_ms * SLC_NS_PER_MS);
	if (slot >= SLC_PROBE_NONE)
		return SLC_circuit_open;
	a->ticket = slot;
	a->has_ticket = 1;
	return SLC_NEXT;
}

/* A SYN that comes again and holds a slot still passes by it, and so does each datagram of a flow that does. */
SLC_STAGE_FN int slc_ticket_ask(struct xdp_md *ctx, struct slc_attempt *a)
{
	struct slc_probe *probe = slc_probe_of(a->state);

	if (!probe || !a->decision)
		return SLC_NEXT;
	if ((a->repeat || a->pkt.proto != SLC_PROTO_TCP) && slc_probe_find(probe, slc_ticket_word(a)) < SLC_PROBE_NONE)
		return SLC_NEXT;
	if ((a->policy->flags & SLC_P_DYED && !slc_dyed(ctx, a, probe)) || slc_ticket_take(a, probe) != SLC_NEXT)
		REFUSE(a, circuit_open);
	return SLC_NEXT;
}

static __always_inline int slc_stage_breaker(struct xdp_md *ctx, struct slc_attempt *a)
{
	__u32 flags = a->decision ? a->decision->flags : 0;

	if (slc_breaker_ordered(a))
		flags = a->override->breaker_open ? SLC_D_OPEN : 0;
	if (flags & SLC_D_SHADOW)
		return SLC_NEXT;
	if (flags & SLC_D_OPEN)
		REFUSE(a, circuit_open);
	else if (flags & SLC_D_HALF_OPEN)
		return slc_ticket_ask(ctx, a);
	return SLC_NEXT;
}

/* Commit has refused after all: the slot is free again at once. */
SLC_STAGE_FN void slc_ticket_return(const struct slc_attempt *a)
{
	struct slc_probe *probe = slc_probe_of(a->state);
	__u64 ticket = slc_ticket_word(a), *slot;

	if (!probe)
		return;
	slot = &probe->slot[a->ticket & (SLC_PROBES - 1)].word;
	if (__sync_val_compare_and_swap(slot, ticket, 0) == ticket)
		__sync_fetch_and_add(&probe->returned, 1);
}

#endif /* SLC_BREAKER_H */
