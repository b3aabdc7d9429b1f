// SPDX-License-Identifier: GPL-2.0-only
/*
 * turns.c: what a packet costs in the programs that look at turns, one kind of packet after the other
 * (BPF_PROG_TEST_RUN behind the wrapper of turns.bpf.c). Each run is counted by what it did to the service's signals.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/turns.h"
#include "bench/turns.skel.h"

#define RUNS 30000 /* repeats of a PROG_TEST_RUN */
#define SEQ 1000000 /* of the packet's first byte */
#define PAYLOAD 1448 /* a full segment at an MTU of 1500, with timestamps */

#define KEPT (SLC_T_PEEKED | SLC_T_HAD_TURN | SLC_T_PROVEN) /* a connection with turns behind it */
#define KEPT_TLS (KEPT | SLC_T_TLS)

static const char request[] = "GET /some/page?with=a&query HTTP/1.1\r\nHost: service.example\r\nAccept: */*\r\n\r\n";
static const char answer[] =
	"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5120\r\n\r\n<!DOCTYPE html>";
static const char record[] = "\x17\x03\x03\x01\x00"; /* TLS application data, 256 bytes */

/* What a packet must have done to the signals. */
enum { BEGINS = 1, ENDS = 2, FILES = 4 };

static const struct kind {
	const char *head; /* of the payload; NULL: a pure ACK */
	size_t length;
	uint32_t flags; /* of the turn before the packet */
	unsigned does;
	bool measured, egress;
} kinds[TURN_PACKETS] = {
	[TURN_OTHER_IN] = {request, sizeof(request) - 1, 0, 0, false, false},
	[TURN_OTHER_OUT] = {answer, sizeof(answer) - 1, 0, 0, false, true},
	[TURN_ACK_IN] = {NULL, 0, KEPT, 0, true, false},
	[TURN_ACK_OUT] = {NULL, 0, KEPT | SLC_T_OWED, 0, true, true},
	[TURN_REQUEST] = {request, sizeof(request) - 1, KEPT, BEGINS, true, false},
	[TURN_MORE] = {"x", PAYLOAD, KEPT | SLC_T_OWED, 0, true, false},
	[TURN_ANSWER] = {answer, sizeof(answer) - 1, KEPT | SLC_T_OWED, ENDS | FILES, true, true},
	[TURN_BULK] = {"x", PAYLOAD, KEPT, 0, true, true},
	[TURN_TLS_REQUEST] = {record, 256 + 5, KEPT_TLS | SLC_T_ANSWERING, BEGINS | FILES, true, false},
	[TURN_TLS_ANSWER] = {record, 256 + 5, KEPT_TLS | SLC_T_OWED, ENDS, true, true},
	[TURN_TLS_BULK] = {record, PAYLOAD, KEPT_TLS | SLC_T_ANSWERING, 0, true, true},
};

const struct turn_packet_info turn_packets[TURN_PACKETS] = {
	[TURN_OTHER_IN] = {"no_service_ingress", "no service, ingress"},
	[TURN_OTHER_OUT] = {"no_service_egress", "no service, egress"},
	[TURN_ACK_IN] = {"ack_ingress", "pure ACK, ingress"},
	[TURN_ACK_OUT] = {"ack_egress", "pure ACK, egress"},
	[TURN_REQUEST] = {"request", "request"},
	[TURN_MORE] = {"request_more", "more of a request"},
	[TURN_ANSWER] = {"answer", "answer, first segment"},
	[TURN_BULK] = {"answer_more", "answer, further segment"},
	[TURN_TLS_REQUEST] = {"tls_request", "TLS request, kept alive"},
	[TURN_TLS_ANSWER] = {"tls_answer", "TLS answer, first segment"},
	[TURN_TLS_BULK] = {"tls_answer_more", "TLS answer, further segment"},
};

const enum turn_packet turn_wholes[TURN_WHOLES][TURN_WHOLE_PACKETS] = {
	{TURN_REQUEST, TURN_ACK_OUT, TURN_ANSWER, TURN_ACK_IN},
	{TURN_TLS_REQUEST, TURN_ACK_OUT, TURN_TLS_ANSWER, TURN_ACK_IN},
};

struct turns {
	struct turns_bpf *skel;
	int fds[TURN_PROGRAMS];
	const struct slc_signals *signals;
	struct slc_policy policy;
	int ports_fd;
};

/* --- the programs ------------------------------------------------------------------------------------------------ */

static bool names_map(int prog_fd, const char *name, uint32_t map_id)
{
	uint32_t ids[64];
	struct bpf_prog_info info = {.map_ids = (uintptr_t)ids, .nr_map_ids = sizeof(ids) / sizeof(ids[0])};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len) || strcmp(info.name, name))
		return false;
	for (uint32_t i = 0; i < info.nr_map_ids && i < sizeof(ids) / sizeof(ids[0]); i++)
		if (ids[i] == map_id)
			return true;
	return false;
}

