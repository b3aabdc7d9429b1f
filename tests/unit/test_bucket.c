// SPDX-License-Identifier: GPL-2.0-only
/*
 * Token buckets against a model in 128-bit arithmetic, from random clocks, schedules and pushed rates, and from more
 * threads than the machine has CPUs. Seeds are fixed; a failure names its round.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bpf/bucket.h"

typedef unsigned __int128 u128;

#define S 1000000000ULL
#define MS 1000000ULL
#define CYCLE (1ULL << 40) /* of the 40-bit TATs, in units */

/* xorshift64*: the test's own dice. */
static __u64 dice = 88172645463325252ULL;

static __u64 roll(void)
{
	dice ^= dice >> 12;
	dice ^= dice << 25;
	dice ^= dice >> 27;
	return dice * 2685821657736338717ULL;
}

static __u64 roll_below(__u64 n)
{
	return (u128)roll() * n >> 64;
}

/* 0 to `max`, all magnitudes alike. */
static __u64 roll_scale(__u64 max)
{
	__u64 v = roll() >> roll_below(64);

	return v % (max + 1);
}

static double roll_exponential(double mean)
{
	return -mean * log(1.0 - (double)(roll() >> 11) / 9007199254740992.0);
}

static bool taken(__u32 result)
{
	return (result & 3) == SLC_TAKEN;
}

static bool source_taken(struct slc_set *set, __u64 tag, __u64 now, __u64 interval, __u64 depth)
{
	return taken(slc_source_take(set, tag, now, interval, depth));
}

/* --- the model ------------------------------------------------------------------------------------------------------ */

/* GCRA as DESIGN 3 says it, in arithmetic that cannot overflow; time never wraps. */
struct model {
	u128 tat;
};

static u128 larger(u128 a, u128 b)
{
	return a > b ? a : b;
}

/* `slack`: what clocks of CPUs may differ by; only a TAT beyond the bound by more than that is stored back. */
static bool model_take(struct model *m, u128 now, u128 interval, u128 depth, u128 threshold, u128 slack)
{
	u128 bound = larger(depth, interval), base = larger(m->tat, now);

	if (base + interval - now > larger(threshold, interval)) {
		if (m->tat > now + bound + slack)
			m->tat = now + bound;
		return false;
	}
	m->tat = base + interval;
	return true;
}

/* --- 64-bit words ----------------------------------------------------------------------------------------------------- */

/*
 * Every decision equals the model's: any clock of the first 9 years (1/16 ns in 64 bits last 36), any rate, burst and
 * class threshold, with pushes in between.
 */
static void test_c31_c40_total_equals_model(void **state)
{
	(void)state;
	for (int round = 0; round < 4000; round++) {
		__u64 now = roll_scale(1ULL << 62), word = now > 5 ? now - roll_scale(now) : 0;
		struct model m = {.tat = word};
		__u64 depth = roll_scale(1ULL << 60), interval = 1 + roll_scale(depth ? depth : 1);

		for (int i = 0; i < 200; i++) {
			__u64 threshold = depth - roll_below(2) * (depth / (1 + roll_below(8)));
			enum slc_taken taken;

			if (!roll_below(20))
				interval = 1 + roll_scale(1ULL << 60);
			now += roll_below(3) ? roll_scale(interval * 2) : 0;
			assert_int_equal(
				slc_bucket_peek(word, now, interval, depth, threshold),
				model_take(&(struct model){m.tat}, now, interval, depth, threshold, SLC_SKEW16));
			taken = slc_bucket_take(&word, now, interval, depth, threshold);
			if ((taken == SLC_TAKEN) != model_take(&m, now, interval, depth, threshold, SLC_SKEW16))
				fail_msg("round %d step %d", round, i);
			if (m.tat > now) /* what lies in the past means the same whatever it is */
				assert_true(word == (__u64)m.tat);
			if (now > 1ULL << 62)
				break;
		}
	}
}

