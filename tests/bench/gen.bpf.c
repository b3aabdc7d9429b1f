// SPDX-License-Identifier: GPL-2.0-only
/*
 * gen.bpf.c: the load of the bench. `gen` makes each live frame another SYN (or ACK) and redirects it into a veth,
 * `wrap` does the same and tail-calls the program under test (BPF_PROG_TEST_RUN without frames), the bare programs
 * are what everything is compared with. Those are multi-buffer programs because the one under test is where the
 * kernel has it, and a table of tail calls takes one kind only.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "tests/bench/gen.h"

struct gen_config config; /* user writes, before each slice */
__u64 ideal_tat; /* of the bucket for comparison; user zeroes */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gen_state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} under_test SEC(".maps");

/* splitmix64: a different number for each counter, the same in each run. */
static __always_inline __u64 scatter(__u64 x)
{
	x *= 0x9e3779b97f4a7c15ULL;
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* One of `sources` addresses from GEN_FIRST_SOURCE on, or any unicast address that a parser takes for a client. */
static __always_inline __u32 source_of(__u64 counter, __u64 dice)
{
	__u32 high = dice >> 32;

	if (config.sources) {
		__u32 nth = config.sweep ? counter % config.sources : (__u64)high * config.sources >> 32;
		return GEN_FIRST_SOURCE + nth;
	}
	if (high >> 24 == 0 || high >> 24 == 10 || high >> 24 == 127 || high >> 24 >= 224)
		high = (high & 0x3fffffff) | 0x40000000; /* 64.0.0.0/2, */
	if (high >> 24 == 127)
		high ^= 0x01000000; /* but not loopback */
	return high;
}

static __always_inline int make_frame(struct xdp_md *ctx, struct gen_state *s)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	__u32 saddr, sum;
	__u64 dice, counter;

	if ((void *)(tcp + 1) > end)
		return -1;
	counter = s->counter++;
	dice = scatter(counter + ((__u64)bpf_get_smp_processor_id() << 48));
	saddr = bpf_htonl(source_of(counter, dice));

	/* Each frame is a flow of its own: a limiter that knows retransmits must not take it for one. */
	ip->saddr = saddr;
	sum = config.ip_sum + (saddr & 0xffff) + (saddr >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
	tcp->source = bpf_htons(1024 + (dice & 0x7fff));
	tcp->seq = (__u32)(dice >> 8) ^ (__u32)counter;
	return 0;
}

/*
 * What an exact limiter would do with the frames as they are really sent: a generator that loses its CPU for a while
 * offers less than it should, and nobody can admit that later.
 */
static __always_inline int ideal_take(__u64 now)
{
	for (int i = 0; i < 16; i++) {
		__u64 tat = *(volatile __u64 *)&ideal_tat, base = tat > now ? tat : now;

		if (base + config.interval_ns - now > config.depth_ns)
			return 0;
		if (__sync_val_compare_and_swap(&ideal_tat, tat, base + config.interval_ns) == tat)
			return 1;
	}
	return 0;
}

/* A frame is due when its time has come; one that is late does not put the next off. */
static __always_inline int is_due(struct gen_state *s)
{
	__u64 now = bpf_ktime_get_ns();

	if (now < s->due_ns || now > config.until_ns)
		return 0;
	if (!s->first_ns)
		s->due_ns = s->first_ns = now;
	s->due_ns += config.pace_ns;
	s->ideal += ideal_take(now);
	s->last_ns = now;
	return 1;
}

SEC("xdp")
int gen(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct gen_state *s = bpf_map_lookup_elem(&state, &zero);

	if (!s)
		return XDP_ABORTED;
	if (config.pace_ns && !is_due(s))
		return XDP_DROP;
	return make_frame(ctx, s) ? XDP_ABORTED : bpf_redirect(config.ifindex, 0);
}

SEC("xdp.frags")
int wrap(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct gen_state *s = bpf_map_lookup_elem(&state, &zero);

	if (s && !make_frame(ctx, s))
		bpf_tail_call(ctx, &under_test, 0);
	return XDP_ABORTED;
}

SEC("xdp.frags")
int bare_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp.frags")
int bare_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* What the memory alone costs: one line of as many bytes as a table of 1 M sources has, no parser, no limiter. */
struct line {
	__u64 word[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GEN_LINES);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

SEC("xdp.frags")
int bare_touch(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct line *line;
	__u32 index;

	if ((void *)(ip + 1) > end)
		return XDP_ABORTED;
	index = scatter(ip->saddr) & (GEN_LINES - 1);
	line = bpf_map_lookup_elem(&lines, &index);
	if (line)
		line->word[0]++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
