// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/status.h"

#include <netinet/in.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/accept_queues.h"
#include "user/control/figures_json.h"
#include "user/control/overrides.h"
#include "user/control/scope.h"

#define BEFORE_START_AGE_NS NS_PER_S

const char *const mode_names[MODE_COUNT] = {
#define X(name, text) [MODE_##name] = #name,
	MODES(X)
#undef X
};

const char *const class_names[SLC_CLASS_COUNT] = {
#define X(name) [SLC_CLASS_##name] = #name,
	SLC_CLASSES(X)
#undef X
};

static const char *const stage_names[SLC_STAGE_COUNT] = {
#define X(name, text) [SLC_STAGE_##name] = #name,
	SLC_STAGES(X)
#undef X
};

const struct reason_info reason_info[SLC_REASON_COUNT] = {
#define X(name, verdict, stage, text) [SLC_##name] = {#name, text, SLC_##verdict},
	SLC_REASONS(X)
#undef X
};

const char *const attach_names[] = {
	[ATTACH_NATIVE] = "native",
	[ATTACH_GENERIC] = "generic",
	[ATTACH_OFFLINE] = "none",
};

const uint64_t *reason_counts(const struct slc_reasons *reasons)
{
	return (const uint64_t *)reasons;
}

json_t *text_json(const char *text)
{
	json_t *json = json_string(text);

	return json ? json : json_string("(not UTF-8)");
}

static json_t *endpoint_json(const uint8_t addr[16], uint16_t port)
{
	char address[64];

	format_address(addr, address, sizeof(address));
	return json_sprintf(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
}

/* --- modes ------------------------------------------------------------------------------------------------------- */

static void modes_of_service(const struct daemon *d, const struct service *service, bool modes[MODE_COUNT])
{
	const struct slc_signals *signals = datapath_signals(d->dp, service->policy.state);

	modes[MODE_netns_missing] |= service->ns == NO_NETNS;
	modes[MODE_rings_full] |= signals->ring_full > 0;
	modes[MODE_cold_full] |= signals->cold_full > 0;
}

void modes_now(const struct daemon *d, uint64_t now_ns, bool modes[MODE_COUNT])
{
	const struct datapath_modes *datapath = datapath_modes(d->dp);

	memset(modes, 0, MODE_COUNT * sizeof(*modes));
	modes[MODE_no_btf] = datapath->no_btf;
	modes[MODE_no_cgroup2] = datapath->no_cgroup2;
	modes[MODE_no_sockops] = !d->sockops;
	modes[MODE_no_turns] = datapath->no_turns;
	modes[MODE_lease_lapsed] = daemon_lapsed(d, now_ns);
	modes[MODE_listeners_blind] = d->listeners_blind;
	modes[MODE_known_full] = d->known.live >= d->known.max;
	modes[MODE_journal_reset] = d->journal_reset;
	for (size_t i = 0; i < d->interface_count; i++) {
		modes[MODE_not_attached] |= !d->interfaces[i].attached;
		modes[MODE_generic_xdp] |= d->interfaces[i].attached && d->interfaces[i].state.mode == ATTACH_GENERIC;
	}
	for (size_t i = 0; i < d->overrides.count; i++)
		modes[MODE_override_inactive] |= d->overrides.items[i]->inactive[0] != '\0';
	for (size_t i = 0; i < d->service_count; i++)
		modes_of_service(d, d->services[i], modes);
}

/* --- limits --------------------------------------------------------------------------------------------------------- */

static json_t *rate_json(const struct rate *rate)
{
	char text[64];

	if (!rate->set)
		return json_null();
	format_rate(rate, text, sizeof(text));
	return json_string(text);
}

static json_t *limit_json(const struct limit *limit)
{
	return limit->set ? json_integer(limit->value) : json_null();
}

static void origin_text(char *buf, size_t len, uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t from[] = {a, b, c};
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < 3; i++) {
		bool seen = !from[i];

		for (size_t j = 0; j < i; j++)
			seen |= from[j] == from[i];
		if (!seen && used < len)
			used += snprintf(buf + used, len - used, "%soverride %u", used ? ", " : "", from[i]);
	}
	if (!used)
		snprintf(buf, len, "file");
}

