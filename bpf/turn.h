/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * turn.h: the turns of one connection: a request begins one, its last byte restarts the clock, the first byte of the
 * answer ends it (TLS: the end of the longest silence, see slc_turn_ends_silence()).
 *
 * Two packets of one connection may be looked at at once, so SLC_T_OWED is the token: who clears it, files the turn. A
 * restart that crosses a slot of the ring takes the token for some nanoseconds, in which an answer would not be seen; it
 * would have to come before its request was complete.
 */
#ifndef SLC_TURN_H
#define SLC_TURN_H

#include "outcome.h"
#include "probe.h"

/* Called from many places and seldom: not copied into each. What every turn passes is: a call costs 5 to 10 ns. */
#define SLC_TURN_FN static __attribute__((noinline, unused))

#define SLC_NOTE_NS 1000000000ULL

/* Atomics that return what was there are loops on x86: where nothing is to be changed, nothing is written. */
static __always_inline _Bool slc_turn_take(struct slc_turn *turn, __u32 flag)
{
	return READ_ONCE(turn->flags) & flag && __sync_fetch_and_and(&turn->flags, ~flag) & flag;
}

static __always_inline void slc_turn_set(struct slc_turn *turn, __u32 flags)
{
	if ((READ_ONCE(turn->flags) & flags) != flags)
		__sync_fetch_and_or(&turn->flags, flags);
}

/* --- probes of a half-open breaker --------------------------------------------------------------------------------- */

static __always_inline void slc_turn_probe_until(const struct slc_desk *desk, struct slc_turn *turn, __u32 state,
						 __u64 deadline)
{
	if (!(turn->flags & SLC_T_PROBE))
		return;
	slc_probe_move(slc_probe_of(desk->state), turn->probe, slc_slot_word(turn->tag, turn->generation, 0), state,
		       deadline);
	if (state != SLC_SLOT_probe && state != SLC_SLOT_owed)
		slc_turn_take(turn, SLC_T_PROBE);
}

static __always_inline void slc_turn_probe(const struct slc_desk *desk, struct slc_turn *turn, __u32 state)
{
	slc_turn_probe_until(desk, turn, state, desk->now + desk->measure->timeout_ns);
}

/*
 * A request that is still coming is no debt of the service's: its probe is one that owes nothing, neutral at the deadline
 * of the connection. Else a client that drips bytes would hold the slot, and end as a failure.
 */
static __always_inline void slc_turn_probe_drips(const struct slc_desk *desk, struct slc_turn *turn)
{
	slc_turn_probe_until(desk, turn, SLC_SLOT_probe, turn->established_ns + desk->measure->timeout_ns);
}

/* --- filing ---------------------------------------------------------------------------------------------------------- */

/* Is it time to write down what the connection knows? At its first good turn, then at most once a second. */
static __always_inline _Bool slc_turn_note_due(const struct slc_turn *turn, __u64 now)
{
	return !(turn->flags & SLC_T_NOTED) || now - turn->noted_ns >= SLC_NOTE_NS;
}

static __always_inline void slc_turn_good(const struct slc_desk *desk, struct slc_turn *turn)
{
	const struct slc_control *control;
	struct slc_cold *cold;

	turn->good++; /* by whoever ended the turn */
	if (!slc_turn_note_due(turn, desk->now))
		return;
	slc_turn_set(turn, SLC_T_PROVEN | SLC_T_NOTED);
	turn->noted_ns = desk->now;
	control = slc_control_get();
	cold = control ? slc_cold_find(control, turn->cold) : NULL;
	if (cold)
		slc_cold_good(cold, __sync_fetch_and_and(&turn->good, 0), desk->now);
}

/* The turn has this outcome. Its answer, if any, has been counted. */
static __always_inline void slc_turn_file_here(const struct slc_desk *desk, struct slc_turn *turn, __u32 kind)
{
	slc_outcome_file(desk, turn->flags, turn->cell, turn->generation, kind);
	slc_turn_probe(desk, turn, slc_probe_result(desk, kind));
	slc_turn_set(turn, SLC_T_HAD_TURN);
	if (kind == SLC_OUT_answered || kind == SLC_OUT_slow)
		slc_turn_good(desk, turn);
}

SLC_TURN_FN void slc_turn_file(const struct slc_desk *desk, struct slc_turn *turn, __u32 kind)
{
	slc_turn_file_here(desk, turn, kind);
}

/* Whoever has taken SLC_T_OWED: the turn owes nothing more. False: it was counted as unanswered before. */
static __always_inline _Bool slc_turn_settle(const struct slc_desk *desk, struct slc_turn *turn)
{
	__sync_fetch_and_add(&desk->signals->turns_ended, 1);
	return slc_finished(desk, turn->flags, turn->cell, turn->begun_ns);
}

