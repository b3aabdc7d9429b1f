// SPDX-License-Identifier: GPL-2.0-only
/*
 * The accept-queue gate against real listeners: queues are filled by real connections over the loopback of the test's
 * own namespace, the SYNs that ask come by BPF_PROG_TEST_RUN. What the kernel itself does with a SYN is the judge.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/net.h"
#include "tests/bpf/rig.h"

#include "sluice.skel.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define OTHER4 "203.0.113.11" /* the server's second address */
#define AWAY4 "198.51.100.77" /* routed to lo, nobody's: handshakes from there stay half done */

static struct rig *rig;
static struct slc_policy web;
static uint16_t slot;
static struct slc_decision_half decision;
static int cgroup = -1;
static struct bpf_link *sockops;

/* Marks at `low` and `high` percent; nothing predicted (p = 0), so that the queue alone decides. */
static void gate(uint32_t low, uint32_t high)
{
	web.flags &= ~SLC_P_GATE;
	rig_policy_gate(&web, low, high);
	rig_replace_policy(rig, &web, SERVER4, 443);
	rig_replace_policy(rig, &web, OTHER4, 443);
	rig_replace_policy(rig, &web, SERVER6, 443);
}

static void decide(void)
{
	decision.valid_until_ns = rig_now() + 3600 * NS_PER_S;
	rig_decide(rig, slot, &decision);
}

static int setup(void **state)
{
	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	slot = rig_service(rig, &web, SERVER4, 443);
	rig_address(rig, &web, OTHER4, 443);
	rig_address(rig, &web, SERVER6, 443);
	decision = rig_decision();
	memset(decision.completion_q16, 0, sizeof(decision.completion_q16));
	decide();
	gate(100, 100);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	net_close_all();
	rig_close(rig);
	return 0;
}

static uint32_t next_flow;

static struct packet attempt_of(struct recipe r)
{
	next_flow++;
	if (!r.sport)
		r.sport = 1024 + next_flow % 30000;
	r.seq = next_flow * 1000;
	if (!r.from && r.link == LINK_IP4)
		r.from = "198.51.100.200"; /* not the address that fills the queues */
	if (!r.from)
		r.from = "2001:db8:1::200";
	return packet_build(&r);
}
#define ATTEMPT(...) attempt_of((struct recipe){__VA_ARGS__})

static bool refused(struct recipe r)
{
	struct packet p = attempt_of(r);

	return rig_run(rig, &p, NULL) == XDP_DROP;
}
#define REFUSED(...) refused((struct recipe){__VA_ARGS__})

static uint64_t counted(enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, slot);

	return rig_reason(&c.enforced, reason);
}

static uint64_t blind(void)
{
	return rig_counters(rig, slot).gate_blind;
}

/* --- marks ------------------------------------------------------------------------------------------------------------ */

/* c57: the kernel holds backlog + 1; we refuse at the mark, never divide by the backlog, and 0 admits one. */
static void test_c57_backlogs(void **state)
{
	static const int backlogs[] = {0, 1, 5, 50};

	(void)state;
	for (size_t i = 0; i < sizeof(backlogs) / sizeof(*backlogs); i++) {
		int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = backlogs[i]);
		int mark = backlogs[i] ? backlogs[i] : 1, n = 0, fd;

		for (; n < mark; n++) {
			if (REFUSED(.dport = 443))
				fail_msg("backlog %d: refused at %d waiting", backlogs[i], n);
			net_fill(SERVER4, 443, 1);
			assert_int_equal(net_waiting(l), n + 1);
		}
		if (!REFUSED(.dport = 443))
			fail_msg("backlog %d: not refused at %d waiting", backlogs[i], n);
		/* the kernel would go on to backlog + 1 and no further */
		if (backlogs[i]) {
			net_fill(SERVER4, 443, 1);
			assert_true(REFUSED(.dport = 443));
		}
		fd = net_connect(CLIENT4, 0, SERVER4, 443, 100);
		assert_int_equal(fd, -ETIMEDOUT);
		assert_true(REFUSED(.dport = 443));
		net_drop_all();
		net_close(l);
	}
	assert_int_equal(blind(), 0);
	assert_true(counted(SLC_accept_pressure) >= 7);
}

