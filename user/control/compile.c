// SPDX-License-Identifier: GPL-2.0-only
/*
 * Configuration to snapshot. All products are taken in 128 bits and checked against what the packet path can hold, so
 * that what the file says is either in force exactly (within 0.1 %) or refused.
 */
#include "user/control/compile.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "user/datapath/unit.h"

typedef unsigned __int128 u128;

#define NS_S 1000000000ULL
#define SECOND16 (16 * NS_S)
#define TAU_MAX16 ((1ULL << 51) * 16) /* 26 days */
#define ERROR_PER 1000 /* T may be off by one part in this */

static u128 divide_up(u128 a, u128 b)
{
	return (a + b - 1) / b;
}

/* T of `rate` in steps of `unit16` sixteenths of a ns, rounded up: a limit is never exceeded. */
static u128 interval_in(const struct rate *rate, uint64_t unit16)
{
	return divide_up((u128)16 * rate->per_ns, (u128)rate->count * unit16);
}

static bool is_exact(const struct rate *rate, uint64_t unit16, u128 interval)
{
	u128 wanted = (u128)16 * rate->per_ns, held = interval * unit16 * rate->count;

	return (held - wanted) * ERROR_PER <= wanted;
}

/* Rate whose T is `interval` steps, as one would write it per second. */
static uint64_t rate_of(u128 interval, uint64_t unit16)
{
	return (uint64_t)divide_up(SECOND16, interval * unit16);
}

static int inexact(const struct rate *rate, uint64_t unit16, u128 interval, char *why, size_t why_len)
{
	char given[64];

	format_rate(rate, given, sizeof(given));
	if (interval > 1)
		snprintf(why, why_len, "%s cannot be held within 0.1 %%; %llu/s or %llu/s can", given,
			 (unsigned long long)rate_of(interval, unit16),
			 (unsigned long long)rate_of(interval - 1, unit16));
	else
		snprintf(why, why_len, "%s cannot be held within 0.1 %%; at most %llu/s can", given,
			 (unsigned long long)rate_of(1, unit16));
	return -ERANGE;
}

int compile_rate(const struct rate *rate, uint64_t *ret_interval16, char *why, size_t why_len)
{
	if (!rate->set || !rate->count || !rate->per_ns) {
		snprintf(why, why_len, "no rate: at least one per interval is needed");
		return -ERANGE;
	}
	u128 interval = interval_in(rate, 1);
	if (interval > TAU_MAX16) {
		snprintf(why, why_len, "slower than one in 26 days");
		return -ERANGE;
	}
	if (!is_exact(rate, 1, interval))
		return inexact(rate, 1, interval, why, why_len);
	*ret_interval16 = (uint64_t)interval;
	return 0;
}

int compile_bucket(const struct bucket_config *bucket, uint64_t *ret_interval16, uint64_t *ret_depth16, char *why,
		   size_t why_len)
{
	uint64_t interval = 0;
	int err = compile_rate(&bucket->rate, &interval, why, why_len);

	if (err)
		return err;
	u128 depth = (u128)interval * bucket->burst;
	if (!bucket->burst || depth > TAU_MAX16) {
		char given[64];

		format_rate(&bucket->rate, given, sizeof(given));
		snprintf(why, why_len,
			 "burst %u at %s takes over 26 days to fill; bursts of 1 to %llu are accepted at this rate",
			 bucket->burst, given, (unsigned long long)(TAU_MAX16 / interval));
		return -ERANGE;
	}
	*ret_interval16 = interval;
	*ret_depth16 = (uint64_t)depth;
	return 0;
}

/* --- source buckets --------------------------------------------------------------------------------------------- */

static int compile_overrides(const struct service_config *service, struct snapshot_service *out, char *why,
			     size_t why_len)
{
	if (!service->override_count)
		return 0;
	out->overrides = calloc(service->override_count, sizeof(*out->overrides));
	if (!out->overrides)
		return -ENOMEM;
	out->override_count = service->override_count;
	for (size_t i = 0; i < service->override_count; i++) {
		const struct source_override *from = &service->overrides[i];
		struct snapshot_rate_rule *to = &out->overrides[i];
		int err = compile_bucket(&from->bucket, &to->interval_ns16, &to->depth_ns16, why, why_len);

		if (err)
			return err;
		memcpy(to->addr, from->cidr.addr, sizeof(to->addr));
		to->prefix = from->cidr.prefix;
		to->id = (uint32_t)i + 1;
	}
	return 0;
}

