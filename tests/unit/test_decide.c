// SPDX-License-Identifier: GPL-2.0-only
/* test_decide: handshake times, completion and the known-good rule, by hand and against models that only count. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dice.h"
#include "user/decide/completion.h"
#include "user/decide/known.h"
#include "user/decide/quantile.h"

#define MS 1000000ULL
#define S 1000000000ULL

/* --- bins ---------------------------------------------------------------------------------------------------------- */

static void bins_by_hand(void **state)
{
	(void)state;
	assert_int_equal(hist_bin(0), 0);
	assert_int_equal(hist_bin(65535), 0);
	assert_int_equal(hist_bin(65536), 0);
	assert_int_equal(hist_bin(65536 + 4095), 0);
	assert_int_equal(hist_bin(65536 + 4096), 1);
	assert_int_equal(hist_bin(131072), 16);
	assert_int_equal(hist_bin((1ULL << 32) - 1), SLC_HIST - 1);
	assert_int_equal(hist_bin(1ULL << 32), SLC_HIST - 1);
	assert_int_equal(hist_bin(UINT64_MAX), SLC_HIST - 1);
	assert_int_equal(hist_upper_ns(0), 65536 + 4096);
	assert_int_equal(hist_upper_ns(15), 131072);
	assert_int_equal(hist_upper_ns(SLC_HIST - 1), 1ULL << 32);
}

/* A bin is the first one that ends beyond the time; none is wider than 1/16 of its lower edge. */
static void bins_against_model(void **state)
{
	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t ns = dice(1ULL << (1 + dice(33)));
		unsigned int expected = 0;

		while (expected < SLC_HIST - 1 && ns >= hist_upper_ns(expected))
			expected++;
		assert_int_equal(hist_bin(ns), expected);
	}
	for (unsigned int b = 1; b < SLC_HIST; b++)
		assert_true((hist_upper_ns(b) - hist_upper_ns(b - 1)) * 16 <= hist_upper_ns(b - 1));
}

/* --- newest handshakes ------------------------------------------------------------------------------------------------ */

static void handshakes_by_hand(void **state)
{
	struct handshakes h = {0};
	uint32_t hist[SLC_HIST] = {0};

	(void)state;
	hist[100] = 1000; /* from before: none of ours */
	handshakes_take(&h, hist, 1 * S);
	assert_int_equal(handshakes_p90(&h, 1 * S), 0);
	hist[10] += 19;
	handshakes_take(&h, hist, 2 * S);
	assert_int_equal(handshakes_p90(&h, 2 * S), 0); /* 19 say nothing */
	hist[50] += 1;
	handshakes_take(&h, hist, 3 * S);
	assert_int_equal(handshakes_p90(&h, 3 * S), hist_upper_ns(10)); /* the 18th of 20 */
	hist[50] += 2;
	handshakes_take(&h, hist, 4 * S);
	assert_int_equal(handshakes_p90(&h, 4 * S), hist_upper_ns(50)); /* the 20th of 22 */
	assert_int_equal(handshakes_p90(&h, 62 * S + 1), 0); /* the 19 are too old by now */
	hist[200] += 200;
	handshakes_take(&h, hist, 63 * S);
	assert_int_equal(handshakes_p90(&h, 63 * S), hist_upper_ns(200));
	assert_int_equal(h.count, HANDSHAKE_SAMPLES);
}

/* A counter of 32 bits wraps: growth is what counts. */
static void handshakes_wrap(void **state)
{
	struct handshakes h = {0};
	uint32_t hist[SLC_HIST] = {0};

	(void)state;
	hist[7] = UINT32_MAX - 9;
	handshakes_take(&h, hist, S);
	hist[7] += 25;
	handshakes_take(&h, hist, 2 * S);
	assert_int_equal(h.count, 25);
	assert_int_equal(handshakes_p90(&h, 2 * S), hist_upper_ns(7));
}

struct seen {
	uint64_t at_ns;
	unsigned int bin;
};

static int by_bin(const void *a, const void *b)
{
	return (int)((const struct seen *)a)->bin - (int)((const struct seen *)b)->bin;
}

