// SPDX-License-Identifier: GPL-2.0-only
/*
 * test_window: the sliding window of outcomes beside a list that keeps every one of them and adds up those of the time
 * asked for; its weights beside a cap that is found by bisection.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/window.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define DAY (86400 * S)

/* --- model ------------------------------------------------------------------------------------------------------------- */

#define LIST_MAX 4096

static struct list {
	uint64_t width_ns;
	unsigned int buckets;
	size_t count;
	uint64_t newest_ns; /* start of the newest bucket */
	struct sample samples[LIST_MAX]; /* at_ns: start of their bucket */
	uint64_t second[LIST_MAX], sources[LIST_MAX]; /* of no_listener, so far in its second */
} list;

static void list_start(uint64_t width_ns, unsigned int buckets)
{
	list.width_ns = width_ns;
	list.buckets = buckets;
	list.count = 0;
	list.newest_ns = 0;
}

static void list_add(const struct sample *sample)
{
	struct sample *to = &list.samples[list.count];

	assert_true(list.count < LIST_MAX);
	*to = *sample;
	to->at_ns = sample->at_ns / list.width_ns * list.width_ns;
	if (to->at_ns < list.newest_ns)
		to->at_ns = list.newest_ns;
	list.newest_ns = to->at_ns;
	list.second[list.count] = sample->at_ns / S;
	list.sources[list.count] = sample->always ? sample->always_sources : 0;
	for (size_t i = list.count; sample->always && i-- > 0;) {
		if (!list.samples[i].always)
			continue;
		if (list.second[i] == list.second[list.count])
			list.sources[list.count] += list.sources[i];
		break;
	}
	list.count++;
}

struct model {
	uint64_t success[SLC_CELLS], failure[SLC_CELLS], unproven[SLC_CELLS], slow[SLC_CELLS];
	uint64_t known_success, known_failure, always, always_sources;
};

/* Everything in buckets whose start is in (after, now]; `after` < 0 when there is no lower bound yet. */
static void list_sum(int64_t after_ns, uint64_t now_ns, struct model *m)
{
	memset(m, 0, sizeof(*m));
	if (now_ns < list.newest_ns)
		now_ns = list.newest_ns;
	for (size_t i = 0; i < list.count; i++) {
		const struct sample *s = &list.samples[i];

		if ((int64_t)s->at_ns <= after_ns || s->at_ns > now_ns)
			continue;
		for (int c = 0; c < SLC_CELLS; c++) {
			m->success[c] += s->cells[c].success;
			m->failure[c] += s->cells[c].failure;
			m->unproven[c] += s->cells[c].unproven;
			m->slow[c] += s->cells[c].slow;
		}
		m->known_success += s->known_success;
		m->known_failure += s->known_failure;
		m->always += s->always;
		if (m->always_sources < list.sources[i])
			m->always_sources = list.sources[i];
	}
}

/* Largest k with sum(min(n, k)) >= parts x k, by bisection; no cell is larger than the answer when none is capped. */
static double bisect_cap(const double n[SLC_CELLS], double parts)
{
	double low = 0, high = 0;

	for (int c = 0; c < SLC_CELLS; c++)
		high = fmax(high, n[c]);
	for (int round = 0; round < 80; round++) {
		double k = round ? (low + high) / 2 : high, sum = 0;

		for (int c = 0; c < SLC_CELLS; c++)
			sum += fmin(n[c], k);
		if (sum >= parts * k)
			low = k;
		else
			high = k;
		if (!round && low == high)
			break;
	}
	return low;
}

