// SPDX-License-Identifier: GPL-2.0-only
#include "maps/maps.bpf.h"

SEC("xdp")
int slc_xdp(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct slc_control *c = bpf_map_lookup_elem(&slc_control, &zero);

	struct slc_service_key k = {};
	struct slc_trust_key t = {};
	struct slc_service_key *inner = bpf_map_lookup_elem(&slc_services, &zero);
	struct slc_service *s = inner ? bpf_map_lookup_elem(inner, &k) : NULL;
	void *lpm = bpf_map_lookup_elem(&slc_trust, &zero);
	struct slc_rule *r = lpm ? bpf_map_lookup_elem(lpm, &t) : NULL;

	return c && s && s->uid && r && r->id ? XDP_PASS : XDP_ABORTED;
}

SEC("xdp")
int slc_xdp_nogate(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("syscall")
int slc_sweep(struct slc_sweep *arg)
{
	arg->rewritten = 0;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
