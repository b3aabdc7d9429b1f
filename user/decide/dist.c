// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/dist.h"

#include <stdlib.h>
#include <string.h>

#define OCTAVE_BITS 5

_Static_assert(1 << OCTAVE_BITS == SLC_DIST_OCTAVE, "bins per octave");

unsigned int dist_bin(uint64_t ns)
{
	unsigned int octave;

	if (ns >> SLC_DIST_FIRST == 0)
		return 0;
	octave = 63 - __builtin_clzll(ns);
	if (octave >= SLC_DIST_FIRST + SLC_DIST_BINS / SLC_DIST_OCTAVE)
		return SLC_DIST_BINS - 1;
	return (octave - SLC_DIST_FIRST) * SLC_DIST_OCTAVE + (ns >> (octave - OCTAVE_BITS) & (SLC_DIST_OCTAVE - 1));
}

uint64_t dist_upper_ns(unsigned int bin)
{
	unsigned int octave = SLC_DIST_FIRST + bin / SLC_DIST_OCTAVE;

	return (uint64_t)(SLC_DIST_OCTAVE + bin % SLC_DIST_OCTAVE + 1) << (octave - OCTAVE_BITS);
}

uint64_t dist_lower_ns(unsigned int bin)
{
	return bin ? dist_upper_ns(bin - 1) : 0;
}

bool dist_quantile(const struct dist_counts *counts, unsigned int q, uint64_t *ret_ns)
{
	uint64_t rank, passed = 0;
	unsigned int bin = 0;

	if (!counts->total)
		return false;
	rank = counts->total / 10000 * q +
	       (counts->total % 10000 * q + 9999) / 10000; /* rounded up, without overflow */
	if (!rank)
		rank = 1;
	while (bin < SLC_DIST_BINS - 1 && (passed += counts->bin[bin]) < rank)
		bin++;
	*ret_ns = dist_lower_ns(bin);
	if (bin < SLC_DIST_BINS - 1) /* the last one has no middle */
		*ret_ns += (dist_upper_ns(bin) - dist_lower_ns(bin)) / 2;
	return true;
}

uint64_t dist_part(uint64_t count, uint64_t ns)
{
	unsigned int bin = dist_bin(ns);
	uint64_t lower = dist_lower_ns(bin), width = dist_upper_ns(bin) - lower;

	return (uint64_t)((double)count * (double)(ns - lower + 1) / (double)width);
}

uint64_t dist_below(const struct dist_counts *counts, uint64_t ns)
{
	unsigned int bin = dist_bin(ns);
	uint64_t below = 0;

	if (ns >= dist_upper_ns(SLC_DIST_BINS - 1))
		return counts->total;
	for (unsigned int b = 0; b < bin; b++)
		below += counts->bin[b];
	return below + dist_part(counts->bin[bin], ns);
}

/* --- sliding ----------------------------------------------------------------------------------------------------------- */

struct dist_bucket {
	bool used;
	uint64_t slot; /* of time; another one than asked for: what is here is old */
	struct dist_counts counts;
};

struct dist_window {
	uint64_t width_ns;
	unsigned int buckets;
	bool primed; /* `seen` is what the kernel had at the last call */
	struct slc_dist seen;
	uint64_t newest; /* slot */
	bool filled;
	uint64_t newest_filled; /* slot of the last sample */
	struct dist_bucket bucket[];
};

struct dist_window *dist_window_new(uint64_t width_ns, unsigned int buckets)
{
	struct dist_window *window = calloc(1, sizeof(*window) + buckets * sizeof(window->bucket[0]));

	if (!window)
		return NULL;
	window->width_ns = width_ns;
	window->buckets = buckets;
	return window;
}

void dist_window_free(struct dist_window **window)
{
	free(*window);
	*window = NULL;
}

/* Time behind the newest bucket is taken as that bucket's. */
static struct dist_counts *rotate(struct dist_window *window, uint64_t now_ns)
{
	struct dist_bucket *bucket;

	if (window->newest < now_ns / window->width_ns)
		window->newest = now_ns / window->width_ns;
	bucket = &window->bucket[window->newest % window->buckets];
	if (!bucket->used || bucket->slot != window->newest) {
		bucket->used = true;
		bucket->slot = window->newest;
		memset(&bucket->counts, 0, sizeof(bucket->counts));
	}
	return &bucket->counts;
}

void dist_window_take(struct dist_window *window, const struct slc_dist *dist, uint64_t now_ns)
{
	struct dist_counts *to = rotate(window, now_ns);
	struct slc_dist now = *dist; /* the kernel goes on counting meanwhile */
	/* The sum does not wrap in a machine's life: a smaller one is another life of the slot, which began at zero. */
	bool take = window->primed && now.sum_ns >= window->seen.sum_ns;

	for (unsigned int b = 0; take && b < SLC_DIST_BINS; b++) {
		uint32_t grown = now.bin[b] - window->seen.bin[b]; /* right across a wrap of 32 bits */

		to->bin[b] += grown;
		to->total += grown;
	}
	if (to->total) {
		window->filled = true;
		window->newest_filled = window->newest;
	}
	if (take)
		to->sum_ns += now.sum_ns - window->seen.sum_ns;
	window->seen = now;
	window->primed = true;
}

void dist_window_sum(const struct dist_window *window, uint64_t now_ns, struct dist_counts *ret_counts)
{
	uint64_t slot = now_ns / window->width_ns;

	if (slot < window->newest)
		slot = window->newest;
	memset(ret_counts, 0, sizeof(*ret_counts));
	if (!window->filled || (slot > window->newest_filled && slot - window->newest_filled >= window->buckets))
		return;
	for (unsigned int i = 0; i < window->buckets; i++) {
		const struct dist_bucket *bucket = &window->bucket[i];

		if (!bucket->used || bucket->slot > slot || slot - bucket->slot >= window->buckets ||
		    !bucket->counts.total)
			continue;
		ret_counts->total += bucket->counts.total;
		ret_counts->sum_ns += bucket->counts.sum_ns;
		for (unsigned int b = 0; b < SLC_DIST_BINS; b++)
			ret_counts->bin[b] += bucket->counts.bin[b];
	}
}