/* It ended without an answer. */
static __always_inline void slc_turn_fail(const struct slc_desk *desk, struct slc_turn *turn, __u32 kind)
{
	slc_turn_file(desk, turn, slc_turn_settle(desk, turn) ? kind : SLC_OUT_late);
}

/* --- begin and restart ------------------------------------------------------------------------------------------------ */

/* `kind`: SLC_T_HANDSHAKE, SLC_T_GREETING, SLC_T_SOFT or 0. */
static __always_inline void slc_turn_begin(const struct slc_desk *desk, struct slc_turn *turn, __u32 kind)
{
	__u32 generation = turn->generation;
	_Bool pressed = slc_under_pressure(desk, &generation);

	slc_turn_take(turn, SLC_T_HANDSHAKE | SLC_T_GREETING | SLC_T_SOFT);
	if (!(turn->flags & SLC_T_FIRST)) {
		turn->generation = generation;
		slc_turn_take(turn, SLC_T_PRESSURE);
	} else if (!(kind & SLC_T_HANDSHAKE)) {
		slc_turn_take(turn, SLC_T_FIRST);
	}
	if (pressed)
		slc_turn_set(turn, SLC_T_PRESSURE);
	turn->begun_ns = turn->last_ns = desk->now;
	if (kind & SLC_T_SOFT) {
		slc_turn_set(turn, SLC_T_SOFT);
		return;
	}
	__sync_fetch_and_add(&desk->signals->turns_begun, 1);
	if (desk->now - turn->established_ns < SLC_YOUNG_NS)
		__sync_fetch_and_add(&desk->signals->turns_young, 1);
	slc_started(desk, turn->flags, turn->cell);
	slc_turn_probe(desk, turn, SLC_SLOT_owed);
	slc_turn_set(turn, SLC_T_OWED | (kind & SLC_T_HANDSHAKE ? kind : kind | SLC_T_HAD_TURN));
}

/* One more byte of the request in hand. */
SLC_TURN_FN void slc_turn_restart(const struct slc_desk *desk, struct slc_turn *turn)
{
	if (slc_tenth(desk->now) == slc_tenth(turn->begun_ns)) {
		turn->begun_ns = desk->now;
		return;
	}
	if (!slc_turn_take(turn, SLC_T_OWED))
		return;
	slc_finished(desk, turn->flags, turn->cell, turn->begun_ns);
	turn->begun_ns = desk->now;
	slc_started(desk, turn->flags, turn->cell);
	slc_turn_probe_drips(desk, turn);
	slc_turn_set(turn, SLC_T_OWED);
}

/* --- answers ------------------------------------------------------------------------------------------------------------ */

/*
 * TLS 1.3 sends session tickets of its own accord, also after the request has come: the answer is what ends the longest
 * silence between the last request byte and the next one, or the end. Filed then.
 */
static __always_inline void slc_turn_ends_silence(struct slc_turn *turn, __u64 now)
{
	__u64 silence = now - turn->last_ns;

	turn->last_ns = now;
	if (silence <= turn->silence_ns)
		return;
	turn->silence_ns = silence;
	turn->answer_ns = now;
}

/* Whoever has taken SLC_T_ANSWERING. */
SLC_TURN_FN void slc_turn_file_answer(const struct slc_desk *desk, struct slc_turn *turn)
{
	__u64 took = turn->answer_ns - turn->begun_ns;
	__u32 kind = slc_answer_kind(desk, took);

	slc_dist_add(&desk->signals->latency, took);
	/* A first byte came within timeout, so it was not counted as unanswered. */
	slc_turn_file_here(desk, turn, kind == SLC_OUT_late ? SLC_OUT_slow : kind);
}

/* A handshake that was answered is no outcome: every connection has one, however the service fares. */
static __always_inline void slc_turn_handshake_done(const struct slc_desk *desk, struct slc_turn *turn)
{
	slc_dist_add(&desk->signals->tls, desk->now - turn->begun_ns);
	if (slc_turn_settle(desk, turn))
		slc_turn_probe(desk, turn, SLC_SLOT_probe);
	else
		slc_turn_file(desk, turn, SLC_OUT_late);
}