/* Of all programs of that name in the kernel, the one on our tables. */
static int find_program(const char *name, uint32_t map_id)
{
	for (uint32_t id = 0; !bpf_prog_get_next_id(id, &id);) {
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (names_map(fd, name, map_id))
			return fd;
		close(fd);
	}
	return -ENOENT;
}

static int find_programs(struct turns *turns, int map_fd)
{
	static const char *const names[] = {
		[TURN_INGRESS] = "slc_ingress", [TURN_EGRESS] = "slc_egress", [TURN_SOCKOPS] = "slc_sockops"};
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(map_fd, &info, &len))
		return -errno;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		turns->fds[i] = find_program(names[i], info.id);
		if (turns->fds[i] < 0) {
			fprintf(stderr, "bench: no program %s is loaded\n", names[i]);
			return turns->fds[i];
		}
	}
	turns->fds[TURN_EMPTY_INGRESS] = bpf_program__fd(turns->skel->progs.empty_ingress);
	turns->fds[TURN_EMPTY_EGRESS] = bpf_program__fd(turns->skel->progs.empty_egress);
	return 0;
}

static int load(struct turns *turns, int map_fd)
{
	int r;

	turns->skel = turns_bpf__open();
	if (!turns->skel)
		return -errno;
	r = bpf_map__reuse_fd(turns->skel->maps.slc_turn_of, map_fd);
	return r ?: turns_bpf__load(turns->skel);
}

int turns_make(struct turns **ret, const struct sluice *sluice)
{
	struct turns *turns = calloc(1, sizeof(*turns));
	int map_fd, r;

	if (!turns)
		return -ENOMEM;
	for (int i = 0; i < TURN_PROGRAMS; i++)
		turns->fds[i] = -1;
	turns->ports_fd = sluice_map(sluice, "slc_ports");
	map_fd = sluice_map(sluice, "slc_turn_of");
	r = turns->ports_fd < 0 ? turns->ports_fd : map_fd < 0 ? map_fd : load(turns, map_fd);
	r = r ?: find_programs(turns, map_fd);
	r = r ?: sluice_policy(sluice, PORT_TURNS, &turns->policy);
	if (map_fd >= 0)
		close(map_fd);
	if (r) {
		fprintf(stderr, "bench: the programs that look at turns: %s\n", strerror(-r));
		turns_destroy(&turns);
		return r;
	}
	turns->signals = sluice_signals(sluice, turns->policy.state);
	*ret = turns;
	return 0;
}

void turns_destroy(struct turns **turns)
{
	struct turns *t = *turns;

	*turns = NULL;
	if (!t)
		return;
	for (int i = 0; i <= TURN_SOCKOPS; i++) /* the others belong to the skeleton */
		if (t->fds[i] >= 0)
			close(t->fds[i]);
	if (t->ports_fd >= 0)
		close(t->ports_fd);
	turns_bpf__destroy(t->skel);
	free(t);
}

int turns_program(const struct turns *turns, enum turn_program program)
{
	return turns->fds[program];
}

const struct slc_signals *turns_signals(const struct turns *turns)
{
	return turns->signals;
}

/* --- one kind of packet ------------------------------------------------------------------------------------------- */

struct segment {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t options[12]; /* timestamps */
	uint8_t payload[PAYLOAD];
} __attribute__((packed));

static size_t make_segment(const struct kind *kind, struct segment *segment)
{
	const size_t size = offsetof(struct segment, payload) + kind->length;

	*segment = (struct segment){
		.eth = {.h_proto = htons(ETH_P_IP)},
		.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP},
		.tcp = {.seq = htonl(SEQ), .doff = 8, .ack = 1, .psh = kind->length != 0},
		.options = {1, 1, 8, 10},
	};
	segment->ip.tot_len = htons((uint16_t)(size - sizeof(segment->eth)));
	segment->ip.saddr = segment->ip.daddr = htonl(SERVICE_ADDR_HOST);
	segment->tcp.source = segment->tcp.dest = htons(PORT_TURNS);
	if (kind->head)
		memcpy(segment->payload, kind->head, strlen(kind->head));
	return size;
}

/* The socket of a BPF_PROG_TEST_RUN has port 0, so that this is the service's port, or it is none. */
static int mark_port(struct turns *turns, bool service)
{
	struct slc_ports ports;
	uint32_t zero = 0;
	int r = bpf_map_lookup_elem(turns->ports_fd, &zero, &ports);

	ports.tcp = (ports.tcp & ~1ULL) | service;
	return r ?: bpf_map_update_elem(turns->ports_fd, &zero, &ports, BPF_ANY);
}

