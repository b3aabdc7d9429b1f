// SPDX-License-Identifier: GPL-2.0-only
/* Values with units: tables of good and bad texts, and sweeps against arithmetic in 128 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/control/config.h"
#include "user/control/units.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef unsigned __int128 u128;

/* A refusal names the value and what is accepted. */
static void assert_why(const char *why, const char *value, const char *accepted)
{
	char quoted[QUOTE_LEN];

	if (!strstr(why, quote(value, quoted)) || !strstr(why, accepted))
		fail_msg("\"%s\": message lacks value or \"%s\": %s", value, accepted, why);
}

static void good_durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
		const char *shown;
	} rows[] = {
		{"1us", 1000, "1us"},
		{"800ms", 800000000, "800ms"},
		{"1000ms", 1000000000, "1s"},
		{"10m", 600000000000, "10m"},
		{"60m", 3600000000000, "1h"},
		{"24h", 86400000000000, "24h"},
		{"87600h", 315360000000000000, "87600h"},
		{"0003s", 3000000000, "3s"},
	};
	char why[256], shown[64];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t ns = 0;

		assert_int_equal(parse_duration(rows[i].text, &ns, why, sizeof(why)), 0);
		assert_int_equal(ns, rows[i].ns);
		format_duration(ns, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
}

static void bad_durations(void **state)
{
	static const struct {
		const char *text, *problem;
	} rows[] = {
		{"", "is empty"},
		{"0s", "is zero"},
		{"0", "is zero"},
		{"5", "has no unit"},
		{"-5s", "is negative"},
		{"+5s", "is not a number"},
		{"5 s", "unknown unit"},
		{" 5s", "is not a number"},
		{"5s ", "unknown unit"},
		{"5sec", "unknown unit"},
		{"5S", "unknown unit"},
		{"5ns", "unknown unit"},
		{"5d", "unknown unit"},
		{"1.5s", "fraction"},
		{"1e3s", "unknown unit"},
		{"0x5s", "unknown unit"},
		{"nan", "is not a number"},
		{"NaNs", "is not a number"},
		{"infs", "is not a number"},
		{"s", "is not a number"},
		{"1h30m", "unknown unit"},
		{"87601h", "is too large"},
		{"876000h", "is too large"}, /* --for 100 years */
		{"18446744073709551616us", "is too large"},
		{"99999999999999999999999999999999s", "is too large"},
		{"18446744073709551615h", "is too large"},
	};
	char why[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t ns = 77;

		if (parse_duration(rows[i].text, &ns, why, sizeof(why)) != -EINVAL)
			fail_msg("accepted: %s", rows[i].text);
		assert_int_equal(ns, 77);
		assert_why(why, rows[i].text, "1us to 87600h");
		if (!strstr(why, rows[i].problem))
			fail_msg("%s: not \"%s\": %s", rows[i].text, rows[i].problem, why);
	}
}

static void good_rates(void **state)
{
	static const struct {
		const char *text;
		uint64_t count, per_ns;
		const char *shown;
	} rows[] = {
		{"20/s", 20, 1000000000, "20/s"},      {"1/m", 1, 60000000000, "1/m"},
		{"1/h", 1, 3600000000000, "1/h"},      {"10000/s", 10000, 1000000000, "10000/s"},
		{"1/24h", 1, 86400000000000, "1/24h"}, {"1/2s", 1, 2000000000, "1/2s"},
		{"5/100ms", 5, 100000000, "5/100ms"},  {"100000000/s", 100000000, 1000000000, "100000000/s"},
		{"100/1us", 100, 1000, "100/1us"},     {"4294967297/h", 4294967297, 3600000000000, "4294967297/h"},
	};
	char why[256], shown[64];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rate rate = {}, again = {};

		assert_int_equal(parse_rate(rows[i].text, &rate, why, sizeof(why)), 0);
		assert_true(rate.set);
		assert_int_equal(rate.count, rows[i].count);
		assert_int_equal(rate.per_ns, rows[i].per_ns);
		format_rate(&rate, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
		assert_int_equal(parse_rate(shown, &again, why, sizeof(why)), 0);
		assert_int_equal(again.count, rate.count);
		assert_int_equal(again.per_ns, rate.per_ns);
	}
}

