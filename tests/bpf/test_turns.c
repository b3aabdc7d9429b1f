// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns and their outcomes, by real sockets on the loopback of the test's namespace: XDP, sockops and cgroup_skb as they
 * are attached in earnest. A script plays both ends of one connection; then every outcome row, the rings and the
 * distributions must say what it was, and nothing else.
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

#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "bpf/dist.h"
#include "tests/bpf/net.h"
#include "tests/bpf/rig.h"

#include "sluice.skel.h"

#define SLOW_AFTER_MS 150
#define TIMEOUT_MS 500
#define SOON_MS 20 /* well before slow_after */
#define SLOWLY_MS 220
#define TOO_LATE_MS 600

static struct rig *rig;
static struct slc_policy web;
static uint16_t slot;
static int cgroup = -1, loopback;
static struct bpf_link *links[3];

static const char *const OUTCOMES[] = {
#define X(name, class, text) #name,
	SLC_OUTCOMES(X)
#undef X
};

static struct slc_measure measure_of(uint8_t turns)
{
	return (struct slc_measure){
		.uid = web.uid,
		.turns = turns,
		.owed_shift = 26, /* 67 ms >= timeout / 8 */
		.failures = SLC_FAILURES_DEFAULT,
		.slow_after_ns = SLOW_AFTER_MS * NS_PER_MS,
		.timeout_ns = TIMEOUT_MS * NS_PER_MS,
	};
}

static void attach(void)
{
	const struct sluice_bpf *skel = rig->skel;

	if (links[0])
		return;
	links[0] = bpf_program__attach_cgroup(skel->progs.slc_sockops, cgroup);
	links[1] = bpf_program__attach_cgroup(skel->progs.slc_ingress, cgroup);
	links[2] = bpf_program__attach_cgroup(skel->progs.slc_egress, cgroup);
	if (!links[0] || !links[1] || !links[2] || bpf_xdp_attach(loopback, rig->program, XDP_FLAGS_SKB_MODE, NULL))
		fail_msg("attach: %s", strerror(errno));
}

static int setup(void **state)
{
	(void)state;
	rig = rig_open(NULL);
	web = rig_policy("web");
	slot = rig_service(rig, &web, SERVER4, 443);
	rig->measure[slot] = measure_of(SLC_TURNS_request_response);
	if (cgroup >= 0)
		attach();
	return 0;
}

/* --- both ends ----------------------------------------------------------------------------------------------------------- */

static int listener = -1, client = -1, server = -1;

static uint32_t retransmits(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
	return info.tcpi_total_retrans;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int teardown(void **state)
{
	(void)state;
	shut(&client);
	shut(&server);
	net_close_all();
	listener = -1;
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

static void linger(int fd, bool reset)
{
	const struct linger how = {.l_onoff = reset};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how)), 0);
}

static void accept_it(void)
{
	for (int i = 0; i < 100 && server < 0; i++) {
		server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (server < 0)
			usleep(2000);
	}
	assert_true(server >= 0);
}

static void connect_it(void)
{
	if (listener < 0)
		listener = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	client = net_connect(CLIENT4, 0, SERVER4, 443, 2000);
	if (client < 0)
		fail_msg("could not connect: %s", strerror(-client));
}