static json_t *group_json(const struct rate *rate, uint32_t burst, const struct limit *concurrent, const char *origin)
{
	if (!rate->set && !concurrent->set)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:s}", "rate", rate_json(rate), "burst",
			 rate->set ? json_integer(burst) : json_null(), "concurrent", limit_json(concurrent), "origin",
			 origin);
}

json_t *status_limits(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	struct effective_limits e;
	char source[96], total[96];

	overrides_effective(d, service, now_ns, &e);
	origin_text(source, sizeof(source), e.source.rate_from, e.source.burst_from, e.source_concurrent.from);
	origin_text(total, sizeof(total), e.total.rate_from, e.total.burst_from, e.total_concurrent.from);
	return json_pack("{s:o, s:o}", "source",
			 group_json(&e.source.rate, e.source.burst, &e.source_concurrent.limit, source), "total",
			 group_json(&e.total.rate, e.total.burst, &e.total_concurrent.limit, total));
}

/* --- a service -------------------------------------------------------------------------------------------------------- */

static json_t *counts_json(const struct slc_reasons *reasons, bool refusals_only)
{
	const uint64_t *counts = reason_counts(reasons);
	json_t *json = json_object();

	for (unsigned int r = 0; r < SLC_REASON_COUNT; r++) {
		if (counts[r] && (!refusals_only || reason_info[r].verdict == SLC_REFUSE))
			json_object_set_new(json, reason_info[r].name, json_integer(counts[r]));
	}
	return json;
}

static json_t *classes_json(const uint64_t counts[SLC_CLASS_COUNT])
{
	json_t *json = json_object();

	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
		json_object_set_new(json, class_names[c], json_integer(counts[c]));
	return json;
}

static json_t *queue_json(const struct queue_view *view)
{
	return json_pack("{s:I, s:I, s:o, s:I, s:o}", "length", (json_int_t)view->length, "limit",
			 (json_int_t)view->limit, "head_age_ms",
			 view->has_head_age ? milliseconds_json(view->head_age_ns) : json_null(), "listeners",
			 (json_int_t)view->listeners, "blind", view->blind[0] ? json_string(view->blind) : json_null());
}

static json_t *handshake_json(const struct slc_decision_half *half)
{
	json_t *p = json_object();

	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
		json_object_set_new(p, class_names[c], json_real(half->completion_q16[c] / 65536.0));
	return json_pack("{s:o, s:o}", "p", p, "h_ms", milliseconds_json(half->handshake_ns));
}

static json_t *listen_json(const struct service *service)
{
	json_t *json = json_array();

	for (size_t i = 0; i < service->key_count; i++)
		json_array_append_new(json, endpoint_json(service->keys[i].addr, service->keys[i].port));
	return json;
}

/* Without a queue that can be seen it cannot speak, whatever authority_tick() begins with. */
static const char *signal_name(const struct daemon *d, const struct service *service)
{
	enum authority authority = service->authority.authority;
	bool seen = service->queue.listeners && !datapath_modes(d->dp)->no_btf;

	return authority_names[authority == AUTHORITY_accept && !seen ? AUTHORITY_none : authority];
}

json_t *duration_json(uint64_t ns)
{
	char text[64];

	format_duration(ns, text, sizeof(text));
	return json_string(text);
}

json_t *percent_json(unsigned int hundredths)
{
	return hundredths % 100 ? json_sprintf("%u.%02u%%", hundredths / 100, hundredths % 100)
				: json_sprintf("%u%%", hundredths / 100);
}

static json_t *dry_run_json(uint32_t dry)
{
	json_t *json = json_array();

	for (unsigned int s = 0; s < SLC_STAGE_COUNT; s++) {
		if (dry & 1u << s)
			json_array_append_new(json, json_string(stage_names[s]));
	}
	return json;
}

