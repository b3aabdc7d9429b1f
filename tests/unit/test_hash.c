// SPDX-License-Identifier: GPL-2.0-only
/* The keyed hashes: against a SipHash written from the paper, byte by byte, and for what the tables need of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bpf/hash.h"
#include "tests/bpf/packet.c"

static const __u64 SECRET[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

static struct slc_addr address(const char *text)
{
	struct slc_addr a;

	packet_address(text, a.byte);
	return a;
}

/* --- SipHash-c-d (Aumasson, Bernstein 2012) from its description ------------------------------------------------- */

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1], v[2] += v[3];
	v[1] = rotate(v[1], 13), v[3] = rotate(v[3], 16);
	v[1] ^= v[0], v[3] ^= v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1], v[0] += v[3];
	v[1] = rotate(v[1], 17), v[3] = rotate(v[3], 21);
	v[1] ^= v[2], v[3] ^= v[0];
	v[2] = rotate(v[2], 32);
}

static uint64_t siphash(int c, int d, const __u64 key[2], const uint8_t *bytes, size_t n)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL, key[0] ^ 0x6c7967656e657261ULL,
			 key[1] ^ 0x7465646279746573ULL};

	for (size_t word = 0; word <= n / 8; word++) {
		uint64_t m = word == n / 8 ? (uint64_t)n << 56 : 0;

		for (size_t i = 0; i < 8 && word * 8 + i < n; i++)
			m |= (uint64_t)bytes[word * 8 + i] << 8 * i;
		v[3] ^= m;
		for (int r = 0; r < c; r++)
			sip_round(v);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	for (int r = 0; r < d; r++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The paper's test vector for SipHash-2-4, so that the reference is one. */
static void test_reference(void **state)
{
	uint8_t bytes[15];

	(void)state;
	for (int i = 0; i < 15; i++)
		bytes[i] = i;
	assert_true(siphash(2, 4, SECRET, bytes, 15) == 0xa129ca6149be45e5ULL);
}

static uint64_t reference_source(const __u64 secret[2], const struct slc_addr *a, uint32_t uid, uint16_t vlan,
				 uint8_t tier)
{
	bool v4 = slc_addr_is_v4(a);
	size_t skip = v4 ? 8 : 0, n = 16 - skip;
	uint16_t last = (vlan & 0xfff) | tier << 12;
	uint8_t bytes[22];

	memcpy(bytes, a->byte + skip, n);
	for (int i = 0; i < 4; i++)
		bytes[n++] = uid >> 8 * i;
	bytes[n++] = last;
	bytes[n++] = last >> 8;
	return siphash(1, 3, secret, bytes, n);
}

static void test_source_is_siphash_1_3(void **state)
{
	static const char *const texts[] = {"192.0.2.1", "203.0.113.255", "0.0.0.0", "2001:db8::1", "::1", "ff02::2"};
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < 6000; i++) {
		struct slc_addr a = address(texts[i % 6]);
		__u64 secret[2];
		uint32_t uid;
		uint16_t vlan;

		secret[0] = seed = slc_mix(seed + i);
		secret[1] = seed = slc_mix(seed + 1);
		uid = seed = slc_mix(seed + 1);
		vlan = seed >> 40 & 0xfff;
		if (i >= 6)
			a.word[3] ^= seed >> 32;
		assert_true(slc_hash_source(secret, &a, uid, vlan, i & 1) ==
			    reference_source(secret, &a, uid, vlan, i & 1));
	}
}

/* --- what the tables need ------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static size_t collisions(uint64_t *values, size_t n)
{
	size_t same = 0;

	qsort(values, n, sizeof(*values), by_value);
	for (size_t i = 1; i < n; i++)
		same += values[i] == values[i - 1];
	return same;
}

/* Addresses whose halves give the same XOR must not meet (DESIGN 3: equal hi^lo). */
static void test_equal_xor_does_not_collide(void **state)
{
	enum { N = 65536 };
	uint64_t *hash = calloc(N, sizeof(*hash));

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		struct slc_addr a = {.half = {0x20010db8ULL + (i << 32), (0x20010db8ULL + (i << 32)) ^ 0x1234567ULL}};

		hash[i] = slc_hash_source(SECRET, &a, 1, 0, SLC_TIER_OWN);
	}
	assert_int_equal(collisions(hash, N), 0);
	free(hash);
}

/* Sets fill evenly from addresses in order, tags too: the flood of a /16 is spread like any other. */
static void test_spread(void **state)
{
	enum { N = 1 << 20, SETS = 1 << 12 };
	uint32_t *set = calloc(SETS, sizeof(*set)), *tag = calloc(SETS, sizeof(*tag));
	double chi_set = 0, chi_tag = 0, mean = (double)N / SETS;
	struct slc_addr a = address("10.0.0.0");

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		uint64_t h;

		a.word[3] = htonl(0x0a000000 + i);
		h = slc_hash_source(SECRET, &a, 7, 0, SLC_TIER_OWN);
		set[h % SETS]++;
		tag[h >> 40 & (SETS - 1)]++;
	}
	for (int i = 0; i < SETS; i++) {
		chi_set += (set[i] - mean) * (set[i] - mean) / mean;
		chi_tag += (tag[i] - mean) * (tag[i] - mean) / mean;
	}
	/* chi-squared with 4095 degrees of freedom: mean 4095, deviation 90; five deviations */
	assert_true(chi_set > 3645 && chi_set < 4545);
	assert_true(chi_tag > 3645 && chi_tag < 4545);
	free(set);
	free(tag);
}

