/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * outcome.h: files how turns and connections ended: outcome rows, source cells, and the rings of what was started and
 * what is finished, from which user space subtracts what never ended. Called from cgroup_skb and sockops on any CPU:
 * everything shared is atomic.
 */
#ifndef SLC_OUTCOME_H
#define SLC_OUTCOME_H

#include "bucket.h"
#include "cold.h"
#include "decision.h"
#include "dist.h"
#include "maps/maps.bpf.h"

/* Where a service's outcomes go, looked up once per packet that begins or ends something. */
struct slc_desk {
	struct slc_signals *signals;
	const struct slc_measure *measure;
	__u64 now;
	__u32 state;
};

/* Bit per kind whose default class is SUCCESS. */
enum {
#define X(name, class, text) SLC_SUCCEEDS_##name = (SLC_OUTCOME_##class == SLC_OUTCOME_SUCCESS) << SLC_OUT_##name,
	SLC_OUTCOMES(X)
#undef X
#define X(name, class, text) | SLC_SUCCEEDS_##name
		SLC_SUCCESSES = 0 SLC_OUTCOMES(X)
#undef X
};

/* False where the state slot has been given to another service since, or nothing is measured. */
static __always_inline _Bool slc_desk_open(struct slc_desk *desk, __u32 state, __u32 uid, __u64 now)
{
	desk->signals = bpf_map_lookup_elem(&slc_signals, &state);
	desk->measure = bpf_map_lookup_elem(&slc_measure, &state);
	desk->now = now;
	desk->state = state;
	return desk->signals && desk->measure && desk->signals->uid == uid && desk->measure->uid == uid;
}

static __always_inline __u32 slc_generation_now(__u32 state)
{
	__u32 generation = 0;

	slc_decision_last(state, &generation);
	return generation;
}

/* Of a flow record: 3 bits, which are at most 7 transitions old. */
static __always_inline __u32 slc_generation_of(__u32 current, __u32 low)
{
	return current - ((current - low) & 7);
}

/*
 * The controller says so, or more turns are in flight than it says the service can answer in time: an overload begins
 * between two of its ticks. With it comes the breaker's generation.
 */
static __always_inline _Bool slc_under_pressure(const struct slc_desk *desk, __u32 *ret_generation)
{
	const struct slc_decision_half *decision = slc_decision_last(desk->state, ret_generation);
	__u32 owed;

	if (!decision || desk->now >= READ_ONCE(decision->valid_until_ns))
		return 0;
	if (decision->flags & SLC_D_PRESSURE)
		return 1;
	if (!(decision->flags & SLC_D_TURNS_MAX))
		return 0;
	/* Modulo 2^32: datagrams that nobody answers need not end, and in time they are more than that. */
	owed = READ_ONCE(desk->signals->turns_begun) - READ_ONCE(desk->signals->turns_ended);
	return (__s32)(owed - decision->turns_max) >= 0;
}

/* SLC_T_PROVEN and SLC_T_KNOWN, as far as they hold: by the operator's or the controller's word, or by an answer before. */
static __always_inline __u32 slc_proof(_Bool known, const struct slc_cold *cold)
{
	if (known)
		return SLC_T_PROVEN | SLC_T_KNOWN;
	return cold && cold->good ? SLC_T_PROVEN : 0;
}

/* `flags` of SLC_T_*. */
static __always_inline __u32 slc_grade_of(__u32 flags)
{
	if (flags & SLC_T_PRESSURE)
		return SLC_GRADE_pressure;
	return flags & SLC_T_PROVEN ? SLC_GRADE_proven : SLC_GRADE_unproven;
}

/* --- started less finished --------------------------------------------------------------------------------------- */

static __always_inline __u32 slc_turn_slot(__u64 ns)
{
	__u32 slot = slc_tenth(ns), round = ((__u64)(slot >> 8) * 0xcccccccdULL) >> 34; /* slot / 1280 */

	slot -= round * SLC_TURN_SLOTS;
	SLC_OPAQUE(slot);
	return slot < SLC_TURN_SLOTS ? slot : 0;
}

