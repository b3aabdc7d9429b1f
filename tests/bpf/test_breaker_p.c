// SPDX-License-Identifier: GPL-2.0-only
/*
 * The breaker through XDP: open, half-open by tickets, ramp, shadow, orders, what is left of it when the lease has
 * lapsed; and what a pass writes down for sockops: generation and pressure.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/in.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/rig.h"

#include "sluice.skel.h"

#define SLOW (1000 * NS_PER_S)
#define KNOWN4 "192.0.2.1"
#define VIP4 "192.0.3.1"
#define PROBES 5
#define RESERVED 2

static struct rig *rig;
static struct slc_policy web;
static uint16_t slot;
static struct slc_decision_half decision;

static void decide(uint32_t flags)
{
	decision.flags = flags;
	rig_decide(rig, slot, &decision);
}

static void use(const struct slc_policy *policy)
{
	rig_replace_policy(rig, policy, SERVER4, 443);
}

static int setup(void **state)
{
	static const struct slc_rule vip = {
		.action = SLC_ACTION_class, .class = SLC_CLASS_vip, .until_ns = SLC_FOREVER};

	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	slot = rig_service(rig, &web, SERVER4, 443);
	rig_known(rig, web.uid, KNOWN4, SLC_FOREVER);
	rig_trust(rig, "192.0.3.0", 24, &vip);
	rig_next_snapshot(rig);
	decision = rig_decision();
	decision.probes = PROBES;
	decision.reserved = RESERVED;
	decision.ticket_ms = 60000;
	rig_generation(rig, slot, 7);
	decide(0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(rig);
	return 0;
}

/* --- packets and what became of them ------------------------------------------------------------------------------------ */

static uint32_t next_flow;

static struct packet attempt_of(struct recipe r)
{
	next_flow++;
	r.sport = 1024 + next_flow % 60000;
	r.seq = next_flow;
	return packet_build(&r);
}
#define ATTEMPT(...) attempt_of((struct recipe){__VA_ARGS__})

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

/* A SYN and, `again` times, its retransmits; true if the last one passed. */
static bool persists(const char *from, int again)
{
	struct packet p = ATTEMPT(.from = from);
	uint32_t action = rig_run(rig, &p, NULL);

	while (again--) {
		rig_age_flows(rig, SLC_REPEAT_GAP_MS + 20);
		action = rig_run(rig, &p, NULL);
	}
	return action == XDP_PASS;
}

static uint64_t counted(enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, slot);

	return rig_reason(&c.enforced, reason);
}

static uint64_t counted_dry(enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, slot);

	return rig_reason(&c.dry, reason);
}

static const struct slc_probe *probe(void)
{
	return &rig->probe[slot];
}

/* Slots in `state` of the current generation. */
static int slots(enum slc_slot_state state)
{
	uint32_t generation = rig->decision[slot].word >> 32 & 0xffffff;
	int n = 0;

	for (int i = 0; i < SLC_PROBES; i++)
		n += probe()->slot[i].state == state && probe()->slot[i].generation == generation;
	return n;
}

/* What sockops and cgroup_skb do with a slot, by hand. */
static void move_slots(enum slc_slot_state from, enum slc_slot_state to, uint64_t deadline_ns)
{
	for (int i = 0; i < SLC_PROBES; i++) {
		if (rig->probe[slot].slot[i].state != from)
			continue;
		rig->probe[slot].slot[i].state = to;
		rig->probe[slot].deadline_ns[i] = deadline_ns;
	}
}

/* --- open, and orders ------------------------------------------------------------------------------------------------------ */

static void test_open_refuses_by_the_action(void **state)
{
	(void)state;
	decide(SLC_D_OPEN);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_circuit_open);
	expect(rig, ATTEMPT(.from = VIP4), XDP_DROP, SLC_circuit_open);
	expect(rig, PACKET(.tcp = ACK), XDP_PASS, SLC_established);
	web.flags |= SLC_P_RESET;
	web.reset_depth16 = NS_PER_S << 4;
	web.reset_interval16 = 1;
	use(&web);
	expect(rig, ATTEMPT(.from = "198.51.100.8"), XDP_TX, SLC_circuit_open);
	assert_int_equal(probe()->granted, 0);
	decide(0);
	expect(rig, ATTEMPT(.from = "198.51.100.8"), XDP_PASS, SLC_admitted);
}

