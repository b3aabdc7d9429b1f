// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits through XDP: source buckets and their table, totals by class, repeats, orders and overrides, dry run, lease,
 * and the races of two CPUs. Intervals are 1000 s unless a test says otherwise: nothing refills while it runs.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/rig.h"

#include "sluice.skel.h"

#define SLOW (1000 * NS_PER_S)

static struct rig *rig;
static uint32_t next_flow; /* ports and sequence numbers never used before: each packet is an attempt of its own */

static int setup(void **state)
{
	(void)state;
	rig = rig_open(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(rig);
	return 0;
}

/* --- packets and counts ----------------------------------------------------------------------------------------------- */

/* A new connection's SYN. */
static struct packet attempt_of(struct recipe r)
{
	next_flow++;
	r.sport = 1024 + next_flow % 60000;
	r.seq = next_flow;
	return packet_build(&r);
}
#define ATTEMPT(...) attempt_of((struct recipe){__VA_ARGS__})

static uint64_t counted(uint16_t state, enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, state);

	return rig_reason(&c.enforced, reason);
}

static uint64_t counted_dry(uint16_t state, enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, state);

	return rig_reason(&c.dry, reason);
}

/* How many of `tries` attempts of one source pass. */
static int passes(struct recipe r, int tries)
{
	int n = 0;

	for (int i = 0; i < tries; i++) {
		struct packet p = attempt_of(r);

		n += rig_run(rig, &p, NULL) == XDP_PASS;
	}
	return n;
}
#define PASSES(tries, ...) passes((struct recipe){__VA_ARGS__}, tries)

/* `count` SYNs from as many sources, a.b.0.0 upwards; returns how many passed. */
static uint32_t flood(uint32_t from, uint32_t count, uint16_t port)
{
	struct packet p = PACKET(.dport = port);
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		packet_set_source4(&p, from + i);
		packet_set_seq(&p, ++next_flow);
		n += rig_run(rig, &p, NULL) == XDP_PASS;
	}
	return n;
}

/* --- one source -------------------------------------------------------------------------------------------------------- */

static void test_limit_of_ten_is_ten(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(50, .dport = 443), 10);
	assert_int_equal(counted(web, SLC_rate_limited), 40);
	assert_int_equal(rig_counters(rig, web).attempts, 50);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_stranger], 10);
	assert_int_equal(PASSES(50, .from = "198.51.100.8"), 10);
}

/* c29: a slow rate refills by the kernel's clock; what passes is bounded by the time that went by. */
static void test_c29_refill(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint64_t start, end;
	int n;

	(void)state;
	rig_policy_source(&p, 20 * NS_PER_MS, 2);
	rig_service(rig, &p, SERVER4, 443);
	start = rig_now();
	n = PASSES(5, .dport = 443);
	for (int i = 0; i < 10; i++) {
		usleep(10000);
		n += PASSES(3, .dport = 443);
	}
	end = rig_now();
	assert_true(n <= (int)((end - start) / (20 * NS_PER_MS)) + 2);
	assert_true(n >= 2 + 3); /* 100 ms at 50/s, with the machine's pauses */
}

/* c37: a burst of one is one whole connection, not one packet. */
static void test_c37_burst_of_one_is_a_whole_connection(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_policy_source(&p, 60 * NS_PER_S, 1);
	rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 100), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.tcp = ACK, .seq = 101), XDP_PASS, SLC_established);
	for (int i = 0; i < 10; i++)
		expect(rig, PACKET(.tcp = ACK | PSH, .seq = 101 + 100 * i, .payload = 100), XDP_PASS, SLC_established);
	expect(rig, PACKET(.tcp = FIN | ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.sport = 40001), XDP_DROP, SLC_rate_limited);
	expect(rig, PACKET(.tcp = ACK, .seq = 9), XDP_PASS, SLC_established);
}

/* c38: no limit touches the packets of connections, at any number. */
static void test_c38_established_traffic_is_never_limited(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_policy_source(&p, SLOW, 1);
	rig_policy_total(&p, SLOW, 1);
	rig_service(rig, &p, SERVER4, 443);
	PASSES(5, .dport = 443);
	expect_many(rig, PACKET(.tcp = ACK | PSH, .payload = 1000), 5000, SLC_established);
	expect_many(rig, PACKET(.tcp = RST), 10, SLC_established);
}

/* c02: tagged traffic is limited like untagged; with the VLAN in the key the same address elsewhere is another source. */
static void test_c02_vlan_in_the_key(void **state)
{
	struct slc_policy p = rig_policy("web"), apart = rig_policy("apart");

	(void)state;
	rig_policy_source(&p, SLOW, 5);
	rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(4, .tag = {VLAN(10)}), 4);
	assert_int_equal(PASSES(4, .tag = {VLAN(20)}), 1);
	assert_int_equal(PASSES(4, .dport = 443), 0);

	rig_policy_source(&apart, SLOW, 5);
	apart.flags |= SLC_P_VLAN;
	rig_service(rig, &apart, SERVER4, 8443);
	assert_int_equal(PASSES(50, .dport = 8443, .tag = {VLAN(10)}), 5);
	assert_int_equal(PASSES(1, .dport = 8443, .tag = {VLAN(20)}), 1);
	assert_int_equal(PASSES(1, .dport = 8443, .tag = {QINQ(20), VLAN(10)}), 1);
}

/* c50: hopping inside a /64 buys nothing; the neighbouring /64 is somebody else. */
static void test_c50_prefix_is_the_source(void **state)
{
	struct slc_policy p = rig_policy("web"), host = rig_policy("host");
	char from[64];
	int n = 0;

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	rig_service(rig, &p, SERVER6, 443);
	for (int i = 0; i < 1000; i++) {
		snprintf(from, sizeof(from), "2001:db8:1:2::%x", i + 1);
		n += PASSES(1, .link = LINK_IP6, .from = from);
	}
	assert_int_equal(n, 10);
	assert_int_equal(PASSES(20, .link = LINK_IP6, .from = "2001:db8:1:3::1"), 10);

	rig_policy_source(&host, SLOW, 1);
	host.v6_prefix = 128;
	host.v4_prefix = 24;
	rig_service(rig, &host, SERVER6, 8443);
	rig_address(rig, &host, SERVER4, 8443);
	assert_int_equal(PASSES(2, .link = LINK_IP6, .dport = 8443, .from = "2001:db8:1:4::1"), 1);
	assert_int_equal(PASSES(2, .link = LINK_IP6, .dport = 8443, .from = "2001:db8:1:4::2"), 1);
	assert_int_equal(PASSES(1, .dport = 8443, .from = "192.0.2.1"), 1);
	assert_int_equal(PASSES(1, .dport = 8443, .from = "192.0.2.200"), 0);
}

