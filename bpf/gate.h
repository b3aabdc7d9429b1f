/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gate.h: the accept queue of the listener this SYN would reach, read live.
 *
 * Percent protects the kernel's queue: predicted occupancy = sk_ack_backlog + p x (handshakes under way) / listeners
 * between `low` and `high`; backlog alone overshoots by a round trip's worth of handshakes, and counting request socks
 * would let spoofed SYNs shut the service. Time protects the client: the queue is FIFO, so the stamp Q places back in
 * the listener's ring is when its head arrived; and what a newcomer will wait is known from the rate of accepts.
 *
 * Races: occupancy and ring are read one after the other; a connection between its entry into the queue and its stamp
 * makes the head look one arrival older.
 */
#ifndef SLC_GATE_H
#define SLC_GATE_H

#include <bpf/bpf_core_read.h>

#include "attempt.h"
#include "kernel.h"
#include "lookup.h"
#include "pending.h"

struct slc_queue {
	__u64 cookie;
	__u32 waiting, max;
	_Bool found; /* a listener was read */
	_Bool mptcp; /* and it takes MPTCP */
	_Bool half_open; /* the kernel holds a handshake of this very SYN */
	_Bool nobody; /* there is no socket at all: the kernel would answer with RST */
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
	if (bpf_core_field_exists(tp->is_mptcp))
		q->mptcp = tp->is_mptcp;
}

/* Another sequence number is another attempt: the kernel answers it by a challenge, and no place in the queue is due. */
static __always_inline void slc_half_open_read(struct bpf_sock *sk, const struct slc_attempt *a, struct slc_queue *q)
{
	struct tcp_request_sock *request = bpf_skc_to_tcp_request_sock(sk);

	q->half_open = request && request->rcv_isn == a->pkt.seq;
}

static __always_inline void slc_queue_find(struct xdp_md *ctx, const struct slc_attempt *a, struct slc_queue *q)
{
	struct bpf_sock *sk = slc_sk_lookup(ctx, a, a->pkt.sport);

	if (sk && sk->state == SLC_TCP_TIME_WAIT) {
		bpf_sk_release(sk);
		sk = slc_sk_lookup(ctx, a, 0);
	}
	q->nobody = !sk;
	if (!sk)
		return;
	if (sk->state == SLC_TCP_LISTEN)
		slc_queue_read(sk, q);
	else if (sk->state == SLC_TCP_NEW_SYN_RECV)
		slc_half_open_read(sk, a, q);
	bpf_sk_release(sk);
}

static __always_inline struct slc_arrivals *slc_ring_of(const struct slc_queue *q)
{
	return bpf_map_lookup_elem(&slc_arrivals, &q->cookie);
}

/* 0 where nobody waits, or the head is from before the ring. */
static __always_inline __u64 slc_head_age(const struct slc_arrivals *ring, const struct slc_queue *q, __u64 now)
{
	__u64 n = READ_ONCE(ring->n), stamp;

	if (!q->waiting || q->waiting > SLC_RING || n < q->waiting)
		return 0;
	stamp = READ_ONCE(ring->stamp_ns[(n - q->waiting) & (SLC_RING - 1)]);
	return stamp && now > stamp ? now - stamp : 0;
}

/*
 * How many may wait so that the last of them waits max_wait: mu x max_wait. The head's age alone says what the head has
 * waited, which lags: when it falls below the mark a burst fills the queue before the age shows it [at 200/s, 2000/s
 * offered, backlog 511: 57 % of capacity served within 1.5 s; with this >= 90 %].
 *
 * mu, connections accepted per time, comes from two marks of {time, accepted = n - waiting}. It is the service's rate only
 * if it never ran dry since the mark, and that is so if the head has waited longer than that; an idle service has no mu
 * and no limit. Marks move on when 64 ms old; from 17 ms and 4 connections on they count. Between two bursts no mark
 * counts: what was known last holds for SLC_LIMIT_KEPT, and only for a queue that is worth it, so that a service that has
 * become faster, or idle, is not held to it.
 */
#define SLC_MARK_TICKS SLC_TICKS(64)
#define SLC_MARK_MIN_TICKS SLC_TICKS(17)
#define SLC_MARK_MIN_ACCEPTED 4
#define SLC_LIMIT_KEPT SLC_TICKS(8000)
#define SLC_QUEUE_MIN 4 /* never less: a queue this short is no wait worth a refusal */
#define SLC_NO_LIMIT 0x7fffffffu
#define SLC_REMEMBERED 0x80000000u /* flag of slc_queue_limit()'s result */

static __always_inline __u32 slc_mark_limit(__u64 mark, __u32 ticks, __u32 accepted, __u64 head_age, __u64 max_wait)
{
	__u32 age = ticks - (__u32)(mark >> 32), count = accepted - (__u32)mark;

	if (age < SLC_MARK_MIN_TICKS || (__u64)age << 20 > head_age || count < SLC_MARK_MIN_ACCEPTED ||
	    count > 1u << 20)
		return SLC_NO_LIMIT;
	return slc_min(slc_max(count * (max_wait >> 20) / age, SLC_QUEUE_MIN), SLC_NO_LIMIT);
}