/* c88: each order in each state, as the packet path answers a SYN of a known source when the maps have it. */
static void test_c88_orders_in_every_state(void **state)
{
	static const struct {
		const char *name;
		uint32_t flags;
		bool lapsed;
		enum slc_reason alone; /* without an order */
	} states[] = {
		{"closed", 0, false, SLC_admitted},
		{"open", SLC_D_OPEN, false, SLC_circuit_open},
		{"half-open, all slots taken", SLC_D_HALF_OPEN, false, SLC_circuit_open},
		{"ramp, no token", SLC_D_RAMP | SLC_D_TOTAL, false, SLC_circuit_open},
		{"would be open", SLC_D_OPEN | SLC_D_SHADOW, false, SLC_admitted},
		{"would be half-open", SLC_D_HALF_OPEN | SLC_D_SHADOW, false, SLC_admitted},
		{"would ramp", SLC_D_RAMP | SLC_D_TOTAL | SLC_D_SHADOW, false, SLC_admitted},
		{"lease lapsed while closed", 0, true, SLC_admitted},
		{"lease lapsed while open", SLC_D_OPEN, true, SLC_circuit_open},
	};
	static const struct {
		const char *name;
		struct slc_override_half half;
		int reason; /* -1: as without it */
	} orders[] = {
		{"none", {.flags = 0}, -1},
		{"open",
		 {.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER},
		 SLC_circuit_open},
		{"closed", {.flags = SLC_O_BREAKER, .breaker_until_ns = SLC_FOREVER}, SLC_admitted},
		{"open, ended", {.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = 1}, -1},
		{"closed, ended", {.flags = SLC_O_BREAKER, .breaker_until_ns = 1}, -1},
		{"stop", {.flags = SLC_O_LEVEL, .level = 4, .level_until_ns = SLC_FOREVER}, SLC_stopped},
		{"drain", {.flags = SLC_O_DRAIN, .drain_until_ns = SLC_FOREVER}, SLC_draining},
	};

	(void)state;
	rig->control->global[0].hold_ns = rig->control->global[1].hold_ns = 3600 * NS_PER_S;
	for (size_t s = 0; s < sizeof(states) / sizeof(*states); s++) {
		decision.valid_until_ns = rig_now() + (states[s].lapsed ? -1 : 3600) * NS_PER_S;
		decision.total_interval16 = SLOW << 4;
		decide(states[s].flags);
		for (size_t o = 0; o < sizeof(orders) / sizeof(*orders); o++) {
			int want = orders[o].reason < 0 ? (int)states[s].alone : orders[o].reason;
			struct packet p = ATTEMPT(.from = KNOWN4);
			uint64_t before;

			memset(&rig->probe[slot], 0, sizeof(rig->probe[slot]));
			for (int i = 0; i < SLC_PROBES; i++)
				rig->probe[slot].slot[i] = (union slc_slot){.generation = 7, .state = SLC_SLOT_success};
			rig->total[slot].tat16 = (rig_now() + 10 * NS_PER_S) << 4;
			rig_override(rig, slot, &orders[o].half);
			before = counted(want);
			rig_run(rig, &p, NULL);
			if (counted(want) != before + 1)
				fail_msg("order %s, breaker %s: not %s", orders[o].name, states[s].name,
					 rig_reason_name(want));
		}
	}
}

/* c88: who is allowed or manages does not meet the breaker. */
static void test_c88_allowed_and_management_pass(void **state)
{
	static const struct slc_rule allow = {.action = SLC_ACTION_allow, .until_ns = SLC_FOREVER};
	static const struct slc_rule manage = {.action = SLC_ACTION_management, .until_ns = SLC_FOREVER};
	static const uint32_t flags[] = {SLC_D_OPEN, SLC_D_HALF_OPEN};
	static const struct slc_override_half open = {
		.flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER};

	(void)state;
	rig_trust(rig, "10.1.0.0", 16, &allow);
	rig_trust(rig, "10.2.0.0", 16, &manage);
	for (int i = 0; i < 3; i++) {
		if (i < 2)
			decide(flags[i]);
		else
			rig_override(rig, slot, &open);
		expect(rig, ATTEMPT(.from = "10.1.0.1"), XDP_PASS, SLC_allowed);
		expect(rig, ATTEMPT(.from = "10.2.0.1"), XDP_PASS, SLC_management);
	}
	assert_int_equal(probe()->granted, 0);
}

static void test_shadow_enforces_nothing(void **state)
{
	(void)state;
	decision.total_interval16 = SLOW << 4;
	decide(SLC_D_OPEN | SLC_D_SHADOW);
	assert_int_equal(PASSES(50, .from = "10.0.0.1"), 50);
	decide(SLC_D_HALF_OPEN | SLC_D_SHADOW);
	assert_int_equal(PASSES(50, .from = "10.0.0.2"), 50);
	decide(SLC_D_RAMP | SLC_D_TOTAL | SLC_D_SHADOW);
	assert_int_equal(PASSES(50, .from = "10.0.0.3"), 50);
	assert_int_equal(probe()->granted + probe()->invited, 0);
	/* a law's total is not the breaker's: it binds in the shadow of whatever state */
	decide(SLC_D_OPEN | SLC_D_TOTAL | SLC_D_SHADOW);
	expect(rig, ATTEMPT(.from = "10.0.0.4"), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.from = "10.0.0.4"), XDP_DROP, SLC_shed);
}

/* --- half-open: tickets ------------------------------------------------------------------------------------------------------- */

static void test_c85_as_many_as_probes(void **state)
{
	(void)state;
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(1000, .from = KNOWN4), PROBES);
	assert_int_equal(slots(SLC_SLOT_ticket), PROBES);
	assert_int_equal(probe()->granted, PROBES);
	assert_int_equal(counted(SLC_circuit_open), 1000 - PROBES);
	/* established, answered or failed: a slot stays taken for the rest of the period; a neutral end frees it */
	move_slots(SLC_SLOT_ticket, SLC_SLOT_owed, 0);
	assert_int_equal(PASSES(10, .from = KNOWN4), 0);
	move_slots(SLC_SLOT_owed, SLC_SLOT_success, 0);
	rig->probe[slot].slot[0].state = SLC_SLOT_failure;
	assert_int_equal(PASSES(10, .from = KNOWN4), 0);
	rig->probe[slot].slot[3].word = 0;
	assert_int_equal(PASSES(10, .from = KNOWN4), 1);
	for (decision.probes = 1; decision.probes <= SLC_PROBES; decision.probes++) {
		rig_generation(rig, slot, 100 + decision.probes);
		decide(SLC_D_HALF_OPEN);
		assert_int_equal(PASSES(40, .from = KNOWN4), decision.probes);
	}
}

