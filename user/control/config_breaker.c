// SPDX-License-Identifier: GPL-2.0-only
/* What the keys of breaker, turns and outcomes can violate only together, and advice on values that are allowed. */
#include "user/control/config_load.h"

#include <netinet/in.h>
#include <string.h>

#define MS 1000000ULL
#define RATE_ADVISED 2000 /* 1/100 %: below, chance reaches it */
#define OUTCOMES_ADVISED 20
#define BASE_PER_P99 3

static bool is_given(const struct load *load, size_t service, const char *name)
{
	const struct setting *setting = config_service_setting(load, service, name);

	return setting && setting->line;
}

/* Of two keys that disagree, the one to point at: given, and later in the file. */
static const char *blamed(const struct load *load, size_t service, const char *name, const char *other)
{
	const struct setting *a = config_service_setting(load, service, name);
	const struct setting *b = config_service_setting(load, service, other);

	return b && (!a || b->line > a->line) ? other : name;
}

static void advise(struct load *load, size_t index, const char *name, const char *what)
{
	const struct service_config *service = &load->config->services[index];
	const struct setting *setting = config_service_setting(load, index, name);

	report_warn(load->report, setting && setting->line ? setting->line : (unsigned)service->line, 1,
		    "services[%s].%s: %s", service->name, name, what);
}

