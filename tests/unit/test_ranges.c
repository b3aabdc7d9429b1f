// SPDX-License-Identifier: GPL-2.0-only
/* test_ranges: ranges of sets, moving debts between them, and units of time. Random histories check the invariants. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/bucket.h"
#include "tests/unit/dice.h"
#include "user/datapath/ranges.h"
#include "user/datapath/unit.h"

/* --- layout ---------------------------------------------------------------------------------------------------------- */

static void powers_of_two(void **state)
{
	(void)state;
	assert_int_equal(pow2_floor(0), 0);
	assert_int_equal(pow2_floor(1), 1);
	assert_int_equal(pow2_floor(7), 4);
	assert_int_equal(pow2_floor(UINT32_MAX), 1u << 31);
	assert_int_equal(pow2_ceil(0), 1);
	assert_int_equal(pow2_ceil(8), 8);
	assert_int_equal(pow2_ceil(9), 16);
	assert_int_equal(pow2_ceil(UINT32_MAX), 1u << 31);
	assert_int_equal(range_target(512, 1), 512);
	assert_int_equal(range_target(512, 3), 128);
	assert_int_equal(range_target(2, 2), 1);
	assert_int_equal(range_target(2, 3), 0);
}

#define MAX_SERVICES 24

struct history {
	uint32_t configured;
	struct range held[MAX_SERVICES];
	size_t count;
};

static void check_layout(const struct history *h, const struct range_want *want, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct range r = want[i].next;

		assert_true(r.size && (r.size & (r.size - 1)) == 0 && r.base % r.size == 0);
		assert_true(r.base + r.size <= 2 * h->configured);
		for (size_t j = 0; j < i; j++)
			assert_true(r.base >= want[j].next.base + want[j].next.size ||
				    want[j].next.base >= r.base + r.size);
		/* a range that moves may not touch what packets still use, its own old place included */
		if (r.base == want[i].now.base && r.size == want[i].now.size)
			continue;
		for (size_t j = 0; j < h->count; j++)
			assert_true(r.base >= h->held[j].base + h->held[j].size || h->held[j].base >= r.base + r.size);
	}
}

/* Services come, go and change their unit at random; two rounds always reach the target size. */
static void any_history_settles_in_two_rounds(void **state)
{
	(void)state;
	for (int run = 0; run < 300; run++) {
		struct history h = {.configured = 1u << dice(12)};

		for (int step = 0; step < 40; step++) {
			struct range_want want[MAX_SERVICES];
			size_t count = 0;
			uint32_t target;
			bool settled;
			int r = 0;

			memset(want, 0, sizeof(want));
			for (size_t i = 0; i < h.count; i++) {
				if (dice(4) == 0)
					continue; /* removed */
				if (dice(8)) /* else its unit changed */
					want[count].now = h.held[i];
				count++;
			}
			for (uint64_t n = dice(6); n && count < MAX_SERVICES; n--)
				count++;
			target = range_target(h.configured, count);
			if (count && !target) {
				assert_int_equal(
					layout_ranges(want, count, h.held, h.count, 2 * h.configured, target, &settled),
					-ENOSPC);
				continue;
			}
			for (int round = 0; round < 2; round++) {
				r = layout_ranges(want, count, h.held, h.count, 2 * h.configured, target, &settled);
				assert_int_equal(r, 0);
				check_layout(&h, want, count);
				h.count = count;
				for (size_t i = 0; i < count; i++)
					want[i].now = h.held[i] = want[i].next;
				if (settled)
					break;
			}
			assert_true(settled);
			for (size_t i = 0; i < count; i++)
				assert_int_equal(h.held[i].size, target);
		}
	}
}

static void a_range_of_the_target_size_stays(void **state)
{
	struct range held[2] = {{.base = 256, .size = 128}, {.base = 512, .size = 128}};
	struct range_want want[3] = {{.now = held[0]}, {.now = held[1]}, {.now = {.size = 0}}};
	bool settled;

	(void)state;
	assert_int_equal(layout_ranges(want, 3, held, 2, 1024, 128, &settled), 0);
	assert_memory_equal(&want[0].next, &held[0], sizeof(held[0]));
	assert_memory_equal(&want[1].next, &held[1], sizeof(held[1]));
	assert_true(settled);
}

/* --- moving debts ---------------------------------------------------------------------------------------------------- */

#define NOW 123456789012345678ULL
#define SETS_MAX 64

struct source {
	uint64_t hash;
	uint64_t debt_ns;
};