SLC_VERIFIED_ALONE __u32 slc_queue_limit(struct slc_arrivals *ring, __u32 waiting, __u64 head_age, __u64 now,
					 __u64 max_wait)
{
	__u32 ticks = now >> 20, accepted, limit;
	__u64 newer, last;

	if (!ring)
		return SLC_NO_LIMIT;
	accepted = (__u32)READ_ONCE(ring->n) - waiting;
	newer = READ_ONCE(ring->mark[1]);
	limit = slc_mark_limit(READ_ONCE(ring->mark[0]), ticks, accepted, head_age, max_wait);
	if (limit == SLC_NO_LIMIT)
		limit = slc_mark_limit(newer, ticks, accepted, head_age, max_wait);
	/* One CPU moves the marks on; between its two writes they are the same, which is a young mark. */
	if (ticks - (__u32)(newer >> 32) >= SLC_MARK_TICKS &&
	    __sync_val_compare_and_swap(&ring->mark[1], newer, (__u64)ticks << 32 | accepted) == newer)
		WRITE_ONCE(ring->mark[0], newer);
	if (limit != SLC_NO_LIMIT) {
		WRITE_ONCE(ring->limit, (__u64)ticks << 32 | limit);
		return limit;
	}
	last = READ_ONCE(ring->limit);
	if (!last || ticks - (__u32)(last >> 32) > SLC_LIMIT_KEPT)
		return SLC_NO_LIMIT;
	return (__u32)last | SLC_REMEMBERED;
}

/*
 * Does the SYN carry MP_JOIN (RFC 8684 3.2: option 30, subtype 1)? It joins a connection that was admitted before and
 * takes no place in the accept queue. Asked only of a SYN that the gate would refuse, and only where the listener takes
 * MPTCP: to any other one it is an ordinary SYN, whatever options it carries.
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

/* Between low and high a share of newcomers is refused that grows with x; 32 bits of dice that a retransmit keeps. */
static __always_inline _Bool slc_refused_by_dice(const struct slc_attempt *a, __u64 x, __u64 low, __u64 high)
{
	__u64 span, over;

	if (a->class == SLC_CLASS_vip || x <= low || low >= high)
		return 0;
	span = (high - low) >> 8; /* scaled down: the product must fit 64 bits */
	over = (x - low) >> 8;
	return (__u64)slc_dice(a) * (span + 1) >> 32 < over;
}

/* SLC_NEXT, accept_pressure or queue_wait; writes what it saw into the attempt. */
static __always_inline int slc_queue_judge(struct slc_attempt *a, const struct slc_queue *q)
{
	const struct slc_policy *policy = a->policy;
	__u32 listeners = a->decision ? a->decision->listeners : 1, limit = SLC_NO_LIMIT;
	struct slc_arrivals *ring = slc_ring_of(q);
	__u64 x = slc_pending_q16(a->total, a->decision, a->now), high, low;
	int reason = SLC_accept_pressure;

	if (listeners > 1)
		x /= listeners;
	x += (__u64)q->waiting << 16;
	a->backlog = q->waiting;
	a->backlog_max = q->max;
	a->predicted = x >> 16;
	if (ring) {
		a->head_age = slc_head_age(ring, q, a->now);
		limit = slc_queue_limit(ring, q->waiting, a->head_age, a->now, policy->max_wait_ns);
		if (a->head_age > policy->max_wait_ns)
			return SLC_queue_wait;
		if (limit & SLC_REMEMBERED && a->head_age < policy->target_ns && q->waiting < 2 * SLC_QUEUE_MIN)
			limit = SLC_NO_LIMIT;
		limit &= ~SLC_REMEMBERED;
	}
	/* The kernel's queue holds max + 1, so a backlog of 0 admits one. */
	high = slc_max(slc_mark_q16(q->max, policy->high_q16), SLC_Q16_ONE);
	low = slc_mark_q16(q->max, policy->low_q16[a->class & 3]);
	if ((__u64)limit << 16 < high) {
		low = low / (high >> 16) * limit; /* the same part of the way */
		high = (__u64)limit << 16;
		reason = SLC_queue_wait;
	}
	return x + SLC_Q16_ONE > high || slc_refused_by_dice(a, x, low, high) ? reason : SLC_NEXT;
}

#define SLC_NS_PER_S 1000000000ULL

/*
 * Nobody listens where somebody did: the service has failed, once per source (its cell) and second. What cannot reach it
 * puts no pressure on it: always the row of the current generation.
 */
SLC_STAGE_FN void slc_no_listener_note(const struct slc_attempt *a)
{
	__u32 state = a->state, second = a->now / SLC_NS_PER_S, *last, seen;
	struct slc_signals *signals = bpf_map_lookup_elem(&slc_signals, &state);

	if (!signals)
		return;
	last = &signals->no_listener_s[a->source >> 56];
	seen = READ_ONCE(*last);
	if (seen != second && __sync_val_compare_and_swap(last, seen, second) == seen)
		__sync_fetch_and_add(&signals->outcomes[a->generation & 1][SLC_OUT_no_listener], 1);
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
		if (q.nobody && a->decision && a->decision->flags & SLC_D_LISTENED)
			slc_no_listener_note(a);
		return SLC_NEXT;
	}
	reason = slc_queue_judge(a, &q);
	if (reason == SLC_NEXT || (q.mptcp && slc_mp_join(ctx, &a->pkt)))
		return SLC_NEXT;
	if (reason == SLC_queue_wait)
		REFUSE(a, queue_wait);
	else
		REFUSE(a, accept_pressure);
	return SLC_NEXT;
}

#endif /* SLC_GATE_H */