static void configure(struct turns *turns, const struct kind *kind)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	turns->skel->bss->config = (struct turns_config){
		.measured = kind->measured,
		.turn = {.uid = turns->policy.uid,
			 .state = turns->policy.state,
			 .flags = kind->flags,
			 .begun_ns = now,
			 .last_ns = now,
			 .answer_ns = now + 1000000,
			 .silence_ns = 1000000,
			 .established_ns = now,
			 .rcv_high = SEQ,
			 .snd_high = SEQ},
	};
}

struct counts {
	uint64_t begun, ended, filed;
};

static struct counts counts_of(const struct turns *turns)
{
	const struct slc_signals *signals = turns->signals;
	struct counts counts = {.begun = signals->turns_begun, .ended = signals->turns_ended};

	for (int row = 0; row <= SLC_ROW_odd; row++)
		counts.filed += signals->outcomes[row][SLC_OUT_answered];
	return counts;
}

/* Every packet did what it is in the table for, or the figure would be one of something else. */
static int did(const struct kind *kind, struct counts before, struct counts after)
{
	const uint64_t runs[2] = {0, RUNS};

	if (after.begun - before.begun == runs[!!(kind->does & BEGINS)] &&
	    after.ended - before.ended == runs[!!(kind->does & ENDS)] &&
	    after.filed - before.filed == runs[!!(kind->does & FILES)])
		return 0;
	fprintf(stderr, "bench: turns, %s: of %u packets %ju began a turn, %ju ended one, %ju were filed\n",
		turn_packets[kind - kinds].label, RUNS, (uintmax_t)(after.begun - before.begun),
		(uintmax_t)(after.ended - before.ended), (uintmax_t)(after.filed - before.filed));
	return -EPROTO;
}

static int run(struct turns *turns, const struct kind *kind, bool empty, double *ret_ns)
{
	const struct bpf_program *wrap =
		kind->egress ? turns->skel->progs.wrap_egress : turns->skel->progs.wrap_ingress;
	const struct bpf_map *table =
		kind->egress ? turns->skel->maps.egress_under_test : turns->skel->maps.ingress_under_test;
	const int fd = turns->fds[(empty ? TURN_EMPTY_INGRESS : TURN_INGRESS) + kind->egress];
	struct segment segment;
	uint32_t zero = 0;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &segment, .repeat = RUNS);
	int r;

	opts.data_size_in = (uint32_t)make_segment(kind, &segment);
	configure(turns, kind);
	r = mark_port(turns, kind->measured);
	r = r ?: bpf_map_update_elem(bpf_map__fd(table), &zero, &fd, BPF_ANY);
	r = r ?: bpf_prog_test_run_opts(bpf_program__fd(wrap), &opts);
	if (r)
		return r;
	*ret_ns = opts.duration;
	return opts.retval == 1 ? 0 : -EPROTO; /* the tail call did not happen */
}

static int measure_kind(struct turns *turns, const struct kind *kind, struct run_cell *cell)
{
	struct counts before;
	double base, ns;
	int r = run(turns, kind, true, &base);

	before = counts_of(turns);
	r = r ?: run(turns, kind, false, &ns);
	r = r ?: did(kind, before, counts_of(turns));
	if (r)
		return r;
	cell->ns[cell->rounds] = ns;
	cell->over[cell->rounds++] = ns - base;
	return 0;
}

int measure_turns(struct bench *bench)
{
	const double until = seconds_now() + (bench->results->quick ? 1.2 : 10);
	int r = turns_introduce(bench);

	for (unsigned round = 0; !r && round < bench->results->rounds; round++) {
		if (round >= BENCH_MIN_ROUNDS && seconds_now() > until)
			break;
		r = bench_stopped ? -EINTR : 0;
		for (int i = 0; !r && i < TURN_PACKETS; i++)
			r = measure_kind(bench->turns, &kinds[i], &bench->results->turns[i]);
	}
	if (r)
		fprintf(stderr, "bench: turns: %s\n", strerror(-r));
	return r;
}

int measure_turns_loop(struct bench *bench, const char *name, double seconds)
{
	struct run_cell cell = {};
	double until = seconds_now() + seconds;
	int i = 0, r = strcmp(name, "live") ? turns_introduce(bench) : measure_turns_live_loop(bench, seconds);

	while (i < TURN_PACKETS && strcmp(turn_packets[i].name, name))
		i++;
	if (i == TURN_PACKETS)
		return strcmp(name, "live") ? -ENOENT : r;
	while (!r && seconds_now() < until) {
		cell.rounds %= BENCH_MAX_ROUNDS;
		r = measure_kind(bench->turns, &kinds[i], &cell);
	}
	if (!r)
		printf("turns, %s: %.0f ns over an empty program\n", turn_packets[i].label,
		       median(cell.over, cell.rounds));
	return r;
}