/* c50: the wide tier bounds many small sources of one network. */
static void test_c50_wide_tier(void **state)
{
	struct slc_policy p = rig_policy("web");
	char from[64];
	int n = 0;

	(void)state;
	rig_policy_source(&p, SLOW, 2);
	rig_policy_wide(&p, SLOW, 40, 24, 56);
	rig_service(rig, &p, SERVER6, 443);
	rig_address(rig, &p, SERVER4, 443);
	for (int i = 0; i < 256; i++) {
		snprintf(from, sizeof(from), "2001:db8:7:%x::1", i);
		n += PASSES(1, .link = LINK_IP6, .from = from);
	}
	assert_int_equal(n, 40);
	assert_int_equal(PASSES(3, .link = LINK_IP6, .from = "2001:db8:7:100::1"), 2);
	for (int i = n = 0; i < 100; i++) {
		snprintf(from, sizeof(from), "192.0.2.%d", i + 1);
		n += PASSES(1, .from = from);
	}
	assert_int_equal(n, 40);
	assert_int_equal(PASSES(1, .from = "192.0.3.1"), 1);
}

static void test_rate_overrides_by_prefix(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule rule = {.action = SLC_ACTION_rate, .until_ns = SLC_FOREVER};

	(void)state;
	rig_policy_source(&p, SLOW, 5);
	p.flags |= SLC_P_OVERRIDES;
	rig_service(rig, &p, SERVER4, 443);
	rule.interval = p.source_interval;
	rule.depth = p.source_interval * 9;
	rig_scope(rig, p.uid, "192.0.2.0", 24, &rule);
	rule.depth = p.source_interval * 2;
	rig_scope(rig, p.uid, "192.0.2.128", 25, &rule);
	assert_int_equal(PASSES(20, .from = "192.0.2.1"), 9);
	assert_int_equal(PASSES(20, .from = "192.0.2.129"), 2);
	assert_int_equal(PASSES(20, .from = "192.0.3.1"), 5);
}

/* c76: attempts alone earn nothing: no class, no good turn. */
static void test_c76_attempts_promote_nobody(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint16_t web;

	(void)state;
	rig_policy_source(&p, NS_PER_MS, 500);
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(500, .dport = 443), 500);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_stranger], 500);
	for (uint32_t set = 0; set < rig->control->cold_sets; set++) {
		for (int w = 0; w < SLC_COLD_WAYS; w++) {
			assert_int_equal(rig->cold[set].way[w].good, 0);
			assert_int_equal(rig->cold[set].way[w].established, 0);
		}
	}
}

/* --- changes of limits ---------------------------------------------------------------------------------------------------- */

/* c128: the same limit in a new snapshot: the bucket goes on where it was. */
static void test_c128_reload_refills_nothing(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	rig_policy_total(&p, SLOW, 1000);
	rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(7, .dport = 443), 7);
	for (int reload = 0; reload < 20; reload++) {
		rig->control->global[~rig->control->active & 1] = rig->control->global[rig->control->active & 1];
		rig->control->active ^= 1;
		rig_replace_policy(rig, &p, SERVER4, 443);
	}
	assert_int_equal(PASSES(50, .dport = 443), 3);
}

/* c129: a new limit holds from the next packet on, up and down; what was taken stays taken. */
static void test_c129_new_limits_act_at_once(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_policy_source(&p, SLOW, 100);
	rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(5, .dport = 443), 5);
	p.source_depth = p.source_interval * 8;
	rig_replace_policy(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(50, .dport = 443), 3);
	p.source_depth = p.source_interval * 20;
	rig_replace_policy(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(50, .dport = 443), 12);
	p.source_depth = p.source_interval * 2;
	rig_replace_policy(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(50, .dport = 443), 0);
}

/* The controller's interval binds beside the configured one, and only while its decision is valid. */
static void test_pushed_interval_binds_when_slower(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_decision_half d = rig_decision();
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 8);
	web = rig_service(rig, &p, SERVER4, 443);
	d.flags = SLC_D_SOURCE;
	d.source_interval = p.source_interval * 4;
	rig_decide(rig, web, &d);
	assert_int_equal(PASSES(20, .dport = 443), 2); /* depth 8 T, a token costs 4 T */
	d.source_interval = 1; /* never faster than configured */
	rig_decide(rig, web, &d);
	assert_int_equal(PASSES(20, .from = "192.0.2.9"), 8);
	d.source_interval = p.source_interval * 4;
	d.valid_until_ns = rig_now() - 1;
	rig_decide(rig, web, &d);
	assert_int_equal(PASSES(20, .from = "192.0.2.10"), 8);
}

static void test_override_replaces_source_and_total(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_override_half o = {.flags = SLC_O_SOURCE};
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 8);
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p.theta_q16[c] = 65536;
	web = rig_service(rig, &p, SERVER4, 443);
	o.source_interval = p.source_interval;
	o.source_depth = p.source_interval * 3;
	o.source_until_ns = rig_now() + 1000 * NS_PER_S;
	rig_override(rig, web, &o);
	assert_int_equal(PASSES(20, .from = "192.0.2.1"), 3);
	o.source_until_ns = rig_now() - 1; /* its time has come */
	rig_override(rig, web, &o);
	assert_int_equal(PASSES(20, .from = "192.0.2.2"), 8);
	o.flags = SLC_O_TOTAL;
	o.total_interval16 = SLOW << 4;
	o.total_depth16 = (SLOW << 4) * 10;
	o.total_until_ns = SLC_FOREVER;
	rig_override(rig, web, &o);
	assert_int_equal(flood(0x0a000000, 50, 443), 10);
}

/* c34, c35: the controller's block is a flag per class and acts at once, whatever tokens are left. */
static void test_c35_block_is_a_flag(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_decision_half d = rig_decision();
	struct slc_rule vip = {.action = SLC_ACTION_class, .class = SLC_CLASS_vip, .until_ns = SLC_FOREVER};
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	web = rig_service(rig, &p, SERVER4, 443);
	rig_trust(rig, "192.0.2.0", 24, &vip);
	d.cut_classes = 1 << SLC_CLASS_stranger | 1 << SLC_CLASS_low;
	rig_decide(rig, web, &d);
	expect(rig, ATTEMPT(), XDP_DROP, SLC_shed);
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_PASS, SLC_admitted);
	d.cut_classes = 0xf;
	rig_decide(rig, web, &d);
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_DROP, SLC_shed);
	d.cut_classes = 0;
	rig_decide(rig, web, &d);
	assert_int_equal(PASSES(20, .dport = 443), 10); /* shed attempts paid nothing */
}

/* c31, c148: policies at the bounds of their fields neither wrap nor block. */
static void test_c148_values_at_their_bounds(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint16_t web;

	(void)state;
	p.flags = SLC_P_SOURCE | SLC_P_TOTAL;
	p.source_interval = 1;
	p.source_depth = 1 << 30;
	p.total_interval16 = 1;
	p.total_depth16 = 1ULL << 60;
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		p.theta_q16[c] = 65536;
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(200, .dport = 443), 200);
	p.source_interval = 0xffffffff; /* T = 4 tau */
	p.total_interval16 = 1ULL << 60;
	p.total_depth16 = 1ULL << 60;
	p.shift = 20;
	rig_replace_policy(rig, &p, SERVER4, 443);
	memset(&rig->total[web], 0, sizeof(rig->total[web]));
	assert_int_equal(PASSES(200, .from = "192.0.2.1"), 1);
}

