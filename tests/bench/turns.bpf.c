// SPDX-License-Identifier: GPL-2.0-only
/*
 * turns.bpf.c: the same packet again and again through a cgroup_skb program. BPF_PROG_TEST_RUN gives all its repeats one
 * socket, so that the wrapper first puts the socket's storage back to what the phase under test begins with, then
 * tail-calls the program under test, or the empty one, which is what it is compared with. One of each for both
 * directions: a table of tail calls takes programs of one attach type only.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tests/bench/turns.h"

struct turns_config config; /* user writes, before each run */

/* The datapath's own map takes its place. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slc_turn);
} slc_turn_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} ingress_under_test SEC(".maps"), egress_under_test SEC(".maps");

static __always_inline int prepare(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct slc_turn *turn;

	if (!sk)
		return -1;
	if (!config.measured)
		return 0;
	turn = bpf_sk_storage_get(&slc_turn_of, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!turn)
		return -1;
	turn->uid = config.turn.uid;
	turn->state = config.turn.state;
	turn->flags = config.turn.flags;
	turn->generation = config.turn.generation;
	turn->begun_ns = config.turn.begun_ns;
	turn->last_ns = config.turn.last_ns;
	turn->answer_ns = config.turn.answer_ns;
	turn->silence_ns = config.turn.silence_ns;
	turn->established_ns = config.turn.established_ns;
	turn->rcv_high = config.turn.rcv_high;
	turn->snd_high = config.turn.snd_high;
	return 0;
}

/* 1: passed, by the program under test. */
SEC("cgroup_skb/ingress")
int wrap_ingress(struct __sk_buff *skb)
{
	if (!prepare(skb))
		bpf_tail_call(skb, &ingress_under_test, 0);
	return 0;
}

SEC("cgroup_skb/egress")
int wrap_egress(struct __sk_buff *skb)
{
	if (!prepare(skb))
		bpf_tail_call(skb, &egress_under_test, 0);
	return 0;
}

SEC("cgroup_skb/ingress")
int empty_ingress(struct __sk_buff *skb)
{
	return 1;
}

SEC("cgroup_skb/egress")
int empty_egress(struct __sk_buff *skb)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
