// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/override_parts.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/log.h"
#include "user/control/scope.h"

const char *const override_kind_names[OVERRIDE_KIND_COUNT] = {
#define X(name) [OVERRIDE_##name] = #name,
	OVERRIDE_KINDS(X)
#undef X
};

bool override_same_cidr(const struct cidr *a, const struct cidr *b)
{
	return a->prefix == b->prefix && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

void override_free(struct override *o)
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

const struct override *override_by_id(const struct daemon *d, uint32_t id)
{
	for (size_t i = 0; i < d->overrides.count; i++) {
		if (d->overrides.items[i]->id == id)
			return d->overrides.items[i];
	}
	return NULL;
}

int override_append(struct overrides *list, struct override *o)
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

/* For the log. */
static const char *kind_text(const struct override *o)
{
	if (o->kind != OVERRIDE_breaker)
		return override_kind_names[o->kind];
	return o->open ? "breaker open" : "breaker close";
}

void overrides_supersede(struct daemon *d)
{
	for (size_t i = 0; i < d->overrides.count;) {
		struct override *o = d->overrides.items[i];
		bool newer = false;

		for (size_t j = i + 1; o->kind == OVERRIDE_breaker && j < d->overrides.count && !newer; j++)
			newer = d->overrides.items[j]->kind == o->kind &&
				strcmp(d->overrides.items[j]->subject, o->subject) == 0;
		if (!newer) {
			i++;
			continue;
		}
		take_out(&d->overrides, i);
		journal_order_delete(d->journal, o->id);
		log_info("override %u (%s %s) is replaced by a newer one", o->id, kind_text(o), o->subject);
		override_free(o);
	}
}

/*
 * The file may have become such that an old order cannot act: it stays in the list, and says so. They are tried in
 * their order, each with those before it; the map sees only the sum.
 */
static void settle(struct daemon *d, struct override *o)
{
	struct problem problem = {0};
	struct service *service = override_is_order(o) ? NULL : daemon_service(d, o->subject);
	int err;

	o->inactive[0] = '\0';
	if (override_is_order(o))
		err = override_push(d, o, &problem);
	else if (service)
		err = override_try_service(d, service, &problem);
	else
		err = problem_say(&problem, 404, "there is no such service in the configuration");
	if (!err && o->kind == OVERRIDE_deny && !o->force && override_in_management(d, &o->cidr))
		err = problem_say(&problem, 409, "management.cidrs covers it: it would act only if given with force");
	if (!err)
		return;
	snprintf(o->inactive, sizeof(o->inactive), "%.*s", (int)sizeof(o->inactive) - 1, problem.message);
	log_warning("override %u (%s %s) does not act: %s", o->id, kind_text(o), o->subject, problem.message);
}

void overrides_refresh(struct daemon *d)
{
	struct problem problem;

	for (size_t i = 0; i < d->overrides.count; i++)
		strcpy(d->overrides.items[i]->inactive, "not tried yet");
	for (size_t i = 0; i < d->overrides.count; i++)
		settle(d, d->overrides.items[i]);
	for (size_t i = 0; i < d->service_count; i++) {
		if (override_push_service(d, d->services[i], &problem))
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

	if (override_by_id(strays->d, rule->id))
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
		if (override_push(d, o, &problem))
			log_warning("override %u ended: %s", o->id, problem.message);
		journal_order_delete(d->journal, o->id);
		log_info("override %u (%s %s) ended", o->id, kind_text(o), o->subject);
		override_free(o);
	}
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

int overrides_add(struct daemon *d, struct override *template, const struct override **ret_override,
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
	err = override_read_values(o, problem);
	if (!err && !o->force)
		err = override_check_reach(d, o, problem);
	if (!err)
		err = write_down(d, o, problem);
	if (err) {
		override_free(o);
		return err;
	}
	if (override_append(&d->overrides, o)) {
		err = problem_say(problem, 500, "out of memory");
	} else {
		err = override_push(d, o, problem);
		if (err) {
			take_out(&d->overrides, d->overrides.count - 1);
			override_push(d, o, &below);
		}
	}
	if (err) {
		journal_order_delete(d->journal, o->id);
		override_free(o);
		return err;
	}
	overrides_supersede(d);
	log_info("override %u: %s %s by uid %u: %s", o->id, kind_text(o), o->subject, o->by_uid, o->reason);
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
		err = override_push(d, o, problem);
		if (!err && journal_order_delete(d->journal, id))
			err = problem_say(problem, 507,
					  "override %u is released, but the journal cannot be written: "
					  "it would return with the next start",
					  id);
		log_info("override %u (%s %s) released", id, kind_text(o), o->subject);
		override_free(o);
		return err;
	}
	return problem_value(problem, 404, "id", NULL, "an id of `sluicectl overrides list`", NULL,
			     "there is no override %u", id);
}

json_t *override_json(const struct override *o, uint64_t now_ns)
{
	char set_at[ISO_LEN], until[ISO_LEN];
	json_t *json;

	clock_iso(o->set_wall_ms, set_at, sizeof(set_at));
	json = json_pack("{s:I, s:s, s:s, s:O, s:s, s:I, s:s}", "id", (json_int_t)o->id, "kind",
			 override_kind_names[o->kind], override_is_order(o) ? "cidr" : "service", o->subject, "values",
			 o->values, "reason", o->reason, "by_uid", (json_int_t)o->by_uid, "set_at", set_at);
	if (o->until_ns == SLC_FOREVER) {
		json_object_set_new(json, "until", json_null());
		json_object_set_new(json, "seconds_left", json_null());
	} else {
		clock_iso(o->until.wall_ms, until, sizeof(until));
		json_object_set_new(json, "until", json_string(until));
		json_object_set_new(
			json, "seconds_left",
			json_integer(o->until_ns > now_ns ? (o->until_ns - now_ns + NS_PER_S - 1) / NS_PER_S : 0));
	}
	json_object_set_new(json, "inactive", o->inactive[0] ? json_string(o->inactive) : json_null());
	return json;
}
