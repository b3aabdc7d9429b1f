/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * total.h: what the service may be asked for, by class. One GCRA word on its own line, written by admitted packets
 * only; peeked here, taken at commit, so no later refusal burns a token.
 *
 * Class c may use theta_c of the depth: as the bucket empties the lowest classes are refused first. A class with a
 * minimum share has a small bucket of its own, asked when the threshold refuses. The top SLC_RESERVED tokens of the
 * depth are for these, so that a better class that keeps the bucket at its threshold cannot starve them, and the total
 * stays exact. Where T exceeds the thresholds (tiny bursts) precedence comes from the shares alone.
 */
#ifndef SLC_TOTAL_H
#define SLC_TOTAL_H

#include "attempt.h"

#define SLC_RESERVED 4

struct slc_total_limit {
	__u64 interval, depth, threshold;
	_Bool law; /* the controller's interval binds, not the configured one */
};

static __always_inline __u64 slc_q16_of(__u64 value, __u32 q16)
{
	return value >> 32 ? (value >> 16) * q16 : value * q16 >> 16;
}

static __always_inline _Bool slc_total_limit_of(const struct slc_attempt *a, struct slc_total_limit *l)
{
	const struct slc_policy *policy = a->policy;

	l->law = 0;
	if (slc_ordered(a, SLC_O_TOTAL, a->override->total_until_ns)) {
		l->interval = a->override->total_interval16;
		l->depth = a->override->total_depth16;
	} else if (policy->flags & SLC_P_TOTAL) {
		l->interval = policy->total_interval16;
		l->depth = policy->total_depth16;
	} else if (a->decision && a->decision->flags & SLC_D_TOTAL) {
		l->interval = 0;
		l->depth = a->decision->total_interval16;
	} else {
		return 0;
	}
	if (a->decision && a->decision->flags & SLC_D_TOTAL && a->decision->total_interval16 > l->interval) {
		l->interval = a->decision->total_interval16;
		l->law = 1;
	}
	l->threshold = slc_q16_of(l->depth, policy->theta_q16[a->class & 3]);
	if (policy->flags & SLC_P_MIN_SHARE && l->depth >= 4 * SLC_RESERVED * l->interval)
		l->threshold = slc_min(l->threshold, l->depth - SLC_RESERVED * l->interval);
	return 1;
}

static __always_inline __u64 slc_share_interval(const struct slc_attempt *a, const struct slc_total_limit *l)
{
	__u32 inverse = a->policy->share_inverse_q8[a->class & 3];

	return inverse == SLC_NO_SHARE ? 0 : (l->interval >> 8) * inverse + ((l->interval & 255) * inverse >> 8);
}

/* Named after the term that binds: the law's cut, or the configured rate. */
static __always_inline int slc_total_refuse(struct slc_attempt *a, _Bool law)
{
	if (law)
		REFUSE(a, shed);
	else
		REFUSE(a, service_rate);
	return SLC_NEXT;
}

SLC_STAGE_FN int slc_stage_total(struct slc_attempt *a)
{
	__u64 now16 = slc_now16(a), tat = READ_ONCE(a->total->tat16), share;
	struct slc_total_limit l;

	if (!slc_total_limit_of(a, &l))
		return SLC_NEXT;
	if (slc_bucket_peek(tat, now16, l.interval, l.depth, l.threshold))
		return SLC_NEXT;
	share = slc_share_interval(a, &l);
	if (share && slc_bucket_peek(tat, now16, l.interval, l.depth, l.depth) &&
	    slc_bucket_peek(READ_ONCE(a->total->share_tat16[a->class & 3]), now16, share, a->policy->share_depth16,
			    a->policy->share_depth16)) {
		a->share = 1;
		return SLC_NEXT;
	}
	a->unasked = 1; /* in a dry run it goes on, and must not be refused at commit */
	return slc_total_refuse(a, l.law);
}

/* Takes what the stage peeked at. Another CPU may have been quicker: then it is refused after all. */
SLC_STAGE_FN int slc_total_commit(struct slc_attempt *a)
{
	__u64 now16 = slc_now16(a), share;
	struct slc_total_limit l;
	enum slc_taken taken;

	if (!slc_total_limit_of(a, &l))
		return SLC_NEXT;
	if (a->unasked) {
		slc_bucket_charge(&a->total->tat16, now16, l.interval, l.depth);
		return SLC_NEXT;
	}
	if (a->share) {
		share = slc_share_interval(a, &l);
		taken = slc_bucket_take(&a->total->share_tat16[a->class & 3], now16, share, a->policy->share_depth16,
					a->policy->share_depth16);
		if (taken == SLC_TAKEN)
			taken = slc_bucket_take(&a->total->tat16, now16, l.interval, l.depth, l.depth);
	} else {
		taken = slc_bucket_take(&a->total->tat16, now16, l.interval, l.depth, l.threshold);
	}
	if (taken == SLC_TAKEN)
		return SLC_NEXT;
	return slc_total_refuse(a, l.law);
}

#endif /* SLC_TOTAL_H */
