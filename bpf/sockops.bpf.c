// SPDX-License-Identifier: GPL-2.0-only
#include "maps/maps.bpf.h"

SEC("sockops")
int slc_sockops(struct bpf_sock_ops *ctx)
{
	__u32 zero = 0;
	struct slc_service_key k = {};
	struct slc_trust_key t = {};
	void *inner = bpf_map_lookup_elem(&slc_services, &zero);
	struct slc_service *s = inner ? bpf_map_lookup_elem(inner, &k) : NULL;
	void *lpm = bpf_map_lookup_elem(&slc_trust, &zero);
	struct slc_rule *r = lpm ? bpf_map_lookup_elem(lpm, &t) : NULL;

	return s && s->uid && r && r->id;
}

SEC("cgroup_skb/egress")
int slc_egress(struct __sk_buff *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