static void handshakes_against_model(void **state)
{
	static struct seen all[400000];
	struct handshakes h = {0};
	uint32_t hist[SLC_HIST] = {0};
	size_t count = 0;

	(void)state;
	handshakes_take(&h, hist, 0);
	for (uint64_t tick = 1; tick <= 3000; tick++) {
		uint64_t now_ns = tick * 100 * MS, expected = 0;
		struct seen grown[1000], newest[HANDSHAKE_SAMPLES];
		size_t n = dice(4) ? dice(12) : dice(20) ? 0 : dice(1000), take, fresh = 0;

		for (size_t i = 0; i < n; i++) {
			grown[i] = (struct seen){now_ns, dice(SLC_HIST)};
			hist[grown[i].bin]++;
		}
		qsort(grown, n, sizeof(*grown), by_bin);
		take = n < HANDSHAKE_SAMPLES ? n : HANDSHAKE_SAMPLES;
		for (size_t i = 0; i < take; i++)
			all[count++] = grown[(2 * i + 1) * n / (2 * take)];
		for (size_t i = count > HANDSHAKE_SAMPLES ? count - HANDSHAKE_SAMPLES : 0; i < count; i++) {
			if (now_ns - all[i].at_ns <= 60 * S)
				newest[fresh++] = all[i];
		}
		qsort(newest, fresh, sizeof(*newest), by_bin);
		if (fresh >= 20)
			expected = hist_upper_ns(newest[(fresh * 9 + 9) / 10 - 1].bin);
		handshakes_take(&h, hist, now_ns);
		assert_int_equal(handshakes_p90(&h, now_ns), expected);
	}
}

/* --- completion ----------------------------------------------------------------------------------------------------------- */

static void feed(struct completion *c, uint64_t at_ns, uint64_t admitted, uint64_t established)
{
	struct completion_sample sample = {.at_ns = at_ns};

	sample.admitted[SLC_CLASS_stranger] = admitted;
	sample.established[SLC_CLASS_stranger] = established;
	completion_add(c, &sample);
}

static uint32_t p_of(const struct completion *c, uint64_t handshake_ns)
{
	return completion_q16(c, SLC_CLASS_stranger, handshake_ns);
}

static void completion_by_hand(void **state)
{
	struct completion *c = calloc(1, sizeof(*c));

	(void)state;
	assert_int_equal(p_of(c, 100 * MS), COMPLETION_ONE);
	/* 10 a tick, every second one completes two ticks later. */
	for (uint64_t t = 0; t <= 50; t++)
		feed(c, t * 100 * MS, t * 10, t < 2 ? 0 : (t - 2) * 5);
	assert_int_equal(p_of(c, 200 * MS), COMPLETION_ONE / 2);
	assert_int_equal(completion_q16(c, SLC_CLASS_low, 200 * MS), COMPLETION_ONE); /* nobody came */
	/* A flood that never completes: in the newest 200 no one does. */
	for (uint64_t t = 51; t <= 60; t++)
		feed(c, t * 100 * MS, 500 + (t - 50) * 1000, 240 + (t == 51 ? 5 : 10));
	assert_int_equal(p_of(c, 200 * MS), 0);
	/* Another life of the service: what was known of it is no use. */
	feed(c, 61 * 100 * MS, 3, 3);
	assert_int_equal(p_of(c, 200 * MS), COMPLETION_ONE);
	free(c);
}

static void completion_needs_twenty(void **state)
{
	struct completion *c = calloc(1, sizeof(*c));

	(void)state;
	feed(c, 0, 0, 0);
	feed(c, 100 * MS, 19, 0);
	feed(c, 400 * MS, 19, 0);
	assert_int_equal(p_of(c, 200 * MS), COMPLETION_ONE);
	feed(c, 500 * MS, 20, 0);
	assert_int_equal(p_of(c, 200 * MS), COMPLETION_ONE); /* the 20th is younger than a handshake */
	feed(c, 700 * MS, 20, 0);
	assert_int_equal(p_of(c, 200 * MS), 0);
	feed(c, 800 * MS, 20, 1);
	assert_int_equal(p_of(c, 200 * MS), 0); /* it came later than a handshake after the last admission */
	feed(c, 900 * MS, 20, 1);
	assert_int_equal(p_of(c, 200 * MS), 3277); /* 65536 / 20, rounded up */
	free(c);
}

