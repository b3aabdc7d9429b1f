// SPDX-License-Identifier: GPL-2.0-only
/* test_events: the log of events, and that events of today have all that readers of the last version read. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/control/clock.h"
#include "user/control/dependencies.h"
#include "user/control/event_log.h"
#include "user/control/figures_json.h"

static char data[PATH_MAX]; /* tests/data/events of this checkout */

static int find_data(void **state)
{
	char self[PATH_MAX] = "";
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	for (int up = 0; up < 3 && len > 0; up++) /* build/unit/test_events */
		*strrchr(self, '/') = '\0';
	snprintf(data, sizeof(data), "%.4000s/tests/data/events", self);
	return access(data, R_OK);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static void refuse(struct event_log *log, unsigned int count, const char *service)
{
	struct slc_event event = {.time_ns = clock_ns(), .reason = SLC_rate_limited, .saddr = {[10] = 0xff, 0xff, 192}};

	while (count--)
		event_log_refusal(log, &event, service);
}

static void turn(struct event_log *log, const char *service)
{
	event_log_breaker(log, service, clock_ns(), json_pack("{s:s}", "rule", "fast"));
}

static struct event_answer ask(struct event_log *log, const struct event_query *query)
{
	struct event_answer answer;

	assert_int_equal(event_log_read(log, query, clock_ns(), &answer), 0);
	return answer;
}

static uint64_t seq_at(const struct event_answer *answer, size_t i)
{
	return json_integer_value(json_object_get(json_array_get(answer->events, i), "seq"));
}

static void one_sequence_of_both_kinds(void **state)
{
	struct event_log *log = event_log_new();
	struct event_query query = {0};
	struct event_answer answer;

	(void)state;
	assert_int_equal(event_log_seq(log), 0);
	assert_false(event_log_has(log, &query));
	refuse(log, 1, "web");
	turn(log, "web");
	refuse(log, 1, NULL);
	turn(log, "db");
	answer = ask(log, &query);
	assert_int_equal(json_array_size(answer.events), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(seq_at(&answer, i), i + 1);
	assert_int_equal(answer.seq, 4);
	assert_int_equal(answer.seen, 2);
	assert_true(json_is_null(json_object_get(json_array_get(answer.events, 2), "service")));
	json_decref(answer.events);
	event_log_free(&log);
	assert_null(log);
}

static void filters_choose(void **state)
{
	struct event_log *log = event_log_new();
	struct event_query query = {.service = "web"};
	struct event_answer answer;

	(void)state;
	refuse(log, 2, "web");
	turn(log, "db");
	turn(log, "web");
	answer = ask(log, &query);
	assert_int_equal(json_array_size(answer.events), 3);
	json_decref(answer.events);
	query = (struct event_query){.has_kind = true, .kind = EVENT_breaker, .has_after = true, .after = 3};
	answer = ask(log, &query);
	assert_int_equal(json_array_size(answer.events), 1);
	assert_int_equal(seq_at(&answer, 0), 4);
	json_decref(answer.events);
	query.after = 4;
	assert_false(event_log_has(log, &query));
	query.after = 5; /* a number of another life of the daemon: all are new */
	assert_true(event_log_has(log, &query));
	event_log_free(&log);
}

/* A reader that comes late is told how many it has missed; a storm of refusals keeps what the breaker did. */
static void lost_ones_are_counted(void **state)
{
	struct event_log *log = event_log_new();
	struct event_query query = {.has_after = true, .after = 0};
	struct event_answer answer;

	(void)state;
	turn(log, "web");
	refuse(log, EVENTS_KEPT + 10, "web");
	answer = ask(log, &query);
	assert_int_equal(json_array_size(answer.events), EVENTS_KEPT + 1);
	assert_int_equal(answer.lost, 10);
	assert_int_equal(answer.seen, EVENTS_KEPT + 10);
	assert_string_equal(json_string_value(json_object_get(json_array_get(answer.events, 0), "kind")), "breaker");
	json_decref(answer.events);

	query.after = 6; /* the breaker's and five of the ten were read */
	answer = ask(log, &query);
	assert_int_equal(answer.lost, 5);
	json_decref(answer.events);
	query = (struct event_query){.has_after = true, .has_kind = true, .kind = EVENT_breaker};
	answer = ask(log, &query);
	assert_int_equal(json_array_size(answer.events), 1);
	assert_int_equal(answer.lost, 0);
	json_decref(answer.events);
	query.kind = EVENT_refusal;
	answer = ask(log, &query);
	assert_int_equal(answer.lost, 10);
	json_decref(answer.events);
	query = (struct event_query){0}; /* without `after` nothing is missed */
	answer = ask(log, &query);
	assert_int_equal(answer.lost, 0);
	json_decref(answer.events);
	event_log_free(&log);
}

/* What was handed out stays whole when its place is taken by others. */
static void answers_outlive_the_ring(void **state)
{
	struct event_log *log = event_log_new();
	struct event_query query = {0};
	struct event_answer answer;

	(void)state;
	turn(log, "web");
	answer = ask(log, &query);
	for (unsigned int i = 0; i < EVENTS_KEPT; i++)
		turn(log, "db");
	event_log_free(&log);
	assert_string_equal(json_string_value(json_object_get(json_array_get(answer.events, 0), "rule")), "fast");
	json_decref(answer.events);
}

/* --- schema ---------------------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {
	[JSON_OBJECT] = "object", [JSON_ARRAY] = "array",  [JSON_STRING] = "string", [JSON_INTEGER] = "integer",
	[JSON_REAL] = "number",   [JSON_TRUE] = "boolean", [JSON_FALSE] = "boolean", [JSON_NULL] = "null",
};

/* "number|null" of 3, 3.5 and null. */
static bool is_of(const json_t *value, const char *types)
{
	const char *name = value ? type_names[json_typeof(value)] : "nothing";

	for (const char *at = types; *at; at += strcspn(at, "|"), at += *at == '|') {
		size_t len = strcspn(at, "|");

		if (strlen(name) == len && strncmp(at, name, len) == 0)
			return true;
		if (json_is_integer(value) && len == 6 && strncmp(at, "number", 6) == 0)
			return true;
	}
	return false;
}

/* Number of values found at `path`, all of them of the types; -1: one is missing or of another. */
static int count_at(const json_t *value, const char *path, const char *types)
{
	size_t len = strcspn(path, ".[");
	char key[64];
	int found = 0;

	snprintf(key, sizeof(key), "%.*s", (int)len, path);
	value = json_object_get(value, key);
	path += len;
	if (!*path)
		return is_of(value, types) ? 1 : -1;
	if (*path == '.')
		return json_is_null(value) ? 0 : count_at(value, path + 1, types);
	if (!json_is_array(value))
		return -1;
	for (size_t i = 0; i < json_array_size(value); i++) {
		int one = count_at(json_array_get(value, i), path + 3, types); /* "[]." */

		if (one < 0)
			return -1;
		found += one;
	}
	return found;
}

/* The number of fields that the event lacks; `ret_absent` counts those that its nulls and empty lists have left out. */
static unsigned int missing_fields(const json_t *event, int *ret_absent)
{
	char path[PATH_MAX + 64];
	const char *schema = json_string_value(json_object_get(event, "schema"));
	unsigned int missing = 0;
	json_error_t error;
	json_t *fields;

	assert_non_null(schema);
	snprintf(path, sizeof(path), "%.4000s/%s.json", data, schema);
	fields = json_load_file(path, 0, &error);
	assert_non_null(fields);
	assert_true(json_array_size(fields) > 10);
	*ret_absent = 0;
	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *field = json_array_get(fields, i);
		const char *name = json_string_value(json_array_get(field, 0));
		int found = count_at(event, name, json_string_value(json_array_get(field, 1)));

		if (found < 0)
			print_error("%s: %s is missing or of another type\n", schema, name);
		missing += found < 0;
		*ret_absent += found == 0;
	}
	json_decref(fields);
	return missing;
}

/* A service with a dependency, as the daemon has them. */
struct pair {
	struct daemon d;
	struct service front, back;
	struct service *services[2];
	struct service_config front_config, back_config;
	size_t depends_on[1];
};

static struct pair *make_pair(void)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->services[0] = &p->front;
	p->services[1] = &p->back;
	p->d.services = p->services;
	p->d.service_count = 2;
	p->depends_on[0] = 1;
	p->front_config.depends_on = p->depends_on;
	p->front_config.depends_count = 1;
	p->front.config = &p->front_config;
	p->back.config = &p->back_config;
	strcpy(p->front.policy.name, "front");
	strcpy(p->back.policy.name, "back");
	return p;
}

