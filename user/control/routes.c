// SPDX-License-Identifier: GPL-2.0-only
/* routes.c: what each path of the API does. The table at the end is the whole surface. */
#include "user/control/api.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/controller.h"
#include "user/control/event_log.h"
#include "user/control/accept_queues.h"
#include "user/control/log.h"
#include "user/control/metrics.h"
#include "user/control/overrides.h"
#include "user/control/reload.h"
#include "user/control/scope.h"
#include "user/control/sources.h"
#include "user/control/status.h"

/* --- what requests have in common -------------------------------------------------------------------------------- */

static const char *text_of(const struct call *call, const char *key)
{
	return json_string_value(json_object_get(call->body, key));
}

static int need_text(const struct call *call, const char *key, const char **ret_text, struct problem *problem)
{
	const char *text = text_of(call, key);

	*ret_text = text ? text : "";
	if (!text)
		return problem_value(problem, 400, key, NULL, "a text", NULL, "%s is missing, or not a text", key);
	return 0;
}

/* A key that is not read is a misspelt one: the caller would believe that it acts. */
static int known_keys(const struct call *call, const char *const *keys, struct problem *problem)
{
	const char *key;
	json_t *value;
	char accepted[256] = "";
	size_t used = 0;

	for (size_t i = 0; keys[i] && used < sizeof(accepted); i++)
		used += snprintf(accepted + used, sizeof(accepted) - used, "%s%s", used ? ", " : "", keys[i]);
	json_object_foreach(call->body, key, value)
	{
		bool known = false;

		for (size_t i = 0; keys[i] && !known; i++)
			known = strcmp(key, keys[i]) == 0;
		if (!known)
			return problem_value(problem, 400, key, NULL, accepted, NULL, "unknown key %.64s", key);
	}
	return 0;
}

/* Absent: false. */
static int read_switch(const struct call *call, const char *key, bool *ret_on, struct problem *problem)
{
	const json_t *value = json_object_get(call->body, key);

	if (value && !json_is_boolean(value) && !json_is_null(value))
		return problem_value(problem, 400, key, json_string_value(value), "true, false", NULL,
				     "%s: is neither true nor false", key);
	*ret_on = json_is_true(value);
	return 0;
}

/* "for" and "reason" of an order. */
static int order_terms(const struct call *call, struct override *o, struct problem *problem)
{
	const char *until = text_of(call, "for"), *reason;
	char why[WHY_LEN] = "", quoted[QUOTE_LEN];
	uint64_t ns;

	o->until_ns = SLC_FOREVER;
	o->by_uid = call->uid;
	if (need_text(call, "reason", &reason, problem))
		return -EINVAL;
	if (check_reason(reason, strlen(reason), why, sizeof(why)))
		return problem_value(problem, 400, "reason", reason, why, NULL, "reason: accepted is %s", why);
	snprintf(o->reason, sizeof(o->reason), "%s", reason);
	if (!until) {
		json_t *given = json_object_get(call->body, "for");

		if (given && !json_is_null(given))
			return problem_value(problem, 400, "for", NULL, "a text with a unit, as in \"10m\"", NULL,
					     "for: is not a text");
		return 0;
	}
	if (parse_order_time(until, &ns, why, sizeof(why)))
		return problem_value(problem, 400, "for", until, why, "without `for` it holds until it is released",
				     "for: %s is not accepted: %s", quote(until, quoted), why);
	o->until_ns = clock_ns() + ns;
	return 0;
}

static int reply_json(struct reply *reply, json_t *json)
{
	reply->json = json;
	return 0;
}

/* --- reading ----------------------------------------------------------------------------------------------------------- */

static int get_status(const struct call *call, struct reply *reply, struct problem *problem)
{
	(void)problem;
	return reply_json(reply, status_json(call->d, clock_ns()));
}

static int get_services(const struct call *call, struct reply *reply, struct problem *problem)
{
	(void)problem;
	return reply_json(reply, json_pack("{s:o}", "services", status_services(call->d, clock_ns())));
}