/* c56: capacity comes from the socket, whatever somaxconn or a config says. */
static void test_c56_capacity_is_the_sockets(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 211);

	(void)state;
	gate(50, 50);
	net_fill(SERVER4, 443, 104);
	assert_false(REFUSED(.dport = 443)); /* 104 + 1 of 105.5 */
	net_fill(SERVER4, 443, 1);
	assert_true(REFUSED(.dport = 443));
	net_close(l);
	net_drop_all();

	/* and the one that held at listen() */
	net_sysctl("core/somaxconn", "10");
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 4096);
	net_sysctl("core/somaxconn", "4096");
	assert_int_equal(net_backlog(l), 10);
	net_fill(SERVER4, 443, 4);
	assert_false(REFUSED(.dport = 443));
	net_fill(SERVER4, 443, 1);
	assert_true(REFUSED(.dport = 443));

	/* a second listen() changes it, at the next SYN */
	assert_int_equal(listen(l, 100), 0);
	assert_false(REFUSED(.dport = 443));
	net_close(l);
}

/* c59: nobody accepts, twenty clients come: what the gate admits never overflows the queue. */
static void test_c59_stalled_listener_never_overflows(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 8);
	uint64_t overflows = net_counter("ListenOverflows");
	int admitted = 0;

	(void)state;
	gate(90, 90);
	for (int i = 0; i < 20; i++) {
		if (REFUSED(.dport = 443))
			continue;
		admitted++;
		net_fill(SERVER4, 443, 1);
		assert_true(net_waiting(l) <= 7); /* 90 % of 8 */
	}
	assert_int_equal(admitted, 7);
	assert_int_equal(net_counter("ListenOverflows"), overflows);
	assert_int_equal(counted(SLC_accept_pressure), 13);
	expect(rig, PACKET(.tcp = ACK), XDP_PASS, SLC_established);
	net_close(l);
}

/* Between the marks: the fuller, the more are refused; the better the class, the later it begins; vip only at high. */
static void test_refusal_grows_between_the_marks(void **state)
{
	static const struct slc_rule vip = {
		.action = SLC_ACTION_class, .class = SLC_CLASS_vip, .until_ns = SLC_FOREVER};
	static const struct slc_rule low = {
		.action = SLC_ACTION_class, .class = SLC_CLASS_low, .until_ns = SLC_FOREVER};
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100), n[3][3] = {0};

	(void)state;
	rig_trust(rig, "192.0.2.0", 24, &vip);
	rig_trust(rig, "198.51.101.0", 24, &low);
	gate(0, 100); /* stranger begins at 50, low at 25 */
	for (int step = 0; step < 3; step++) {
		net_fill(SERVER4, 443, 30); /* 30, 60, 90 */
		for (int i = 0; i < 1000; i++) {
			n[step][0] += REFUSED(.from = "192.0.2.1");
			n[step][1] += REFUSED(.dport = 443);
			n[step][2] += REFUSED(.from = "198.51.101.1");
		}
	}
	assert_int_equal(n[0][0] + n[1][0] + n[2][0], 0);
	assert_int_equal(n[0][1], 0);
	assert_in_range(n[1][1], 130, 270); /* (60 - 50) / 50 */
	assert_in_range(n[2][1], 730, 870);
	assert_in_range(n[0][2], 20, 120); /* (30 - 25) / 75 */
	assert_in_range(n[1][2], 390, 540);
	assert_in_range(n[2][2], 800, 930);
	net_close(l);
}

/* The dice are the flow's: a retransmit cannot roll again. */
static void test_retransmit_gets_the_same_dice(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100), changed = 0, drops = 0;

	(void)state;
	gate(0, 100);
	net_fill(SERVER4, 443, 75);
	for (int i = 0; i < 100; i++) {
		struct packet p = ATTEMPT(.dport = 443);
		bool first = rig_run(rig, &p, NULL) == XDP_DROP;

		drops += first;
		for (int again = 0; again < 3; again++) {
			rig_age_flows(rig, 600);
			changed += (rig_run(rig, &p, NULL) == XDP_DROP) != first;
			/* the other salt becomes current: this flow keeps the one of its first pass */
			rig->control->salt_index ^= 1;
		}
	}
	assert_int_equal(changed, 0);
	assert_in_range(drops, 20, 80);
	net_close(l);
}

/* --- prediction --------------------------------------------------------------------------------------------------------- */