/* Rounded up: a p that is a little too large refuses a little too early. */
static void completion_rounds_up(void **state)
{
	struct completion *c = calloc(1, sizeof(*c));

	(void)state;
	feed(c, 0, 0, 0);
	feed(c, 100 * MS, 300, 100);
	feed(c, 200 * MS, 300, 100);
	assert_int_equal(p_of(c, 50 * MS), 21846); /* 65536 / 3 = 21845.33 */
	free(c);
}

/* The definition, word by word, over all samples kept. */
static uint32_t model_p(const struct completion_sample *s, size_t count, uint64_t handshake_ns)
{
	size_t end = 0, start, late_end = 0, late_start = 0;
	uint64_t admitted, established, now_ns = s[count - 1].at_ns;

	if (count < 2 || now_ns < handshake_ns)
		return COMPLETION_ONE;
	for (size_t i = 0; i < count; i++) {
		if (s[i].at_ns <= now_ns - handshake_ns)
			end = i;
	}
	start = end;
	while (start > 0 && s[end].admitted[2] - s[start].admitted[2] < 200 &&
	       s[end].at_ns - s[start - 1].at_ns <= 60 * S)
		start--;
	for (size_t i = 0; i < count; i++) {
		if (s[i].at_ns <= s[end].at_ns + handshake_ns)
			late_end = i;
		if (s[i].at_ns <= s[start].at_ns + handshake_ns)
			late_start = i;
	}
	admitted = s[end].admitted[2] - s[start].admitted[2];
	established = s[late_end].established[2] - s[late_start].established[2];
	if (admitted < 20 || established >= admitted)
		return COMPLETION_ONE;
	return (established * 65536 + admitted - 1) / admitted;
}

static void completion_against_model(void **state)
{
	static struct completion_sample all[4000];
	struct completion *c = calloc(1, sizeof(*c));
	uint64_t at_ns = 10 * S, admitted = 0, established = 0;

	(void)state;
	for (size_t n = 0; n < 4000; n++) {
		size_t kept = n + 1 < COMPLETION_SAMPLES ? n + 1 : COMPLETION_SAMPLES;
		uint64_t handshake_ns = dice(3) ? dice(300 * MS) : dice(4300 * MS);

		at_ns += dice(20) ? 100 * MS : dice(3 * S);
		admitted += dice(10) ? dice(3) : dice(400);
		established += dice(3);
		if (established > admitted)
			established = admitted;
		all[n] = (struct completion_sample){.at_ns = at_ns};
		all[n].admitted[2] = admitted;
		all[n].established[2] = established;
		completion_add(c, &all[n]);
		assert_int_equal(p_of(c, handshake_ns), model_p(&all[n + 1 - kept], kept, handshake_ns));
	}
	free(c);
}

static void slices_fit(void **state)
{
	uint32_t shift = 0, slices = 0, before;

	(void)state;
	handshake_slices(200 * MS, &shift, &slices);
	assert_int_equal(shift, 24); /* 16.8 ms */
	assert_int_equal(slices, 12);
	for (int i = 0; i < 100000; i++) {
		uint64_t ns = 70000 + dice(1ULL << (17 + dice(16)));

		before = shift;
		handshake_slices(ns, &shift, &slices);
		assert_in_range(slices, 8, SLC_SLICES - 1);
		assert_true((uint64_t)slices << shift >= ns);
		assert_true((uint64_t)(slices - 1) << shift < ns);
		/* Changed only where the one in force did not do. */
		if (shift != before)
			assert_true((ns + (1ULL << before) - 1) >> before < 8 ||
				    (ns + (1ULL << before) - 1) >> before > SLC_SLICES - 1);
	}
}

/* --- known ------------------------------------------------------------------------------------------------------------------ */

static const struct known_rule rule = {
	.turns = 3, .over_ns = 60 * S, .ttl_ns = 3600 * S, .jitter = 2000, .max_per_v4_24 = 2, .max_per_v6_48 = 1};

