// SPDX-License-Identifier: GPL-2.0-only
/*
 * sockops.bpf.c: connection life, at the root of cgroup2 so that it does not matter who opened a socket. Arrival rings
 * of listeners, handshake times, open connections by service and source, and the facts that earn a source its good
 * name.
 *
 * There is no callback for accept(): the ring says when connections arrived, the listener's backlog how many still
 * wait.
 */
#include "maps/maps.bpf.h"

#include "conn.h"
#include "kernel.h"
#include "peer.h"
#include "turn.h"

#define AF_INET 2

/* errno numbers of the kernel that end a connection */
#define ECONNABORTED 103
#define ECONNRESET 104
#define EPIPE 32

/* Set before load where the kernel's BTF is there: else who reset a connection, and what was unread, is not known. */
const volatile __u8 slc_tcp_fields = 0;

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

/* --- turns of a new connection ----------------------------------------------------------------------------------- */

/* Payload of the segment that completed the handshake: of the third ACK (TCP_DEFER_ACCEPT) or the SYN (fast open). */
static __always_inline __u32 payload_of(const struct bpf_sock_ops *ctx)
{
	const struct slc_tcp *tcp = ctx->skb_data;
	__u32 header;

	if ((const void *)(tcp + 1) > ctx->skb_data_end)
		return 0;
	header = (tcp->doff >> 4) * 4;
	return ctx->skb_len > header ? ctx->skb_len - header : 0;
}

/* A ticket of the half-open breaker becomes a probe. */
static __always_inline void probe_established(const struct slc_desk *desk, struct slc_conn *conn)
{
	__u32 slot, generation;
	const struct slc_decision_half *decision = slc_decision_last(desk->state, &generation);

	if (!decision || !(decision->flags & SLC_D_HALF_OPEN))
		return;
	slot = slc_probe_established(slc_probe_of(desk->state), slc_slot_word(conn->tag, generation, SLC_SLOT_ticket),
				     desk->now + desk->measure->timeout_ns);
	if (slot >= SLC_PROBES)
		return;
	conn->probe = slot;
	conn->generation = generation;
	conn->flags |= SLC_C_PROBE;
}

/* What the first bytes need not tell: SLC_T_* by enum slc_turns_mode. */
static __always_inline __u32 flags_of_mode(__u32 mode)
{
	if (mode == SLC_TURNS_auto)
		return 0;
	return mode == SLC_TURNS_tls ? SLC_T_PEEKED | SLC_T_TLS : SLC_T_PEEKED;
}

static __always_inline void turns_open(struct bpf_sock_ops *ctx, const struct slc_desk *desk, struct slc_turn *turn,
				       const struct slc_conn *conn, __u32 grade)
{
	__u32 payload = payload_of(ctx);

	turn->uid = conn->uid;
	turn->state = conn->state;
	turn->cell = conn->cold >> 56;
	turn->cold = conn->cold;
	turn->tag = conn->tag;
	turn->generation = conn->generation;
	turn->probe = conn->probe;
	turn->established_ns = desk->now;
	turn->rcv_high = ctx->rcv_nxt + payload;
	turn->snd_high = ctx->snd_nxt;
	turn->flags = SLC_T_FIRST | grade | flags_of_mode(desk->measure->turns);
	if (conn->flags & SLC_C_PRESSURE)
		turn->flags |= SLC_T_PRESSURE;
	if (conn->flags & SLC_C_PROBE)
		turn->flags |= SLC_T_PROBE;
	if (desk->measure->turns == SLC_TURNS_server_first)
		slc_turn_begin(desk, turn, SLC_T_GREETING);
	else if (payload)
		slc_turn_begin(desk, turn, 0);
}

static __always_inline void measure(struct bpf_sock_ops *ctx, struct bpf_sock *sk, const struct slc_peer *peer,
				    struct slc_conn *conn, __u32 grade, __u64 now)
{
	struct slc_turn *turn = NULL;
	struct slc_desk desk;