static void open_it(void)
{
	const int on = 1;

	connect_it();
	accept_it();
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void say(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

static void hear(int fd)
{
	char bytes[4096];
	struct timeval patience = {.tv_sec = 2};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_true(recv(fd, bytes, sizeof(bytes), 0) > 0);
}

/* --- scripts ------------------------------------------------------------------------------------------------------------- */

/*
 * One letter a step, of client (lower case) and service (upper case):
 *   q a request, r its second half; Q the service reads; a the client reads
 *   A an answer; C "100 Continue"; H "HTTP/1.1 200"; F "HTTP/1.1 503"; E "HTTP/1.1 500"
 *   f, G FIN, reading on; x, X close with FIN; t, T RST
 *   . SOON_MS, - SLOWLY_MS, = TOO_LATE_MS
 */
static void step(char what)
{
	static const char *const TEXT[128] = {
		['q'] = "GET / HTTP/1.1\r\nHost: test\r\n\r\n",
		['r'] = "Content-Length: 0\r\n\r\n",
		['A'] = "answer",
		['C'] = "HTTP/1.1 100 Continue\r\n\r\n",
		['H'] = "HTTP/1.1 200 OK\r\n\r\n",
		['F'] = "HTTP/1.1 503 Service Unavailable\r\n\r\n",
		['E'] = "HTTP/1.1 500 Internal Server Error\r\n\r\n",
	};
	bool of_client = what >= 'a' && what <= 'z';
	int *fd = of_client ? &client : &server;

	if (TEXT[(int)what]) {
		say(*fd, TEXT[(int)what], strlen(TEXT[(int)what]));
	} else if (what == 'Q' || what == 'a') {
		hear(*fd);
	} else if (what == 'f' || what == 'G') {
		shutdown(*fd, SHUT_WR);
	} else if (strchr("xXtT", what)) {
		linger(*fd, what == 't' || what == 'T');
		shut(fd);
	} else {
		usleep(1000 * (what == '.' ? SOON_MS : what == '-' ? SLOWLY_MS : TOO_LATE_MS));
	}
	usleep(1000); /* the other end has it */
}

static void play(const char *script)
{
	for (; *script; script++)
		step(*script);
}

/* --- what was filed ---------------------------------------------------------------------------------------------------------- */

static const struct slc_signals *signals(void)
{
	return &rig->signals[slot];
}

static uint64_t filed(enum slc_row row, enum slc_outcome kind)
{
	return __atomic_load_n(&signals()->outcomes[row][kind], __ATOMIC_RELAXED);
}

static uint64_t filed_in_all(void)
{
	uint64_t sum = 0;

	for (int row = 0; row < SLC_ROW_COUNT; row++)
		for (int kind = 0; kind < SLC_OUTCOME_COUNT; kind++)
			sum += filed(row, kind);
	return sum;
}

/* Outcomes are filed a moment after the call that caused them. */
static void expect_filed(enum slc_row row, enum slc_outcome kind, uint64_t count)
{
	for (int i = 0; i < 200 && filed(row, kind) < count; i++)
		usleep(2000);
	if (filed(row, kind) == count)
		return;
	for (int r = 0; r < SLC_ROW_COUNT; r++)
		for (int k = 0; k < SLC_OUTCOME_COUNT; k++)
			if (filed(r, k))
				print_error("  row %d %s: %ju\n", r, OUTCOMES[k], (uintmax_t)filed(r, k));
	fail_msg("expected %ju %s in row %d", (uintmax_t)count, OUTCOMES[kind], row);
}

/* Exactly these, under the current generation, and nothing else. */
static void expect_only(enum slc_outcome kind, uint64_t count)
{
	expect_filed(SLC_ROW_even, kind, count);
	usleep(5000);
	assert_int_equal(filed_in_all(), count);
}

struct rings {
	uint64_t started, finished;
	int64_t owed;
};

static struct rings rings_of(enum slc_grade grade)
{
	struct rings sum = {0};

	for (int i = 0; i < SLC_TURN_SLOTS; i++) {
		sum.started += signals()->started[grade][i].started;
		sum.finished += signals()->started[grade][i].finished;
	}
	for (int i = 0; i < SLC_OWED_SLOTS; i++)
		for (int c = 0; c < SLC_OWED_CELLS; c++)
			sum.owed += (int32_t)signals()->owed[grade][i][c];
	return sum;
}

/* Turns that began and did not end within timeout. */
static int64_t unanswered(void)
{
	int64_t sum = 0;

	for (int grade = 0; grade < SLC_GRADE_COUNT; grade++) {
		struct rings rings = rings_of(grade);

		sum += rings.started - rings.finished;
		if (grade != SLC_GRADE_pressure)
			assert_int_equal(rings.owed, rings.started - rings.finished);
	}
	return sum;
}

static uint64_t samples(const struct slc_dist *dist)
{
	uint64_t sum = 0;

	for (int b = 0; b < SLC_DIST_BINS; b++)
		sum += dist->bin[b];
	return sum;
}

static uint64_t mean_ms(const struct slc_dist *dist)
{
	uint64_t count = samples(dist);

	assert_true(count > 0);
	return dist->sum_ns / count / NS_PER_MS;
}

static void about(uint64_t ms, uint64_t expected)
{
	if (ms + 10 < expected || ms > expected + 60)
		fail_msg("%ju ms is not about %ju ms", (uintmax_t)ms, (uintmax_t)expected);
}

static struct slc_cell cells(int odd)
{
	struct slc_cell sum = {0};

	for (int c = 0; c < SLC_CELLS; c++) {
		sum.success += signals()->cells[odd][c].success;
		sum.failure += signals()->cells[odd][c].failure;
		sum.unproven += signals()->cells[odd][c].unproven;
		sum.slow += signals()->cells[odd][c].slow;
	}
	return sum;
}

/* --- every row of the table --------------------------------------------------------------------------------------------------- */

static const struct {
	const char *script;
	enum slc_outcome kind;
	uint8_t turns; /* begun */
	uint8_t unanswered; /* of these, counted by subtraction */
} ROWS[] = {
	{"qQAx", SLC_OUT_answered, 1, 0},
	{"qQ-Ax", SLC_OUT_slow, 1, 0},
	{"qQ=Ax", SLC_OUT_late, 1, 1},
	{"qQ.T", SLC_OUT_reset, 1, 0},
	{"qQ=T", SLC_OUT_late, 1, 1},
	{"q.T", SLC_OUT_gave_up, 1, 0}, /* unread: the kernel resets by itself */
	{"qQrX", SLC_OUT_gave_up, 1, 0},
	{"qQ.X", SLC_OUT_closed_unanswered, 1, 0},
	{"qQ.Gx", SLC_OUT_closed_unanswered, 1, 0},
	{"qQ=X", SLC_OUT_late, 1, 1},
	{"qQF", SLC_OUT_http_5xx, 1, 0},
	{"qQE", SLC_OUT_answered, 1, 0}, /* not in the list */
	{"qQH", SLC_OUT_answered, 1, 0},
	{"qQC.F", SLC_OUT_http_5xx, 1, 0},
	{"qQ-x", SLC_OUT_abandoned, 1, 0},
	{"qQ-f", SLC_OUT_abandoned, 1, 0},
	{"qQ-t", SLC_OUT_abandoned, 1, 0},
	{"q-t", SLC_OUT_abandoned, 1, 0},
	{"qQ.xX", SLC_OUT_gave_up, 1, 0},
	{"qQ.t", SLC_OUT_gave_up, 1, 0},
	{"q.fT", SLC_OUT_gave_up, 1, 0},
	{"qQ.fA", SLC_OUT_answered, 1, 0}, /* half-closed, and answered in time */
	{"qQ.f-A", SLC_OUT_gave_up, 1, 0},
	{"xX", SLC_OUT_idle, 0, 0},
	{"Xx", SLC_OUT_idle, 0, 0},
	{"t", SLC_OUT_idle, 0, 0},
	{"T", SLC_OUT_idle, 0, 0},
	{"A.x", SLC_OUT_idle, 0, 0}, /* what nobody asked for is no answer */
};

static void test_every_outcome(void **state)
{
	(void)state;
	NEED_CGROUP();
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
		if (i)
			setup(NULL);
		rig->measure[slot].http = 3;
		memcpy(rig->measure[slot].http_codes, (const uint16_t[]){502, 503, 504}, 6);
		print_message("  %-8s %s\n", ROWS[i].script, OUTCOMES[ROWS[i].kind]);
		open_it();
		play(ROWS[i].script);
		expect_only(ROWS[i].kind, 1);
		assert_int_equal(unanswered(), ROWS[i].unanswered);
		assert_int_equal(signals()->turns_begun, ROWS[i].turns);
		assert_int_equal(signals()->turns_ended, ROWS[i].turns);
		assert_int_equal(signals()->turns_young, ROWS[i].turns);
		if (i + 1 < sizeof(ROWS) / sizeof(*ROWS))
			teardown(NULL);
	}
}

/* An answer that nobody acknowledges: neither side is to blame. */
static void test_answer_lost_by_the_network(void **state)
{
	const unsigned give_up_ms = 300;

	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQAa"); /* warm: the round trip is known */
	assert_int_equal(setsockopt(server, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof(give_up_ms)), 0);
	assert_int_equal(
		system("nft add table ip t && nft add chain ip t i '{ type filter hook input priority 0; }' && "
		       "nft add rule ip t i ip saddr " SERVER4 " tcp sport 443 drop"),
		0);
	play("qQA");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 2);
	for (int i = 0; i < 40 && !filed(SLC_ROW_even, SLC_OUT_net_loss); i++)
		usleep(50000);
	assert_int_equal(system("nft delete table ip t"), 0);
	assert_int_equal(filed(SLC_ROW_even, SLC_OUT_net_loss), 1);
	assert_int_equal(filed_in_all(), 3);
	assert_true(signals()->retransmits > 0);
}