static uint64_t debt_of(const struct slc_set *sets, uint32_t count, uint64_t hash, uint8_t shift)
{
	const struct slc_set *set = &sets[hash & (count - 1)];
	uint64_t debt = 0;

	for (int i = 0; i < SLC_WAYS; i++)
		if (set->way[i].word && set->way[i].word >> 40 == hash >> 40)
			debt = slc_max(debt, slc_tat_ahead(set->way[i].word, NOW >> shift) << shift);
	return debt;
}

static void put(struct slc_set *sets, uint32_t count, const struct source *s, uint8_t shift, int way)
{
	sets[s->hash & (count - 1)].way[way].word = slc_way_word(s->hash >> 40, (NOW >> shift) + (s->debt_ns >> shift));
}

static void no_move_loses_or_forgives_a_debt(void **state)
{
	static struct slc_set from[SETS_MAX], to[SETS_MAX];

	(void)state;
	for (int run = 0; run < 2000; run++) {
		struct source sources[4];
		uint32_t from_sets = 1u << dice(7), to_sets = 1u << dice(7);
		uint8_t from_shift = (uint8_t)(4 + dice(12)), to_shift = dice(2) ? from_shift : (uint8_t)(4 + dice(12));
		struct move move = {from, from_sets, from_shift, to, to_sets, to_shift, NOW};
		size_t n = 1 + dice(4);

		memset(from, 0, sizeof(from));
		memset(to, 0, sizeof(to));
		for (size_t i = 0; i < n; i++) {
			sources[i].hash = (dice(1u << 24) << 40 | dice(1ULL << 40)) & ~(1ULL << 39);
			sources[i].debt_ns = dice(1u << 28) << from_shift;
			put(from, from_sets, &sources[i], from_shift, (int)i);
		}
		for (int twice = 0; twice < 2; twice++) { /* the second pass changes nothing */
			assert_int_equal(move_debts(&move), 0);
			for (size_t i = 0; i < n; i++) {
				uint64_t debt = debt_of(to, to_sets, sources[i].hash, to_shift), cap = SLC_TAT_FUTURE;

				if (sources[i].debt_ns >> to_shift >= cap) { /* the packet path stores it back to tau */
					assert_true(debt == cap << to_shift);
					continue;
				}
				/* the two clocks are rounded down to their own units, so a unit each way at most */
				assert_true(debt + (1ULL << from_shift) + (1ULL << to_shift) >= sources[i].debt_ns);
				assert_true(debt <= sources[i].debt_ns + (1ULL << from_shift) + (1ULL << to_shift));
			}
		}
	}
}

static void full_buckets_are_not_moved(void **state)
{
	struct slc_set from[2] = {0}, to[2] = {0};
	struct move move = {from, 2, 8, to, 2, 8, NOW};

	(void)state;
	from[0].way[3].word = slc_way_word(77, (NOW >> 8) - 5);
	from[1].way[0].word = slc_way_word(78, NOW >> 8);
	assert_int_equal(move_debts(&move), 0);
	for (int i = 0; i < SLC_WAYS; i++)
		assert_true(!to[0].way[i].word && !to[1].way[i].word);
}

static void the_larger_debt_wins(void **state)
{
	struct slc_set from[1] = {0}, to[1] = {0};
	struct move move = {from, 1, 8, to, 1, 8, NOW};
	struct source old = {.hash = 5ULL << 40, .debt_ns = 1000 << 8}, newer = old;

	(void)state;
	/* spent in the new range since the swap: kept */
	newer.debt_ns = 3000 << 8;
	put(from, 1, &old, 8, 0);
	put(to, 1, &newer, 8, 4);
	move_debts(&move);
	assert_int_equal(debt_of(to, 1, old.hash, 8), newer.debt_ns);
	/* spent in the old one until the swap: brought over */
	old.debt_ns = 5000 << 8;
	put(from, 1, &old, 8, 0);
	move_debts(&move);
	assert_int_equal(debt_of(to, 1, old.hash, 8), old.debt_ns);
	assert_true(!to[0].way[0].word); /* in the way it had, no second one */
}

static void folding_keeps_the_largest_debts(void **state)
{
	struct slc_set from[4] = {0}, to[1] = {0};
	struct move move = {from, 4, 8, to, 1, 8, NOW};

	(void)state;
	for (uint64_t i = 0; i < 4 * SLC_WAYS; i++) {
		struct source s = {.hash = (i + 1) << 40 | i % 4, .debt_ns = (i + 1) << 16};

		put(from, 4, &s, 8, (int)(i / 4));
	}
	assert_int_equal(move_debts(&move) > 0, 1);
	for (uint64_t i = 0; i < 4 * SLC_WAYS; i++)
		assert_int_equal(debt_of(to, 1, (i + 1) << 40, 8), i < 3 * SLC_WAYS ? 0 : (i + 1) << 16);
}