/* Slots 0 to reserved - 1 are for known sources, however many strangers persist. */
static void test_reserved_for_known(void **state)
{
	char from[32];
	int n = 0;

	(void)state;
	decide(SLC_D_HALF_OPEN);
	for (int i = 1; i < 20; i++) {
		snprintf(from, sizeof(from), "10.0.0.%d", i);
		n += persists(from, 1);
	}
	assert_int_equal(n, PROBES - RESERVED);
	assert_int_equal(probe()->slot[0].state, SLC_SLOT_free);
	assert_int_equal(probe()->slot[1].state, SLC_SLOT_free);
	assert_int_equal(PASSES(10, .from = VIP4), 0); /* listed, but not known-good */
	assert_int_equal(PASSES(10, .from = KNOWN4), RESERVED);
	/* and known ones may take all */
	rig_generation(rig, slot, 8);
	assert_int_equal(PASSES(10, .from = VIP4), PROBES - RESERVED);
	assert_int_equal(PASSES(10, .from = KNOWN4), RESERVED);
	rig_generation(rig, slot, 9);
	assert_int_equal(PASSES(10, .from = KNOWN4), PROBES);
	/* none known: none reserved */
	decision.reserved = 0;
	decide(SLC_D_HALF_OPEN);
	rig_generation(rig, slot, 10);
	for (int i = n = 0; i < 20; i++) {
		snprintf(from, sizeof(from), "10.0.1.%d", i);
		n += persists(from, 1);
	}
	assert_int_equal(n, PROBES);
}

/* A stranger's first SYN buys nothing and is not reset, while a slot is free: it is to come again. */
static void test_strangers_are_invited(void **state)
{
	struct packet first, full;

	(void)state;
	web.flags |= SLC_P_RESET;
	web.reset_depth16 = NS_PER_S << 4;
	web.reset_interval16 = 1;
	use(&web);
	decision.probes = 3;
	decision.reserved = 2;
	decide(SLC_D_HALF_OPEN);
	first = ATTEMPT(.from = "10.0.0.1");
	assert_int_equal(rig_run(rig, &first, NULL), XDP_DROP);
	assert_int_equal(probe()->invited, 1);
	assert_int_equal(counted(SLC_circuit_open), 1);
	assert_int_equal(rig_run(rig, &first, NULL), XDP_DROP); /* a copy, not a retransmit */
	assert_int_equal(counted(SLC_repeat), 1);
	assert_int_equal(probe()->granted, 0);
	rig_age_flows(rig, 1000);
	assert_int_equal(rig_run(rig, &first, NULL), XDP_PASS);
	assert_int_equal(probe()->granted, 1);
	/* what strangers may take is taken: the action is what was configured, and nobody is invited */
	full = ATTEMPT(.from = "10.0.0.2");
	assert_int_equal(rig_run(rig, &full, NULL), XDP_TX);
	assert_int_equal(probe()->invited, 1);
	rig_age_flows(rig, 1000);
	full = ATTEMPT(.from = "10.0.0.2");
	assert_int_equal(rig_run(rig, &full, NULL), XDP_TX);
}

/* Sources that never come again take nothing, whatever their number; who does is served among them. */
static void test_c85_spoofed_sources_take_no_ticket(void **state)
{
	struct packet spoofed = PACKET(.dport = 443), real = ATTEMPT(.from = "10.9.9.9");

	(void)state;
	decide(SLC_D_HALF_OPEN);
	rig_run(rig, &real, NULL);
	for (uint32_t i = 0; i < 5000; i++) { /* more would push the real one's record out of its set now and then */
		packet_set_source4(&spoofed, 0x0b000000 + i * 2654435761u % 0xffffff);
		packet_set_seq(&spoofed, i);
		assert_int_equal(rig_run(rig, &spoofed, NULL), XDP_DROP);
	}
	assert_int_equal(probe()->granted, 0);
	rig_age_flows(rig, 1000);
	assert_int_equal(rig_run(rig, &real, NULL), XDP_PASS);
	assert_int_equal(PASSES(1, .from = KNOWN4), 1);
}

/*
 * Clients that give up before they would send the same SYN again: a source that was answered before needs no repeat, one
 * that only tried does.
 */
static void test_impatient_clients_that_were_answered_before(void **state)
{
	(void)state;
	rig_policy_source(&web, NS_PER_MS, 1000);
	use(&web);
	assert_int_equal(PASSES(3, .from = "10.1.0.1") + PASSES(3, .from = "10.1.0.2"), 6);
	assert_true(rig_set_good(rig, "10.1.0.1", web.uid, 1));
	assert_true(rig_set_good(rig, "10.1.0.2", web.uid, 0));
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(3, .from = "10.1.0.2"), 0);
	assert_int_equal(probe()->granted, 0);
	assert_int_equal(PASSES(9, .from = "10.1.0.1"), PROBES - RESERVED); /* and no slot of those who are known */
	assert_int_equal(PASSES(9, .from = KNOWN4), RESERVED);
}

static void test_unused_tickets_run_out(void **state)
{
	(void)state;
	decision.ticket_ms = 100;
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(20, .from = KNOWN4), PROBES);
	usleep(120000);
	assert_int_equal(PASSES(20, .from = KNOWN4), PROBES);
	assert_int_equal(probe()->granted, 2 * PROBES);
	assert_int_equal(probe()->returned, PROBES);
	/* an idle probe past its deadline likewise; one that owes an answer has failed and stays */
	move_slots(SLC_SLOT_ticket, SLC_SLOT_probe, rig_now() - 1);
	rig->probe[slot].slot[2].state = SLC_SLOT_owed;
	assert_int_equal(PASSES(20, .from = KNOWN4), PROBES - 1);
	assert_int_equal(probe()->slot[2].state, SLC_SLOT_owed);
}