static void c35_zero_and_other_bad_rates(void **state)
{
	static const struct {
		const char *text, *problem;
	} rows[] = {
		{"0/s", "is zero"},
		{"0", "is zero"},
		{"00/m", "is zero"},
		{"", "is empty"},
		{"-1/s", "is negative"},
		{"20", "has no unit"},
		{"20/", "unknown unit"},
		{"20/ms", "unknown unit"},
		{"20/sec", "unknown unit"},
		{"20/25h", "period over 24h"},
		{"20/0s", "period of zero"},
		{"20 /s", "is not a rate"},
		{"20per s", "is not a rate"},
		{"/s", "is not a rate"},
		{"0.5/s", "fraction"},
		{"nan/s", "is not a rate"},
		{"inf/s", "is not a rate"},
		{"unlimited", "is not a rate"},
		{"100000001/s", "is too large"},
		{"101/1us", "is too large"},
		{"360000000001/h", "is too large"},
		{"18446744073709551616/s", "is too large"},
		{"18446744073709551617/24h", "is too large"},
	};
	char why[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rate rate = {.count = 77};

		if (parse_rate(rows[i].text, &rate, why, sizeof(why)) != -EINVAL)
			fail_msg("accepted: %s", rows[i].text);
		assert_int_equal(rate.count, 77);
		assert_false(rate.set);
		assert_why(why, rows[i].text, "1/24h to 100000000/s");
		if (!strstr(why, rows[i].problem))
			fail_msg("%s: not \"%s\": %s", rows[i].text, rows[i].problem, why);
	}
}

static void percents(void **state)
{
	static const struct {
		const char *text;
		int hundredths; /* -1: refused */
		const char *shown; /* or the problem */
	} rows[] = {
		{"75%", 7500, "75%"},
		{"100%", 10000, "100%"},
		{"0.01%", 1, "0.01%"},
		{"0.5%", 50, "0.5%"},
		{"12.34%", 1234, "12.34%"},
		{"0%", -1, "is zero"},
		{"0.00%", -1, "is zero"},
		{"100.01%", -1, "is too large"},
		{"101%", -1, "is too large"},
		{"65537%", -1, "is too large"},
		{"18446744073709551616%", -1, "is too large"},
		{"184467440737095517%", -1, "is too large"},
		{"0.001%", -1, "finer"},
		{"1.%", -1, "finer"},
		{".5%", -1, "is not a percentage"},
		{"75", -1, "has no unit"},
		{"75 %", -1, "unknown unit"},
		{"75%%", -1, "unknown unit"},
		{"-5%", -1, "is negative"},
		{"", -1, "is empty"},
		{"nan%", -1, "is not a percentage"},
	};
	char why[512], shown[64];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint16_t hundredths = 77;
		int err = parse_percent(rows[i].text, &hundredths, why, sizeof(why));

		if (rows[i].hundredths < 0) {
			if (err != -EINVAL || hundredths != 77 || !strstr(why, rows[i].shown))
				fail_msg("%s: %d, %u, %s", rows[i].text, err, hundredths, err ? why : "");
			assert_why(why, rows[i].text, "0.01% to 100%");
			continue;
		}
		assert_int_equal(err, 0);
		assert_int_equal(hundredths, rows[i].hundredths);
		format_percent(hundredths, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
}

static void counts_have_bounds_and_no_unit(void **state)
{
	static const struct {
		const char *text, *problem;
	} rows[] = {
		{"0", "is zero"},      {"", "is empty"},
		{"-1", "is negative"}, {"+1", "is not a whole number"},
		{"1.0", "fraction"},   {"1e3", "unit or other"},
		{"10k", "unit"},       {"40/s", "unit"},
		{"1_000", "unit"},     {"1 000", "unit"},
		{"0x10", "unit"},      {"nan", "is not a whole number"},
		{"1001", "too large"}, {"4294967297", "too large"},
		{"4", "too small"},    {"18446744073709551621", "too large"},
	};
	char why[512];
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		n = 77;
		if (parse_count(rows[i].text, 5, 1000, &n, why, sizeof(why)) != -EINVAL)
			fail_msg("accepted: %s", rows[i].text);
		assert_int_equal(n, 77);
		assert_why(why, rows[i].text, "from 5 to 1000");
		if (!strstr(why, rows[i].problem))
			fail_msg("%s: not \"%s\": %s", rows[i].text, rows[i].problem, why);
	}
	assert_int_equal(parse_count("5", 5, 1000, &n, why, sizeof(why)), 0);
	assert_int_equal(n, 5);
	assert_int_equal(parse_count("1000", 5, 1000, &n, why, sizeof(why)), 0);
	assert_int_equal(n, 1000);
	assert_int_equal(parse_count("0", 0, 1000, &n, why, sizeof(why)), 0);
	assert_int_equal(n, 0);
}

