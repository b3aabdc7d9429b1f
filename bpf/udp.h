/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * udp.h: UDP services. A datagram of a flow that the service answered within the last 30 s is free; any other is an
 * attempt and pays. The egress program stamps the flow at each answer, under the hash of the reversed 5-tuple.
 */
#ifndef SLC_UDP_H
#define SLC_UDP_H

#include "flow_table.h"

static __always_inline _Bool slc_udp_answered(struct slc_flow_set *set, __u64 flow_hash, __u64 now)
{
	const struct slc_flow *flow = slc_flow_find(set, flow_hash, now);

	return flow && flow->head.admitted && now - READ_ONCE(flow->last_ns) < SLC_UDP_ANSWERED_NS;
}

static __always_inline void slc_udp_stamp(const struct slc_control *control, __u64 flow_hash, __u64 now)
{
	struct slc_flow_set *set = slc_flow_set_of(control, flow_hash);
	struct slc_flow *flow;
	union slc_flow_head old;

	if (!set)
		return;
	flow = &set->way[slc_flow_way(set, flow_hash >> 32, now) & (SLC_FLOW_WAYS - 1)];
	old.word = READ_ONCE(flow->head.word);
	slc_flow_put(flow, old, (union slc_flow_head){.admitted = 1}, flow_hash, now);
}

#endif /* SLC_UDP_H */
