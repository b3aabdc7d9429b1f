// SPDX-License-Identifier: GPL-2.0-only
/*
 * sockops.bpf.c: connection life, at the root of cgroup2 so that it does not matter who opened a socket. Arrival rings of
 * listeners, handshake times, open connections by service and source, and the facts that earn a source its good name.
 *
 * There is no callback for accept(): the ring says when connections arrived, the listener's backlog how many still wait.
 */
#include "maps/maps.bpf.h"

#include "conn.h"
#include "kernel.h"
#include "peer.h"
#include "udp.h"

#define AF_INET 2
#define AF_INET6 10

/* One context field, read where it is written: clang would merge loads at computed offsets, which are refused. */
#define FIELD(to, from)            \
	do {                       \
		__u32 v_ = (from); \
		SLC_OPAQUE(v_);    \
		(to) = v_;         \
	} while (0)

/* local_port is in host order, remote_port in network order in the upper half of 32 bits. */
static __always_inline void peer_of(struct bpf_sock_ops *ctx, struct slc_peer *peer)
{
	__be32 local4, remote4;

	peer->proto = SLC_PROTO_TCP;
	peer->lport = ctx->local_port;
	peer->rport = SLC_BE32(ctx->remote_port);
	FIELD(local4, ctx->local_ip4);
	FIELD(remote4, ctx->remote_ip4);
	FIELD(peer->local.word[0], ctx->local_ip6[0]);
	FIELD(peer->local.word[1], ctx->local_ip6[1]);
	FIELD(peer->local.word[2], ctx->local_ip6[2]);
	FIELD(peer->local.word[3], ctx->local_ip6[3]);
	FIELD(peer->remote.word[0], ctx->remote_ip6[0]);
	FIELD(peer->remote.word[1], ctx->remote_ip6[1]);
	FIELD(peer->remote.word[2], ctx->remote_ip6[2]);
	FIELD(peer->remote.word[3], ctx->remote_ip6[3]);
	if (ctx->family == AF_INET) {
		slc_addr_v4(&peer->local, local4);
		slc_addr_v4(&peer->remote, remote4);
	}
}

static __always_inline void watch_states(struct bpf_sock_ops *ctx)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* A wildcard listener may serve several services: its ring belongs to none of them. */
static __always_inline _Bool listens_for_us(struct slc_peer *peer, __u64 cookie)
{
	const struct slc_control *control;
	const struct slc_global *global;

	if (slc_peer_find(peer, cookie))
		return 1;
	control = slc_control_get();
	if (!control || !slc_peer_is_service_port(peer))
		return 0;
	global = &control->global[READ_ONCE(control->active) & 1];
	return !global->has_netns || global->netns_cookie == cookie;
}