/* What was admitted and is still on its way counts, by the measured p, for as long as H. */
static void test_admitted_within_h_counts(void **state)
{
	static const struct {
		uint32_t p_q16, listeners;
		int admitted;
	} rows[] = {{65536, 1, 90}, {32768, 1, 179}, {65536, 2, 179}, {655360 / 100, 1, 891}};
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100);

	(void)state;
	gate(90, 90);
	decision.slice_shift = 40; /* nothing leaves the window while the rows run */
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int n = 0;

		for (int c = 0; c < SLC_CLASS_COUNT; c++)
			decision.completion_q16[c] = rows[i].p_q16;
		decision.listeners = rows[i].listeners;
		decide();
		memset(&rig->total[slot], 0, sizeof(rig->total[slot]));
		while (n < 2000 && !REFUSED(.dport = 443))
			n++;
		assert_in_range(n, rows[i].admitted - 1, rows[i].admitted + 1);
	}
	/* it runs out */
	decision = rig_decision();
	decide();
	memset(&rig->total[slot], 0, sizeof(rig->total[slot]));
	while (!REFUSED(.dport = 443))
		;
	usleep(260000);
	assert_false(REFUSED(.dport = 443));
	net_close(l);
}

/* Without the controller p is 1 and H 201 ms: the queue stays protected. */
static void test_prediction_outlives_the_lease(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 20), n = 0;

	(void)state;
	decision.valid_until_ns = 1;
	rig_decide(rig, slot, &decision);
	while (n < 100 && !REFUSED(.dport = 443))
		n++;
	assert_int_equal(n, 20);
	net_close(l);
}

/* --- head age ------------------------------------------------------------------------------------------------------------- */

/* The oldest waiting connection's age, by the ring that sockops keeps; accepting the old ones lets it fall. */
static void test_head_age(void **state)
{
	int l, fd;

	(void)state;
	if (!sockops) {
		print_message("probe: no cgroup2, or sockops cannot be attached there\n");
		skip();
	}
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100);
	web.max_wait_ns = 200 * NS_PER_MS;
	rig_replace_policy(rig, &web, SERVER4, 443);
	assert_false(REFUSED(.dport = 443));
	net_fill(SERVER4, 443, 3);
	assert_false(REFUSED(.dport = 443));
	usleep(150000);
	net_fill(SERVER4, 443, 2);
	usleep(100000);
	expect(rig, ATTEMPT(.dport = 443), XDP_DROP, SLC_queue_wait); /* the first three are 250 ms old */
	for (int i = 0; i < 3; i++) {
		fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		assert_true(fd >= 0);
		close(fd);
	}
	expect(rig, ATTEMPT(.dport = 443), XDP_PASS, SLC_admitted); /* the head is 100 ms old now */
	usleep(150000);
	expect(rig, ATTEMPT(.dport = 443), XDP_DROP, SLC_queue_wait);
	net_accept_all(l);
	expect(rig, ATTEMPT(.dport = 443), XDP_PASS, SLC_admitted);
	net_close(l);
}

/* What the last pass wrote down: the newest record there is. */
static union slc_flow_head newest_flow(void)
{
	const struct slc_flow *newest = NULL;

	for (uint32_t set = 0; set < rig->control->flow_sets; set++) {
		for (int w = 0; w < SLC_FLOW_WAYS; w++) {
			const struct slc_flow *flow = &rig->flows[set].way[w];

			if (flow->head.passes && (!newest || flow->last_ns > newest->last_ns))
				newest = flow;
		}
	}
	assert_non_null(newest);
	return newest->head;
}

/* Admitted while the head of the queue is older than `target`: under pressure. */
static void test_pressure_is_head_age_over_target(void **state)
{
	int l;

	(void)state;
	if (!sockops) {
		print_message("probe: no cgroup2, or sockops cannot be attached there\n");
		skip();
	}
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100);
	web.target_ns = 50 * NS_PER_MS;
	web.max_wait_ns = 10 * NS_PER_S;
	rig_replace_policy(rig, &web, SERVER4, 443);
	rig_generation(rig, slot, 6);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(newest_flow().pressure, 0);
	net_fill(SERVER4, 443, 1);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(newest_flow().pressure, 0);
	usleep(70000);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(newest_flow().pressure, 1);
	assert_int_equal(newest_flow().generation, 6);
	net_accept_all(l);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(newest_flow().pressure, 0);
	net_close(l);
}

