/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * conn.h: what a connection counts for, from ESTABLISHED to CLOSE. A close takes back only what its own record says was
 * counted, so connections from before the start never push a count below zero. Callbacks of one socket are serialised
 * by its lock; counts shared between sockets are atomic.
 */
#ifndef SLC_CONN_H
#define SLC_CONN_H

#include "cold.h"
#include "decision.h"
#include "flow_table.h"
#include "outcome.h"
#include "peer.h"
#include "pending.h"

/* Handshake bins: 16 per octave from 2^16 ns, log-linear; the last one is open. */
#define SLC_HIST_SHIFT 16
static __always_inline __u32 slc_hist_bin(__u64 ns)
{
	__u32 octave = 0;
	__u64 v = ns >> SLC_HIST_SHIFT;

	if (!v)
		return 0;
	if (v >> 16)
		return SLC_HIST - 1;
	SLC_UNROLL
	for (int step = 8; step; step >>= 1) {
		if (v >> step) {
			v >>= step;
			octave += step;
		}
	}
	return octave * 16 + (ns >> (octave + SLC_HIST_SHIFT - 4) & 15);
}

/* One more or one less connection open at this source; never below zero, never on another source's entry. */
static __always_inline _Bool slc_cold_open(struct slc_cold *cold, __u64 tag, int delta)
{
	union slc_cold_head old = {.word = READ_ONCE(cold->head.word)};

	for (int i = 0; i < SLC_BUCKET_TRIES; i++) {
		union slc_cold_head next = old;
		__u64 seen;

		if (old.tag != tag || (delta < 0 && !old.open))
			return 0;
		next.open = old.open + delta;
		seen = __sync_val_compare_and_swap(&cold->head.word, old.word, next.word);
		if (seen == old.word)
			return 1;
		old.word = seen;
	}
	return 0;
}

/* The source's entry, with one more connection open; NULL: it has none, and gets none. */
static __always_inline struct slc_cold *slc_source_opened(const struct slc_peer *peer, __u64 now)
{
	struct slc_cold *cold = slc_cold_get(peer->control, peer->source, &peer->key, peer->policy->uid, now);

	if (!cold || !slc_cold_open(cold, peer->source >> 24, 1))
		return NULL;
	__sync_fetch_and_add(&cold->established, 1);
	WRITE_ONCE(cold->seen_ns, now);
	return cold;
}

/* `good`: turns not noted yet, or 1 for a connection that ended well where turns are not looked at. */
static __always_inline void slc_source_closed(const struct slc_conn *conn, __u64 now, __u32 good)
{
	const struct slc_control *control = slc_control_get();
	struct slc_cold *cold = control ? slc_cold_find(control, conn->cold) : NULL;

	if (!cold)
		return;
	if (good)
		slc_cold_good(cold, good, now);
	WRITE_ONCE(cold->seen_ns, now);
	if (conn->flags & SLC_C_SOURCE)
		slc_cold_open(cold, conn->cold >> 24, -1);
}

/*
 * The SYN that opened it: class, generation, pressure, and how long ago that was; one less under way. Without a record
 * (SYN cookie, eviction, before the start) it is a stranger of now.
 */
static __always_inline void slc_handshake_note(const struct slc_peer *peer, struct slc_signals *signals,
					       struct slc_conn *conn, __u32 seq, __u64 now)
{
	__u64 hash = slc_peer_flow(peer, seq), when, took;
	__u32 state = peer->state;
	struct slc_total *total = bpf_map_lookup_elem(&slc_total, &state);
	const struct slc_flow *flow = slc_flow_find(slc_flow_set_of(peer->control, hash), hash, now);
	union slc_flow_head head;
	__u32 bin;

	conn->tag = hash >> 32;
	conn->class = SLC_CLASS_stranger;
	conn->generation = slc_generation_now(state);
	if (!flow) {
		__sync_fetch_and_add(&signals->unmatched, 1);
		return;
	}
	head.word = READ_ONCE(flow->head.word);
	when = READ_ONCE(flow->last_ns);
	took = now - when;
	if (head.admitted)
		slc_slice_count(total, slc_decision_of(state, now), when, head.class, 1);
	bin = slc_hist_bin(took);
	if (bin < SLC_HIST)
		__sync_fetch_and_add(&signals->handshake[head.class & 3][bin], 1);
	conn->class = head.class;
	conn->generation = slc_generation_of(conn->generation, head.generation);
	if (head.pressure)
		conn->flags |= SLC_C_PRESSURE;
}

/* What is known of its source: slc_proof(). */
static __always_inline __u32 slc_conn_opened(const struct slc_peer *peer, struct slc_conn *conn, __u32 seq, __u64 now)
{
	__u32 state = peer->state;
	struct slc_signals *signals = bpf_map_lookup_elem(&slc_signals, &state);
	const struct slc_cold *cold;

	if (!signals)
		return 0;
	signals->uid = conn->uid = peer->policy->uid;
	conn->state = peer->state;
	conn->cold = peer->source;
	conn->established_ns = now;
	conn->flags = SLC_C_OPEN | SLC_C_HELD;
	slc_handshake_note(peer, signals, conn, seq, now);
	__sync_fetch_and_add(&signals->established[conn->class & 3], 1);
	__sync_fetch_and_add(&signals->open, 1);
	__sync_fetch_and_add(&signals->held, 1);
	cold = slc_source_opened(peer, now);
	if (cold)
		conn->flags |= SLC_C_SOURCE;
	else
		__sync_fetch_and_add(&signals->cold_full, 1);
	return slc_proof(conn->class <= SLC_CLASS_known, cold);
}

/* NULL where the state slot has been given to another service since. */
static __always_inline struct slc_signals *slc_conn_signals(const struct slc_conn *conn)
{
	__u32 state = conn->state;
	struct slc_signals *signals = bpf_map_lookup_elem(&slc_signals, &state);

	return signals && signals->uid == conn->uid ? signals : NULL;
}

/* close() or shutdown() by the application: FIN sent, or aborted. */
static __always_inline void slc_conn_released(struct slc_conn *conn)
{
	struct slc_signals *signals = slc_conn_signals(conn);

	if (!signals || !(conn->flags & SLC_C_HELD))
		return;
	conn->flags &= ~SLC_C_HELD;
	__sync_fetch_and_add(&signals->held, -1);
}

/* `polite`: both sides ended it with FIN. `good`: see slc_source_closed(). */
static __always_inline void slc_conn_closed(struct slc_conn *conn, __u64 now, _Bool polite, __u32 good)
{
	struct slc_signals *signals = slc_conn_signals(conn);

	slc_conn_released(conn);
	if (signals && conn->flags & SLC_C_OPEN) {
		__sync_fetch_and_add(&signals->open, -1);
		__sync_fetch_and_add(&signals->closed, 1);
		if (!polite)
			__sync_fetch_and_add(&signals->reset, 1);
	}
	slc_source_closed(conn, now, good);
	conn->flags = 0;
}

#endif /* SLC_CONN_H */
