// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse cases through XDP: the rows of parse_cases.h with a service on the port and without one, the parser's
 * configuration, and that nothing but an attempt leaves state behind. Each packet moves exactly one reason (c149).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/bpf/parse_cases.h"
#include "tests/bpf/rig.h"

static struct rig *rig;
static struct slc_policy web, dns;

/* TCP and UDP on 443 at the tables' addresses, no limits. */
static int setup(void **state)
{
	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	rig_service(rig, &web, SERVER4, 443);
	rig_address(rig, &web, SERVER6, 443);
	dns = rig_policy("dns");
	dns.proto = IPPROTO_UDP;
	rig_service(rig, &dns, SERVER4, 443);
	rig_address(rig, &dns, SERVER6, 443);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(rig);
	return 0;
}

/* What XDP says of a kind where the port is a service's, and where it is nobody's. */
static enum slc_reason reason_of(int kind, bool service)
{
	if (kind & DATAGRAM_LIES)
		return SLC_malformed;
	if (kind < SLC_REASON_COUNT)
		return kind;
	if (!service)
		return SLC_not_service;
	switch (kind) {
	case SLC_KIND_TCP:
		return SLC_established;
	case SLC_KIND_ODD:
		return SLC_anomalous;
	default:
		return SLC_admitted;
	}
}

static uint32_t action_of(enum slc_reason reason)
{
	return rig_reason_verdict(reason) == SLC_PASS ? XDP_PASS : XDP_DROP;
}

static void run_row(const struct parse_case *c, bool service, uint16_t sport)
{
	enum slc_reason reason = reason_of(c->kind, service);
	struct recipe recipe = c->recipe;
	struct packet frame;

	recipe.sport = sport; /* another flow each time: not a retransmit of the last row */
	recipe.dport = service ? 443 : 22;
	if (!service) /* the decoy spells the service's port then */
		recipe.option_ports[1] = recipe.option_ports[1] ? 443 : 0;
	frame = packet_build(&recipe);
	rig_expect(rig, &frame, action_of(reason), reason, c->name, __FILE__, __LINE__);
}

static void test_table_with_service(void **state)
{
	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++)
		run_row(&PARSE_CASES[i], true, 1024 + i);
}

static void test_table_without_service(void **state)
{
	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++)
		run_row(&PARSE_CASES[i], false, 1024 + i);
}

/* All flag sets, with ECE and CWR: the 64 rows four times. */
static void test_c19_flag_table(void **state)
{
	(void)state;
	for (int flags = 0; flags < 256; flags++) {
		enum slc_reason reason = reason_of(flags_kind(flags), true);
		char name[32];
		struct packet frame = PACKET(.tcp = flags, .null = !flags, .sport = 20000 + flags);
		struct packet other = PACKET(.tcp = flags, .null = !flags, .dport = 22);

		snprintf(name, sizeof(name), "c19 flags %02x", flags);
		rig_expect(rig, &frame, action_of(reason), reason, name, __FILE__, __LINE__);
		rig_expect(rig, &other, XDP_PASS, SLC_not_service, name, __FILE__, __LINE__);
	}
}

/* Odd flags pay the source's bucket: they are no way to scan for free, and no exemption. */
static void test_c19_odd_flags_pay(void **state)
{
	struct slc_policy p = rig_policy("paid");

	(void)state;
	rig_policy_source(&p, 1000 * NS_PER_S, 5);
	rig_service(rig, &p, SERVER4, 8443);
	for (int i = 0; i < 5; i++)
		expect(rig, PACKET(.tcp = SYN | FIN, .dport = 8443), XDP_DROP, SLC_anomalous);
	expect(rig, PACKET(.dport = 8443), XDP_DROP, SLC_rate_limited);
	expect(rig, PACKET(.tcp = SYN | FIN, .dport = 8443), XDP_DROP, SLC_anomalous);
	expect(rig, PACKET(.tcp = ACK, .dport = 8443), XDP_PASS, SLC_established);
}

static void test_c55_martian_sources(void **state)
{
	static const char *const martians[] = {
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.250",  "255.255.255.255",
		"240.0.0.1", SERVER4,     "::1",     "::",      "ff02::1",   "::ffff:192.0.2.1", SERVER6};

	(void)state;
	for (size_t i = 0; i < sizeof(martians) / sizeof(*martians); i++) {
		enum link link = strchr(martians[i], ':') ? LINK_IP6 : LINK_IP4;
		struct recipe recipe = {.link = link, .from = martians[i]};
		struct packet syn = packet_build(&recipe), udp, ack, other;

		rig_expect(rig, &syn, XDP_DROP, SLC_martian, martians[i], __FILE__, __LINE__);
		recipe.tcp = SYN | FIN;
		other = packet_build(&recipe);
		rig_expect(rig, &other, XDP_DROP, SLC_martian, martians[i], __FILE__, __LINE__);
		recipe.tcp = ACK;
		ack = packet_build(&recipe);
		rig_expect(rig, &ack, XDP_PASS, SLC_established, martians[i], __FILE__, __LINE__);
		recipe.proto = IPPROTO_UDP;
		udp = packet_build(&recipe);
		rig_expect(rig, &udp, XDP_DROP, SLC_martian, martians[i], __FILE__, __LINE__);
		recipe.dport = 53; /* nobody's port is none of our business */
		udp = packet_build(&recipe);
		rig_expect(rig, &udp, XDP_PASS, SLC_not_service, martians[i], __FILE__, __LINE__);
	}
}