/* c86: a period's slots mean nothing in the next, not even after 2^24 of them. */
static void test_c86_a_new_generation_frees_all(void **state)
{
	static const uint32_t generations[] = {8, 9, 0xffffff, 0x1000000, 0xffffffff, 0};

	(void)state;
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(20, .from = KNOWN4), PROBES);
	for (size_t i = 0; i < sizeof(generations) / sizeof(*generations); i++) {
		rig_generation(rig, slot, generations[i]);
		assert_int_equal(PASSES(20, .from = KNOWN4), PROBES);
		assert_int_equal(slots(SLC_SLOT_ticket), PROBES);
	}
}

/* Who holds a ticket may send its SYN again, and holds one still; who does not, may not. */
static void test_retransmit_of_the_holder_passes(void **state)
{
	struct packet holder = ATTEMPT(.from = KNOWN4), other = ATTEMPT(.from = KNOWN4);

	(void)state;
	decision.probes = 1;
	decision.reserved = 0;
	decide(SLC_D_HALF_OPEN);
	expect(rig, holder, XDP_PASS, SLC_admitted);
	expect(rig, other, XDP_DROP, SLC_circuit_open);
	for (int i = 0; i < 3; i++) {
		rig_age_flows(rig, 1000);
		expect(rig, holder, XDP_PASS, SLC_retransmit);
		expect(rig, other, XDP_DROP, SLC_circuit_open);
	}
	move_slots(SLC_SLOT_ticket, SLC_SLOT_owed, SLC_FOREVER);
	rig_age_flows(rig, 1000);
	expect(rig, holder, XDP_PASS, SLC_retransmit);
	assert_int_equal(probe()->granted, 1);
	/* its probe has ended: it asks like everybody */
	move_slots(SLC_SLOT_owed, SLC_SLOT_success, 0);
	rig_age_flows(rig, 1000);
	expect(rig, holder, XDP_DROP, SLC_circuit_open);
}

/* A flow that was admitted while closed holds no ticket. */
static void test_c86_admitted_before_is_no_holder(void **state)
{
	struct packet before = ATTEMPT(.from = "10.0.0.1");

	(void)state;
	expect(rig, before, XDP_PASS, SLC_admitted);
	decision.probes = 1;
	decision.reserved = 0;
	rig_generation(rig, slot, 8);
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(2, .from = KNOWN4), 1);
	rig_age_flows(rig, 1000);
	expect(rig, before, XDP_DROP, SLC_circuit_open);
}

/* c81: whatever another stage refuses, or lets past all of them, costs no ticket. */
static void test_c81_other_stages_take_no_ticket(void **state)
{
	static const struct slc_rule deny = {.action = SLC_ACTION_deny, .until_ns = SLC_FOREVER};
	static const struct slc_rule allow = {.action = SLC_ACTION_allow, .until_ns = SLC_FOREVER};
	struct slc_policy p = web;

	(void)state;
	rig_trust(rig, "10.1.0.0", 16, &deny);
	rig_trust(rig, "10.2.0.0", 16, &allow);
	decide(SLC_D_HALF_OPEN);
	expect(rig, ATTEMPT(.from = "10.1.0.1"), XDP_DROP, SLC_denied);
	expect(rig, ATTEMPT(.from = "10.2.0.1"), XDP_PASS, SLC_allowed);
	decision.cut_classes = 1 << SLC_CLASS_known;
	decide(SLC_D_HALF_OPEN);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_shed);
	decision.cut_classes = 0;
	decide(SLC_D_HALF_OPEN);
	rig_policy_source(&p, SLOW, 1);
	p.flags |= SLC_P_BULKHEAD;
	p.total_concurrent = 10;
	use(&p);
	rig->signals[slot].held = 10;
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_bulkhead_full);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_rate_limited);
	p = web;
	rig_policy_total(&p, SLOW, 1);
	use(&p);
	rig->total[slot].tat16 = (rig_now() + SLOW) << 4;
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_service_rate);
	assert_int_equal(probe()->granted, 0);
	for (int i = 0; i < SLC_PROBES; i++)
		assert_true(probe()->slot[i].word == 0);
}

/* --- races ------------------------------------------------------------------------------------------------------------------ */

struct racing {
	uint32_t at; /* arrivals at meet() */
	uint32_t rounds, base;
	uint32_t passed[2];
	uint32_t both, leaks; /* rounds with two tickets and one token; with more tickets left than one */
	uint64_t granted; /* before this round */
};

/* Both threads leave at the same moment, again and again; on one busy CPU they yield. */
static void meet(struct racing *r, uint32_t round)
{
	__atomic_add_fetch(&r->at, 1, __ATOMIC_ACQ_REL);
	for (int spins = 0; __atomic_load_n(&r->at, __ATOMIC_ACQUIRE) < 2 * (round + 1); spins++)
		if (spins > 2000)
			sched_yield();
}

static void take_all(struct rig *on, void *arg, int cpu)
{
	struct racing *r = arg;
	struct packet p = PACKET(.from = KNOWN4, .sport = 2000 + cpu);

	for (uint32_t round = 0; round < r->rounds; round++) {
		meet(r, 2 * round);
		if (!cpu)
			rig_generation(on, slot, 1000 + round);
		meet(r, 2 * round + 1);
		for (uint32_t i = 0; i < PROBES + 1; i++) {
			packet_set_seq(&p, 1 + round * 16 + i);
			r->passed[cpu] += rig_run(on, &p, NULL) == XDP_PASS;
		}
	}
}