/* Where even the finest unit, 1 ns, is too coarse: the rate itself is to blame. */
static int check_rate(const struct bucket_config *bucket, char *why, size_t why_len)
{
	u128 interval = interval_in(&bucket->rate, 16);

	return is_exact(&bucket->rate, 16, interval) ? 0 : inexact(&bucket->rate, 16, interval, why, why_len);
}

static int check_rates(const struct service_config *service, const char **ret_key, char *why, size_t why_len)
{
	int err = 0;

	if (service->source.rate.set) {
		*ret_key = "source.rate";
		err = check_rate(&service->source, why, why_len);
	}
	if (!err && service->has_wide) {
		*ret_key = "source.wide.rate";
		err = check_rate(&service->wide, why, why_len);
	}
	for (size_t i = 0; !err && i < service->override_count; i++) {
		*ret_key = "source.overrides.rate";
		err = check_rate(&service->overrides[i].bucket, why, why_len);
	}
	return err;
}

/* One unit of time for all source buckets of a service, as datapath_apply() will look for it. */
static int check_units(const struct service_config *service, const struct snapshot_service *out, const char **ret_key,
		       char *why, size_t why_len)
{
	struct unit_bucket *buckets = calloc(2 + out->override_count, sizeof(*buckets));
	size_t bad;
	uint8_t shift;

	if (!buckets)
		return -ENOMEM;
	buckets[0] = (struct unit_bucket){.interval16 = out->source_interval_ns16, .depth16 = out->source_depth_ns16};
	buckets[1] = (struct unit_bucket){.interval16 = out->wide_interval_ns16, .depth16 = out->wide_depth_ns16};
	for (size_t i = 0; i < out->override_count; i++) {
		buckets[2 + i].interval16 = out->overrides[i].interval_ns16;
		buckets[2 + i].depth16 = out->overrides[i].depth_ns16;
	}
	int err = choose_units(buckets, 2 + out->override_count, -1, &shift, &bad);
	free(buckets);
	if (!err)
		return 0;
	err = check_rates(service, ret_key, why, why_len);
	if (err)
		return err;
	*ret_key = "source.rate";
	snprintf(why, why_len,
		 "no unit of time holds it and the limits beside it (wide, overrides) within 0.1 %%: lower the burst "
		 "that "
		 "takes longest to fill, or the highest rate");
	return -ERANGE;
}

static int compile_source(const struct service_config *service, struct snapshot_service *out, const char **ret_key,
			  char *why, size_t why_len)
{
	int err;

	if (service->source.rate.set) {
		*ret_key = "source.rate";
		err = compile_bucket(&service->source, &out->source_interval_ns16, &out->source_depth_ns16, why,
				     why_len);
		if (err)
			return err;
		out->policy.flags |= SLC_P_SOURCE;
	}
	if (service->has_wide) {
		*ret_key = "source.wide.rate";
		err = compile_bucket(&service->wide, &out->wide_interval_ns16, &out->wide_depth_ns16, why, why_len);
		if (err)
			return err;
		out->policy.flags |= SLC_P_WIDE;
		out->policy.wide_v4_prefix = service->wide_v4_prefix;
		out->policy.wide_v6_prefix = service->wide_v6_prefix;
	}
	*ret_key = "source.overrides.rate";
	err = compile_overrides(service, out, why, why_len);
	if (err)
		return err;
	if (service->override_count)
		out->policy.flags |= SLC_P_OVERRIDES;
	return check_units(service, out, ret_key, why, why_len);
}

/* --- the rest of a policy --------------------------------------------------------------------------------------- */

/* Hundredths of a percent to 65536ths, down: a mark is not exceeded. */
static uint32_t share_q16(uint32_t hundredths)
{
	return (uint32_t)(65536ULL * hundredths / 10000);
}

/* What the classes may use of a total, whether the file has one or an operator orders one later. */
static void compile_classes(const struct config *config, struct slc_policy *policy)
{
	policy->share_depth16 = SECOND16;
	for (int c = 0; c < SLC_CLASS_COUNT; c++) {
		const struct class_config *class = &config->classes[c];

		policy->theta_q16[c] = share_q16(class->depth);
		policy->share_inverse_q8[c] = SLC_NO_SHARE;
		if (!class->min)
			continue;
		policy->flags |= SLC_P_MIN_SHARE;
		policy->share_inverse_q8[c] = (uint32_t)divide_up(256 * 10000, class->min);
	}
}