/* --- request-response ---------------------------------------------------------------------------------------------------------- */

static void test_latency_runs_from_the_last_request_byte(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("q-r-r.A"); /* a slow upload is no slow service */
	expect_only(SLC_OUT_answered, 1);
	assert_int_equal(samples(&signals()->latency), 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	assert_int_equal(unanswered(), 0);
	assert_int_equal(signals()->turns_begun, 1);
}

/* Longer than timeout in the making: what is older counts as unanswered, and the turn begins anew with its last byte. */
static void test_upload_longer_than_timeout(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("q---r.A");
	expect_only(SLC_OUT_answered, 1);
	assert_int_equal(unanswered(), 1);
}

static void test_keep_alive_counts_every_turn(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	for (int i = 0; i < 10; i++)
		play("qQAa");
	expect_only(SLC_OUT_answered, 10);
	assert_int_equal(samples(&signals()->latency), 10);
	assert_int_equal(signals()->turns_begun, 10);
	assert_int_equal(unanswered(), 0);
	assert_true(signals()->last_answer_ns > 0);
	play("x"); /* owing nothing after a turn: no outcome */
	usleep(20000);
	assert_int_equal(filed_in_all(), 10);
}

/* Its connections live on, and what they owe is answered. */
static void test_service_that_moves_to_another_port(void **state)
{
	struct slc_ports *ports = &rig->ports[443 >> 6];

	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQ");
	ports->once = ports->tcp;
	ports->tcp = 0;
	play("Aa");
	expect_only(SLC_OUT_answered, 1);
	play("qQAa");
	expect_only(SLC_OUT_answered, 2);
}

static void test_continue_is_no_answer(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQCa-rQ.Ha");
	expect_only(SLC_OUT_answered, 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	play("qQCa-H"); /* the body was not waited for */
	expect_filed(SLC_ROW_even, SLC_OUT_slow, 1);
	assert_int_equal(filed_in_all(), 2);
}

static void test_pipelined_requests_are_one_turn(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qq.qQ.AAA");
	expect_only(SLC_OUT_answered, 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	assert_int_equal(unanswered(), 0);
	play("qQA");
	expect_only(SLC_OUT_answered, 2);
}

/* A copy of a frame that the client sent, as the network may make one. */
static size_t sniff(int raw, uint8_t *frame, size_t room, const char *text)
{
	for (;;) {
		ssize_t length = recv(raw, frame, room, 0);

		assert_true(length > 0);
		if ((size_t)length > 66 && memmem(frame, length, text, strlen(text)))
			return length;
	}
}

/* The loopback leaves checksums to be made by a device that there is none of. IPv4 without options. */
static void make_checksum(uint8_t *frame, size_t length)
{
	uint8_t *tcp = frame + ETH_HLEN + 20;
	size_t bytes = length - ETH_HLEN - 20;
	uint32_t sum = IPPROTO_TCP + bytes;

	tcp[16] = tcp[17] = 0;
	for (int i = 12; i < 20; i += 2) /* addresses */
		sum += frame[ETH_HLEN + i] << 8 | frame[ETH_HLEN + i + 1];
	for (size_t i = 0; i < bytes; i += 2)
		sum += tcp[i] << 8 | (i + 1 < bytes ? tcp[i + 1] : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	tcp[16] = ~sum >> 8;
	tcp[17] = ~sum;
}

static void test_retransmitted_request_begins_nothing(void **state)
{
	struct timeval patience = {.tv_sec = 2};
	struct sockaddr_ll lo = {.sll_family = AF_PACKET, .sll_ifindex = loopback, .sll_protocol = htons(ETH_P_IP)};
	uint8_t frame[2048];
	uint64_t duplicates;
	size_t length;
	int raw;

	(void)state;
	NEED_CGROUP();
	open_it();
	raw = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
	assert_int_equal(bind(raw, (struct sockaddr *)&lo, sizeof(lo)), 0);
	setsockopt(raw, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	play("q");
	length = sniff(raw, frame, sizeof(frame), "GET / HTTP");
	make_checksum(frame, length);
	net_sysctl("ipv4/conf/all/accept_local", "1"); /* what comes in by itself has a local source */
	play("-");
	assert_int_equal(send(raw, frame, length, 0), length); /* owed: the clock runs from the first one */
	play("QA");
	expect_only(SLC_OUT_slow, 1);
	duplicates = net_counter("DelayedACKLost"); /* the kernel's own count of segments that it had already */
	assert_int_equal(send(raw, frame, length, 0), length);
	for (int i = 0; i < 100 && net_counter("DelayedACKLost") == duplicates; i++)
		usleep(2000);
	assert_true(net_counter("DelayedACKLost") > duplicates);
	close(raw);
	assert_int_equal(signals()->turns_begun, 1);
	assert_int_equal(unanswered(), 0);
	play("x");
	usleep(10000);
	assert_int_equal(filed_in_all(), 1);
}

/* The first answer is lost on its way in and sent again while the second is owed. */
static void test_retransmitted_answer_answers_nothing(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQAa");
	expect_only(SLC_OUT_answered, 1);
	assert_int_equal(
		system("nft add table ip t && nft add chain ip t i '{ type filter hook input priority 0; }' && "
		       "nft add rule ip t i ip saddr " SERVER4 " tcp sport 443 drop"),
		0);
	play("qQA");
	expect_only(SLC_OUT_answered, 2);
	assert_int_equal(system("nft delete table ip t"), 0);
	play("q");
	for (int i = 0; i < 100 && retransmits(server) == 0; i++)
		usleep(5000);
	assert_true(retransmits(server) > 0);
	usleep(10000);
	assert_int_equal(filed_in_all(), 2);
	assert_int_equal(signals()->turns_begun, 3);
	play("A"); /* in time or not: that is up to the retransmission's timer */
	for (int i = 0; i < 100 && filed_in_all() < 3; i++)
		usleep(2000);
	assert_int_equal(filed_in_all(), 3);
}

/* The request comes with the handshake's last ACK: the connection exists only after it. */
static void test_deferred_accept(void **state)
{
	const int seconds = 5;

	(void)state;
	NEED_CGROUP();
	listener = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	assert_int_equal(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)), 0);
	connect_it();
	play(".q");
	accept_it();
	play("Q.A");
	expect_only(SLC_OUT_answered, 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	assert_int_equal(signals()->turns_begun, 1);
	play("qQ-A");
	expect_filed(SLC_ROW_even, SLC_OUT_slow, 1);
}

static void test_request_after_the_service_closed(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQAaGq"); /* an idle connection closed while the next request is under way */
	expect_only(SLC_OUT_answered, 1);
	play("X");
	usleep(20000);
	assert_int_equal(filed_in_all(), 1);
	assert_int_equal(unanswered(), 0);
}

/* --- server-first ---------------------------------------------------------------------------------------------------------------- */

static void test_server_first(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_server_first);
	open_it();
	play("-Aa");
	expect_only(SLC_OUT_slow, 1);
	about(mean_ms(&signals()->latency), SLOWLY_MS);
	play("qQAa");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 1);
	assert_int_equal(signals()->turns_begun, 2);
	play("x");
	shut(&server);
	open_it();
	play("X"); /* no greeting */
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 1);
	assert_int_equal(filed_in_all(), 3);
}

/* --- TLS ---------------------------------------------------------------------------------------------------------------------------- */

/* Records of TLS: type and length of each, filled with bytes that nobody reads. */
static void tls(int fd, ...)
{
	uint8_t bytes[8192];
	size_t at = 0;
	va_list list;
	int type;

	va_start(list, fd);
	while ((type = va_arg(list, int))) {
		int length = va_arg(list, int);

		assert_true(at + 5 + length < sizeof(bytes));
		bytes[at] = type;
		bytes[at + 1] = bytes[at + 2] = 3;
		bytes[at + 3] = length >> 8;
		bytes[at + 4] = length;
		memset(bytes + at + 5, 0xaa, length);
		at += 5 + length;
	}
	va_end(list);
	say(fd, bytes, at);
	usleep(2000);
}

#define CIPHER 0x14, 1
#define ALERT 0x15, 26
#define HELLO 0x16, 300
#define FINISHED 0x17, 53
#define REQUEST 0x17, 120
#define END 0

static void test_tls13_tickets_do_not_answer(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	open_it();
	tls(client, HELLO, END);
	play(".");
	tls(server, 0x16, 120, CIPHER, 0x17, 900, END);
	tls(client, CIPHER, FINISHED, REQUEST, END);
	tls(server, 0x17, 250, 0x17, 250, END); /* session tickets, of its own accord */
	play("-");
	tls(server, 0x17, 500, END);
	usleep(5000);
	tls(server, 0x17, 500, END); /* the rest of the answer */
	assert_int_equal(filed_in_all(), 0); /* the end of the longest silence is not known yet */
	assert_int_equal(unanswered(), 0); /* but nothing is owed */
	tls(client, 0x17, 19, END); /* close_notify */
	expect_only(SLC_OUT_slow, 1);
	about(mean_ms(&signals()->latency), SLOWLY_MS);
	assert_int_equal(samples(&signals()->tls), 1);
	about(mean_ms(&signals()->tls), SOON_MS);
	play("xX");
	usleep(10000);
	assert_int_equal(filed_in_all(), 1);
	assert_int_equal(signals()->turns_begun, 2);
	assert_int_equal(signals()->turns_ended, 2);
}

/* Finished in a segment of its own wants no answer; the next request is the first turn. */
static void test_tls13_finished_alone_owes_nothing(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_tls);
	open_it();
	tls(client, HELLO, END);
	tls(server, 0x16, 120, CIPHER, 0x17, 900, END);
	tls(client, CIPHER, END);
	tls(client, FINISHED, END);
	play("=");
	assert_int_equal(unanswered(), 0);
	assert_int_equal(signals()->turns_begun, 1); /* ClientHello */
	tls(client, REQUEST, END);
	play(".");
	tls(server, 0x17, 500, END);
	tls(client, REQUEST, END);
	expect_only(SLC_OUT_answered, 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	play("-");
	tls(server, 0x17, 500, END);
	play("tX");
	expect_filed(SLC_ROW_even, SLC_OUT_slow, 1);
	assert_int_equal(filed_in_all(), 2);
	assert_int_equal(unanswered(), 0);
}

static void test_tls12(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	open_it();
	tls(client, HELLO, END);
	tls(server, 0x16, 2000, END);
	tls(client, 0x16, 70, CIPHER, 0x16, 40, END); /* key exchange: this one wants an answer */
	play(".");
	tls(server, CIPHER, 0x16, 40, END);
	assert_int_equal(samples(&signals()->tls), 2);
	assert_int_equal(filed_in_all(), 0); /* handshakes are no outcomes */
	tls(client, REQUEST, END);
	play("-");
	tls(server, 0x17, 900, END);
	tls(client, ALERT, END);
	expect_only(SLC_OUT_slow, 1);
	assert_int_equal(samples(&signals()->latency), 1);
	play("xX");
	usleep(10000);
	assert_int_equal(filed_in_all(), 1);
	assert_int_equal(unanswered(), 0);
}

/* Key exchange and request in one flight: what is owed is an answer, not a handshake. */
static void test_tls_request_in_the_handshakes_last_flight(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	open_it();
	tls(client, HELLO, END);
	tls(server, 0x16, 2000, END);
	tls(client, 0x16, 70, END);
	tls(client, CIPHER, 0x16, 40, END);
	tls(client, REQUEST, END); /* before any answer: the handshake's turn is a request's now */
	play("-");
	tls(server, CIPHER, 0x16, 40, 0x17, 500, END);
	play("xX");
	expect_only(SLC_OUT_slow, 1);
	assert_int_equal(samples(&signals()->tls), 1);
	assert_int_equal(signals()->turns_begun, 2);
}

static void test_tls_handshake_that_fails(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	open_it();
	tls(client, HELLO, END);
	play("Q.X");
	expect_only(SLC_OUT_closed_unanswered, 1);
	shut(&client);
	open_it();
	tls(client, HELLO, END);
	tls(server, 0x16, 120, END);
	play("xX"); /* somebody who looks at certificates only */
	expect_filed(SLC_ROW_even, SLC_OUT_idle, 1);
	assert_int_equal(filed_in_all(), 2);
}

/* HTTP/2 says small things that nobody answers (WINDOW_UPDATE, SETTINGS ACK): they owe nothing. */
static void test_tls_small_records_owe_nothing(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	open_it();
	tls(client, HELLO, END);
	tls(server, 0x16, 120, END);
	tls(client, CIPHER, FINISHED, REQUEST, END);
	tls(server, 0x17, 900, END);
	tls(client, 0x17, 30, END); /* amid the answer */
	tls(server, 0x17, 900, END);
	assert_int_equal(filed_in_all(), 0);
	tls(client, REQUEST, END);
	expect_only(SLC_OUT_answered, 1);
	tls(server, 0x17, 900, END);
	play("=");
	tls(client, ALERT, END);
	expect_only(SLC_OUT_answered, 2);
	tls(client, 0x17, 30, END);
	play("=");
	assert_int_equal(unanswered(), 0);
	play("X");
	usleep(10000);
	assert_int_equal(filed_in_all(), 2);
}

static void test_deferred_accept_of_tls(void **state)
{
	const int seconds = 5;

	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	listener = LISTEN(.addr = SERVER4, .port = 443, .backlog = 10);
	assert_int_equal(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)), 0);
	connect_it();
	tls(client, HELLO, END);
	accept_it();
	tls(server, 0x16, 120, END);
	assert_int_equal(samples(&signals()->tls), 1); /* nobody could look into the request: the answer told */
	assert_int_equal(filed_in_all(), 0);
	tls(client, CIPHER, FINISHED, REQUEST, END);
	tls(server, 0x17, 500, END);
	play("xX");
	expect_only(SLC_OUT_answered, 1);
}