/* Ages are per listener: a stalled one does not make the other look old. */
static void test_c64_head_age_is_per_listener(void **state)
{
	int stalled, fresh;

	(void)state;
	if (!sockops) {
		print_message("probe: no cgroup2, or sockops cannot be attached there\n");
		skip();
	}
	stalled = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100);
	fresh = LISTEN(.addr = OTHER4, .port = 443, .backlog = 100);
	web.max_wait_ns = 100 * NS_PER_MS;
	rig_replace_policy(rig, &web, SERVER4, 443);
	rig_replace_policy(rig, &web, OTHER4, 443);
	net_fill(SERVER4, 443, 1);
	usleep(150000);
	net_fill(OTHER4, 443, 1);
	expect(rig, ATTEMPT(.dport = 443), XDP_DROP, SLC_queue_wait);
	expect(rig, ATTEMPT(.to = OTHER4), XDP_PASS, SLC_admitted);
	net_close(stalled);
	net_close(fresh);
}

/*
 * What a newcomer will wait, from the rate of accepts: 10 accepted in 90 ms, so that 110 ms are worth 12 places. The ring
 * is written by hand; a service that ran dry since the mark has no rate and no limit.
 */
static void test_wait_of_a_newcomer(void **state)
{
	struct slc_arrivals ring = {.n = 1000};
	uint64_t now = rig_now(), cookie = 0;
	socklen_t length = sizeof(cookie);
	uint32_t ticks;
	int l, map = bpf_map__fd(rig->skel->maps.slc_arrivals);

	(void)state;
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 100);
	assert_int_equal(getsockopt(l, SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
	web.max_wait_ns = 110 * NS_PER_MS;
	rig_replace_policy(rig, &web, SERVER4, 443);
	net_fill(SERVER4, 443, 20);
	for (int dry = 0; dry < 2; dry++) {
		now = rig_now();
		ticks = now >> 20;
		for (int i = 0; i < SLC_RING; i++)
			ring.stamp_ns[i] = now - (dry ? 50 : 100) * NS_PER_MS;
		ring.mark[0] = (uint64_t)(ticks - (90 * NS_PER_MS >> 20)) << 32 | (1000 - 20 - 10);
		ring.mark[1] = (uint64_t)ticks << 32 | (1000 - 20);
		assert_int_equal(bpf_map_update_elem(map, &cookie, &ring, BPF_ANY), 0);
		if (dry)
			expect(rig, ATTEMPT(.dport = 443), XDP_PASS, SLC_admitted);
		else
			expect(rig, ATTEMPT(.dport = 443), XDP_DROP, SLC_queue_wait);
	}
	net_close(l);
	bpf_map_delete_elem(map, &cookie);
}

/* --- half-done handshakes --------------------------------------------------------------------------------------------------- */

/* Lets the SYN through as a real frame, so that the kernel holds a request for it. */
static void half_open(struct packet *syn)
{
	memset(syn->data, 0, 12); /* the loopback's own address: else the stack takes it for somebody else's */
	assert_int_equal(rig_live(rig, syn, 1), 0);
	for (int i = 0; i < 50; i++)
		usleep(1000);
}

/* c61: a handshake under way is never refused, however full the queue has become; nor is anything of it counted anew. */
static void test_c61_half_open_passes_under_pressure(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 3);
	struct packet syn = PACKET(.from = AWAY4, .sport = 7777, .seq = 42);
	struct packet other = PACKET(.from = AWAY4, .sport = 7778, .seq = 43);
	uint64_t attempts;

	(void)state;
	half_open(&syn);
	assert_int_equal(counted(SLC_admitted), 1);
	net_fill(SERVER4, 443, 3);
	attempts = rig_counters(rig, slot).attempts;
	rig_age_flows(rig, 1100);
	rig_expect(rig, &syn, XDP_PASS, SLC_half_open, "c61 retransmitted SYN", __FILE__, __LINE__);
	assert_int_equal(rig_counters(rig, slot).attempts, attempts);
	rig_expect(rig, &other, XDP_DROP, SLC_accept_pressure, "c61 another", __FILE__, __LINE__);
	expect(rig, PACKET(.from = AWAY4, .sport = 7777, .seq = 43, .tcp = ACK), XDP_PASS, SLC_established);
	expect(rig, PACKET(.from = AWAY4, .sport = 7777, .seq = 43, .tcp = ACK | PSH, .payload = 100), XDP_PASS,
	       SLC_established);
	/* its record lost: the kernel still knows the handshake */
	memset(rig->flows, 0, rig->control->flow_sets * sizeof(*rig->flows));
	rig_expect(rig, &syn, XDP_PASS, SLC_half_open, "c61 without a record", __FILE__, __LINE__);
	net_close(l);
}

