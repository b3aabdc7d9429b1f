/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * udp_turn.h: answer times of UDP services, by 5-tuple: the first datagram of a flow that waits for an answer begins a
 * turn, the first one back ends it. The table is bounded: under a flood of requests that nobody answers the oldest make
 * room, and count as unanswered.
 */
#ifndef SLC_UDP_TURN_H
#define SLC_UDP_TURN_H

#include "outcome.h"
#include "peer.h"
#include "probe.h"

/* flags of SLC_T_* that slc_udp_turn keeps; pressure has another bit there. */
#define SLC_U_KEPT (SLC_T_PROVEN | SLC_T_KNOWN)

static __always_inline __u32 slc_udp_flags(const struct slc_udp_turn *turn)
{
	return (turn->flags & SLC_U_KEPT) | (turn->flags & SLC_U_PRESSURE ? SLC_T_PRESSURE : 0);
}

/* Whose counts these are from now on; of TCP services the first connection says so. */
static __always_inline void slc_udp_claim(const struct slc_peer *peer)
{
	__u32 state = peer->state;
	struct slc_signals *signals = bpf_map_lookup_elem(&slc_signals, &state);

	if (signals && signals->uid != peer->policy->uid)
		signals->uid = peer->policy->uid;
}

/* Known-good by the operator's or the controller's word, or by an answer before. */
static __always_inline __u32 slc_udp_grade(const struct slc_peer *peer, __u64 now)
{
	struct slc_known_key key = {.uid = peer->policy->uid};
	const struct slc_known *known = NULL;
	const struct slc_cold *cold;

	__builtin_memcpy(key.addr, &peer->key, sizeof(key.addr));
	if (peer->control->flags & SLC_F_KNOWN)
		known = bpf_map_lookup_elem(&slc_known, &key);
	if (known && now < known->until_ns)
		return SLC_T_PROVEN | SLC_T_KNOWN;
	cold = slc_cold_find(peer->control, peer->source);
	return cold && cold->good ? SLC_T_PROVEN : 0;
}

/*
 * A ticket of the half-open breaker, taken by the datagram in XDP: it owes an answer from now on, or has the outcome of
 * one. The slot is found by the flow.
 */
static __always_inline void slc_udp_probe(const struct slc_desk *desk, __u64 flow, __u32 generation, __u32 state)
{
	__u32 slot, current;
	const struct slc_decision_half *decision = slc_decision_last(desk->state, &current);
	struct slc_probe *probe = slc_probe_of(desk->state);
	__u64 mine = slc_slot_word(flow >> 32, generation, SLC_SLOT_ticket);
	__u64 deadline = desk->now + desk->measure->timeout_ns;

	if (!probe || !decision || !(decision->flags & SLC_D_HALF_OPEN))
		return;
	if (state == SLC_SLOT_owed)
		slot = slc_probe_established(probe, mine, deadline);
	else
		slot = slc_probe_find(probe, mine);
	slc_probe_move(probe, slot, mine, state, deadline);
}

/*
 * A request. One that waits already keeps its time, unless it has been counted as unanswered: a client that asks again
 * begins anew then.
 */
static __always_inline void slc_udp_asked(const struct slc_desk *desk, const struct slc_peer *peer, __u64 flow)
{
	const struct slc_udp_turn *waiting = bpf_map_lookup_elem(&slc_udp_turns, &flow);
	struct slc_udp_turn turn = {.begun_ns = desk->now, .state = peer->state, .cell = peer->source >> 56};
	__u32 generation = 0;

	if (waiting && desk->now - waiting->begun_ns < desk->measure->timeout_ns)
		return;
	turn.flags = slc_udp_grade(peer, desk->now);
	if (slc_under_pressure(desk, &generation))
		turn.flags |= SLC_U_PRESSURE;
	turn.generation = generation;
	if (bpf_map_update_elem(&slc_udp_turns, &flow, &turn, waiting ? BPF_ANY : BPF_NOEXIST))
		return; /* its copy on another CPU came first */
	__sync_fetch_and_add(&desk->signals->turns_begun, 1);
	if (waiting) /* its turn ends unanswered; where it had to make room, or nobody asks again, none says so */
		__sync_fetch_and_add(&desk->signals->turns_ended, 1);
	slc_started(desk, slc_udp_flags(&turn), turn.cell);
	slc_udp_probe(desk, flow, turn.generation, SLC_SLOT_owed);
}

static __always_inline void slc_udp_answer(const struct slc_desk *desk, const struct slc_peer *peer, __u64 flow)
{
	const struct slc_udp_turn *waiting = bpf_map_lookup_elem(&slc_udp_turns, &flow);
	struct slc_udp_turn turn;
	struct slc_cold *cold;
	__u32 kind, flags;
	__u64 took;

	if (!waiting)
		return;
	turn = *waiting;
	if (bpf_map_delete_elem(&slc_udp_turns, &flow)) /* another CPU sends the second half of this answer */
		return;
	took = desk->now - turn.begun_ns;
	flags = slc_udp_flags(&turn);
	kind = slc_answer_kind(desk, took);
	slc_answer_note(desk);
	slc_dist_add(&desk->signals->latency, took);
	slc_finished(desk, flags, turn.cell, turn.begun_ns);
	slc_outcome_file(desk, flags, turn.cell, turn.generation, kind);
	slc_udp_probe(desk, flow, turn.generation, slc_probe_result(desk, kind));
	__sync_fetch_and_add(&desk->signals->turns_ended, 1);
	if (kind == SLC_OUT_late)
		return;
	cold = slc_cold_get(peer->control, peer->source, &peer->key, peer->policy->uid, desk->now);
	if (cold)
		slc_cold_good(cold, 1, desk->now);
}

#endif /* SLC_UDP_TURN_H */