/* --- opaque ------------------------------------------------------------------------------------------------------------------------- */

static void test_opaque_files_connections(void **state)
{
	static const struct {
		const char *script;
		enum slc_outcome kind;
	} rows[] = {
		{"qQAaqQ-AxX", SLC_OUT_answered}, {"qQ.T", SLC_OUT_reset}, {"q.T", SLC_OUT_gave_up},
		{"qQ.t", SLC_OUT_gave_up},        {"xX", SLC_OUT_idle},    {"qQAat", SLC_OUT_answered},
	};

	(void)state;
	NEED_CGROUP();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (i)
			setup(NULL);
		rig->measure[slot] = measure_of(SLC_TURNS_opaque);
		print_message("  %-8s %s\n", rows[i].script, OUTCOMES[rows[i].kind]);
		open_it();
		play(rows[i].script);
		expect_only(rows[i].kind, 1);
		assert_int_equal(signals()->turns_begun, 0);
		assert_int_equal(samples(&signals()->latency), 0);
		if (i + 1 < sizeof(rows) / sizeof(*rows))
			teardown(NULL);
	}
}

/* Where no program looks at packets, every service is opaque. */
static void test_without_programs_all_are_opaque(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->control->flags |= SLC_F_NO_TURNS;
	open_it();
	play("qQ-AaxX");
	expect_only(SLC_OUT_answered, 1);
	assert_int_equal(signals()->turns_begun, 0);
}