static void model_weigh(const struct model *m, bool unproven, struct tally *t)
{
	double n[SLC_CELLS], cap = INFINITY, raw = 0, weight = 0;

	*t = (struct tally){0};
	for (int c = 0; c < SLC_CELLS; c++) {
		uint64_t failure = m->failure[c] + (unproven ? m->unproven[c] : 0);

		n[c] = m->success[c] + failure;
		raw += n[c];
		t->active += n[c] > 0;
		t->failing += failure > 0;
		t->failures += failure;
		t->outcomes += m->success[c] + failure;
		t->discounted += unproven ? 0 : m->unproven[c];
	}
	if (t->active >= 5)
		cap = bisect_cap(n, t->active >= 20 ? 20 : 5);
	for (int c = 0; c < SLC_CELLS; c++) {
		double scale = n[c] > cap ? cap / n[c] : 1;

		if (n[c] == 0)
			continue;
		weight += scale * n[c];
		t->success_weight += scale * m->success[c];
		t->failure_weight += scale * (m->failure[c] + (unproven ? m->unproven[c] : 0));
		t->slow_weight += scale * m->slow[c];
	}
	t->failure_weight += m->always * (raw > 0 ? weight / raw : 1);
	t->failures += m->always;
	t->outcomes += m->always;
}

static double rate_of(double success, double failure)
{
	return failure / (success + failure);
}

/* As many as keep the rate at that of known-good sources, by bisection. */
static void model_add_unproven(const struct model *m, double known_rate, struct tally *t)
{
	double average = (t->success_weight + t->failure_weight) / t->outcomes;
	unsigned int failing = 0, active = 0;
	uint64_t counted = 0;

	for (uint64_t step = 1ULL << 40; step > 0; step /= 2) {
		double failure = t->failure_weight + average * (counted + step);

		if (counted + step <= t->discounted && rate_of(t->success_weight, failure) <= known_rate * (1 + 1e-12))
			counted += step;
	}
	for (int c = 0; c < SLC_CELLS; c++) {
		failing += m->unproven[c] && !m->failure[c];
		active += m->unproven[c] && !m->failure[c] && !m->success[c];
	}
	t->failure_weight += average * counted;
	t->failures += counted;
	t->outcomes += counted;
	t->discounted -= counted;
	t->failing += fmin(failing, counted);
	t->active += fmin(active, counted);
}

static void model_tally(const struct model *m, struct tally *t)
{
	double known_rate = rate_of(m->known_success, m->known_failure);
	struct tally with;

	model_weigh(m, false, t);
	model_weigh(m, true, &with);
	if (m->known_failure >= 5 && t->discounted) {
		if (rate_of(with.success_weight, with.failure_weight) <= known_rate * (1 + 1e-12))
			*t = with;
		else if (t->outcomes)
			model_add_unproven(m, known_rate, t);
	}
	if (t->failing < m->always_sources)
		t->failing = m->always_sources;
	if (t->active < t->failing)
		t->active = t->failing;
	t->has_rate = t->outcomes > 0;
	if (t->has_rate) {
		t->failure_rate = rate_of(t->success_weight, t->failure_weight);
		t->slow_rate = t->slow_weight / (t->failure_weight + t->success_weight);
	}
}

static void model_sum(uint64_t now_ns, struct tally *t)
{
	static struct model m;

	if (now_ns < list.newest_ns)
		now_ns = list.newest_ns;
	list_sum((int64_t)now_ns - (int64_t)(list.width_ns * list.buckets), now_ns, &m);
	model_tally(&m, t);
}

/* Tries one bucket, two, ... */
static void model_newest(uint64_t now_ns, uint64_t outcomes, uint64_t within_ns, struct tally *t)
{
	static struct model m;
	int64_t now, floor, after;

	if (now_ns < list.newest_ns)
		now_ns = list.newest_ns;
	now = now_ns;
	floor = now - (int64_t)(list.width_ns * list.buckets);
	if (floor < now - (int64_t)within_ns)
		floor = now - (int64_t)within_ns;
	for (after = now / list.width_ns * list.width_ns - 1;; after -= list.width_ns) {
		uint64_t certain;

		list_sum(after < floor ? floor : after, now_ns, &m);
		certain = m.always;
		for (int c = 0; c < SLC_CELLS; c++)
			certain += m.success[c] + m.failure[c];
		if (certain >= outcomes || after < floor)
			break;
	}
	model_tally(&m, t);
}

