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

/*
 * Where only the controller limits: a tick's worth may come at once. Clients do not come evenly [a ramp at 90 % of what
 * Poisson clients ask for lets 47 % of them through with a depth of one token, 90 % with this].
 */
#define SLC_PUSHED_DEPTH16 (100000000ULL << 4)

/* Whose interval binds: the number is the slowest one, and where two are the same the breaker's names the reason. */
enum slc_term { SLC_TERM_static, SLC_TERM_law, SLC_TERM_breaker };

struct slc_total_limit {
	__u64 interval, depth, threshold;
	__u32 term; /* enum slc_term */
};

static __always_inline __u64 slc_q16_of(__u64 value, __u32 q16)
{
	return value >> 32 ? (value >> 16) * q16 : value * q16 >> 16;
}

/*
 * What an open breaker leaves behind when the lease lapses: its half's total, for failsafe.hold after the half's time.
 * A service that was known to be ill gets a part of its rate, not all of it at once, and nobody is shut out for good.
 */
static __always_inline const struct slc_decision_half *slc_floor_of(const struct slc_attempt *a,
								    const struct slc_decision_half *last)
{
	if (!(last->flags & (SLC_D_OPEN | SLC_D_HALF_OPEN)) || last->flags & SLC_D_SHADOW ||
	    last->total_interval16 == ~0ULL || slc_breaker_ordered(a))
		return NULL;
	return a->now - last->valid_until_ns < a->global->hold_ns ? last : NULL;
}

/* The interval that the controller adds, 0 without one, and whose it is. An order about the breaker replaces its ramp. */
static __always_inline __u64 slc_total_pushed(const struct slc_attempt *a, __u32 *ret_term)
{
	const struct slc_decision_half *d = a->decision;
	_Bool shadow;

	*ret_term = SLC_TERM_breaker;
	if (a->static_only)
		return 0;
	if (a->floor)
		return a->floor->total_interval16;
	if (!d || !(d->flags & SLC_D_TOTAL))
		return 0;
	shadow = !!(d->flags & SLC_D_SHADOW);
	if (d->flags & SLC_D_RAMP)
		return shadow || slc_breaker_ordered(a) ? 0 : d->total_interval16;
	if (d->flags & (SLC_D_OPEN | SLC_D_HALF_OPEN) && !shadow) /* the floor: not before the lapse */
		return 0;
	*ret_term = SLC_TERM_law;
	return d->total_interval16;
}

static __always_inline _Bool slc_total_limit_of(const struct slc_attempt *a, struct slc_total_limit *l)
{
	const struct slc_policy *policy = a->policy;
	__u32 term;
	__u64 pushed = slc_total_pushed(a, &term);

	l->term = SLC_TERM_static;
	if (slc_ordered(a, SLC_O_TOTAL, a->override->total_until_ns)) {
		l->interval = a->override->total_interval16;
		l->depth = a->override->total_depth16;
	} else if (policy->flags & SLC_P_TOTAL) {
		l->interval = policy->total_interval16;
		l->depth = policy->total_depth16;
	} else if (pushed) {
		l->interval = 0;
		l->depth = slc_max(pushed, SLC_PUSHED_DEPTH16);
	} else {
		return 0;
	}
	if (pushed > l->interval || (pushed && pushed == l->interval && term == SLC_TERM_breaker)) {
		l->interval = pushed;
		l->term = term;
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

/* Named after the term that binds: the breaker's ramp, the law's cut, or the configured rate. */
static __always_inline int slc_total_refuse(struct slc_attempt *a, __u32 term)
{
	if (term == SLC_TERM_breaker)
		REFUSE(a, circuit_open);
	else if (term == SLC_TERM_law)
		REFUSE(a, shed);
	else
		REFUSE(a, service_rate);
	return SLC_NEXT;
}

/* The controller's term in a dry run: a bucket of its own says what it would refuse, and the configured limit acts. */
SLC_STAGE_FN void slc_total_dry(struct slc_attempt *a)
{
	struct slc_total_limit l;

	if (!slc_total_limit_of(a, &l) || l.term == SLC_TERM_static ||
	    !slc_dry(a, l.term == SLC_TERM_breaker ? SLC_STAGE_OF_circuit_open : SLC_STAGE_OF_shed))
		return;
	a->static_only = 1;
	if (slc_bucket_take(&a->total->dry_tat16, slc_now16(a), l.interval, l.depth, l.threshold) != SLC_TAKEN)
		slc_total_refuse(a, l.term);
}

SLC_STAGE_FN int slc_stage_total(struct slc_attempt *a)
{
	__u64 now16 = slc_now16(a), tat = READ_ONCE(a->total->tat16), share;
	struct slc_total_limit l;

	if (a->policy->dry)
		slc_total_dry(a);
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
	return slc_total_refuse(a, l.term);
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
	return slc_total_refuse(a, l.term);
}

#endif /* SLC_TOTAL_H */