/* uid, VLAN, tier and secret are part of the identity: the same address elsewhere is another source. */
static void test_c02_every_input_counts(void **state)
{
	struct slc_addr a = address("192.0.2.5"), b = address("192.0.2.6");
	__u64 other[2] = {SECRET[0], SECRET[1] ^ 1};
	uint64_t h[7] = {
		slc_hash_source(SECRET, &a, 1, 0, SLC_TIER_OWN),  slc_hash_source(SECRET, &b, 1, 0, SLC_TIER_OWN),
		slc_hash_source(SECRET, &a, 2, 0, SLC_TIER_OWN),  slc_hash_source(SECRET, &a, 1, 10, SLC_TIER_OWN),
		slc_hash_source(SECRET, &a, 1, 20, SLC_TIER_OWN), slc_hash_source(SECRET, &a, 1, 0, SLC_TIER_WIDE),
		slc_hash_source(other, &a, 1, 0, SLC_TIER_OWN),
	};

	(void)state;
	assert_int_equal(collisions(h, 7), 0);
}

static void test_flows(void **state)
{
	enum { N = 1 << 18 };
	struct slc_addr from = address("198.51.100.7"), to = address("203.0.113.10"), to6 = address("2001:db8::10");
	uint64_t source = slc_hash_source(SECRET, &from, 1, 0, SLC_TIER_OWN);
	uint64_t *hash = calloc(N, sizeof(*hash));

	(void)state;
	for (uint32_t i = 0; i < N; i++) /* ports and sequence numbers that differ in one field each */
		hash[i] = slc_hash_flow(source, &from, &to, i & 0xffff, 443, i >> 16, 6);
	assert_int_equal(collisions(hash, N), 0);
	assert_true(slc_hash_flow(source, &from, &to, 1, 443, 0, 6) !=
		    slc_hash_flow(source, &from, &to, 1, 443, 0, 17));
	assert_true(slc_hash_flow(source, &from, &to, 1, 443, 0, 6) !=
		    slc_hash_flow(source, &from, &to6, 1, 443, 0, 6));
	assert_true(slc_hash_flow(source, &from, &to, 1, 2, 0, 6) != slc_hash_flow(source, &from, &to, 2, 1, 0, 6));
	free(hash);
}

/* Hosts under one source key (a /64) have flows of their own. */
static void test_c50_flows_of_hosts_in_a_prefix(void **state)
{
	struct slc_addr a = address("2001:db8:1:2::1"), b = address("2001:db8:1:2::2"), to = address("2001:db8::10");
	struct slc_addr key = a;
	uint64_t source;

	(void)state;
	slc_addr_mask(&key, 32, 64);
	source = slc_hash_source(SECRET, &key, 1, 0, SLC_TIER_OWN);
	assert_true(slc_hash_flow(source, &a, &to, 5, 443, 9, 6) != slc_hash_flow(source, &b, &to, 5, 443, 9, 6));
}

static void test_c50_masks(void **state)
{
	static const struct {
		const char *addr;
		uint8_t v4, v6;
		const char *masked;
	} rows[] = {
		{"192.0.2.255", 32, 64, "192.0.2.255"},
		{"192.0.2.255", 24, 64, "192.0.2.0"},
		{"192.0.2.255", 25, 64, "192.0.2.128"},
		{"192.0.2.255", 8, 64, "192.0.0.0"},
		{"192.0.2.255", 1, 64, "128.0.0.0"},
		{"192.0.2.255", 0, 64, "0.0.0.0"},
		{"2001:db8:1:2:3:4:5:6", 32, 64, "2001:db8:1:2::"},
		{"2001:db8:1:2:3:4:5:6", 32, 56, "2001:db8:1::"},
		{"2001:db8:1:2:3:4:5:6", 32, 48, "2001:db8:1::"},
		{"2001:db8:1:2:3:4:5:6", 32, 63, "2001:db8:1:2::"},
		{"2001:db8:1:3:3:4:5:6", 32, 63, "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff::", 32, 65, "2001:db8:1:2:8000::"},
		{"2001:db8:1:2:3:4:5:ffff", 32, 127, "2001:db8:1:2:3:4:5:fffe"},
		{"2001:db8:1:2:3:4:5:6", 32, 128, "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:6", 32, 0, "::"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct slc_addr got = address(rows[i].addr), want = address(rows[i].masked);

		slc_addr_mask(&got, rows[i].v4, rows[i].v6);
		if (memcmp(got.byte, want.byte, 16))
			fail_msg("%s/%u/%u is not %s", rows[i].addr, rows[i].v4, rows[i].v6, rows[i].masked);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_source_is_siphash_1_3),
		cmocka_unit_test(test_equal_xor_does_not_collide),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_c02_every_input_counts),
		cmocka_unit_test(test_flows),
		cmocka_unit_test(test_c50_flows_of_hosts_in_a_prefix),
		cmocka_unit_test(test_c50_masks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