static void assert_close(double a, double b)
{
	if (fabs(a - b) > 1e-6 * (1 + fabs(a)))
		fail_msg("%.12g is not %.12g", a, b);
}

static void assert_tally(const struct tally *got, const struct tally *want)
{
	assert_int_equal(got->outcomes, want->outcomes);
	assert_int_equal(got->failures, want->failures);
	assert_int_equal(got->discounted, want->discounted);
	assert_int_equal(got->active, want->active);
	assert_int_equal(got->failing, want->failing);
	assert_int_equal(got->has_rate, want->has_rate);
	assert_close(got->success_weight, want->success_weight);
	assert_close(got->failure_weight, want->failure_weight);
	assert_close(got->slow_weight, want->slow_weight);
	assert_close(got->failure_rate, want->failure_rate);
	assert_close(got->slow_rate, want->slow_rate);
}

/* --- schedules ---------------------------------------------------------------------------------------------------------- */

static uint32_t few(void)
{
	return dice(3) ? 0 : dice(1ULL << (1 + dice(10)));
}

static void throw_sample(struct sample *sample, unsigned int cells)
{
	memset(sample, 0, sizeof(*sample));
	for (uint64_t n = dice(cells + 1); n > 0; n--) {
		struct cell_counts *cell = &sample->cells[dice(cells)];

		*cell = (struct cell_counts){.success = few(), .failure = few(), .unproven = few()};
		cell->slow = cell->success ? dice(cell->success) : 0;
	}
	if (dice(4) == 0)
		sample->known_failure = few();
	if (dice(3) == 0)
		sample->known_success = few();
	if (dice(5) == 0) {
		sample->always = 1 + dice(4);
		sample->always_sources = sample->always;
	}
}

/* From nothing over edges to gaps of more than 2^32 buckets. */
static uint64_t throw_step(uint64_t now_ns)
{
	uint64_t width = list.width_ns, length = width * list.buckets;

	switch (dice(12)) {
	case 0:
		return 0;
	case 1: /* to an edge, or one ns from it */
		return width - now_ns % width - 1 + dice(3);
	case 2:
		return width;
	case 3:
		return length * 95 / 100;
	case 4:
		return length - 1 + dice(3);
	case 5:
		return dice(20) || width > 100 * MS || now_ns > 1ULL << 60 ? dice(3 * length)
									   : width * ((1ULL << 32) + dice(3));
	default:
		return dice(width);
	}
}

static void ask_both(const struct window *window, uint64_t now_ns)
{
	struct tally got, want;
	uint64_t outcomes = 1 + dice(3000), within = dice(2) ? dice(2 * list.width_ns * list.buckets) + 1 : 10 * S;

	window_sum(window, now_ns, &got);
	model_sum(now_ns, &want);
	assert_tally(&got, &want);
	window_newest(window, now_ns, outcomes, within, &got);
	model_newest(now_ns, outcomes, within, &want);
	assert_tally(&got, &want);
}

static void run_schedule(uint64_t width_ns, unsigned int buckets, unsigned int cells)
{
	struct window *window = window_new(width_ns, buckets);
	uint64_t now = dice(2) ? dice(10 * width_ns) : dice(DAY);
	struct sample sample;

	list_start(width_ns, buckets);
	for (int i = 0; i < 150; i++) {
		now += throw_step(now);
		sample.at_ns = 0;
		throw_sample(&sample, cells);
		sample.at_ns = now;
		if (dice(20) == 0) /* clock back */
			sample.at_ns -= dice(sample.at_ns + 1);
		if (dice(8)) {
			window_add(window, &sample);
			list_add(&sample);
		}
		ask_both(window, dice(3) ? now : now + throw_step(now));
		if (dice(20) == 0)
			ask_both(window, dice(now + 1));
	}
	window_free(&window);
	assert_null(window);
}