/* c85: two CPUs after the same slots: never one too many, none lost. */
static void test_c85_two_cpus_after_one_cap(void **state)
{
	struct racing r = {.rounds = 2000};

	(void)state;
	decide(SLC_D_HALF_OPEN);
	if (!rig_on_two_cpus(rig, take_all, &r)) {
		print_message("probe: one CPU\n");
		skip();
	}
	assert_int_equal(r.passed[0] + r.passed[1], r.rounds * PROBES);
	assert_true(r.passed[0] && r.passed[1]);
	assert_int_equal(probe()->granted, r.rounds * PROBES);
}

static void take_token(struct rig *on, void *arg, int cpu)
{
	struct racing *r = arg;
	struct packet p = PACKET(.from = KNOWN4, .sport = 2000 + cpu);

	for (uint32_t round = 0; round <= r->rounds; round++) {
		meet(r, 2 * round);
		if (!cpu) {
			r->both += probe()->granted - r->granted == 2;
			r->leaks += round && slots(SLC_SLOT_ticket) != 1;
			r->granted = probe()->granted;
			rig_generation(on, slot, r->base + round);
			on->total[slot].tat16 = 0;
		}
		meet(r, 2 * round + 1);
		if (round == r->rounds)
			return;
		for (volatile uint32_t wait = cpu ? round % 256 : 128; wait; wait--)
			;
		packet_set_seq(&p, r->base + round);
		r->passed[cpu] += rig_run(on, &p, NULL) == XDP_PASS;
	}
}

/* c81: commit refuses who has a ticket already, since the other CPU took the last token: the ticket is free again. */
static void test_c81_ticket_comes_back_when_commit_refuses(void **state)
{
	struct racing r = {.rounds = 5000, .base = 1000};

	(void)state;
	rig_policy_total(&web, SLOW, 1);
	use(&web);
	decide(SLC_D_HALF_OPEN);
	while (!r.both && r.base < 400000) {
		r.at = 0;
		if (!rig_on_two_cpus(rig, take_token, &r)) {
			print_message("probe: one CPU\n");
			skip();
		}
		r.base += r.rounds;
		assert_int_equal(r.leaks, 0);
		assert_int_equal(r.passed[0] + r.passed[1], r.base - 1000);
	}
	print_message("both CPUs had a ticket, and one token: %u of %u\n", r.both, r.base - 1000);
	assert_true(r.both > 0);
}

/* --- dyed probes ------------------------------------------------------------------------------------------------------------- */

/* XDP does not look at the IP checksum. */
static void mark(struct packet *p, uint8_t dscp)
{
	uint8_t *ip = p->data + p->l3;

	if (ip[0] >> 4 == 4) {
		ip[1] = dscp << 2;
	} else {
		ip[0] = 6 << 4 | dscp >> 2;
		ip[1] = dscp << 6;
	}
}

static uint32_t run_marked(const char *from, uint8_t dscp)
{
	bool v6 = strchr(from, ':');
	struct packet p = v6 ? ATTEMPT(.link = LINK_IP6, .from = from) : ATTEMPT(.from = from);

	mark(&p, dscp);
	rig_run(rig, &p, NULL);
	rig_age_flows(rig, 1000);
	return rig_run(rig, &p, NULL);
}

static void test_dyed_probes(void **state)
{
	static const struct slc_rule any = {.until_ns = SLC_FOREVER};

	(void)state;
	web.flags |= SLC_P_DYED;
	use(&web);
	rig_address(rig, &web, SERVER6, 443);
	rig_scope(rig, SLC_SCOPE_DSCP, "10.7.0.0", 16, &any);
	rig_scope(rig, SLC_SCOPE_DSCP, "2001:db8:7::", 48, &any);
	decision.probes = SLC_PROBES;
	decision.reserved = 0;
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(run_marked("10.7.0.1", 0), XDP_DROP);
	assert_int_equal(run_marked(KNOWN4, 0), XDP_DROP);
	assert_int_equal(run_marked("2001:db8:7::1", 0), XDP_DROP);
	assert_int_equal(probe()->dscp_ignored, 0);
	assert_int_equal(run_marked(KNOWN4, 46), XDP_DROP);
	assert_int_equal(run_marked("2001:db8:8::1", 1), XDP_DROP);
	assert_int_equal(probe()->dscp_ignored, 4);
	assert_int_equal(probe()->granted + probe()->invited, 0);
	assert_int_equal(run_marked("10.7.0.1", 46), XDP_PASS);
	assert_int_equal(run_marked("10.7.0.2", 1), XDP_PASS);
	assert_int_equal(run_marked("10.7.0.3", 63), XDP_PASS);
	assert_int_equal(run_marked("2001:db8:7::1", 32), XDP_PASS);
	assert_int_equal(run_marked("2001:db8:7::2", 3), XDP_PASS);
	assert_int_equal(probe()->granted, 5);
	assert_int_equal(probe()->dscp_ignored, 4);
	/* or from an interface whose marks are believed */
	rig->control->global[rig->control->active & 1].dscp_ifindex[3] = 1; /* lo */
	rig->ifindex = 1;
	assert_int_equal(run_marked("10.8.0.1", 9), XDP_PASS);
	assert_int_equal(run_marked("10.8.0.1", 0), XDP_DROP);
	/* where probes are not dyed, marks are not looked at */
	web.flags &= ~SLC_P_DYED;
	use(&web);
	assert_int_equal(run_marked("10.9.0.1", 0), XDP_PASS);
	assert_int_equal(probe()->dscp_ignored, 4);
}