/* Rates of every power of two up to what 1/16 ns can hold, bursts alike: exactly burst at once, then one per T. */
static void test_c31_powers_of_two(void **state)
{
	(void)state;
	for (int r = 0; r < 34; r++) {
		for (int b = 0; b < 20; b++) {
			__u64 interval = (S << 4) >> r, burst = 1ULL << b, depth, word = 0, now = 77 * S << 4;
			__u64 taken = 0;

			if (!interval || interval > 1ULL << (62 - b))
				continue;
			depth = interval * burst;
			while (taken <= burst && slc_bucket_take(&word, now, interval, depth, depth) == SLC_TAKEN)
				taken++;
			assert_int_equal(taken, burst);
			assert_int_equal(slc_bucket_take(&word, now + interval - 1, interval, depth, depth), SLC_EMPTY);
			assert_int_equal(slc_bucket_take(&word, now + interval, interval, depth, depth), SLC_TAKEN);
			/* ten years later it is full, not more */
			now += 10ULL * 365 * 86400 * S << 4;
			for (taken = 0; slc_bucket_take(&word, now, interval, depth, depth) == SLC_TAKEN; taken++)
				;
			assert_int_equal(taken, burst);
		}
	}
}

static void test_c28_poisson(void **state)
{
	static const struct {
		double offered, refused_low, refused_high;
	} rows[] = {{4000, 0, 0.001}, {6000, 0.155, 0.18}};

	(void)state;
	for (size_t row = 0; row < 2; row++) {
		__u64 interval = (S << 4) / 5000, depth = interval * 100, word = 0;
		double now = 1e9, end = 31e9;
		long asked = 0, refused = 0;

		while (now < end) {
			now += roll_exponential(1e9 / rows[row].offered);
			asked++;
			refused += slc_bucket_take(&word, (__u64)(now * 16), interval, depth, depth) != SLC_TAKEN;
		}
		assert_true((double)refused / asked >= rows[row].refused_low);
		assert_true((double)refused / asked <= rows[row].refused_high);
	}
}

/* Four tokens, then one at each half token's time: the fifth at the second gap. */
static void test_c28_half_tokens(void **state)
{
	__u64 interval = S << 4, depth = 4 * interval, word = 0, now = 50 * S << 4;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(slc_bucket_take(&word, now, interval, depth, depth), SLC_TAKEN);
	assert_int_equal(slc_bucket_take(&word, now + interval / 2, interval, depth, depth), SLC_EMPTY);
	assert_int_equal(slc_bucket_take(&word, now + interval, interval, depth, depth), SLC_TAKEN);
	assert_int_equal(slc_bucket_take(&word, now + interval * 3 / 2, interval, depth, depth), SLC_EMPTY);
	assert_int_equal(slc_bucket_take(&word, now + 2 * interval, interval, depth, depth), SLC_TAKEN);
}

/* Slow rates refill, and asking more often changes nothing. */
static void test_c29_slow_rates(void **state)
{
	static const struct {
		__u64 per_minute, seconds, poll;
	} rows[] = {
		{1, 600, MS / 2},   {1, 600, 10 * MS},   {1, 600, 3333333},  {60, 10, MS / 2},
		{60, 10, 10 * MS},  {60, 10, 3333333},   {600, 10, MS / 2},  {600, 10, 10 * MS},
		{600, 10, 3333333}, {59940, 10, MS / 2}, {59940, 10, 12345}, {59940, 10, 999999},
	};

	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
		__u64 interval = (60 * S << 4) / rows[r].per_minute, depth = 2 * interval, word = 0, taken = 0;
		__u64 expected = rows[r].per_minute * rows[r].seconds / 60;

		for (__u64 t = 0; t < rows[r].seconds * S; t += rows[r].poll)
			taken += slc_bucket_take(&word, (100 * S + t) << 4, interval, depth, depth) == SLC_TAKEN;
		assert_in_range(taken, expected - 1, expected + 2);
	}
}

/* For any schedule, a bucket polled at more moments hands out at least as much and never above the bound. */
static void test_c29_random_schedules(void **state)
{
	(void)state;
	for (int round = 0; round < 2000; round++) {
		__u64 interval = 1 + roll_scale(1ULL << 36), burst = 1 + roll_below(50), depth = interval * burst;
		__u64 start = roll_scale(1ULL << 60), now = start, word = 0, taken = 0;

		for (int i = 0; i < 500; i++) {
			now += roll_scale(interval);
			taken += slc_bucket_take(&word, now, interval, depth, depth) == SLC_TAKEN;
			assert_true((u128)taken * interval <= (u128)(now - start) + depth);
		}
	}
}