static json_t *policy_json(const struct daemon *d, const struct service *service)
{
	const struct service_config *c = service->config;
	json_t *json = json_pack("{s:s, s:o, s:I, s:I, s:I, s:s}", "action",
				 c->action == ACTION_RESET ? "reset" : "drop", "dry_run", dry_run_json(c->dry), "uid",
				 (json_int_t)service->policy.uid, "state", (json_int_t)service->policy.state, "sets",
				 (json_int_t)(service->policy.flags & SLC_P_SOURCE ? service->policy.set_mask + 1 : 0),
				 "netns", c->netns[0] ? c->netns : "host");
	json_t *classes = json_object();

	if (c->has_source)
		json_object_set_new(json, "source",
				    json_pack("{s:o, s:I, s:o, s:I, s:I, s:b, s:I}", "rate", rate_json(&c->source.rate),
					      "burst", (json_int_t)c->source.burst, "concurrent",
					      limit_json(&c->source_concurrent), "ipv4_prefix",
					      (json_int_t)c->v4_prefix, "ipv6_prefix", (json_int_t)c->v6_prefix, "vlan",
					      c->vlan, "overrides", (json_int_t)c->override_count));
	if (c->has_wide)
		json_object_set_new(json, "wide",
				    json_pack("{s:o, s:I, s:I, s:I}", "rate", rate_json(&c->wide.rate), "burst",
					      (json_int_t)c->wide.burst, "ipv4_prefix", (json_int_t)c->wide_v4_prefix,
					      "ipv6_prefix", (json_int_t)c->wide_v6_prefix));
	if (c->total.rate.set || c->total_concurrent.set)
		json_object_set_new(json, "total",
				    json_pack("{s:o, s:I, s:o}", "rate", rate_json(&c->total.rate), "burst",
					      (json_int_t)c->total.burst, "concurrent",
					      limit_json(&c->total_concurrent)));
	if (c->has_queue)
		json_object_set_new(json, "accept_queue",
				    json_pack("{s:o, s:o, s:o, s:o, s:o}", "low", percent_json(c->low), "high",
					      percent_json(c->high), "target", duration_json(c->target_ns), "max_wait",
					      duration_json(c->max_wait_ns), "deadline",
					      duration_json(c->deadline_ns)));
	for (unsigned int k = 0; k < SLC_CLASS_COUNT; k++)
		json_object_set_new(classes, class_names[k],
				    json_pack("{s:o, s:o}", "depth", percent_json(d->config->classes[k].depth), "min",
					      percent_json(d->config->classes[k].min)));
	json_object_set_new(json, "classes", classes);
	json_object_set_new(json, "breaker", status_breaker_policy(&c->breaker));
	return json;
}

static json_t *decision_json(const struct slc_decision_half *half, uint64_t now_ns)
{
	return json_pack("{s:o, s:I, s:I, s:I}", "valid_ms_left",
			 milliseconds_json(half->valid_until_ns > now_ns ? half->valid_until_ns - now_ns : 0), "level",
			 (json_int_t)half->level, "slices", (json_int_t)half->slices, "slice_shift",
			 (json_int_t)half->slice_shift);
}

static json_t *listeners_json(const struct daemon *d, const struct service *service)
{
	json_t *json = json_array();

	for (size_t i = 0; service->listeners && i < service->queue.listeners; i++) {
		const struct listener *l = &d->listeners[service->listeners[i]];
		const char *netns = d->netns[l->ns].name;

		json_array_append_new(json,
				      json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:s, s:b, s:o}", "address",
						endpoint_json(l->socket.addr, l->socket.port), "cookie",
						(json_int_t)l->socket.cookie, "length", (json_int_t)l->socket.rqueue,
						"limit", (json_int_t)l->socket.wqueue, "head_age_ms",
						l->ring ? milliseconds_json(l->head_age_ns) : json_null(), "pid",
						l->pid ? json_integer(l->pid) : json_null(), "netns",
						netns[0] ? netns : "host", "known_since_start", l->ring && !l->adopted,
						"blind", l->blind[0] ? json_string(l->blind) : json_null()));
	}
	return json;
}

static json_t *overrides_of(const struct daemon *d, const struct service *service, uint64_t now_ns)
{
	json_t *json = json_array();

	for (size_t i = 0; i < d->overrides.count; i++) {
		const struct override *o = d->overrides.items[i];

		if (o->kind != OVERRIDE_deny && o->kind != OVERRIDE_allow &&
		    strcmp(o->subject, service->policy.name) == 0)
			json_array_append_new(json, override_json(o, now_ns));
	}
	return json;
}