/* First byte of the answer; `failed`: its status says that it is none. The caller has taken SLC_T_OWED. */
static __always_inline void slc_turn_answered(const struct slc_desk *desk, struct slc_turn *turn, _Bool failed)
{
	__u64 took = desk->now - turn->begun_ns;
	__u32 kind = slc_answer_kind(desk, took);

	slc_answer_note(desk);
	if (turn->flags & SLC_T_HANDSHAKE) {
		slc_turn_handshake_done(desk, turn);
		return;
	}
	if (!slc_turn_settle(desk, turn)) {
		slc_dist_add(&desk->signals->latency, took);
		slc_turn_file(desk, turn, SLC_OUT_late);
		return;
	}
	if (turn->flags & SLC_T_TLS) {
		turn->silence_ns = 0;
		turn->last_ns = turn->begun_ns;
		slc_turn_ends_silence(turn, desk->now);
		slc_turn_probe(desk, turn, slc_probe_result(desk, kind));
		slc_turn_set(turn, SLC_T_ANSWERING);
		return;
	}
	slc_dist_add(&desk->signals->latency, took);
	slc_turn_file_here(desk, turn, failed ? SLC_OUT_http_5xx : kind);
}

/* Owed by nobody, but answered: small records of TLS, or after the client's FIN. */
static __always_inline void slc_turn_answered_unowed(const struct slc_desk *desk, struct slc_turn *turn, _Bool left)
{
	__u64 took = desk->now - turn->begun_ns;
	__u32 kind = slc_answer_kind(desk, took);

	slc_answer_note(desk);
	if (left && kind != SLC_OUT_answered) {
		slc_turn_file(desk, turn, SLC_OUT_gave_up);
		return;
	}
	slc_dist_add(&desk->signals->latency, took);
	slc_turn_file(desk, turn, kind);
}

/* --- ends ----------------------------------------------------------------------------------------------------------------- */

/* FIN by the client. It may want to read on (half-close): before slow_after that is open, and counts as finished. */
static __always_inline void slc_turn_client_left(const struct slc_desk *desk, struct slc_turn *turn)
{
	if (!slc_turn_take(turn, SLC_T_OWED))
		return;
	if (desk->now - turn->begun_ns >= desk->measure->slow_after_ns) {
		slc_turn_fail(desk, turn, SLC_OUT_abandoned);
		return;
	}
	slc_turn_settle(desk, turn);
	slc_turn_probe(desk, turn, SLC_SLOT_free);
	slc_turn_set(turn, SLC_T_LEFT);
}

/* FIN by the service. */
static __always_inline void slc_turn_service_left(const struct slc_desk *desk, struct slc_turn *turn)
{
	if (slc_turn_take(turn, SLC_T_OWED))
		slc_turn_fail(desk, turn, SLC_OUT_closed_unanswered);
	else if (slc_turn_take(turn, SLC_T_LEFT))
		slc_turn_file(desk, turn, SLC_OUT_gave_up);
}

/* How a connection ended, as far as its socket tells: no fact of the turn's. */
enum slc_end {
	SLC_END_polite, /* FIN by both */
	SLC_END_client, /* RST by the client */
	SLC_END_service, /* RST by the service, which had read everything */
	SLC_END_unread, /* RST by the service with data unread; or nobody knows */
	SLC_END_lost, /* nothing acknowledged any more */
};

static __always_inline __u32 slc_end_kind(const struct slc_desk *desk, const struct slc_turn *turn, enum slc_end end)
{
	switch (end) {
	case SLC_END_polite:
		return SLC_OUT_closed_unanswered;
	case SLC_END_client:
		return desk->now - turn->begun_ns >= desk->measure->slow_after_ns ? SLC_OUT_abandoned : SLC_OUT_gave_up;
	case SLC_END_service:
		return SLC_OUT_reset;
	case SLC_END_lost:
		return SLC_OUT_net_loss;
	default:
		return SLC_OUT_gave_up;
	}
}

/* The connection is gone: what is not filed yet, is filed now. */
static __always_inline void slc_turn_over(const struct slc_desk *desk, struct slc_turn *turn, enum slc_end end)
{
	_Bool had_turn = turn->flags & SLC_T_HAD_TURN;

	if (slc_turn_take(turn, SLC_T_ANSWERING) && end != SLC_END_lost)
		slc_turn_file_answer(desk, turn);
	else if (slc_turn_take(turn, SLC_T_OWED))
		slc_turn_fail(desk, turn, slc_end_kind(desk, turn, end));
	else if (slc_turn_take(turn, SLC_T_LEFT))
		slc_turn_file(desk, turn, SLC_OUT_gave_up);
	else if (end == SLC_END_lost)
		slc_turn_file(desk, turn, SLC_OUT_net_loss);
	else if (!had_turn)
		slc_turn_file(desk, turn, SLC_OUT_idle);
	slc_turn_probe(desk, turn, SLC_SLOT_free);
}

#endif /* SLC_TURN_H */