/* --- generation, pressure, grades ------------------------------------------------------------------------------------------------- */

static void test_outcomes_of_older_generations(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig_generation(rig, slot, 7);
	open_it();
	play("qQA");
	expect_filed(SLC_ROW_odd, SLC_OUT_answered, 1);
	assert_int_equal(cells(1).success, 1);
	play("qQ");
	rig_generation(rig, slot, 8); /* the breaker moves while it is owed */
	play("A");
	expect_filed(SLC_ROW_other, SLC_OUT_answered, 1);
	assert_int_equal(cells(0).success, 0);
	play("qQA");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 1);
	assert_int_equal(cells(0).success, 1);
	assert_int_equal(filed_in_all(), 3);
}

/* The first turn is of the generation that admitted the SYN. */
static void test_first_turn_is_of_the_admission(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig_generation(rig, slot, 2);
	open_it();
	rig_generation(rig, slot, 4);
	play("qQA");
	expect_filed(SLC_ROW_other, SLC_OUT_answered, 1);
	play("qQA");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 1);
}

static void press(bool pressure)
{
	struct slc_decision_half d = rig_decision();

	d.flags = pressure ? SLC_D_PRESSURE : 0;
	rig_decide(rig, slot, &d);
}

static void test_under_pressure(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	press(true);
	play("qQ");
	press(false); /* what counts is when it began */
	play("A");
	expect_filed(SLC_ROW_pressure, SLC_OUT_answered, 1);
	assert_int_equal(rings_of(SLC_GRADE_pressure).started, 1);
	assert_int_equal(rings_of(SLC_GRADE_pressure).finished, 1);
	play("qQX");
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 1);
	assert_int_equal(filed_in_all(), 2);
	assert_int_equal(cells(0).success, 0);
	assert_int_equal(cells(0).failure, 1); /* it had a good turn */
}