/* Around every power of two: the value read is the value written, or it is refused. */
static void c32_counts_do_not_wrap(void **state)
{
	char text[64], why[512];

	(void)state;
	for (int bits = 0; bits <= 70; bits++)
		for (int delta = -1; delta <= 1; delta++)
			for (int limit = 0; limit < 3; limit++) {
				static const uint64_t limits[] = {UINT32_MAX, 1000000000, UINT64_MAX};
				u128 wanted = ((u128)1 << bits) + (u128)(__int128)delta;
				uint64_t n = 77;

				if (!wanted)
					continue;
				char *p = text + sizeof(text) - 1;
				*p = 0;
				for (u128 rest = wanted; rest; rest /= 10)
					*--p = (char)('0' + (int)(rest % 10));
				int err = parse_count(p, 1, limits[limit], &n, why, sizeof(why));
				if (wanted <= limits[limit]) {
					assert_int_equal(err, 0);
					assert_true(n == wanted);
				} else {
					assert_int_equal(err, -EINVAL);
					assert_int_equal(n, 77);
				}
			}
}

static void c31_durations_do_not_wrap(void **state)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
	char text[64], why[512];

	(void)state;
	for (int bits = 0; bits < 64; bits++)
		for (size_t i = 0; i < COUNT_OF(units); i++) {
			uint64_t count = 1ULL << bits, ns = 77;
			u128 wanted = (u128)count * units[i].ns;

			snprintf(text, sizeof(text), "%llu%s", (unsigned long long)count, units[i].unit);
			int err = parse_duration(text, &ns, why, sizeof(why));
			if (wanted <= (u128)87600 * 3600000000000ULL) {
				assert_int_equal(err, 0);
				assert_true(ns == wanted);
			} else {
				assert_int_equal(err, -EINVAL);
			}
		}
}

/* What format_*() writes, parse_*() reads back as the same value. */
static void formats_are_read_back(void **state)
{
	uint64_t seed = 88172645463325252ULL;
	char text[64], why[512];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct rate rate, read;
		struct cidr cidr = {}, again = {};
		uint16_t percent;
		uint64_t ns;

		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		uint64_t us = 1 + seed % 315360000000000ULL;
		format_duration(us * 1000, text, sizeof(text));
		assert_int_equal(parse_duration(text, &ns, why, sizeof(why)), 0);
		assert_int_equal(ns, us * 1000);

		rate = (struct rate){true, 1 + seed % 100, 1000 * (1 + us % 86400000000ULL)};
		format_rate(&rate, text, sizeof(text));
		assert_int_equal(parse_rate(text, &read, why, sizeof(why)), 0);
		assert_int_equal(read.count, rate.count);
		assert_int_equal(read.per_ns, rate.per_ns);

		format_percent((uint16_t)(1 + seed % 10000), text, sizeof(text));
		assert_int_equal(parse_percent(text, &percent, why, sizeof(why)), 0);
		assert_int_equal(percent, 1 + seed % 10000);

		memcpy(cidr.addr, &seed, sizeof(seed));
		cidr.prefix = 64;
		format_cidr(&cidr, text, sizeof(text));
		assert_int_equal(parse_cidr(text, &again, why, sizeof(why)), 0);
		assert_memory_equal(&cidr, &again, sizeof(cidr));
	}
}

