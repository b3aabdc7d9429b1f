// SPDX-License-Identifier: GPL-2.0-only
/*
 * test_overdue: beside a kernel that starts, moves and finishes turns by the rules of abi.h, and that also remembers
 * every turn, so that it knows who got no answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/overdue.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define MARGIN_NS (10 * MS) /* as the code's */
#define TURNS_MAX 200000

/* --- kernel ------------------------------------------------------------------------------------------------------------- */

struct turn {
	uint64_t begun_ns;
	uint8_t cell, grade;
	bool proven; /* with grade pressure */
	bool over; /* finished within timeout, or moved */
	bool told; /* the model counted it as unanswered */
};

static struct kernel {
	struct slc_signals signals;
	struct slc_measure measure;
	uint64_t now_ns;
	struct turn turns[TURNS_MAX];
	size_t count, first; /* turns before `first` are over or told */
} kernel;

static uint8_t shift_of(uint64_t timeout_ns)
{
	uint8_t shift = 0;

	while (8ULL << shift < timeout_ns)
		shift++;
	return shift < 24 ? 24 : shift;
}

static void set_timeout(uint64_t timeout_ns)
{
	kernel.measure.timeout_ns = timeout_ns;
	kernel.measure.owed_shift = shift_of(timeout_ns);
}

/* Counters start anywhere: what earlier lives and rounds left, near the wrap of 32 bits too. */
static void kernel_start(uint64_t timeout_ns)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.now_ns = 1000 * S + dice(300 * S);
	kernel.signals.uid = 7;
	set_timeout(timeout_ns);
	for (int grade = 0; grade < SLC_GRADE_COUNT; grade++)
		for (int slot = 0; slot < SLC_TURN_SLOTS; slot++)
			kernel.signals.started[grade][slot] =
				(struct slc_turns){dice(1ULL << 32), UINT32_MAX - dice(5)};
	for (int i = 0; i < SLC_GRADE_COUNT * SLC_OWED_SLOTS * SLC_OWED_CELLS; i++)
		((uint32_t *)kernel.signals.owed)[i] = UINT32_MAX - dice(9);
}

static void note(const struct turn *turn, bool finished)
{
	struct slc_turns *slot =
		&kernel.signals.started[turn->grade][turn->begun_ns / SLC_TURN_SLOT_NS % SLC_TURN_SLOTS];
	uint64_t coarse = turn->begun_ns >> kernel.measure.owed_shift;

	if (finished)
		slot->finished++;
	else
		slot->started++;
	if (turn->grade != SLC_GRADE_pressure || turn->proven)
		kernel.signals.owed[turn->grade][coarse % SLC_OWED_SLOTS][turn->cell >> 2] += finished ? -1 : 1;
}

static struct turn *start_turn(uint8_t cell, uint8_t grade)
{
	struct turn *turn = &kernel.turns[kernel.count++];

	assert_true(kernel.count <= TURNS_MAX);
	*turn = (struct turn){.begun_ns = kernel.now_ns, .cell = cell, .grade = grade};
	note(turn, false);
	return turn;
}

static void finish_turn(struct turn *turn)
{
	if (turn->over || kernel.now_ns - turn->begun_ns >= kernel.measure.timeout_ns)
		return;
	turn->over = true;
	note(turn, true);
}

/* --- what must come out ------------------------------------------------------------------------------------------------------ */

struct truth {
	uint32_t grade[SLC_GRADE_COUNT], stale, total;
	uint32_t cells[2][SLC_OWED_CELLS];
};

/* Turns of slots that came of age since the last call, begun in a slot from `from` on. */
static void truth_take(uint64_t from, uint64_t since_ns, struct truth *truth)
{
	uint64_t end = (kernel.now_ns - kernel.measure.timeout_ns - MARGIN_NS) / SLC_TURN_SLOT_NS;

	memset(truth, 0, sizeof(*truth));
	for (size_t i = kernel.first; i < kernel.count; i++) {
		struct turn *turn = &kernel.turns[i];
		uint64_t slot = turn->begun_ns / SLC_TURN_SLOT_NS;

		if (slot >= end)
			break; /* turns are in order of their begin */
		kernel.first = i + 1;
		if (turn->over || turn->told || slot < from)
			continue;
		turn->told = true;
		truth->total++;
		if (slot * SLC_TURN_SLOT_NS < since_ns) {
			truth->stale++;
			continue;
		}
		truth->grade[turn->grade]++;
		if (turn->grade < 2)
			truth->cells[turn->grade][turn->cell >> 2]++;
	}
}