static void schedules_against_a_list(void **state)
{
	static const uint64_t widths[] = {1, 7, 100 * MS, 1 * S, 6 * S};
	static const unsigned int buckets[] = {1, 2, 10, 60, WINDOW_BUCKETS_MAX};
	static const unsigned int cells[] = {1, 3, 5, 19, 20, 64, SLC_CELLS};

	(void)state;
	for (int i = 0; i < 70; i++)
		run_schedule(widths[i % 5], buckets[dice(5)], cells[i % 7]);
}

/* --- time, by hand -------------------------------------------------------------------------------------------------------- */

static void add(struct window *window, uint64_t at_ns, unsigned int cell, uint32_t success, uint32_t failure)
{
	struct sample sample = {.at_ns = at_ns};

	sample.cells[cell].success = success;
	sample.cells[cell].failure = failure;
	window_add(window, &sample);
}

static uint64_t outcomes_at(const struct window *window, uint64_t now_ns)
{
	struct tally tally;

	window_sum(window, now_ns, &tally);
	return tally.outcomes;
}

static void edges_are_exact(void **state)
{
	struct window *window = window_new(100 * MS, 10);

	(void)state;
	add(window, 1 * S - 1, 0, 1, 0); /* bucket [0.9 s, 1 s) */
	add(window, 1 * S, 0, 10, 0);
	assert_int_equal(outcomes_at(window, 1 * S), 11);
	assert_int_equal(outcomes_at(window, 1900 * MS - 1), 11);
	assert_int_equal(outcomes_at(window, 1900 * MS), 10); /* 0.9 s is not in (0.9 s, 1.9 s] */
	assert_int_equal(outcomes_at(window, 2 * S - 1), 10);
	assert_int_equal(outcomes_at(window, 2 * S), 0);
	window_clear(window);
	assert_int_equal(outcomes_at(window, 1 * S), 0);
	add(window, 0, 0, 3, 0); /* time before the cleared buckets is new again */
	assert_int_equal(outcomes_at(window, 0), 3);
	window_free(&window);
}

/* Success, success, and a failure in the first tick of the next bucket: it is in the sum of that tick. */
static void c91_the_outcome_that_rotates_is_counted(void **state)
{
	struct window *window = window_new(100 * MS, 10);
	struct tally tally;

	(void)state;
	add(window, 10 * MS, 0, 1, 0);
	add(window, 20 * MS, 0, 1, 0);
	add(window, 100 * MS, 0, 0, 1);
	window_sum(window, 100 * MS, &tally);
	assert_int_equal(tally.outcomes, 3);
	assert_int_equal(tally.failures, 1);
	assert_close(tally.failure_rate, 1. / 3);
	window_free(&window);
}

