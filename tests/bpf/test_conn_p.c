// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections from SYN to CLOSE: the packet path on the loopback of the test's namespace (generic XDP), sockops and egress
 * on a cgroup of its own, real clients and servers. What sockops counts is what the packet path then refuses by.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_link.h>
#include <net/if.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/net.h"
#include "tests/bpf/rig.h"

#include "sluice.skel.h"

static struct rig *rig;
static struct slc_policy web;
static uint16_t slot;
static int cgroup = -1, loopback;
static struct bpf_link *sockops, *egress;

static int setup(void **state)
{
	struct slc_decision_half d;

	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	slot = rig_service(rig, &web, SERVER4, 443);
	rig_address(rig, &web, SERVER6, 443);
	d = rig_decision();
	memset(d.completion_q16, 0, sizeof(d.completion_q16));
	rig_decide(rig, slot, &d);
	if (cgroup < 0)
		return 0;
	if (!sockops) {
		sockops = bpf_program__attach_cgroup(rig->skel->progs.slc_sockops, cgroup);
		egress = bpf_program__attach_cgroup(rig->skel->progs.slc_egress, cgroup);
		if (!sockops || !egress || bpf_xdp_attach(loopback, rig->program, XDP_FLAGS_SKB_MODE, NULL))
			fail_msg("attach: %s", strerror(errno));
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	net_close_all();
	usleep(20000); /* what the sockets still send */
	rig_close(rig);
	return 0;
}

#define NEED_CGROUP()                                                                \
	do {                                                                         \
		if (cgroup < 0) {                                                    \
			print_message("probe: no cgroup2: %s\n", strerror(-cgroup)); \
			skip();                                                      \
		}                                                                    \
	} while (0)

static const struct slc_signals *signals(void)
{
	return &rig->signals[slot];
}

static uint64_t established(void)
{
	uint64_t sum = 0;

	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		sum += signals()->established[c];
	return sum;
}

static uint64_t counted(enum slc_reason reason)
{
	struct slc_counters c = rig_counters(rig, slot);

	return rig_reason(&c.enforced, reason);
}

/* Connections are counted by callbacks that run a moment after the call that caused them. */
static bool soon(const volatile __u64 *count, uint64_t value)
{
	for (int i = 0; i < 100; i++) {
		if (*count == value)
			return true;
		usleep(2000);
	}
	return false;
}
#define SOON(count, value) assert_true(soon(&signals()->count, value))

static struct slc_cold *cold_of(const char *addr)
{
	uint8_t key[16];

	packet_address(addr, key);
	for (uint32_t set = 0; set < rig->control->cold_sets; set++) {
		for (int w = 0; w < SLC_COLD_WAYS; w++) {
			struct slc_cold *cold = &rig->cold[set].way[w];

			if (cold->uid == web.uid && !memcmp(cold->addr, key, 16))
				return cold;
		}
	}
	fail_msg("%s has no cold entry", addr);
	return NULL;
}

static int connected(const char *from, uint16_t sport)
{
	int fd = net_connect(from, sport, strchr(from, ':') ? SERVER6 : SERVER4, 443, 1000);

	if (fd < 0)
		fail_msg("%s could not connect: %s", from, strerror(-fd));
	return fd;
}

static int accepted(int listener)
{
	int fd = -1;

	for (int i = 0; i < 100 && fd < 0; i++) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			usleep(2000);
	}
	assert_true(fd >= 0);
	return fd;
}

static void end_politely(int client, int server)
{
	static const struct linger politely = {.l_onoff = 0};

	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_LINGER, &politely, sizeof(politely)), 0);
	close(client);
	usleep(2000);
	close(server);
}

/* --- life -------------------------------------------------------------------------------------------------------------- */

/* The SYN's record is found at establishment: class, handshake time, nothing unmatched. */
static void test_open_and_close(void **state)
{
	int l, client, server;
	uint64_t bins = 0;

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	client = connected(CLIENT4, 0);
	server = accepted(l);
	SOON(open, 1);
	assert_int_equal(signals()->held, 1);
	assert_int_equal(established(), 1);
	assert_int_equal(signals()->unmatched, 0);
	assert_int_equal(counted(SLC_admitted), 1);
	for (int b = 0; b < SLC_HIST; b++)
		bins += signals()->handshake[SLC_CLASS_stranger][b];
	assert_int_equal(bins, 1);
	assert_int_equal(cold_of(CLIENT4)->head.open, 1);
	end_politely(client, server);
	SOON(open, 0);
	assert_int_equal(signals()->held, 0);
	assert_int_equal(signals()->closed, 1);
	assert_int_equal(signals()->reset, 0);
	assert_int_equal(cold_of(CLIENT4)->head.open, 0);
	assert_int_equal(cold_of(CLIENT4)->good, 1);
	assert_true(cold_of(CLIENT4)->good_since_ns > 0);
}