/* --- which listener ----------------------------------------------------------------------------------------------------------- */

/* c69: the lookup falls back like the kernel's, and a full listener sheds its own traffic only. */
static void test_c69_dual_stack(void **state)
{
	int a, b;

	(void)state;
	/* a: one dual-stack wildcard for both families */
	a = LISTEN(.addr = "::", .port = 443, .backlog = 2);
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.dport = 443));
	assert_true(REFUSED(.link = LINK_IP6));
	net_close(a);
	net_drop_all();
	/* b: V6ONLY beside an IPv4 wildcard */
	a = LISTEN(.addr = "::", .port = 443, .backlog = 2, .v6only = true);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(blind(), 1); /* no IPv4 listener at all */
	b = LISTEN(.addr = "0.0.0.0", .port = 443, .backlog = 2);
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.dport = 443));
	assert_false(REFUSED(.link = LINK_IP6));
	net_accept_all(b);
	net_fill(SERVER6, 443, 2);
	assert_false(REFUSED(.dport = 443));
	assert_true(REFUSED(.link = LINK_IP6));
	net_close(a);
	net_close(b);
	net_drop_all();
	/* c: a specific address before the wildcard; SO_REUSEPORT is what lets both bind */
	a = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2, .reuseport = true);
	b = LISTEN(.addr = "::", .port = 443, .backlog = 2, .reuseport = true);
	net_fill(SERVER4, 443, 2);
	assert_int_equal(net_waiting(b), 0);
	assert_true(REFUSED(.dport = 443));
	assert_false(REFUSED(.to = OTHER4));
	net_fill(OTHER4, 443, 2);
	assert_true(REFUSED(.to = OTHER4));
	net_accept_all(a);
	assert_false(REFUSED(.dport = 443));
	net_close(a);
	net_close(b);
	net_drop_all();
	/* d: an IPv4-mapped bind */
	a = LISTEN(.addr = "::ffff:" SERVER4, .port = 443, .backlog = 2);
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.dport = 443));
	net_close(a);
	assert_int_equal(blind(), 1);
}

/* c64: each SYN is judged by the member of the group that it will be hashed to: the kernel's own choice is the judge. */
static void test_c64_reuseport(void **state)
{
	int l[4], full = 0, shed = 0, wrong = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		l[i] = LISTEN(.addr = SERVER4, .port = 443, .backlog = 16, .reuseport = true);
	while (net_waiting(l[full]) < 17) { /* the kernel's own limit */
		int fd = net_connect(CLIENT4, 0, SERVER4, 443, 1000);

		assert_true(fd >= 0);
		close(fd);
		for (int i = 0; i < 4; i++) {
			if (i != full && net_waiting(l[i]) > 4)
				net_accept_all(l[i]);
		}
	}
	for (int i = 0; i < 4; i++) {
		if (i != full)
			net_accept_all(l[i]);
	}
	for (int i = 0; i < 120; i++) {
		uint16_t sport = 33000 + i;
		bool drop = REFUSED(.from = CLIENT4, .sport = sport);
		int fd = net_connect(CLIENT4, sport, SERVER4, 443, 30);

		wrong += drop != (fd == -ETIMEDOUT);
		shed += drop;
		if (fd >= 0)
			close(fd);
		for (int k = 0; k < 4; k++) {
			if (k != full)
				net_accept_all(l[k]);
		}
	}
	assert_int_equal(wrong, 0);
	assert_in_range(shed, 12, 50); /* a quarter of 120 */
	for (int i = 0; i < 4; i++)
		net_close(l[i]);
}

/* c65: a member that goes takes its queue with it; the others are judged by their own. */
static void test_c65_member_leaves(void **state)
{
	int a = LISTEN(.addr = SERVER4, .port = 443, .backlog = 3, .reuseport = true), b;

	(void)state;
	net_fill(SERVER4, 443, 3);
	b = LISTEN(.addr = SERVER4, .port = 443, .backlog = 3, .reuseport = true);
	net_close(a);
	net_drop_all();
	for (int i = 0; i < 50; i++)
		assert_false(REFUSED(.dport = 443));
	net_close(b);
}

