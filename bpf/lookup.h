/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lookup.h: the socket this SYN would reach, by the kernel's own rules: exact 4-tuple, then listener by specific
 * address, wildcard, dual stack and SO_REUSEPORT. The caller releases it.
 */
#ifndef SLC_LOOKUP_H
#define SLC_LOOKUP_H

#include "attempt.h"
#include "kernel.h"

/* `sport` 0 in place of the packet's finds the listener behind a TIME_WAIT socket. */
static __always_inline struct bpf_sock *slc_sk_lookup(struct xdp_md *ctx, const struct slc_attempt *a, __u16 sport)
{
	struct bpf_sock_tuple tuple = {};
	__u64 netns = a->policy->flags & SLC_P_NETNS ? (__u32)a->policy->nsid : (__u64)BPF_F_CURRENT_NETNS;

	if (a->pkt.v6) {
		__builtin_memcpy(tuple.ipv6.saddr, &a->pkt.saddr, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &a->pkt.daddr, 16);
		tuple.ipv6.sport = SLC_BE16(sport);
		tuple.ipv6.dport = SLC_BE16(a->pkt.dport);
		return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), netns, 0);
	}
	tuple.ipv4.saddr = a->pkt.saddr.word[3];
	tuple.ipv4.daddr = a->pkt.daddr.word[3];
	tuple.ipv4.sport = SLC_BE16(sport);
	tuple.ipv4.dport = SLC_BE16(a->pkt.dport);
	return bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), netns, 0);
}

#endif /* SLC_LOOKUP_H */
