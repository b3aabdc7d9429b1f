// SPDX-License-Identifier: GPL-2.0-only
/* test_sockets: what sock_diag says and which listener a service's connections reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/control/listen_match.h"
#include "user/control/own_addresses.h"
#include "user/control/sockdiag.h"
#include "user/control/unread.h"

#define SEQ 7
#define LISTEN (1u << TCP_LISTEN)

/* --- messages as the kernel writes them -------------------------------------------------------------------------- */

struct dump {
	char buf[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t len;
};

static struct nlmsghdr *add_message(struct dump *dump, uint16_t type, uint16_t flags, uint32_t seq, size_t payload)
{
	struct nlmsghdr *nlh = (struct nlmsghdr *)(dump->buf + dump->len);

	*nlh = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(payload), .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq};
	dump->len += NLMSG_ALIGN(nlh->nlmsg_len);
	return nlh;
}

static struct inet_diag_msg *add_socket(struct dump *dump, uint8_t family, uint8_t state, uint32_t rqueue,
					uint32_t wqueue, uint16_t flags)
{
	struct nlmsghdr *nlh =
		add_message(dump, SOCK_DIAG_BY_FAMILY, flags, SEQ, sizeof(struct inet_diag_msg) + RTA_SPACE(1));
	struct inet_diag_msg *msg = NLMSG_DATA(nlh);
	struct rtattr *rta = (struct rtattr *)(msg + 1);

	*msg = (struct inet_diag_msg){.idiag_family = family,
				      .idiag_state = state,
				      .idiag_rqueue = rqueue,
				      .idiag_wqueue = wqueue,
				      .idiag_inode = 99,
				      .id = {.idiag_sport = htons(443), .idiag_cookie = {5, 1}}};
	rta->rta_type = INET_DIAG_SKV6ONLY;
	rta->rta_len = RTA_LENGTH(1);
	*(uint8_t *)RTA_DATA(rta) = family == AF_INET6;
	return msg;
}

static void parse(const struct dump *dump, struct diag_list *list, struct diag_answer *answer)
{
	*answer = (struct diag_answer){0};
	assert_int_equal(sockdiag_parse(dump->buf, dump->len, SEQ, LISTEN, list, answer), 0);
}

/* c58: of connections the same fields are bytes. */
static void c58_only_listeners_are_read(void **state)
{
	struct dump dump = {0};
	struct diag_list list = {0};
	struct diag_answer answer;

	(void)state;
	add_socket(&dump, AF_INET, TCP_ESTABLISHED, 1000000, 2000000, 0);
	add_socket(&dump, AF_INET, TCP_LISTEN, 3, 511, 0);
	add_socket(&dump, AF_INET6, TCP_SYN_RECV, 77, 88, 0);
	add_socket(&dump, AF_INET6, TCP_LISTEN, 4, 128, 0);
	add_message(&dump, NLMSG_DONE, 0, SEQ, sizeof(int));
	parse(&dump, &list, &answer);
	assert_true(answer.done);
	assert_false(answer.interrupted);
	assert_int_equal(list.count, 2);
	assert_int_equal(list.sockets[0].rqueue, 3);
	assert_int_equal(list.sockets[0].wqueue, 511);
	assert_int_equal(list.sockets[0].port, 443);
	assert_int_equal(list.sockets[0].cookie, 5 | 1ULL << 32);
	assert_int_equal(list.sockets[0].inode, 99);
	assert_int_equal(list.sockets[0].addr[10], 0xff);
	assert_false(list.sockets[0].v6only);
	assert_true(list.sockets[1].v6only);
	assert_int_equal(list.sockets[1].addr[10], 0);
	diag_list_free(&list);
}

/* c58: a dump that the kernel calls interrupted is not used, wherever the flag stands. */
static void c58_interrupted_dump_is_seen(void **state)
{
	(void)state;
	for (int at = 0; at < 2; at++) {
		struct dump dump = {0};
		struct diag_list list = {0};
		struct diag_answer answer;

		add_socket(&dump, AF_INET, TCP_LISTEN, 3, 511, at == 0 ? NLM_F_DUMP_INTR : 0);
		add_message(&dump, NLMSG_DONE, at == 1 ? NLM_F_DUMP_INTR : 0, SEQ, sizeof(int));
		parse(&dump, &list, &answer);
		assert_true(answer.interrupted);
		diag_list_free(&list);
	}
}