/* --- dry run ------------------------------------------------------------------------------------------------------------------ */

static void test_dry_run_counts(void **state)
{
	(void)state;
	web.dry = 1u << SLC_STAGE_breaker;
	use(&web);
	decide(SLC_D_OPEN);
	assert_int_equal(PASSES(20, .from = "10.0.0.1"), 20);
	assert_int_equal(counted_dry(SLC_circuit_open), 20);
	/* half-open: those who would pass take tickets, so that the trial comes to an end; strangers pass at once */
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(20, .from = "10.0.0.2"), 20);
	assert_int_equal(probe()->granted, PROBES - RESERVED);
	assert_int_equal(counted_dry(SLC_circuit_open), 20 + 20 - (PROBES - RESERVED));
	assert_int_equal(probe()->invited, 0);
	/* an order is the breaker's stage too */
	rig_override(rig, slot,
		     &(struct slc_override_half){
			     .flags = SLC_O_BREAKER, .breaker_open = 1, .breaker_until_ns = SLC_FOREVER});
	assert_int_equal(PASSES(5, .from = "10.0.0.3"), 5);
	assert_int_equal(counted(SLC_circuit_open), 0);
}

/* --- ramp and floor ------------------------------------------------------------------------------------------------------------- */

/* After closing: the ramp's rate, refused in the breaker's name; a slower configured one has its own. */
static void test_c98_ramp(void **state)
{
	struct slc_policy total = web;

	(void)state;
	decision.total_interval16 = SLOW << 4;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_int_equal(PASSES(10, .from = VIP4), 1);
	assert_int_equal(counted(SLC_circuit_open), 9);

	/* beside a total of ten a token that costs twice as much leaves five */
	rig_policy_total(&total, SLOW, 10);
	use(&total);
	rig->total[slot].tat16 = 0;
	decision.total_interval16 = total.total_interval16 * 2;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_int_equal(PASSES(20, .from = VIP4), 5);
	assert_int_equal(counted(SLC_circuit_open), 9 + 15);
	assert_int_equal(counted(SLC_service_rate), 0);

	/* the number is the least; where both are the same, the breaker comes first */
	decision.total_interval16 = total.total_interval16 / 2;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_int_equal(PASSES(5, .from = VIP4), 0);
	assert_int_equal(counted(SLC_service_rate), 5);
	decision.total_interval16 = total.total_interval16;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_int_equal(PASSES(5, .from = VIP4), 0);
	assert_int_equal(counted(SLC_circuit_open), 9 + 15 + 5);
	assert_int_equal(counted(SLC_shed), 0);
}

/* Without a configured total: what comes within 100 ms may come at once, and no more. */
static void test_c98_ramp_takes_uneven_arrivals(void **state)
{
	struct slc_policy even = web;

	(void)state;
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		even.theta_q16[c] = 65536;
	use(&even);
	decision.total_interval16 = (20 * NS_PER_MS) << 4;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_in_range(PASSES(50, .from = VIP4), 5, 6);
	usleep(65000);
	assert_in_range(PASSES(50, .from = VIP4), 3, 5);
	assert_true(counted(SLC_circuit_open) >= 89);
}

/* A dry run of the breaker takes its ramp away, not the configured limit. */
static void test_c98_dry_run_of_the_ramp(void **state)
{
	struct slc_policy total = web;

	(void)state;
	rig_policy_total(&total, SLOW, 10);
	total.dry = 1u << SLC_STAGE_breaker;
	use(&total);
	decision.total_interval16 = total.total_interval16 * 5;
	decide(SLC_D_RAMP | SLC_D_TOTAL);
	assert_int_equal(PASSES(20, .from = VIP4), 10);
	assert_int_equal(counted(SLC_service_rate), 10);
	assert_true(counted_dry(SLC_circuit_open) >= 17);
	/* and both in a dry run refuse nobody */
	total.dry |= 1u << SLC_STAGE_total;
	use(&total);
	assert_int_equal(PASSES(20, .from = VIP4), 20);
	assert_int_equal(counted_dry(SLC_service_rate), 20);
}

/* The floor in a half does not bind while the lease holds. */
static void test_floor_waits_for_the_lapse(void **state)
{
	(void)state;
	decision.total_interval16 = SLOW << 4;
	decision.probes = SLC_PROBES;
	decide(SLC_D_HALF_OPEN);
	assert_int_equal(PASSES(50, .from = KNOWN4), SLC_PROBES);
	decide(SLC_D_HALF_OPEN | SLC_D_TOTAL);
	rig_generation(rig, slot, 8);
	assert_int_equal(PASSES(50, .from = KNOWN4), SLC_PROBES);
}

static void lapse(uint32_t flags, uint64_t ago_ns, uint64_t interval16)
{
	decision.valid_until_ns = rig_now() - ago_ns;
	decision.total_interval16 = interval16;
	decide(flags);
	rig->total[slot].tat16 = 0;
}

