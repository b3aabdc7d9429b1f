// SPDX-License-Identifier: GPL-2.0-only
/*
 * Malformed and random frames by the million: nothing crashes, and the sum over reasons equals the frames (c149), on
 * two CPUs at once, and on a live interface. SLUICE_FRAMES=20000000 sets how many for each of the two.
 *
 * A frame is a row of parse_cases.h with a few bytes changed, cut or grown, or dice from end to end. The services they
 * may hit have every stage switched on.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/if_link.h>

#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/bpf/net.h"
#include "tests/bpf/parse_cases.h"
#include "tests/bpf/rig.h"

#define FRAMES 1000000
#define LIVE_PART 10 /* so many fewer on the live interface, unless SLUICE_FRAMES says how many */
#define LIVE_MTU 3000
#define BATCH 64

static struct rig *rig;
static struct packet *seeds;

static int setup(void **state)
{
	struct slc_policy web = rig_policy("web"), dns = rig_policy("dns");

	(void)state;
	rig = rig_open(NULL);
	rig_policy_source(&web, 10000, 50);
	rig_policy_wide(&web, 1000, 500, 16, 48);
	rig_policy_total(&web, 1000, 1000);
	rig_policy_gate(&web, 50, 90);
	web.flags |= SLC_P_RESET | SLC_P_VLAN | SLC_P_CONCURRENT | SLC_P_BULKHEAD;
	web.source_concurrent = 10;
	web.total_concurrent = 100000;
	rig_service(rig, &web, SERVER4, 443);
	rig_address(rig, &web, SERVER6, 443);
	dns.proto = IPPROTO_UDP;
	rig_policy_source(&dns, 100000, 5);
	rig_service(rig, &dns, "0.0.0.0", 443);
	rig_address(rig, &dns, "::", 443);
	seeds = calloc(PARSE_CASE_COUNT, sizeof(*seeds));
	for (size_t i = 0; i < PARSE_CASE_COUNT; i++)
		seeds[i] = packet_build(&PARSE_CASES[i].recipe);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(seeds);
	rig_close(rig);
	return 0;
}

/* --- frames -------------------------------------------------------------------------------------------------------------- */

static uint32_t roll(uint64_t *dice, uint32_t below)
{
	*dice ^= *dice >> 12;
	*dice ^= *dice << 25;
	*dice ^= *dice >> 27;
	return (uint64_t)(uint32_t)(*dice * 2685821657736338717ULL >> 32) * below >> 32;
}

static void change_bytes(struct packet *p, uint64_t *dice)
{
	static const uint16_t odd[] = {0,      1,      0x7f, 0x80,   0xff,   0x100,  0x7fff,
				       0x8000, 0xffff, 443,  0x0800, 0x86dd, 0x8100, 60};
	uint32_t head = p->length < 100 ? p->length : 100;

	for (uint32_t n = roll(dice, 5); n; n--) {
		uint32_t at = roll(dice, head - 1);
		uint16_t v = odd[roll(dice, sizeof(odd) / sizeof(*odd))];

		switch (roll(dice, 3)) {
		case 0:
			p->data[at] ^= 1 << roll(dice, 8);
			break;
		case 1:
			p->data[at] = roll(dice, 256);
			break;
		default:
			p->data[at] = v >> 8;
			p->data[at + 1] = v;
		}
	}
}

/* Test runs take frames from an Ethernet header's length on. */
static void change_length(struct packet *p, uint64_t *dice)
{
	uint32_t length = p->length;

	if (roll(dice, 2))
		length = 14 + roll(dice, p->length - 13);
	else
		length += roll(dice, PACKET_MAX - length < 200 ? PACKET_MAX - length + 1 : 200);
	if (length > p->length)
		memset(p->data + p->length, roll(dice, 256), length - p->length);
	p->length = length;
}

static void make_frame(struct packet *p, uint64_t *dice)
{
	const struct packet *seed = &seeds[roll(dice, PARSE_CASE_COUNT)];

	if (!roll(dice, 10)) {
		p->length = 14 + roll(dice, 200);
		for (uint32_t i = 0; i < p->length; i++)
			p->data[i] = roll(dice, 256);
		return;
	}
	p->length = seed->length;
	memcpy(p->data, seed->data, seed->length);
	if (roll(dice, 4))
		change_bytes(p, dice);
	if (!roll(dice, 4))
		change_length(p, dice);
}