static uint32_t sum(const uint32_t cells[SLC_CELLS])
{
	uint32_t n = 0;

	for (int i = 0; i < SLC_CELLS; i++)
		n += cells[i];
	return n;
}

static void assert_counts(const struct overdue_counts *got, const struct truth *want)
{
	assert_int_equal(got->total, want->total);
	assert_int_equal(got->stale, want->stale);
	assert_int_equal(got->pressure, want->grade[SLC_GRADE_pressure]);
	assert_int_equal(sum(got->proven), want->grade[SLC_GRADE_proven]);
	assert_int_equal(sum(got->unproven), want->grade[SLC_GRADE_unproven]);
	assert_int_equal(got->total, sum(got->proven) + sum(got->unproven) + got->pressure + got->stale);
}

/* --- random schedules ----------------------------------------------------------------------------------------------------- */

/* Some turns begin, some are answered, some get a further request byte; in a hang none is answered. */
static void run_traffic(uint64_t ns, bool hangs)
{
	uint64_t end = kernel.now_ns + ns;

	while (kernel.now_ns < end) {
		kernel.now_ns += 1 + dice(40 * MS);
		if (kernel.now_ns > end)
			kernel.now_ns = end;
		for (uint64_t n = dice(4); n > 0; n--)
			start_turn(dice(SLC_CELLS), dice(SLC_GRADE_COUNT));
		for (uint64_t n = hangs ? 0 : dice(8); n > 0 && kernel.count > kernel.first; n--) {
			struct turn *turn = &kernel.turns[kernel.first + dice(kernel.count - kernel.first)];

			finish_turn(turn);
			if (turn->over && dice(10) == 0)
				start_turn(turn->cell, turn->grade); /* moved */
		}
	}
}

static void run_schedule(uint64_t timeout_ns)
{
	struct overdue *overdue = overdue_new();
	struct overdue_counts counts;
	struct truth truth;
	uint64_t from, since = 0, told = 0;

	kernel_start(timeout_ns);
	run_traffic(dice(4 * timeout_ns), dice(2));
	overdue_take(overdue, &kernel.signals, &kernel.measure, kernel.now_ns, since, &counts);
	assert_int_equal(counts.total, 0);
	from = kernel.now_ns / SLC_TURN_SLOT_NS + 1;
	truth_take(from, since, &truth);
	for (int tick = 0; tick < 900; tick++) {
		/* usually every 100 ms; now and then late, but for less than the ring less timeout */
		run_traffic(dice(100) ? 100 * MS : dice(128 * S - timeout_ns - 400 * MS) / (1 + dice(9)), dice(3) == 0);
		if (dice(40) == 0)
			since = kernel.now_ns - dice(2 * timeout_ns);
		overdue_take(overdue, &kernel.signals, &kernel.measure, kernel.now_ns, since, &counts);
		truth_take(from, since, &truth);
		assert_counts(&counts, &truth);
		told += truth.total;
	}
	assert_true(told > 100);
	overdue_free(&overdue);
	assert_null(overdue);
}

static void totals_are_exact_under_random_schedules(void **state)
{
	static const uint64_t timeouts[] = {100 * MS, 350 * MS, 1 * S, 5 * S, 60 * S};

	(void)state;
	for (int i = 0; i < 15; i++)
		run_schedule(timeouts[i % 5]);
}

/* --- by hand -------------------------------------------------------------------------------------------------------------- */

static struct overdue_counts take_at(struct overdue *overdue, uint64_t now_ns, uint64_t since_ns)
{
	struct overdue_counts counts;

	kernel.now_ns = now_ns;
	overdue_take(overdue, &kernel.signals, &kernel.measure, now_ns, since_ns, &counts);
	return counts;
}