static void test_reset_is_no_good_turn(void **state)
{
	int l, client, server;

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	client = connected(CLIENT4, 0);
	server = accepted(l);
	SOON(open, 1);
	close(client); /* with linger 0: RST */
	SOON(open, 0);
	assert_int_equal(signals()->held, 0);
	assert_int_equal(signals()->reset, 1);
	assert_int_equal(cold_of(CLIENT4)->good, 0);
	assert_int_equal(cold_of(CLIENT4)->head.open, 0);
	close(server);
	usleep(10000);
	assert_int_equal(signals()->open, 0);
	assert_int_equal(signals()->closed, 1);
}

/* The class of the SYN is the class of the connection. */
static void test_known_source_establishes_as_known(void **state)
{
	int l, client;

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	rig_known(rig, web.uid, CLIENT4, SLC_FOREVER);
	client = connected(CLIENT4, 0);
	SOON(established[SLC_CLASS_known], 1);
	assert_int_equal(rig_counters(rig, slot).admitted[SLC_CLASS_known], 1);
	close(client);
	net_accept_all(l);
}

static void test_c69_ipv6_and_mapped_peers(void **state)
{
	int l, six, four;

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = "::", .port = 443, .backlog = 10);
	six = connected(CLIENT6, 0);
	four = connected(CLIENT4, 0); /* an IPv4 client on an IPv6 socket */
	SOON(open, 2);
	assert_int_equal(signals()->unmatched, 0);
	assert_int_equal(cold_of(CLIENT4)->head.open, 1);
	assert_int_equal(cold_of("2001:db8:1::")->head.open, 1); /* the /64 */
	close(six);
	close(four);
	SOON(open, 0);
	net_accept_all(l);
}

/* --- limits by open connections ------------------------------------------------------------------------------------------ */

static void test_source_concurrency_counts_real_connections(void **state)
{
	int l, client[3], server[3];

	(void)state;
	NEED_CGROUP();
	web.flags |= SLC_P_CONCURRENT;
	web.source_concurrent = 3;
	rig_replace_policy(rig, &web, SERVER4, 443);
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	for (int i = 0; i < 3; i++) {
		client[i] = connected(CLIENT4, 0);
		server[i] = accepted(l);
	}
	SOON(open, 3);
	assert_int_equal(net_connect(CLIENT4, 0, SERVER4, 443, 200), -ETIMEDOUT);
	assert_int_equal(counted(SLC_source_concurrency), 1);
	end_politely(client[0], server[0]);
	SOON(open, 2);
	client[0] = connected(CLIENT4, 0);
	server[0] = accepted(l);
	for (int i = 0; i < 3; i++)
		end_politely(client[i], server[i]);
	SOON(open, 0);
}

/* The bulkhead falls when the application closes, the source's count when the connection is gone. */
static void test_bulkhead_falls_at_close_of_the_application(void **state)
{
	int l, client[2], server[2];

	(void)state;
	NEED_CGROUP();
	web.flags |= SLC_P_BULKHEAD;
	web.total_concurrent = 2;
	rig_replace_policy(rig, &web, SERVER4, 443);
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	for (int i = 0; i < 2; i++) {
		client[i] = connected(CLIENT4, 0);
		server[i] = accepted(l);
	}
	SOON(held, 2);
	assert_int_equal(net_connect(CLIENT4, 0, SERVER4, 443, 200), -ETIMEDOUT);
	assert_int_equal(counted(SLC_bulkhead_full), 1);
	close(server[0]); /* the client keeps its side: half-closed */
	SOON(held, 1);
	assert_int_equal(signals()->open, 2);
	assert_int_equal(cold_of(CLIENT4)->head.open, 2);
	close(connected(CLIENT4, 0));
	close(client[0]);
	close(client[1]);
	close(server[1]);
	net_accept_all(l);
}

/* A limit of N means N also at once: a connection counts as under way or as held, never as both. */
static void test_bulkhead_takes_a_burst_of_its_size(void **state)
{
	int l, client[8];

	(void)state;
	NEED_CGROUP();
	web.flags |= SLC_P_BULKHEAD;
	web.total_concurrent = 8;
	rig_replace_policy(rig, &web, SERVER4, 443);
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 20);
	for (int i = 0; i < 8; i++)
		client[i] = connected(CLIENT4, 0);
	SOON(held, 8);
	assert_int_equal(counted(SLC_bulkhead_full), 0);
	assert_int_equal(net_connect(CLIENT4, 0, SERVER4, 443, 200), -ETIMEDOUT);
	assert_int_equal(counted(SLC_bulkhead_full), 1);
	for (int i = 0; i < 8; i++)
		close(client[i]);
	net_accept_all(l);
}