int compile_shares(const struct slc_policy *policy, uint64_t interval16, char *why, size_t why_len)
{
	for (int c = 0; c < SLC_CLASS_COUNT; c++) {
		uint32_t inverse = policy->share_inverse_q8[c];

		/* The packet path multiplies these two in 64 bits. */
		if (inverse != SLC_NO_SHARE && (u128)interval16 * inverse > UINT64_MAX) {
			snprintf(why, why_len, "too slow for the minimum shares of the classes; from 1/h is accepted");
			return -ERANGE;
		}
	}
	return 0;
}

static int compile_total(const struct config *config, const struct service_config *service, struct slc_policy *policy,
			 const char **ret_key, char *why, size_t why_len)
{
	uint64_t interval = 0, depth = 0;
	int err;

	*ret_key = "total.rate";
	compile_classes(config, policy);
	if (!service->total.rate.set)
		return 0;
	err = compile_bucket(&service->total, &interval, &depth, why, why_len);
	if (!err)
		err = compile_shares(policy, interval, why, why_len);
	if (err)
		return err;
	policy->total_interval16 = interval;
	policy->total_depth16 = depth;
	policy->flags |= SLC_P_TOTAL;
	return 0;
}

static void compile_gate(const struct config *config, const struct service_config *service, struct slc_policy *policy)
{
	if (!service->has_queue)
		return;
	policy->flags |= SLC_P_GATE;
	policy->high_q16 = share_q16(service->high);
	uint32_t low = share_q16(service->low), range = policy->high_q16 - low;
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		policy->low_q16[c] = low + (uint32_t)((uint64_t)range * config->classes[c].depth / 10000);
	policy->low_q16[SLC_CLASS_vip] = policy->high_q16; /* vip is refused at the upper mark only */
	policy->max_wait_ns = service->max_wait_ns;
	policy->target_ns = service->target_ns;
}

/* RST|ACKs: T, and a second's worth of depth. */
static int compile_resets(const struct rate *rate, uint64_t *ret_interval16, uint64_t *ret_depth16, char *why,
			  size_t why_len)
{
	int err = compile_rate(rate, ret_interval16, why, why_len);

	if (!err)
		*ret_depth16 = *ret_interval16 > SECOND16 ? *ret_interval16 : SECOND16;
	return err;
}

static void compile_counts(const struct service_config *service, struct slc_policy *policy)
{
	if (service->source_concurrent.set) {
		policy->flags |= SLC_P_CONCURRENT;
		policy->source_concurrent = service->source_concurrent.value;
	}
	if (service->total_concurrent.set) {
		policy->flags |= SLC_P_BULKHEAD;
		policy->total_concurrent = service->total_concurrent.value;
	}
	if (service->action == ACTION_RESET)
		policy->flags |= SLC_P_RESET;
	if (service->vlan)
		policy->flags |= SLC_P_VLAN;
	if (service->netns[0])
		policy->flags |= SLC_P_NETNS;
	if (service->breaker.dyed)
		policy->flags |= SLC_P_DYED;
	policy->v4_prefix = service->v4_prefix ?: 32;
	policy->v6_prefix = service->v6_prefix ?: 64;
	policy->dry = service->dry;
	policy->proto = service->proto;
	snprintf(policy->name, sizeof(policy->name), "%s", service->name);
}

#define OWED_SHIFT_MIN 24 /* 17 ms */

/*
 * The smallest with 2^shift ns >= timeout / 8: the 32 slots hold four timeouts. And at least half a second, since turns
 * are counted as unanswered by 100 ms of their start, a tick or two after the last of them is due: by then their slots
 * must not be those of newer turns.
 */
static uint8_t owed_shift(uint64_t timeout_ns)
{
	uint8_t shift = OWED_SHIFT_MIN;

	while (8ULL << shift < timeout_ns)
		shift++;
	return shift;
}

static void compile_measure(const struct service_config *service, struct slc_measure *measure)
{
	measure->turns = service->turns;
	measure->owed_shift = owed_shift(service->timeout_ns);
	measure->http = (uint8_t)service->http_code_count;
	for (size_t i = 0; i < service->http_code_count; i++)
		measure->http_codes[i] = service->http_codes[i];
	measure->failures = service->failures;
	measure->slow_after_ns = service->slow_after_ns;
	measure->timeout_ns = service->timeout_ns;
}

static void service_clear(struct snapshot_service *service)
{
	free(service->keys);
	free(service->overrides);
	*service = (struct snapshot_service){};
}

