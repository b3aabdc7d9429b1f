/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * forward.h: is this packet for another host? Asked of the kernel's own routing (bpf_fib_lookup), which knows local
 * routes, policy rules and addresses that came a moment ago. Only a route that leads on says yes; a gateway that does not
 * forward on this interface keeps everything.
 */
#ifndef SLC_FORWARD_H
#define SLC_FORWARD_H

#include "lookup.h"

#define SLC_AF_INET 2
#define SLC_AF_INET6 10

SLC_VERIFIED_ALONE int slc_forwarded(struct xdp_md *ctx, const struct slc_pkt *pkt)
{
	struct bpf_fib_lookup fib = {};
	long r;

	if (!pkt)
		return 0;
	fib.ifindex = ctx->ingress_ifindex;
	fib.l4_protocol = pkt->proto;
	fib.sport = SLC_BE16(pkt->sport);
	fib.dport = SLC_BE16(pkt->dport);
	if (pkt->v6) {
		fib.family = SLC_AF_INET6;
		__builtin_memcpy(fib.ipv6_src, &pkt->saddr, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, &pkt->daddr, sizeof(fib.ipv6_dst));
	} else {
		fib.family = SLC_AF_INET;
		fib.ipv4_src = pkt->saddr.word[3];
		fib.ipv4_dst = pkt->daddr.word[3];
	}
	r = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	return r == BPF_FIB_LKUP_RET_SUCCESS || r == BPF_FIB_LKUP_RET_NO_NEIGH || r == BPF_FIB_LKUP_RET_FRAG_NEEDED ||
	       r == BPF_FIB_LKUP_RET_BLACKHOLE || r == BPF_FIB_LKUP_RET_UNREACHABLE || r == BPF_FIB_LKUP_RET_PROHIBIT ||
	       r == BPF_FIB_LKUP_RET_UNSUPP_LWT;
}

#endif /* SLC_FORWARD_H */