static void c92_idle_gaps(void **state)
{
	static const struct {
		uint64_t gap_ns, outcomes, failures;
	} rows[] = {
		{899 * MS, 6, 5}, {900 * MS, 6, 5}, /* still in the last bucket of the window */
		{950 * MS, 6, 5}, {1000 * MS, 1, 0},        {1050 * MS, 1, 0},
		{10 * S, 1, 0},   {(100 * MS) << 32, 1, 0}, {((100 * MS) << 32) + 1 * S, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct window *window = window_new(100 * MS, 10);
		struct tally tally;

		add(window, 5 * S, 0, 0, 5);
		window_sum(window, 5 * S + rows[i].gap_ns, &tally);
		assert_int_equal(tally.outcomes, rows[i].failures);
		add(window, 5 * S + rows[i].gap_ns, 0, 1, 0);
		window_sum(window, 5 * S + rows[i].gap_ns, &tally);
		assert_int_equal(tally.outcomes, rows[i].outcomes);
		assert_int_equal(tally.failures, rows[i].failures);
		window_free(&window);
	}
}

static void c94_clock_moved_back(void **state)
{
	static const uint64_t back[] = {1 * MS, 100 * MS, 1 * S, DAY};
	uint64_t now = 2 * DAY;

	(void)state;
	for (size_t i = 0; i < sizeof(back) / sizeof(*back); i++) {
		struct window *window = window_new(100 * MS, 10);

		add(window, now, 0, 10, 0);
		assert_int_equal(outcomes_at(window, now - back[i]), 10);
		add(window, now - back[i], 0, 1, 0);
		assert_int_equal(outcomes_at(window, now - back[i]), 11);
		assert_int_equal(outcomes_at(window, now), 11);
		add(window, now + 500 * MS, 0, 1, 0); /* forward again */
		assert_int_equal(outcomes_at(window, now + 500 * MS), 12);
		assert_int_equal(outcomes_at(window, now + 1 * S), 1);
		window_free(&window);
	}
}

/* Operations of 11 s in a window of 10 s, 5 begun each second: filed when they end, so that each is seen. */
static void c95_operations_longer_than_the_window(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct tally tally;

	(void)state;
	for (uint64_t begun = 0; begun < 60 * S; begun += 200 * MS) {
		uint64_t ended = begun + 11 * S;

		add(window, ended, 0, 0, 1);
		window_sum(window, ended, &tally);
		if (begun >= 10 * S) { /* 9 whole buckets and the newest, as far as it is */
			assert_int_equal(tally.failures, 45 + ended % S / (200 * MS) + 1);
			assert_close(tally.failure_rate, 1);
		}
	}
	window_free(&window);
}

static void c89_without_outcomes_rates_are_absent(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct sample sample = {.at_ns = 5 * S};
	struct tally tally;

	(void)state;
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			window_add(window, &sample);
		if (i == 2) {
			sample.cells[3].unproven = 7; /* discounted: no outcome either */
			window_add(window, &sample);
		}
		window_sum(window, 5 * S, &tally);
		assert_false(tally.has_rate);
		assert_true(tally.failure_rate == 0 && tally.slow_rate == 0);
		assert_int_equal(tally.outcomes, 0);
		assert_int_equal(tally.active, 0);
		assert_int_equal(tally.discounted, i == 2 ? 7 : 0);
		window_newest(window, 5 * S, 100, 10 * S, &tally);
		assert_false(tally.has_rate);
	}
	window_free(&window);
}

/* --- newest, by hand ---------------------------------------------------------------------------------------------------- */

static void newest_takes_as_few_buckets_as_do(void **state)
{
	struct window *window = window_new(100 * MS, 100);
	struct tally tally;

	(void)state;
	for (unsigned int i = 0; i < 50; i++)
		add(window, i * 100 * MS, i, i < 40, i >= 40); /* one outcome per bucket; the newest 10 failed */
	window_newest(window, 4950 * MS, 10, 10 * S, &tally);
	assert_int_equal(tally.outcomes, 10);
	assert_int_equal(tally.failures, 10);
	window_newest(window, 4950 * MS, 11, 10 * S, &tally);
	assert_int_equal(tally.outcomes, 11);
	assert_int_equal(tally.failures, 10);
	window_newest(window, 4950 * MS, 100, 10 * S, &tally);
	assert_int_equal(tally.outcomes, 50); /* fewer are there */
	window_newest(window, 4950 * MS, 100, 500 * MS, &tally);
	assert_int_equal(tally.outcomes, 5); /* 4.5 s to 4.9 s: later than 4.45 s */
	window_newest(window, 5400 * MS, 100, 500 * MS, &tally);
	assert_int_equal(tally.outcomes, 0);
	window_free(&window);
}

/* --- who weighs what ------------------------------------------------------------------------------------------------------ */

static uint32_t heavy_tailed(void)
{
	return 1 + dice(1ULL << (1 + dice(20)));
}

/*
 * All of one cell's outcomes fail and no other's: the failure rate is that cell's part of the window. No cell weighs more
 * than its bound, and where none would without weights, they change nothing.
 */