int compile_service(const struct config *config, const struct service_config *service,
		    struct snapshot_service *ret_service, const char **ret_key, char *why, size_t why_len)
{
	struct snapshot_service out = {};

	compile_counts(service, &out.policy);
	compile_gate(config, service, &out.policy);
	compile_measure(service, &out.measure);
	int err = compile_source(service, &out, ret_key, why, why_len);
	if (!err)
		err = compile_total(config, service, &out.policy, ret_key, why, why_len);
	uint64_t interval = 0, depth = 0;
	if (!err) {
		*ret_key = "shed.reset_rate";
		err = compile_resets(&service->reset_rate, &interval, &depth, why, why_len);
	}
	out.policy.reset_interval16 = interval;
	out.policy.reset_depth16 = depth;
	if (err) {
		if (err == -ENOMEM)
			snprintf(why, why_len, "out of memory");
		service_clear(&out);
		return err;
	}
	*ret_service = out;
	return 0;
}

/* --- snapshot --------------------------------------------------------------------------------------------------- */

static bool is_wildcard(const uint8_t addr[16])
{
	static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff}, any6[16];

	return !memcmp(addr, any4, 16) || !memcmp(addr, any6, 16);
}

static int compile_keys(const struct service_config *service, struct snapshot_service *out, struct slc_global *global)
{
	out->keys = calloc(service->listen_count, sizeof(*out->keys));
	if (!out->keys)
		return -ENOMEM;
	out->key_count = service->listen_count;
	for (size_t i = 0; i < service->listen_count; i++) {
		const struct listen_address *listen = &service->listen[i];
		struct slc_service_key *key = &out->keys[i];

		memcpy(key->addr, listen->addr, sizeof(key->addr));
		key->port = listen->port;
		key->proto = service->proto;
		if (is_wildcard(listen->addr))
			global->has_wildcard = 1;
		else
			global->has_exact = 1;
	}
	return 0;
}

static int compile_services(const struct config *config, struct snapshot *snapshot, struct diag *diag)
{
	char why[WHY_LEN];
	const char *key;

	snapshot->services = calloc(config->service_count, sizeof(*snapshot->services));
	if (!snapshot->services && config->service_count)
		return -ENOMEM;
	for (size_t i = 0; i < config->service_count; i++) {
		const struct service_config *service = &config->services[i];
		struct snapshot_service *out = &snapshot->services[i];
		int err = compile_service(config, service, out, &key, why, sizeof(why));

		if (err) {
			diag_error(diag, "%s:%d: services[%s].%s: %s", config->path, service->line, service->name, key,
				   why);
			return err;
		}
		snapshot->service_count++;
		err = compile_keys(service, out, &snapshot->global);
		if (err)
			return err;
	}
	return 0;
}

static void management_rule(const struct cidr *cidr, struct snapshot_rule *rule)
{
	*rule = (struct snapshot_rule){
		.prefix = cidr->prefix,
		.rule = {.action = SLC_ACTION_management, .until_ns = SLC_FOREVER},
	};
	memcpy(rule->addr, cidr->addr, sizeof(rule->addr));
}

static int trust_rule(const struct trust_config *trust, uint32_t id, struct snapshot_rule *rule, char *why,
		      size_t why_len)
{
	static const uint8_t actions[] = {
		[TRUST_ALLOW] = SLC_ACTION_allow,
		[TRUST_DENY] = SLC_ACTION_deny,
		[TRUST_CLASS] = SLC_ACTION_class,
	};
	uint64_t interval = 0, depth = 0;

	/* A second's worth of the ceiling may come at once. */
	if (trust->action == TRUST_ALLOW) {
		int err = compile_resets(&trust->ceiling, &interval, &depth, why, why_len);

		if (err)
			return err;
	}
	*rule = (struct snapshot_rule){
		.prefix = trust->cidr.prefix,
		.rule =
			{
				.action = actions[trust->action],
				.class = trust->action == TRUST_CLASS ? trust->class : 0,
				.interval = interval,
				.depth = depth,
				.until_ns = SLC_FOREVER,
				.id = id,
			},
	};
	memcpy(rule->addr, trust->cidr.addr, sizeof(rule->addr));
	return 0;
}