static struct slc_cold source(uint32_t network, uint8_t host, uint32_t good, uint64_t since_ns, uint64_t seen_ns)
{
	struct slc_cold cold = {.uid = 1, .good = good, .good_since_ns = since_ns, .seen_ns = seen_ns};

	cold.addr[10] = cold.addr[11] = 0xff;
	cold.addr[12] = 10;
	cold.addr[13] = network >> 8;
	cold.addr[14] = network;
	cold.addr[15] = host;
	return cold;
}

static struct slc_known_key key_of(const struct slc_cold *cold)
{
	struct slc_known_key key = {.uid = cold->uid};

	memcpy(key.addr, cold->addr, sizeof(key.addr));
	return key;
}

static enum known_verdict judge(struct known_set *set, const struct slc_cold *cold, uint64_t now_ns, uint64_t random,
				struct slc_known *known)
{
	struct slc_known_key key = key_of(cold);
	enum known_verdict verdict = known_judge(set, &rule, cold, now_ns, random, known);

	if (verdict == KNOWN_NEW || verdict == KNOWN_RENEW)
		assert_int_equal(known_put(set, &key, known, cold->good), 0);
	return verdict;
}

static void known_is_earned(void **state)
{
	struct slc_cold two = source(1, 1, 2, 10 * S, 100 * S), quick = source(1, 1, 9, 10 * S, 69 * S),
			good = source(1, 1, 3, 10 * S, 70 * S);
	struct known_set set;
	struct slc_known known;

	(void)state;
	known_init(&set, 42, 100);
	assert_int_equal(judge(&set, &two, 100 * S, 0, &known), KNOWN_NOT);
	assert_int_equal(judge(&set, &quick, 100 * S, 0, &known), KNOWN_NOT); /* 59 s */
	assert_int_equal(judge(&set, &good, 100 * S, 0, &known), KNOWN_NEW);
	assert_int_equal(known.since_ns, 100 * S);
	assert_int_equal(known.until_ns, 100 * S + 2880 * S); /* ttl - 20 % */
	assert_int_equal(judge(&set, &good, 101 * S, 0, &known), KNOWN_NOT); /* has it */
	known_free(&set);
}

static void known_jitter_is_uniform(void **state)
{
	struct slc_cold good = source(1, 1, 3, 10 * S, 70 * S);
	uint64_t cells[4] = {0};

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct known_set set;
		struct slc_known known;

		known_init(&set, i, 100);
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		assert_int_equal(judge(&set, &good, 100 * S, seed, &known), KNOWN_NEW);
		assert_in_range(known.until_ns, 2980 * S, 4420 * S);
		cells[(known.until_ns - 2980 * S) * 4 / (1440 * S + 1)]++;
		known_free(&set);
	}
	for (int i = 0; i < 4; i++)
		assert_in_range(cells[i], 880, 1120);
}

static void known_networks_are_bounded(void **state)
{
	struct slc_cold a = source(1, 1, 3, S, 70 * S), b = source(1, 2, 3, S, 70 * S), c = source(1, 3, 3, S, 70 * S),
			d = source(2, 3, 3, S, 70 * S), v6 = a, v6b;
	struct known_set set;
	struct slc_known known;
	struct slc_known_key key;

	(void)state;
	memset(v6.addr, 0, sizeof(v6.addr));
	v6.addr[0] = 0x20;
	v6b = v6;
	v6b.addr[7] = 9; /* another /64 of the same /48 */
	known_init(&set, 7, 100);
	assert_int_equal(judge(&set, &a, 100 * S, 0, &known), KNOWN_NEW);
	assert_int_equal(judge(&set, &b, 100 * S, 0, &known), KNOWN_NEW);
	assert_int_equal(judge(&set, &c, 100 * S, 0, &known), KNOWN_CROWDED);
	assert_int_equal(judge(&set, &d, 100 * S, 0, &known), KNOWN_NEW); /* another /24 */
	assert_int_equal(judge(&set, &v6, 100 * S, 0, &known), KNOWN_NEW);
	assert_int_equal(judge(&set, &v6b, 100 * S, 0, &known), KNOWN_CROWDED);
	c.uid = 2;
	assert_int_equal(judge(&set, &c, 100 * S, 0, &known), KNOWN_NEW); /* of another service */
	c.uid = 1;
	key = key_of(&a);
	known_remove(&set, &key);
	assert_int_equal(judge(&set, &c, 100 * S, 0, &known), KNOWN_NEW); /* there is room again */
	known_free(&set);
}

