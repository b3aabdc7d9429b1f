// SPDX-License-Identifier: GPL-2.0-only
/*
 * test_pressure: a service in order of arrival, overloaded, hanging and neither, with clients whose patience ends; the
 * kernel's counters of it are made by the rules of abi.h, the rule is asked every 100 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/pressure.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define TICK_MS 100
#define SLOW_AFTER_MS 200
#define TURNS_MAX 400000

/* --- plant --------------------------------------------------------------------------------------------------------------- */

struct turn {
	uint64_t begun_ms;
	bool left; /* its client */
	bool gone; /* from the service's queue as well: it watches for clients who leave */
	bool in_tick, over_limit; /* began under pressure as the last tick had it; over its limit */
};

/* One connection per turn. A credit of 1000 is one turn of work. */
static struct plant {
	unsigned int rate, capacity, patience_ms;
	unsigned int delay_ms; /* of an answer, beside what it waits in turn */
	bool hangs, watches, closes_owed; /* the last: at its own timeout, without an answer */
	unsigned int own_timeout_ms;
	uint64_t now_ms, arrivals, credit;
	size_t head, tail, patient; /* of the queue; first turn whose client may still be there */
	struct turn turns[TURNS_MAX];
	struct pressure_input seen;
	struct pressure pressure;
	uint64_t last_answer_ms, last_close_ms;
	bool has_healthy_rate;
	double healthy_rate;
	uint64_t blamed_by_tick, blamed_by_limit; /* abandoned, and did not begin under pressure */
} plant;

static void start(unsigned int rate, unsigned int capacity, unsigned int patience_ms)
{
	memset(&plant, 0, sizeof(plant));
	plant.rate = rate;
	plant.capacity = capacity;
	plant.patience_ms = patience_ms;
	plant.now_ms = 1000000 + dice(100000);
	plant.seen.slow_after_ns = SLOW_AFTER_MS * MS;
}

static void clients_leave(void)
{
	while (plant.patient < plant.tail && plant.turns[plant.patient].begun_ms + plant.patience_ms <= plant.now_ms) {
		struct turn *turn = &plant.turns[plant.patient++];

		if (turn < &plant.turns[plant.head])
			continue; /* served */
		turn->left = true;
		plant.blamed_by_tick += !turn->in_tick;
		plant.blamed_by_limit += !turn->over_limit;
		plant.seen.in_flight--;
		if (plant.watches) {
			turn->gone = true;
			plant.seen.closed++;
			plant.last_close_ms = plant.now_ms;
		}
	}
}

static void serve_one(void)
{
	struct turn *turn = &plant.turns[plant.head++];

	plant.seen.closed++;
	plant.last_close_ms = plant.now_ms;
	if (turn->left) /* work for nobody */
		return;
	plant.seen.in_flight--;
	plant.seen.answered++;
	plant.last_answer_ms = plant.now_ms;
}

static void serve(void)
{
	plant.credit += plant.capacity;
	while (plant.head < plant.tail && plant.turns[plant.head].gone)
		plant.head++;
	if (plant.head == plant.tail && plant.credit > 1000)
		plant.credit = 1000; /* rest is not saved up */
	while (plant.credit >= 1000 && plant.head < plant.tail &&
	       plant.turns[plant.head].begun_ms + plant.delay_ms <= plant.now_ms) {
		if (!plant.turns[plant.head].gone) {
			plant.credit -= 1000;
			serve_one();
		} else {
			plant.head++;
		}
	}
}

/* A gateway whose upstream hangs: closes what it owes, at its own timeout. */
static void give_up(void)
{
	while (plant.head < plant.tail && plant.turns[plant.head].begun_ms + plant.own_timeout_ms <= plant.now_ms) {
		struct turn *turn = &plant.turns[plant.head++];

		plant.seen.closed++;
		if (turn->left)
			continue;
		plant.seen.failed++;
		plant.seen.in_flight--;
	}
}

static bool run_ms(unsigned int ms)
{
	for (; ms > 0; ms--) {
		plant.now_ms++;
		for (plant.arrivals += plant.rate / 2 + dice(plant.rate + 1); plant.arrivals >= 1000;
		     plant.arrivals -= 1000) {
			assert_true(plant.tail < TURNS_MAX);
			plant.turns[plant.tail++] = (struct turn){
				.begun_ms = plant.now_ms,
				.in_tick = plant.pressure.on,
				.over_limit = plant.pressure.works && plant.seen.in_flight >= plant.pressure.limit,
			};
			plant.seen.begun++;
			plant.seen.in_flight++;
		}
		clients_leave();
		if (!plant.hangs)
			serve();
		else if (plant.closes_owed)
			give_up();
		if (plant.now_ms % TICK_MS == 0) {
			plant.seen.now_ns = plant.now_ms * MS;
			plant.seen.has_healthy_rate = plant.has_healthy_rate;
			plant.seen.healthy_rate = plant.healthy_rate;
			pressure_tick(&plant.pressure, &plant.seen);
		}
	}
	return plant.pressure.on;
}