static int get_service(const struct call *call, struct reply *reply, struct problem *problem)
{
	struct service *service;

	if (find_service(call, call->segment, &service, problem))
		return -EINVAL;
	return reply_json(reply, status_service(call->d, service, clock_ns(), true));
}

static int get_trust(const struct call *call, struct reply *reply, struct problem *problem)
{
	(void)problem;
	return reply_json(reply, status_trust(call->d, clock_ns()));
}

static int get_overrides(const struct call *call, struct reply *reply, struct problem *problem)
{
	json_t *list = json_array();
	uint64_t now_ns = clock_ns();

	(void)problem;
	for (size_t i = 0; i < call->d->overrides.count; i++)
		json_array_append_new(list, override_json(call->d->overrides.items[i], now_ns));
	return reply_json(reply, json_pack("{s:o}", "overrides", list));
}

static int get_metrics(const struct call *call, struct reply *reply, struct problem *problem)
{
	int err = metrics_text(call->d, clock_ns(), &reply->text, &reply->len);

	if (err)
		return problem_say(problem, 500, "metrics: %s", strerror(-err));
	reply->type = METRICS_TYPE;
	return 0;
}

#define WAIT_MAX_MS 10000

static int read_number(const struct call *call, const char *key, uint64_t max, const char *accepted, bool *ret_has,
		       uint64_t *ret_number, struct problem *problem)
{
	const char *text = call->query(call->query_arg, key);
	char quoted[QUOTE_LEN], *end;

	*ret_has = text != NULL;
	if (!text)
		return 0;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || *ret_number > max)
		return problem_value(problem, 400, key, text, accepted, NULL, "%s: %s is not accepted", key,
				     quote(text, quoted));
	return 0;
}

static int read_kind(const struct call *call, struct event_query *query, struct problem *problem)
{
	const char *text = call->query(call->query_arg, "kind");
	char accepted[64] = "", quoted[QUOTE_LEN];
	size_t used = 0;

	if (!text)
		return 0;
	for (int k = 0; k < EVENT_KIND_COUNT; k++) {
		if (strcmp(text, event_kind_names[k]) == 0) {
			query->has_kind = true;
			query->kind = k;
			return 0;
		}
		used += snprintf(accepted + used, sizeof(accepted) - used, "%s%s", k ? ", " : "", event_kind_names[k]);
	}
	return problem_value(problem, 400, "kind", text, accepted, NULL, "kind: %s is not accepted",
			     quote(text, quoted));
}

/* Only a name that exists: a follower of a misspelt one would wait for ever. */
static int read_service(const struct call *call, struct event_query *query, struct problem *problem)
{
	struct service *service;

	query->service = call->query(call->query_arg, "service");
	if (!query->service)
		return 0;
	SCOPE_LOCK(&call->d->lock);
	return find_service(call, query->service, &service, problem);
}

static int get_events(const struct call *call, struct reply *reply, struct problem *problem)
{
	struct event_log *log = call->d->event_log;
	struct event_query query = {0};
	struct event_answer answer;
	uint64_t wait_ms = 0, now_ns = clock_ns();
	bool wait;
	int err;

	if (read_number(call, "after", INT64_MAX, "the `seq` of an answer before", &query.has_after, &query.after,
			problem) ||
	    read_number(call, "wait", WAIT_MAX_MS, "milliseconds, 0 to 10000", &wait, &wait_ms, problem) ||
	    read_kind(call, &query, problem) || read_service(call, &query, problem))
		return -EINVAL;
	reply->wait_until_ns = call->waited ? call->wait_until_ns : now_ns + wait_ms * NS_PER_MS;
	reply->wait_seq = event_log_seq(log);
	if (wait && reply->wait_until_ns > now_ns && !event_log_has(log, &query)) {
		reply->wait = true;
		return 0;
	}
	err = event_log_read(log, &query, now_ns, &answer);
	if (err)
		return problem_say(problem, 500, "events: %s", strerror(-err));
	return reply_json(reply,
			  json_pack("{s:o, s:I, s:I, s:I}", "events", answer.events, "seq", (json_int_t)answer.seq,
				    "lost", (json_int_t)answer.lost, "seen", (json_int_t)answer.seen));
}