static void count_end(const struct slc_known_key *key, void *arg)
{
	(void)key;
	(*(int *)arg)++;
}

/* After the end the same facts do not earn it again: further good connections do. */
static void known_ends(void **state)
{
	struct slc_cold good = source(1, 1, 3, S, 70 * S);
	struct slc_known_key key = key_of(&good);
	struct known_set set;
	struct slc_known known;
	size_t cursor = 0;
	int ends = 0;

	(void)state;
	known_init(&set, 7, 100);
	assert_int_equal(judge(&set, &good, 100 * S, 0, &known), KNOWN_NEW);
	known_expire(&set, &cursor, 1000, known.until_ns - 1, 3600 * S, count_end, &ends);
	assert_int_equal(ends, 0);
	known_expire(&set, &cursor, 1000, known.until_ns, 3600 * S, count_end, &ends);
	known_expire(&set, &cursor, 1000, known.until_ns + 1, 3600 * S, count_end, &ends);
	assert_int_equal(ends, 1);
	assert_null(known_find(&set, &key));
	assert_int_equal(set.live, 0);
	good.seen_ns = 3000 * S;
	assert_int_equal(judge(&set, &good, 3001 * S, 0, &known), KNOWN_NOT);
	good.good = 5;
	assert_int_equal(judge(&set, &good, 3001 * S, 0, &known), KNOWN_NOT);
	good.good = 6;
	assert_int_equal(judge(&set, &good, 3001 * S, 0, &known), KNOWN_NEW);
	assert_non_null(known_find(&set, &key));
	assert_int_equal(set.live, 1);
	known_free(&set);
}

static void known_is_renewed(void **state)
{
	struct slc_cold good = source(1, 1, 3, S, 70 * S);
	struct known_set set;
	struct slc_known known;

	(void)state;
	known_init(&set, 7, 100);
	assert_int_equal(judge(&set, &good, 100 * S, 0, &known), KNOWN_NEW); /* until 2980 s */
	good.good = 50;
	good.seen_ns = 1000 * S;
	assert_int_equal(judge(&set, &good, 1000 * S, 0, &known), KNOWN_NOT); /* more than half is left */
	assert_int_equal(judge(&set, &good, 1180 * S, 0, &known), KNOWN_RENEW);
	assert_int_equal(known.since_ns, 100 * S);
	assert_int_equal(known.until_ns, 1180 * S + 2880 * S);
	/* Evicted from the cold table and begun anew: its few good ones are new ones. */
	good.good = 3;
	assert_int_equal(judge(&set, &good, 3000 * S, 0, &known), KNOWN_RENEW);
	known_free(&set);
}

#define MODEL_HOSTS 40
#define MODEL_NETWORKS 12