/* ms until it is on, or off; fails after `most`. */
static unsigned int ms_until(bool on, unsigned int most)
{
	unsigned int ms = 0;

	for (; plant.pressure.on != on; ms += 10) {
		if (ms > most)
			fail_msg("%u ms, and pressure is still %s", ms, on ? "off" : "on");
		run_ms(10);
	}
	return ms;
}

static void stays(bool on, unsigned int seconds)
{
	for (unsigned int i = 0; i < seconds * 10; i++)
		if (run_ms(100) != on)
			fail_msg("after %u ms pressure is %s: mu %.0f begun %.0f answered %.0f departed %.0f, %lu of "
				 "%.0f",
				 (i + 1) * 100, on ? "off" : "on", plant.pressure.mu, plant.pressure.begun,
				 plant.pressure.answered, plant.pressure.departed, plant.seen.in_flight,
				 plant.pressure.limit);
}

/* --- overload -------------------------------------------------------------------------------------------------------------- */

static void ten_times_overloaded_event_loop(void **state)
{
	static const struct {
		unsigned int patience_ms, healthy;
		bool watches;
	} rows[] = {
		{60000, 150, false}, /* patient: it answers at its full rate, ever later */
		{1500, 150, false}, /* impatient: from 1.5 s on it works for clients who have left */
		{1500, 150, true}, /* and one that sees them leave, and answers the newest */
		{300, 20, false},    {5000, 5, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		start(rows[i].healthy, 200, rows[i].patience_ms);
		plant.watches = rows[i].watches;
		stays(false, 12);
		plant.has_healthy_rate = true;
		plant.healthy_rate = rows[i].healthy;
		plant.rate = 2000;
		assert_true(ms_until(true, 300) <= 300);
		stays(true, 30);
		plant.rate = rows[i].healthy / 2;
		ms_until(false, rows[i].patience_ms + 2000);
		stays(false, 10);
	}
}

/*
 * An overload begins between two ticks. What begins until the next one and is abandoned later, is blamed on the service;
 * by the limit at each begin nothing is, at any rate that it has served before.
 */
static void what_begins_below_the_limit_is_answered(void **state)
{
	static const unsigned int healthy[] = {50, 100, 150, 190};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		start(healthy[i], 200, 300);
		run_ms(12000 + dice(100));
		plant.rate = 2000;
		run_ms(20000);
		assert_int_equal(plant.blamed_by_limit, 0);
		assert_in_range(plant.blamed_by_tick, 0, 2000 / 10 * 2);
	}
}

static void a_start_inside_a_storm(void **state)
{
	(void)state;
	start(2000, 200, 60000);
	assert_true(ms_until(true, 500) <= 500);
	stays(true, 20);
}

/* What came at once after a stall is not the rate that it can serve. */
static void a_burst_after_a_stall_does_not_blind_it(void **state)
{
	(void)state;
	start(180, 200, 60000);
	stays(false, 20);
	plant.hangs = true;
	run_ms(3000);
	plant.hangs = false;
	plant.capacity = 20000; /* all that waited, within 30 ms */
	run_ms(100);
	plant.capacity = 200;
	run_ms(1200);
	plant.rate = 2000;
	ms_until(true, 300);
	stays(true, 20);
}

/* --- failure --------------------------------------------------------------------------------------------------------------- */

static void a_hang_ends_it_within_a_second(void **state)
{
	static const struct {
		unsigned int rate, patience_ms;
		bool watches;
	} rows[] = {
		{2000, 60000, false}, {2000, 1500, false}, {300, 60000, false}, {180, 60000, false},
		{180, 1500, false},   {180, 1500, true}, /* closes as clients leave: at a load that it was seen to serve */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		start(180, 200, rows[i].patience_ms);
		plant.watches = rows[i].watches;
		stays(false, 12);
		plant.rate = rows[i].rate;
		run_ms(5000);
		assert_int_equal(plant.pressure.on, rows[i].rate > 200);
		plant.hangs = true;
		run_ms(1100);
		stays(false, 20);
	}
}

/* Each phase of the tick, counted from the last answer. */
static void never_longer_than_a_second_after_the_last_answer(void **state)
{
	(void)state;
	for (unsigned int phase = 0; phase < 100; phase += 7) {
		start(180, 200, 60000);
		run_ms(10000 + phase);
		plant.rate = 2000;
		run_ms(3000);
		assert_true(plant.pressure.on);
		plant.hangs = true;
		ms_until(false, 1100);
		assert_true(plant.now_ms - plant.last_answer_ms <= 1000);
	}
}