/* c70: connections that open and close take nothing of the listener's with them. */
static void test_c70_listener_outlives_its_connections(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2);
	uint64_t found;

	(void)state;
	for (int i = 0; i < 100; i++) {
		net_fill(SERVER4, 443, 1);
		net_accept_all(l);
		net_drop_all();
		assert_false(REFUSED(.dport = 443));
	}
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.dport = 443));
	assert_int_equal(blind(), 0);
	net_close(l);
	found = blind();
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(blind(), found + 1);
}

/* c71: closed and opened again on the same port: the new one starts with its own queue. */
static void test_c71_listener_made_again(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 1);

		assert_false(REFUSED(.dport = 443));
		net_fill(SERVER4, 443, 1);
		assert_true(REFUSED(.dport = 443));
		net_close(l);
		net_drop_all();
	}
	assert_int_equal(blind(), 0);
}

/* c72: ports that are each other's bytes swapped are two listeners. */
static void test_c72_swapped_ports(void **state)
{
	struct slc_policy p = rig_policy("swapped");
	int a = LISTEN(.addr = SERVER4, .port = 0x01bb, .backlog = 2);
	int b = LISTEN(.addr = SERVER4, .port = 0xbb01, .backlog = 2);

	(void)state;
	rig_policy_gate(&p, 100, 100);
	rig_service(rig, &p, SERVER4, 0xbb01);
	net_fill(SERVER4, 0x01bb, 2);
	assert_true(REFUSED(.dport = 0x01bb));
	assert_false(REFUSED(.dport = 0xbb01));
	net_accept_all(a);
	net_fill(SERVER4, 0xbb01, 2);
	assert_false(REFUSED(.dport = 0x01bb));
	assert_true(REFUSED(.dport = 0xbb01));
	net_close(a);
	net_close(b);
}

/* A client that uses its port again while the server still holds TIME_WAIT: the listener behind it is what counts. */
static void test_time_wait_is_looked_through(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2), client, server;
	char byte;

	(void)state;
	client = net_connect(CLIENT4, 45000, SERVER4, 443, 1000);
	assert_true(client >= 0);
	server = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(server >= 0);
	close(server); /* the server closes first: TIME_WAIT is on its side */
	assert_int_equal(read(client, &byte, 1), -1 * (errno == EAGAIN));
	usleep(20000);
	shutdown(client, SHUT_WR);
	usleep(20000);
	assert_false(REFUSED(.from = CLIENT4, .sport = 45000));
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.from = CLIENT4, .sport = 45000));
	assert_int_equal(blind(), 0);
	close(client);
	net_close(l);
}

/* Nobody listens where somebody did: an outcome, once per source and second; not where there is a socket of any kind. */
static void test_nobody_listens_any_more(void **state)
{
	const __u64 *filed = &rig->signals[slot].outcomes[SLC_ROW_even][SLC_OUT_no_listener];
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10), fd, served;

	(void)state;
	decision.flags = SLC_D_LISTENED;
	decide();
	assert_false(REFUSED(.dport = 443));
	fd = net_connect(CLIENT4, 45001, SERVER4, 443, 1000);
	assert_true(fd >= 0);
	served = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(served >= 0);
	net_close(l);
	expect(rig, ATTEMPT(.from = CLIENT4, .sport = 45001), XDP_PASS, SLC_admitted); /* a SYN inside a connection */
	assert_int_equal(*filed, 0);
	close(fd);
	close(served);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(*filed, 1);
	assert_false(REFUSED(.dport = 443, .link = LINK_IP6, .to = SERVER6));
	assert_int_equal(*filed, 2);
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	usleep(1000000);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(*filed, 2);
	net_close(l);
}

/* No listener, or a connection that exists: the gate says that it cannot see and lets the kernel answer. */
static void test_blind_spots_are_counted(void **state)
{
	int l, fd;

	(void)state;
	expect(rig, ATTEMPT(.dport = 443), XDP_PASS, SLC_admitted);
	assert_int_equal(blind(), 1);
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 1);
	fd = net_connect(CLIENT4, 45001, SERVER4, 443, 1000);
	assert_true(fd >= 0);
	expect(rig, ATTEMPT(.from = CLIENT4, .sport = 45001), XDP_PASS, SLC_admitted); /* a SYN inside a connection */
	assert_int_equal(blind(), 2);
	close(fd);
	net_close(l);
}

/* --- fast open, MPTCP ------------------------------------------------------------------------------------------------------------ */