/* --- the table -------------------------------------------------------------------------------------------------------------- */

/* One set: 8 ways, so that every newcomer evicts. */
static struct slc_policy crowded(uint32_t burst)
{
	struct slc_policy p = rig_policy("crowded");

	p.set_mask = 0;
	rig_policy_source(&p, SLOW, burst);
	return p;
}

/* c46, c47: with the table full of debts, a fresh source at a limit of 10 never gets more than 10. */
static void test_c47_full_table_fresh_source_never_gets_more(void **state)
{
	struct slc_policy p = crowded(10);
	uint16_t web;

	(void)state;
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(20, .dport = 443), 10);
	/* eight buckets of ten, and not one token more, however many sources come and however often */
	assert_int_equal(flood(0x0a000000, 20000, 443), 70);
	assert_int_equal(flood(0x0a000000, 20000, 443), 0);
	for (int i = 0; i < 100; i++) {
		char from[32];

		snprintf(from, sizeof(from), "192.0.2.%d", i);
		assert_true(PASSES(15, .from = from) <= 10);
	}
	assert_true(rig_counters(rig, web).inherited > 0);
}

/* A limited source whose entry is taken over does not get its bucket back. */
static void test_c47_limited_source_gains_nothing_by_eviction(void **state)
{
	struct slc_policy p = crowded(10);
	int n = 0;

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	for (int round = 0; round < 200; round++) {
		n += PASSES(2, .from = "192.0.2.66");
		flood(0x0a000000 + round * 16, 16, 443);
	}
	assert_true(n <= 10);
}

/* c49: a spoofed flood over the whole address space: memory is bounded, and a limited source stays limited. */
static void test_c49_spoofed_flood(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct packet syn = PACKET();
	uint64_t dice = 1;
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(20, .from = "192.0.2.66"), 10);
	for (int i = 0; i < 200000; i++) {
		uint32_t from;

		dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
		from = dice >> 33;
		packet_set_source4(&syn, 0x0b000000 + from % 0x70000000);
		packet_set_seq(&syn, ++next_flow);
		rig_run(rig, &syn, NULL);
		if (i % 1000 == 0)
			assert_int_equal(PASSES(1, .from = "192.0.2.66"), 0);
	}
	assert_true(PASSES(20, .from = "192.0.2.77") <= 10);
	assert_int_equal(counted(web, SLC_contended), 0);
}

/* Ranges of the table: a flood on one service leaves the sources of another as they were. */
static void test_c49_flood_on_one_service_costs_no_other(void **state)
{
	struct slc_policy a = rig_policy("flooded"), b = rig_policy("quiet");

	(void)state;
	a.set_mask = 63;
	b.set_mask = 63;
	rig_policy_source(&a, SLOW, 3);
	rig_policy_source(&b, SLOW, 3);
	rig_service(rig, &a, SERVER4, 443);
	rig_service(rig, &b, SERVER4, 8443);
	for (int i = 0; i < 50; i++) {
		char from[32];

		snprintf(from, sizeof(from), "192.0.2.%d", i);
		assert_int_equal(PASSES(2, .from = from, .dport = 8443), 2);
	}
	flood(0x0a000000, 50000, 443);
	for (int i = 0; i < 50; i++) {
		char from[32];

		snprintf(from, sizeof(from), "192.0.2.%d", i);
		assert_int_equal(PASSES(5, .from = from, .dport = 8443), 1);
		snprintf(from, sizeof(from), "192.0.3.%d", i);
		assert_int_equal(PASSES(5, .from = from, .dport = 8443), 3);
	}
}

/* c55: sources that cannot be clients leave no entry. */
static void test_c55_martians_keep_no_entry(void **state)
{
	struct slc_policy p = crowded(1);

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	for (int i = 0; i < 50; i++) {
		expect(rig, ATTEMPT(.from = "127.0.0.1"), XDP_DROP, SLC_martian);
		expect(rig, ATTEMPT(.from = "224.0.0.5"), XDP_DROP, SLC_martian);
		expect(rig, ATTEMPT(.from = SERVER4), XDP_DROP, SLC_martian);
	}
	for (int w = 0; w < SLC_WAYS; w++)
		assert_true(rig->sources[0].way[w].word == 0);
}

/* The sweep program: old TATs become 2^38 units old, the living are left alone. */
static void test_c41_sweep_program(void **state)
{
	struct slc_policy p = crowded(4);
	struct slc_sweep arg = {.count = 1};
	struct bpf_test_run_opts opts = {.sz = sizeof(opts), .ctx_in = &arg, .ctx_size_in = sizeof(arg)};
	uint64_t units, mask = (1ULL << 40) - 1;

	(void)state;
	rig_policy_source(&p, 1000, 4); /* shift 0 */
	rig_service(rig, &p, SERVER4, 443);
	units = rig_now() >> p.shift;
	for (int w = 0; w < SLC_WAYS; w++) {
		rig->sources[0].way[w].tag = w + 1;
		rig->sources[0].way[w].tat = units - (1ULL << 35) * (2 * w + 1); /* up to 15 x 2^35 */
	}
	arg.shift = p.shift;
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(rig->skel->progs.slc_sweep), &opts), 0);
	assert_int_equal(arg.rewritten, 4); /* 9, 11, 13 and 15 x 2^35 are older than 2^38 */
	for (int w = 0; w < SLC_WAYS; w++) {
		assert_int_equal(rig->sources[0].way[w].tag, w + 1);
		assert_true(((units - rig->sources[0].way[w].tat) & mask) <= (1ULL << 38));
	}
}

/* --- repeats ------------------------------------------------------------------------------------------------------------------ */

/* c77: the client's own retries are free; they count as one attempt. */
static void test_c77_retransmit_is_free(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 2);
	web = rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.seq = 5), XDP_DROP, SLC_repeat); /* not after 500 ms */
	rig_age_flows(rig, 400);
	expect(rig, PACKET(.seq = 5), XDP_DROP, SLC_repeat);
	rig_age_flows(rig, 200);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_retransmit);
	assert_int_equal(rig_counters(rig, web).attempts, 1);
	expect(rig, PACKET(.seq = 6), XDP_PASS, SLC_admitted); /* another sequence number: another attempt */
	expect(rig, PACKET(.seq = 7), XDP_DROP, SLC_rate_limited);
	assert_int_equal(rig_counters(rig, web).attempts, 3);
}

/* By the clock of the machine once, with nothing moved by hand. */
static void test_c77_gap_in_real_time(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_admitted);
	usleep(300000);
	expect(rig, PACKET(.seq = 5), XDP_DROP, SLC_repeat);
	usleep(250000);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_retransmit);
}