static void no_cell_weighs_more_than_its_bound(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		unsigned int active = 1 + dice(round % 2 ? SLC_CELLS : 30), first = dice(SLC_CELLS);
		double bound = active >= 20 ? .05 : active >= 5 ? .2 : 1, sum = 0, largest = 0, whole = 0;
		uint32_t n[SLC_CELLS];

		for (unsigned int i = 0; i < active; i++) {
			n[i] = dice(4) ? heavy_tailed() : 1 + dice(100);
			sum += n[i];
			largest = fmax(largest, n[i]);
		}
		for (unsigned int failing = 0; failing < active; failing++) {
			struct window *window = window_new(1 * S, 1);
			struct tally tally;

			for (unsigned int i = 0; i < active; i++)
				add(window, 0, (first + i) % SLC_CELLS, i == failing ? 0 : n[i],
				    i == failing ? n[i] : 0);
			window_sum(window, 0, &tally);
			assert_int_equal(tally.active, active);
			assert_int_equal(tally.failing, 1);
			assert_true(tally.failure_rate <= bound * (1 + 1e-9));
			if (largest <= bound * sum)
				assert_close(tally.failure_rate, n[failing] / sum);
			whole += tally.failure_rate;
			window_free(&window);
		}
		assert_close(whole, 1); /* the parts of all are the whole */
	}
}

static void one_source_of_many_never_dominates(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct tally tally;

	(void)state;
	for (unsigned int i = 0; i < 24; i++)
		add(window, 1 * S, i * 10, 10, 0);
	add(window, 1 * S, 5, 0, 1000000);
	window_sum(window, 1 * S, &tally);
	assert_int_equal(tally.active, 25);
	assert_int_equal(tally.failures, 1000000);
	assert_close(tally.failure_rate, .05);
	window_clear(window);
	for (unsigned int i = 0; i < 4; i++)
		add(window, 1 * S, i, 1, 0);
	add(window, 1 * S, 77, 100000, 300000);
	window_sum(window, 1 * S, &tally);
	assert_close(tally.failure_rate, .2 * .75); /* a cell's successes and failures are scaled alike */
	window_free(&window);
}

/* Weights are those of the time summed, not of each bucket: a cell that is heavy in one of them is not for that alone. */
static void weights_act_on_the_whole_window(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct tally tally;

	(void)state;
	for (unsigned int i = 0; i < 10; i++)
		add(window, i * S, i, i % 2 ? 100 : 0, i % 2 ? 0 : 100);
	window_sum(window, 9 * S, &tally);
	assert_close(tally.success_weight, 500);
	assert_close(tally.failure_weight, 500);
	assert_int_equal(tally.failing, 5);
	window_free(&window);
}

/* --- whose failures count -------------------------------------------------------------------------------------------------- */

static void unproven_failures_count_where_known_good_sources_fail_too(void **state)
{
	static const struct {
		uint32_t known_success, known_failure;
		unsigned int counted; /* of 10 */
	} rows[] = {
		{0, 0, 0},   {50, 0, 0},      {0, 4, 0}, /* by chance */
		{0, 5, 10},  {5, 5, 10}, /* half of them fail: 30 of 90 are no more */
		{10, 5, 10}, {11, 5, 7}, /* a third; 5 of 16: 27 failures and 60 successes */
		{15, 5, 0},  {0, 400000, 10}, {1000000, 5, 0}, /* 20 of 80 are as bad as that already */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct window *window = window_new(1 * S, 10);
		struct sample first = {.at_ns = 1 * S, .known_success = rows[i].known_success};
		struct sample second = {.at_ns = 4 * S, .known_failure = rows[i].known_failure};
		unsigned int counted = rows[i].counted;
		struct tally tally;

		first.cells[1] = (struct cell_counts){.success = 60, .unproven = 9};
		first.cells[2] = (struct cell_counts){.unproven = 1};
		second.cells[1] = (struct cell_counts){.failure = 20}; /* proven: always */
		window_add(window, &first);
		window_add(window, &second);
		window_sum(window, 4 * S, &tally);
		assert_int_equal(tally.failures, 20 + counted);
		assert_int_equal(tally.outcomes, 80 + counted);
		assert_int_equal(tally.discounted, 10 - counted);
		assert_int_equal(tally.active, counted ? 2 : 1);
		assert_int_equal(tally.failing, counted ? 2 : 1);
		assert_close(tally.failure_rate, (20. + counted) / (80 + counted));
		window_sum(window, 12 * S, &tally); /* the known-good failures alone are left */
		assert_int_equal(tally.failures, 20);
		window_free(&window);
	}
}