/*
 * Another CPU's clock reading may be older than the one that wrote the bucket: no interleaving makes a token. Clocks of
 * CPUs differ by less than 100 us; only one bound to lie beyond that may be stored back (c44: after a real jump).
 */
static void test_c43_alternating_time(void **state)
{
	__u64 interval = 100 << 4, depth = 3 * interval, word = 0, taken = 0, start = 10 * S, end = start + 100 * MS;

	(void)state;
	for (__u64 now = start; now < end; now += 50) {
		taken += slc_bucket_take(&word, now << 4, interval, depth, depth) == SLC_TAKEN;
		taken += slc_bucket_take(&word, (now - 80) << 4, interval, depth, depth) == SLC_TAKEN;
	}
	assert_true(taken * 100 <= end - start + 300);
	for (int round = 0; round < 2000; round++) {
		__u64 low = 16 * MS + roll_scale(1ULL << 59), skew = roll_below(100000), t, d, w = 0, n = 0, last = 0,
		      now = low;

		t = 1 + roll_scale(1ULL << 24);
		d = t * (1 + roll_below(20));
		for (int i = 0; i < 300; i++) {
			now += roll_scale(t / 8);
			last = now;
			n += slc_bucket_take(&w, now - roll_below(skew + 1) * 16, t, d, d) == SLC_TAKEN;
		}
		assert_true((u128)n * t <= (u128)(last - low + skew * 16) + d);
	}
}

/* The same for sources. */
static void test_c43_source_alternating_time(void **state)
{
	__u64 interval = 100, depth = 300, taken = 0, start = 5 * CYCLE + 7, end = start + 100 * MS;
	struct slc_set set = {0};

	(void)state;
	for (__u64 now = start; now < end; now += 50) {
		taken += source_taken(&set, 9, now, interval, depth);
		taken += source_taken(&set, 9, now - 80, interval, depth);
	}
	assert_true(taken * 100 <= end - start + 300);
}

/* Jumps of the clock by days: forward a full bucket at most, back never locked out longer than the depth. */
static void test_c39_c44_jumps(void **state)
{
	static const __s64 jumps[] = {1 * MS, -1 * (__s64)MS, (__s64)S, -1 * (__s64)S, 1LL << 31, -(1LL << 31)};

	(void)state;
	for (size_t j = 0; j < 6; j++) {
		__u64 interval = (S << 4) / 10, depth = interval * 20, word = 0, base = 90 * 86400 * S, taken = 0;

		for (int i = 0; i < 100; i++)
			slc_bucket_take(&word, (base + i * MS) << 4, interval, depth, depth);
		base += jumps[j];
		for (__u64 t = 0; t < 10 * S; t += MS)
			taken += slc_bucket_take(&word, (base + t) << 4, interval, depth, depth) == SLC_TAKEN;
		/* 10 s at 10/s, the burst, and what the jump itself was worth */
		assert_in_range(taken, 100 - 22 - 10, 100 + 22 + (jumps[j] > 0 ? jumps[j] / (S / 10) : 0));
	}
}

/*
 * The controller swings the rate: whatever it pushes below the configured rate, the bucket stays under configured
 * rate x time + burst (a depth in tokens, clamped, gave 5550 here) and hands out no less than what was pushed (kept in
 * tokens: 60).
 */
static void test_pushed_swings(void **state)
{
	static const __u64 periods_ms[] = {100, 500, 2000};

	(void)state;
	for (size_t p = 0; p < 3; p++) {
		__u64 word = 0, start = 1000 * S, depth = 2 * S << 4; /* burst 40 at 20/s */
		long taken = 0, late = 0, second = 0, worst = 0;

		for (__u64 t = 0; t < 60 * S; t += MS) {
			bool low = t / (periods_ms[p] * MS) & 1;
			__u64 interval = (low ? S / 2 : S / 20) << 4;
			bool ok = slc_bucket_take(&word, (start + t) << 4, interval, depth, depth) == SLC_TAKEN;

			taken += ok;
			late += t >= 30 * S && ok;
			second = t % S ? second + ok : ok;
			if (t > 5 * S && second > worst)
				worst = second;
			assert_true((__u64)taken * (S / 20) <= t + depth / 16);
		}
		assert_in_range(late, 300, 601); /* integrals of the pushed and of the configured rate */
		assert_in_range(worst, 1, 21);
	}
}