static void test_c77_six_repeats_and_no_more(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_admitted);
	for (int i = 0; i < SLC_REPEATS; i++) {
		rig_age_flows(rig, SLC_REPEAT_GAP_MS + 20);
		expect(rig, PACKET(.seq = 5), XDP_PASS, SLC_retransmit);
	}
	for (int i = 0; i < 20; i++) {
		rig_age_flows(rig, 1000);
		expect(rig, PACKET(.seq = 5), XDP_DROP, SLC_repeat);
	}
}

/* A million copies of one admitted SYN: it, and at most one in 500 ms. */
static void test_c77_a_million_copies(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct packet syn = PACKET(.seq = 99);
	struct slc_counters c;
	uint64_t start, passed;
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 10);
	web = rig_service(rig, &p, SERVER4, 443);
	start = rig_now();
	rig_repeat(rig, &syn, 1000000);
	passed = (rig_now() - start) / (SLC_REPEAT_GAP_MS * NS_PER_MS);
	c = rig_counters(rig, web);
	assert_int_equal(c.enforced.admitted, 1);
	assert_true(c.enforced.retransmit <= passed && c.enforced.retransmit <= SLC_REPEATS);
	assert_int_equal(rig_reason_sum(&c.enforced), 1000000);
	assert_int_equal(c.attempts, 1);
	/* and it spent one token of ten */
	assert_int_equal(PASSES(20, .dport = 443), 9);
}

/* A SYN refused by its bucket is not remembered: its repeat is an attempt and pays. */
static void test_c77_refused_syn_is_not_remembered(void **state)
{
	struct slc_policy p = rig_policy("web");
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 1);
	web = rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 1), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.seq = 2), XDP_DROP, SLC_rate_limited);
	rig_age_flows(rig, 1000);
	expect(rig, PACKET(.seq = 2), XDP_DROP, SLC_rate_limited);
	assert_int_equal(rig_counters(rig, web).attempts, 3);
}

/* What a later stage refused is a repeat when it comes again: it skips the bucket, and only that. */
static void test_c77_later_stages_still_apply(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_decision_half d = rig_decision();
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 1);
	web = rig_service(rig, &p, SERVER4, 443);
	d.flags = SLC_D_OPEN;
	rig_decide(rig, web, &d);
	expect(rig, PACKET(.seq = 1), XDP_DROP, SLC_circuit_open);
	rig_age_flows(rig, 600);
	expect(rig, PACKET(.seq = 1), XDP_DROP, SLC_circuit_open);
	d.flags = 0;
	rig_decide(rig, web, &d);
	rig_age_flows(rig, 600);
	expect(rig, PACKET(.seq = 1), XDP_PASS, SLC_admitted); /* its first admission */
	rig_age_flows(rig, 600);
	expect(rig, PACKET(.seq = 1), XDP_PASS, SLC_retransmit);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_stranger], 1);
}

/* A record that ran out is forgotten: the same SYN pays again. */
static void test_c77_record_expires(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	rig_policy_source(&p, SLOW, 2);
	rig_service(rig, &p, SERVER4, 443);
	expect(rig, PACKET(.seq = 1), XDP_PASS, SLC_admitted);
	rig_age_flows(rig, SLC_FLOW_TTL_NS / NS_PER_MS + 1000);
	expect(rig, PACKET(.seq = 1), XDP_PASS, SLC_admitted);
	rig_age_flows(rig, SLC_FLOW_TTL_NS / NS_PER_MS + 1000);
	expect(rig, PACKET(.seq = 1), XDP_DROP, SLC_rate_limited);
}

/* --- totals --------------------------------------------------------------------------------------------------------------------- */

static const struct slc_rule AS_VIP = {.action = SLC_ACTION_class, .class = SLC_CLASS_vip, .until_ns = SLC_FOREVER};
static const struct slc_rule AS_LOW = {.action = SLC_ACTION_class, .class = SLC_CLASS_low, .until_ns = SLC_FOREVER};

/* 10.1 is vip, 10.2 known, 10.3 stranger, 10.4 low: a service with a total of 100. */
static uint16_t classed(struct slc_policy *p, uint32_t burst)
{
	*p = rig_policy("classed");
	rig_policy_total(p, SLOW, burst);
	rig_trust(rig, "10.1.0.0", 16, &AS_VIP);
	rig_trust(rig, "10.4.0.0", 16, &AS_LOW);
	return rig_service(rig, p, SERVER4, 443);
}

static void know(const struct slc_policy *p, int count)
{
	for (int i = 0; i < count; i++) {
		char from[32];

		snprintf(from, sizeof(from), "10.2.%d.%d", i / 256, i % 256);
		rig_known(rig, p->uid, from, rig_now() + 1000 * NS_PER_S);
	}
}

/* As the bucket empties, low is refused first, vip last: 25, 50, 90, 100. */
static void test_classes_in_order(void **state)
{
	struct slc_policy p;
	uint16_t web = classed(&p, 100);

	(void)state;
	know(&p, 200);
	assert_int_equal(flood(0x0a040000, 200, 443), 25);
	assert_int_equal(flood(0x0a030000, 200, 443), 25);
	assert_int_equal(flood(0x0a020000, 200, 443), 40);
	assert_int_equal(flood(0x0a010000, 200, 443), 10);
	assert_int_equal(counted(web, SLC_service_rate), 700);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_vip], 10);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_known], 40);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_stranger], 25);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_low], 25);
}

/* Being known runs out. */
static void test_known_expires(void **state)
{
	struct slc_policy p;
	uint16_t web = classed(&p, 100);

	(void)state;
	rig_known(rig, p.uid, "10.2.0.1", rig_now() - 1);
	rig_known(rig, p.uid + 1, "10.2.0.2", rig_now() + SLOW); /* of another service */
	assert_int_equal(PASSES(1, .from = "10.2.0.1"), 1);
	assert_int_equal(PASSES(1, .from = "10.2.0.2"), 1);
	assert_int_equal(rig_counters(rig, web).admitted[SLC_CLASS_known], 0);
}

/* A minimum share is asked when the threshold refuses; better classes cannot use what is kept for it. */
static void test_minimum_share(void **state)
{
	struct slc_policy p;
	uint16_t web;
	uint32_t low;

	(void)state;
	web = classed(&p, 100);
	p.flags |= SLC_P_MIN_SHARE;
	p.share_inverse_q8[SLC_CLASS_low] = 256 * 10; /* a tenth */
	p.share_depth16 = p.total_interval16 * 10 * 2; /* two tokens of the share */
	rig_replace_policy(rig, &p, SERVER4, 443);
	assert_true(flood(0x0a010000, 200, 443) < 100); /* vip fills it up */
	low = flood(0x0a040000, 200, 443);
	assert_int_equal(low, 2);
	assert_true(counted(web, SLC_admitted) <= 100);
}

