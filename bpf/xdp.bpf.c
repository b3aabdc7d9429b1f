// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp.bpf.c: the packet path. Every packet is parsed once and gets one reason; attempts to reach a service go through
 * the stages below, in this order, and the first that refuses ends the way.
 *
 * Two programs from one pipeline: slc_xdp with the accept-queue gate, which needs the kernel's BTF, and
 * slc_xdp_nogate for kernels without it.
 */
#include "maps/maps.bpf.h"

#include "attempt.h"
#include "breaker.h"
#include "bulkhead.h"
#include "decision.h"
#include "flow.h"
#include "forward.h"
#include "gate.h"
#include "parse.h"
#include "pending.h"
#include "service.h"
#include "source.h"
#include "total.h"
#include "trust.h"
#include "udp.h"
#include "verdict.h"

/* Set before load where the kernel takes multi-buffer programs (5.18): the frame may be longer than its first buffer. */
const volatile __u8 slc_frags = 0;

static __always_inline int commit(struct slc_attempt *a)
{
	int reason = slc_total_commit(a);

	if (reason != SLC_NEXT) {
		if (a->has_ticket)
			slc_ticket_return(a);
		return reason;
	}
	slc_slice_count(a->total, a->decision, a->now, a->class, 0);
	slc_flow_admit(a);
	if (a->was_admitted)
		return SLC_retransmit;
	a->counters->admitted[a->class & 3]++;
	return SLC_admitted;
}

/* Allowed sources: the total is charged and not asked. */
static __always_inline int commit_allowed(struct slc_attempt *a, int reason)
{
	slc_class_settle(a);
	a->unasked = 1;
	slc_total_commit(a);
	if (a->pkt.proto == SLC_PROTO_TCP) {
		slc_flow_choose(a);
		slc_flow_record(a);
		slc_flow_admit(a);
	}
	slc_slice_count(a->total, a->decision, a->now, a->class, 0);
	a->counters->attempts++;
	a->counters->admitted[a->class & 3]++;
	return reason;
}

#define STAGE(call)                 \
	do {                        \
		int r_ = (call);    \
		if (r_ != SLC_NEXT) \
			return r_;  \
	} while (0)

static __always_inline int attempt_stages(struct xdp_md *ctx, struct slc_attempt *a, _Bool gate)
{
	_Bool tcp = a->pkt.proto == SLC_PROTO_TCP;

	if (tcp)
		STAGE(slc_stage_repeat(ctx, a));
	if (!a->repeat) {
		a->counters->attempts++;
		STAGE(slc_stage_source(a));
		if (tcp)
			slc_flow_record(a);
	}
	STAGE(slc_stage_concurrency(a));
	slc_class_settle(a);
	STAGE(slc_stage_bulkhead(a));
	STAGE(slc_stage_total(a));
	if (gate && tcp)
		STAGE(slc_stage_gate(ctx, a));
	STAGE(slc_stage_breaker(ctx, a));
	return commit(a);
}

static __always_inline int attempt(struct xdp_md *ctx, struct slc_attempt *a, int kind, _Bool gate)
{
	int reason;

	if (slc_martian(&a->pkt))
		return SLC_martian;
	slc_source_key(a);
	if (kind == SLC_KIND_ODD) {
		slc_stage_source(a); /* it pays, whatever the bucket says */
		return SLC_anomalous;
	}
	if (kind == SLC_KIND_UDP && slc_udp_answered(a->flows, a->flow_hash, a->now))
		return SLC_answered;
	reason = slc_stage_trust(a);
	if (reason == SLC_allowed)
		return commit_allowed(a, reason);
	if (reason == SLC_NEXT)
		reason = slc_stage_ladder(a);
	if (reason == SLC_unprotected)
		return commit_allowed(a, reason);
	if (reason != SLC_NEXT) {
		a->counters->attempts += reason != SLC_management;
		return reason;
	}
	reason = attempt_stages(ctx, a, gate);
	slc_source_note(a, slc_verdict_of(reason) == SLC_REFUSE);
	return reason;
}

static __always_inline _Bool attempt_load(struct slc_attempt *a, const struct slc_service *service)
{
	__u32 policy = service->policy, state = service->state;
	const struct slc_decision_half *last = slc_decision_last(state, &a->generation);
	const struct slc_override *override;

	a->state = state;
	a->policy = bpf_map_lookup_elem(&slc_policy, &policy);
	a->counters = bpf_map_lookup_elem(&slc_counters, &state);
	a->total = bpf_map_lookup_elem(&slc_total, &state);
	override = bpf_map_lookup_elem(&slc_override, &state);
	if (!a->policy || !a->counters || !a->total || !override || !last)
		return 0;
	a->override = &override->half[READ_ONCE(override->word) & 1];
	if (a->now < READ_ONCE(last->valid_until_ns)) {
		a->decision = last;
		a->floor = NULL;
	} else {
		a->decision = NULL;
		a->floor = slc_floor_of(a, last);
	}
	return 1;
}

/*
 * A TCP or UDP packet from a source under a `deny --all-packets` order: an order, not admission. Management prefixes
 * are never refused, unless the order was forced.
 */
