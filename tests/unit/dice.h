/* SPDX-License-Identifier: GPL-2.0-only */
/* dice.h: numbers for random schedules, the same on every run (xorshift64*, Marsaglia 2003, Vigna 2016). */
#ifndef TESTS_UNIT_DICE_H
#define TESTS_UNIT_DICE_H

#include <stdint.h>

static uint64_t seed = 0x9e3779b97f4a7c15ULL;

static uint64_t dice(uint64_t below)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * 0x2545f4914f6cdd1dULL >> 16) % below;
}

#endif /* TESTS_UNIT_DICE_H */
