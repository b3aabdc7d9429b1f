/* SPDX-License-Identifier: GPL-2.0-only */
/* decision.h: what the controller has decided for a service and the lease still covers. */
#ifndef SLC_DECISION_H
#define SLC_DECISION_H

#include "bucket.h"
#include "maps/maps.bpf.h"

/* NULL where the lease has lapsed: the fail-safe holds. */
static __always_inline const struct slc_decision_half *slc_decision_of(__u32 state, __u64 now)
{
	const struct slc_decision *decision = bpf_map_lookup_elem(&slc_decision, &state);
	const struct slc_decision_half *half;

	if (!decision)
		return NULL;
	half = &decision->half[READ_ONCE(decision->word) & 1];
	return now < READ_ONCE(half->valid_until_ns) ? half : NULL;
}

#endif /* SLC_DECISION_H */