/* Random pushes between the configured rate and a 400th of it, random schedules: the bound holds in every interval. */
static void test_pushed_random(void **state)
{
	(void)state;
	for (int round = 0; round < 1000; round++) {
		__u64 configured = 1 + roll_scale(1ULL << 34), burst = 1 + roll_below(64), depth = configured * burst;
		__u64 interval = configured, word = 0, now = roll_scale(1ULL << 60), tokens[400], when[400];
		int n = 0;

		for (int i = 0; i < 400; i++) {
			if (!roll_below(5))
				interval = configured * (1 + roll_below(400));
			now += roll_scale(configured * 2);
			if (slc_bucket_take(&word, now, interval, depth, depth) == SLC_TAKEN)
				when[n++] = now;
		}
		for (int i = 0; i < n; i++) {
			tokens[i] = i + 1;
			for (int j = 0; j <= i; j++)
				assert_true((u128)(tokens[i] - tokens[j] + 1) * configured <=
					    (u128)(when[i] - when[j]) + depth + configured);
		}
	}
}

/* A raised rate acts within one depth; a lowered one hands out nothing at once. */
static void test_c129_pushes_act_at_the_next_packet(void **state)
{
	__u64 minute = 60 * S << 4, fast = (S << 4) / 100, depth = 40 * fast, word = 0, now = 1000 * S << 4, t;
	__u64 slow_depth = 2 * S << 4;

	(void)state;
	while (slc_bucket_take(&word, now, minute, 10 * minute, 10 * minute) == SLC_TAKEN)
		;
	for (t = 0; slc_bucket_take(&word, now + t, fast, depth, depth) != SLC_TAKEN; t += MS << 4)
		assert_true(t <= depth);
	word = 0;
	while (slc_bucket_take(&word, now, (S << 4) / 20, slow_depth, slow_depth) == SLC_TAKEN)
		;
	assert_int_equal(slc_bucket_take(&word, now, (S << 4) / 2, slow_depth, slow_depth), SLC_EMPTY);
}

/* Classes: each sees its part of the depth; what the better classes may still use is out of reach of the others. */
static void test_class_thresholds(void **state)
{
	static const struct {
		__u64 percent;
		int taken;
	} rows[] = {{25, 25}, {50, 25}, {90, 40}, {100, 10}};
	__u64 interval = S << 4, depth = 100 * interval, word = 0, now = 500 * S << 4;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		int taken = 0;

		while (slc_bucket_take(&word, now, interval, depth, depth * rows[i].percent / 100) == SLC_TAKEN)
			taken++;
		assert_int_equal(taken, rows[i].taken);
	}
}

/* An allowed source charges without asking: it empties the bucket, it does not put it into debt. */
static void test_charge_never_makes_a_debt(void **state)
{
	__u64 interval = S << 4, depth = 10 * interval, word = 0, now = 500 * S << 4;

	(void)state;
	for (int i = 0; i < 1000; i++)
		slc_bucket_charge(&word, now, interval, depth);
	assert_true(word == now + depth);
	assert_int_equal(slc_bucket_take(&word, now, interval, depth, depth), SLC_EMPTY);
	assert_int_equal(slc_bucket_take(&word, now + interval, interval, depth, depth), SLC_TAKEN);
}

/* --- 40-bit words: sources -------------------------------------------------------------------------------------------- */