/* Who is owed an answer under pressure is kept of those who had a good turn, until its time is over. */
static void test_owed_under_pressure(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	press(true);
	play("qQ");
	assert_int_equal(rings_of(SLC_GRADE_pressure).owed, 0); /* a stranger */
	play("A");
	expect_filed(SLC_ROW_pressure, SLC_OUT_answered, 1);
	assert_int_equal(rings_of(SLC_GRADE_pressure).owed, 0);
	play("qQ");
	assert_int_equal(rings_of(SLC_GRADE_pressure).owed, 1);
	play("A");
	expect_filed(SLC_ROW_pressure, SLC_OUT_answered, 2);
	assert_int_equal(rings_of(SLC_GRADE_pressure).owed, 0);
	play("qQ=A");
	expect_filed(SLC_ROW_pressure, SLC_OUT_late, 1);
	assert_int_equal(rings_of(SLC_GRADE_pressure).owed, 1); /* it was counted as unanswered */
}

/* From turns_max in flight on; what never ended before may be more than 32 bits hold. */
static void test_turns_max(void **state)
{
	static const uint64_t hanging[] = {0, 25, UINT32_MAX, 1ULL << 33};
	struct slc_decision_half d = rig_decision();

	(void)state;
	NEED_CGROUP();
	open_it();
	d.flags = SLC_D_TURNS_MAX;
	for (size_t i = 0; i < sizeof(hanging) / sizeof(*hanging); i++) {
		rig->signals[slot].turns_begun = signals()->turns_ended + hanging[i];
		d.turns_max = (uint32_t)(hanging[i] + 1);
		rig_decide(rig, slot, &d);
		play("qQA");
		expect_filed(SLC_ROW_even, SLC_OUT_answered, i + 1);
		d.turns_max = (uint32_t)hanging[i];
		rig_decide(rig, slot, &d);
		play("qQA");
		expect_filed(SLC_ROW_pressure, SLC_OUT_answered, i + 1);
	}
	assert_int_equal(filed_in_all(), 8);
}

static void test_admitted_under_pressure(void **state)
{
	(void)state;
	NEED_CGROUP();
	press(true);
	open_it();
	press(false);
	play("qQA");
	expect_filed(SLC_ROW_pressure, SLC_OUT_answered, 1);
	play("qQA");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 1);
}

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

static void test_unproven_until_a_good_turn(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQX");
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 1);
	assert_int_equal(cells(0).unproven, 1);
	assert_int_equal(cells(0).failure, 0);
	assert_int_equal(rings_of(SLC_GRADE_unproven).started, 1);
	assert_int_equal(cold_of(CLIENT4)->good, 0);
	shut(&client);
	open_it();
	for (int i = 0; i < 5; i++)
		play("qQAa");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 5);
	assert_int_equal(cold_of(CLIENT4)->good, 1); /* the first at once, then at most one a second */
	assert_true(cold_of(CLIENT4)->good_since_ns > 0);
	play("xX");
	for (int i = 0; i < 100 && cold_of(CLIENT4)->good < 5; i++)
		usleep(2000);
	assert_int_equal(cold_of(CLIENT4)->good, 5); /* and what is left at the end */
	open_it();
	play("qQ-X");
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 2);
	assert_int_equal(cells(0).failure, 1);
	assert_int_equal(cells(0).unproven, 1);
	assert_int_equal(cells(0).success, 5);
	assert_int_equal(signals()->known_failure[0], 0);
}

static void test_known_good_is_proven(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig_known(rig, web.uid, CLIENT4, SLC_FOREVER);
	open_it();
	play("qQX");
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 1);
	assert_int_equal(cells(0).failure, 1);
	assert_int_equal(signals()->known_failure[0], 1);
	shut(&client);
	open_it();
	play("qQA");
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 1);
	assert_int_equal(signals()->known_success[0], 1);
}

/* Which kinds fail is the service's to say. */
static void test_slow_as_a_failure(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot].failures |= 1u << SLC_OUT_slow;
	rig->measure[slot].failures &= ~(1u << SLC_OUT_closed_unanswered);
	open_it();
	play("qQ-A");
	expect_filed(SLC_ROW_even, SLC_OUT_slow, 1);
	assert_int_equal(cells(0).unproven, 1);
	assert_int_equal(cells(0).slow, 1);
	play("qQX");
	expect_filed(SLC_ROW_even, SLC_OUT_closed_unanswered, 1);
	assert_int_equal(cells(0).failure + cells(0).success, 0);
}

/* --- probes ----------------------------------------------------------------------------------------------------------------------------- */

static void half_open(uint32_t generation)
{
	struct slc_decision_half d = rig_decision();

	d.flags = SLC_D_HALF_OPEN;
	d.probes = 2;
	d.reserved = 2;
	d.ticket_ms = 1000;
	rig_generation(rig, slot, generation);
	rig_decide(rig, slot, &d);
	rig_known(rig, web.uid, CLIENT4, SLC_FOREVER);
}

static void expect_slot(enum slc_slot_state expected)
{
	const union slc_slot *word = &rig->probe[slot].slot[0];

	for (int i = 0; i < 100 && word->state != expected; i++)
		usleep(2000);
	assert_int_equal(word->state, expected);
}

static void test_probe_by_its_outcome(void **state)
{
	static const struct {
		const char *script;
		enum slc_slot_state end;
	} rows[] = {
		{"qQA", SLC_SLOT_success},  {"qQ-A", SLC_SLOT_success}, {"qQX", SLC_SLOT_failure},
		{"qQ-x", SLC_SLOT_failure}, {"qQ.x", SLC_SLOT_free},    {"x", SLC_SLOT_free},
		{"qQ=A", SLC_SLOT_failure},
	};

	(void)state;
	NEED_CGROUP();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct slc_probe *probe;

		if (i)
			setup(NULL);
		half_open(0x1000005);
		probe = &rig->probe[slot];
		open_it();
		expect_slot(SLC_SLOT_probe);
		assert_int_equal(probe->slot[0].generation, 5); /* 24 bits of it */
		assert_int_equal(probe->established, 1);
		if (rows[i].script[0] == 'q') {
			step('q');
			expect_slot(SLC_SLOT_owed);
			assert_true(probe->deadline_ns[0] > rig_now());
		} else {
			step(rows[i].script[0]);
			step('X');
		}
		play(rows[i].script + 1);
		if (server >= 0 && rows[i].end == SLC_SLOT_free)
			step('X');
		expect_slot(rows[i].end);
		assert_int_equal(probe->succeeded, rows[i].end == SLC_SLOT_success);
		assert_int_equal(probe->failed, rows[i].end == SLC_SLOT_failure);
		assert_int_equal(probe->neutral, rows[i].end == SLC_SLOT_free);
		assert_true(filed_in_all() <= 1); /* a probe's outcome is one like any other */
		teardown(NULL);
	}
	setup(NULL);
}