/* Random histories against plain arrays: who is in, how many of a network, what ends when. */
static void known_against_model(void **state)
{
	static struct {
		uint64_t until_ns;
		uint32_t good;
		bool live, held;
	} model[MODEL_NETWORKS][MODEL_HOSTS];
	struct known_set set;
	uint64_t now_ns = 100 * S;
	size_t live = 0;

	(void)state;
	known_init(&set, 99, 15);
	for (int step = 0; step < 200000; step++) {
		uint32_t n = dice(MODEL_NETWORKS), h = dice(MODEL_HOSTS), in_network = 0;
		struct slc_cold cold = source(n, h, dice(12), S, now_ns);
		enum known_verdict expected = KNOWN_NOT, verdict;
		struct slc_known known;
		size_t cursor = 0;
		int ends = 0, expected_ends = 0;

		now_ns += dice(3 * S);
		for (int i = 0; i < MODEL_HOSTS; i++)
			in_network += model[n][i].live;
		if (cold.good >= 3 && now_ns - S >= 60 * S) {
			uint32_t further = cold.good >= model[n][h].good ? cold.good - model[n][h].good : cold.good;

			if (model[n][h].live)
				expected = further >= 3 && model[n][h].until_ns <= now_ns + 1800 * S ? KNOWN_RENEW
												     : KNOWN_NOT;
			else if (model[n][h].held && further < 3)
				expected = KNOWN_NOT;
			else
				expected = live >= 15 || in_network >= 2 ? KNOWN_CROWDED : KNOWN_NEW;
		}
		if (expected == KNOWN_NEW && set.entries.count >= 30)
			expected = KNOWN_CROWDED;
		verdict = judge(&set, &cold, now_ns, dice(1ULL << 40), &known);
		assert_int_equal(verdict, expected);
		if (verdict == KNOWN_NEW || verdict == KNOWN_RENEW) {
			live += verdict == KNOWN_NEW;
			model[n][h].live = model[n][h].held = true;
			model[n][h].until_ns = known.until_ns;
			model[n][h].good = cold.good;
		}
		if (step % 50 == 0) {
			for (int i = 0; i < MODEL_NETWORKS * MODEL_HOSTS; i++) {
				bool *alive = &model[i / MODEL_HOSTS][i % MODEL_HOSTS].live;

				if (*alive && model[i / MODEL_HOSTS][i % MODEL_HOSTS].until_ns <= now_ns) {
					*alive = false;
					live--;
					expected_ends++;
				}
				if (!*alive && model[i / MODEL_HOSTS][i % MODEL_HOSTS].held &&
				    now_ns - model[i / MODEL_HOSTS][i % MODEL_HOSTS].until_ns > 600 * S) {
					model[i / MODEL_HOSTS][i % MODEL_HOSTS].held = false;
					model[i / MODEL_HOSTS][i % MODEL_HOSTS].good = 0;
				}
			}
			/* A slot that was emptied is looked at again: twice around sees everything. */
			known_expire(&set, &cursor, set.entries.capacity, now_ns, 600 * S, count_end, &ends);
			known_expire(&set, &cursor, set.entries.capacity, now_ns, 600 * S, count_end, &ends);
			assert_int_equal(ends, expected_ends);
		}
		assert_int_equal(set.live, live);
	}
	known_free(&set);
	assert_null(set.entries.slots);
}

/* Growth and removal in a table of many: everything put and not removed is found, nothing else. */
static void known_table_holds_many(void **state)
{
	struct known_set set;
	struct slc_known known = {.since_ns = 1, .until_ns = 2};

	(void)state;
	known_init(&set, 1, 100000);
	for (uint32_t i = 0; i < 20000; i++) {
		struct slc_cold cold = source(i / 200, i % 200, 0, 0, 0);
		struct slc_known_key key = key_of(&cold);

		assert_int_equal(known_put(&set, &key, &known, i), 0);
	}
	for (uint32_t i = 0; i < 20000; i += 3) {
		struct slc_cold cold = source(i / 200, i % 200, 0, 0, 0);
		struct slc_known_key key = key_of(&cold);

		known_remove(&set, &key);
		known_remove(&set, &key); /* not there: nothing happens */
	}
	for (uint32_t i = 0; i < 20000; i++) {
		struct slc_cold cold = source(i / 200, i % 200, 0, 0, 0);
		struct slc_known_key key = key_of(&cold);
		const struct known_entry *entry = known_find(&set, &key);

		if (i % 3 == 0)
			assert_null(entry);
		else
			assert_int_equal(entry->good, i);
	}
	assert_int_equal(set.live, 13333);
	known_free(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_by_hand),
		cmocka_unit_test(bins_against_model),
		cmocka_unit_test(handshakes_by_hand),
		cmocka_unit_test(handshakes_wrap),
		cmocka_unit_test(handshakes_against_model),
		cmocka_unit_test(completion_by_hand),
		cmocka_unit_test(completion_needs_twenty),
		cmocka_unit_test(completion_rounds_up),
		cmocka_unit_test(completion_against_model),
		cmocka_unit_test(slices_fit),
		cmocka_unit_test(known_is_earned),
		cmocka_unit_test(known_jitter_is_uniform),
		cmocka_unit_test(known_networks_are_bounded),
		cmocka_unit_test(known_ends),
		cmocka_unit_test(known_is_renewed),
		cmocka_unit_test(known_against_model),
		cmocka_unit_test(known_table_holds_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