/* G3: the total's token is taken last: what the breaker refuses costs the service nothing. */
static void test_refusals_burn_no_total_token(void **state)
{
	struct slc_policy p;
	struct slc_override_half o = {.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER};
	uint16_t web = classed(&p, 100);

	(void)state;
	rig_override(rig, web, &o);
	assert_int_equal(flood(0x0a010000, 300, 443), 0);
	assert_int_equal(counted(web, SLC_circuit_open), 300);
	assert_true(rig->total[web].tat16 == 0);
	o.breaker_open = 0;
	rig_override(rig, web, &o);
	assert_int_equal(flood(0x0a010000, 300, 443), 100);
}

/* A law that is slower than the configured rate gives `shed`; the configured one gives `service_rate`. */
static void test_the_binding_term_names_the_reason(void **state)
{
	struct slc_policy p;
	struct slc_decision_half d = rig_decision();
	uint16_t web = classed(&p, 100);

	(void)state;
	d.flags = SLC_D_TOTAL;
	d.total_interval16 = p.total_interval16 * 10;
	rig_decide(rig, web, &d);
	assert_int_equal(flood(0x0a010000, 50, 443), 10);
	assert_int_equal(counted(web, SLC_shed), 40);
	d.total_interval16 = p.total_interval16 / 2;
	rig_decide(rig, web, &d);
	flood(0x0a010000, 50, 443);
	assert_true(counted(web, SLC_service_rate) > 0);
	assert_int_equal(counted(web, SLC_shed), 40);
}

/* A dry run of the ladder takes the law's cut away, not the configured total, and counts what the law would refuse. */
static void test_dry_run_of_a_law(void **state)
{
	struct slc_policy p;
	struct slc_decision_half d = rig_decision();
	uint16_t web = classed(&p, 100);

	(void)state;
	p.dry = 1u << SLC_STAGE_ladder;
	rig_replace_policy(rig, &p, SERVER4, 443);
	d.flags = SLC_D_TOTAL;
	d.total_interval16 = p.total_interval16 * 10;
	rig_decide(rig, web, &d);
	assert_int_equal(flood(0x0a010000, 150, 443), 100);
	assert_int_equal(counted(web, SLC_service_rate), 50);
	assert_int_equal(counted_dry(web, SLC_shed), 140);
	assert_int_equal(counted(web, SLC_shed), 0);
}

/* --- open connections -------------------------------------------------------------------------------------------------------------- */

static void test_source_concurrency(void **state)
{
	struct slc_policy p = rig_policy("web");

	(void)state;
	p.flags |= SLC_P_CONCURRENT | SLC_P_SOURCE;
	rig_policy_source(&p, SLOW, 1000);
	p.source_concurrent = 3;
	rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(3, .from = "192.0.2.1"), 3);
	assert_true(rig_set_open(rig, "192.0.2.1", p.uid, 3));
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_DROP, SLC_source_concurrency);
	expect(rig, ATTEMPT(.from = "192.0.2.2"), XDP_PASS, SLC_admitted);
	assert_true(rig_set_open(rig, "192.0.2.1", p.uid, 2));
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_PASS, SLC_admitted);
}

/* What is admitted and still on its way counts against the bulkhead. */
static void test_bulkhead(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_decision_half d = rig_decision();
	uint16_t web;

	(void)state;
	p.flags |= SLC_P_BULKHEAD;
	p.total_concurrent = 10;
	web = rig_service(rig, &p, SERVER4, 443);
	d.slice_shift = 40; /* one slice for the whole test */
	rig_decide(rig, web, &d);
	rig->signals[web].held = 4;
	assert_int_equal(flood(0x0a000000, 50, 443), 6);
	assert_int_equal(counted(web, SLC_bulkhead_full), 44);
	memset(&rig->total[web], 0, sizeof(rig->total[web]));
	rig->signals[web].held = 10;
	expect(rig, ATTEMPT(), XDP_DROP, SLC_bulkhead_full);
	rig->signals[web].held = 9;
	expect(rig, ATTEMPT(), XDP_PASS, SLC_admitted);
}

/* --- orders, trust, overrides --------------------------------------------------------------------------------------------------------- */

static void test_deny_orders_and_their_time(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule deny = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	struct slc_rule soon = {.action = SLC_ACTION_deny, .until_ns = rig_now() + 200 * NS_PER_MS};
	struct slc_rule over = {.action = SLC_ACTION_deny, .until_ns = 1};

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	rig_service(rig, &p, SERVER6, 443);
	rig_order(rig, "192.0.2.0", 24, &deny);
	rig_order(rig, "2001:db8:bad::", 48, &deny);
	rig_order(rig, "198.51.100.99", 32, &soon);
	rig_order(rig, "198.51.100.98", 32, &over);
	expect(rig, ATTEMPT(.from = "192.0.2.77"), XDP_DROP, SLC_denied);
	expect(rig, ATTEMPT(.from = "192.0.3.77"), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.link = LINK_IP6, .from = "2001:db8:bad:1::9"), XDP_DROP, SLC_denied);
	expect(rig, ATTEMPT(.from = "198.51.100.98"), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.from = "198.51.100.99"), XDP_DROP, SLC_denied);
	/* new connections only, and services only */
	expect(rig, PACKET(.from = "192.0.2.77", .tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.from = "192.0.2.77", .dport = 22), XDP_PASS, SLC_not_service);
	usleep(210000);
	expect(rig, ATTEMPT(.from = "198.51.100.99"), XDP_PASS, SLC_admitted);
	rig_order_delete(rig, "192.0.2.0", 24);
	expect(rig, ATTEMPT(.from = "192.0.2.77"), XDP_PASS, SLC_admitted);
}

static void test_deny_all_packets(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule deny = {.action = SLC_ACTION_deny, .flags = SLC_RULE_ALL_PACKETS, .until_ns = SLC_FOREVER};

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	rig_order(rig, "192.0.2.0", 24, &deny);
	expect(rig, PACKET(.from = "192.0.2.77", .tcp = ACK), XDP_DROP, SLC_denied);
	expect(rig, ATTEMPT(.from = "192.0.2.77"), XDP_DROP, SLC_denied);
	expect(rig, PACKET(.from = "192.0.3.77", .tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.from = "192.0.2.77", .proto = IPPROTO_ICMP, .icmp_type = 8), XDP_PASS, SLC_icmp);
}

/* Longest prefix wins among orders: one host allowed inside a denied network. */
static void test_allow_inside_deny(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule deny = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	struct slc_rule allow = {
		.action = SLC_ACTION_allow, .until_ns = SLC_FOREVER, .interval = SLOW << 4, .depth = (SLOW << 4) * 5};

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	rig_order(rig, "192.0.2.0", 24, &deny);
	rig_order(rig, "192.0.2.5", 32, &allow);
	expect(rig, ATTEMPT(.from = "192.0.2.5"), XDP_PASS, SLC_allowed);
	expect(rig, ATTEMPT(.from = "192.0.2.6"), XDP_DROP, SLC_denied);
}