/* c73: a SYN with data is one attempt; the fast-open queue is not the accept queue. */
static void test_c73_fast_open(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2, .fastopen = 1);

	(void)state;
	expect(rig, ATTEMPT(.payload = 200, .tcp_options = 12, .option_kind = 34, .option_length = 10), XDP_PASS,
	       SLC_admitted);
	expect(rig, ATTEMPT(.tcp_options = 4, .option_kind = 34, .option_length = 2), XDP_PASS, SLC_admitted);
	assert_int_equal(rig_counters(rig, slot).attempts, 2);
	net_fill(SERVER4, 443, 2);
	expect(rig, ATTEMPT(.payload = 200, .tcp_options = 12, .option_kind = 34, .option_length = 10), XDP_DROP,
	       SLC_accept_pressure);
	net_close(l);
}

#define JOIN .tcp_options = 12, .option_kind = 30, .option_length = 12, .option_value = 0x10

/* c74: to a plain listener MP_JOIN is an option like any other: nobody switches the gate off by writing it. */
static void test_c74_mp_join_to_a_plain_listener(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2);

	(void)state;
	net_fill(SERVER4, 443, 2);
	expect(rig, ATTEMPT(.tcp_options = 12, .option_kind = 30, .option_length = 4), XDP_DROP, SLC_accept_pressure);
	expect(rig, ATTEMPT(JOIN), XDP_DROP, SLC_accept_pressure);
	net_close(l);
}

/* c74: a subflow joins a connection that was admitted before: it takes no place in the queue. It pays its source. */
static void test_c74_mp_join_to_an_mptcp_listener(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2, .proto = IPPROTO_MPTCP);

	(void)state;
	if (l < 0) {
		print_message("probe: this kernel has no MPTCP: %s\n", strerror(-l));
		skip();
	}
	net_fill(SERVER4, 443, 2);
	expect(rig, ATTEMPT(.tcp_options = 12, .option_kind = 30, .option_length = 4), XDP_DROP, SLC_accept_pressure);
	expect(rig, ATTEMPT(JOIN), XDP_PASS, SLC_admitted);
	/* not where the same bytes are data, or another option's value */
	expect(rig, ATTEMPT(.payload = 60, .decoy = 0x1e0c1000), XDP_DROP, SLC_accept_pressure);
	rig_policy_source(&web, 1000 * NS_PER_S, 1);
	gate(100, 100);
	expect(rig, ATTEMPT(.from = "192.0.2.1", JOIN), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.from = "192.0.2.1", JOIN), XDP_DROP, SLC_rate_limited);
	net_accept_all(l);
	net_close(l);
}

static void test_c74_mptcp_listener(void **state)
{
	int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 2, .proto = IPPROTO_MPTCP);

	(void)state;
	if (l < 0) {
		print_message("probe: this kernel has no MPTCP: %s\n", strerror(-l));
		skip();
	}
	assert_false(REFUSED(.dport = 443));
	net_fill(SERVER4, 443, 2);
	assert_true(REFUSED(.dport = 443));
	net_accept_all(l);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(blind(), 0);
	net_close(l);
}

/* --- another namespace -------------------------------------------------------------------------------------------------------------- */

static void sh(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command))
		fail_msg("`%s` failed", command);
}

/* "*" stands for the gateway's own addresses: what it only forwards is not its service's. */
static void test_wildcard_leaves_forwarded_packets_alone(void **state)
{
	struct slc_policy any = rig_policy("any");

	(void)state;
	rig_policy_source(&any, 1000 * NS_PER_S, 1);
	rig_service(rig, &any, "0.0.0.0", 8443);
	rig_address(rig, &any, "::", 8443);
	net_sysctl("ipv4/conf/all/forwarding", "1");
	net_sysctl("ipv6/conf/all/forwarding", "1");
	sh("ip route add 203.0.113.128/25 dev lo");
	sh("ip -6 route add 2001:db8:ffff::/64 dev lo");
	for (int i = 0; i < 3; i++) {
		expect(rig, ATTEMPT(.to = "203.0.113.200", .dport = 8443), XDP_PASS, SLC_not_service);
		expect(rig, ATTEMPT(.link = LINK_IP6, .from = CLIENT6, .to = "2001:db8:ffff::1", .dport = 8443),
		       XDP_PASS, SLC_not_service);
	}
	expect(rig, ATTEMPT(.dport = 8443), XDP_PASS, SLC_admitted);
	expect(rig, ATTEMPT(.dport = 8443), XDP_DROP, SLC_rate_limited);
	/* an address of a local route is ours too */
	sh("ip route add local 198.51.100.128/25 dev lo");
	expect(rig, ATTEMPT(.from = "192.0.2.9", .to = "198.51.100.200", .dport = 8443), XDP_PASS, SLC_admitted);
	net_sysctl("ipv4/conf/all/forwarding", "0");
	net_sysctl("ipv6/conf/all/forwarding", "0");
}