/* A service that answers, `good` cells of successes by known-good sources, and garbage from all the others. */
static void flood(struct window *window, uint64_t at_ns, unsigned int good, uint32_t successes, uint32_t garbage,
		  bool fails)
{
	struct sample sample = {.at_ns = at_ns, .known_failure = fails};

	for (unsigned int c = 0; c < good; c++) {
		sample.cells[c].success = successes;
		sample.known_success += successes;
	}
	sample.cells[0].failure = fails;
	for (uint32_t i = 0; i < garbage; i++)
		sample.cells[good + i % (SLC_CELLS - good)].unproven++;
	window_add(window, &sample);
}

/* In all of it and in the newest, whatever known-good sources do beside it and however few cells they have. */
static void garbage_of_strangers_and_a_natural_failure_stay_apart(void **state)
{
	static const unsigned int good[] = {1, 3, 5, 20, 100};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		for (uint32_t successes = 0; successes < 30; successes += 10) {
			struct window *window = window_new(100 * MS, 100);
			struct tally tally;

			for (unsigned int tick = 60; tick < 90; tick++) {
				flood(window, tick * 100 * MS, good[i], successes, 1000, tick == 70);
				window_newest(window, tick * 100 * MS, 100, 10 * S, &tally);
				assert_true(tally.failures <= 1);
				assert_true(tally.failure_rate < 0.5 || tally.outcomes == 1);
				window_sum(window, tick * 100 * MS, &tally);
				assert_true(tally.failures <= 1);
			}
			window_free(&window);
		}
	}
}

/* One in a hundred of known-good sources fails, at random; whatever strangers send, the newest never look like an outage. */
static void garbage_of_strangers_on_natural_failures(void **state)
{
	(void)state;
	for (int round = 0; round < 8; round++) {
		struct window *window = window_new(100 * MS, 100);
		unsigned int good = 1 + dice(40);
		struct tally tally;

		for (unsigned int tick = 0; tick < 300; tick++) {
			flood(window, tick * 100 * MS, good, dice(3), dice(3000), dice(good > 10 ? 10 : 100) == 0);
			window_newest(window, tick * 100 * MS, 100, 10 * S, &tally);
			assert_true(tally.failure_rate < 0.2 || tally.outcomes < 20);
		}
		window_free(&window);
	}
}

/*
 * Known-good sources fail at a rate, strangers only fail: the window fails at no higher rate than it would if strangers
 * were as bad as known-good sources, and, but for rounding, at no lower one where strangers fail enough. Weights count:
 * cells are uneven, and few or many.
 */
static void strangers_never_look_worse_than_known_good_sources(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct window *window = window_new(1 * S, 1);
		struct sample sample = {0}, proven;
		unsigned int good = 1 + dice(40), bad = dice(2) ? SLC_CELLS : 1 + dice(SLC_CELLS);
		double known_rate, average;
		struct tally with, without;

		for (unsigned int c = 0; c < good; c++) {
			sample.cells[c].success = few();
			sample.cells[c].failure = few() / 4;
			sample.known_success += sample.cells[c].success;
			sample.known_failure += sample.cells[c].failure;
		}
		proven = sample;
		window_add(window, &proven);
		window_sum(window, 0, &without);
		window_clear(window);
		for (uint64_t n = dice(2000); n > 0; n--)
			sample.cells[dice(bad)].unproven += 1 + dice(dice(10) ? 2 : 1000);
		window_add(window, &sample);
		window_sum(window, 0, &with);
		window_free(&window);
		if (!without.has_rate)
			continue; /* nobody is known-good */
		known_rate = rate_of(sample.known_success, sample.known_failure);
		assert_true(with.failure_rate <= fmax(known_rate, without.failure_rate) * (1 + 1e-9));
		if (sample.known_failure < 5 || !with.discounted)
			continue;
		average = (with.success_weight + with.failure_weight) / with.outcomes;
		assert_true(rate_of(with.success_weight, with.failure_weight + average) > known_rate * (1 - 1e-9));
	}
}

