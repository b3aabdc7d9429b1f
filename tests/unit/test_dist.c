// SPDX-License-Identifier: GPL-2.0-only
/* test_dist: bins beside the kernel's and beside their definition, quantiles beside sorted samples, sliding windows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/dist.h"
#include "tests/unit/dice.h"
#include "user/decide/dist.h"

#define US 1000ULL
#define MS 1000000ULL
#define S 1000000000ULL
#define END_NS (1ULL << 36)

/* --- bins --------------------------------------------------------------------------------------------------------------- */

static void bins_by_hand(void **state)
{
	(void)state;
	assert_int_equal(dist_bin(0), 0);
	assert_int_equal(dist_bin(16383), 0);
	assert_int_equal(dist_bin(16384 + 511), 0);
	assert_int_equal(dist_bin(16384 + 512), 1);
	assert_int_equal(dist_bin(32767), 31);
	assert_int_equal(dist_bin(32768), 32);
	assert_int_equal(dist_bin(END_NS - 1), SLC_DIST_BINS - 1);
	assert_int_equal(dist_bin(END_NS), SLC_DIST_BINS - 1);
	assert_int_equal(dist_bin(UINT64_MAX), SLC_DIST_BINS - 1);
	assert_int_equal(dist_lower_ns(0), 0);
	assert_int_equal(dist_upper_ns(SLC_DIST_BINS - 1), END_NS);
}

static uint64_t any_time(void)
{
	return dice(1ULL << (1 + dice(46))) ^ (dice(50) ? 0 : dice(UINT64_MAX) << 20);
}

static void bins_are_their_definition(void **state)
{
	(void)state;
	for (unsigned int b = 0; b < SLC_DIST_BINS; b++) {
		uint64_t lower = dist_lower_ns(b), upper = dist_upper_ns(b);

		assert_int_equal(dist_bin(lower), b);
		assert_int_equal(dist_bin(upper - 1), b);
		if (b > 0) {
			assert_int_equal(dist_upper_ns(b - 1), lower);
			assert_true((upper - lower) * 32 <= lower);
		}
	}
	for (int i = 0; i < 200000; i++) {
		uint64_t ns = any_time();
		unsigned int bin = dist_bin(ns);

		if (ns >= END_NS) {
			assert_int_equal(bin, SLC_DIST_BINS - 1);
			continue;
		}
		assert_true(dist_lower_ns(bin) <= ns && ns < dist_upper_ns(bin));
	}
}

static void bins_are_the_kernels(void **state)
{
	(void)state;
	for (int i = 0; i < 500000; i++) {
		uint64_t ns = any_time();

		assert_int_equal(dist_bin(ns), slc_dist_bin(ns));
	}
	for (unsigned int bit = 0; bit < 64; bit++)
		for (int off = -1; off <= 1; off++)
			assert_int_equal(dist_bin((1ULL << bit) + off), slc_dist_bin((1ULL << bit) + off));
}

/* --- quantiles ------------------------------------------------------------------------------------------------------------ */

#define SAMPLES 20000

