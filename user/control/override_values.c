// SPDX-License-Identifier: GPL-2.0-only
/* override_values.c: what an order says, from a request or from the journal: checked once, by the same code. */
#include "user/control/override_parts.h"

#include <errno.h>
#include <string.h>

#include "user/control/address.h"
#include "user/control/clock.h"
#include "user/control/log.h"

#define CEILING_DEFAULT "1000/s"

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
	o->force = json_is_true(json_object_get(o->values, "force"));
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

static int breaker_values(struct override *o, struct problem *problem)
{
	const char *order = json_string_value(json_object_get(o->values, "order"));
	char quoted[QUOTE_LEN];

	if (!order || (strcmp(order, "open") != 0 && strcmp(order, "close") != 0))
		return problem_value(problem, 400, "order", order, "open, close, auto", NULL,
				     "order: %s is not accepted", quote(order ? order : "", quoted));
	o->open = order[0] == 'o';
	return 0;
}

int override_read_values(struct override *o, struct problem *problem)
{
	if (o->kind == OVERRIDE_limits)
		return limits_values(o, problem);
	if (o->kind == OVERRIDE_breaker)
		return breaker_values(o, problem);
	return override_is_order(o) ? order_values(o, problem) : 0;
}

bool override_in_management(const struct daemon *d, const struct cidr *cidr)
{
	for (size_t i = 0; i < d->config->management_cidr_count; i++) {
		if (cidr_contains(&d->config->management_cidrs[i], cidr))
			return true;
	}
	return false;
}

/* Every IPv4 client, and perhaps more. */
static bool is_everybody(const struct cidr *cidr)
{
	struct cidr all_v4 = {.prefix = 96};

	memcpy(all_v4.addr, address_any_v4, sizeof(all_v4.addr));
	return cidr->prefix == 0 || cidr_contains(cidr, &all_v4);
}

static int refuse_everybody(const struct override *o, struct problem *problem)
{
	bool deny = o->kind == OVERRIDE_deny;
	const char *too = o->cidr.prefix == 0 ? " and every IPv6 client" : "";
	char hint[64];

	snprintf(hint, sizeof(hint), "if it is meant: force (sluicectl %s --force)", override_kind_names[o->kind]);
	return problem_value(problem, 409, "cidr", o->subject, "a prefix that leaves somebody", hint,
			     "%s %s %s every IPv4 client%s%s", override_kind_names[o->kind], o->subject,
			     deny ? "refuses" : "lets", too, deny ? "" : " past every limit, up to the ceiling");
}

/*
 * Orders that are more likely a slip than a wish. Forced, one within a management prefix acts on it: nothing else can
 * be meant. A wider one leaves management reachable, so that nobody locks himself out.
 */
int override_check_reach(const struct daemon *d, const struct override *o, struct problem *problem)
{
	const char *hint = "if it is meant: force (sluicectl deny --force)";

	if (override_is_order(o) && is_everybody(&o->cidr))
		return refuse_everybody(o, problem);
	if (o->kind != OVERRIDE_deny)
		return 0;
	for (size_t i = 0; i < d->config->management_cidr_count; i++) {
		const struct cidr *m = &d->config->management_cidrs[i];
		char text[64];

		if (!cidr_contains(&o->cidr, m) && !cidr_contains(m, &o->cidr))
			continue;
		format_cidr(m, text, sizeof(text));
		if (!cidr_contains(m, &o->cidr))
			hint = "if it is meant: force (sluicectl deny --force); management prefixes stay reachable";
		return problem_value(problem, 409, "cidr", o->subject, "a prefix outside of management.cidrs", hint,
				     "deny %s meets management prefix %s", o->subject, text);
	}
	return 0;
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
	if (kind >= 0 && o->values && override_read_values(o, &problem) == 0 &&
	    (!override_is_order(o) || parse_cidr(o->subject, &o->cidr, why, sizeof(why)) == 0))
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

	if (o && override_append(&loading->list, o)) {
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
	overrides_supersede(d);
	return 0;
}