/* Offsets of the clock in units where something might happen: the start, half, and both sides of each wrap. */
static const __u64 OFFSETS[] = {
	1,
	4294967296ULL - 10 * MS, /* 32 bits */
	CYCLE / 2 - 5000,
	CYCLE - (1ULL << 34),
	CYCLE - (1ULL << 33) + 1,
	CYCLE - (1ULL << 33) / 2,
	CYCLE - (1ULL << 31),
	CYCLE - 1000,
	CYCLE - 1,
	CYCLE,
	3 * CYCLE - 77,
	1000 * CYCLE - (1ULL << 32),
	(1ULL << 62) - 12345,
};
#define OFFSET_COUNT (sizeof(OFFSETS) / sizeof(*OFFSETS))

static __u64 any_clock(void)
{
	__u64 base = roll_below(2) ? OFFSETS[roll_below(OFFSET_COUNT)] : roll_scale(1ULL << 62);

	return base + 1 + roll_below(1000);
}

/* c39, c40: nothing depends on what the clock shows; an all-zero way is a full bucket whenever it is met. */
static void test_c40_zero_way_is_a_full_bucket(void **state)
{
	(void)state;
	for (size_t o = 0; o < OFFSET_COUNT; o++) {
		struct slc_set set = {0};
		__u64 interval = 100 * MS, depth = 10 * interval, taken = 0;

		while (source_taken(&set, 0x123456, OFFSETS[o], interval, depth))
			taken++;
		if (taken != 10)
			fail_msg("clock at %#llx units: a source met first gets %llu tokens of 10", OFFSETS[o], taken);
	}
}

/* One source alone equals the model across wraps, as long as it is seen more often than TATs grow old. */
static void test_c40_source_equals_model(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		__u64 now = any_clock(), depth = 1 + roll_scale(1ULL << 30), interval = 1 + roll_below(depth);
		struct slc_set set = {0};
		struct model m = {.tat = 0};

		for (int i = 0; i < 8; i++)
			set.way[i].word = slc_way_word(100 + i, now - roll_scale(1ULL << 37));
		for (int i = 0; i < 300; i++) {
			__u32 r = slc_source_take(&set, 9, now, interval, depth);

			if (taken(r) != model_take(&m, now, interval, depth, depth, SLC_SKEW_UNITS))
				fail_msg("round %d step %d: clock %#llx", round, i, now);
			if (i)
				assert_true(r & SLC_SEEN_BEFORE);
			now += roll_below(4) ? roll_scale(interval * 2) : roll_scale(1ULL << 36);
			if (!roll_below(30)) /* the controller keeps T <= 4 tau */
				interval = 1 + roll_below(4 * depth);
		}
	}
}

/* c41: what is older than 2^38 units is kept that old by the sweep, so a full cycle later it is still a full bucket. */
static void test_c41_sweep_over_the_wrap(void **state)
{
	(void)state;
	for (size_t o = 0; o < OFFSET_COUNT; o++) {
		__u64 now = OFFSETS[o] + 1, interval = 1000000, depth = 8 * interval;
		struct slc_set set = {0};

		for (int i = 0; i < 8; i++)
			assert_true(source_taken(&set, 50 + i, now, interval, depth));
		for (int step = 0; step < 64; step++) { /* two cycles, a sweep each 2^35 units */
			now += 1ULL << 35;
			for (int i = 0; i < 8; i++)
				slc_way_sweep(&set.way[i].word, now);
		}
		for (int i = 0; i < 8; i++) {
			__u64 taken = 0;

			while (source_taken(&set, 50 + i, now, interval, depth))
				taken++;
			assert_int_equal(taken, 8);
		}
	}
}

/* The sweep takes nothing from a bucket in use: not a debt, not a part of one. */
static void test_sweep_leaves_the_living_alone(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		__u64 now = any_clock();
		__s64 age = (__s64)roll_scale((1ULL << 38) - 1) - (__s64)roll_below(1ULL << 32);
		__u64 word = slc_way_word(7, now - age), before = word;

		assert_int_equal(slc_way_sweep(&word, now), 0);
		assert_true(word == before);
	}
}