static void test_probe_of_tls_and_opaque(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	half_open(3);
	open_it();
	tls(client, HELLO, END);
	expect_slot(SLC_SLOT_owed);
	tls(server, 0x16, 120, END);
	expect_slot(SLC_SLOT_probe); /* a handshake is no verdict */
	tls(client, CIPHER, FINISHED, REQUEST, END);
	expect_slot(SLC_SLOT_owed);
	tls(server, 0x17, 500, END);
	expect_slot(SLC_SLOT_success); /* at the first byte: the connection may stay open */
	teardown(NULL);
	setup(NULL);
	rig->measure[slot] = measure_of(SLC_TURNS_opaque);
	half_open(3);
	open_it();
	play("qQ");
	expect_slot(SLC_SLOT_probe);
	play("A");
	expect_slot(SLC_SLOT_success); /* without turns too: else streams that live for long would keep it half-open */
	assert_int_equal(rig->probe[slot].succeeded, 1);
	assert_int_equal(filed_in_all(), 0);
	play("axX");
	expect_filed(SLC_ROW_odd, SLC_OUT_answered, 1);
	assert_int_equal(rig->probe[slot].succeeded, 1);
	assert_int_equal(rig->probe[slot].neutral, 0);
}

/* Nothing was sent: that the handshake is over, or the client talks, is no verdict. */
static void test_opaque_probe_that_hears_nothing(void **state)
{
	(void)state;
	NEED_CGROUP();
	rig->measure[slot] = measure_of(SLC_TURNS_opaque);
	half_open(3);
	open_it();
	play("qQqQ-");
	expect_slot(SLC_SLOT_probe);
	play("x-X");
	expect_slot(SLC_SLOT_success); /* the service ended it politely after all */
}

/* A late result must not speak for the state that the breaker has now. */
/* A client that sends its request byte by byte holds its slot no longer than one that sends none. */
static void test_probe_of_a_client_that_drips(void **state)
{
	const struct slc_probe *probe = &rig->probe[slot];
	uint64_t deadline;

	(void)state;
	NEED_CGROUP();
	half_open(5);
	open_it();
	expect_slot(SLC_SLOT_probe);
	deadline = probe->deadline_ns[0];
	play("q-r");
	expect_slot(SLC_SLOT_probe);
	assert_true(probe->deadline_ns[0] <= deadline);
	play("QA");
	expect_slot(SLC_SLOT_success);
}

static void test_probe_of_an_older_generation(void **state)
{
	(void)state;
	NEED_CGROUP();
	half_open(3);
	open_it();
	play("qQ");
	expect_slot(SLC_SLOT_owed);
	rig->probe[slot].slot[0].generation = 4; /* the slot has been given to another */
	play("X");
	usleep(20000);
	assert_int_equal(rig->probe[slot].slot[0].state, SLC_SLOT_owed);
	assert_int_equal(rig->probe[slot].failed, 0);
}

/* --- others ------------------------------------------------------------------------------------------------------------------------------ */

static uint32_t storages(void)
{
	int fds[2] = {client, server};
	uint32_t count = 0;

	for (int i = 0; i < 2; i++) {
		struct slc_turn turn;

		if (!bpf_map_lookup_elem(bpf_map__fd(rig->skel->maps.slc_turn_of), &fds[i], &turn))
			count++;
	}
	return count;
}

static void test_socket_of_no_service_leaves_nothing(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	assert_int_equal(storages(), 1); /* the service's end only */
	play("qQAxX");
	net_close(listener);
	listener = LISTEN(.addr = SERVER4, .port = 4444, .backlog = 10);
	client = net_connect(CLIENT4, 0, SERVER4, 4444, 2000);
	accept_it();
	assert_int_equal(storages(), 0);
	play("qQAqQ-X");
	expect_only(SLC_OUT_answered, 1);
	assert_int_equal(signals()->turns_begun, 1);
}

static void test_round_trip_times(void **state)
{
	(void)state;
	NEED_CGROUP();
	open_it();
	play("qQAaqQAaxX");
	expect_only(SLC_OUT_answered, 2);
	for (int i = 0; i < 100 && samples(&signals()->rtt) < 2; i++)
		usleep(2000);
	assert_int_equal(samples(&signals()->rtt), 2); /* the first turn and the end; the second came too soon */
	assert_true(signals()->rtt.sum_ns / 2 < 20 * NS_PER_MS);
}

static void test_tenths_of_a_second(void **state)
{
	uint64_t random = 88172645463325252ULL;

	(void)state;
	for (uint64_t tenth = 0; tenth < 3000000000ULL; tenth = tenth * 5 / 4 + 1) {
		for (int off = -1; off <= 1; off++) {
			uint64_t ns = tenth * SLC_TURN_SLOT_NS + off;

			if (tenth || off >= 0)
				assert_int_equal(slc_tenth(ns), ns / SLC_TURN_SLOT_NS);
		}
	}
	for (int i = 0; i < 1000000; i++) {
		uint64_t ns;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		ns = random >> (7 + random % 20); /* up to 4 years */
		assert_int_equal(slc_tenth(ns), ns / SLC_TURN_SLOT_NS);
	}
}