static void add_detail(struct daemon *d, struct service *service, uint64_t now_ns, json_t *json)
{
	json_t *overrides = overrides_of(d, service, now_ns);
	json_t *newest = json_array_get(overrides, json_array_size(overrides) - 1);

	json_object_set_new(json, "listeners", listeners_json(d, service));
	json_object_set_new(json, "policy", policy_json(d, service));
	json_object_set_new(json, "decision", decision_json(&service->decision, now_ns));
	json_object_set(json, "override", newest ? newest : json_null());
	json_object_set_new(json, "overrides", overrides);
}

json_t *status_service(struct daemon *d, struct service *service, uint64_t now_ns, bool detail)
{
	const struct slc_signals *signals = datapath_signals(d->dp, service->policy.state);
	uint64_t admitted = 0, established[SLC_CLASS_COUNT];
	struct slc_counters counters = {0};
	json_t *json;

	datapath_counters(d->dp, service->policy.state, &counters);
	listeners_count_before_start(d, service, now_ns, BEFORE_START_AGE_NS);
	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++) {
		admitted += counters.admitted[c];
		established[c] = signals->established[c];
	}
	json = json_pack("{s:s, s:I, s:s, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:b}", "name",
			 service->policy.name, "uid", (json_int_t)service->policy.uid, "protocol",
			 service->policy.proto == IPPROTO_UDP ? "udp" : "tcp", "listen", listen_json(service), "signal",
			 signal_name(d, service), "attempts", (json_int_t)counters.attempts, "admitted",
			 (json_int_t)admitted, "refused", counts_json(&counters.enforced, true), "dry",
			 counts_json(&counters.dry, false), "reasons", counts_json(&counters.enforced, false),
			 "open_connections", (json_int_t)signals->open, "held_connections", (json_int_t)signals->held,
			 "before_start_connections", (json_int_t)service->before_start, "draining",
			 overrides_draining(d, service));
	json_object_set_new(json, "admitted_by_class", classes_json((const uint64_t *)counters.admitted));
	json_object_set_new(json, "accept_queue", queue_json(&service->queue));
	json_object_set_new(json, "limits", status_limits(d, service, now_ns));
	json_object_set_new(json, "handshake", handshake_json(&service->decision));
	json_object_set_new(json, "resets", json_integer(counters.resets));
	json_object_set_new(json, "established", classes_json(established));
	json_object_set_new(json, "closed", json_integer(signals->closed));
	status_signals(d, service, &counters, now_ns, detail, json);
	if (detail)
		add_detail(d, service, now_ns, json);
	return json;
}

json_t *status_services(struct daemon *d, uint64_t now_ns)
{
	json_t *json = json_array();

	for (size_t i = 0; i < d->service_count; i++)
		json_array_append_new(json, status_service(d, d->services[i], now_ns, false));
	return json;
}

/* --- the whole ----------------------------------------------------------------------------------------------------------- */

static json_t *interfaces_json(const struct daemon *d)
{
	json_t *json = json_array();

	for (size_t i = 0; i < d->interface_count; i++) {
		const struct interface *iface = &d->interfaces[i];
		bool on = iface->attached;

		json_array_append_new(json,
				      json_pack("{s:s, s:o, s:s, s:o, s:b, s:o}", "name", iface->config.name, "ifindex",
						iface->ifindex ? json_integer(iface->ifindex) : json_null(), "mode",
						on ? attach_names[iface->state.mode] : "none", "program_id",
						on ? json_integer(iface->state.program_id) : json_null(), "dispatcher",
						on && iface->state.dispatcher, "why",
						iface->why[0] ? text_json(iface->why) : json_null()));
	}
	return json;
}

static json_t *modes_json(const struct daemon *d, uint64_t now_ns)
{
	bool modes[MODE_COUNT];
	json_t *json = json_array();

	modes_now(d, now_ns, modes);
	for (unsigned int m = 0; m < MODE_COUNT; m++) {
		if (modes[m])
			json_array_append_new(json, json_string(mode_names[m]));
	}
	return json;
}

static json_t *config_json(const struct daemon *d)
{
	char loaded_at[ISO_LEN];

	clock_iso(d->loaded_wall_ms, loaded_at, sizeof(loaded_at));
	return json_pack("{s:o, s:I, s:b, s:o, s:s}", "path", text_json(d->config->path), "snapshot",
			 (json_int_t)datapath_snapshot_number(d->dp), "last_reload_success", d->reload_success,
			 "last_reload_error", d->reload_error[0] ? text_json(d->reload_error) : json_null(),
			 "loaded_at", loaded_at);
}