/* The controller is gone while the breaker is open: a part of the rate for a while, then the configured limits. */
static void test_lapse_of_an_open_breaker(void **state)
{
	struct slc_policy total = web;
	uint64_t open = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		rig->control->global[i].hold_ns = 2 * NS_PER_S;
	lapse(SLC_D_OPEN, NS_PER_MS, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 1);
	lapse(SLC_D_HALF_OPEN, NS_PER_MS, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 1);
	open = counted(SLC_circuit_open);
	assert_int_equal(open, 18);
	assert_int_equal(probe()->granted, 0);
	/* with a configured total, the slower of both */
	rig_policy_total(&total, SLOW, 10);
	use(&total);
	lapse(SLC_D_OPEN, NS_PER_MS, total.total_interval16 * 5);
	assert_int_equal(PASSES(20, .from = VIP4), 2);
	assert_int_equal(counted(SLC_circuit_open), open + 18);
	lapse(SLC_D_OPEN, NS_PER_MS, ~0ULL);
	assert_int_equal(PASSES(20, .from = VIP4), 10);
	assert_int_equal(counted(SLC_service_rate), 10);
	use(&web);
	/* over: after hold; without a floor; from the shadow; closed */
	lapse(SLC_D_OPEN, 2 * NS_PER_S + 1, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
	lapse(SLC_D_OPEN, NS_PER_MS, ~0ULL);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
	lapse(SLC_D_OPEN | SLC_D_SHADOW, NS_PER_MS, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
	lapse(SLC_D_RAMP | SLC_D_TOTAL, NS_PER_MS, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
	/* a dry run of the breaker is one of its floor */
	web.dry = 1u << SLC_STAGE_breaker;
	use(&web);
	lapse(SLC_D_OPEN, NS_PER_MS, SLOW << 4);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
	assert_int_equal(counted_dry(SLC_circuit_open), 9);
}

/* hold runs from the half's own time, as the clock goes. */
static void test_lapse_in_real_time(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		rig->control->global[i].hold_ns = 300 * NS_PER_MS;
	decision.valid_until_ns = rig_now() + 200 * NS_PER_MS;
	decision.total_interval16 = SLOW << 4;
	decide(SLC_D_OPEN);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_circuit_open);
	usleep(220000);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.from = KNOWN4), XDP_DROP, SLC_circuit_open);
	usleep(320000);
	assert_int_equal(PASSES(10, .from = KNOWN4), 10);
}

/* failsafe.on_loss comes before the floor. */
static void test_on_loss_wins_over_the_floor(void **state)
{
	static const struct {
		enum slc_on_loss on_loss;
		enum slc_reason reason;
	} rows[] = {{SLC_ON_LOSS_pass, SLC_unprotected}, {SLC_ON_LOSS_closed, SLC_failsafe}};

	(void)state;
	for (size_t row = 0; row < 2; row++) {
		for (int i = 0; i < 2; i++) {
			rig->control->global[i].hold_ns = SLOW;
			rig->control->global[i].on_loss = rows[row].on_loss;
		}
		lapse(SLC_D_OPEN, NS_PER_MS, SLOW << 4);
		for (int i = 0; i < 3; i++)
			expect(rig, ATTEMPT(.from = KNOWN4), rows[row].reason == SLC_failsafe ? XDP_DROP : XDP_PASS,
			       rows[row].reason);
	}
}

/* --- what a pass writes down ------------------------------------------------------------------------------------------------------ */

static const struct slc_flow *only_flow(void)
{
	const struct slc_flow *found = NULL;

	for (uint32_t set = 0; set < rig->control->flow_sets; set++) {
		for (int w = 0; w < SLC_FLOW_WAYS; w++) {
			if (!rig->flows[set].way[w].head.passes)
				continue;
			assert_null(found);
			found = &rig->flows[set].way[w];
		}
	}
	assert_non_null(found);
	return found;
}

/* Generation (its low 3 bits) and pressure are those of the last pass that was admitted. */
static void test_flow_has_generation_and_pressure(void **state)
{
	struct packet p = ATTEMPT(.from = "10.0.0.1");
	const struct slc_flow *flow;

	(void)state;
	rig_generation(rig, slot, 0x12345);
	expect(rig, p, XDP_PASS, SLC_admitted);
	flow = only_flow();
	assert_int_equal(flow->head.generation, 5);
	assert_int_equal(flow->head.pressure, 0);
	decide(SLC_D_PRESSURE);
	rig_generation(rig, slot, 0x12346);
	rig_age_flows(rig, 1000);
	expect(rig, p, XDP_PASS, SLC_retransmit);
	assert_int_equal(flow->head.generation, 6);
	assert_int_equal(flow->head.pressure, 1);
	decide(0);
	rig_generation(rig, slot, 0x12348);
	rig_age_flows(rig, 1000);
	expect(rig, p, XDP_PASS, SLC_retransmit);
	assert_int_equal(flow->head.generation, 0);
	assert_int_equal(flow->head.pressure, 0);
	assert_int_equal(flow->head.passes, 3);
	/* the lease has lapsed: the generation is still what it was */
	decision.valid_until_ns = 1;
	decide(SLC_D_PRESSURE);
	rig_generation(rig, slot, 3);
	rig_age_flows(rig, 1000);
	expect(rig, p, XDP_PASS, SLC_retransmit);
	assert_int_equal(flow->head.generation, 3);
	assert_int_equal(flow->head.pressure, 0);
}

/* Who is allowed skips the stages, not the bookkeeping. */
static void test_flow_of_an_allowed_source(void **state)
{
	static const struct slc_rule allow = {.action = SLC_ACTION_allow, .until_ns = SLC_FOREVER};

	(void)state;
	rig_trust(rig, "10.1.0.0", 16, &allow);
	decide(SLC_D_OPEN | SLC_D_PRESSURE);
	rig_generation(rig, slot, 13);
	expect(rig, ATTEMPT(.from = "10.1.0.1"), XDP_PASS, SLC_allowed);
	assert_int_equal(only_flow()->head.generation, 5);
	assert_int_equal(only_flow()->head.pressure, 1);
}

