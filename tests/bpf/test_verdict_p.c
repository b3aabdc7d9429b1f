// SPDX-License-Identifier: GPL-2.0-only
/*
 * The answer to a refused SYN, byte by byte: RST|ACK that a client's stack accepts (RFC 9293 3.10.7.1), on the same
 * VLAN, and never where it would do harm.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/bpf/rig.h"

#define SLOW (1000 * NS_PER_S)

static struct rig *rig;
static struct slc_policy web;
static uint16_t state_slot;

/* A service whose breaker is open: every SYN is refused, with a reset. */
static int setup(void **state)
{
	struct slc_override_half o = {.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER};

	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	web.flags |= SLC_P_RESET;
	state_slot = rig_service(rig, &web, SERVER4, 443);
	rig_address(rig, &web, SERVER6, 443);
	rig_override(rig, state_slot, &o);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(rig);
	return 0;
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* What the answer to `syn` must be, field by field. */
static void check_reset(const struct packet *syn, const struct packet *rst, uint32_t seq, uint16_t payload)
{
	const uint8_t *in = syn->data + syn->l3, *out = rst->data + rst->l3;
	bool v6 = in[0] >> 4 == 6;
	size_t ip = v6 ? 40 : 20, addr = v6 ? 8 : 12, addr_len = v6 ? 16 : 4;
	const uint8_t *tcp_in = syn->data + syn->l4, *tcp = out + ip;

	assert_int_equal(rst->length, syn->l3 + ip + 20);
	assert_memory_equal(rst->data, syn->data + 6, 6);
	assert_memory_equal(rst->data + 6, syn->data, 6);
	assert_memory_equal(rst->data + 12, syn->data + 12, syn->l3 - 12); /* tags and type */
	assert_memory_equal(out + addr, in + addr + addr_len, addr_len);
	assert_memory_equal(out + addr + addr_len, in + addr, addr_len);
	if (v6) {
		assert_int_equal(get32(out) >> 28, 6);
		assert_int_equal(out[4] << 8 | out[5], 20);
		assert_int_equal(out[6], IPPROTO_TCP);
		assert_true(out[7] >= 64);
	} else {
		assert_int_equal(out[0], 0x45);
		assert_int_equal(out[2] << 8 | out[3], 40);
		assert_int_equal((out[6] << 8 | out[7]) & 0x3fff, 0); /* no fragment */
		assert_true(out[8] >= 64);
		assert_int_equal(out[9], IPPROTO_TCP);
		assert_int_equal(packet_check4(out), 0);
	}
	assert_memory_equal(tcp, tcp_in + 2, 2);
	assert_memory_equal(tcp + 2, tcp_in, 2);
	assert_int_equal(get32(tcp + 4), 0);
	assert_true(get32(tcp + 8) == (uint32_t)(seq + 1 + payload));
	assert_int_equal(tcp[12], 0x50);
	assert_int_equal(tcp[13], RST | ACK);
	assert_int_equal(packet_check_tcp(out, tcp, 20), 0);
}

static void test_reset_bytes(void **state)
{
	static const struct recipe rows[] = {
		{.seq = 1},
		{.seq = 0xffffffff}, /* seq + 1 wraps */
		{.seq = 0xfffffff0, .payload = 500},
		{.seq = 0x01020304, .tcp_options = 40, .tcp = SYN | ECE | CWR},
		{.seq = 7, .options = 40},
		{.seq = 7, .trailing = 100, .trailing_byte = 0xee},
		{.seq = 7, .tag = {VLAN(100)}},
		{.seq = 7, .tag = {QINQ(100), VLAN(200), VLAN(300), 0x9100e001u}, .payload = 9},
		{.seq = 7, .payload = 1400, .sport = 1, .from = "192.0.2.255"},
		{.seq = 7, .hop_limit = 1},
		{.seq = 8, .link = LINK_IP6},
		{.seq = 8, .link = LINK_IP6, .payload = 33, .tcp_options = 12, .tag = {VLAN(4094)}},
		{.seq = 8, .link = LINK_IP6, .trailing = 17},
		{.seq = 8, .link = LINK_IP6, .ext = {EXT(IPPROTO_DSTOPTS, .units = 3), EXT(IPPROTO_HOPOPTS)}},
		{.seq = 8, .link = LINK_IP6, .from = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct recipe r = rows[i];
		struct packet syn, rst = {0};

		r.sport = r.sport ? r.sport : 30000 + i;
		syn = packet_build(&r);
		assert_int_equal(rig_run(rig, &syn, &rst), XDP_TX);
		check_reset(&syn, &rst, r.seq, r.payload);
	}
	assert_int_equal(rig_counters(rig, state_slot).resets, sizeof(rows) / sizeof(*rows));
	assert_int_equal(rig_counters(rig, state_slot).enforced.circuit_open, sizeof(rows) / sizeof(*rows));
}

/* A fast-open SYN's data is acknowledged too, or the client would not take the reset for its own. */
static void test_c73_reset_acknowledges_data(void **state)
{
	struct packet syn =
		PACKET(.seq = 1000, .payload = 200, .tcp_options = 12, .option_kind = 34, .option_length = 10);
	struct packet rst = {0};

	(void)state;
	assert_int_equal(rig_run(rig, &syn, &rst), XDP_TX);
	check_reset(&syn, &rst, 1000, 200);
}

static void test_never_reset(void **state)
{
	struct slc_rule own = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	struct slc_policy dns = rig_policy("dns");

	(void)state;
	/* martians and odd flags are dropped, data of connections passes */
	expect(rig, PACKET(.from = "127.0.0.1"), XDP_DROP, SLC_martian);
	expect(rig, PACKET(.from = "224.0.0.1"), XDP_DROP, SLC_martian);
	expect(rig, PACKET(.from = "255.255.255.255"), XDP_DROP, SLC_martian);
	expect(rig, PACKET(.from = SERVER4), XDP_DROP, SLC_martian);
	expect(rig, PACKET(.link = LINK_IP6, .from = "ff02::1"), XDP_DROP, SLC_martian);
	expect(rig, PACKET(.tcp = SYN | FIN), XDP_DROP, SLC_anomalous);
	expect(rig, PACKET(.tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.tcp = RST), XDP_PASS, SLC_established);
	assert_int_equal(rig_counters(rig, state_slot).resets, 0);

	/* our own and our routers' addresses: refused, not answered (c55) */
	rig_scope(rig, SLC_SCOPE_OWN, "192.0.2.254", 32, &own);
	expect(rig, PACKET(.from = "192.0.2.254"), XDP_DROP, SLC_circuit_open);
	expect(rig, PACKET(.from = "192.0.2.253"), XDP_TX, SLC_circuit_open);

	/* UDP has no reset */
	dns.proto = IPPROTO_UDP;
	dns.flags |= SLC_P_RESET;
	rig_policy_source(&dns, SLOW, 1);
	rig_service(rig, &dns, SERVER4, 53);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53), XDP_DROP, SLC_rate_limited);
}