/* The controller is dead and cannot remove what has ended: the next wider order holds, to a stated depth. */
static void test_c134_an_ended_order_gives_way_to_a_wider_one(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule deny = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	struct slc_rule allow = {
		.action = SLC_ACTION_allow, .until_ns = 1, .interval = SLOW << 4, .depth = (SLOW << 4) * 5};
	struct slc_rule ended = {.action = SLC_ACTION_deny, .until_ns = 1};

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	rig_service(rig, &p, SERVER6, 443);
	rig_order(rig, "192.0.0.0", 16, &deny);
	rig_order(rig, "192.0.2.0", 24, &ended);
	rig_order(rig, "192.0.2.5", 32, &allow);
	expect(rig, ATTEMPT(.from = "192.0.2.5"), XDP_DROP, SLC_denied);
	expect(rig, ATTEMPT(.from = "192.0.2.6"), XDP_DROP, SLC_denied);
	rig_order(rig, "2001:db8:bad::", 48, &deny);
	rig_order(rig, "2001:db8:bad:1::", 64, &ended);
	expect(rig, ATTEMPT(.link = LINK_IP6, .from = "2001:db8:bad:1::9"), XDP_DROP, SLC_denied);
	rig_order(rig, "192.0.0.0", 16, &ended);
	expect(rig, ATTEMPT(.from = "192.0.2.5", .seq = 77), XDP_PASS, SLC_admitted);
}

/* c146: management prefixes are never refused, unless the operator forced it. */
static void test_c146_management_and_forced_orders(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule management = {.action = SLC_ACTION_management, .until_ns = SLC_FOREVER};
	struct slc_rule deny = {.action = SLC_ACTION_deny, .flags = SLC_RULE_ALL_PACKETS, .until_ns = SLC_FOREVER};

	(void)state;
	rig_service(rig, &p, SERVER4, 443);
	rig_trust(rig, "192.0.2.0", 24, &management);
	rig_order(rig, "192.0.0.0", 16, &deny);
	expect(rig, ATTEMPT(.from = "192.0.2.5"), XDP_PASS, SLC_management);
	expect(rig, PACKET(.from = "192.0.2.5", .tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.from = "192.0.3.5", .tcp = ACK), XDP_DROP, SLC_denied);
	deny.flags |= SLC_RULE_FORCE;
	rig_order(rig, "192.0.0.0", 16, &deny);
	expect(rig, ATTEMPT(.from = "192.0.2.5"), XDP_DROP, SLC_denied);
	expect(rig, PACKET(.from = "192.0.2.5", .tcp = ACK), XDP_DROP, SLC_denied);
}

/* c144: allowed sources skip the later stages in every mode, up to their ceiling; the total is charged, not asked. */
static void test_c144_allow_and_its_ceiling(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule allow = {.action = SLC_ACTION_allow,
				 .slot = 7,
				 .until_ns = SLC_FOREVER,
				 .interval = SLOW << 4,
				 .depth = (SLOW << 4) * 20};
	struct slc_override_half o = {.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER};
	struct slc_decision_half d = rig_decision();
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 1);
	rig_policy_total(&p, SLOW, 10);
	web = rig_service(rig, &p, SERVER4, 443);
	rig_trust(rig, "192.0.2.0", 24, &allow);
	assert_int_equal(PASSES(8, .from = "192.0.2.1"), 8);
	assert_int_equal(counted(web, SLC_allowed), 8);
	assert_int_equal(PASSES(3, .from = "10.0.0.1"), 0); /* 8 of 10 are gone: a stranger's half is */
	d.flags = SLC_D_OPEN;
	d.cut_classes = 0xf;
	rig_decide(rig, web, &d);
	rig_override(rig, web, &o);
	assert_int_equal(PASSES(5, .from = "192.0.2.2"), 5);
	rig->control->global[0].on_loss = SLC_ON_LOSS_closed;
	d.valid_until_ns = 0;
	rig_decide(rig, web, &d);
	assert_int_equal(PASSES(50, .from = "192.0.2.3"), 7); /* one ceiling for the rule: 20 */
	assert_int_equal(counted(web, SLC_ceiling), 43);
}

static void test_trust_deny_and_management(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_rule deny = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	struct slc_rule manage = {.action = SLC_ACTION_management, .until_ns = SLC_FOREVER};
	struct slc_override_half o = {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER};
	uint16_t web;

	(void)state;
	web = rig_service(rig, &p, SERVER4, 443);
	rig_trust(rig, "192.0.2.0", 24, &deny);
	rig_trust(rig, "198.51.100.0", 24, &manage);
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_DROP, SLC_draining);
	expect(rig, ATTEMPT(.from = "198.51.100.3"), XDP_PASS, SLC_management);
	o.drain_until_ns = 0;
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_DROP, SLC_denied);
}

static void test_drain_and_stop(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_override_half o = {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER};
	uint16_t web;

	(void)state;
	web = rig_service(rig, &p, SERVER4, 443);
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(), XDP_DROP, SLC_draining);
	expect(rig, PACKET(.tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.tcp = FIN | ACK), XDP_PASS, SLC_established);
	o = (struct slc_override_half){.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER};
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(), XDP_DROP, SLC_stopped);
	o.level = 0;
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(), XDP_PASS, SLC_admitted);
}

/* --- lease ------------------------------------------------------------------------------------------------------------------------------ */

static void test_lease_lapse(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_decision_half d = rig_decision();
	struct slc_override_half o = {.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER};
	struct slc_global *global = &rig->control->global[0];
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 2);
	web = rig_service(rig, &p, SERVER4, 443);
	d.flags = SLC_D_OPEN;
	d.cut_classes = 0xf;
	rig_decide(rig, web, &d);
	expect(rig, ATTEMPT(), XDP_DROP, SLC_shed);
	d.valid_until_ns = rig_now() - 1;
	rig_decide(rig, web, &d);
	global->on_loss = SLC_ON_LOSS_static;
	assert_int_equal(PASSES(5, .from = "192.0.2.1"), 2);
	global->on_loss = SLC_ON_LOSS_pass;
	expect(rig, ATTEMPT(.from = "192.0.2.1"), XDP_PASS, SLC_unprotected);
	expect(rig, PACKET(.tcp = SYN | FIN), XDP_DROP, SLC_anomalous);
	global->on_loss = SLC_ON_LOSS_closed;
	expect(rig, ATTEMPT(.from = "192.0.2.2"), XDP_DROP, SLC_failsafe);
	expect(rig, PACKET(.tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.link = LINK_ARP), XDP_PASS, SLC_neighbour);
	/* a service in dry run is not refused by a dead controller either */
	p.dry = ~0u;
	rig_replace_policy(rig, &p, SERVER4, 443);
	expect(rig, ATTEMPT(.from = "192.0.2.22"), XDP_PASS, SLC_admitted);
	p.dry = 0;
	rig_replace_policy(rig, &p, SERVER4, 443);
	/* a manual stop outlives the controller */
	global->on_loss = SLC_ON_LOSS_pass;
	rig_override(rig, web, &o);
	expect(rig, ATTEMPT(.from = "192.0.2.3"), XDP_DROP, SLC_stopped);
}

/* --- dry run ------------------------------------------------------------------------------------------------------------------------------ */