/* --- orders --------------------------------------------------------------------------------------------------------------- */

static int post_limits(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"service", "set", "for", "reason", NULL};
	struct override o = {.kind = OVERRIDE_limits};
	json_t *set = json_object_get(call->body, "set");
	const struct override *made;
	struct service *service;
	const char *name;

	if (known_keys(call, keys, problem) || need_text(call, "service", &name, problem) ||
	    find_service(call, name, &service, problem) || order_terms(call, &o, problem))
		return -EINVAL;
	if (!json_is_object(set))
		return problem_value(problem, 400, "set", NULL, "an object, as in {\"source.rate\": \"20/s\"}", NULL,
				     "set is missing, or not an object");
	snprintf(o.subject, sizeof(o.subject), "%s", name);
	o.values = json_deep_copy(set);
	if (!o.values)
		return problem_say(problem, 500, "out of memory");
	if (overrides_add(call->d, &o, &made, problem))
		return -EINVAL;
	return reply_json(reply, json_pack("{s:o, s:o}", "override", override_json(made, clock_ns()), "effective",
					   status_limits(call->d, service, clock_ns())));
}

static int order_kind(const struct call *call, struct override *o, struct problem *problem)
{
	const char *action, *cidr;
	char why[WHY_LEN] = "", quoted[QUOTE_LEN];

	if (need_text(call, "action", &action, problem) || need_text(call, "cidr", &cidr, problem))
		return -EINVAL;
	if (strcmp(action, "deny") != 0 && strcmp(action, "allow") != 0)
		return problem_value(problem, 400, "action", action, "deny, allow", NULL, "action: %s is not accepted",
				     quote(action, quoted));
	o->kind = action[0] == 'd' ? OVERRIDE_deny : OVERRIDE_allow;
	if (parse_cidr(cidr, &o->cidr, why, sizeof(why)))
		return problem_value(problem, 400, "cidr", cidr, why, NULL, "cidr: %s is not accepted: %s",
				     quote(cidr, quoted), why);
	format_cidr(&o->cidr, o->subject, sizeof(o->subject));
	return 0;
}

/* Values of the kind given only: `ceiling` means nothing to a deny. */
static int order_values_of(const struct call *call, struct override *o, struct problem *problem)
{
	json_t *ceiling = json_object_get(call->body, "ceiling"), *burst = json_object_get(call->body, "burst");
	bool all, force;

	if (read_switch(call, "all_packets", &all, problem) || read_switch(call, "force", &force, problem))
		return -EINVAL;
	if (o->kind == OVERRIDE_deny && (ceiling || burst))
		return problem_value(problem, 400, ceiling ? "ceiling" : "burst", NULL, "with action allow only", NULL,
				     "a deny order has no %s", ceiling ? "ceiling" : "burst");
	if (o->kind == OVERRIDE_allow && all)
		return problem_value(problem, 400, "all_packets", "true", "with action deny only", NULL,
				     "an allow order has no all_packets");
	if (ceiling && !json_is_string(ceiling))
		return problem_value(problem, 400, "ceiling", NULL, "a text with a unit, as in \"1000/s\"", NULL,
				     "ceiling: is not a text");
	o->values = json_object();
	if (ceiling)
		json_object_set(o->values, "ceiling", ceiling);
	if (burst)
		json_object_set(o->values, "burst", burst);
	if (all)
		json_object_set_new(o->values, "all_packets", json_true());
	if (force)
		json_object_set_new(o->values, "force", json_true());
	return 0;
}