static void an_answer_in_time_and_one_too_late(void **state)
{
	struct overdue *overdue = overdue_new();
	struct turn *in_time, *too_late;
	struct overdue_counts counts;

	(void)state;
	kernel_start(1 * S);
	take_at(overdue, 2000 * S, 0);
	kernel.now_ns = 2001 * S;
	in_time = start_turn(8, SLC_GRADE_proven);
	too_late = start_turn(9, SLC_GRADE_proven);
	start_turn(200, SLC_GRADE_unproven);
	start_turn(201, SLC_GRADE_pressure);
	assert_int_equal(overdue_in_flight(overdue, &kernel.signals, kernel.now_ns), 4);
	kernel.now_ns += 1 * S - 1;
	finish_turn(in_time);
	kernel.now_ns += 1;
	finish_turn(too_late);
	assert_int_equal(take_at(overdue, 2002 * S + 100 * MS + MARGIN_NS - 1, 0).total, 0);
	assert_int_equal(overdue_in_flight(overdue, &kernel.signals, kernel.now_ns), 3);
	counts = take_at(overdue, 2002 * S + 100 * MS + MARGIN_NS, 0);
	assert_int_equal(counts.total, 3);
	assert_int_equal(counts.proven[8], 1);
	assert_int_equal(counts.unproven[200], 1);
	assert_int_equal(counts.pressure, 1);
	assert_int_equal(overdue_in_flight(overdue, &kernel.signals, kernel.now_ns), 0);
	assert_int_equal(take_at(overdue, 2003 * S, 0).total, 0); /* once */
	overdue_free(&overdue);
}

/* A slot is used again 128 s later: what it holds from before is not counted again. */
static void the_ring_goes_round(void **state)
{
	struct overdue *overdue = overdue_new();
	uint64_t total = 0, now = 2000 * S;

	(void)state;
	kernel_start(2 * S);
	take_at(overdue, now, 0);
	for (int tick = 0; tick < 4 * SLC_TURN_SLOTS; tick++) {
		now += 100 * MS;
		kernel.now_ns = now;
		if (tick % 4 == 0)
			start_turn(1, SLC_GRADE_proven);
		total += take_at(overdue, now, 0).total;
	}
	assert_int_equal(total, SLC_TURN_SLOTS - 5); /* of 0.3, 0.7, 1.1, 1.5 and 1.9 s: not of age */
	overdue_free(&overdue);
}

