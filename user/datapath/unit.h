/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unit.h: rates of sources in units of 2^shift ns. Pure.
 *
 * Intervals are rounded up, so that a rate is never exceeded; depths are scaled with the rounded interval, so that a
 * burst of n stays n.
 */
#ifndef SLUICE_UNIT_H
#define SLUICE_UNIT_H

#include <stddef.h>
#include <stdint.h>

#define UNIT_DEPTH_BEST (1u << 28) /* a new shift is the smallest that holds tau in this */
#define UNIT_DEPTH_MAX (1u << 30) /* an old shift is kept up to this: buckets need not be moved */
#define UNIT_SHIFT_MAX 40

struct unit_bucket {
	uint64_t interval16, depth16; /* 1/16 ns */
	uint32_t interval, depth; /* out: units */
};

/* -ERANGE when rounding costs more than 0.1 % or the interval does not fit. */
int to_units(uint64_t ns16, uint8_t shift, uint32_t *ret_units);
/*
 * Fills interval and depth of every bucket in one common unit: `old_shift` if it still fits (-1: none), else the
 * smallest that does. -ERANGE, *ret_bad the first bucket that fits no unit.
 */
int choose_units(struct unit_bucket *buckets, size_t count, int old_shift, uint8_t *ret_shift, size_t *ret_bad);

#endif /* SLUICE_UNIT_H */