/* Drops stand in the ninth word of the memory figures; a kernel that says less of them says nothing of drops. */
static void drops_of_a_listener(void **state)
{
	static const uint32_t figures[9] = {1, 2, 3, 4, 5, 6, 7, 8, 77};

	(void)state;
	for (size_t words = 8; words <= 9; words++) {
		struct dump dump = {0};
		struct diag_list list = {0};
		struct diag_answer answer;
		struct nlmsghdr *nlh;
		struct rtattr *rta;

		add_socket(&dump, AF_INET, TCP_LISTEN, 3, 511, 0);
		nlh = (struct nlmsghdr *)dump.buf;
		rta = (struct rtattr *)(dump.buf + dump.len);
		rta->rta_type = INET_DIAG_SKMEMINFO;
		rta->rta_len = RTA_LENGTH(words * sizeof(uint32_t));
		memcpy(RTA_DATA(rta), figures, words * sizeof(uint32_t));
		dump.len += RTA_ALIGN(rta->rta_len);
		nlh->nlmsg_len = dump.len;
		add_message(&dump, NLMSG_DONE, 0, SEQ, sizeof(int));
		parse(&dump, &list, &answer);
		assert_int_equal(list.count, 1);
		assert_int_equal(list.sockets[0].drops, words == 9 ? 77 : 0);
		diag_list_free(&list);
	}
}

static struct diag_list dump_of(int diag_fd, uint16_t port)
{
	struct diag_list list = {0};

	assert_int_equal(sockdiag_dump(diag_fd, 1u << TCP_ESTABLISHED, port, &list), 0);
	return list;
}

/* A real connection whose application does not read: how much waits, and since when at least. */
static void what_a_connection_has_not_read(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), served;
	socklen_t len = sizeof(at);
	struct diag_list list;
	char buf[64];

	(void)state;
	assert_true(diag_fd >= 0 && listener >= 0 && client >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	served = accept(listener, NULL, NULL);
	assert_true(served >= 0);
	assert_int_equal(send(client, buf, 40, 0), 40);
	usleep(150000);
	list = dump_of(diag_fd, ntohs(at.sin_port));
	assert_int_equal(list.count, 1);
	assert_int_equal(list.sockets[0].rqueue, 40);
	assert_in_range(list.sockets[0].last_received_ms, 130, 5000);
	diag_list_free(&list);
	assert_int_equal(recv(served, buf, sizeof(buf), 0), 40);
	list = dump_of(diag_fd, ntohs(at.sin_port));
	assert_int_equal(list.sockets[0].rqueue, 0);
	diag_list_free(&list);
	close(served);
	close(client);
	close(listener);
	close(diag_fd);
}

static bool has_port_443(const struct service *service, const struct diag_socket *socket)
{
	(void)service;
	return socket->port == 443;
}

static void unread_data_are_summed(void **state)
{
	static const struct diag_socket sockets[] = {
		{.port = 443, .rqueue = 0, .last_received_ms = 90000}, /* idle, and everything is read */
		{.port = 443, .rqueue = 10, .last_received_ms = 300},
		{.port = 443, .rqueue = UINT32_MAX, .last_received_ms = 4000000},
		{.port = 80, .rqueue = 7, .last_received_ms = 5000000}, /* of another service */
	};
	struct unread unread = {0};

	(void)state;
	unread_sum(sockets, 1, has_port_443, NULL, &unread);
	assert_int_equal(unread.connections + unread.bytes + unread.age_ns, 0);
	unread_sum(sockets, 4, has_port_443, NULL, &unread);
	assert_int_equal(unread.connections, 2);
	assert_int_equal(unread.bytes, 10 + (uint64_t)UINT32_MAX);
	assert_int_equal(unread.age_ns, 4000000 * 1000000ULL);
}

