// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parser natively under sanitizers: the rows of parse_cases.h, each of them cut at every byte, and what only a
 * look into struct slc_pkt can show. Frames are copied to the end of a heap block, so that a read too far is caught.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bpf/parse.h"
#include "tests/bpf/packet.c" /* compiled in: under this test's sanitizers */
#include "tests/bpf/parse_cases.h"

/* As drivers do: the IP header is aligned. The block ends where the frame does. */
static int parse(const uint8_t *data, size_t length, struct slc_pkt *p)
{
	uint8_t *block = malloc(length + 2);
	int kind;

	assert_non_null(block);
	memcpy(block + 2, data, length);
	memset(p, 0, sizeof(*p));
	kind = slc_parse(p, block + 2, block + 2 + length);
	free(block);
	return kind;
}

static void test_table(void **state)
{
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++) {
		const struct parse_case *c = &PARSE_CASES[i];
		struct packet frame = packet_build(&c->recipe);
		struct slc_pkt p;
		int kind = parse(frame.data, frame.length, &p);

		if (c->kind & DATAGRAM_LIES) {
			/* the header itself may be cut too: then the parser cannot know whether the rest is elsewhere */
			if (p.beyond && (kind == (c->kind & ~DATAGRAM_LIES) || kind == SLC_unparseable))
				continue;
		} else if (kind == c->kind && (!p.beyond || kind == SLC_malformed)) {
			continue;
		}
		print_error("%s: kind %d, beyond %d, expected %d\n", c->name, kind, p.beyond, c->kind);
		bad++;
	}
	assert_int_equal(bad, 0);
}

/* No frame cut short opens a connection, and none is read past its end. */
static void test_every_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++) {
		struct packet frame = packet_build(&PARSE_CASES[i].recipe);
		uint32_t end = frame.length;

		for (uint32_t cut = 0; cut < end; cut++) {
			struct slc_pkt p;
			int kind = parse(frame.data, cut, &p);

			assert_in_range(kind, 0, SLC_KIND_UDP);
			if (kind == SLC_KIND_SYN && !p.beyond)
				assert_true(p.l3 + p.total <= cut);
			if (cut < 14)
				assert_int_equal(kind, SLC_malformed);
		}
	}
}

static void test_c19_flags(void **state)
{
	(void)state;
	for (int flags = 0; flags < 256; flags++)
		assert_int_equal(slc_tcp_kind(flags), flags_kind(flags));
}

static void test_c04_offsets_behind_tags(void **state)
{
	struct packet frame = PACKET(.tag = {QINQ(5), VLAN(6)}, .from = "192.0.2.33", .to = "203.0.113.77",
				     .sport = 1025, .dport = 0x01bb, .seq = 0xa1b2c3d4);
	uint8_t from[16], to[16];
	struct slc_pkt p;

	(void)state;
	packet_address("192.0.2.33", from);
	packet_address("203.0.113.77", to);
	assert_int_equal(parse(frame.data, frame.length, &p), SLC_KIND_SYN);
	assert_memory_equal(p.saddr.byte, from, 16);
	assert_memory_equal(p.daddr.byte, to, 16);
	assert_int_equal(p.l3, 22);
	assert_int_equal(p.l4, 42);
	assert_int_equal(p.sport, 1025);
	assert_int_equal(p.dport, 443);
	assert_int_equal(p.seq, 0xa1b2c3d4);
	assert_int_equal(p.vlan, 5);
	assert_int_equal(p.total, 40);
}

static void test_c04_ipv6_addresses(void **state)
{
	struct packet frame = PACKET(.link = LINK_IP6, .ext = {DST(.units = 1)}, .payload = 3);
	uint8_t from[16], to[16];
	struct slc_pkt p;

	(void)state;
	packet_address(CLIENT6, from);
	packet_address(SERVER6, to);
	assert_int_equal(parse(frame.data, frame.length, &p), SLC_KIND_SYN);
	assert_memory_equal(p.saddr.byte, from, 16);
	assert_memory_equal(p.daddr.byte, to, 16);
	assert_int_equal(p.l4, 14 + 40 + 16);
	assert_int_equal(p.total, 40 + 16 + 23);
	assert_int_equal(p.payload, 3);
}

/* Payload is the datagram's, whatever the frame carries behind it. */
static void test_c16_payload_length(void **state)
{
	static const struct {
		struct recipe recipe;
		uint16_t payload;
	} rows[] = {
		{{.trailing = 6}, 0},
		{{.trailing = 200, .trailing_byte = 9}, 0},
		{{.payload = 7, .trailing = 50}, 7},
		{{.options = 8, .tcp_options = 12, .payload = 5}, 5},
		{{.link = LINK_IP6, .tcp_options = 40, .trailing = 9}, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct packet frame = packet_build(&rows[i].recipe);
		struct slc_pkt p;

		assert_int_equal(parse(frame.data, frame.length, &p), SLC_KIND_SYN);
		assert_int_equal(p.payload, rows[i].payload);
	}
}

static void test_c55_martians(void **state)
{
	static const struct {
		const char *from;
		bool martian;
	} rows[] = {
		{"127.0.0.1", true},
		{"127.255.255.254", true},
		{"0.0.0.0", true},
		{"0.1.2.3", true},
		{"224.0.0.1", true},
		{"239.255.255.250", true},
		{"255.255.255.255", true},
		{"240.0.0.1", true},
		{SERVER4, true},
		{"198.51.100.7", false},
		{"10.0.0.1", false},
		{"223.255.255.254", false},
		{"128.0.0.1", false},
		{"::1", true},
		{"::", true},
		{"ff02::1", true},
		{"::ffff:192.0.2.1", true},
		{SERVER6, true},
		{"2001:db8::7", false},
		{"fe80::1", false},
		{"fd00::1", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool v6 = strchr(rows[i].from, ':');
		struct packet frame =
			packet_build(&(struct recipe){.link = v6 ? LINK_IP6 : LINK_IP4, .from = rows[i].from});
		struct slc_pkt p;

		assert_int_equal(parse(frame.data, frame.length, &p), SLC_KIND_SYN);
		if (slc_martian(&p) != rows[i].martian)
			fail_msg("%s: martian %d", rows[i].from, slc_martian(&p));
	}
}

/* The builder itself: other tests stand on it. */
static void test_builder_checksums(void **state)
{
	struct packet frame = PACKET(.options = 8, .payload = 11);
	struct packet six = PACKET(.link = LINK_IP6, .payload = 4);

	(void)state;
	assert_int_equal(packet_check4(frame.data + frame.l3), 0);
	assert_int_equal(packet_check_tcp(frame.data + frame.l3, frame.data + frame.l4, 31), 0);
	packet_set_source4(&frame, 0xc0000263);
	packet_set_source_port(&frame, 65535);
	packet_set_seq(&frame, 0xfffefdfc);
	assert_int_equal(packet_check4(frame.data + frame.l3), 0);
	assert_int_equal(packet_check_tcp(frame.data + frame.l3, frame.data + frame.l4, 31), 0);
	assert_int_equal(packet_check_tcp(six.data + six.l3, six.data + six.l4, 24), 0);
	assert_int_equal(frame.length, 14 + 28 + 31);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_c19_flags),
		cmocka_unit_test(test_c04_offsets_behind_tags),
		cmocka_unit_test(test_c04_ipv6_addresses),
		cmocka_unit_test(test_c16_payload_length),
		cmocka_unit_test(test_c55_martians),
		cmocka_unit_test(test_builder_checksums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