/* Each stage in turn only counts: the packet passes with its one reason, the refusal stands in the other column. */
static void test_dry_run_of_every_stage(void **state)
{
	static const struct {
		enum slc_reason reason;
		uint32_t flags;
		struct slc_override_half o;
	} rows[] = {
		{SLC_draining, 0, {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER}},
		{SLC_stopped, 0, {.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER}},
		{SLC_circuit_open, 0, {.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER}},
		{SLC_bulkhead_full, 0, {.flags = SLC_O_BULKHEAD, .bulkhead_until_ns = SLC_FOREVER}},
		{SLC_rate_limited, SLC_P_SOURCE, {.flags = 0}},
		{SLC_service_rate, SLC_P_TOTAL, {.flags = 0}},
	};
	static const enum slc_stage stage_of[] = {
#define X(name, verdict, stage, text) SLC_STAGE_##stage,
		SLC_REASONS(X)
#undef X
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct slc_policy p = rig_policy("dry");
		uint16_t port = 8000 + i, slot;

		rig_policy_source(&p, SLOW, 1);
		rig_policy_total(&p, SLOW, 1);
		p.flags = rows[i].flags;
		slot = rig_service(rig, &p, SERVER4, port);
		rig_override(rig, slot, &rows[i].o);
		PASSES(1, .dport = port, .from = "192.0.2.1");
		expect(rig, ATTEMPT(.dport = port, .from = "192.0.2.1"), XDP_DROP, rows[i].reason);
		p.dry = 1u << stage_of[rows[i].reason];
		rig_replace_policy(rig, &p, SERVER4, port);
		expect(rig, ATTEMPT(.dport = port, .from = "192.0.2.1"), XDP_PASS, SLC_admitted);
		assert_int_equal(counted_dry(slot, rows[i].reason), 1);
		p.dry = ~p.dry; /* every other stage: no help */
		rig_replace_policy(rig, &p, SERVER4, port);
		expect(rig, ATTEMPT(.dport = port, .from = "192.0.2.1"), XDP_DROP, rows[i].reason);
	}
}

/* All dry: everything passes, and everything that would have been refused is counted. */
static void test_dry_run_of_all(void **state)
{
	struct slc_policy p = rig_policy("dry");
	struct slc_counters c;
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 3);
	p.dry = ~0u;
	p.flags |= SLC_P_RESET;
	web = rig_service(rig, &p, SERVER4, 443);
	assert_int_equal(PASSES(20, .dport = 443), 20);
	c = rig_counters(rig, web);
	assert_int_equal(c.enforced.admitted, 20);
	assert_int_equal(c.dry.rate_limited, 17);
	assert_int_equal(c.resets, 0);
}

/* --- UDP ------------------------------------------------------------------------------------------------------------------------------------ */

static void test_udp_first_datagrams_pay(void **state)
{
	struct slc_policy p = rig_policy("dns");

	(void)state;
	p.proto = IPPROTO_UDP;
	rig_policy_source(&p, SLOW, 3);
	rig_service(rig, &p, SERVER4, 53);
	for (int i = 0; i < 3; i++)
		expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .payload = 30), XDP_PASS, SLC_admitted);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .payload = 30), XDP_DROP, SLC_rate_limited);
	expect(rig, PACKET(.dport = 53), XDP_PASS, SLC_not_service);
}

/* --- events ----------------------------------------------------------------------------------------------------------------------------------- */

static int keep_event(void *arg, void *data, size_t size)
{
	if (size == sizeof(struct slc_event))
		memcpy(arg, data, size);
	return 0;
}

static void test_refusals_are_told_within_a_budget(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct slc_event event = {0};
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(rig->skel->maps.slc_events), keep_event, &event, NULL);
	struct slc_counters c;
	uint8_t from[16];
	uint16_t web;
	int told;

	(void)state;
	assert_non_null(ring);
	ring_buffer__consume(ring);
	rig_policy_source(&p, SLOW, 1);
	web = rig_service(rig, &p, SERVER4, 443);
	rig->control->global[0].event_interval16 = SLOW << 4;
	rig->control->global[0].event_depth16 = (SLOW << 4) * 5;
	PASSES(1, .from = "192.0.2.9");
	expect(rig, PACKET(.from = "192.0.2.9", .sport = 5555), XDP_DROP, SLC_rate_limited);
	assert_int_equal(ring_buffer__consume(ring), 1);
	packet_address("192.0.2.9", from);
	assert_int_equal(event.reason, SLC_rate_limited);
	assert_int_equal(event.uid, p.uid);
	assert_int_equal(event.state, web);
	assert_int_equal(event.sport, 5555);
	assert_int_equal(event.dport, 443);
	assert_int_equal(event.proto, IPPROTO_TCP);
	assert_int_equal(event.class, SLC_CLASS_stranger);
	assert_memory_equal(event.saddr, from, 16);
	PASSES(100, .from = "192.0.2.9");
	told = ring_buffer__consume(ring);
	c = rig_counters(rig, web);
	assert_in_range(told, 4, 9); /* 5 a CPU; one is spent */
	assert_int_equal(told + c.events_lost, 100);
	ring_buffer__free(ring);
}

/* --- two CPUs ---------------------------------------------------------------------------------------------------------------------------------- */

#define CLAIMS 1500
#define BURST 10

struct claims {
	uint32_t turn[2]; /* how far each CPU is: both meet at each source */
	uint8_t passed[2][CLAIMS];
};

static void claim(struct rig *r, void *arg, int cpu)
{
	struct claims *c = arg;
	struct packet syn = PACKET();

	packet_set_source_port(&syn, 3000 + cpu);
	for (uint32_t i = 0; i < CLAIMS; i++) {
		packet_set_source4(&syn, 0x0a000000 + i);
		__atomic_store_n(&c->turn[cpu], i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&c->turn[!cpu], __ATOMIC_ACQUIRE) < i)
			;
		for (int n = 0; n < BURST; n++) {
			packet_set_seq(&syn, (uint32_t)cpu << 30 | i * BURST | n);
			c->passed[cpu][i] += rig_run(r, &syn, NULL) == XDP_PASS;
		}
	}
	__atomic_store_n(&c->turn[cpu], ~0u, __ATOMIC_RELEASE);
}

/* c52: one new source on two CPUs at once: its burst, and at most one token more for the further CPU. */
static void test_c52_claims_on_two_cpus(void **state)
{
	struct slc_policy p = crowded(BURST);
	struct claims *c = calloc(1, sizeof(*c));
	int over = 0;

	(void)state;
	p.set_mask = 255;
	rig_service(rig, &p, SERVER4, 443);
	if (!rig_on_two_cpus(rig, claim, c)) {
		print_message("probe: one CPU\n");
		free(c);
		skip();
	}
	for (int i = 0; i < CLAIMS; i++) {
		int n = c->passed[0][i] + c->passed[1][i];

		assert_true(n <= BURST + 1);
		over += n > BURST;
	}
	print_message("%d of %d sources got one token more\n", over, CLAIMS);
	free(c);
}

