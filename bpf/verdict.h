/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdict.h: reason -> count, event, XDP action. The only place where a packet is dropped or answered.
 */
#ifndef SLC_VERDICT_H
#define SLC_VERDICT_H

#include "attempt.h"
#include "trust.h"

/* What a reason does, from the table; small enough for the verifier to fold where the reason is constant. */
static __always_inline enum slc_verdict slc_verdict_of(__u32 reason)
{
	if (reason < SLC_malformed)
		return SLC_PASS;
	return reason < SLC_denied ? SLC_DROP : SLC_REFUSE;
}

#define SLC_GROUP_PASS 0
#define SLC_GROUP_DROP 1
#define SLC_GROUP_REFUSE 2
#define X(name, verdict, stage, text)                                                         \
	_Static_assert((SLC_##name < SLC_malformed ? SLC_GROUP_PASS                           \
			: SLC_##name < SLC_denied  ? SLC_GROUP_DROP                           \
						   : SLC_GROUP_REFUSE) == SLC_GROUP_##verdict, \
		       "reasons.h: PASS, then DROP, then REFUSE");
SLC_REASONS(X)
#undef X

/* --- events ---------------------------------------------------------------------------------------------------- */

/* A budget per CPU before the ring is touched: a flood must not spend its time here. */
static __always_inline _Bool slc_event_budget(const struct slc_attempt *a)
{
	__u32 zero = 0;
	struct slc_budget *budget = bpf_map_lookup_elem(&slc_budget, &zero);
	__u64 now16 = slc_now16(a), interval = a->global->event_interval16, next;

	if (!budget)
		return 0;
	next = slc_max(budget->tat16, now16) + interval; /* per CPU: no other writer */
	if (next - now16 > slc_max(a->global->event_depth16, interval))
		return 0;
	budget->tat16 = next;
	return 1;
}

