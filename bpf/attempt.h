/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attempt.h: one attempt to open a connection (or UDP flow) to a service on its way through the stages.
 *
 * A stage returns SLC_NEXT or the reason that ends the packet's way. REFUSE() is how a stage refuses: in a dry-run
 * stage it counts and goes on instead.
 */
#ifndef SLC_ATTEMPT_H
#define SLC_ATTEMPT_H

#include "maps/maps.bpf.h"

#include "bucket.h"
#include "parse.h"

#define SLC_NEXT (-1)

/*
 * Stages with much state of their own are functions of their own, so that their frames share the 512 bytes of stack
 * in turn instead of together (clang 14 does not colour the slots of inlined calls).
 */
#define SLC_STAGE_FN static __attribute__((noinline, unused))

struct slc_attempt {
	struct slc_pkt pkt;
	__u64 now; /* ns, read once */
	const struct slc_control *control;
	const struct slc_global *global; /* of the live snapshot */
	const struct slc_policy *policy;
	const struct slc_decision_half *decision; /* NULL: the lease lapsed */
	const struct slc_decision_half *floor; /* it lapsed while the breaker was open: this total holds a while */
	const struct slc_override_half *override;
	struct slc_total *total;
	struct slc_counters *counters;
	struct slc_flow_set *flows; /* the set of this SYN's record */
	struct slc_flow *flow; /* the record, or the way it will take */
	struct slc_set *sources; /* the set of this source's bucket */
	__u64 source; /* keyed hash of `key` */
	__u64 flow_hash;
	struct slc_addr key; /* source address under the policy's prefix */
	__u64 head_age;
	__u32 backlog, backlog_max, predicted; /* what the gate saw */
	__u32 snapshot; /* index */
	__u32 generation; /* of the breaker, with the decision */
	__u16 state;
	__u8 class;
	__u8 class_known; /* class is settled */
	__u8 repeat; /* found in slc_flows */
	__u8 was_admitted; /* and admitted at its last pass */
	__u8 salt; /* which of the two its dice use */
	__u8 share; /* admitted on its class's minimum share */
	__u8 unasked; /* total charged without asking */
	__u8 seen_before; /* the source had a hot entry */
	__u8 static_only; /* what the controller adds to the total is in a dry run */
	__u8 has_ticket; /* this SYN took slot `ticket` of slc_probe */
	__u8 ticket;
	__u8 silent; /* refused without a word, whatever the action: it is to come again */
};

static __always_inline __u64 slc_now16(const struct slc_attempt *a)
{
	return a->now << 4;
}

/* 32 random-looking bits that a retransmit of this SYN gets again. */
static __always_inline __u32 slc_dice(const struct slc_attempt *a)
{
	return slc_mix(a->flow_hash ^ a->control->salt[a->salt & 1]) >> 32;
}

/* In effect: ordered, and its time has not come. */
static __always_inline _Bool slc_ordered(const struct slc_attempt *a, __u32 flag, __u64 until_ns)
{
	return a->override->flags & flag && a->now < until_ns;
}

static __always_inline _Bool slc_breaker_ordered(const struct slc_attempt *a)
{
	return slc_ordered(a, SLC_O_BREAKER, a->override->breaker_until_ns);
}

static __always_inline void slc_bump(struct slc_reasons *reasons, __u32 reason)
{
	__u64 *count = (__u64 *)reasons;

	if (reason < SLC_REASON_COUNT)
		count[reason]++; /* per CPU, and XDP does not nest */
}

/* True where the reason's stage only counts. */
SLC_STAGE_FN _Bool slc_dry_count(struct slc_attempt *a, __u32 reason)
{
	slc_bump(&a->counters->dry, reason);
	return 1;
}

static __always_inline _Bool slc_dry(const struct slc_attempt *a, __u32 stage)
{
	return a->policy->dry >> (stage & 31) & 1;
}

#define REFUSE(a, name)                                                                \
	do {                                                                           \
		if (!slc_dry(a, SLC_STAGE_OF_##name) || !slc_dry_count(a, SLC_##name)) \
			return SLC_##name;                                             \
	} while (0)

#endif /* SLC_ATTEMPT_H */