struct rush {
	uint32_t tries, passed[2];
	bool one_source;
};

static void rush(struct rig *r, void *arg, int cpu)
{
	struct rush *a = arg;
	struct packet syn = PACKET();

	packet_set_source_port(&syn, 3000 + cpu);
	for (uint32_t i = 0; i < a->tries; i++) {
		if (!a->one_source)
			packet_set_source4(&syn, 0x0a000000 + (i << 1 | cpu));
		packet_set_seq(&syn, (uint32_t)cpu << 30 | i);
		a->passed[cpu] += rig_run(r, &syn, NULL) == XDP_PASS;
	}
}

/* c52, c53: the total is exact on two CPUs, and so is every counter. */
static void test_c52_c53_total_is_exact_on_two_cpus(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct rush r = {.tries = 30000};
	struct slc_counters c;
	uint16_t web;

	(void)state;
	rig_policy_total(&p, SLOW, 20000);
	web = rig_service(rig, &p, SERVER4, 443);
	if (!rig_on_two_cpus(rig, rush, &r)) {
		print_message("probe: one CPU\n");
		skip();
	}
	c = rig_counters(rig, web);
	assert_int_equal(r.passed[0] + r.passed[1], 10000); /* strangers: half of 20000 */
	assert_int_equal(c.enforced.admitted, 10000);
	assert_int_equal(c.enforced.service_rate, 50000);
	assert_int_equal(c.attempts, 60000);
	assert_int_equal(c.admitted[SLC_CLASS_stranger], 10000);
	assert_int_equal(rig_reason_sum(&c.enforced), 60000);
}

/* c52: one source that is spread over the CPUs gets its limit, not twice. */
static void test_c52_source_on_two_cpus(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct rush r = {.tries = 20000, .one_source = true};
	struct slc_counters c;
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 1000);
	web = rig_service(rig, &p, SERVER4, 443);
	if (!rig_on_two_cpus(rig, rush, &r)) {
		print_message("probe: one CPU\n");
		skip();
	}
	c = rig_counters(rig, web);
	assert_in_range(r.passed[0] + r.passed[1], 1000, 1001);
	assert_int_equal(c.enforced.rate_limited + c.enforced.contended, 40000 - c.enforced.admitted);
}

/* A fast rate on two CPUs by the machine's clock: never above rate x time + burst + 1. */
static void test_c52_rate_on_two_cpus(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct rush r = {.tries = 150000, .one_source = true};
	uint64_t start, end;

	(void)state;
	rig_policy_source(&p, 10000, 20); /* 100 000 a second */
	rig_service(rig, &p, SERVER4, 443);
	start = rig_now();
	if (!rig_on_two_cpus(rig, rush, &r)) {
		print_message("probe: one CPU\n");
		skip();
	}
	end = rig_now();
	assert_true(r.passed[0] + r.passed[1] <= (end - start) / 10000 + 20 + 1);
	assert_true(r.passed[0] + r.passed[1] >= 1000);
}

static void copies(struct rig *r, void *arg, int cpu)
{
	struct rush *a = arg;
	struct packet syn = PACKET(.seq = 4711);

	for (uint32_t i = 0; i < a->tries; i++)
		a->passed[cpu] += rig_run(r, &syn, NULL) == XDP_PASS;
}

/* Copies of one SYN on two CPUs: the first, or the first of each CPU where both are new; each paid. */
static void test_c77_copies_on_two_cpus(void **state)
{
	struct slc_policy p = rig_policy("web");
	struct rush r = {.tries = 30000};
	struct slc_counters c;
	uint64_t start = rig_now();
	uint16_t web;

	(void)state;
	rig_policy_source(&p, SLOW, 100);
	web = rig_service(rig, &p, SERVER4, 443);
	if (!rig_on_two_cpus(rig, copies, &r)) {
		print_message("probe: one CPU\n");
		skip();
	}
	c = rig_counters(rig, web);
	assert_in_range(c.enforced.admitted, 1, 2);
	assert_true(c.enforced.retransmit <= (rig_now() - start) / (SLC_REPEAT_GAP_MS * NS_PER_MS));
	assert_int_equal(c.attempts, c.enforced.admitted);
	assert_int_equal(rig_reason_sum(&c.enforced), 60000);
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_limit_of_ten_is_ten),
		ROW(test_c29_refill),
		ROW(test_c37_burst_of_one_is_a_whole_connection),
		ROW(test_c38_established_traffic_is_never_limited),
		ROW(test_c02_vlan_in_the_key),
		ROW(test_c50_prefix_is_the_source),
		ROW(test_c50_wide_tier),
		ROW(test_rate_overrides_by_prefix),
		ROW(test_c76_attempts_promote_nobody),
		ROW(test_c128_reload_refills_nothing),
		ROW(test_c129_new_limits_act_at_once),
		ROW(test_pushed_interval_binds_when_slower),
		ROW(test_override_replaces_source_and_total),
		ROW(test_c35_block_is_a_flag),
		ROW(test_c148_values_at_their_bounds),
		ROW(test_c47_full_table_fresh_source_never_gets_more),
		ROW(test_c47_limited_source_gains_nothing_by_eviction),
		ROW(test_c49_spoofed_flood),
		ROW(test_c49_flood_on_one_service_costs_no_other),
		ROW(test_c55_martians_keep_no_entry),
		ROW(test_c41_sweep_program),
		ROW(test_c77_retransmit_is_free),
		ROW(test_c77_gap_in_real_time),
		ROW(test_c77_six_repeats_and_no_more),
		ROW(test_c77_a_million_copies),
		ROW(test_c77_refused_syn_is_not_remembered),
		ROW(test_c77_later_stages_still_apply),
		ROW(test_c77_record_expires),
		ROW(test_classes_in_order),
		ROW(test_known_expires),
		ROW(test_minimum_share),
		ROW(test_refusals_burn_no_total_token),
		ROW(test_the_binding_term_names_the_reason),
		ROW(test_dry_run_of_a_law),
		ROW(test_source_concurrency),
		ROW(test_bulkhead),
		ROW(test_deny_orders_and_their_time),
		ROW(test_c134_an_ended_order_gives_way_to_a_wider_one),
		ROW(test_c146_management_and_forced_orders),
		ROW(test_deny_all_packets),
		ROW(test_allow_inside_deny),
		ROW(test_c144_allow_and_its_ceiling),
		ROW(test_trust_deny_and_management),
		ROW(test_drain_and_stop),
		ROW(test_lease_lapse),
		ROW(test_dry_run_of_every_stage),
		ROW(test_dry_run_of_all),
		ROW(test_udp_first_datagrams_pay),
		ROW(test_refusals_are_told_within_a_budget),
		ROW(test_c52_claims_on_two_cpus),
		ROW(test_c52_c53_total_is_exact_on_two_cpus),
		ROW(test_c52_source_on_two_cpus),
		ROW(test_c52_rate_on_two_cpus),
		ROW(test_c77_copies_on_two_cpus),
	};

	rig_private_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
