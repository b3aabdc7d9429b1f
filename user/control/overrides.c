// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/overrides.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/compile.h"
#include "user/control/log.h"
#include "user/control/scope.h"

#define UNITS_MAX (1u << 30) /* of a depth: abi.h */
#define CEILING_DEFAULT "1000/s"

const char *const override_kind_names[OVERRIDE_KIND_COUNT] = {
#define X(name) [OVERRIDE_##name] = #name,
	OVERRIDE_KINDS(X)
#undef X
};

static bool is_order(const struct override *o)
{
	return o->kind == OVERRIDE_deny || o->kind == OVERRIDE_allow;
}

static bool same_cidr(const struct cidr *a, const struct cidr *b)
{
	return a->prefix == b->prefix && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static void override_free(struct override *o)
{
	if (!o)
		return;
	json_decref(o->values);
	free(o);
}

void overrides_free(struct overrides *overrides)
{
	for (size_t i = 0; i < overrides->count; i++)
		override_free(overrides->items[i]);
	free(overrides->items);
	*overrides = (struct overrides){0};
}

/* --- layers of limits -------------------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void overrides_effective(const struct daemon *d, const struct service *service, uint64_t now_ns,
			 struct effective_limits *ret_limits)
{
	const struct service_config *file = service->config;
	struct effective_limits e = {0};

	e.source.rate = file->source.rate;
	e.source.burst = file->source.burst;
	e.total.rate = file->total.rate;
	e.total.burst = file->total.burst;
	e.source_concurrent.limit = file->source_concurrent;
	e.total_concurrent.limit = file->total_concurrent;
	e.source.until_ns = e.total.until_ns = SLC_FOREVER;
	e.source_concurrent.until_ns = e.total_concurrent.until_ns = SLC_FOREVER;

#define BUCKET(which)                                                              \
	do {                                                                       \
		if (c->which##_rate.set) {                                         \
			e.which.rate = c->which##_rate;                            \
			e.which.rate_from = o->id;                                 \
			e.which.until_ns = earlier(e.which.until_ns, o->until_ns); \
		}                                                                  \
		if (c->which##_burst.set) {                                        \
			e.which.burst = c->which##_burst.value;                    \
			e.which.burst_from = o->id;                                \
			e.which.until_ns = earlier(e.which.until_ns, o->until_ns); \
		}                                                                  \
		if (c->which##_concurrent.set) {                                   \
			e.which##_concurrent.limit = c->which##_concurrent;        \
			e.which##_concurrent.from = o->id;                         \
			e.which##_concurrent.until_ns = o->until_ns;               \
		}                                                                  \
	} while (0)
	for (size_t i = 0; i < d->overrides.count; i++) {
		const struct override *o = d->overrides.items[i];
		const struct limits_change *c = &o->change;

		if (o->kind != OVERRIDE_limits || o->until_ns <= now_ns || o->inactive[0] ||
		    strcmp(o->subject, service->policy.name) != 0)
			continue;
		BUCKET(source);
		BUCKET(total);
	}
#undef BUCKET
	*ret_limits = e;
}

bool overrides_draining(const struct daemon *d, const struct service *service)
{
	return overrides_find(d, OVERRIDE_drain, service->policy.name) != NULL;
}

/* T and tau in 1/16 ns of a bucket that an override replaces. */
static int bucket16(const char *name, const struct rate *rate, uint32_t burst, uint64_t *ret_interval,
		    uint64_t *ret_depth, struct problem *problem)
{
	char why[WHY_LEN] = "", text[64], key[64];
	int err;

	if (!rate->set || burst == 0) {
		snprintf(key, sizeof(key), "%s.%s", name, rate->set ? "burst" : "rate");
		return problem_value(problem, 400, key, NULL, rate->set ? "a count, 1 or more" : "a rate, as in 20/s",
				     "set it in the same command: a rate and its burst hold together",
				     "%s is not set, neither by the file nor by an override", key);
	}
	format_rate(rate, text, sizeof(text));
	snprintf(key, sizeof(key), "%s.rate", name);
	err = compile_bucket(&(struct bucket_config){*rate, burst}, ret_interval, ret_depth, why, sizeof(why));
	if (err)
		return problem_value(problem, 400, key, text, why, NULL, "%s: %s cannot be held: %s", key, text, why);
	return 0;
}

static int units(const char *key, uint64_t ns16, uint8_t shift, uint32_t *ret_units, struct problem *problem)
{
	int err = datapath_to_units(ns16, shift, ret_units);

	if (!err && *ret_units <= UNITS_MAX)
		return 0;
	return problem_value(problem, 400, key, NULL, "limits of the order of those in the file",
			     "change the service's source: in the file and reload: its table is then laid out anew",
			     "%s: the buckets of this service count in units of %llu ns, which cannot hold it", key,
			     1ULL << shift);
}

static int compute_source(const struct service *service, const struct effective_limits *e,
			  struct slc_override_half *half, struct problem *problem)
{
	uint64_t interval16, depth16;
	int err;

	if (!e->source.rate_from && !e->source.burst_from)
		return 0;
	if (!(service->policy.flags & SLC_P_SOURCE))
		return problem_value(problem, 409, "source.rate", NULL,
				     "services with source: {rate, burst} in the file",
				     "add source: {rate, burst} to the service and reload; then it can be overridden",
				     "%s has no buckets for sources", service->policy.name);
	err = bucket16("source", &e->source.rate, e->source.burst, &interval16, &depth16, problem);
	if (!err)
		err = units("source.rate", interval16, service->policy.shift, &half->source_interval, problem);
	if (!err)
		err = units("source.burst", depth16, service->policy.shift, &half->source_depth, problem);
	half->flags |= SLC_O_SOURCE;
	half->source_until_ns = e->source.until_ns;
	return err;
}

static int compute_total(const struct effective_limits *e, struct slc_override_half *half, struct problem *problem)
{
	uint64_t interval16, depth16;
	int err;

	if (!e->total.rate_from && !e->total.burst_from)
		return 0;
	err = bucket16("total", &e->total.rate, e->total.burst, &interval16, &depth16, problem);
	if (err)
		return err;
	half->flags |= SLC_O_TOTAL;
	half->total_interval16 = interval16;
	half->total_depth16 = depth16;
	half->total_until_ns = e->total.until_ns;
	return 0;
}

/* What the kernel is to enforce instead of the file's terms. */
static int compute(const struct daemon *d, const struct service *service, struct slc_override_half *ret_half,
		   struct problem *problem)
{
	const struct override *drain = overrides_find(d, OVERRIDE_drain, service->policy.name);
	struct slc_override_half half = {0};
	struct effective_limits e;
	int err;

	overrides_effective(d, service, clock_ns(), &e);
	err = compute_source(service, &e, &half, problem);
	if (!err)
		err = compute_total(&e, &half, problem);
	if (err)
		return err;
	if (e.source_concurrent.from) {
		half.flags |= SLC_O_CONCURRENT;
		half.source_concurrent = e.source_concurrent.limit.value;
		half.concurrent_until_ns = e.source_concurrent.until_ns;
	}
	if (e.total_concurrent.from) {
		half.flags |= SLC_O_BULKHEAD;
		half.total_concurrent = e.total_concurrent.limit.value;
		half.bulkhead_until_ns = e.total_concurrent.until_ns;
	}
	if (drain) {
		half.flags |= SLC_O_DRAIN;
		half.drain_until_ns = drain->until_ns;
	}
	*ret_half = half;
	return 0;
}

static bool same_half(const struct slc_override_half *a, const struct slc_override_half *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Computes, writes and reads back: an order that the map does not hold is none. */
static int push_service(struct daemon *d, const struct service *service, struct problem *problem)
{
	struct slc_override_half half, found;
	int err = compute(d, service, &half, problem);

	if (err)
		return err;
	err = datapath_get_override(d->dp, service->policy.state, &found);
	if (!err && same_half(&half, &found))
		return 0;
	err = datapath_set_override(d->dp, service->policy.state, &half);
	if (!err)
		err = datapath_get_override(d->dp, service->policy.state, &found);
	if (err)
		return problem_say(problem, 500, "%s: the map of overrides refuses: %s", service->policy.name,
				   strerror(-err));
	if (!same_half(&half, &found))
		return problem_say(problem, 500, "%s: the map of overrides holds other values than written",
				   service->policy.name);
	return 0;
}

/* --- orders by address --------------------------------------------------------------------------------------------- */

/* The newest order for the prefix that holds. */
static struct override *order_in_force(const struct daemon *d, const struct cidr *cidr, uint64_t now_ns)
{
	struct override *newest = NULL;

	for (size_t i = 0; i < d->overrides.count; i++) {
		struct override *o = d->overrides.items[i];

		if (is_order(o) && o->until_ns > now_ns && same_cidr(&o->cidr, cidr))
			newest = o;
	}
	return newest;
}

static struct override *by_id(const struct daemon *d, uint32_t id)
{
	for (size_t i = 0; i < d->overrides.count; i++) {
		if (d->overrides.items[i]->id == id)
			return d->overrides.items[i];
	}
	return NULL;
}

/*
 * The rule that the map has for this prefix; -ENOENT. A trie answers with the longest prefix that covers: one of
 * another order is not meant.
 */
static int rule_found(const struct daemon *d, const struct cidr *cidr, struct slc_rule *ret_rule)
{
	struct slc_rule rule;
	const struct override *o;
	int err = datapath_order_covering(d->dp, cidr->addr, cidr->prefix, &rule);

	if (err)
		return err;
	o = by_id(d, rule.id);
	if (o && !same_cidr(&o->cidr, cidr))
		return -ENOENT;
	*ret_rule = rule;
	return 0;
}

/* Bucket of an allow order: the one it has, so that its ceiling is not refilled, or a new one. */
static int ceiling_of(struct daemon *d, const struct override *o, const struct slc_rule *found, struct slc_rule *rule)
{
	if (found->action == SLC_ACTION_allow && found->id == o->id) {
		rule->slot = found->slot;
		return 0;
	}
	return datapath_ceiling_slot(d->dp, &rule->slot);
}

static int rule_of(struct daemon *d, const struct override *o, const struct slc_rule *found, struct slc_rule *ret_rule,
		   struct problem *problem)
{
	struct slc_rule rule = {.id = o->id, .until_ns = o->until_ns};
	uint64_t interval16, depth16;
	int err;

	rule.action = o->kind == OVERRIDE_deny ? SLC_ACTION_deny : SLC_ACTION_allow;
	if (o->all_packets)
		rule.flags |= SLC_RULE_ALL_PACKETS;
	if (o->kind == OVERRIDE_allow) {
		err = bucket16("ceiling", &o->ceiling, o->burst, &interval16, &depth16, problem);
		if (err)
			return err;
		rule.interval = interval16;
		rule.depth = depth16;
		err = ceiling_of(d, o, found, &rule);
		if (err)
			return problem_value(problem, 507, "cidr", o->subject, NULL,
					     "release allow orders that are no longer needed: sluicectl overrides list",
					     "no ceiling is free: %d allow rules and orders hold them all",
					     SLC_CEILINGS);
	}
	*ret_rule = rule;
	return 0;
}

static int push_order(struct daemon *d, const struct cidr *cidr, struct problem *problem)
{
	const struct override *o = order_in_force(d, cidr, clock_ns());
	struct slc_rule rule, found = {0}, check;
	bool had = rule_found(d, cidr, &found) == 0, had_slot = had && found.action == SLC_ACTION_allow;
	int err;

	if (!o) {
		err = had ? datapath_order_delete(d->dp, cidr->addr, cidr->prefix) : 0;
		if (!err && had_slot)
			datapath_ceiling_release(d->dp, found.slot);
		return err && err != -ENOENT
			       ? problem_say(problem, 500, "the map of orders refuses: %s", strerror(-err))
			       : 0;
	}
	err = rule_of(d, o, &found, &rule, problem);
	if (err)
		return err;
	if (had && memcmp(&rule, &found, sizeof(rule)) == 0)
		return 0;
	err = datapath_order_set(d->dp, cidr->addr, cidr->prefix, &rule);
	if (!err)
		err = rule_found(d, cidr, &check);
	if (!err && memcmp(&rule, &check, sizeof(rule)) != 0)
		err = -EIO;
	if (err) {
		if (rule.action == SLC_ACTION_allow && !(had_slot && found.slot == rule.slot))
			datapath_ceiling_release(d->dp, rule.slot);
		return problem_value(problem, err == -ENOSPC ? 507 : 500, "cidr", o->subject, NULL, NULL,
				     err == -ENOSPC ? "the map of orders is full (%s)"
						    : "the map of orders does not hold it: %s",
				     strerror(-err));
	}
	if (had_slot && !(rule.action == SLC_ACTION_allow && rule.slot == found.slot))
		datapath_ceiling_release(d->dp, found.slot);
	return 0;
}

/* --- one list ---------------------------------------------------------------------------------------------------------- */

const struct override *overrides_find(const struct daemon *d, enum override_kind kind, const char *subject)
{
	uint64_t now_ns = clock_ns();

	for (size_t i = d->overrides.count; i-- > 0;) {
		const struct override *o = d->overrides.items[i];

		if (o->kind == kind && o->until_ns > now_ns && strcmp(o->subject, subject) == 0)
			return o;
	}
	return NULL;
}

static int append(struct overrides *list, struct override *o)
{
	struct override **bigger = reallocarray(list->items, list->count + 1, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	list->items = bigger;
	list->items[list->count++] = o;
	return 0;
}

static void take_out(struct overrides *list, size_t i)
{
	memmove(&list->items[i], &list->items[i + 1], (list->count - i - 1) * sizeof(*list->items));
	list->count--;
}

/* What an override acts on, computed anew. */
static int push(struct daemon *d, const struct override *o, struct problem *problem)
{
	struct service *service;

	if (is_order(o))
		return push_order(d, &o->cidr, problem);
	service = daemon_service(d, o->subject);
	return service ? push_service(d, service, problem) : 0;
}

/* The file may have become such that an old order cannot act: it stays in the list, and says so. */
static void settle(struct daemon *d, struct override *o)
{
	struct problem problem;

	o->inactive[0] = '\0';
	if (!is_order(o) && !daemon_service(d, o->subject)) {
		snprintf(o->inactive, sizeof(o->inactive), "no such service in the configuration");
		return;
	}
	if (push(d, o, &problem) == 0)
		return;
	snprintf(o->inactive, sizeof(o->inactive), "%.255s", problem.message);
	log_warning("override %u (%s %s) does not act: %s", o->id, override_kind_names[o->kind], o->subject,
		    problem.message);
	push(d, o, &problem); /* without it: the layer below */
}

void overrides_refresh(struct daemon *d)
{
	struct problem problem;

	for (size_t i = 0; i < d->overrides.count; i++)
		settle(d, d->overrides.items[i]);
	for (size_t i = 0; i < d->service_count; i++) {
		if (push_service(d, d->services[i], &problem))
			log_warning("%s", problem.message);
	}
}

struct strays {
	const struct daemon *d;
	struct cidr *cidrs;
	size_t count;
};

static void find_stray(const uint8_t addr[16], uint8_t prefix, const struct slc_rule *rule, void *arg)
{
	struct strays *strays = arg;
	struct cidr *bigger;

	if (by_id(strays->d, rule->id))
		return;
	bigger = reallocarray(strays->cidrs, strays->count + 1, sizeof(*bigger));
	if (!bigger)
		return;
	strays->cidrs = bigger;
	memcpy(bigger[strays->count].addr, addr, sizeof(bigger->addr));
	bigger[strays->count++].prefix = prefix;
}

void overrides_drop_strays(struct daemon *d)
{
	struct strays strays = {.d = d};
	char text[64];

	datapath_orders_walk(d->dp, find_stray, &strays);
	for (size_t i = 0; i < strays.count; i++) {
		format_cidr(&strays.cidrs[i], text, sizeof(text));
		log_warning("the order for %s is in the map but not in the journal: taken out", text);
		datapath_order_delete(d->dp, strays.cidrs[i].addr, strays.cidrs[i].prefix);
	}
	free(strays.cidrs);
}

void overrides_expire(struct daemon *d, uint64_t now_ns)
{
	struct problem problem;

	for (size_t i = 0; i < d->overrides.count;) {
		struct override *o = d->overrides.items[i];

		if (o->until_ns > now_ns) {
			i++;
			continue;
		}
		take_out(&d->overrides, i);
		if (push(d, o, &problem))
			log_warning("override %u ended: %s", o->id, problem.message);
		journal_order_delete(d->journal, o->id);
		log_info("override %u (%s %s) ended", o->id, override_kind_names[o->kind], o->subject);
		override_free(o);
	}
}

/* --- values ------------------------------------------------------------------------------------------------------------- */

static int limits_values(struct override *o, struct problem *problem)
{
	const char *key;
	json_t *value;

	if (json_object_size(o->values) == 0)
		return problem_value(problem, 400, "set", "{}",
				     "source.rate, source.burst, source.concurrent, total.rate,"
				     " total.burst, total.concurrent",
				     NULL, "set: no limit is named");
	json_object_foreach(o->values, key, value)
	{
		char assignment[256], text[128], why[WHY_LEN] = "";

		if (json_is_string(value))
			snprintf(text, sizeof(text), "%s", json_string_value(value));
		else if (json_is_integer(value))
			snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
		else
			return problem_value(problem, 400, key, NULL, "a text as in \"20/s\", or a count", NULL,
					     "set.%s: is neither text nor count", key);
		snprintf(assignment, sizeof(assignment), "%.100s=%.120s", key, text);
		if (limits_assign(&o->change, assignment, why, sizeof(why)))
			return problem_value(problem, 400, key, text, why, NULL, "%s: %s", assignment, why);
	}
	return 0;
}

/* One second's worth at the ceiling, the depth when no burst is given. */
static uint32_t second_of(const struct rate *rate)
{
	uint64_t n = ((__uint128_t)rate->count * NS_PER_S + rate->per_ns - 1) / rate->per_ns;

	return n < 1 ? 1 : n > UINT32_MAX ? UINT32_MAX : n;
}

static int order_values(struct override *o, struct problem *problem)
{
	const char *ceiling = json_string_value(json_object_get(o->values, "ceiling"));
	json_t *burst = json_object_get(o->values, "burst");
	char why[WHY_LEN] = "";

	o->all_packets = json_is_true(json_object_get(o->values, "all_packets"));
	if (o->kind == OVERRIDE_deny)
		return 0;
	if (!ceiling)
		ceiling = CEILING_DEFAULT;
	if (parse_rate(ceiling, &o->ceiling, why, sizeof(why)))
		return problem_value(problem, 400, "ceiling", ceiling, why, NULL, "ceiling: %s is not accepted: %s",
				     ceiling, why);
	o->burst = second_of(&o->ceiling);
	if (burst) {
		json_int_t n = json_integer_value(burst);

		if (!json_is_integer(burst) || n < 1 || n > 1000000000)
			return problem_value(problem, 400, "burst", NULL, "a count, 1 to 1000000000", NULL,
					     "burst: is not a count that is accepted");
		o->burst = n;
	}
	json_object_set_new(o->values, "ceiling", json_string(ceiling));
	json_object_set_new(o->values, "burst", json_integer(o->burst));
	return 0;
}

static int read_values(struct override *o, struct problem *problem)
{
	if (o->kind == OVERRIDE_limits)
		return limits_values(o, problem);
	return is_order(o) ? order_values(o, problem) : 0;
}

/* Orders that are more likely a slip than a wish. */
static int check_reach(const struct daemon *d, const struct override *o, struct problem *problem)
{
	const struct cidr all_v4 = {.addr = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, .prefix = 96};
	const char *hint = "if it is meant: force (sluicectl deny --force)";

	if (o->kind != OVERRIDE_deny)
		return 0;
	if (cidr_contains(&o->cidr, &all_v4) || o->cidr.prefix == 0)
		return problem_value(problem, 409, "cidr", o->subject, "a prefix that leaves somebody", hint,
				     "deny %s refuses every IPv4 client%s", o->subject,
				     o->cidr.prefix == 0 ? " and every IPv6 client" : "");
	for (size_t i = 0; i < d->config->management_cidr_count; i++) {
		const struct cidr *m = &d->config->management_cidrs[i];
		char text[64];

		if (!cidr_contains(&o->cidr, m) && !cidr_contains(m, &o->cidr))
			continue;
		format_cidr(m, text, sizeof(text));
		return problem_value(problem, 409, "cidr", o->subject, "a prefix outside of management.cidrs", hint,
				     "deny %s meets management prefix %s", o->subject, text);
	}
	return 0;
}

/* --- changes ------------------------------------------------------------------------------------------------------------- */

static int write_down(struct daemon *d, struct override *o, struct problem *problem)
{
	SCOPE_FREE char *values = json_dumps(o->values, JSON_COMPACT);
	int err = values ? 0 : -ENOMEM;

	if (!err)
		err = journal_order_add(d->journal,
					&(struct journal_order){.kind = override_kind_names[o->kind],
								.subject = o->subject,
								.values = values,
								.reason = o->reason,
								.by_uid = o->by_uid,
								.set_wall_ms = o->set_wall_ms,
								.until = o->until},
					&o->id);
	if (err)
		return problem_value(problem, 507, NULL, NULL, NULL, "is control.state full or read-only?",
				     "the journal cannot be written: %s", strerror(-err));
	return 0;
}

int overrides_add(struct daemon *d, struct override *template, bool force, const struct override **ret_override,
		  struct problem *problem)
{
	struct override *o = calloc(1, sizeof(*o));
	struct problem below;
	int err = 0;

	if (!o) {
		json_decref(template->values);
		return problem_say(problem, 500, "out of memory");
	}
	*o = *template;
	o->set_wall_ms = clock_wall_ms();
	o->until = moment_at(o->until_ns);
	err = read_values(o, problem);
	if (!err && !force)
		err = check_reach(d, o, problem);
	if (!err)
		err = write_down(d, o, problem);
	if (err) {
		override_free(o);
		return err;
	}
	if (append(&d->overrides, o)) {
		err = problem_say(problem, 500, "out of memory");
	} else {
		err = push(d, o, problem);
		if (err) {
			take_out(&d->overrides, d->overrides.count - 1);
			push(d, o, &below);
		}
	}
	if (err) {
		journal_order_delete(d->journal, o->id);
		override_free(o);
		return err;
	}
	log_info("override %u: %s %s by uid %u: %s", o->id, override_kind_names[o->kind], o->subject, o->by_uid,
		 o->reason);
	*ret_override = o;
	return 0;
}

int overrides_release(struct daemon *d, uint32_t id, struct problem *problem)
{
	for (size_t i = 0; i < d->overrides.count; i++) {
		struct override *o = d->overrides.items[i];
		int err;

		if (o->id != id)
			continue;
		take_out(&d->overrides, i);
		err = push(d, o, problem);
		if (!err && journal_order_delete(d->journal, id))
			err = problem_say(problem, 507,
					  "override %u is released, but the journal cannot be written: "
					  "it would return with the next start",
					  id);
		log_info("override %u (%s %s) released", id, override_kind_names[o->kind], o->subject);
		override_free(o);
		return err;
	}
	return problem_value(problem, 404, "id", NULL, "an id of `sluicectl overrides list`", NULL,
			     "there is no override %u", id);
}

/* --- reading the journal --------------------------------------------------------------------------------------------------- */

static int kind_of(const char *name)
{
	for (int k = 0; k < OVERRIDE_KIND_COUNT; k++) {
		if (strcmp(name, override_kind_names[k]) == 0)
			return k;
	}
	return -1;
}

static struct override *from_row(const struct journal_order *row)
{
	struct override *o = calloc(1, sizeof(*o));
	char why[WHY_LEN] = "unknown kind";
	struct problem problem = {0};
	int kind = kind_of(row->kind);
	json_error_t error;

	if (!o)
		return NULL;
	o->id = row->id;
	o->kind = kind < 0 ? 0 : kind;
	o->by_uid = row->by_uid;
	o->set_wall_ms = row->set_wall_ms;
	o->until = row->until;
	o->until_ns = moment_here(&row->until);
	snprintf(o->subject, sizeof(o->subject), "%s", row->subject);
	snprintf(o->reason, sizeof(o->reason), "%s", row->reason);
	o->values = json_loads(row->values, 0, &error);
	if (kind >= 0 && o->values && read_values(o, &problem) == 0 &&
	    (!is_order(o) || parse_cidr(o->subject, &o->cidr, why, sizeof(why)) == 0))
		return o;
	log_warning("journal: order %u (%s %s) is not understood: %s", row->id, row->kind, row->subject,
		    problem.message[0] ? problem.message : why);
	override_free(o);
	return NULL;
}

struct loading {
	struct overrides list;
	int err;
};

static void load_row(const struct journal_order *row, void *arg)
{
	struct loading *loading = arg;
	struct override *o = from_row(row);

	if (o && append(&loading->list, o)) {
		override_free(o);
		loading->err = -ENOMEM;
	}
}

int overrides_load(struct daemon *d, char *why, size_t why_len)
{
	struct loading loading = {0};
	int err = journal_orders(d->journal, load_row, &loading);

	if (!err)
		err = loading.err;
	if (err) {
		snprintf(why, why_len, "the journal cannot be read: %s", strerror(-err));
		overrides_free(&loading.list);
		return err;
	}
	d->overrides = loading.list;
	return 0;
}

json_t *override_json(const struct override *o, uint64_t now_ns)
{
	char set_at[ISO_LEN], until[ISO_LEN];
	json_t *json;

	clock_iso(o->set_wall_ms, set_at, sizeof(set_at));
	json = json_pack("{s:I, s:s, s:s, s:O, s:s, s:I, s:s}", "id", (json_int_t)o->id, "kind",
			 override_kind_names[o->kind], is_order(o) ? "cidr" : "service", o->subject, "values",
			 o->values, "reason", o->reason, "by_uid", (json_int_t)o->by_uid, "set_at", set_at);
	if (o->until_ns == SLC_FOREVER) {
		json_object_set_new(json, "until", json_null());
		json_object_set_new(json, "seconds_left", json_null());
	} else {
		clock_iso(o->until.wall_ms, until, sizeof(until));
		json_object_set_new(json, "until", json_string(until));
		json_object_set_new(json, "seconds_left",
				    json_integer(o->until_ns > now_ns ? (o->until_ns - now_ns + NS_PER_S - 1) / NS_PER_S : 0));
	}
	json_object_set_new(json, "inactive", o->inactive[0] ? json_string(o->inactive) : json_null());
	return json;
}