static __always_inline void slc_owe(const struct slc_desk *desk, __u32 flags, __u8 cell, __u64 begun, int delta)
{
	__u32 grade = slc_grade_of(flags);
	__u32 slot = begun >> (desk->measure->owed_shift & 63) & (SLC_OWED_SLOTS - 1);

	if (grade != SLC_GRADE_pressure || flags & SLC_T_PROVEN)
		__sync_fetch_and_add(&desk->signals->owed[grade][slot][cell >> 2], delta);
}

static __always_inline void slc_started(const struct slc_desk *desk, __u32 flags, __u8 cell)
{
	__u32 grade = slc_grade_of(flags);

	__sync_fetch_and_add(&desk->signals->started[grade][slc_turn_slot(desk->now)].started, 1);
	slc_owe(desk, flags, cell, desk->now, 1);
}

/* Later than timeout it has been counted as unanswered: its slot does not change any more. */
static __always_inline _Bool slc_finished(const struct slc_desk *desk, __u32 flags, __u8 cell, __u64 begun)
{
	__u32 grade = slc_grade_of(flags);

	if (desk->now - begun >= desk->measure->timeout_ns)
		return 0;
	__sync_fetch_and_add(&desk->signals->started[grade][slc_turn_slot(begun)].finished, 1);
	slc_owe(desk, flags, cell, begun, -1);
	return 1;
}

/* --- rows and cells ------------------------------------------------------------------------------------------------ */

static __always_inline void slc_cell_note(const struct slc_desk *desk, __u32 flags, __u8 cell_no, __u32 odd, __u32 kind,
					  _Bool failed)
{
	struct slc_cell *cell = &desk->signals->cells[odd][cell_no];

	if (kind == SLC_OUT_slow)
		__sync_fetch_and_add(&cell->slow, 1);
	if (!failed)
		__sync_fetch_and_add(&cell->success, 1);
	else if (flags & SLC_T_PROVEN)
		__sync_fetch_and_add(&cell->failure, 1);
	else
		__sync_fetch_and_add(&cell->unproven, 1);
	if (flags & SLC_T_KNOWN && failed)
		__sync_fetch_and_add(&desk->signals->known_failure[odd], 1);
	else if (flags & SLC_T_KNOWN)
		__sync_fetch_and_add(&desk->signals->known_success[odd], 1);
}

static __always_inline _Bool slc_is_failure(const struct slc_desk *desk, __u32 kind)
{
	return desk->measure->failures >> (kind & 31) & 1;
}

static __always_inline _Bool slc_is_success(const struct slc_desk *desk, __u32 kind)
{
	return !slc_is_failure(desk, kind) && SLC_SUCCESSES >> (kind & 31) & 1;
}

/* What an outcome makes of its probe. `late`: the deadline has passed while an answer was owed. */
static __always_inline __u32 slc_probe_result(const struct slc_desk *desk, __u32 kind)
{
	if (slc_is_failure(desk, kind) || kind == SLC_OUT_late)
		return SLC_SLOT_failure;
	return slc_is_success(desk, kind) ? SLC_SLOT_success : SLC_SLOT_free;
}

static __always_inline void slc_outcome_file(const struct slc_desk *desk, __u32 flags, __u8 cell, __u32 generation,
					     __u32 kind)
{
	__u32 row = generation & 1;

	SLC_OPAQUE(kind);
	if (kind >= SLC_OUTCOME_COUNT)
		return;
	if (flags & SLC_T_PRESSURE)
		row = SLC_ROW_pressure;
	else if (generation != slc_generation_now(desk->state))
		row = SLC_ROW_other;
	__sync_fetch_and_add(&desk->signals->outcomes[row][kind], 1);
	if (row > SLC_ROW_odd)
		return;
	if (slc_is_failure(desk, kind))
		slc_cell_note(desk, flags, cell, row, kind, 1);
	else if (slc_is_success(desk, kind))
		slc_cell_note(desk, flags, cell, row, kind, 0);
}

/* How an answer that came `took` after the last request byte is called. */
static __always_inline __u32 slc_answer_kind(const struct slc_desk *desk, __u64 took)
{
	if (took <= desk->measure->slow_after_ns)
		return SLC_OUT_answered;
	return took < desk->measure->timeout_ns ? SLC_OUT_slow : SLC_OUT_late;
}

static __always_inline void slc_answer_note(const struct slc_desk *desk)
{
	WRITE_ONCE(desk->signals->last_answer_ns, desk->now);
}

#endif /* SLC_OUTCOME_H */