/* A copy of a SYN that was admitted must not be answered: the client would give up a handshake that succeeds. */
static void test_repeat_is_never_reset(void **state)
{
	struct slc_override_half o = {.flags = 0};

	(void)state;
	rig_override(rig, state_slot, &o);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.seq = 5), XDP_DROP, SLC_repeat);
	for (int i = 0; i < SLC_REPEATS + 3; i++) {
		struct packet again = PACKET(.seq = 5);

		rig_age_flows(rig, SLC_REPEAT_GAP_MS + 20);
		assert_true(rig_run(rig, &again, NULL) != XDP_TX);
	}
	assert_int_equal(rig_counters(rig, state_slot).resets, 0);
}

/* More resets than the bound: dropped and counted; the reason stays the refusal's. */
static void test_reset_rate_of_the_service(void **state)
{
	struct slc_counters c;

	(void)state;
	web.reset_interval16 = SLOW << 4;
	web.reset_depth16 = (SLOW << 4) * 3;
	rig_replace_policy(rig, &web, SERVER4, 443);
	for (int i = 0; i < 3; i++)
		expect(rig, PACKET(.sport = 100 + i), XDP_TX, SLC_circuit_open);
	for (int i = 0; i < 5; i++)
		expect(rig, PACKET(.sport = 200 + i), XDP_DROP, SLC_circuit_open);
	c = rig_counters(rig, state_slot);
	assert_int_equal(c.resets, 3);
	assert_int_equal(c.resets_held, 5);
}

static void test_reset_rate_of_the_host(void **state)
{
	struct slc_policy other = rig_policy("other");
	struct slc_override_half o = {.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER};
	uint16_t slot;

	(void)state;
	other.flags |= SLC_P_RESET;
	slot = rig_service(rig, &other, SERVER4, 8443);
	rig_override(rig, slot, &o);
	rig->control->global[0].reset_interval16 = SLOW << 4;
	rig->control->global[0].reset_depth16 = (SLOW << 4) * 4;
	for (int i = 0; i < 2; i++) {
		expect(rig, PACKET(.sport = 100 + i), XDP_TX, SLC_circuit_open);
		expect(rig, PACKET(.sport = 100 + i, .dport = 8443), XDP_TX, SLC_stopped);
	}
	expect(rig, PACKET(.sport = 300), XDP_DROP, SLC_circuit_open);
	expect(rig, PACKET(.sport = 300, .dport = 8443), XDP_DROP, SLC_stopped);
}

/* Every refusal of a TCP service is answered where the action is reset, and none where it is drop. */
static void test_action_is_the_services(void **state)
{
	struct slc_policy drop = rig_policy("drop"), reset = rig_policy("reset");

	(void)state;
	rig_policy_source(&drop, SLOW, 1);
	rig_policy_source(&reset, SLOW, 1);
	reset.flags |= SLC_P_RESET;
	rig_service(rig, &drop, SERVER4, 7001);
	rig_service(rig, &reset, SERVER4, 7002);
	expect(rig, PACKET(.dport = 7001), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.dport = 7002), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.dport = 7001, .seq = 1), XDP_DROP, SLC_rate_limited);
	expect(rig, PACKET(.dport = 7002, .seq = 1), XDP_TX, SLC_rate_limited);
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_reset_bytes),
		ROW(test_c73_reset_acknowledges_data),
		ROW(test_never_reset),
		ROW(test_repeat_is_never_reset),
		ROW(test_reset_rate_of_the_service),
		ROW(test_reset_rate_of_the_host),
		ROW(test_action_is_the_services),
	};

	rig_private_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
