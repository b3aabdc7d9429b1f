/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pending.h: handshakes under way: SYNs admitted within the last H and not established yet, by class, in slices of time.
 * p x pending is what will reach the accept queue or the application beside what is there already. A handshake that
 * never completes (spoofed) leaves the count with its slice.
 */
#ifndef SLC_PENDING_H
#define SLC_PENDING_H

#include "bucket.h"
#include "maps/maps.bpf.h"

#define SLC_DEFAULT_SLICE_SHIFT 24 /* without a decision: H = 12 slices of 16.8 ms = 201 ms */
#define SLC_DEFAULT_SLICES 12
#define SLC_Q16_ONE 65536u

static __always_inline __u32 slc_slice_at(const struct slc_decision_half *decision, __u64 now)
{
	return now >> ((decision ? decision->slice_shift : SLC_DEFAULT_SLICE_SHIFT) & 63) & 0xffff;
}

/* One more SYN admitted `when`, or with `done` one of them established. */
SLC_VERIFIED_ALONE int slc_slice_count(struct slc_total *total, const struct slc_decision_half *decision, __u64 when,
				       __u32 class, __u32 done)
{
	__u32 slice = slc_slice_at(decision, when);
	union slc_slice *at, old;

	if (!total)
		return 0;
	at = &total->admitted[slice & (SLC_SLICES - 1)][class >> 1 & 1];
	old.word = READ_ONCE(at->word);
	for (int i = 0; i < SLC_BUCKET_TRIES; i++) {
		union slc_slice next = {.slice = slice};
		__u64 seen, count;

		if (old.slice == slice)
			next = old;
		else if (done)
			break; /* its slice has been reused, or the controller has chosen another width */
		count = class & 1 ? next.second : next.first;
		count = done ? count - !!count : count + (count < 0xffffff);
		if (class & 1)
			next.second = count;
		else
			next.first = count;
		seen = __sync_val_compare_and_swap(&at->word, old.word, next.word);
		if (seen == old.word)
			break;
		old.word = seen;
	}
	return 0;
}

/* Sum over classes of p_c x pending_c in the last H, 1/65536. Without a decision p = 1 and H = 200 ms. */
SLC_VERIFIED_ALONE __u64 slc_pending_q16(const struct slc_total *total, const struct slc_decision_half *decision,
					 __u64 now)
{
	__u32 slice = slc_slice_at(decision, now), slices = decision ? decision->slices : SLC_DEFAULT_SLICES;
	__u64 p[SLC_CLASS_COUNT], sum = 0;

	if (!total)
		return 0;
	SLC_UNROLL
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p[c] = decision ? decision->completion_q16[c] : SLC_Q16_ONE;
	for (int i = 0; i < SLC_SLICES; i++) {
		union slc_slice best = {.word = READ_ONCE(total->admitted[i][0].word)};
		union slc_slice rest = {.word = READ_ONCE(total->admitted[i][1].word)};

		if (((slice - best.slice) & 0xffff) < slices)
			sum += best.first * p[0] + best.second * p[1];
		if (((slice - rest.slice) & 0xffff) < slices)
			sum += rest.first * p[2] + rest.second * p[3];
	}
	return sum;
}

#endif /* SLC_PENDING_H */