SLC_STAGE_FN _Bool denied_wholly(const struct slc_pkt *pkt, const struct slc_global *global, __u32 snapshot)
{
	const struct slc_rule *order = slc_order_find(&pkt->saddr, bpf_ktime_get_ns()), *trust = NULL;

	if (!order || order->action != SLC_ACTION_deny || !(order->flags & SLC_RULE_ALL_PACKETS))
		return 0;
	if (global->has_trust && !(order->flags & SLC_RULE_FORCE))
		trust = slc_trust_find(snapshot, SLC_SCOPE_ALL, &pkt->saddr);
	return !trust || trust->action != SLC_ACTION_management;
}

/*
 * Parsing is verified alone: otherwise every way through VLAN tags and extension headers would be followed through
 * every stage. The datagram may be longer than the buffer (multi-buffer frames), but not than the frame.
 */
SLC_VERIFIED_ALONE int slc_parse_frame(struct xdp_md *ctx, struct slc_pkt *pkt)
{
	int kind;

	if (!pkt)
		return SLC_malformed;
	kind = slc_parse(pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	if (pkt->beyond && (!slc_frags || pkt->l3 + (__u64)pkt->total > bpf_xdp_get_buff_len(ctx)))
		return SLC_malformed;
	return kind;
}

/* A packet for a wildcard service's port that the gateway only forwards. What is ours is remembered, what is not, not. */
static __always_inline _Bool passes_by(struct xdp_md *ctx, const struct slc_attempt *a, struct slc_recent *recent)
{
	if (!recent->wildcard || recent->ours || a->policy->flags & SLC_P_NETNS)
		return 0;
	if (slc_forwarded(ctx, &a->pkt)) {
		recent->key.proto = 0;
		return 1;
	}
	recent->ours = 1;
	return 0;
}

static __always_inline int parsed(const struct slc_global *global, int reason)
{
	if (reason == SLC_fragment && global->fragments_drop)
		reason = SLC_fragment_refused;
	else if (reason == SLC_unparseable && global->unparseable_pass)
		reason = SLC_l3_only;
	return slc_finish(reason);
}

static __always_inline int pipeline(struct xdp_md *ctx, _Bool gate)
{
	const struct slc_control *control = slc_control_get();
	struct slc_attempt a;
	const struct slc_ports *ports;
	struct slc_recent *recent;
	const struct slc_global *global;
	__u64 active;
	int kind;

	__builtin_memset(&a.pkt, 0, sizeof(a.pkt));
	kind = slc_parse_frame(ctx, &a.pkt);
	if (!control)
		return XDP_PASS;
	active = READ_ONCE(control->active);
	global = &control->global[active & 1];
	if (a.pkt.ip_options && global->ip_options_drop)
		return slc_finish(SLC_ip_options);
	if (kind < SLC_REASON_COUNT)
		return parsed(global, kind);

	ports = slc_ports_get(a.pkt.dport);
	if (!ports)
		return slc_finish(SLC_not_service);
	if (slc_port_in(ports->management, a.pkt.dport))
		return slc_finish(SLC_management);
	if (control->flags & SLC_F_DENY_ALL && denied_wholly(&a.pkt, global, active & 1))
		return slc_finish(SLC_denied);
	if (!slc_port_in(kind == SLC_KIND_UDP ? ports->udp : ports->tcp, a.pkt.dport))
		return slc_finish(SLC_not_service);
	if (kind == SLC_KIND_TCP)
		return slc_finish(SLC_established);

	recent = slc_service_recall(global, active, &a.pkt.daddr, a.pkt.dport, a.pkt.proto);
	if (!recent)
		return slc_finish(SLC_not_service);
	a.now = bpf_ktime_get_ns();
	a.control = control;
	a.global = global;
	a.snapshot = active & 1;
	a.flow = NULL;
	a.head_age = 0;
	a.backlog = a.backlog_max = a.predicted = 0;
	a.class = SLC_CLASS_stranger;
	a.class_known = a.repeat = a.was_admitted = a.salt = a.share = a.unasked = a.seen_before = 0;
	a.static_only = a.has_ticket = a.ticket = a.silent = 0;
	if (!attempt_load(&a, &recent->service) || passes_by(ctx, &a, recent))
		return slc_finish(SLC_not_service);
	return slc_finish_attempt(ctx, &a, attempt(ctx, &a, kind, gate));
}

SEC("xdp")
int slc_xdp(struct xdp_md *ctx)
{
	return pipeline(ctx, 1);
}

SEC("xdp")
int slc_xdp_nogate(struct xdp_md *ctx)
{
	return pipeline(ctx, 0);
}

SLC_VERIFIED_ALONE __u32 slc_sweep_set(struct slc_set *set, __u64 now)
{
	__u32 rewritten = 0;

	if (!set)
		return 0;
	for (int w = 0; w < SLC_WAYS; w++)
		rewritten += slc_way_sweep(&set->way[w].word, now);
	return rewritten;
}

/* Run by the controller, a slice of sets per tick: keeps 40-bit TATs from coming round. */
SEC("syscall")
int slc_sweep(struct slc_sweep *arg)
{
	__u64 now = bpf_ktime_get_ns() >> (arg->shift & 63);
	__u32 rewritten = 0;

	for (__u32 i = 0; i < SLC_SWEEP_MAX && i < arg->count; i++) {
		__u32 index = arg->first + i;
		struct slc_set *set = bpf_map_lookup_elem(&slc_sources, &index);

		if (!set)
			break;
		rewritten += slc_sweep_set(set, now);
	}
	arg->rewritten = rewritten;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