/* Full sets: a newcomer never starts above what its victim had, and a limited source never gets its bucket back. */
static void test_c46_c47_eviction_gains_nothing(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		__u64 now = any_clock(), interval = 1 + roll_scale(1ULL << 20), depth = 10 * interval;
		__u64 start = now, flood = 1000 + roll_below(1000), limited = 0, total = 0;
		struct slc_set set = {0};

		for (__u64 i = 0; i < flood; i++) {
			now += roll_below(interval / 4 + 1);
			total += source_taken(&set, roll() >> 40, now, interval, depth);
			for (int k = 0; k < 2; k++)
				limited += source_taken(&set, 5, now, interval, depth);
		}
		/* the greedy source: rate x time + burst, however often its entry was taken over */
		assert_true((u128)limited * interval <= (u128)(now - start) + depth);
		/* the whole line: eight buckets' worth, however many sources */
		assert_true((u128)(total + limited) * interval <= 8 * ((u128)(now - start) + depth));
	}
}

/* Newcomers get what the line holds, whatever their tags: eight buckets of ten, to the last token. */
static void test_c47_line_is_used_to_the_last_token(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		__u64 now = any_clock(), interval = 1 << 20, depth = 10 * interval, total = 0;
		struct slc_set set = {0};

		for (int i = 0; i < 2000; i++)
			total += source_taken(&set, roll() >> 40, now + i, interval, depth);
		assert_int_equal(total, 80);
	}
}

/* c49: a source at its first packet is refused only by an inherited debt, never given more than its limit. */
static void test_c49_fresh_source_never_above_the_limit(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		__u64 now = any_clock(), interval = 1000, depth = 10 * interval, taken = 0;
		struct slc_set set = {0};

		for (int i = 0; i < 200; i++)
			slc_source_take(&set, 1000 + roll_below(50), now + i * roll_below(100), interval, depth);
		now += 200 * 100;
		while (source_taken(&set, 3, now, interval, depth))
			taken++;
		assert_true(taken <= 10);
	}
}

static void test_inherited_is_told(void **state)
{
	__u64 now = 5 * CYCLE + 1000, interval = 100, depth = 1000;
	struct slc_set set = {0};
	__u32 r;

	(void)state;
	r = slc_source_take(&set, 1, now, interval, depth);
	assert_false(r & SLC_INHERITED);
	assert_false(r & SLC_SEEN_BEFORE);
	r = slc_source_take(&set, 1, now, interval, depth);
	assert_true(r & SLC_SEEN_BEFORE);
	for (int tag = 2; tag < 9; tag++)
		slc_source_take(&set, tag, now, interval, depth);
	r = slc_source_take(&set, 99, now, interval, depth);
	assert_true(taken(r));
	assert_true(r & SLC_INHERITED);
}

/* A controller that lowers the depth's rate and raises it again leaves no debt beyond the new bound. */
static void test_source_store_back(void **state)
{
	__u64 now = 3 * CYCLE + 5, depth = 1000000, slow = 4 * depth, fast = depth / 10, t;
	struct slc_set set = {0};

	(void)state;
	assert_true(source_taken(&set, 1, now, slow, depth));
	for (t = 0; !source_taken(&set, 1, now + t, fast, depth); t += 1000)
		assert_true(t <= depth);
}

/* A newcomer pays a debt no longer than one depth, also when the victim's was left by a slower rate. */
static void test_newcomer_debt_is_bounded(void **state)
{
	__u64 now = 3 * CYCLE + 5, depth = 1000000, slow = 4 * depth, fast = depth / 10, t;
	struct slc_set set = {0};

	(void)state;
	for (int tag = 1; tag < 9; tag++)
		assert_true(source_taken(&set, tag, now, slow, depth));
	for (t = 0; !source_taken(&set, 77, now + t, fast, depth); t += 1000)
		assert_true(t <= depth);
}

