/* SPDX-License-Identifier: GPL-2.0-only */
/* decision.h: what the controller has decided for a service and the lease still covers. */
#ifndef SLC_DECISION_H
#define SLC_DECISION_H

#include "bucket.h"
#include "maps/maps.bpf.h"

/* What was pushed last, also after its time, and the breaker's generation that came with it: they are one word. */
static __always_inline const struct slc_decision_half *slc_decision_last(__u32 state, __u32 *ret_generation)
{
	const struct slc_decision *decision = bpf_map_lookup_elem(&slc_decision, &state);
	__u64 word;

	if (!decision)
		return NULL;
	word = READ_ONCE(decision->word);
	*ret_generation = word >> 32;
	return &decision->half[word & 1];
}

/* NULL where the lease has lapsed: the fail-safe holds. */
static __always_inline const struct slc_decision_half *slc_decision_of(__u32 state, __u64 now)
{
	__u32 generation;
	const struct slc_decision_half *half = slc_decision_last(state, &generation);

	return half && now < READ_ONCE(half->valid_until_ns) ? half : NULL;
}

#endif /* SLC_DECISION_H */