	if (!slc_desk_open(&desk, peer->state, peer->policy->uid, now))
		return;
	probe_established(&desk, conn);
	if (desk.measure->turns != SLC_TURNS_opaque && !(peer->control->flags & SLC_F_NO_TURNS))
		turn = bpf_sk_storage_get(&slc_turn_of, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (turn) {
		turns_open(ctx, &desk, turn, conn, grade);
		return;
	}
	conn->flags |= SLC_C_OPAQUE;
	if (conn->flags & SLC_C_PROBE)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
}

static __always_inline void on_established(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct slc_peer peer = {};
	struct slc_conn *conn;
	__u32 grade;
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
	grade = slc_conn_opened(&peer, conn, ctx->rcv_nxt - 1, now);
	measure(ctx, sk, &peer, conn, grade, now);
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

/* --- ends -------------------------------------------------------------------------------------------------------- */

/* The application's close: FIN was sent, or RST straight from these. */
static __always_inline _Bool is_reset_from(__u32 from)
{
	return from == BPF_TCP_ESTABLISHED || from == BPF_TCP_CLOSE_WAIT || from == BPF_TCP_SYN_RECV;
}

/*
 * Without the kernel's fields: a RST by the client was seen on its way in; a RST by the service tells not what it read.
 */
static __always_inline enum slc_end guess_end(const struct bpf_sock_ops *ctx, __u32 from, __u32 turn_flags)
{
	if (turn_flags & SLC_T_CLIENT_RST)
		return SLC_END_client;
	return is_reset_from(from) ? SLC_END_unread : SLC_END_polite;
}

/* The kernel's own reason; 0: none, the application closed or aborted. `unacked`: it waited for an acknowledgement. */
static __always_inline enum slc_end end_by_error(int error, _Bool unacked)
{
	if (error == ECONNRESET || error == EPIPE)
		return SLC_END_client;
	return unacked && error != ECONNABORTED ? SLC_END_lost : SLC_END_unread;
}

/*
 * How the connection ends, at the moment its state becomes CLOSE: a RST by the service is sent after that, one by the
 * client was received before. The client's FIN takes one sequence number, which the application has read at most once.
 */
static __always_inline enum slc_end end_of(struct bpf_sock_ops *ctx, struct bpf_sock *sk, __u32 from, __u32 turn_flags)
{
	_Bool unacked = ctx->snd_una != ctx->snd_nxt;
	struct tcp_sock *tcp;
	__u32 unread;
	int error;

	if (!slc_tcp_fields)
		return guess_end(ctx, from, turn_flags);
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return guess_end(ctx, from, turn_flags);
	error = tcp->inet_conn.icsk_inet.sk.sk_err;
	if (error)
		return end_by_error(error, unacked);
	if (!is_reset_from(from))
		return SLC_END_polite;
	unread = tcp->rcv_nxt - tcp->copied_seq;
	if (from == BPF_TCP_CLOSE_WAIT && unread == 1)
		unread = 0;
	return unread ? SLC_END_unread : SLC_END_service;
}

/* Turns not looked at: whether anything was owed is not known, whether it ended badly is. */
static __always_inline __u32 opaque_kind(const struct bpf_sock_ops *ctx, enum slc_end end)
{
	if (end == SLC_END_service)
		return SLC_OUT_reset;
	if (end == SLC_END_lost)
		return SLC_OUT_net_loss;
	if (!ctx->data_segs_in && !ctx->data_segs_out)
		return SLC_OUT_idle;
	if (end == SLC_END_client && !ctx->data_segs_out)
		return SLC_OUT_gave_up;
	return end == SLC_END_unread ? SLC_OUT_gave_up : SLC_OUT_answered;
}

/* Proven like a turn's source: known-good, or good connections before. */
static __always_inline __u32 opaque_flags(const struct slc_conn *conn)
{
	const struct slc_control *control = slc_control_get();
	const struct slc_cold *cold = control ? slc_cold_find(control, conn->cold) : NULL;
	__u32 flags = conn->flags & SLC_C_PRESSURE ? SLC_T_PRESSURE : 0;

	return flags | slc_proof(conn->class <= SLC_CLASS_known, cold);
}

static __always_inline void opaque_over(const struct slc_desk *desk, struct slc_conn *conn, __u32 kind)
{
	slc_outcome_file(desk, opaque_flags(conn), conn->cold >> 56, conn->generation, kind);
	if (kind == SLC_OUT_answered)
		slc_answer_note(desk);
	if (conn->flags & SLC_C_PROBE)
		slc_probe_move(slc_probe_of(desk->state), conn->probe, slc_slot_word(conn->tag, conn->generation, 0),
			       slc_probe_result(desk, kind), 0);
}

/*
 * A probe without turns that lives for long would never be judged: the client has acknowledged what the service sent, so
 * it does its part. That is the slot's verdict alone; the connection is filed at its end like any other.
 */
static __always_inline void on_acknowledged(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct slc_conn *conn;

	if (!sk || !ctx->data_segs_out)
		return;
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_RTT_CB_FLAG);
	conn = bpf_sk_storage_get(&slc_conns, sk, NULL, 0);
	if (!conn || !(conn->flags & SLC_C_PROBE))
		return;
	conn->flags &= ~SLC_C_PROBE;
	slc_probe_move(slc_probe_of(conn->state), conn->probe, slc_slot_word(conn->tag, conn->generation, 0),
		       SLC_SLOT_success, 0);
}

/* Files what is not filed yet; returns the good turns that the source's entry does not know of. */
static __always_inline __u32 file_end(struct bpf_sock_ops *ctx, struct bpf_sock *sk, struct slc_conn *conn, __u32 from,
				      __u64 now, _Bool polite)
{
	struct slc_turn *turn = bpf_sk_storage_get(&slc_turn_of, sk, NULL, 0);
	enum slc_end end = end_of(ctx, sk, from, turn ? turn->flags : 0);
	__u32 retransmits = ctx->total_retrans, srtt_us = ctx->srtt_us >> 3;
	struct slc_desk desk;

	if (!slc_desk_open(&desk, conn->state, conn->uid, now))
		return turn ? 0 : polite;
	if (retransmits)
		__sync_fetch_and_add(&desk.signals->retransmits, retransmits);
	if (srtt_us)
		slc_dist_add(&desk.signals->rtt, (__u64)srtt_us * 1000);
	if (!turn) {
		if (conn->flags & SLC_C_OPAQUE)
			opaque_over(&desk, conn, opaque_kind(ctx, end));
		return polite;
	}
	slc_turn_over(&desk, turn, end);
	return __sync_fetch_and_and(&turn->good, 0);
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
	_Bool polite;
	__u64 now;

	if (!sk)
		return;
	if (from == BPF_TCP_LISTEN) {
		on_listener_closed(sk);
		return;
	}
	conn = bpf_sk_storage_get(&slc_conns, sk, NULL, 0);
	if (!conn)
		return;
	if (to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK) {
		slc_conn_released(conn);
	} else if (to == BPF_TCP_CLOSE) {
		now = bpf_ktime_get_ns();
		polite = from == BPF_TCP_LAST_ACK || from == BPF_TCP_FIN_WAIT2 || from == BPF_TCP_CLOSING;
		slc_conn_closed(conn, now, polite, file_end(ctx, sk, conn, from, now, polite));
	}
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
	case BPF_SOCK_OPS_RTT_CB:
		on_acknowledged(ctx);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