static int post_orders(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"action", "cidr",        "for",   "reason", "ceiling",
					   "burst",  "all_packets", "force", NULL};
	struct override o = {0};
	const struct override *made;

	if (known_keys(call, keys, problem) || order_kind(call, &o, problem) || order_terms(call, &o, problem) ||
	    order_values_of(call, &o, problem) || overrides_add(call->d, &o, &made, problem))
		return -EINVAL;
	return reply_json(reply, json_pack("{s:o}", "override", override_json(made, clock_ns())));
}

static int delete_override(const struct call *call, struct reply *reply, struct problem *problem)
{
	char *end;
	unsigned long id = strtoul(call->segment, &end, 10);

	if (*end || id == 0 || id > UINT32_MAX)
		return problem_value(problem, 400, "id", call->segment, "an id of `sluicectl overrides list`", NULL,
				     "that is not an id");
	if (overrides_release(call->d, id, problem))
		return -EINVAL;
	return reply_json(reply, json_pack("{s:I}", "released", (json_int_t)id));
}

static json_t *drain_json(const struct call *call, struct service *service)
{
	listeners_count_before_start(call->d, service, clock_ns(), NS_PER_S);
	return json_pack("{s:s, s:I, s:I}", "service", service->policy.name, "open_connections",
			 (json_int_t)datapath_signals(call->d->dp, service->policy.state)->open,
			 "before_start_connections", (json_int_t)service->before_start);
}

static int post_drain(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"reason", NULL};
	struct override o = {.kind = OVERRIDE_drain, .by_uid = call->uid, .until_ns = SLC_FOREVER};
	const char *reason = text_of(call, "reason");
	const struct override *made;
	struct service *service;
	char why[WHY_LEN] = "";

	if (known_keys(call, keys, problem) || find_service(call, call->segment, &service, problem))
		return -EINVAL;
	if (!reason)
		reason = "drain";
	if (check_reason(reason, strlen(reason), why, sizeof(why)))
		return problem_value(problem, 400, "reason", reason, why, NULL, "reason: accepted is %s", why);
	if (!overrides_find(call->d, OVERRIDE_drain, service->policy.name)) {
		snprintf(o.reason, sizeof(o.reason), "%s", reason);
		memcpy(o.subject, service->policy.name, sizeof(service->policy.name));
		o.values = json_object();
		if (overrides_add(call->d, &o, &made, problem))
			return -EINVAL;
	}
	return reply_json(reply, drain_json(call, service));
}

static int post_undrain(const struct call *call, struct reply *reply, struct problem *problem)
{
	const struct override *drain;
	struct service *service;

	if (find_service(call, call->segment, &service, problem))
		return -EINVAL;
	drain = overrides_find(call->d, OVERRIDE_drain, service->policy.name);
	if (drain && overrides_release(call->d, drain->id, problem))
		return -EINVAL;
	return reply_json(reply, drain_json(call, service));
}

/* --- breaker ------------------------------------------------------------------------------------------------------------------- */

/* Whether what was decided after the order says what it asks for, and the maps say it too. */
static int check_order(const struct call *call, const struct service *service, const struct override *order,
		       struct problem *problem)
{
	enum breaker_state state = service->breaker.state;
	bool obeyed = order ? state == (order->open ? BREAKER_forced_open : BREAKER_forced_closed)
			    : !breaker_is_forced(state);

	if (obeyed && breakers_in_force(call->d, service))
		return 0;
	return problem_value(problem, 500, "breaker", breaker_state_names[state], NULL,
			     "look at sluicectl status: does the tick run?",
			     "%s: the order is kept, but the maps do not show it yet: its breaker is %s",
			     service->policy.name, breaker_state_names[state]);
}

static int order_breaker(const struct call *call, struct service *service, const char *order,
			 const struct override **ret_made, struct problem *problem)
{
	struct override o = {.kind = OVERRIDE_breaker};

	if (order_terms(call, &o, problem))
		return -EINVAL;
	memcpy(o.subject, service->policy.name, sizeof(service->policy.name));
	o.values = json_pack("{s:s}", "order", order);
	return overrides_add(call->d, &o, ret_made, problem);
}