/* A connection from before the start takes nothing back when it ends. */
static void test_connection_from_before_the_start(void **state)
{
	int l, client, server;

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	rig->ports[443 >> 6].tcp = 0; /* not a service yet: no callback knows it */
	client = connected(CLIENT4, 0);
	server = accepted(l);
	rig->ports[443 >> 6].tcp = 1ULL << (443 & 63);
	end_politely(client, server);
	usleep(20000);
	assert_int_equal(signals()->open, 0);
	assert_int_equal(signals()->held, 0);
	assert_int_equal(signals()->closed, 0);
}

/* c70: the ring is the listener's; a hundred connections later it is there, and it goes with the listener. */
static void test_c70_arrival_ring_lives_with_its_listener(void **state)
{
	struct slc_arrivals ring;
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);
	int l, map = bpf_map__fd(rig->skel->maps.slc_arrivals);

	(void)state;
	NEED_CGROUP();
	l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	assert_int_equal(getsockopt(l, SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
	for (int i = 0; i < 100; i++) {
		int client = connected(CLIENT4, 0);

		end_politely(client, accepted(l));
	}
	assert_int_equal(bpf_map_lookup_elem(map, &cookie, &ring), 0);
	assert_int_equal(ring.n, 100);
	assert_int_equal(ring.uid, web.uid);
	net_close(l);
	assert_int_equal(bpf_map_lookup_elem(map, &cookie, &ring), -ENOENT);
}

/* c71: a ring is never inherited by the next listener on the port. */
static void test_c71_new_listener_new_ring(void **state)
{
	struct slc_arrivals ring;
	int map = bpf_map__fd(rig->skel->maps.slc_arrivals);

	(void)state;
	NEED_CGROUP();
	for (int i = 0; i < 50; i++) {
		int l = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
		uint64_t cookie = 0;
		socklen_t length = sizeof(cookie);

		assert_int_equal(getsockopt(l, SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
		assert_int_equal(bpf_map_lookup_elem(map, &cookie, &ring), 0);
		assert_int_equal(ring.n, 0);
		close(connected(CLIENT4, 0));
		net_close(l);
	}
}

/* --- UDP --------------------------------------------------------------------------------------------------------------------- */

/* A datagram of a flow that the service answered is free; before the answer, and for others, it pays. */
static void test_udp_answered_flow_is_free(void **state)
{
	struct slc_policy dns = rig_policy("dns");
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(53)}, peer = {.sin_family = AF_INET};
	int server;

	(void)state;
	NEED_CGROUP();
	dns.proto = IPPROTO_UDP;
	rig_policy_source(&dns, 1000 * NS_PER_S, 2);
	rig_service(rig, &dns, SERVER4, 53);
	server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, SERVER4, &at.sin_addr);
	assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5000), XDP_PASS,
	       SLC_admitted);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5000), XDP_PASS,
	       SLC_admitted);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5000), XDP_DROP,
	       SLC_rate_limited);
	inet_pton(AF_INET, "198.51.100.99", &peer.sin_addr);
	peer.sin_port = htons(5000);
	assert_int_equal(sendto(server, "answer", 6, 0, (struct sockaddr *)&peer, sizeof(peer)), 6);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5000), XDP_PASS,
	       SLC_answered);
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5001), XDP_DROP,
	       SLC_rate_limited);
	rig_age_flows(rig, 31000); /* not for ever */
	expect(rig, PACKET(.proto = IPPROTO_UDP, .dport = 53, .from = "198.51.100.99", .sport = 5000), XDP_DROP,
	       SLC_rate_limited);
	close(server);
}

/* --- all --------------------------------------------------------------------------------------------------------------------- */

static int once(void **state)
{
	(void)state;
	rig_private_network();
	if (system("ip route add 198.51.100.64/26 dev lo"))
		return 1;
	loopback = if_nametoindex("lo");
	cgroup = net_cgroup_enter();
	return 0;
}

static int at_last(void **state)
{
	(void)state;
	bpf_link__destroy(sockops);
	bpf_link__destroy(egress);
	if (cgroup >= 0)
		net_cgroup_leave(cgroup);
	return 0;
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_open_and_close),
		ROW(test_reset_is_no_good_turn),
		ROW(test_known_source_establishes_as_known),
		ROW(test_c69_ipv6_and_mapped_peers),
		ROW(test_source_concurrency_counts_real_connections),
		ROW(test_bulkhead_falls_at_close_of_the_application),
		ROW(test_bulkhead_takes_a_burst_of_its_size),
		ROW(test_connection_from_before_the_start),
		ROW(test_c70_arrival_ring_lives_with_its_listener),
		ROW(test_c71_new_listener_new_ring),
		ROW(test_udp_answered_flow_is_free),
	};

	return cmocka_run_group_tests(tests, once, at_last);
}