static void cidrs(void **state)
{
	static const struct {
		const char *text, *shown; /* or the problem */
		int prefix; /* of 16 bytes; -1: refused */
	} rows[] = {
		{"192.0.2.0/24", "192.0.2.0/24", 120},
		{"192.0.2.1", "192.0.2.1/32", 128},
		{"0.0.0.0/0", "0.0.0.0/0", 96},
		{"::/0", "::/0", 0},
		{"2001:db8::/32", "2001:db8::/32", 32},
		{"2001:DB8:0::1", "2001:db8::1/128", 128},
		{"::ffff:192.0.2.0/120", "192.0.2.0/24", 120}, /* mapped is IPv4 */
		{"::ffff:c000:201", "192.0.2.1/32", 128},
		{"192.0.2.7/24", "write 192.0.2.0/24 for the network or 192.0.2.7/32 for the host", -1},
		{"2001:db8::1/64", "write 2001:db8::/64 for the network or 2001:db8::1/128 for the host", -1},
		{"192.0.2.0/33", "0 to 32", -1},
		{"2001:db8::/129", "0 to 128", -1},
		{"192.0.2.0/", "prefix length", -1},
		{"192.0.2.0/-1", "prefix length", -1},
		{"192.0.2.0/24/24", "prefix length", -1},
		{"192.0.2.0/255.255.255.0", "prefix length", -1},
		{"192.0.2/24", "is not a CIDR", -1},
		{"192.0.2.256", "is not a CIDR", -1},
		{"0300.0.2.1", "is not a CIDR", -1},
		{" 192.0.2.0/24", "is not a CIDR", -1},
		{"monitor.example.net", "names are not looked up", -1}, /* c145 */
		{"fe80::1%eth0", "is not a CIDR", -1},
		{"/24", "is not a CIDR", -1},
		{"", "is empty", -1},
		{"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff:0000", "is not a CIDR",
		 -1},
	};
	char why[512], shown[64];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct cidr cidr = {.prefix = 77};
		int err = parse_cidr(rows[i].text, &cidr, why, sizeof(why));

		if (rows[i].prefix < 0) {
			if (err != -EINVAL || cidr.prefix != 77 || !strstr(why, rows[i].shown))
				fail_msg("%s: %d, %s", rows[i].text, err, err ? why : "");
			continue;
		}
		if (err)
			fail_msg("%s: %s", rows[i].text, why);
		assert_int_equal(cidr.prefix, rows[i].prefix);
		format_cidr(&cidr, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
}

/* Against bit-by-bit comparison. */
static void containment(void **state)
{
	uint64_t seed = 2463534242ULL;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct cidr outer = {}, inner = {};
		bool wanted = true;

		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		outer.prefix = (uint8_t)(seed % 129);
		inner.prefix = (uint8_t)(seed / 129 % 129);
		for (int bit = 0; bit < 128; bit++) {
			uint8_t mask = (uint8_t)(0x80 >> (bit & 7));

			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			if (bit < inner.prefix && seed & 1)
				inner.addr[bit / 8] |= mask;
			/* Mostly the same bits, so that both answers occur. */
			if (bit < outer.prefix && (!(seed & 0x3f00) ? seed >> 20 & 1 : inner.addr[bit / 8] & mask))
				outer.addr[bit / 8] |= mask;
			if (bit < outer.prefix && (outer.addr[bit / 8] ^ inner.addr[bit / 8]) & mask)
				wanted = false;
		}
		assert_int_equal(cidr_contains(&outer, &inner), wanted && inner.prefix >= outer.prefix);
	}
}

static void quotes_are_one_printable_line(void **state)
{
	char text[500], buf[QUOTE_LEN];

	(void)state;
	for (int c = 1; c < 256; c++) {
		memset(text, c, sizeof(text) - 1);
		text[sizeof(text) - 1] = 0;
		const char *shown = quote(text, buf);
		assert_true(strlen(shown) < QUOTE_LEN);
		for (const char *p = shown; *p; p++)
			assert_true(*p >= 0x20 && *p < 0x7f);
		assert_non_null(strstr(shown, "\"..."));
	}
	assert_string_equal(quote("a\tb\\", buf), "\"a\\x09b\\x5c\"");
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		long long thousandths; /* -1: refused */
	} rows[] = {
		{"0.6", 600},
		{"1", 1000},
		{"0.001", 1},
		{"1.25", 1250},
		{"100000", 100000000},
		{"0", 0},
		{"", -1},
		{"-0.5", -1},
		{"nan", -1},
		{".5", -1},
		{"1.", -1},
		{"0.0001", -1},
		{"1e3", -1},
		{"0.5%", -1},
		{"inf", -1},
		{"0x1", -1},
		{"18446744073709551616", -1},
	};
	char shown[32];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t n = 77;
		const char *problem = unit_number(rows[i].text, &n);

		if ((rows[i].thousandths < 0) != (problem != NULL))
			fail_msg("%s: %s", rows[i].text, problem ? problem : "accepted");
		assert_int_equal(n, problem ? 77 : rows[i].thousandths);
		if (problem)
			continue;
		format_number(n, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_durations),
		cmocka_unit_test(bad_durations),
		cmocka_unit_test(good_rates),
		cmocka_unit_test(c35_zero_and_other_bad_rates),
		cmocka_unit_test(percents),
		cmocka_unit_test(counts_have_bounds_and_no_unit),
		cmocka_unit_test(c32_counts_do_not_wrap),
		cmocka_unit_test(c31_durations_do_not_wrap),
		cmocka_unit_test(formats_are_read_back),
		cmocka_unit_test(cidrs),
		cmocka_unit_test(containment),
		cmocka_unit_test(quotes_are_one_printable_line),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