static void a_late_controller(void **state)
{
	static const struct {
		uint64_t late_ns;
		uint32_t total;
	} rows[] = {{20 * S, 5}, {125 * S, 5}, {129 * S, 0}, {10000 * S, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct overdue *overdue = overdue_new();
		uint64_t now;

		kernel_start(2 * S);
		take_at(overdue, 2000 * S, 0);
		kernel.now_ns = 2000 * S + 100 * MS;
		for (int n = 0; n < 5; n++)
			start_turn(1, SLC_GRADE_proven);
		now = 2000 * S + rows[i].late_ns;
		assert_int_equal(take_at(overdue, now, 0).total, rows[i].total);
		kernel.now_ns = now + 200 * MS; /* and then as ever */
		start_turn(1, SLC_GRADE_proven);
		assert_int_equal(take_at(overdue, now + 4 * S, 0).total, 1);
		overdue_free(&overdue);
	}
}

/* Bases anew: turns that were under way are not known, those begun after are; also for another owner of the slot. */
static void a_change_of_timeout(void **state)
{
	static const struct {
		uint64_t timeout_ns;
		uint32_t uid, total;
	} rows[] = {{2 * S, 7, 6}, {1 * S, 7, 4}, {30 * S, 7, 4}, {2 * S, 8, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct overdue *overdue = overdue_new();

		kernel_start(2 * S);
		take_at(overdue, 2000 * S, 0);
		kernel.now_ns = 2001 * S;
		start_turn(1, SLC_GRADE_proven);
		start_turn(1, SLC_GRADE_unproven);
		set_timeout(rows[i].timeout_ns);
		kernel.signals.uid = rows[i].uid;
		take_at(overdue, 2001 * S + 500 * MS, 0);
		kernel.now_ns = 2002 * S;
		for (int n = 0; n < 4; n++)
			start_turn(1, SLC_GRADE_proven);
		assert_int_equal(take_at(overdue, 2002 * S + rows[i].timeout_ns + 200 * MS, 0).total, rows[i].total);
		overdue_free(&overdue);
	}
}

static void c86_turns_of_an_older_generation_are_stale(void **state)
{
	struct overdue *overdue = overdue_new();
	struct overdue_counts counts;

	(void)state;
	kernel_start(2 * S);
	take_at(overdue, 2000 * S, 0);
	kernel.now_ns = 2001 * S + 99 * MS;
	start_turn(1, SLC_GRADE_proven);
	start_turn(1, SLC_GRADE_pressure);
	kernel.now_ns = 2001 * S + 100 * MS;
	start_turn(50, SLC_GRADE_unproven);
	counts = take_at(overdue, 2004 * S, 2001 * S + 50 * MS);
	assert_int_equal(counts.total, 3);
	assert_int_equal(counts.stale, 2);
	assert_int_equal(counts.pressure, 0);
	assert_int_equal(sum(counts.proven), 0);
	assert_int_equal(counts.unproven[48], 1);
	overdue_free(&overdue);
}

/* --- who owed it ------------------------------------------------------------------------------------------------------------ */

/* Services that answer others at once: every unanswered turn is the hanging sources', and each is in its own cell. */
static void cells_are_exact_where_others_are_answered(void **state)
{
	static const uint64_t timeouts[] = {100 * MS, 1 * S, 7 * S, 60 * S};

	(void)state;
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(*timeouts); i++) {
		struct overdue *overdue = overdue_new();
		uint32_t begun[SLC_CELLS] = {0}, got[SLC_CELLS] = {0};
		uint64_t now = 2000 * S, end = now + 4 * timeouts[i];

		kernel_start(timeouts[i]);
		take_at(overdue, now, 0);
		for (now += 100 * MS; now < end + 2 * timeouts[i] + 500 * MS; now += 20 * MS) {
			kernel.now_ns = now;
			finish_turn(start_turn(dice(SLC_CELLS), SLC_GRADE_proven));
			if (now < end && dice(3) == 0) {
				uint8_t cell = dice(4) ? 12 : 4 * dice(64);

				start_turn(cell, SLC_GRADE_proven);
				begun[cell]++;
			}
			if (now % (100 * MS) == 0) {
				struct overdue_counts counts = take_at(overdue, now, 0);

				for (int c = 0; c < SLC_CELLS; c++)
					got[c] += counts.proven[c];
			}
		}
		for (int c = 0; c < SLC_CELLS; c++)
			assert_int_equal(got[c], begun[c]);
		overdue_free(&overdue);
	}
}

/*
 * Answers that come shortly before timeout: turns under way in the same coarse slot cannot be told from those that will
 * get no answer, but what a cell is given is its share to within a few.
 */
static void cells_are_in_proportion_else(void **state)
{
	struct overdue *overdue = overdue_new();
	uint32_t got[4] = {0}, begun[4] = {0}, all = 0;
	uint64_t now = 2000 * S;
	size_t answered = 0;

	(void)state;
	kernel_start(8 * S);
	take_at(overdue, now, 0);
	for (now += 100 * MS; now < 2060 * S; now += 10 * MS) {
		struct turn *turn;
		uint8_t owner = dice(10) < 6 ? 0 : 1 + dice(3);

		kernel.now_ns = now;
		if (now < 2050 * S) {
			turn = start_turn(owner * 16, SLC_GRADE_proven);
			turn->told = owner == 3 || dice(2); /* will be answered */
			begun[owner] += !turn->told;
		}
		for (; kernel.turns[answered].begun_ns + 7900 * MS <= now && answered < kernel.count; answered++)
			if (kernel.turns[answered].told)
				finish_turn(&kernel.turns[answered]);
		if (now % (100 * MS) == 0) {
			struct overdue_counts counts = take_at(overdue, now, 0);

			for (int i = 0; i < 4; i++)
				got[i] += counts.proven[i * 16];
			all += counts.total;
		}
	}
	assert_int_equal(all, begun[0] + begun[1] + begun[2]);
	assert_int_equal(all, got[0] + got[1] + got[2] + got[3]);
	for (int i = 0; i < 3; i++) {
		assert_true(got[i] * 10 > begun[i] * 8);
		assert_true(got[i] * 10 < begun[i] * 12);
	}
	assert_true(got[3] * 10 < all);
	overdue_free(&overdue);
}

/* Whose they are is not known when the coarse slots were under way at the first look: one source's, not everybody's. */
static void unknown_owners_are_one_source(void **state)
{
	struct overdue *overdue = overdue_new();
	struct overdue_counts counts;
	uint64_t begun;

	(void)state;
	kernel_start(60 * S);
	kernel.now_ns = 2000 * S;
	for (int n = 0; n < 64; n++)
		start_turn(4 * n, SLC_GRADE_proven);
	take_at(overdue, 2000 * S, 0);
	kernel.now_ns = 2000 * S + 1;
	for (int n = 0; n < 64; n++)
		finish_turn(&kernel.turns[n]);
	kernel.now_ns = 2000 * S + 100 * MS;
	for (int n = 0; n < 5; n++)
		start_turn(4 * n, SLC_GRADE_proven);
	counts = take_at(overdue, 2061 * S, 0);
	assert_int_equal(counts.total, 5);
	assert_int_equal(counts.proven[0], 5);

	/* The same coarse slot, a round later: known again. */
	begun = 2000 * S + (32ULL << kernel.measure.owed_shift) + 200 * MS;
	for (uint64_t now = 2062 * S; now < begun; now += 1 * S)
		take_at(overdue, now, 0);
	kernel.now_ns = begun;
	for (int n = 0; n < 5; n++)
		start_turn(40 + 4 * n, SLC_GRADE_proven);
	counts = take_at(overdue, begun + 61 * S, 0);
	for (int n = 0; n < 5; n++)
		assert_int_equal(counts.proven[40 + 4 * n], 1);
	overdue_free(&overdue);
}

/* --- who waits ------------------------------------------------------------------------------------------------------------ */

static struct overdue_waiting waiting_at(struct overdue *overdue, uint64_t now_ns, uint64_t span_ns)
{
	take_at(overdue, now_ns, 0);
	return overdue_waiting(overdue, &kernel.signals, now_ns, span_ns);
}

/* Before and after their time is over alike, until the span has passed; an answer in time takes it back. */
static void who_waits_is_known_for_the_span(void **state)
{
	static const uint64_t timeouts[] = {100 * MS, 1 * S, 5 * S, 60 * S};

	(void)state;
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(*timeouts); i++) {
		const uint64_t span = 2 * timeouts[i];
		struct overdue *overdue = overdue_new();
		struct overdue_waiting waiting;
		uint64_t begun = 2000 * S + 150 * MS, seen = 0;
		struct turn *answered;

		kernel_start(timeouts[i]);
		take_at(overdue, 2000 * S, 0);
		kernel.now_ns = begun;
		start_turn(8, SLC_GRADE_proven);
		start_turn(9, SLC_GRADE_proven); /* the same coarse cell */
		start_turn(80, SLC_GRADE_proven);
		for (int n = 0; n < 5; n++)
			start_turn(100 + 4 * n, SLC_GRADE_unproven);
		answered = start_turn(200, SLC_GRADE_proven);
		waiting = waiting_at(overdue, begun + MS, span);
		assert_int_equal(waiting.proven, 3);
		assert_int_equal(waiting.unproven, 5);
		kernel.now_ns = begun + timeouts[i] / 2;
		finish_turn(answered);
		for (uint64_t now = kernel.now_ns; now < begun + 3 * span; now += timeouts[i] / 20) {
			waiting = waiting_at(overdue, now, span);
			assert_true(waiting.proven == 2 || (!waiting.proven && now > begun + span / 2));
			assert_true(waiting.unproven == (waiting.proven ? 5 : 0));
			if (waiting.proven)
				seen = now;
		}
		/* Never longer than the span: what began before the silence says nothing of it. */
		assert_in_range(seen, begun + span - span / 4, begun + span);
		overdue_free(&overdue);
	}
}