/* --- runs ---------------------------------------------------------------------------------------------------------------- */

struct run {
	uint64_t frames; /* each CPU */
	uint64_t action[2][8];
};

static void run(struct rig *r, void *arg, int cpu)
{
	struct run *to = arg;
	uint64_t dice = 0x9e3779b97f4a7c15ULL * (cpu + 1);
	struct packet *p = calloc(1, sizeof(*p));

	for (uint64_t left = to->frames; left; left--) {
		uint32_t action;

		make_frame(p, &dice);
		action = rig_run(r, p, NULL);
		to->action[cpu][action < 8 ? action : 7]++;
	}
	free(p);
}

static uint64_t sum_of(const struct slc_reasons *reasons, enum slc_verdict verdict)
{
	uint64_t sum = 0;

	for (int r = 0; r < SLC_REASON_COUNT; r++)
		sum += rig_reason_verdict(r) == verdict ? rig_reason(reasons, r) : 0;
	return sum;
}

static uint64_t wanted_frames(void)
{
	const char *wanted = getenv("SLUICE_FRAMES");
	char *end;
	uint64_t n;

	if (!wanted)
		return FRAMES;
	n = strtoull(wanted, &end, 10);
	if (*end || n < 1000 || n > 1000000000)
		fail_msg("SLUICE_FRAMES=%s: a number from 1000 to 1000000000 is needed", wanted);
	return n;
}

static void print_reasons(const struct slc_reasons *reasons)
{
	for (int r = 0; r < SLC_REASON_COUNT; r++) {
		if (rig_reason(reasons, r))
			print_message("  %-20s %llu\n", rig_reason_name(r), (unsigned long long)rig_reason(reasons, r));
	}
}

/* Through BPF_PROG_TEST_RUN, where what the packet got can be set against its reason. */
static void test_c149_frames_by_the_million(void **state)
{
	struct run to = {.frames = wanted_frames() / 2};
	struct slc_counters c;
	uint64_t start = rig_now(), action[8] = {0};

	(void)state;
	if (!rig_on_two_cpus(rig, run, &to)) {
		print_message("one CPU only: both halves on it\n");
		run(rig, &to, 0);
		run(rig, &to, 1);
	}
	c = rig_all_counters(rig);
	for (int i = 0; i < 8; i++)
		action[i] = to.action[0][i] + to.action[1][i];
	print_message("%llu frames in %.1f s:\n", (unsigned long long)to.frames * 2, (rig_now() - start) / 1e9);
	print_reasons(&c.enforced);
	assert_int_equal(rig_reason_sum(&c.enforced), to.frames * 2);
	assert_int_equal(action[XDP_PASS], sum_of(&c.enforced, SLC_PASS));
	assert_int_equal(action[XDP_TX], c.resets);
	assert_int_equal(action[XDP_DROP], sum_of(&c.enforced, SLC_DROP) + sum_of(&c.enforced, SLC_REFUSE) - c.resets);
	assert_int_equal(action[XDP_PASS] + action[XDP_TX] + action[XDP_DROP], to.frames * 2);
	/* the frames reach far enough to mean something */
	for (int r = 0; r < SLC_REASON_COUNT; r++) {
		if (r <= SLC_established || r == SLC_admitted || (r >= SLC_malformed && r <= SLC_tiny_fragment))
			assert_true(rig_reason(&c.enforced, r) > 0);
	}
}

/* Sends `count` frames of at most the MTU, a batch a system call. Returns how many the kernel took. */
static uint64_t send_frames(int raw, uint64_t count)
{
	struct packet *p = calloc(BATCH, sizeof(*p));
	struct mmsghdr messages[BATCH] = {0};
	struct iovec parts[BATCH];
	uint64_t dice = 4711, sent = 0;

	while (sent < count) {
		int n;

		for (int i = 0; i < BATCH; i++) {
			do
				make_frame(&p[i], &dice);
			while (p[i].length > LIVE_MTU);
			parts[i] = (struct iovec){.iov_base = p[i].data, .iov_len = p[i].length};
			messages[i].msg_hdr.msg_iov = &parts[i];
			messages[i].msg_hdr.msg_iovlen = 1;
		}
		n = sendmmsg(raw, messages, BATCH, 0);
		sent += n > 0 ? n : 1; /* one that the stack would not send: leave it */
	}
	free(p);
	return sent;
}