/* Nobody listens: counted whoever was there, by at least as many sources as came within one second. */
static void no_listener_counts_whoever_caused_it(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct sample sample = {0};
	struct tally tally;

	(void)state;
	for (uint64_t tick = 0; tick < 30; tick++) { /* one source, once a second, among 20 good ones */
		add(window, tick * 100 * MS, tick % 20, 1000, 0);
		sample.at_ns = tick * 100 * MS;
		sample.always = sample.always_sources = tick % 10 == 5;
		window_add(window, &sample);
	}
	window_sum(window, 2900 * MS, &tally);
	assert_int_equal(tally.failures, 3);
	assert_int_equal(tally.failing, 1);
	assert_close(tally.failure_rate, 3. / 30003);
	for (uint64_t tick = 30; tick < 40; tick++) { /* ten sources within a second, one a tick */
		sample.at_ns = tick * 100 * MS;
		sample.always = sample.always_sources = 1;
		window_add(window, &sample);
	}
	window_sum(window, 3900 * MS, &tally);
	assert_int_equal(tally.failures, 13);
	assert_int_equal(tally.failing, 10);
	window_sum(window, 12900 * MS, &tally); /* only they are left */
	assert_int_equal(tally.outcomes, 10);
	assert_int_equal(tally.active, 10);
	assert_close(tally.failure_rate, 1);
	window_free(&window);
}

/* Capped cells shrink the window; a failure of no cell shrinks with it. */
static void no_listener_is_not_heavier_than_other_outcomes(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct sample sample = {.at_ns = 1 * S, .always = 10, .always_sources = 1};
	struct tally tally;

	(void)state;
	for (unsigned int i = 0; i < 20; i++)
		add(window, 1 * S, i, i ? 1000 : 1, 0); /* all 20 weigh 1 now */
	window_add(window, &sample);
	window_sum(window, 1 * S, &tally);
	assert_close(tally.failure_rate, 10. / (19001 + 10));
	assert_int_equal(tally.failing, 1);
	window_free(&window);
}

static void sources_of_failures(void **state)
{
	struct window *window = window_new(1 * S, 10);
	struct tally tally;

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		add(window, i * S, i, 5, i < 3);
		window_sum(window, i * S, &tally);
		assert_int_equal(tally.active, i + 1);
		assert_int_equal(tally.failing, i < 3 ? i + 1 : 3);
	}
	window_sum(window, 11 * S, &tally); /* the first two are gone */
	assert_int_equal(tally.failing, 1);
	window_free(&window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schedules_against_a_list),
		cmocka_unit_test(edges_are_exact),
		cmocka_unit_test(c91_the_outcome_that_rotates_is_counted),
		cmocka_unit_test(c92_idle_gaps),
		cmocka_unit_test(c94_clock_moved_back),
		cmocka_unit_test(c95_operations_longer_than_the_window),
		cmocka_unit_test(c89_without_outcomes_rates_are_absent),
		cmocka_unit_test(newest_takes_as_few_buckets_as_do),
		cmocka_unit_test(no_cell_weighs_more_than_its_bound),
		cmocka_unit_test(one_source_of_many_never_dominates),
		cmocka_unit_test(weights_act_on_the_whole_window),
		cmocka_unit_test(unproven_failures_count_where_known_good_sources_fail_too),
		cmocka_unit_test(garbage_of_strangers_and_a_natural_failure_stay_apart),
		cmocka_unit_test(garbage_of_strangers_on_natural_failures),
		cmocka_unit_test(strangers_never_look_worse_than_known_good_sources),
		cmocka_unit_test(no_listener_counts_whoever_caused_it),
		cmocka_unit_test(no_listener_is_not_heavier_than_other_outcomes),
		cmocka_unit_test(sources_of_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
