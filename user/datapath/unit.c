// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/unit.h"

#include <errno.h>

int to_units(uint64_t ns16, uint8_t shift, uint32_t *ret_units)
{
	unsigned __int128 unit, units;

	if (shift > UNIT_SHIFT_MAX)
		return -ERANGE;
	unit = (unsigned __int128)16 << shift;
	units = (ns16 + unit - 1) / unit;
	if (units > UINT32_MAX || (units * unit - ns16) * 1000 > ns16)
		return -ERANGE;
	*ret_units = (uint32_t)units;
	return 0;
}

/* 0, or -ERANGE: tau beyond `depth_max` or T not exact enough. max(tau, T) counts: a burst of 1 has tau = T. */
static int bucket_units(struct unit_bucket *b, uint8_t shift, uint32_t depth_max)
{
	unsigned __int128 depth;
	uint32_t interval;
	int r = to_units(b->interval16, shift, &interval);

	if (r < 0)
		return r;
	if (!b->interval16) {
		b->interval = b->depth = 0;
		return 0;
	}
	depth = ((unsigned __int128)b->depth16 * interval + b->interval16 / 2) / b->interval16;
	if (depth > depth_max || interval > depth_max)
		return -ERANGE;
	b->interval = interval;
	b->depth = (uint32_t)depth;
	return 0;
}

static int all_in_unit(struct unit_bucket *buckets, size_t count, uint8_t shift, uint32_t depth_max, size_t *ret_bad)
{
	for (size_t i = 0; i < count; i++) {
		if (bucket_units(&buckets[i], shift, depth_max) < 0) {
			*ret_bad = i;
			return -ERANGE;
		}
	}
	return 0;
}

int choose_units(struct unit_bucket *buckets, size_t count, int old_shift, uint8_t *ret_shift, size_t *ret_bad)
{
	size_t bad = 0;

	if (old_shift >= 0 && all_in_unit(buckets, count, (uint8_t)old_shift, UNIT_DEPTH_MAX, &bad) == 0) {
		*ret_shift = (uint8_t)old_shift;
		return 0;
	}
	for (uint8_t shift = 0; shift <= UNIT_SHIFT_MAX; shift++) {
		if (all_in_unit(buckets, count, shift, UNIT_DEPTH_BEST, &bad) == 0) {
			*ret_shift = shift;
			return 0;
		}
	}
	/* A wide spread of depths (a short rate beside a long override): the larger bound may hold what the best cannot. */
	for (uint8_t shift = 0; shift <= UNIT_SHIFT_MAX; shift++) {
		if (all_in_unit(buckets, count, shift, UNIT_DEPTH_MAX, &bad) == 0) {
			*ret_shift = shift;
			return 0;
		}
	}
	*ret_bad = bad;
	return -ERANGE;
}