/* "5s", or "5s (default)": a value that is not in the file says why it holds. */
static const char *value_of(const struct load *load, size_t index, const char *name, char *buf, size_t len)
{
	const struct setting *setting = config_service_setting(load, index, name);

	if (!setting)
		return "none";
	if (setting->line)
		snprintf(buf, len, "%s", setting->value);
	else
		snprintf(buf, len, "%s (%s)", setting->value, setting->origin);
	return buf;
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

static void check_window(struct load *load, size_t index)
{
	const struct breaker_config *breaker = &load->config->services[index].breaker;
	const char *name = blamed(load, index, "breaker.window", "breaker.buckets");
	uint64_t step = breaker->buckets * MS, below = breaker->window_ns / step * step;
	char window[32], shorter[32], longer[32], what[400];

	if (breaker->window_ns == below)
		return;
	format_duration(breaker->window_ns, window, sizeof(window));
	format_duration(below, shorter, sizeof(shorter));
	format_duration(below + step, longer, sizeof(longer));
	snprintf(what, sizeof(what),
		 "a window of %s has no whole milliseconds in each of its %u buckets; write window: %s or %s, or "
		 "another number of buckets",
		 window, breaker->buckets, shorter, longer);
	config_blame(load, index, name, what);
}

/* slow_after follows lat_ref where it is not given: then that is the key to point at. */
static void check_slow_after(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	const char *slow = is_given(load, index, "slow_after") ? "slow_after" : "breaker.risk.lat_ref";
	char timeout[128], after[128], what[512];

	if (service->slow_after_ns <= service->timeout_ns)
		return;
	snprintf(what, sizeof(what),
		 "slow_after: %s is above timeout: %s; give slow_after of at most the timeout, or a longer timeout "
		 "(at most 60s)",
		 value_of(load, index, "slow_after", after, sizeof(after)),
		 value_of(load, index, "timeout", timeout, sizeof(timeout)));
	config_blame(load, index, blamed(load, index, slow, "timeout"), what);
}

static void check_lat_ref(struct load *load, size_t index)
{
	const struct breaker_config *breaker = &load->config->services[index].breaker;
	char base[128], reference[128], what[512];

	if (breaker->base_ns < breaker->lat_ref_ns)
		return;
	snprintf(what, sizeof(what),
		 "base: %s is not below lat_ref: %s; latency weighs 0 at base and 1 at lat_ref: give a smaller base, "
		 "or leave it out",
		 value_of(load, index, "breaker.risk.base", base, sizeof(base)),
		 value_of(load, index, "breaker.risk.lat_ref", reference, sizeof(reference)));
	config_blame(load, index, blamed(load, index, "breaker.risk.base", "breaker.risk.lat_ref"), what);
}

static void check_silent(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char silent[128], timeout[128], what[512];

	if (!service->breaker.has_silent || service->breaker.silent_ns >= service->timeout_ns)
		return;
	snprintf(what, sizeof(what),
		 "%s is shorter than timeout: %s; an answer may take as long: give silent of at least the timeout, "
		 "auto (twice the timeout, at least 5s) or none",
		 value_of(load, index, "breaker.silent", silent, sizeof(silent)),
		 value_of(load, index, "timeout", timeout, sizeof(timeout)));
	config_blame(load, index, "breaker.silent", what);
}

/* A list says exactly which outcomes are failures: what slow_is says, or cannot happen, must not contradict it. */
static void check_failures(struct load *load, size_t index)
{
	static const uint32_t of_connections = 1u << SLC_OUT_reset | 1u << SLC_OUT_closed_unanswered |
					       1u << SLC_OUT_http_5xx | 1u << SLC_OUT_abandoned |
					       1u << SLC_OUT_no_listener;
	const struct service_config *service = &load->config->services[index];
	bool slow = service->failures & 1u << SLC_OUT_slow;
	const char *what = NULL;

	if (!service->failures)
		what = "names no outcome, so that nothing is a failure; name some, or write auto";
	else if (!service->failures_listed)
		return;
	else if (service->proto == IPPROTO_UDP && service->failures & of_connections)
		what = "this service is udp, where only an answer, or none, is seen; unanswered and slow are accepted";
	else if (service->failures & 1u << SLC_OUT_http_5xx && !service->http_code_count)
		what = "http_5xx is seen only with http:; add http: {status: [502, 503, 504]}, or leave http_5xx out";
	else if (service->failures & 1u << SLC_OUT_no_listener && !service->has_queue)
		what = "no_listener is seen only by the gate; remove accept_queue: none, or leave no_listener out";
	else if (slow && !service->slow_is_failure)
		what = "names slow, and slow_is: success says that it is none; remove one of them";
	else if (!slow && service->slow_is_failure)
		what = "does not name slow, and slow_is: failure says that it is one; add slow, or remove slow_is";
	if (what)
		config_blame(load, index, "breaker.failures", what);
}

static void check_turns(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char what[128];

	if (service->proto == IPPROTO_UDP && service->turns != SLC_TURNS_auto && service->turns != SLC_TURNS_opaque)
		config_blame(load, index, "turns",
			     "this service is udp, where each datagram to it begins a turn; auto and opaque are "
			     "accepted");
	for (size_t i = 0; i < service->http_code_count; i++)
		for (size_t j = 0; j < i; j++)
			if (service->http_codes[i] == service->http_codes[j]) {
				snprintf(what, sizeof(what), "%u stands twice; name each code once",
					 service->http_codes[i]);
				config_blame(load, index, "http.status", what);
				return;
			}
}

static bool marks_are_believed(const struct config *config)
{
	bool believed = config->dscp_trust_count;

	for (size_t i = 0; !believed && i < config->interface_count; i++)
		believed = config->interfaces[i].dscp_trust;
	return believed;
}

/* Without a believed mark no probe would ever be let through, and the breaker would stay open for ever. */
static void check_probe(struct load *load, size_t index)
{
	if (load->config->services[index].breaker.dyed && !marks_are_believed(load->config))
		config_blame(load, index, "breaker.probe",
			     "dyed needs marks that are believed, and no dscp_trust says where from; add dscp_trust: "
			     "with prefixes, or to an interface, or write any");
}

/* --- advice ----------------------------------------------------------------------------------------------------- */

static bool base_is_short(const struct service_config *service, uint64_t answer_ns, const char *of, char *buf,
			  size_t len)
{
	uint64_t advised = BASE_PER_P99 * answer_ns;
	char base[32], answer[32], better[32];

	if (service->breaker.open_base_ns >= advised)
		return false;
	format_duration(service->breaker.open_base_ns, base, sizeof(base));
	format_duration(answer_ns, answer, sizeof(answer));
	format_duration(advised, better, sizeof(better));
	snprintf(buf, len, "%s is under %d x %s, %s: it probes before an answer can be expected; %s or more is advised",
		 base, BASE_PER_P99, of, answer, better);
	return true;
}

bool config_advise_open_base(const struct service_config *service, uint64_t p99_ns, char *buf, size_t len)
{
	return base_is_short(service, p99_ns, "the P99 of healthy answers", buf, len);
}

/* Another value than the one that holds where nothing is said. */
static bool differs(const struct load *load, size_t index, const char *name, const char *path)
{
	const struct setting *setting = config_service_setting(load, index, name);

	return setting && strcmp(setting->value, schema_find(path)->fallback);
}

/* P99 is not known before the service was seen; slow_after stands in for it. What all defaults say needs no advice. */
static void advise_open_base(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char what[400];

	if (!differs(load, index, "breaker.open.base", "services.breaker.open.base") &&
	    !differs(load, index, "slow_after", "services.breaker.risk.lat_ref"))
		return;
	if (base_is_short(service, service->slow_after_ns, "slow_after (P99 is not known yet)", what, sizeof(what)))
		advise(load, index, "breaker.open.base", what);
}

static void advise_rates(struct load *load, size_t index)
{
	const struct breaker_config *breaker = &load->config->services[index].breaker;
	char rate[32], what[256];

	if (is_given(load, index, "breaker.failure_rate") && breaker->failure_rate < RATE_ADVISED) {
		format_percent(breaker->failure_rate, rate, sizeof(rate));
		snprintf(what, sizeof(what),
			 "%s is under 20%%: a few failures by chance reach it; 20%% or more is advised", rate);
		advise(load, index, "breaker.failure_rate", what);
	}
	if (is_given(load, index, "breaker.min_outcomes") && breaker->min_outcomes < OUTCOMES_ADVISED) {
		snprintf(what, sizeof(what), "%u is under 20: so few outcomes say little; 20 or more is advised",
			 breaker->min_outcomes);
		advise(load, index, "breaker.min_outcomes", what);
	}
	if (breaker->min_sources > SLC_CELLS) {
		snprintf(what, sizeof(what), "%u is never reached: sources are told apart by %d cells; at most %d acts",
			 breaker->min_sources, SLC_CELLS, SLC_CELLS);
		advise(load, index, "breaker.min_sources", what);
	}
}

static void advise_base(struct load *load, size_t index)
{
	const struct breaker_config *breaker = &load->config->services[index].breaker;
	char base[32], half[32], what[256];

	format_duration(breaker->base_ns, base, sizeof(base));
	format_duration(breaker->lat_ref_ns / 2, half, sizeof(half));
	snprintf(what, sizeof(what), "%s is above half of lat_ref: %s holds, as for a learned baseline", base, half);
	advise(load, index, "breaker.risk.base", what);
}

/* The gate of the risk rule is 5/6 of err_ref: at or above failure_rate the long and the fast rule are always first. */
static void advise_risk(struct load *load, size_t index)
{
	const struct breaker_config *breaker = &load->config->services[index].breaker;
	uint16_t gate = (uint16_t)(breaker->err_ref * 5 / 6);
	char rate[32], least[32], reference[64], what[256];

	if (breaker->formula == RISK_NONE)
		return;
	if (breaker->formula == RISK_PUBLISHED)
		advise(load, index, "breaker.risk.formula",
		       "published weighs latency fully at the baseline already, so that it opens on errors alone; log "
		       "is "
		       "advised");
	if (breaker->base_ns > breaker->lat_ref_ns / 2)
		advise_base(load, index);
	if (breaker->open_at > breaker->risk_weights[0] + breaker->risk_weights[1])
		advise(load, index, "breaker.risk.open_at",
		       "is above the sum of the weights: the risk rule never opens; give weights that make 1");
	if (gate < breaker->failure_rate)
		return;
	format_percent(gate, least, sizeof(least));
	format_percent(breaker->failure_rate, rate, sizeof(rate));
	snprintf(what, sizeof(what),
		 "%s: the risk rule acts above 5/6 of it, %s, where failure_rate: %s has opened before; a smaller "
		 "err_ref, or formula: none, is advised",
		 value_of(load, index, "breaker.risk.err_ref", reference, sizeof(reference)), least, rate);
	advise(load, index, blamed(load, index, "breaker.risk.err_ref", "breaker.failure_rate"), what);
}

static void advise_half_open(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char limit[64], timeout[128], what[256];

	if (service->breaker.max_half_open_ns >= service->timeout_ns)
		return;
	format_duration(service->breaker.max_half_open_ns, limit, sizeof(limit));
	snprintf(what, sizeof(what), "%s is shorter than timeout: %s: it is over before a probe can fail by it", limit,
		 value_of(load, index, "timeout", timeout, sizeof(timeout)));
	advise(load, index, "breaker.max_half_open", what);
}

static void advise_sight(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];

	if (service->has_breaker && service->turns == SLC_TURNS_opaque)
		advise(load, index, "turns",
		       "opaque: answers are not seen, so that only no_listener counts for the breaker; another mode is "
		       "advised");
	if (service->http_code_count && service->turns == SLC_TURNS_tls)
		advise(load, index, "http", "answers are encrypted with turns: tls; no status is read");
	if (service->http_code_count && service->turns == SLC_TURNS_opaque)
		advise(load, index, "http", "answers are not seen with turns: opaque; no status is read");
	if (service->http_code_count && service->turns == SLC_TURNS_server_first)
		advise(load, index, "http", "HTTP servers do not speak first; turns: request-response is advised");
}