static void test_dist_bins(void **state)
{
	uint64_t lower = 0;

	(void)state;
	for (uint64_t ns = 1; ns < 1ULL << 38; ns += ns / 64 + 1) {
		uint32_t bin = slc_dist_bin(ns);

		assert_in_range(bin, lower, SLC_DIST_BINS - 1);
		lower = bin;
	}
	assert_int_equal(slc_dist_bin(0), 0);
	assert_int_equal(slc_dist_bin((1 << 14) - 1), 0);
	assert_int_equal(slc_dist_bin((1 << 14) + (1 << 9)), 1);
	assert_int_equal(slc_dist_bin(1 << 15), SLC_DIST_OCTAVE);
	assert_int_equal(slc_dist_bin((1ULL << 36) - 1), SLC_DIST_BINS - 1);
	assert_int_equal(slc_dist_bin(~0ULL), SLC_DIST_BINS - 1);
}

/* --- UDP ---------------------------------------------------------------------------------------------------------------------------------- */

static int udp_socket(const char *addr, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval patience = {.tv_sec = 1};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &at.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void udp_ask(int from, struct sockaddr_in *ret_peer, int to)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(53)};
	socklen_t length = sizeof(*ret_peer);
	char bytes[64];

	inet_pton(AF_INET, SERVER4, &at.sin_addr);
	assert_int_equal(sendto(from, "question", 8, 0, (struct sockaddr *)&at, sizeof(at)), 8);
	assert_int_equal(recvfrom(to, bytes, sizeof(bytes), 0, (struct sockaddr *)ret_peer, &length), 8);
}

static void udp_answer(int from, const struct sockaddr_in *peer)
{
	assert_int_equal(sendto(from, "answer", 6, 0, (const struct sockaddr *)peer, sizeof(*peer)), 6);
}

static void test_udp_answer_time(void **state)
{
	struct slc_policy dns = rig_policy("dns");
	struct sockaddr_in peer;
	int service, asker;

	(void)state;
	NEED_CGROUP();
	dns.proto = IPPROTO_UDP;
	slot = rig_service(rig, &dns, SERVER4, 53);
	rig->measure[slot] = measure_of(SLC_TURNS_auto);
	rig->measure[slot].uid = dns.uid;
	service = udp_socket(SERVER4, 53);
	asker = udp_socket(CLIENT4, 5353);
	udp_ask(asker, &peer, service);
	assert_int_equal(unanswered(), 1); /* owed */
	play(".");
	udp_ask(asker, &peer, service); /* again: the first one's time counts */
	udp_answer(service, &peer);
	expect_only(SLC_OUT_answered, 1);
	about(mean_ms(&signals()->latency), SOON_MS);
	udp_answer(service, &peer); /* the second answer is of no turn */
	udp_ask(asker, &peer, service);
	play("-");
	udp_answer(service, &peer);
	expect_filed(SLC_ROW_even, SLC_OUT_slow, 1);
	assert_int_equal(unanswered(), 0);
	udp_ask(asker, &peer, service);
	play("=");
	udp_answer(service, &peer);
	expect_filed(SLC_ROW_even, SLC_OUT_late, 1);
	assert_int_equal(filed_in_all(), 3);
	assert_int_equal(unanswered(), 1);
	udp_ask(asker, &peer, service); /* never answered, and asked again after timeout */
	play("=");
	udp_ask(asker, &peer, service);
	udp_answer(service, &peer);
	expect_filed(SLC_ROW_even, SLC_OUT_answered, 2);
	assert_int_equal(unanswered(), 2);
	assert_int_equal(signals()->turns_begun, 5);
	assert_int_equal(signals()->turns_ended, 5);
	assert_int_equal(rings_of(SLC_GRADE_unproven).started, 1); /* then it had an answer */
	close(service);
	close(asker);
}

/* --- all ---------------------------------------------------------------------------------------------------------------------------------- */

static int once(void **state)
{
	(void)state;
	rig_private_network();
	loopback = if_nametoindex("lo");
	cgroup = net_cgroup_enter();
	return 0;
}

static int at_last(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		bpf_link__destroy(links[i]);
	if (cgroup >= 0)
		net_cgroup_leave(cgroup);
	return 0;
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_every_outcome),
		ROW(test_answer_lost_by_the_network),
		ROW(test_latency_runs_from_the_last_request_byte),
		ROW(test_upload_longer_than_timeout),
		ROW(test_keep_alive_counts_every_turn),
		ROW(test_service_that_moves_to_another_port),
		ROW(test_continue_is_no_answer),
		ROW(test_pipelined_requests_are_one_turn),
		ROW(test_retransmitted_request_begins_nothing),
		ROW(test_retransmitted_answer_answers_nothing),
		ROW(test_deferred_accept),
		ROW(test_request_after_the_service_closed),
		ROW(test_server_first),
		ROW(test_tls13_tickets_do_not_answer),
		ROW(test_tls13_finished_alone_owes_nothing),
		ROW(test_tls12),
		ROW(test_tls_request_in_the_handshakes_last_flight),
		ROW(test_tls_handshake_that_fails),
		ROW(test_tls_small_records_owe_nothing),
		ROW(test_deferred_accept_of_tls),
		ROW(test_opaque_files_connections),
		ROW(test_without_programs_all_are_opaque),
		ROW(test_outcomes_of_older_generations),
		ROW(test_first_turn_is_of_the_admission),
		ROW(test_under_pressure),
		ROW(test_owed_under_pressure),
		ROW(test_turns_max),
		ROW(test_admitted_under_pressure),
		ROW(test_unproven_until_a_good_turn),
		ROW(test_known_good_is_proven),
		ROW(test_slow_as_a_failure),
		ROW(test_probe_by_its_outcome),
		ROW(test_probe_of_tls_and_opaque),
		ROW(test_opaque_probe_that_hears_nothing),
		ROW(test_probe_of_a_client_that_drips),
		ROW(test_probe_of_an_older_generation),
		ROW(test_socket_of_no_service_leaves_nothing),
		ROW(test_round_trip_times),
		ROW(test_tenths_of_a_second),
		ROW(test_dist_bins),
		ROW(test_udp_answer_time),
	};

	return cmocka_run_group_tests(tests, once, at_last);
}