SLC_STAGE_FN void slc_event_send(struct slc_attempt *a, __u32 reason)
{
	struct slc_event *e;

	e = bpf_ringbuf_reserve(&slc_events, sizeof(*e), 0);
	if (!e) {
		a->counters->events_lost++;
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = a->now;
	e->uid = a->policy->uid;
	e->state = a->state;
	e->reason = reason;
	e->class = a->class;
	e->proto = a->pkt.proto;
	e->sport = a->pkt.sport;
	e->dport = a->pkt.dport;
	__builtin_memcpy(e->saddr, &a->pkt.saddr, sizeof(e->saddr));
	__builtin_memcpy(e->daddr, &a->pkt.daddr, sizeof(e->daddr));
	e->backlog = a->backlog;
	e->backlog_max = a->backlog_max;
	e->predicted = a->predicted;
	e->head_age_ns = a->head_age;
	bpf_ringbuf_submit(e, 0);
}

/* --- reset ----------------------------------------------------------------------------------------------------- */

static __always_inline __u32 slc_sum16(const void *data, __u32 words)
{
	const __u16 *w = data;
	__u32 sum = 0;

	SLC_UNROLL
	for (__u32 i = 0; i < words; i++)
		sum += w[i];
	return sum;
}

static __always_inline __u16 slc_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline void slc_swap_macs(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
}

/* RFC 9293 3.10.7.1: SEQ 0, ACK = SEG.SEQ + SEG.LEN (the SYN counts one), flags RST|ACK. */
static __always_inline void slc_reset_tcp(struct slc_tcp *tcp, const struct slc_attempt *a)
{
	__builtin_memset(tcp, 0, sizeof(*tcp));
	tcp->sport = SLC_BE16(a->pkt.dport);
	tcp->dport = SLC_BE16(a->pkt.sport);
	tcp->ack = SLC_BE32(a->pkt.seq + 1 + a->pkt.payload);
	tcp->doff = sizeof(*tcp) / 4 << 4;
	tcp->flags = SLC_TCP_RST | SLC_TCP_ACK;
}

/* Built on the stack: clang derives the packet pointer anew inside the sums, and the verifier loses its bounds. */
struct slc_reset4 {
	struct slc_ip4 ip;
	struct slc_tcp tcp;
};

struct slc_reset6 {
	struct slc_ip6 ip;
	struct slc_tcp tcp;
};

static __always_inline void slc_reset_ip4(struct slc_reset4 *to, const struct slc_attempt *a)
{
	struct slc_reset4 r = {
		.ip =
			{
				.version_ihl = 0x45,
				.total = SLC_BE16(sizeof(r)),
				.fragment = SLC_BE16(0x4000),
				.ttl = 64,
				.proto = SLC_PROTO_TCP,
				.saddr = a->pkt.daddr.word[3],
				.daddr = a->pkt.saddr.word[3],
			},
	};

	slc_reset_tcp(&r.tcp, a);
	r.ip.checksum = slc_fold(slc_sum16(&r.ip, sizeof(r.ip) / 2));
	r.tcp.checksum = slc_fold(slc_sum16(&r.ip.saddr, 4) + SLC_BE16(SLC_PROTO_TCP) + SLC_BE16(sizeof(r.tcp)) +
				  slc_sum16(&r.tcp, sizeof(r.tcp) / 2));
	*to = r;
}

static __always_inline void slc_reset_ip6(struct slc_reset6 *to, const struct slc_attempt *a)
{
	struct slc_reset6 r = {
		.ip =
			{
				.version_class_flow = SLC_BE32(6u << 28),
				.payload = SLC_BE16(sizeof(r.tcp)),
				.next = SLC_PROTO_TCP,
				.hop_limit = 64,
			},
	};

	__builtin_memcpy(r.ip.saddr, &a->pkt.daddr, sizeof(r.ip.saddr));
	__builtin_memcpy(r.ip.daddr, &a->pkt.saddr, sizeof(r.ip.daddr));
	slc_reset_tcp(&r.tcp, a);
	r.tcp.checksum = slc_fold(slc_sum16(&r.ip.saddr, 16) + SLC_BE16(SLC_PROTO_TCP) + SLC_BE16(sizeof(r.tcp)) +
				  slc_sum16(&r.tcp, sizeof(r.tcp) / 2));
	*to = r;
}

/* Bounded per service and per host; never to our own or our routers' addresses (martians never come this far). */
static __always_inline _Bool slc_reset_allowed(struct slc_attempt *a)
{
	const struct slc_policy *policy = a->policy;
	__u32 host = 0;
	struct slc_total *all = bpf_map_lookup_elem(&slc_total, &host);

	if (slc_trust_find(a->snapshot, SLC_SCOPE_OWN, &a->pkt.saddr))
		return 0;
	if (!all || slc_bucket_take(&a->total->reset_tat16, slc_now16(a), policy->reset_interval16,
				    policy->reset_depth16, policy->reset_depth16) != SLC_TAKEN)
		return 0;
	return slc_bucket_take(&all->reset_tat16, slc_now16(a), a->global->reset_interval16, a->global->reset_depth16,
			       a->global->reset_depth16) == SLC_TAKEN;
}

/* Rewrites the SYN into its RST: headers only, Ethernet and VLAN tags kept. Drops where that cannot be done. */
SLC_STAGE_FN int slc_reset(struct xdp_md *ctx, struct slc_attempt *a)
{
	__u32 headers = (a->pkt.v6 ? sizeof(struct slc_ip6) : sizeof(struct slc_ip4)) + sizeof(struct slc_tcp);
	__u32 l3 = a->pkt.l3 & SLC_L3_MASK;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	long len = end - data, excess;

	/* Keeps clang from folding the headers into the pointers, which the verifier will not subtract then. */
	SLC_OPAQUE(len);
	excess = len - (long)(l3 + headers);
	if (!slc_reset_allowed(a)) {
		a->counters->resets_held++;
		return XDP_DROP;
	}
	if (a->pkt.beyond || excess < 0 || (excess && bpf_xdp_adjust_tail(ctx, -excess)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + sizeof(struct ethhdr) > end)
		return XDP_DROP;
	slc_swap_macs(data);
	data += l3;
	if (a->pkt.v6) {
		struct slc_reset6 *reset = data;

		if ((void *)(reset + 1) > end)
			return XDP_DROP;
		slc_reset_ip6(reset, a);
	} else {
		struct slc_reset4 *reset = data;

		if ((void *)(reset + 1) > end)
			return XDP_DROP;
		slc_reset_ip4(reset, a);
	}
	a->counters->resets++;
	return XDP_TX;
}

/* --- the end of every packet's way ------------------------------------------------------------------------------- */

/* A packet that never became an attempt: counted under the slot of no service. */
static __always_inline int slc_finish(__u32 reason)
{
	__u32 none = 0;
	struct slc_counters *counters = bpf_map_lookup_elem(&slc_counters, &none);

	if (counters)
		slc_bump(&counters->enforced, reason);
	return slc_verdict_of(reason) == SLC_PASS ? XDP_PASS : XDP_DROP;
}

/*
 * A repeat is never reset: it may be a duplicate of a SYN that was admitted, whose client waits for the SYN-ACK. Nor is
 * a stranger that is to come again for a ticket.
 */
static __always_inline _Bool slc_answered_by_reset(const struct slc_attempt *a, __u32 reason)
{
	return slc_verdict_of(reason) == SLC_REFUSE && reason != SLC_repeat && !a->silent &&
	       a->policy->flags & SLC_P_RESET && a->pkt.proto == SLC_PROTO_TCP;
}

static __always_inline int slc_finish_attempt(struct xdp_md *ctx, struct slc_attempt *a, __u32 reason)
{
	slc_bump(&a->counters->enforced, reason);
	if (slc_verdict_of(reason) == SLC_PASS)
		return XDP_PASS;
	if (slc_event_budget(a))
		slc_event_send(a, reason);
	else
		a->counters->events_lost++;
	if (slc_answered_by_reset(a, reason))
		return slc_reset(ctx, a);
	return XDP_DROP;
}

#endif /* SLC_VERDICT_H */