void config_check_breaker(struct load *load, size_t service)
{
	check_window(load, service);
	check_slow_after(load, service);
	check_lat_ref(load, service);
	check_silent(load, service);
	check_failures(load, service);
	check_turns(load, service);
	check_probe(load, service);
	advise_sight(load, service);
	if (!load->config->services[service].has_breaker)
		return;
	advise_open_base(load, service);
	advise_rates(load, service);
	advise_risk(load, service);
	advise_half_open(load, service);
}

/* --- DSCP ------------------------------------------------------------------------------------------------------- */

void config_check_dscp(struct load *load)
{
	const struct config *config = load->config;
	const struct node *list = node_get(load->root, "interfaces"), *prefixes = node_get(load->root, "dscp_trust");
	size_t most =
		sizeof(((struct slc_global *)0)->dscp_ifindex) / sizeof(((struct slc_global *)0)->dscp_ifindex[0]);
	size_t trusted = 0;
	char text[64];

	for (size_t i = 0; i < config->interface_count; i++) {
		if (!config->interfaces[i].dscp_trust || ++trusted != most + 1)
			continue;
		report_error(load->report, list->child[i]->line, list->child[i]->column,
			     "interfaces[%s].dscp_trust: true is said of more than %zu interfaces; at most %zu are "
			     "accepted, "
			     "prefixes in dscp_trust: have no such limit",
			     config->interfaces[i].name, most, most);
	}
	for (size_t i = 0; i < config->dscp_trust_count; i++) {
		if (!cidr_covers_ipv4(&config->dscp_trust[i]))
			continue;
		format_cidr(&config->dscp_trust[i], text, sizeof(text));
		report_warn(load->report, prefixes->line, prefixes->column,
			    "dscp_trust: %s covers every address of IPv4: anyone may mark packets as probes", text);
	}
}