/* --- what is kept ----------------------------------------------------------------------------------------------------- */

static bool all_zero(const void *area, size_t bytes)
{
	const uint64_t *word = area;

	for (size_t i = 0; i < bytes / 8; i++)
		if (word[i])
			return false;
	return true;
}

static bool nothing_kept(void)
{
	return all_zero(rig->sources, rig->control->source_sets * sizeof(struct slc_set)) &&
	       all_zero(rig->cold, rig->control->cold_sets * sizeof(struct slc_cold_set)) &&
	       all_zero(rig->flows, rig->control->flow_sets * sizeof(struct slc_flow_set)) &&
	       all_zero(rig->total, rig->states * sizeof(struct slc_total));
}

/* c10, c55: fragments, martians, control traffic and established traffic leave no trace in any table. */
static void test_c10_no_state_but_for_attempts(void **state)
{
	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++) {
		if (PARSE_CASES[i].kind != SLC_KIND_SYN && PARSE_CASES[i].kind != SLC_KIND_UDP)
			run_row(&PARSE_CASES[i], true, 1024 + i);
	}
	test_c55_martian_sources(state);
	assert_true(nothing_kept());
	expect(rig, PACKET(.sport = 1), XDP_PASS, SLC_admitted);
	assert_false(nothing_kept());
}

/* --- configuration ------------------------------------------------------------------------------------------------------ */

static struct slc_global *global(void)
{
	return &rig->control->global[rig->control->active & 1];
}

static void test_c07_fragments_refused(void **state)
{
	(void)state;
	global()->fragments_drop = 1;
	expect(rig, PACKET(.fragment = 8), XDP_DROP, SLC_fragment_refused);
	expect(rig, PACKET(.link = LINK_IP6, .ext = {FRAG6(10, 1)}), XDP_DROP, SLC_fragment_refused);
	expect(rig, PACKET(.fragment = 1), XDP_DROP, SLC_tiny_fragment);
	expect(rig, PACKET(.fragment = 0x2000), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.fragment = 0x4000, .sport = 9), XDP_PASS, SLC_admitted);
}

static void test_c05_ip_options_refused(void **state)
{
	(void)state;
	global()->ip_options_drop = 1;
	expect(rig, PACKET(.options = 4), XDP_DROP, SLC_ip_options);
	expect(rig, PACKET(.options = 40, .tcp = ACK), XDP_DROP, SLC_ip_options);
	expect(rig, PACKET(), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.link = LINK_IP6, .ext = {DST()}), XDP_PASS, SLC_admitted);
}

static void test_c14_unparseable_passes_by_config(void **state)
{
	(void)state;
	global()->unparseable_pass = 1;
	expect(rig, PACKET(.tag = {VLAN(1), VLAN(2), VLAN(3), VLAN(4), VLAN(5)}), XDP_PASS, SLC_l3_only);
	expect(rig, PACKET(.ihl = AS(4)), XDP_DROP, SLC_malformed);
}

/* The global block of the live snapshot counts, no other. */
static void test_snapshot_index_is_obeyed(void **state)
{
	(void)state;
	rig->control->global[1].fragments_drop = 1;
	expect(rig, PACKET(.fragment = 8), XDP_PASS, SLC_fragment);
	rig->control->active |= 1;
	rig_next_snapshot(rig);
	expect(rig, PACKET(.fragment = 8), XDP_DROP, SLC_fragment_refused);
	expect(rig, PACKET(), XDP_PASS, SLC_not_service); /* snapshot 1 has no services */
	rig->control->active &= ~1ULL;
	rig_next_snapshot(rig);
	expect(rig, PACKET(), XDP_PASS, SLC_admitted);
}

/* --- services -------------------------------------------------------------------------------------------------------------- */

static void test_exact_before_wildcard(void **state)
{
	struct slc_policy any = rig_policy("any"), exact = rig_policy("exact");
	uint16_t any_state, exact_state;

	(void)state;
	any_state = rig_service(rig, &any, "0.0.0.0", 9000);
	exact_state = rig_service(rig, &exact, SERVER4, 9000);
	expect(rig, PACKET(.dport = 9000), XDP_PASS, SLC_admitted);
	assert_int_equal(rig_counters(rig, exact_state).enforced.admitted, 1);
	expect(rig, PACKET(.dport = 9000, .to = "203.0.113.99"), XDP_PASS, SLC_admitted);
	assert_int_equal(rig_counters(rig, any_state).enforced.admitted, 1);
	/* an IPv4 wildcard is no IPv6 one */
	expect(rig, PACKET(.link = LINK_IP6, .dport = 9000), XDP_PASS, SLC_not_service);
	rig_address(rig, &any, "::", 9000);
	expect(rig, PACKET(.link = LINK_IP6, .dport = 9000), XDP_PASS, SLC_admitted);
	assert_int_equal(rig_counters(rig, any_state).enforced.admitted, 2);
}