/* listen(): also again on a socket that listens already, which keeps its ring. */
static __always_inline void on_listen(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct slc_peer peer = {};
	struct slc_arrivals *ring;
	struct slc_signals *signals;
	struct slc_mark *mark;
	__u64 cookie;
	__u32 zero = 0, state;
	void *blank;

	if (!sk)
		return;
	peer_of(ctx, &peer);
	if (!listens_for_us(&peer, bpf_get_netns_cookie(ctx)))
		return;
	mark = bpf_sk_storage_get(&slc_marks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	blank = bpf_map_lookup_elem(&slc_blank, &zero);
	if (!mark || !blank)
		return;
	mark->listener = cookie = bpf_get_socket_cookie(ctx);
	watch_states(ctx);
	bpf_map_update_elem(&slc_arrivals, &cookie, blank, BPF_NOEXIST);
	ring = bpf_map_lookup_elem(&slc_arrivals, &cookie);
	if (ring) {
		ring->since_ns = bpf_ktime_get_ns();
		ring->state = peer.state;
		if (peer.policy)
			ring->uid = peer.policy->uid;
		return;
	}
	state = peer.state;
	signals = bpf_map_lookup_elem(&slc_signals, &state);
	if (signals)
		__sync_fetch_and_add(&signals->ring_full, 1);
}

/*
 * The child is in the accept queue already. Between taking the slot and stamping it another CPU may read the stamp of
 * SLC_RING connections ago: some nanoseconds in which one SYN may be refused as queue_wait.
 */
static __always_inline void stamp_arrival(struct bpf_sock *sk, __u64 now)
{
	struct slc_mark *mark = bpf_sk_storage_get(&slc_marks, sk, NULL, 0);
	struct slc_arrivals *ring;
	__u64 cookie, slot;

	if (!mark)
		return;
	cookie = mark->listener;
	ring = bpf_map_lookup_elem(&slc_arrivals, &cookie);
	if (!ring)
		return;
	slot = __sync_fetch_and_add(&ring->n, 1);
	WRITE_ONCE(ring->stamp_ns[slot & (SLC_RING - 1)], now);
}

static __always_inline void on_established(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct slc_peer peer = {};
	struct slc_conn *conn;
	__u64 now;

	if (!sk)
		return;
	peer_of(ctx, &peer);
	if (!slc_peer_is_service_port(&peer))
		return;
	now = bpf_ktime_get_ns();
	stamp_arrival(sk, now);
	if (!slc_peer_find(&peer, bpf_get_netns_cookie(ctx)))
		return;
	conn = bpf_sk_storage_get(&slc_conns, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!conn)
		return;
	slc_peer_hash(&peer);
	slc_conn_opened(&peer, conn, ctx->rcv_nxt - 1, now);
	watch_states(ctx);
}

static __always_inline void on_listener_closed(struct bpf_sock *sk)
{
	struct slc_mark *mark = bpf_sk_storage_get(&slc_marks, sk, NULL, 0);
	__u64 cookie;

	if (!mark)
		return;
	cookie = mark->listener;
	bpf_map_delete_elem(&slc_arrivals, &cookie);
}

/*
 * The application's close shows as FIN_WAIT1 or LAST_ACK; CLOSE straight from ESTABLISHED, CLOSE_WAIT or FIN_WAIT1 is a
 * reset by either side. TIME_WAIT is a socket of another kind: ours goes from FIN_WAIT2 or CLOSING to CLOSE then.
 */
static __always_inline void on_state(struct bpf_sock_ops *ctx)
{
	__u32 from = ctx->args[0], to = ctx->args[1];
	struct bpf_sock *sk = ctx->sk;
	struct slc_conn *conn;

	if (!sk)
		return;
	if (from == BPF_TCP_LISTEN) {
		on_listener_closed(sk);
		return;
	}
	conn = bpf_sk_storage_get(&slc_conns, sk, NULL, 0);
	if (!conn)
		return;
	if (to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK)
		slc_conn_released(conn);
	else if (to == BPF_TCP_CLOSE)
		slc_conn_closed(conn, bpf_ktime_get_ns(),
				from == BPF_TCP_LAST_ACK || from == BPF_TCP_FIN_WAIT2 || from == BPF_TCP_CLOSING);
}

SEC("sockops")
int slc_sockops(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_listen(ctx);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_established(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		on_state(ctx);
		break;
	}
	return 1;
}

/* Set before load where cgroup_skb programs may ask for the cookie (not yet on 6.1): else any namespace's answer counts. */
const volatile __u8 slc_egress_cookie = 0;

/* Answers of UDP services stamp their flow. The packet starts at its IP header; it always passes. */
SEC("cgroup_skb/egress")
int slc_egress(struct __sk_buff *skb)
{
	struct slc_peer peer = {.proto = SLC_PROTO_UDP};
	struct slc_udp udp;
	__u32 l4;

	if (skb->protocol == SLC_BE16(ETH_P_IP)) {
		struct slc_ip4 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.proto != SLC_PROTO_UDP)
			return 1;
		l4 = (ip.version_ihl & 15) * 4;
		slc_addr_v4(&peer.local, ip.saddr);
		slc_addr_v4(&peer.remote, ip.daddr);
	} else if (skb->protocol == SLC_BE16(ETH_P_IPV6)) {
		struct slc_ip6 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.next != SLC_PROTO_UDP)
			return 1;
		l4 = sizeof(ip);
		__builtin_memcpy(&peer.local, ip.saddr, sizeof(peer.local));
		__builtin_memcpy(&peer.remote, ip.daddr, sizeof(peer.remote));
	} else {
		return 1;
	}
	if (bpf_skb_load_bytes(skb, l4, &udp, sizeof(udp)))
		return 1;
	peer.lport = SLC_BE16(udp.sport);
	peer.rport = SLC_BE16(udp.dport);
	if (!slc_peer_find(&peer, slc_egress_cookie ? bpf_get_netns_cookie(skb) : SLC_ANY_NETNS))
		return 1;
	slc_peer_hash(&peer);
	slc_udp_stamp(peer.control, slc_peer_flow(&peer, 0), bpf_ktime_get_ns());
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
