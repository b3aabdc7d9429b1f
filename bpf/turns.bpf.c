// SPDX-License-Identifier: GPL-2.0-only
/*
 * turns.bpf.c: requests and answers, at the root of cgroup2. Every packet of every socket of the host comes by, so
 * first comes what costs least: a socket on no service's port is none of ours, nor is a TCP one without our storage.
 *
 * A packet starts at its IP header and always passes; IPv6 with extension headers is not looked at. What is in TLS or
 * of HTTP/2 is not read: bytes and silence only.
 */
#include "maps/maps.bpf.h"

#include "http.h"
#include "peer.h"
#include "tls.h"
#include "turn.h"
#include "udp.h"
#include "udp_turn.h"

/*
 * Set before load where cgroup_skb programs may ask for the cookie (not yet on 6.1 and 6.12): else any namespace's answer
 * counts.
 */
const volatile __u8 slc_egress_cookie = 0;

struct segment {
	__u32 seq, next; /* sequence number of the first byte, and after the last */
	__u32 at, end; /* offset of the payload, and of what is behind it */
	__u8 flags;
};

/* Headers are in the linear part: the stack has looked at them. */
static __always_inline _Bool segment_of(struct __sk_buff *skb, struct segment *segment)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct slc_tcp *tcp;
	__u32 l4 = sizeof(struct slc_ip6);

	if (skb->protocol == SLC_BE16(ETH_P_IP)) {
		const struct slc_ip4 *ip = data;

		if ((void *)(ip + 1) > end)
			return 0;
		l4 = (ip->version_ihl & 15) * 4;
	} else {
		if (data + l4 > end)
			return 0;
	}
	tcp = data + l4;
	if ((void *)(tcp + 1) > end)
		return 0;
	segment->flags = tcp->flags;
	segment->at = l4 + (tcp->doff >> 4) * 4;
	segment->end = skb->len;
	segment->seq = SLC_BE32(tcp->seq);
	segment->next = segment->seq + segment->end - segment->at;
	return segment->at <= segment->end;
}

/* Bytes that were not there before; the sequence number of the newest is kept. Retransmits have none. */
static __always_inline _Bool brings_news(const struct segment *segment, __u32 *high)
{
	if (segment->at == segment->end || (__s32)(segment->next - *high) <= 0)
		return 0;
	*high = segment->next;
	return 1;
}

/* --- what the client sends --------------------------------------------------------------------------------------- */

static __always_inline __u8 byte_at(struct __sk_buff *skb, __u32 at)
{
	__u8 byte = 0;

	bpf_skb_load_bytes(skb, at, &byte, sizeof(byte));
	return byte;
}

/* turns: auto. Records are told by type and version: the first segment may have come with the handshake's last ACK. */
static __always_inline void peek(struct __sk_buff *skb, struct slc_turn *turn, __u32 at)
{
	__u8 type = byte_at(skb, at), version = byte_at(skb, at + 1);

	if (type >= SLC_TLS_CHANGE_CIPHER && type <= SLC_TLS_DATA && version == 3)
		slc_turn_set(turn, SLC_T_TLS);
	slc_turn_set(turn, SLC_T_PEEKED);
}

static __always_inline __u32 asks(struct __sk_buff *skb, struct slc_turn *turn, const struct segment *segment)
{
	__u32 ask;

	if (!(turn->flags & SLC_T_PEEKED))
		peek(skb, turn, segment->at);
	if (!(turn->flags & SLC_T_TLS))
		return SLC_ASK_request;
	ask = slc_tls_ask(skb, segment->at, segment->end, turn->flags & SLC_T_FINISHED_NEXT);
	if (ask & SLC_ASK_FINISHED_NEXT && !(turn->flags & SLC_T_OWED))
		slc_turn_set(turn, SLC_T_FINISHED_NEXT);
	else if (turn->flags & SLC_T_FINISHED_NEXT)
		slc_turn_take(turn, SLC_T_FINISHED_NEXT);
	ask &= SLC_ASK_MASK;
	return ask == SLC_ASK_small && !(turn->flags & SLC_T_HAD_TURN) ? SLC_ASK_request : ask;
}

/* A request while its answer is owed: it was not complete. */
static __always_inline void asked_more(const struct slc_desk *desk, struct slc_turn *turn, __u32 ask)
{
	if (turn->flags & SLC_T_HANDSHAKE && (ask == SLC_ASK_request || ask == SLC_ASK_small)) {
		slc_turn_take(turn, SLC_T_HANDSHAKE | SLC_T_FIRST);
		slc_turn_set(turn, SLC_T_HAD_TURN);
	}
	slc_turn_restart(desk, turn);
}