/* `auto`: there may be none. It takes no terms: they would be kept nowhere. */
static int release_breaker(const struct call *call, const struct service *service, struct problem *problem)
{
	static const char *const keys[] = {"order", "reason", NULL};
	const struct override *old = overrides_find(call->d, OVERRIDE_breaker, service->policy.name);

	if (known_keys(call, keys, problem))
		return -EINVAL;
	return old ? overrides_release(call->d, old->id, problem) : 0;
}

static int post_breaker(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"order", "for", "reason", NULL};
	const struct override *made = NULL;
	struct service *service;
	const char *order;
	int err;

	if (known_keys(call, keys, problem) || find_service(call, call->segment, &service, problem) ||
	    need_text(call, "order", &order, problem))
		return -EINVAL;
	if (strcmp(order, "auto") == 0)
		err = release_breaker(call, service, problem);
	else
		err = order_breaker(call, service, order, &made, problem);
	if (err)
		return err;
	controller_decide(call->d, clock_ns());
	if (check_order(call, service, made, problem))
		return -EINVAL;
	return reply_json(reply, json_pack("{s:o, s:o}", "breaker", status_breaker(call->d, service, clock_ns(), true),
					   "override", made ? override_json(made, clock_ns()) : json_null()));
}

/* --- configuration --------------------------------------------------------------------------------------------------------- */

static json_t *lines_json(char **lines, size_t count)
{
	json_t *json = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(json, text_json(lines[i]));
	return json;
}

#define SCOPE_DIAG __attribute__((cleanup(diag_reset))) struct diag

/* All that went wrong as one message; the CLI shows it as it is. */
static int diag_problem(const struct diag *diag, const char *path, const char *hint, struct problem *problem)
{
	char message[sizeof(problem->message)] = "";
	size_t used = 0;

	for (size_t i = 0; i < diag->error_count && used < sizeof(message); i++)
		used += snprintf(message + used, sizeof(message) - used, "%s%s", used ? "\n" : "", diag->errors[i]);
	problem_value(problem, 400, "path", path, NULL, hint, "%s",
		      used ? message : "the configuration is not accepted");
	return -EINVAL;
}

/* From {path} or {text}; without either the daemon's own file. */
static int read_config(const struct call *call, struct config **ret_config, struct diag *diag)
{
	const char *path = text_of(call, "path"), *text = text_of(call, "text");

	if (text)
		return config_parse("text", text, strlen(text), ret_config, diag);
	return config_load(path ? path : call->d->config_path, ret_config, diag);
}

static int post_check(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"path", "text", NULL};
	SCOPE_CONFIG *config = NULL;
	SCOPE_DIAG diag = {0};

	if (known_keys(call, keys, problem))
		return -EINVAL;
	if (read_config(call, &config, &diag) == 0 && daemon_check(config, &diag) == 0) {
		SCOPE_LOCK(&call->d->lock);
		breakers_advise(call->d, config, &diag);
		return reply_json(reply, json_pack("{s:b, s:[], s:o}", "ok", true, "errors", "warnings",
						   lines_json(diag.warnings, diag.warning_count)));
	}
	reply->json = json_pack("{s:b, s:o, s:o}", "ok", false, "errors", lines_json(diag.errors, diag.error_count),
				"warnings", lines_json(diag.warnings, diag.warning_count));
	reply->status = 400;
	return 0;
}

