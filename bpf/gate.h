/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gate.h: the accept queue of the listener this SYN would reach, read live.
 *
 * Percent protects the kernel's queue: predicted occupancy = sk_ack_backlog + p x (admitted in the last H) / listeners
 * between `low` and `high`; backlog alone overshoots by a round trip's worth of handshakes, and counting request socks
 * would let spoofed SYNs shut the service. Time protects the client: the queue is FIFO, so the stamp Q places back in
 * the listener's ring is when its head arrived.
 *
 * Races: occupancy and ring are read one after the other; a connection between its entry into the queue and its stamp
 * makes the head look one arrival older.
 */
#ifndef SLC_GATE_H
#define SLC_GATE_H

#include "attempt.h"
#include "kernel.h"
#include "lookup.h"
#include "total.h"

struct slc_queue {
	__u64 cookie;
	__u32 waiting, max;
	_Bool found; /* a listener was read */
	_Bool half_open; /* the kernel holds a handshake of this 4-tuple */
};

static __always_inline void slc_queue_read(struct bpf_sock *sk, struct slc_queue *q)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return;
	q->found = 1;
	q->waiting = tp->inet_conn.icsk_inet.sk.sk_ack_backlog;
	q->max = tp->inet_conn.icsk_inet.sk.sk_max_ack_backlog;
	q->cookie = tp->inet_conn.icsk_inet.sk.__sk_common.skc_cookie.counter;
}

static __always_inline void slc_queue_find(struct xdp_md *ctx, const struct slc_attempt *a, struct slc_queue *q)
{
	struct bpf_sock *sk = slc_sk_lookup(ctx, a, a->pkt.sport);

	if (sk && sk->state == SLC_TCP_TIME_WAIT) {
		bpf_sk_release(sk);
		sk = slc_sk_lookup(ctx, a, 0);
	}
	if (!sk)
		return;
	if (sk->state == SLC_TCP_LISTEN)
		slc_queue_read(sk, q);
	else
		q->half_open = sk->state == SLC_TCP_NEW_SYN_RECV;
	bpf_sk_release(sk);
}

/* 0 where the listener has no ring, or its head is from before the ring. */
static __always_inline __u64 slc_head_age(const struct slc_queue *q, __u64 now)
{
	const struct slc_arrivals *ring;
	__u64 n, stamp;

	if (!q->waiting || q->waiting > SLC_RING)
		return 0;
	ring = bpf_map_lookup_elem(&slc_arrivals, &q->cookie);
	if (!ring)
		return 0;
	n = READ_ONCE(ring->n);
	if (n < q->waiting)
		return 0;
	stamp = READ_ONCE(ring->stamp_ns[(n - q->waiting) & (SLC_RING - 1)]);
	return stamp && now > stamp ? now - stamp : 0;
}

/*
 * Does the SYN carry MP_JOIN (RFC 8684 3.2: option 30, subtype 1)? It joins a connection that was admitted before and
 * takes no place in the accept queue. Asked only of a SYN that the gate would refuse.
 */
#define SLC_OPTION_MPTCP 30
SLC_VERIFIED_ALONE int slc_mp_join(struct xdp_md *ctx, const struct slc_pkt *pkt)
{
	const __u8 *pos = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct slc_tcp *tcp;
	__u32 left, at = 0;

	if (!pkt)
		return 0;
	tcp = (const void *)(pos + (pkt->l4 & SLC_EXT_MASK));
	if ((const void *)(tcp + 1) > (const void *)end)
		return 0;
	left = (tcp->doff >> 4) * 4 - sizeof(*tcp);
	for (int i = 0; i < 20; i++) {
		const __u8 *option = (const __u8 *)(tcp + 1) + at;
		__u32 len;

		if (at + 3 > left || option + 3 > end || *option == 0)
			return 0;
		if (*option == SLC_OPTION_MPTCP)
			return option[2] >> 4 == 1;
		len = *option == 1 ? 1 : slc_max(option[1], 2);
		if (at + len > left)
			return 0;
		at = (at + len) & 63; /* at most 40 bytes: the mask is for the verifier */
	}
	return 0;
}

static __always_inline __u64 slc_mark_q16(__u32 max, __u32 part_q16)
{
	return (__u64)max * part_q16;
}

/* SLC_NEXT, accept_pressure or queue_wait; writes what it saw into the attempt. */
static __always_inline int slc_queue_judge(struct slc_attempt *a, const struct slc_queue *q)
{
	const struct slc_policy *policy = a->policy;
	__u32 listeners = a->decision ? a->decision->listeners : 1;
	__u64 predicted = slc_expected_q16(a->total, a->decision, a->now), high, low;

	if (listeners > 1)
		predicted /= listeners;
	predicted += (__u64)q->waiting << 16;
	a->backlog = q->waiting;
	a->backlog_max = q->max;
	a->predicted = predicted >> 16;
	a->head_age = slc_head_age(q, a->now);

	/* The kernel's queue holds max + 1, so a backlog of 0 admits one. */
	high = slc_max(slc_mark_q16(q->max, policy->high_q16), SLC_Q16_ONE);
	if (predicted + SLC_Q16_ONE > high)
		return SLC_accept_pressure;
	low = slc_mark_q16(q->max, policy->low_q16[a->class & 3]);
	if (a->class != SLC_CLASS_vip && predicted > low && low < high) {
		/* (x - low) / (high - low) against 32 bits of dice, both scaled down to keep the product in 64 bits */
		__u64 span = (high - low) >> 8, over = (predicted - low) >> 8;

		if ((__u64)slc_dice(a) * (span + 1) >> 32 < over)
			return SLC_accept_pressure;
	}
	return a->head_age > policy->max_wait_ns ? SLC_queue_wait : SLC_NEXT;
}

SLC_STAGE_FN int slc_stage_gate(struct xdp_md *ctx, struct slc_attempt *a)
{
	struct slc_queue q = {};
	int reason;

	if (!(a->policy->flags & SLC_P_GATE))
		return SLC_NEXT;
	slc_queue_find(ctx, a, &q);
	if (q.half_open)
		return SLC_half_open;
	if (!q.found) {
		a->counters->gate_blind++;
		return SLC_NEXT;
	}
	reason = slc_queue_judge(a, &q);
	if (reason == SLC_NEXT || slc_mp_join(ctx, &a->pkt))
		return SLC_NEXT;
	if (reason == SLC_queue_wait)
		REFUSE(a, queue_wait);
	else
		REFUSE(a, accept_pressure);
	return SLC_NEXT;
}

#endif /* SLC_GATE_H */