static __always_inline void asked(struct __sk_buff *skb, const struct slc_desk *desk, struct slc_turn *turn,
				  const struct segment *segment)
{
	enum slc_ask ask = asks(skb, turn, segment);
	__u32 kind = 0;

	if (turn->flags & SLC_T_OWED) {
		asked_more(desk, turn, ask);
		return;
	}
	if (ask == SLC_ASK_small && turn->flags & SLC_T_ANSWERING) {
		turn->last_ns = desk->now;
		return;
	}
	if (slc_turn_take(turn, SLC_T_ANSWERING))
		slc_turn_file_answer(desk, turn);
	if (ask == SLC_ASK_nothing || turn->flags & SLC_T_SERVICE_FIN)
		return;
	if (ask == SLC_ASK_handshake)
		kind = SLC_T_HANDSHAKE;
	else if (ask == SLC_ASK_small)
		kind = SLC_T_SOFT;
	slc_turn_begin(desk, turn, kind);
}

static __always_inline void from_client(struct __sk_buff *skb, struct slc_turn *turn)
{
	struct segment segment;
	struct slc_desk desk;
	_Bool news;

	if (!segment_of(skb, &segment))
		return;
	news = brings_news(&segment, &turn->rcv_high);
	if (segment.flags & SLC_TCP_RST)
		slc_turn_set(turn, SLC_T_CLIENT_RST);
	if (!news && !(segment.flags & SLC_TCP_FIN))
		return;
	if (!slc_desk_open(&desk, turn->state, turn->uid, bpf_ktime_get_ns()))
		return;
	if (news)
		asked(skb, &desk, turn, &segment);
	if (segment.flags & SLC_TCP_FIN && segment.next == turn->rcv_high) {
		slc_turn_set(turn, SLC_T_CLIENT_FIN);
		slc_turn_client_left(&desk, turn);
	}
}

/* --- what the service sends -------------------------------------------------------------------------------------- */

/* Status of a plaintext answer, 0 where there is none; a "100 Continue" before it in the same segment is skipped. */
static __always_inline __u32 status_of(struct __sk_buff *skb, const struct segment *segment)
{
	__u32 status = slc_http_status(skb, segment->at);

	if (status == 100 && segment->end - segment->at > SLC_HTTP_CONTINUE_LENGTH)
		return slc_http_status(skb, segment->at + SLC_HTTP_CONTINUE_LENGTH);
	return status;
}

/* The first request came with the handshake's last ACK, where nobody could look into it: a ServerHello tells. */
static __always_inline void peek_answer(struct __sk_buff *skb, struct slc_turn *turn, __u32 at)
{
	slc_turn_set(turn, SLC_T_PEEKED);
	if (byte_at(skb, at) != SLC_TLS_HANDSHAKE || byte_at(skb, at + 1) != 3)
		return;
	slc_turn_take(turn, SLC_T_HAD_TURN);
	slc_turn_set(turn, SLC_T_TLS | SLC_T_HANDSHAKE);
}

/* Smoothed by the kernel: every turn's would tell nothing more than one of a second. */
static __always_inline void rtt_note(const struct slc_desk *desk, struct bpf_sock *sk)
{
	const struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);

	if (tcp && tcp->srtt_us)
		slc_dist_add(&desk->signals->rtt, (__u64)(tcp->srtt_us >> 3) * 1000);
}

/* False: what came is no answer, or nobody waits for one. */
static __always_inline _Bool answered(struct __sk_buff *skb, const struct slc_desk *desk, struct slc_turn *turn,
				      const struct segment *segment)
{
	__u32 status = 0;

	if (!(turn->flags & SLC_T_PEEKED) && turn->flags & SLC_T_OWED && !(turn->flags & SLC_T_GREETING))
		peek_answer(skb, turn, segment->at);
	if (!(turn->flags & SLC_T_TLS))
		status = status_of(skb, segment);
	if (slc_http_provisional(status))
		return 0;
	if (slc_turn_take(turn, SLC_T_OWED))
		slc_turn_answered(desk, turn, slc_http_failed(desk->measure, status));
	else if (slc_turn_take(turn, SLC_T_LEFT))
		slc_turn_answered_unowed(desk, turn, 1);
	else if (slc_turn_take(turn, SLC_T_SOFT))
		slc_turn_answered_unowed(desk, turn, 0);
	else
		return 0;
	return 1;
}

static __always_inline void from_service(struct __sk_buff *skb, struct bpf_sock *sk, struct slc_turn *turn)
{
	struct segment segment;
	struct slc_desk desk;
	_Bool news, fin, due;

	if (!segment_of(skb, &segment))
		return;
	news = brings_news(&segment, &turn->snd_high);
	fin = segment.flags & SLC_TCP_FIN && !(turn->flags & SLC_T_SERVICE_FIN);
	if (news && turn->flags & SLC_T_ANSWERING && !(turn->flags & SLC_T_OWED)) {
		slc_turn_ends_silence(turn, bpf_ktime_get_ns());
		news = 0;
	}
	if ((!news || !(turn->flags & (SLC_T_OWED | SLC_T_LEFT | SLC_T_SOFT))) && !fin)
		return;
	if (!slc_desk_open(&desk, turn->state, turn->uid, bpf_ktime_get_ns()))
		return;
	due = slc_turn_note_due(turn, desk.now);
	if (news && answered(skb, &desk, turn, &segment) && due)
		rtt_note(&desk, sk);
	if (fin) {
		slc_turn_set(turn, SLC_T_SERVICE_FIN);
		slc_turn_service_left(&desk, turn);
	}
}