static int post_load(const struct call *call, struct reply *reply, struct problem *problem)
{
	static const char *const keys[] = {"path", NULL};
	const char *path = text_of(call, "path");
	struct reload_result result = {0};
	json_t *warnings;

	if (known_keys(call, keys, problem))
		return -EINVAL;
	if (!path)
		path = call->d->config_path;
	if (reload_file(call->d, path, &result)) {
		diag_problem(&result.diag, path, reload_what_holds(&result), problem);
		diag_reset(&result.diag);
		return -EINVAL;
	}
	warnings = lines_json(result.diag.warnings, result.diag.warning_count);
	diag_reset(&result.diag);
	return reply_json(reply, json_pack("{s:I, s:b, s:o}", "snapshot", (json_int_t)result.snapshot, "changed",
					   result.changed, "warnings", warnings));
}

static void add_difference(const char *key, const char *running, const char *file, void *arg)
{
	json_array_append_new(arg, json_pack("{s:o, s:o, s:o}", "key", text_json(key), "running",
					     running ? text_json(running) : json_null(), "file",
					     file ? text_json(file) : json_null()));
}

static int get_diff(const struct call *call, struct reply *reply, struct problem *problem)
{
	const char *path = call->query(call->query_arg, "path");
	SCOPE_CONFIG *config = NULL;
	SCOPE_DIAG diag = {0};
	json_t *rows;

	if (!path)
		path = call->d->config_path;
	if (config_load(path, &config, &diag))
		return diag_problem(&diag, path, NULL, problem);
	rows = json_array();
	SCOPE_LOCK(&call->d->lock);
	config_diff(call->d->config, config, add_difference, rows);
	return reply_json(reply, json_pack("{s:o}", "diff", rows));
}

static int post_detach(const struct call *call, struct reply *reply, struct problem *problem)
{
	char why[WHY_LEN] = "";
	int err = daemon_detach(call->d, why, sizeof(why));

	if (err)
		return problem_say(problem, 500, "detach: %s", why[0] ? why : strerror(-err));
	reply->last = true;
	return reply_json(reply, json_pack("{s:b, s:s}", "detached", true, "pins", call->d->pins));
}

/* --- table -------------------------------------------------------------------------------------------------------------------- */

const struct route routes[] = {
	{"GET", "/v1/status", "/v1/status", get_status, .locked = true},
	{"GET", "/v1/services", "/v1/services", get_services, .locked = true},
	{"GET", "/v1/services/*", "/v1/services/NAME", get_service, .locked = true},
	{"POST", "/v1/services/*/drain", "/v1/services/NAME/drain", post_drain, .locked = true},
	{"POST", "/v1/services/*/undrain", "/v1/services/NAME/undrain", post_undrain, .locked = true},
	{"POST", "/v1/services/*/breaker", "/v1/services/NAME/breaker", post_breaker, .locked = true},
	{"GET", "/v1/sources", "/v1/sources?service=NAME&limit=N", sources_top, .locked = false},
	{"GET", "/v1/sources/*", "/v1/sources/ADDR?service=NAME", sources_show, .locked = true},
	{"POST", "/v1/limits", "/v1/limits", post_limits, .locked = true},
	{"POST", "/v1/orders", "/v1/orders", post_orders, .locked = true},
	{"GET", "/v1/trust", "/v1/trust", get_trust, .locked = true},
	{"GET", "/v1/overrides", "/v1/overrides", get_overrides, .locked = true},
	{"DELETE", "/v1/overrides/*", "/v1/overrides/ID", delete_override, .locked = true},
	{"POST", "/v1/config/check", "/v1/config/check", post_check, .locked = false},
	{"POST", "/v1/config/load", "/v1/config/load", post_load, .locked = false},
	{"GET", "/v1/config/diff", "/v1/config/diff?path=PATH", get_diff, .locked = false},
	{"GET", "/v1/events", "/v1/events?after=SEQ&wait=MS&service=NAME&kind=KIND", get_events, .locked = false},
	{"POST", "/v1/detach", "/v1/detach", post_detach, .locked = false},
	{"GET", "/metrics", "/metrics", get_metrics, .locked = true, .public = true},
};
const size_t route_count = sizeof(routes) / sizeof(routes[0]);