static double uniform(void)
{
	return (dice(1ULL << 40) + .5) / (1ULL << 40);
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static uint64_t log_normal(void) /* 10 to 500 ms, most of them */
{
	return 70e6 * exp(.85 * normal());
}

static uint64_t exponential(void)
{
	return 20e3 - 5e6 * log(uniform());
}

static uint64_t constant(void)
{
	return 123456789;
}

static uint64_t bottom_of_bin(void)
{
	return dist_lower_ns(300 + dice(3));
}

static uint64_t top_of_bin(void)
{
	return dist_upper_ns(300 + dice(3)) - 1;
}

static uint64_t two_modes(void)
{
	return dice(10) ? 2 * MS + dice(100 * US) : 30 * S + dice(1 * S);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void count(struct dist_counts *counts, uint64_t ns)
{
	counts->bin[dist_bin(ns)]++;
	counts->total++;
	counts->sum_ns += ns;
}

static void quantiles_against_sorted_samples(void **state)
{
	static uint64_t (*const shapes[])(void) = {log_normal,    exponential, constant,
						   bottom_of_bin, top_of_bin,  two_modes};
	static uint64_t samples[SAMPLES];

	(void)state;
	for (size_t i = 0; i < 60; i++) {
		size_t n = i < 6 ? SAMPLES : 1 + dice(300);
		struct dist_counts counts = {0};
		uint64_t got;

		for (size_t s = 0; s < n; s++)
			count(&counts, samples[s] = shapes[i % 6]());
		qsort(samples, n, sizeof(*samples), by_value);
		for (unsigned int q = 0; q <= 10000; q += dice(2) ? 1 : 100) {
			size_t rank = (q * n + 9999) / 10000;
			uint64_t want = samples[rank ? rank - 1 : 0];

			assert_true(dist_quantile(&counts, q, &got));
			if (fabs((double)got - want) > .016 * want)
				fail_msg("shape %zu, q %u of %zu: %lu is not %lu", i % 6, q, n, got, want);
		}
	}
}

static void quantiles_at_the_ends(void **state)
{
	struct dist_counts counts = {0};
	uint64_t got = 42;

	(void)state;
	assert_false(dist_quantile(&counts, 5000, &got));
	assert_int_equal(got, 42); /* c89: absent, not some number */
	count(&counts, 5);
	assert_true(dist_quantile(&counts, 9900, &got));
	assert_true(got < dist_upper_ns(0));
	counts = (struct dist_counts){0};
	count(&counts, UINT64_MAX >> 1);
	assert_true(dist_quantile(&counts, 100, &got));
	assert_int_equal(got, dist_lower_ns(SLC_DIST_BINS - 1));
	counts = (struct dist_counts){.total = UINT64_MAX - 3}; /* no overflow in the rank */
	for (unsigned int b = 0; b < SLC_DIST_BINS; b++)
		counts.bin[b] = UINT32_MAX;
	assert_true(dist_quantile(&counts, 10000, &got));
}

static void below_against_samples(void **state)
{
	struct dist_counts counts = {0};
	static uint64_t samples[SAMPLES];
	uint64_t last = 0;

	(void)state;
	for (size_t s = 0; s < SAMPLES; s++)
		count(&counts, samples[s] = s % 100 ? log_normal() : END_NS + dice(END_NS));
	qsort(samples, SAMPLES, sizeof(*samples), by_value);
	for (uint64_t ns = 1 * MS, at = 0; ns < 4 * END_NS; ns += ns / 61 + 1) {
		uint64_t got = dist_below(&counts, ns), bin = counts.bin[dist_bin(ns)];

		while (at < SAMPLES && samples[at] <= ns)
			at++;
		assert_true(got >= last); /* a histogram's buckets never fall */
		assert_true(got <= counts.total);
		assert_true(got <= at + bin && at <= got + bin); /* all but the cut bin is exact */
		if (ns < END_NS && bin > 100) /* and of that one the part */
			assert_true(fabs((double)got - at) < .3 * bin);
		last = got;
	}
	for (unsigned int b = 0; b < SLC_DIST_BINS - 1; b++) { /* exact where a bin ends */
		uint64_t ns = dist_upper_ns(b) - 1, want = 0;

		while (want < SAMPLES && samples[want] <= ns)
			want++;
		assert_int_equal(dist_below(&counts, ns), want);
	}
	assert_int_equal(dist_below(&counts, UINT64_MAX), SAMPLES);
}

/* --- windows --------------------------------------------------------------------------------------------------------------- */

static void kernel_counts(struct slc_dist *kernel, uint64_t ns)
{
	kernel->bin[dist_bin(ns)]++; /* wraps as the kernel's do */
	kernel->sum_ns += ns;
}

static void first_take_takes_none(void **state)
{
	struct dist_window *window = dist_window_new(1 * S, 10);
	struct slc_dist kernel = {0};
	struct dist_counts counts;

	(void)state;
	for (int i = 0; i < 1000; i++)
		kernel_counts(&kernel, log_normal());
	dist_window_take(window, &kernel, 5 * S);
	dist_window_sum(window, 5 * S, &counts);
	assert_int_equal(counts.total, 0);
	kernel_counts(&kernel, 7 * MS);
	dist_window_take(window, &kernel, 5 * S);
	dist_window_sum(window, 5 * S, &counts);
	assert_int_equal(counts.total, 1);
	assert_int_equal(counts.sum_ns, 7 * MS);
	memset(&kernel, 0, sizeof(kernel)); /* the slot's next owner */
	kernel_counts(&kernel, 9 * US);
	dist_window_take(window, &kernel, 6 * S);
	kernel_counts(&kernel, 8 * MS);
	dist_window_take(window, &kernel, 6 * S);
	dist_window_sum(window, 6 * S, &counts);
	assert_int_equal(counts.total, 2);
	assert_int_equal(counts.sum_ns, 15 * MS);
	dist_window_free(&window);
	assert_null(window);
}

static void kernels_bins_wrap(void **state)
{
	struct dist_window *window = dist_window_new(1 * S, 10);
	struct slc_dist kernel = {0};
	struct dist_counts counts;

	(void)state;
	for (unsigned int b = 0; b < SLC_DIST_BINS; b++)
		kernel.bin[b] = UINT32_MAX - 2;
	dist_window_take(window, &kernel, 1 * S);
	for (int i = 0; i < 5; i++)
		kernel_counts(&kernel, 20 * MS);
	dist_window_take(window, &kernel, 1 * S);
	dist_window_sum(window, 1 * S, &counts);
	assert_int_equal(counts.total, 5);
	assert_int_equal(counts.bin[dist_bin(20 * MS)], 5);
	dist_window_free(&window);
}

static void c92_windows_over_idle_gaps(void **state)
{
	static const struct {
		uint64_t gap_ns, total;
	} rows[] = {{0, 3},         {899 * MS, 3}, {950 * MS, 3},        {1 * S, 1},
		    {1050 * MS, 1}, {10 * S, 1},   {(100 * MS) << 32, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct dist_window *window = dist_window_new(100 * MS, 10);
		struct slc_dist kernel = {0};
		struct dist_counts counts;

		dist_window_take(window, &kernel, 5 * S);
		kernel_counts(&kernel, 1 * MS);
		kernel_counts(&kernel, 1 * MS);
		dist_window_take(window, &kernel, 5 * S);
		dist_window_sum(window, 5 * S + rows[i].gap_ns, &counts);
		assert_int_equal(counts.total, rows[i].total == 3 ? 2 : 0);
		kernel_counts(&kernel, 1 * MS);
		dist_window_take(window, &kernel, 5 * S + rows[i].gap_ns);
		dist_window_sum(window, 5 * S + rows[i].gap_ns, &counts);
		assert_int_equal(counts.total, rows[i].total);
		dist_window_sum(window, 1 * S, &counts); /* c94: clock back */
		assert_int_equal(counts.total, rows[i].total);
		dist_window_free(&window);
	}
}

#define TAKES 300

/* Buckets whose start is in (now - W, now], of a list that keeps every take. */
static void windows_against_a_list(void **state)
{
	static struct {
		uint64_t at_ns, count;
	} list[TAKES];

	(void)state;
	for (int round = 0; round < 20; round++) {
		uint64_t width = 1 + dice(1 * S), buckets = 1 + dice(12), now = dice(100 * S);
		struct dist_window *window = dist_window_new(width, buckets);
		struct slc_dist kernel = {0};
		struct dist_counts counts;

		dist_window_take(window, &kernel, now);
		for (int i = 0; i < TAKES; i++) {
			uint64_t total = 0;

			now += dice(8) ? dice(width) : dice(2 * width * buckets);
			list[i].at_ns = now / width * width;
			list[i].count = dice(20);
			for (uint64_t n = 0; n < list[i].count; n++)
				kernel_counts(&kernel, log_normal());
			dist_window_take(window, &kernel, now);
			for (int k = 0; k <= i; k++)
				if (list[k].at_ns + width * buckets > now)
					total += list[k].count;
			dist_window_sum(window, now, &counts);
			assert_int_equal(counts.total, total);
		}
		dist_window_free(&window);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_by_hand),
		cmocka_unit_test(bins_are_their_definition),
		cmocka_unit_test(bins_are_the_kernels),
		cmocka_unit_test(quantiles_against_sorted_samples),
		cmocka_unit_test(quantiles_at_the_ends),
		cmocka_unit_test(below_against_samples),
		cmocka_unit_test(first_take_takes_none),
		cmocka_unit_test(kernels_bins_wrap),
		cmocka_unit_test(c92_windows_over_idle_gaps),
		cmocka_unit_test(windows_against_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