static json_t *logged(struct event_log *log)
{
	struct event_query query = {0};
	struct event_answer answer = ask(log, &query);
	json_t *last = json_incref(json_array_get(answer.events, json_array_size(answer.events) - 1));

	json_decref(answer.events);
	return last;
}

static void breaker_events_have_what_v1_has(void **state)
{
	struct breaker_event event = {.at_ns = clock_ns(),
				      .from = BREAKER_closed,
				      .to = BREAKER_open,
				      .rule = RULE_fast,
				      .generation = 7,
				      .open_for_ns = 1500 * NS_PER_MS};
	struct pair *p = make_pair();
	struct event_log *log = event_log_new();
	json_t *order, *json;
	int absent;

	(void)state;
	event_log_breaker(log, "front", event.at_ns,
			  breaker_event_json(&event, NULL, context_json(&p->d, &p->front, &event.figures)));
	json = logged(log);
	assert_int_equal(missing_fields(json, &absent), 0);
	assert_int_equal(absent, 3); /* of the order that is none */
	assert_true(json_number_value(json_object_get(json, "open_for_ms")) == 1500);
	json_decref(json);

	event.to = BREAKER_forced_closed;
	event.figures.window.has_rate = event.figures.has_risk = event.figures.has_p95 = true;
	event.figures.has_silence = p->back.health[HEALTH_60s].known = true;
	order = json_pack("{s:i, s:s, s:i}", "id", 1, "reason", "why", "by_uid", 0);
	event_log_breaker(log, "front", event.at_ns,
			  breaker_event_json(&event, order, context_json(&p->d, &p->front, &event.figures)));
	json = logged(log);
	assert_int_equal(missing_fields(json, &absent), 0);
	assert_int_equal(absent, 0);
	assert_true(json_is_null(json_object_get(json, "open_for_ms")));
	json_decref(json);
	event_log_free(&log);
	free(p);
}