static void other_dumps_and_errors(void **state)
{
	struct dump dump = {0};
	struct diag_list list = {0};
	struct diag_answer answer;
	struct nlmsghdr *nlh;

	(void)state;
	add_socket(&dump, AF_INET, TCP_LISTEN, 3, 511, 0);
	((struct nlmsghdr *)dump.buf)->nlmsg_seq = SEQ - 1; /* of a dump that was given up */
	nlh = add_message(&dump, NLMSG_ERROR, 0, SEQ, sizeof(struct nlmsgerr));
	((struct nlmsgerr *)NLMSG_DATA(nlh))->error = -2;
	parse(&dump, &list, &answer);
	assert_int_equal(list.count, 0);
	assert_true(answer.done);
	assert_int_equal(answer.err, -2);
	dump.len = sizeof(struct nlmsghdr) - 1; /* cut short */
	parse(&dump, &list, &answer);
	assert_false(answer.done);
	diag_list_free(&list);
}

/* --- who reaches whom --------------------------------------------------------------------------------------------- */

static void set_address(uint8_t addr[16], const char *text)
{
	memset(addr, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, addr), 1);
		return;
	}
	addr[10] = addr[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, addr + 12), 1);
}

static struct diag_socket listener(const char *address, bool v6only)
{
	struct diag_socket socket = {.port = 443, .v6only = v6only};

	/* ::ffff:a.b.c.d is an IPv6 socket bound to a mapped address. */
	socket.family = strchr(address, ':') ? AF_INET6 : AF_INET;
	set_address(socket.addr, address);
	return socket;
}

static struct slc_service_key key(const char *address)
{
	struct slc_service_key k = {.port = 443, .proto = IPPROTO_TCP};

	set_address(k.addr, address);
	return k;
}

/* One service on `address`; expects exactly the listeners whose bit is set. */
static void expect(const char *address, struct diag_socket *sockets, size_t count, unsigned int reached)
{
	struct slc_service_key k = key(address);
	struct service_keys service = {&k, 1};
	struct diag_list list = {.sockets = sockets, .count = count};

	for (size_t i = 0; i < count; i++)
		assert_int_equal(listen_match(&service, 1, 0, &list, &sockets[i]), reached >> i & 1);
}

/* c69 (a): only [::]:443 with V6ONLY off: it serves IPv4 too. */
static void c69_dual_stack(void **state)
{
	struct diag_socket both[] = {listener("::", false)}, six[] = {listener("::", true)};

	(void)state;
	expect("203.0.113.10", both, 1, 1);
	expect("0.0.0.0", both, 1, 1);
	expect("2001:db8::1", both, 1, 1);
	expect("203.0.113.10", six, 1, 0);
	expect("0.0.0.0", six, 1, 0);
	expect("::", six, 1, 1);
}

/* c69 (b): one each: no family counts the other's queue. */
static void c69_v6only_beside_v4(void **state)
{
	struct diag_socket l[] = {listener("::", true), listener("0.0.0.0", false)};

	(void)state;
	expect("203.0.113.10", l, 2, 2);
	expect("0.0.0.0", l, 2, 2);
	expect("2001:db8::1", l, 2, 1);
	expect("::", l, 2, 1);
}

/* c69 (c): the exact address before the wildcard. */
static void c69_exact_before_wildcard(void **state)
{
	struct diag_socket l[] = {listener("::", false), listener("203.0.113.10", false)};

	(void)state;
	expect("203.0.113.10", l, 2, 2);
	expect("203.0.113.11", l, 2, 1);
	expect("0.0.0.0", l, 2, 3); /* all addresses: either may be meant */
	expect("::", l, 2, 1);
}

/* c69 (d): an IPv6 socket bound to the mapped address. */
static void c69_mapped_bind(void **state)
{
	struct diag_socket l[] = {listener("::ffff:203.0.113.10", false), listener("0.0.0.0", false)};

	(void)state;
	expect("203.0.113.10", l, 2, 1);
	expect("203.0.113.11", l, 2, 2);
	expect("2001:db8::1", l, 2, 0);
}

/* c64: every member of a SO_REUSEPORT group belongs to the service. */
static void c64_reuseport_members(void **state)
{
	struct diag_socket l[] = {listener("0.0.0.0", false), listener("0.0.0.0", false), listener("0.0.0.0", false)};

	(void)state;
	expect("203.0.113.10", l, 3, 7);
}