/* A tag of 0 looks like the tag of a way that was never used: its own entry comes first all the same. */
static void test_tag_zero_has_one_bucket(void **state)
{
	struct slc_set set = {0};
	int taken = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		taken += source_taken(&set, 0, CYCLE / 2, 1000, 10000);
	assert_int_equal(taken, 10);
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

#define THREADS 8

struct shared {
	pthread_barrier_t start;
	__u64 word;
	struct slc_set set;
	__u64 burst, tries;
	__u64 taken, contended;
};

static void *take_total(void *arg)
{
	struct shared *s = arg;
	__u64 taken = 0, contended = 0, interval = 3600 * S << 4;

	pthread_barrier_wait(&s->start);
	for (__u64 i = 0; i < s->tries; i++) {
		enum slc_taken r =
			slc_bucket_take(&s->word, 1000 * S << 4, interval, interval * s->burst, interval * s->burst);

		taken += r == SLC_TAKEN;
		contended += r == SLC_CONTENDED;
	}
	__atomic_fetch_add(&s->taken, taken, __ATOMIC_RELAXED);
	__atomic_fetch_add(&s->contended, contended, __ATOMIC_RELAXED);
	return NULL;
}

static void *take_source(void *arg)
{
	struct shared *s = arg;
	__u64 taken = 0, now = 7 * CYCLE + 99, interval = 1000;

	pthread_barrier_wait(&s->start);
	for (__u64 i = 0; i < s->tries; i++)
		taken += source_taken(&s->set, 42, now, interval, interval * s->burst);
	__atomic_fetch_add(&s->taken, taken, __ATOMIC_RELAXED);
	return NULL;
}

static __u64 race(struct shared *s, void *(*fn)(void *))
{
	pthread_t thread[THREADS];

	pthread_barrier_init(&s->start, NULL, THREADS);
	s->taken = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, fn, s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&s->start);
	return s->taken;
}

/* c52, c53: eight threads on one word: exactly the burst, not one more, and none lost. */
static void test_c52_c53_total_is_exact_on_eight_threads(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct shared s = {.burst = 1000 + round, .tries = 20000};

		assert_int_equal(race(&s, take_total), s.burst);
	}
}

/* One source from eight threads, entry present: exactly the burst. */
static void test_c52_source_is_exact_on_eight_threads(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		struct shared s = {.burst = 1000, .tries = 20000};

		slc_source_take(&s.set, 42, 7 * CYCLE + 99, 1000, 1000 * s.burst);
		assert_int_equal(race(&s, take_source), s.burst - 1);
	}
}

/* The claim itself raced for: at most one token more per further thread (stated bound). */
static void test_c52_claims_on_eight_threads(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		struct shared s = {.burst = 10, .tries = 20};
		__u64 now = 7 * CYCLE + 99;

		for (int i = 0; i < 8; i++) /* a full line of others, all of an age */
			s.set.way[i].word = slc_way_word(100 + i, now - 50);
		assert_in_range(race(&s, take_source), 10, 10 + THREADS - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c31_c40_total_equals_model),
		cmocka_unit_test(test_c31_powers_of_two),
		cmocka_unit_test(test_c28_poisson),
		cmocka_unit_test(test_c28_half_tokens),
		cmocka_unit_test(test_c29_slow_rates),
		cmocka_unit_test(test_c29_random_schedules),
		cmocka_unit_test(test_c43_alternating_time),
		cmocka_unit_test(test_c43_source_alternating_time),
		cmocka_unit_test(test_c39_c44_jumps),
		cmocka_unit_test(test_pushed_swings),
		cmocka_unit_test(test_pushed_random),
		cmocka_unit_test(test_c129_pushes_act_at_the_next_packet),
		cmocka_unit_test(test_class_thresholds),
		cmocka_unit_test(test_charge_never_makes_a_debt),
		cmocka_unit_test(test_c40_zero_way_is_a_full_bucket),
		cmocka_unit_test(test_c40_source_equals_model),
		cmocka_unit_test(test_c41_sweep_over_the_wrap),
		cmocka_unit_test(test_sweep_leaves_the_living_alone),
		cmocka_unit_test(test_c46_c47_eviction_gains_nothing),
		cmocka_unit_test(test_c47_line_is_used_to_the_last_token),
		cmocka_unit_test(test_c49_fresh_source_never_above_the_limit),
		cmocka_unit_test(test_inherited_is_told),
		cmocka_unit_test(test_source_store_back),
		cmocka_unit_test(test_newcomer_debt_is_bounded),
		cmocka_unit_test(test_tag_zero_has_one_bucket),
		cmocka_unit_test(test_c52_c53_total_is_exact_on_eight_threads),
		cmocka_unit_test(test_c52_source_is_exact_on_eight_threads),
		cmocka_unit_test(test_c52_claims_on_eight_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