/* On a live interface: the program attached natively to a veth, real frames, what passes goes up the stack. */
static void test_c149_frames_on_a_live_interface(void **state)
{
	int index = net_veth("frames0", "frames1", LIVE_MTU), raw = net_raw("frames0");
	uint64_t start = rig_now(), seen = 0, before = ~0ULL, sent;
	struct slc_counters c;

	(void)state;
	if (bpf_xdp_attach(index, rig->program, XDP_FLAGS_DRV_MODE, NULL))
		fail_msg("native XDP on a veth: %s", strerror(errno));
	sent = send_frames(raw, getenv("SLUICE_FRAMES") ? wanted_frames() : FRAMES / LIVE_PART);
	while (seen != before) { /* until the last one has been through */
		usleep(50000);
		before = seen;
		seen = net_xdp_packets("frames1");
	}
	assert_int_equal(bpf_xdp_detach(index, XDP_FLAGS_DRV_MODE, NULL), 0);
	usleep(20000);
	seen = net_xdp_packets("frames1");
	c = rig_all_counters(rig);
	print_message("%llu frames sent, %llu seen by XDP, in %.1f s:\n", (unsigned long long)sent,
		      (unsigned long long)seen, (rig_now() - start) / 1e9);
	print_reasons(&c.enforced);
	assert_true(seen > sent / 2);
	assert_int_equal(rig_reason_sum(&c.enforced), seen);
	close(raw);
}

/* c26: larger than one buffer, through the multi-buffer form of the program. */
static void test_c26_multi_buffer(void **state)
{
	struct rig_sizes sizes = {.frags = 1};
	struct slc_policy web = rig_policy("web");
	struct rig *frags = rig_open(&sizes);
	uint8_t *jumbo = calloc(1, 9014);
	struct packet syn = PACKET(.payload = 1), data = PACKET(.tcp = ACK, .payload = 1);
	struct slc_counters before, after;

	(void)state;
	rig_policy_source(&web, 1000 * NS_PER_S, 5);
	rig_service(frags, &web, SERVER4, 443);
	static const struct {
		const char *name;
		uint16_t total; /* what the IPv4 header says, of 9000 bytes that are there */
		bool syn;
		enum slc_reason reason;
	} rows[] = {
		{"data over three buffers", 9000, false, SLC_established},
		{"SYN with data over three buffers", 9000, true, SLC_admitted},
		{"shorter datagram in a long frame", 4000, false, SLC_established},
		{"datagram one byte longer than the frame", 9001, false, SLC_malformed},
		{"SYN one byte longer than the frame", 9001, true, SLC_malformed},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct packet *from = rows[i].syn ? &syn : &data;
		uint32_t action = 99;
		int err;

		memcpy(jumbo, from->data, from->length);
		jumbo[16] = rows[i].total >> 8;
		jumbo[17] = rows[i].total;
		before = rig_all_counters(frags);
		err = rig_run_bytes(frags, jumbo, 9014, &action);
		if (err == -ENOTSUP || err == -EINVAL) {
			print_message("probe: BPF_PROG_TEST_RUN of multi-buffer frames: %s\n", strerror(-err));
			free(jumbo);
			rig_close(frags);
			skip();
		}
		after = rig_all_counters(frags);
		if (err ||
		    rig_reason(&after.enforced, rows[i].reason) - rig_reason(&before.enforced, rows[i].reason) != 1)
			fail_msg("%s: error %d, %s, %s", rows[i].name, err, rig_action_name(action),
				 rig_difference(&before.enforced, &after.enforced));
	}
	free(jumbo);
	rig_close(frags);
}

#define ROW(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(test_c149_frames_by_the_million),
		ROW(test_c149_frames_on_a_live_interface),
		cmocka_unit_test(test_c26_multi_buffer),
	};

	rig_private_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