json_t *status_json(struct daemon *d, uint64_t now_ns)
{
	const struct slc_control *control = datapath_control(d->dp);
	uint64_t until_ns = __atomic_load_n(&control->lease_until_ns, __ATOMIC_RELAXED);
	const struct datapath_modes *modes = datapath_modes(d->dp);
	const char *why = modes->no_cgroup2 ? modes->no_cgroup2_why : d->sockops_why;
	json_t *json = json_object();

	json_object_set_new(json, "version", json_string(SLUICE_VERSION));
	json_object_set_new(json, "build_id", json_sprintf("%016llx", (unsigned long long)modes->build_id));
	json_object_set_new(json, "abi",
			    json_pack("{s:I, s:I}", "major", (json_int_t)control->abi_major, "minor",
				      (json_int_t)control->abi_minor));
	json_object_set_new(json, "uptime_s", json_integer((now_ns - d->started_ns) / NS_PER_S));
	json_object_set_new(json, "pid", json_integer(getpid()));
	json_object_set_new(json, "config", config_json(d));
	json_object_set_new(json, "interfaces", interfaces_json(d));
	json_object_set_new(json, "failsafe", json_boolean(until_ns <= now_ns));
	json_object_set_new(json, "lease_ms_left",
			    json_integer(until_ns > now_ns ? (until_ns - now_ns) / NS_PER_MS : 0));
	json_object_set_new(json, "modes", modes_json(d, now_ns));
	json_object_set_new(
		json, "sockops",
		json_pack("{s:b, s:o}", "attached", d->sockops, "why", why[0] ? text_json(why) : json_null()));
	json_object_set_new(json, "turns",
			    json_pack("{s:b, s:o}", "attached", !modes->no_turns, "why",
				      modes->no_turns ? text_json(modes->no_turns_why) : json_null()));
	json_object_set_new(json, "services", status_services(d, now_ns));
	return json;
}

/* --- trust ------------------------------------------------------------------------------------------------------------------ */

static json_t *trust_rule_json(const struct trust_config *rule, size_t id)
{
	static const char *const actions[] = {[TRUST_ALLOW] = "allow", [TRUST_DENY] = "deny", [TRUST_CLASS] = "class"};
	char cidr[64];

	format_cidr(&rule->cidr, cidr, sizeof(cidr));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I}", "cidr", cidr, "action", actions[rule->action], "class",
			 rule->action == TRUST_CLASS ? json_string(class_names[rule->class]) : json_null(), "ceiling",
			 rate_json(&rule->ceiling), "origin", text_json(rule->origin), "id", (json_int_t)id);
}

json_t *status_trust(const struct daemon *d, uint64_t now_ns)
{
	json_t *trust = json_array(), *orders = json_array(), *ports = json_array(), *cidrs = json_array();
	char text[64];

	for (size_t i = 0; i < d->config->trust_count; i++)
		json_array_append_new(trust, trust_rule_json(&d->config->trust[i], i + 1));
	for (size_t i = 0; i < d->overrides.count; i++) {
		const struct override *o = d->overrides.items[i];
		json_t *json;

		if (o->kind != OVERRIDE_deny && o->kind != OVERRIDE_allow)
			continue;
		json = override_json(o, now_ns);
		json_object_set_new(json, "action", json_string(override_kind_names[o->kind]));
		json_object_set_new(json, "ceiling", rate_json(&o->ceiling));
		json_object_set_new(json, "origin", json_sprintf("order %u: %s", o->id, o->reason));
		json_array_append_new(orders, json);
	}
	for (size_t i = 0; i < d->config->management_port_count; i++)
		json_array_append_new(ports, json_integer(d->config->management_ports[i]));
	for (size_t i = 0; i < d->config->management_cidr_count; i++) {
		format_cidr(&d->config->management_cidrs[i], text, sizeof(text));
		json_array_append_new(cidrs, json_string(text));
	}
	return json_pack("{s:o, s:o, s:{s:o, s:o}}", "trust", trust, "orders", orders, "management", "ports", ports,
			 "cidrs", cidrs);
}