/* A gateway whose upstream hangs: it closes what it owes after 2 s, or says 504 then. Many in flight, none answered. */
static void failures_are_no_answers_and_no_departures(void **state)
{
	static const unsigned int rates[] = {180, 1000};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		start(180, 200, 60000);
		stays(false, 12);
		plant.hangs = plant.closes_owed = true;
		plant.own_timeout_ms = 2000;
		plant.rate = rates[i];
		run_ms(3000);
		assert_true(plant.seen.in_flight > 100);
		stays(false, 20);
	}
}

/* --- neither --------------------------------------------------------------------------------------------------------------- */

static void a_healthy_service_is_not_under_pressure(void **state)
{
	static const struct {
		unsigned int rate, capacity, delay_ms;
	} rows[] = {{1, 50, 150},  {3, 50, 150},     {10, 200, 150},   {100, 200, 0},
		    {180, 200, 0}, {1000, 2000, 20}, {1000, 2000, 150}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		start(rows[i].rate, rows[i].capacity, 60000);
		plant.delay_ms = rows[i].delay_ms;
		run_ms(1200); /* from nothing at all: until it is known for a second what it serves */
		stays(false, 120);
	}
	start(10, 200, 60000); /* and when it gets busy within its capacity */
	stays(false, 30);
	plant.rate = 185;
	stays(false, 30);
	plant.rate = 0;
	stays(false, 70);
}

/* Answers that take 0.5 s at the load it always had are slow: from the second second on the breaker may count them. */
static void slow_at_the_usual_load(void **state)
{
	(void)state;
	start(180, 2000, 60000);
	plant.delay_ms = 5;
	run_ms(1200);
	stays(false, 30);
	plant.delay_ms = 500;
	run_ms(2000);
	assert_true((double)plant.seen.in_flight > plant.pressure.limit);
	assert_false(plant.pressure.works);
	stays(false, 30);
	plant.delay_ms = 5; /* and then overloaded */
	plant.credit = 0;
	plant.rate = 4000;
	run_ms(300);
	stays(true, 5);
	plant.rate = 180; /* its backlog still is */
	run_ms(500);
	assert_true(plant.pressure.on);
}

static void without_answers_nothing_is_known(void **state)
{
	(void)state;
	start(500, 200, 60000);
	plant.hangs = true;
	stays(false, 30);
	assert_false(plant.pressure.has_mu);
}

static void no_rate_across_a_gap(void **state)
{
	struct pressure pressure = {0};
	struct pressure_input input = {.slow_after_ns = 200 * MS};

	(void)state;
	for (int i = 0; i < 20; i++) {
		input.now_ns += 100 * MS;
		input.answered += 20;
		input.begun += 200;
		input.in_flight += 180;
		pressure_tick(&pressure, &input);
	}
	assert_true(pressure.on);
	input.now_ns += 5 * S; /* the controller was away */
	input.answered += 20;
	assert_false(pressure_tick(&pressure, &input));
	input.now_ns += 100 * MS;
	assert_false(pressure_tick(&pressure, &input));
	input.now_ns += 100 * MS;
	input.answered += 40;
	assert_true(pressure_tick(&pressure, &input));
	input.answered = 0; /* another life: nothing is known */
	input.now_ns += 100 * MS;
	assert_false(pressure_tick(&pressure, &input));
	assert_false(pressure.has_mu);
	assert_int_equal(pressure.count, 1);
}

/* Answers to what waited before the start are not what it serves in a second. */
static void a_burst_at_the_start(void **state)
{
	struct pressure pressure = {0};
	struct pressure_input input = {.slow_after_ns = 200 * MS};

	(void)state;
	for (int i = 0; i < 100; i++) {
		input.now_ns += 100 * MS;
		input.answered += i == 1 ? 100 : 20;
		input.begun += 200;
		input.in_flight = 1000;
		assert_int_equal(pressure_tick(&pressure, &input), i >= 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_times_overloaded_event_loop),
		cmocka_unit_test(what_begins_below_the_limit_is_answered),
		cmocka_unit_test(a_start_inside_a_storm),
		cmocka_unit_test(a_burst_after_a_stall_does_not_blind_it),
		cmocka_unit_test(a_hang_ends_it_within_a_second),
		cmocka_unit_test(never_longer_than_a_second_after_the_last_answer),
		cmocka_unit_test(failures_are_no_answers_and_no_departures),
		cmocka_unit_test(a_healthy_service_is_not_under_pressure),
		cmocka_unit_test(slow_at_the_usual_load),
		cmocka_unit_test(without_answers_nothing_is_known),
		cmocka_unit_test(no_rate_across_a_gap),
		cmocka_unit_test(a_burst_at_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