/* c62: a listener in a namespace of its own, with its own somaxconn, is judged by its own queue. */
static void test_c62_listener_in_another_namespace(void **state)
{
	char name[64];
	int to_child[2], to_parent[2];
	char byte = 0;
	pid_t child;

	(void)state;
	assert_int_equal(pipe2(to_child, O_CLOEXEC) | pipe2(to_parent, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		rig_private_network();
		net_sysctl("core/somaxconn", "4");
		LISTEN(.addr = SERVER4, .port = 443, .backlog = 4096);
		if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
			_exit(1);
		net_fill(SERVER4, 443, 4);
		if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	snprintf(name, sizeof(name), "bpftest-%d", getpid());
	assert_int_equal(read(to_parent[0], &byte, 1), 1);
	sh("ip netns attach %s %d", name, child);
	sh("ip netns set %s 62", name);
	sh("ip netns delete %s", name); /* the id stays as long as the namespace does */
	web.flags |= SLC_P_NETNS;
	web.nsid = 62;
	gate(100, 100);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(write(to_child[1], &byte, 1), 1);
	assert_int_equal(read(to_parent[0], &byte, 1), 1);
	assert_true(REFUSED(.dport = 443));
	assert_int_equal(blind(), 0);
	web.flags &= ~SLC_P_NETNS; /* our own namespace has no listener */
	gate(100, 100);
	assert_false(REFUSED(.dport = 443));
	assert_int_equal(blind(), 1);
	assert_int_equal(write(to_child[1], &byte, 1), 1);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

/* --- all ------------------------------------------------------------------------------------------------------------------------------ */

static int once(void **state)
{
	(void)state;
	rig_private_network();
	if (system("ip addr add " OTHER4 "/32 dev lo && ip route add 198.51.100.64/26 dev lo"))
		return 1;
	net_sysctl("ipv4/conf/all/rp_filter", "0");
	net_sysctl("ipv4/conf/lo/rp_filter", "0");
	net_sysctl("ipv4/tcp_syncookies", "0");
	cgroup = net_cgroup_enter();
	if (cgroup >= 0) {
		/* the rig that all tests share is loaded by the first one that opens it */
		rig = rig_open(NULL);
		sockops = bpf_program__attach_cgroup(rig->skel->progs.slc_sockops, cgroup);
		rig_close(rig);
	}
	return 0;
}

static int at_last(void **state)
{
	(void)state;
	bpf_link__destroy(sockops);
	if (cgroup >= 0)
		net_cgroup_leave(cgroup);
	return 0;
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_c57_backlogs),
		ROW(test_c56_capacity_is_the_sockets),
		ROW(test_c59_stalled_listener_never_overflows),
		ROW(test_refusal_grows_between_the_marks),
		ROW(test_retransmit_gets_the_same_dice),
		ROW(test_admitted_within_h_counts),
		ROW(test_prediction_outlives_the_lease),
		ROW(test_head_age),
		ROW(test_pressure_is_head_age_over_target),
		ROW(test_c64_head_age_is_per_listener),
		ROW(test_wait_of_a_newcomer),
		ROW(test_c61_half_open_passes_under_pressure),
		ROW(test_c69_dual_stack),
		ROW(test_c64_reuseport),
		ROW(test_c65_member_leaves),
		ROW(test_c70_listener_outlives_its_connections),
		ROW(test_c71_listener_made_again),
		ROW(test_c72_swapped_ports),
		ROW(test_time_wait_is_looked_through),
		ROW(test_blind_spots_are_counted),
		ROW(test_nobody_listens_any_more),
		ROW(test_c73_fast_open),
		ROW(test_c74_mp_join_to_a_plain_listener),
		ROW(test_c74_mp_join_to_an_mptcp_listener),
		ROW(test_wildcard_leaves_forwarded_packets_alone),
		ROW(test_c74_mptcp_listener),
		ROW(test_c62_listener_in_another_namespace),
	};

	return cmocka_run_group_tests(tests, once, at_last);
}