/* Under pressure only of proven sources; rounds later what they left is no longer there. */
static void who_waits_under_pressure(void **state)
{
	struct overdue *overdue = overdue_new();
	struct overdue_waiting waiting;
	struct turn *turn;

	(void)state;
	kernel_start(5 * S);
	take_at(overdue, 2000 * S, 0);
	for (uint64_t now = 2000 * S + 100 * MS; now < 2400 * S; now += 100 * MS) {
		kernel.now_ns = now;
		start_turn(4 * (now / (100 * MS) % 10), SLC_GRADE_pressure);
		if (now % (1 * S) == 0 && now < 2200 * S) {
			turn = &kernel.turns[kernel.count++];
			*turn = (struct turn){now, .cell = 100, .grade = SLC_GRADE_pressure, .proven = true};
			note(turn, false);
		}
		waiting = waiting_at(overdue, now, 10 * S);
		assert_int_equal(waiting.proven, now >= 2001 * S && now < 2208 * S  ? 1
						 : now > 2210 * S || now < 2001 * S ? 0
										    : waiting.proven);
		assert_int_equal(waiting.unproven, 0);
	}
	overdue_free(&overdue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_are_exact_under_random_schedules),
		cmocka_unit_test(an_answer_in_time_and_one_too_late),
		cmocka_unit_test(the_ring_goes_round),
		cmocka_unit_test(a_late_controller),
		cmocka_unit_test(a_change_of_timeout),
		cmocka_unit_test(c86_turns_of_an_older_generation_are_stale),
		cmocka_unit_test(cells_are_exact_where_others_are_answered),
		cmocka_unit_test(cells_are_in_proportion_else),
		cmocka_unit_test(unknown_owners_are_one_source),
		cmocka_unit_test(who_waits_is_known_for_the_span),
		cmocka_unit_test(who_waits_under_pressure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