/* A listener on an address that another service names is not the wildcard service's. */
static void addresses_of_other_services(void **state)
{
	struct slc_service_key wild[] = {key("0.0.0.0"), key("::")}, exact = key("203.0.113.10"), udp = exact;
	struct service_keys services[] = {{wild, 2}, {&exact, 1}};
	struct diag_socket l[] = {listener("203.0.113.10", false), listener("203.0.113.11", false)};
	struct diag_list list = {.sockets = l, .count = 2};

	(void)state;
	assert_false(listen_match(services, 2, 0, &list, &l[0]));
	assert_true(listen_match(services, 2, 0, &list, &l[1]));
	assert_true(listen_match(services, 2, 1, &list, &l[0]));
	assert_false(listen_match(services, 2, 1, &list, &l[1]));
	l[1].port = 444;
	assert_false(listen_match(services, 2, 0, &list, &l[1]));
	udp.proto = IPPROTO_UDP;
	services[1].keys = &udp;
	assert_true(listen_match(services, 2, 0, &list, &l[0]));
	assert_false(listen_match(services, 2, 1, &list, &l[0]));
}

/* --- own addresses -------------------------------------------------------------------------------------------------- */

static void routers_of_the_host(void **state)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 1};
	uint8_t addr[16] = {0}, v6[16];

	(void)state;
	assert_false(own_router_v4("Iface\tDestination\tGateway \tFlags\n", addr));
	assert_false(own_router_v4("eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n", addr)); /* on the link */
	assert_true(own_router_v4("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n", addr));
	if (htonl(1) != 1)
		assert_memory_equal(addr, v4, 16);
	set_address(v6, "2001:db8::1");
	assert_true(own_router_v6("00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
				  "20010db8000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n",
				  addr));
	assert_memory_equal(addr, v6, 16);
	assert_false(own_router_v6("20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
				   "00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0\n",
				   addr));
	assert_false(own_router_v6("00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
				   "fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n",
				   addr)); /* of one link */
	assert_false(own_router_v6("garbage", addr));
}

static void own_addresses_become_rules(void **state)
{
	struct own_addresses own = {0};
	struct snapshot snapshot = {0};
	uint64_t hash;

	(void)state;
	assert_int_equal(own_addresses_read(&own), 0);
	hash = own_addresses_hash(&own);
	for (size_t i = 1; i < own.count; i++)
		assert_true(memcmp(own.at[i - 1], own.at[i], 16) < 0);
	assert_int_equal(own_addresses_append(&own, &snapshot), 0);
	assert_int_equal(snapshot.trust_count, own.count);
	for (size_t i = 0; i < own.count; i++) {
		assert_memory_equal(snapshot.trust[i].addr, own.at[i], 16);
		assert_int_equal(snapshot.trust[i].prefix, 128);
		assert_true(snapshot.trust[i].rule.flags & SLC_RULE_OWN);
		assert_false(own.at[i][10] == 0xff && own.at[i][11] == 0xff && own.at[i][12] == 127);
	}
	if (own.count) {
		own.at[0][15] ^= 1;
		assert_true(own_addresses_hash(&own) != hash);
	}
	free(snapshot.trust);
	own_addresses_free(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c58_only_listeners_are_read),
		cmocka_unit_test(c58_interrupted_dump_is_seen),
		cmocka_unit_test(drops_of_a_listener),
		cmocka_unit_test(what_a_connection_has_not_read),
		cmocka_unit_test(unread_data_are_summed),
		cmocka_unit_test(other_dumps_and_errors),
		cmocka_unit_test(c69_dual_stack),
		cmocka_unit_test(c69_v6only_beside_v4),
		cmocka_unit_test(c69_exact_before_wildcard),
		cmocka_unit_test(c69_mapped_bind),
		cmocka_unit_test(c64_reuseport_members),
		cmocka_unit_test(addresses_of_other_services),
		cmocka_unit_test(routers_of_the_host),
		cmocka_unit_test(own_addresses_become_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
