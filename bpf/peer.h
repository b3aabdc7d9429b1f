/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * peer.h: who is at the other end of a connection or datagram, in the same terms as the packet path: service, source
 * key, keyed hashes. Used where there is a socket instead of a SYN.
 */
#ifndef SLC_PEER_H
#define SLC_PEER_H

#include "bucket.h"
#include "service.h"

struct slc_peer {
	struct slc_addr local, remote; /* filled by the caller, as are the ports (host order) and proto */
	__u16 lport, rport;
	__u8 proto;
	__u16 state;
	const struct slc_control *control;
	const struct slc_policy *policy;
	struct slc_addr key; /* remote under the policy's prefix */
	__u64 source; /* its keyed hash */
};

static __always_inline void slc_addr_v4(struct slc_addr *addr, __be32 v4)
{
	addr->half[0] = 0;
	addr->word[2] = SLC_BE32(0x0000ffff);
	addr->word[3] = v4;
}

static __always_inline _Bool slc_peer_is_service_port(const struct slc_peer *peer)
{
	const struct slc_ports *ports = slc_ports_get(peer->lport);

	return ports && slc_port_in(peer->proto == SLC_PROTO_UDP ? ports->udp : ports->tcp, peer->lport);
}

#define SLC_ANY_NETNS (~0ULL) /* no namespace's cookie */

/* Sockets of no service end at the port map; those of other namespaces at the cookie. */
static __always_inline _Bool slc_peer_find(struct slc_peer *peer, __u64 netns_cookie)
{
	const struct slc_service *service;
	const struct slc_global *global;
	__u64 active;
	__u32 policy;
	_Bool wildcard; /* the address is a socket's: ours */

	if (!slc_peer_is_service_port(peer))
		return 0;
	peer->control = slc_control_get();
	if (!peer->control)
		return 0;
	active = READ_ONCE(peer->control->active);
	global = &peer->control->global[active & 1];
	service = slc_service_find(global, active & 1, &peer->local, peer->lport, peer->proto, &wildcard);
	if (!service)
		return 0;
	peer->state = service->state;
	policy = service->policy;
	peer->policy = bpf_map_lookup_elem(&slc_policy, &policy);
	if (!peer->policy)
		return 0;
	if (netns_cookie == SLC_ANY_NETNS)
		return 1;
	if (peer->policy->flags & SLC_P_NETNS)
		return peer->policy->netns_cookie == netns_cookie;
	return !global->has_netns || global->netns_cookie == netns_cookie;
}

static __always_inline void slc_peer_hash(struct slc_peer *peer)
{
	peer->key = peer->remote;
	slc_addr_mask(&peer->key, peer->policy->v4_prefix, peer->policy->v6_prefix);
	peer->source = slc_hash_source(peer->control->secret, &peer->key, peer->policy->uid, 0, SLC_TIER_OWN);
}

/* The hash under which the packet path knows this flow: `seq` is the SYN's. */
static __always_inline __u64 slc_peer_flow(const struct slc_peer *peer, __u32 seq)
{
	return slc_hash_flow(peer->source, &peer->remote, &peer->local, peer->rport, peer->lport, seq, peer->proto);
}

#endif /* SLC_PEER_H */