/* --- units ------------------------------------------------------------------------------------------------------------ */

#define S16 (16 * 1000000000ULL)

static void intervals_round_up_within_a_thousandth(void **state)
{
	uint32_t units = 42;

	(void)state;
	assert_int_equal(to_units(S16, 0, &units), 0);
	assert_int_equal(units, 1000000000);
	assert_int_equal(to_units(S16 + 1, 0, &units), 0);
	assert_int_equal(units, 1000000001);
	assert_int_equal(to_units(16 * 1000 + 1, 0, &units), 0); /* 1000.06 ns as 1001: 0.09 % */
	assert_int_equal(units, 1001);
	units = 42;
	assert_int_equal(to_units(16 * 100 + 1, 0, &units), -ERANGE); /* 100.06 ns as 101 */
	assert_int_equal(to_units(S16 * 1000, 0, &units), -ERANGE); /* beyond 32 bits */
	assert_int_equal(to_units(S16, 255, &units), -ERANGE);
	assert_int_equal(units, 42);
}

static void a_burst_of_n_stays_n(void **state)
{
	(void)state;
	for (int run = 0; run < 20000; run++) {
		uint64_t interval16 = 16000 + dice(60 * S16), burst = 1 + dice(5000);
		struct unit_bucket b = {.interval16 = interval16, .depth16 = interval16 * burst};
		uint8_t shift;
		size_t bad;

		assert_int_equal(choose_units(&b, 1, -1, &shift, &bad), 0);
		assert_int_equal(b.depth, burst * b.interval);
		assert_true(b.depth <= UNIT_DEPTH_BEST);
		assert_true((uint64_t)b.interval << (shift + 4) >= interval16);
		/* as fine as the depth allows: a smaller unit would not fit */
		assert_true(shift == 0 || (burst * interval16) >> (shift + 3) > UNIT_DEPTH_BEST - burst);
	}
}

static void an_old_unit_is_kept_while_it_fits(void **state)
{
	struct unit_bucket b = {.interval16 = S16, .depth16 = 40 * S16};
	uint8_t shift, again;
	size_t bad;

	(void)state;
	assert_int_equal(choose_units(&b, 1, -1, &shift, &bad), 0);
	b.depth16 *= 3; /* beyond 2^28 units, within 2^30 */
	assert_int_equal(choose_units(&b, 1, shift, &again, &bad), 0);
	assert_int_equal(again, shift);
	assert_true(b.depth > UNIT_DEPTH_BEST);
	b.depth16 *= 10;
	assert_int_equal(choose_units(&b, 1, shift, &again, &bad), 0);
	assert_true(again > shift);
	b = (struct unit_bucket){.interval16 = 16 * 1001, .depth16 = 16 * 1001}; /* 1 us: too short for that unit */
	assert_int_equal(choose_units(&b, 1, shift, &again, &bad), 0);
	assert_int_equal(again, 0);
}

static void rates_too_far_apart_are_refused(void **state)
{
	/* a million per second, and a burst that takes a day to come back: no unit is fine and wide enough */
	struct unit_bucket b[2] = {{.interval16 = 16 * 1001, .depth16 = 16 * 1001},
				   {.interval16 = 3600 * S16, .depth16 = 86400 * S16}};
	uint8_t shift = 99;
	size_t bad = 99;

	(void)state;
	assert_int_equal(choose_units(b, 2, -1, &shift, &bad), -ERANGE);
	assert_true(bad < 2);
	assert_int_equal(shift, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(powers_of_two),
		cmocka_unit_test(any_history_settles_in_two_rounds),
		cmocka_unit_test(a_range_of_the_target_size_stays),
		cmocka_unit_test(no_move_loses_or_forgives_a_debt),
		cmocka_unit_test(full_buckets_are_not_moved),
		cmocka_unit_test(the_larger_debt_wins),
		cmocka_unit_test(folding_keeps_the_largest_debts),
		cmocka_unit_test(intervals_round_up_within_a_thousandth),
		cmocka_unit_test(a_burst_of_n_stays_n),
		cmocka_unit_test(an_old_unit_is_kept_while_it_fits),
		cmocka_unit_test(rates_too_far_apart_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