/* --- nobody listens --------------------------------------------------------------------------------------------------------------- */

static uint64_t no_listener(uint32_t row)
{
	return rig->signals[slot].outcomes[row][SLC_OUT_no_listener];
}

/* An outcome once per source and second, in the row of the generation, whatever the pressure. */
static void test_no_listener_once_per_source_and_second(void **state)
{
	uint64_t start, end, n;

	(void)state;
	rig_policy_gate(&web, 90, 90);
	use(&web);
	decide(0); /* no listener was ever seen: it has not started yet */
	assert_int_equal(PASSES(5, .from = "10.0.0.1"), 5);
	assert_int_equal(no_listener(1), 0);
	decide(SLC_D_LISTENED | SLC_D_PRESSURE);
	start = rig_now() / NS_PER_S;
	assert_int_equal(PASSES(200, .from = "10.0.0.1"), 200);
	end = rig_now() / NS_PER_S;
	n = no_listener(SLC_ROW_odd);
	assert_in_range(n, 1, end - start + 1);
	usleep(1000000);
	assert_int_equal(PASSES(1, .from = "10.0.0.1"), 1);
	assert_int_equal(no_listener(SLC_ROW_odd), n + 1);
	/* sources of other cells count for themselves: 100 of 256 are 83 on average */
	rig_generation(rig, slot, 8);
	for (int i = 0; i < 100; i++) {
		char from[32];

		snprintf(from, sizeof(from), "10.1.0.%d", i);
		PASSES(1, .from = from);
	}
	assert_in_range(no_listener(SLC_ROW_even), 60, 200);
	assert_int_equal(no_listener(SLC_ROW_odd), n + 1);
	assert_int_equal(no_listener(SLC_ROW_other) + no_listener(SLC_ROW_pressure), 0);
	/* without the controller nobody reads it */
	n = no_listener(SLC_ROW_even);
	usleep(1000000);
	decision.valid_until_ns = 1;
	decide(SLC_D_LISTENED);
	PASSES(5, .from = "10.0.0.1");
	assert_int_equal(no_listener(SLC_ROW_even), n);
}

/* --- datagrams ---------------------------------------------------------------------------------------------------------------------- */

/*
 * Of a datagram nothing is remembered that could come again: strangers take what is not reserved at once. Further datagrams
 * of a flow that holds a slot pass.
 */
static void test_datagrams(void **state)
{
	struct slc_policy dns = rig_policy("dns");
	uint16_t tcp = slot;
	struct packet holder;

	(void)state;
	dns.proto = IPPROTO_UDP;
	slot = rig_service(rig, &dns, SERVER4, 53);
	rig_next_snapshot(rig);
	decide(SLC_D_OPEN);
	expect(rig, ATTEMPT(.proto = IPPROTO_UDP, .dport = 53), XDP_DROP, SLC_circuit_open);
	decide(SLC_D_HALF_OPEN);
	rig_generation(rig, slot, 1);
	holder = ATTEMPT(.proto = IPPROTO_UDP, .dport = 53);
	expect_many(rig, holder, 10, SLC_admitted);
	assert_int_equal(probe()->granted, 1);
	assert_int_equal(PASSES(20, .proto = IPPROTO_UDP, .dport = 53), PROBES - RESERVED - 1);
	assert_int_equal(slots(SLC_SLOT_ticket), PROBES - RESERVED);
	move_slots(SLC_SLOT_ticket, SLC_SLOT_owed, SLC_FOREVER);
	expect(rig, holder, XDP_PASS, SLC_admitted);
	/* answered: its slot stays, and only the answer's stamp lets its datagrams pass */
	move_slots(SLC_SLOT_owed, SLC_SLOT_success, 0);
	expect(rig, holder, XDP_DROP, SLC_circuit_open);
	slot = tcp;
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_open_refuses_by_the_action),
		ROW(test_c88_orders_in_every_state),
		ROW(test_c88_allowed_and_management_pass),
		ROW(test_shadow_enforces_nothing),
		ROW(test_c85_as_many_as_probes),
		ROW(test_reserved_for_known),
		ROW(test_strangers_are_invited),
		ROW(test_c85_spoofed_sources_take_no_ticket),
		ROW(test_impatient_clients_that_were_answered_before),
		ROW(test_unused_tickets_run_out),
		ROW(test_c86_a_new_generation_frees_all),
		ROW(test_retransmit_of_the_holder_passes),
		ROW(test_c86_admitted_before_is_no_holder),
		ROW(test_c81_other_stages_take_no_ticket),
		ROW(test_c85_two_cpus_after_one_cap),
		ROW(test_c81_ticket_comes_back_when_commit_refuses),
		ROW(test_dyed_probes),
		ROW(test_dry_run_counts),
		ROW(test_c98_ramp),
		ROW(test_c98_ramp_takes_uneven_arrivals),
		ROW(test_c98_dry_run_of_the_ramp),
		ROW(test_floor_waits_for_the_lapse),
		ROW(test_lapse_of_an_open_breaker),
		ROW(test_lapse_in_real_time),
		ROW(test_on_loss_wins_over_the_floor),
		ROW(test_flow_has_generation_and_pressure),
		ROW(test_flow_of_an_allowed_source),
		ROW(test_no_listener_once_per_source_and_second),
		ROW(test_datagrams),
	};

	rig_private_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
