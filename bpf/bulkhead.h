/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bulkhead.h: connections of the whole service that its application holds. Handshakes under way count too (pending.h),
 * so a burst does not slip through while it is still on its way to ESTABLISHED; what remains is the error of p. UDP flows are not connections.
 */
#ifndef SLC_BULKHEAD_H
#define SLC_BULKHEAD_H

#include "attempt.h"
#include "pending.h"

SLC_STAGE_FN int slc_stage_bulkhead(struct slc_attempt *a)
{
	__u32 state = a->state, limit;
	const struct slc_signals *signals;

	if (slc_ordered(a, SLC_O_BULKHEAD, a->override->bulkhead_until_ns))
		limit = a->override->total_concurrent;
	else if (a->policy->flags & SLC_P_BULKHEAD)
		limit = a->policy->total_concurrent;
	else
		return SLC_NEXT;
	signals = bpf_map_lookup_elem(&slc_signals, &state);
	if (!signals || a->pkt.proto != SLC_PROTO_TCP)
		return SLC_NEXT;
	if (signals->held + (slc_pending_q16(a->total, a->decision, a->now) >> 16) >= limit)
		REFUSE(a, bulkhead_full);
	return SLC_NEXT;
}

#endif /* SLC_BULKHEAD_H */