static void refusals_have_what_v1_has(void **state)
{
	struct event_log *log = event_log_new();
	json_t *json;
	int absent;

	(void)state;
	refuse(log, 1, "web");
	json = logged(log);
	assert_int_equal(missing_fields(json, &absent), 0);
	assert_string_equal(json_string_value(json_object_get(json, "reason")), "rate_limited");
	json_decref(json);
	event_log_free(&log);
}

/* The comparison finds what it is for. */
static void a_lost_or_changed_field_is_found(void **state)
{
	struct event_log *log = event_log_new();
	json_t *json;
	int absent;

	(void)state;
	refuse(log, 1, "web");
	json = logged(log);
	json_object_del(json, "backlog_max");
	json_object_set_new(json, "dry", json_integer(0));
	assert_int_equal(missing_fields(json, &absent), 2);
	json_decref(json);
	event_log_free(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sequence_of_both_kinds),
		cmocka_unit_test(filters_choose),
		cmocka_unit_test(lost_ones_are_counted),
		cmocka_unit_test(answers_outlive_the_ring),
		cmocka_unit_test(breaker_events_have_what_v1_has),
		cmocka_unit_test(refusals_have_what_v1_has),
		cmocka_unit_test(a_lost_or_changed_field_is_found),
	};

	return cmocka_run_group_tests(tests, find_data, NULL);
}