/* --- UDP --------------------------------------------------------------------------------------------------------- */

/* The datagram's other end, for a socket on a service's port. */
static __always_inline _Bool datagram_of(struct __sk_buff *skb, struct slc_peer *peer, _Bool from_us)
{
	struct slc_addr source, target;
	struct slc_udp udp;
	__u32 l4;

	if (skb->protocol == SLC_BE16(ETH_P_IP)) {
		struct slc_ip4 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.proto != SLC_PROTO_UDP)
			return 0;
		l4 = (ip.version_ihl & 15) * 4;
		slc_addr_v4(&source, ip.saddr);
		slc_addr_v4(&target, ip.daddr);
	} else if (skb->protocol == SLC_BE16(ETH_P_IPV6)) {
		struct slc_ip6 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.next != SLC_PROTO_UDP)
			return 0;
		l4 = sizeof(ip);
		__builtin_memcpy(&source, ip.saddr, sizeof(source));
		__builtin_memcpy(&target, ip.daddr, sizeof(target));
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes(skb, l4, &udp, sizeof(udp)))
		return 0;
	peer->local = from_us ? source : target;
	peer->remote = from_us ? target : source;
	peer->lport = SLC_BE16(from_us ? udp.sport : udp.dport);
	peer->rport = SLC_BE16(from_us ? udp.dport : udp.sport);
	return 1;
}

/* Answers of UDP services stamp their flow, whether or not anything is measured. */
static __always_inline void datagram(struct __sk_buff *skb, _Bool from_us)
{
	struct slc_peer peer = {.proto = SLC_PROTO_UDP};
	struct slc_desk desk;
	__u64 now, flow;

	if (!datagram_of(skb, &peer, from_us))
		return;
	if (!slc_peer_find(&peer, slc_egress_cookie ? bpf_get_netns_cookie(skb) : SLC_ANY_NETNS))
		return;
	slc_peer_hash(&peer);
	flow = slc_peer_flow(&peer, 0);
	now = bpf_ktime_get_ns();
	if (from_us)
		slc_udp_stamp(peer.control, flow, now);
	else
		slc_udp_claim(&peer);
	if (!slc_desk_open(&desk, peer.state, peer.policy->uid, now) || desk.measure->turns == SLC_TURNS_opaque)
		return;
	if (from_us)
		slc_udp_answer(&desk, &peer, flow);
	else
		slc_udp_asked(&desk, &peer, flow);
}

/*
 * Most sockets of a host are none of ours, and their port tells: a look that costs a tenth of a call for the socket's
 * storage. A connection keeps its storage when its service moves to another port, so ports that were a service's once
 * count too; pins of an older program do not know them until a snapshot is applied.
 */
static __always_inline const struct slc_ports *ports_of(const struct bpf_sock *sk)
{
	__u32 port = sk->src_port;
	const struct slc_ports *ports = slc_ports_get(port);

	return ports && slc_port_in(ports->tcp | ports->once | ports->udp, port) ? ports : NULL;
}

/* Of IPv6 the first header after the fixed one: what comes behind others is not looked at. */
static __always_inline __u8 protocol_of(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct slc_ip4 *ip4 = data;
	const struct slc_ip6 *ip6 = data;

	if ((void *)(ip4 + 1) > end)
		return SLC_PROTO_NONE;
	return skb->protocol == SLC_BE16(ETH_P_IP) ? ip4->proto : ip6->next;
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

static __always_inline void look(struct __sk_buff *skb, _Bool from_us)
{
	struct bpf_sock *sk = skb->sk;
	const struct slc_ports *ports = sk ? ports_of(sk) : NULL;
	struct slc_turn *turn;
	__u8 protocol;

	if (!ports)
		return;
	protocol = protocol_of(skb);
	if (protocol == SLC_PROTO_TCP) {
		turn = bpf_sk_storage_get(&slc_turn_of, sk, NULL, 0);
		if (turn && from_us)
			from_service(skb, sk, turn);
		else if (turn)
			from_client(skb, turn);
	} else if (protocol == SLC_PROTO_UDP && slc_port_in(ports->udp, sk->src_port)) {
		datagram(skb, from_us);
	}
}

SEC("cgroup_skb/ingress")
int slc_ingress(struct __sk_buff *skb)
{
	look(skb, 0);
	return 1;
}

SEC("cgroup_skb/egress")
int slc_egress(struct __sk_buff *skb)
{
	look(skb, 1);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