/* Ports that differ in byte order only, and the ends of the range. */
static void test_c72_port_byte_order(void **state)
{
	static const uint16_t ports[] = {0x01bb, 0xbb01, 1, 256, 65535, 0x0fff, 64, 63};

	(void)state;
	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		struct slc_policy p = rig_policy("port");
		uint16_t slot = ports[i] == 443 ? web.state : rig_service(rig, &p, SERVER4, ports[i]);

		expect(rig, PACKET(.dport = ports[i], .sport = 5000 + i), XDP_PASS, SLC_admitted);
		assert_int_equal(rig_counters(rig, slot).enforced.admitted, 1);
	}
	expect(rig, PACKET(.dport = 2), XDP_PASS, SLC_not_service);
	expect(rig, PACKET(.dport = 0xff0f), XDP_PASS, SLC_not_service);
}

static void test_protocols_are_apart(void **state)
{
	struct slc_policy p = rig_policy("tcp-only");

	(void)state;
	rig_service(rig, &p, SERVER4, 7000);
	expect(rig, PACKET(.dport = 7000, .proto = IPPROTO_UDP), XDP_PASS, SLC_not_service);
	expect(rig, PACKET(.dport = 7000), XDP_PASS, SLC_admitted);
}

/* c146: management ports are evaluated first and never refused. */
static void test_c146_management_port(void **state)
{
	struct slc_rule deny = {.action = SLC_ACTION_deny, .flags = SLC_RULE_ALL_PACKETS, .until_ns = SLC_FOREVER};

	(void)state;
	rig_management(rig, 22);
	rig_order(rig, "0.0.0.0", 0, &deny);
	expect(rig, PACKET(.dport = 22), XDP_PASS, SLC_management);
	expect(rig, PACKET(.dport = 22, .tcp = ACK), XDP_PASS, SLC_management);
	expect(rig, PACKET(.tcp = ACK), XDP_DROP, SLC_denied);
	expect(rig, PACKET(.link = LINK_IP6, .tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.link = LINK_ARP), XDP_PASS, SLC_neighbour);
}

/* c20: nothing that is ordered touches neighbour and control traffic. */
static void test_c20_control_traffic_in_every_mode(void **state)
{
	static const struct slc_rule deny = {
		.action = SLC_ACTION_deny, .flags = SLC_RULE_ALL_PACKETS, .until_ns = SLC_FOREVER};
	struct slc_override_half stop = {.flags = SLC_O_LEVEL | SLC_O_DRAIN,
					 .level = 4,
					 .level_until_ns = SLC_FOREVER,
					 .drain_until_ns = SLC_FOREVER};

	(void)state;
	rig_order(rig, "0.0.0.0", 0, &deny);
	rig_order(rig, "::", 0, &deny);
	rig_override(rig, web.state, &stop);
	global()->fragments_drop = global()->ip_options_drop = 1;
	global()->on_loss = SLC_ON_LOSS_closed;
	rig->control->lease_until_ns = 0;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++) {
		int kind = PARSE_CASES[i].kind;

		if (kind == SLC_neighbour || kind == SLC_icmp || kind == SLC_not_ip || kind == SLC_l3_only)
			run_row(&PARSE_CASES[i], true, 1024);
	}
}

/* --- every packet counts (c149) ---------------------------------------------------------------------------------------------- */

static void test_c149_sum_over_reasons(void **state)
{
	struct slc_counters before = rig_all_counters(rig), after;
	uint64_t sent = 0;

	(void)state;
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++) {
		struct packet frame = packet_build(&PARSE_CASES[i].recipe);

		for (size_t n = 0; n < 1 + i % 9; n++, sent++)
			rig_run(rig, &frame, NULL);
	}
	after = rig_all_counters(rig);
	assert_int_equal(rig_reason_sum(&after.enforced) - rig_reason_sum(&before.enforced), sent);
	assert_int_equal(rig_reason_sum(&after.dry), 0);
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_table_with_service),
		ROW(test_table_without_service),
		ROW(test_c19_flag_table),
		ROW(test_c19_odd_flags_pay),
		ROW(test_c55_martian_sources),
		ROW(test_c10_no_state_but_for_attempts),
		ROW(test_c07_fragments_refused),
		ROW(test_c05_ip_options_refused),
		ROW(test_c14_unparseable_passes_by_config),
		ROW(test_snapshot_index_is_obeyed),
		ROW(test_exact_before_wildcard),
		ROW(test_c72_port_byte_order),
		ROW(test_protocols_are_apart),
		ROW(test_c146_management_port),
		ROW(test_c20_control_traffic_in_every_mode),
		ROW(test_c149_sum_over_reasons),
	};

	rig_private_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
