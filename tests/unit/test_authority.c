// SPDX-License-Identifier: GPL-2.0-only
/* test_authority: the two kinds of service and the one that nobody can steer, dwell, and a list of all ticks beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/authority.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define TICK (100 * MS)

static struct authority_view view;
static uint64_t now, begun, young;

static void start(void)
{
	view = (struct authority_view){0};
	now = 1000 * S;
	begun = 1000000; /* turns from before the start say nothing */
	young = 0;
}

/* One tick with so many turns begun, and of these on young connections. */
static bool tick(double occupancy, uint64_t head_age_ns, unsigned int turns, unsigned int on_young)
{
	struct authority_input input = {
		.now_ns = now += TICK,
		.has_head_age = true,
		.head_age_ns = head_age_ns,
		.target_ns = 100 * MS,
		.has_occupancy = true,
		.occupancy = occupancy,
		.turns_begun = begun += turns,
		.turns_young = young += on_young,
	};

	return authority_tick(&view, &input);
}

/* Ticks until the authority is `wanted`; fails when another change comes first or it takes more than 20 s. */
static unsigned int ticks_until(enum authority wanted, double occupancy, uint64_t head_age_ns, unsigned int turns,
				unsigned int on_young)
{
	for (unsigned int n = 1; n <= 200; n++)
		if (tick(occupancy, head_age_ns, turns, on_young)) {
			assert_int_equal(view.authority, wanted);
			return n;
		}
	fail_msg("never %s", authority_names[wanted]);
	return 0;
}

static void it_starts_as_accept(void **state)
{
	(void)state;
	start();
	assert_int_equal(view.authority, AUTHORITY_accept);
	assert_string_equal(authority_names[view.authority], "accept");
	for (int i = 0; i < 300; i++)
		assert_false(tick(0, 0, 0, 0)); /* at rest, for 30 s */
	for (int i = 0; i < 300; i++)
		assert_false(tick(i % 10 ? 0 : .06, 0, 0, 0)); /* opaque: no turns are seen */
	assert_int_equal(view.authority, AUTHORITY_accept);
}

/* Overloaded, it fills its queue: whatever connections its turns begin on. */
static void a_service_that_accepts_as_it_can_serve(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 200; i++)
		assert_false(tick(.5, 300 * MS, 20, 20));
	start();
	for (int i = 0; i < 200; i++)
		assert_false(tick(0, i % 5 ? 100 * MS : 101 * MS, 20, 0)); /* 20 % of the ticks, no more */
	assert_int_equal(view.authority, AUTHORITY_accept);
}

/* It never fills its queue; refusing connections helps where turns begin on new ones, and not on old ones. */
static void an_event_loop(void **state)
{
	double share;

	(void)state;
	start();
	assert_int_equal(ticks_until(AUTHORITY_inflight, .01, 0, 10, 2), 2 * S / TICK + 1 + 1);
	assert_true(authority_young_share(&view, now, &share));
	assert_true(share == .2);
	/* Its clients keep their connections: what began on young ones leaves the window, then 2 s. */
	assert_in_range(ticks_until(AUTHORITY_none, 0, 0, 10, 0), 2 * S / TICK, 4 * S / TICK);
	for (int i = 0; i < 300; i++)
		assert_false(tick(0, 0, 0, 0)); /* at rest it stays what it was */
	assert_false(authority_young_share(&view, now, &share));
	/* And now it blocks: 20 % of the ticks of 10 s, then 2 s. */
	assert_in_range(ticks_until(AUTHORITY_accept, .06, 0, 10, 0), 4 * S / TICK - 11, 4 * S / TICK + 11);
	assert_in_range(ticks_until(AUTHORITY_inflight, .05, 100 * MS, 10, 10), 8 * S / TICK, 12 * S / TICK);
}

/* Another one is right for 1.8 s, again and again: the time does not add up. */
static void dwell(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		if (round == 0)
			start();
		now += 10 * S; /* nothing is left in the window, and no tick was there to see that */
		for (int i = 0; i < 15; i++)
			assert_false(tick(0, 0, 100, round % 2 ? 100 : 0));
		for (int i = 0; i < 10; i++) /* from the fourth on a fifth of the ticks */
			assert_false(tick(.5, 0, 0, 0));
	}
	assert_int_equal(view.authority, AUTHORITY_accept);
}

static void gaps_and_other_lives(void **state)
{
	double share;

	(void)state;
	start();
	ticks_until(AUTHORITY_none, 0, 0, 10, 0);
	now += 3600 * S; /* an idle gap: what was before it is not counted */
	tick(0, 0, 4, 4);
	assert_true(authority_young_share(&view, now, &share));
	assert_true(share == 1);
	begun = young = 0; /* the slot's next owner */
	tick(0, 0, 7, 0);
	assert_true(authority_young_share(&view, now, &share));
	assert_true(share == 1);
	now -= 60 * S; /* clock back */
	tick(0, 0, 4, 0);
	assert_true(authority_young_share(&view, now, &share));
	assert_true(share == .5);
	assert_true(authority_young_share(&view, (view.newest + 10) * S - 1, &share));
	assert_false(authority_young_share(&view, (view.newest + 10) * S, &share));
}

/* --- beside a list ---------------------------------------------------------------------------------------------------------- */

#define TICKS 3000

static void ticks_against_a_list(void **state)
{
	static struct {
		uint64_t second, begun, young;
		bool marked;
	} list[TICKS];
	enum authority want = AUTHORITY_accept, next = AUTHORITY_accept;
	uint64_t since = 0, changes = 0;

	(void)state;
	start();
	for (int i = 0; i < TICKS; i++) {
		unsigned int mood = i / 150 % 5, turns = dice(12), on_young = mood % 2 ? turns : dice(100) < 15;
		bool marked = mood == 2 || mood == 3 ? dice(3) == 0 : dice(20) == 0;
		uint64_t ticks = 0, marks = 0, all = 0, youngs = 0;
		enum authority right;

		if (dice(100) == 0)
			now += dice(15 * S); /* late */
		if (on_young > turns)
			on_young = turns;
		tick(marked ? .06 : .05, 0, turns, on_young);
		list[i].second = now / S;
		list[i].begun = i ? turns : 0;
		list[i].young = i ? on_young : 0;
		list[i].marked = marked;
		for (int k = 0; k <= i; k++) {
			if (list[k].second + 10 <= now / S)
				continue;
			ticks++;
			marks += list[k].marked;
			all += list[k].begun;
			youngs += list[k].young;
		}
		right = marks >= .2 * ticks  ? AUTHORITY_accept
			: !all               ? want
			: youngs >= .2 * all ? AUTHORITY_inflight
					     : AUTHORITY_none;
		if (right == want) {
			next = want;
		} else if (right != next) {
			next = right;
			since = now;
		}
		if (next != want && now - since >= 2 * S) {
			want = next;
			changes++;
		}
		assert_int_equal(view.authority, want);
	}
	assert_true(changes >= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_starts_as_accept),  cmocka_unit_test(a_service_that_accepts_as_it_can_serve),
		cmocka_unit_test(an_event_loop),        cmocka_unit_test(dwell),
		cmocka_unit_test(gaps_and_other_lives), cmocka_unit_test(ticks_against_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