/* Management prefixes first; no trust rule lies within one of them (config_check), so none can hide them. */
static int compile_trust(const struct config *config, struct snapshot *snapshot, struct diag *diag)
{
	size_t count = config->management_cidr_count + config->trust_count;
	char why[WHY_LEN];

	if (!count)
		return 0;
	snapshot->trust = calloc(count, sizeof(*snapshot->trust));
	if (!snapshot->trust)
		return -ENOMEM;
	for (size_t i = 0; i < config->management_cidr_count; i++)
		management_rule(&config->management_cidrs[i], &snapshot->trust[snapshot->trust_count++]);
	for (size_t i = 0; i < config->trust_count; i++) {
		const struct trust_config *trust = &config->trust[i];
		int err = trust_rule(trust, (uint32_t)i + 1, &snapshot->trust[snapshot->trust_count], why, sizeof(why));

		if (err) {
			diag_error(diag, "%s: ceiling: %s", trust->origin, why);
			return err;
		}
		snapshot->trust_count++;
	}
	snapshot->global.has_trust = 1;
	return 0;
}

/* Where DSCP marks are believed: interfaces by index, one that is not there by none, and sources by prefix. */
static int compile_dscp(const struct config *config, struct snapshot *snapshot)
{
	size_t slots = sizeof(snapshot->global.dscp_ifindex) / sizeof(snapshot->global.dscp_ifindex[0]), used = 0;

	for (size_t i = 0; i < config->interface_count && used < slots; i++) {
		unsigned index = config->interfaces[i].dscp_trust ? if_nametoindex(config->interfaces[i].name) : 0;

		if (index && index <= UINT16_MAX)
			snapshot->global.dscp_ifindex[used++] = (uint16_t)index;
	}
	if (!config->dscp_trust_count)
		return 0;
	snapshot->dscp = calloc(config->dscp_trust_count, sizeof(*snapshot->dscp));
	if (!snapshot->dscp)
		return -ENOMEM;
	snapshot->dscp_count = config->dscp_trust_count;
	for (size_t i = 0; i < config->dscp_trust_count; i++) {
		memcpy(snapshot->dscp[i].addr, config->dscp_trust[i].addr, sizeof(snapshot->dscp[i].addr));
		snapshot->dscp[i].prefix = config->dscp_trust[i].prefix;
	}
	return 0;
}

static int compile_global(const struct config *config, struct snapshot *snapshot, struct diag *diag)
{
	struct slc_global *global = &snapshot->global;
	char why[WHY_LEN];

	global->fragments_drop = config->fragments_drop;
	global->ip_options_drop = config->ip_options_drop;
	global->unparseable_pass = config->unparseable_pass;
	global->on_loss = config->on_loss;
	global->hold_ns = config->hold_ns;
	uint64_t interval = 0, depth = 0;
	int err = compile_resets(&config->events, &interval, &depth, why, sizeof(why));
	if (err) {
		diag_error(diag, "%s: tables.events: %s", config->path, why);
		return err;
	}
	global->event_interval16 = interval;
	global->event_depth16 = depth;
	err = compile_resets(&config->host_reset_rate, &interval, &depth, why, sizeof(why));
	if (err) {
		diag_error(diag, "%s: host.reset_rate: %s", config->path, why);
		return err;
	}
	global->reset_interval16 = interval;
	global->reset_depth16 = depth;
	if (!config->management_port_count)
		return 0;
	snapshot->management_ports = calloc(config->management_port_count, sizeof(*snapshot->management_ports));
	if (!snapshot->management_ports)
		return -ENOMEM;
	snapshot->management_port_count = config->management_port_count;
	memcpy(snapshot->management_ports, config->management_ports,
	       config->management_port_count * sizeof(*snapshot->management_ports));
	return 0;
}

void snapshot_free(struct snapshot **snapshot)
{
	struct snapshot *s = *snapshot;

	if (!s)
		return;
	for (size_t i = 0; i < s->service_count; i++)
		service_clear(&s->services[i]);
	free(s->services);
	free(s->trust);
	free(s->dscp);
	free(s->management_ports);
	free(s);
	*snapshot = NULL;
}

int compile_snapshot(const struct config *config, struct snapshot **ret_snapshot, struct diag *diag)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int err = snapshot ? compile_global(config, snapshot, diag) : -ENOMEM;

	if (!err)
		err = compile_services(config, snapshot, diag);
	if (!err)
		err = compile_trust(config, snapshot, diag);
	if (!err)
		err = compile_dscp(config, snapshot);
	if (err) {
		if (err == -ENOMEM)
			diag_error(diag, "%s: out of memory", config->path);
		snapshot_free(&snapshot);
		return err;
	}
	*ret_snapshot = snapshot;
	return 0;
}
