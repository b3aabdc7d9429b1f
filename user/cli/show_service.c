// SPDX-License-Identifier: GPL-2.0-only
/*
 * show_service.c: one service in full. Counters only grow, so they cannot say what happens now: a second look half a
 * second later gives rates, and the first sentence says which term refuses at the moment.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "maps/reasons.h"
#include "user/cli/breaker.h"
#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"
#include "user/cli/services.h"
#include "user/cli/signals.h"

#define LOOK_MS 500

static const struct {
	const char *name, *text;
} reasons[] = {
#define X(name, verdict, stage, text) {#name, text},
	SLC_REASONS(X)
#undef X
};

static const char *meaning(const char *reason)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (!strcmp(reasons[i].name, reason))
			return reasons[i].text;
	}
	return "";
}

/* --- what binds ---------------------------------------------------------------------------------------------- */

static void print_value(const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		print_safe(stdout, json_string_value(value), CELL);
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	fputs(text ? text : "none", stdout);
	free(text);
}

static void name_limit(const json_t *service, const char *group, const char *first, const char *second)
{
	const json_t *limits = json_object_get(json_object_get(service, "limits"), group);

	if (!json_object_get(limits, first) || json_is_null(json_object_get(limits, first)))
		return;
	printf(": %s.%s ", group, first);
	print_value(json_object_get(limits, first));
	if (second && json_object_get(limits, second)) {
		printf(", %s ", second);
		print_value(json_object_get(limits, second));
	}
	if (*text_at(limits, "origin"))
		printf(" (%s)", text_at(limits, "origin"));
}

static void name_source_rate(const json_t *service)
{
	name_limit(service, "source", "rate", "burst");
}

static void name_source_concurrent(const json_t *service)
{
	name_limit(service, "source", "concurrent", NULL);
}

static void name_total_rate(const json_t *service)
{
	name_limit(service, "total", "rate", "burst");
}

static void name_bulkhead(const json_t *service)
{
	name_limit(service, "total", "concurrent", NULL);
	printf("; %.0f are held", number_at(service, "held_connections"));
}

static void name_queue(const json_t *service)
{
	const json_t *queue = json_object_get(service, "accept_queue");
	const json_t *marks = json_object_get(json_object_get(service, "policy"), "accept_queue");
	char buf[FIGURE], share[FIGURE];

	printf(": %.0f of %.0f wait (%s), head age %s", number_at(queue, "length"), number_at(queue, "limit"),
	       percent_text(number_at(queue, "length"), number_at(queue, "limit"), share),
	       milliseconds_text(json_object_get(queue, "head_age_ms"), buf));
	if (*text_at(marks, "low"))
		printf("; refuses from %s to %s", text_at(marks, "low"), text_at(marks, "high"));
	if (*text_at(marks, "max_wait"))
		printf(", or above %s", text_at(marks, "max_wait"));
}

static void name_orders(const json_t *service)
{
	(void)service;
	printf(": see `sluicectl overrides list` and `sluicectl trust list`");
}

/* Which term of the service stands behind a reason. */
static const struct {
	const char *reason;
	void (*name)(const json_t *service);
} terms[] = {
	{"rate_limited", name_source_rate},
	{"contended", name_source_rate},
	{"source_concurrency", name_source_concurrent},
	{"service_rate", name_total_rate},
	{"bulkhead_full", name_bulkhead},
	{"accept_pressure", name_queue},
	{"queue_wait", name_queue},
	{"denied", name_orders},
	{"ceiling", name_orders},
};

static void name_term(const json_t *service, const char *reason)
{
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		if (!strcmp(terms[i].reason, reason))
			terms[i].name(service);
	}
}

/* later - earlier, by reason; NULL `earlier`: all of it. */
static json_t *growth(const json_t *earlier, const json_t *later)
{
	json_t *sum = json_object(), *count;
	const char *reason;

	json_object_foreach((json_t *)later, reason, count)
	{
		double grown = json_number_value(count) - number_at(earlier, reason);

		if (grown > 0)
			json_object_set_new(sum, reason, json_real(grown));
	}
	return sum;
}

static void explain_refusals(const json_t *before, const json_t *now, double seconds)
{
	json_t *grown = growth(json_object_get(before, "refused"), json_object_get(now, "refused"));
	double admitted = (number_at(now, "admitted") - number_at(before, "admitted")) / seconds, most = 0;
	json_t *holder = json_pack("{s:O}", "refused", grown);
	double refused = refused_total(holder) / seconds;
	const char *reason = top_reason(grown, &most);

	/* Per second, not in percent of attempts: a client's repeated SYN is refused again, and is no new attempt. */
	if (refused > 0) {
		printf("refuses %.0f/s and admits %.0f/s now; most as %s, %s", refused, admitted, reason,
		       meaning(reason));
		name_term(now, reason);
		puts(".");
	} else {
		printf("%s; admits %.0f/s",
		       breaker_acts(json_object_get(now, "breaker")) ? "nothing was refused in this half second"
								     : "nothing is refused now",
		       admitted);
		if (number_at(json_object_get(now, "accept_queue"), "listeners") > 0)
			name_queue(now);
		puts(".");
	}
	json_decref(holder);
	json_decref(grown);
}

static void explain(const json_t *before, const json_t *now, double seconds, const json_t *events)
{
	bool first = breaker_acts(json_object_get(now, "breaker"));

	/* A closed breaker comes second: it is not what an operator has come for. */
	printf("%s: ", text_at(now, "name"));
	if (first)
		print_breaker_sentence(now, events);
	if (true_at(now, "draining"))
		printf("DRAINING: every new connection is refused, %.0f are still open; "
		       "`sluicectl undrain %s` admits again.\n",
		       open_total(now), text_at(now, "name"));
	else
		explain_refusals(before, now, seconds);
	if (!first)
		print_breaker_sentence(now, events);
}

/* --- the rest ------------------------------------------------------------------------------------------------ */

static void print_override(const json_t *override)
{
	char buf[FIGURE];

	if (!json_is_object(override))
		return;
	printf("override    %.0f (%s)", number_at(override, "id"), text_at(override, "kind"));
	if (has_number(override, "seconds_left"))
		printf(", %s left", seconds_text(number_at(override, "seconds_left"), buf));
	else
		printf(", until released");
	printf(": ");
	print_safe(stdout, text_at(override, "reason"), 512);
	putchar('\n');
}

static void print_overrides_of(const json_t *service)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(service, "overrides"), i, item) print_override(item);
}

static void print_listen(const json_t *service)
{
	const json_t *address;
	size_t i;

	printf("listens     %s", text_at(service, "protocol"));
	json_array_foreach(json_object_get(service, "listen"), i, address)
	{
		putchar(' ');
		print_safe(stdout, json_string_value(address) ? json_string_value(address) : "", 64);
	}
	putchar('\n');
}

/* Members that are the daemon's own affair, or have a line of their own; --json has them. */
static bool is_internal(const char *key)
{
	static const char *const keys[] = {"uid", "state", "sets", "classes", "slices", "slice_shift", "breaker"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!strcmp(keys[i], key))
			return true;
	}
	return false;
}

#define GROUP_INDENT 12
#define GROUP_WIDTH 96

/* {a: {b: 1}} as "a.b 1", wrapped; *column is where the line is. */
static void print_flat(const json_t *value, const char *prefix, int *column)
{
	char path[96], *text;
	const char *key;
	json_t *member;
	int len;

	if (json_is_object(value)) {
		json_object_foreach((json_t *)value, key, member)
		{
			snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
			if (!is_internal(key))
				print_flat(member, path, column);
		}
		return;
	}
	if (json_is_null(value) || (json_is_array(value) && !json_array_size(value)))
		return;
	text = json_is_string(value) ? strdup(json_string_value(value))
				     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(4));
	len = (int)(strlen(prefix) + strlen(text ? text : "") + 3);
	if (*column > GROUP_INDENT && *column + len > GROUP_WIDTH) {
		printf(",\n%*s", GROUP_INDENT, "");
		*column = GROUP_INDENT;
	} else if (*column > GROUP_INDENT) {
		fputs(", ", stdout);
	}
	printf("%s ", prefix);
	print_safe(stdout, text ? text : "", CELL);
	*column += len;
	free(text);
}

static void print_group(const char *title, const json_t *value)
{
	int column = GROUP_INDENT;

	if (!json_is_object(value) || !json_object_size(value))
		return;
	printf("%-*s", GROUP_INDENT, title);
	print_flat(value, "", &column);
	puts(column > GROUP_INDENT ? "" : "none");
}

static void print_listeners(const json_t *listeners)
{
	static const char *const titles[] = {"listener", ">queue",    ">head age", ">cookie",
					     ">pid",     "namespace", "known",     NULL};
	struct table table;
	const json_t *listener;
	char buf[FIGURE];
	size_t i;

	table_begin(&table, titles);
	json_array_foreach(listeners, i, listener)
	{
		const json_t *netns = json_object_get(listener, "netns");

		table_row(&table);
		table_cell(&table, 0, "%s", text_at(listener, "address"));
		table_cell(&table, 1, "%.0f/%.0f", number_at(listener, "length"), number_at(listener, "limit"));
		table_cell(&table, 2, "%s", milliseconds_text(json_object_get(listener, "head_age_ms"), buf));
		if (json_is_string(json_object_get(listener, "cookie")))
			table_cell(&table, 3, "%s", text_at(listener, "cookie"));
		else
			table_cell(&table, 3, "%.0f", number_at(listener, "cookie"));
		if (number_at(listener, "pid") > 0)
			table_cell(&table, 4, "%.0f", number_at(listener, "pid"));
		if (json_is_number(netns))
			table_cell(&table, 5, "%.0f", json_number_value(netns));
		else
			table_cell(&table, 5, "%s", text_at(listener, "netns"));
		table_cell(&table, 6, "%s",
			   json_is_false(json_object_get(listener, "known_since_start")) ? "from before the start"
											 : "");
	}
	table_end(&table, 0);
}

static void print_reasons(const json_t *service)
{
	static const char *const titles[] = {"reason", ">packets", "meaning", NULL};
	const char *parts[] = {"refused", "dry", "reasons"};
	const json_t *all = json_object_get(service, "reasons");
	struct table table;
	const char *reason;
	json_t *count;
	char buf[FIGURE];

	table_begin(&table, titles);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		/* `reasons` holds the refusals as well: listed once. */
		if (!strcmp(parts[i], "refused") && json_object_size(all))
			continue;
		json_object_foreach(json_object_get(service, parts[i]), reason, count)
		{
			table_row(&table);
			table_cell(&table, 0, "%s%s", i == 1 ? "dry run: " : "", reason);
			table_cell(&table, 1, "%s", count_text(json_number_value(count), buf));
			table_cell(&table, 2, "%s", meaning(reason));
		}
	}
	table_end(&table, 0);
}

static void print_facts(const json_t *service)
{
	const json_t *handshake = json_object_get(service, "handshake");
	char attempts[FIGURE], admitted[FIGURE], refused[FIGURE], closed[FIGURE], age[FIGURE];

	printf("since start %s attempts, %s admitted, %s refused, %s closed\n", count_at(service, "attempts", attempts),
	       count_at(service, "admitted", admitted), count_text(refused_total(service), refused),
	       count_at(service, "closed", closed));
	printf("connections %.0f open, %.0f held by the application, %.0f from before the start\n",
	       number_at(service, "open_connections"), number_at(service, "held_connections"),
	       number_at(service, "before_start_connections"));
	if (has_number(handshake, "h_ms"))
		printf("handshake   P90 %s\n", milliseconds_text(json_object_get(handshake, "h_ms"), age));
	if (*text_at(json_object_get(service, "accept_queue"), "blind")) {
		printf("gate        blind: ");
		print_safe(stdout, text_at(json_object_get(service, "accept_queue"), "blind"), 512);
		putchar('\n');
	}
}

static void print_service(const json_t *service)
{
	print_overrides_of(service);
	print_listen(service);
	print_group("limits", json_object_get(service, "limits"));
	print_group("policy", json_object_get(service, "policy"));
	print_group("rules", json_object_get(json_object_get(service, "policy"), "breaker"));
	print_group("controller", json_object_get(service, "decision"));
	print_facts(service);
	print_breaker_facts(service);
	print_signals(service);
	print_outcomes(service);
	putchar('\n');
	print_listeners(json_object_get(service, "listeners"));
	putchar('\n');
	print_reasons(service);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The figures that tripped a breaker are gone from its windows: the event has them. NULL: no daemon that keeps any. */
static json_t *breaker_events(const struct invocation *inv)
{
	char *name = http_escape(inv->args[0]), *target = NULL, why[256];
	struct http_answer answer = {0};
	json_t *events = NULL;

	if (name && asprintf(&target, "/v1/events?service=%s&kind=breaker", name) >= 0 &&
	    !http_request(socket_of(inv), "GET", target, NULL, &answer, why, sizeof(why)) && answer.status == 200)
		events = json_incref(json_object_get(answer.body, "events"));
	http_release(&answer);
	free(name);
	free(target);
	return events;
}

void show_service(const struct invocation *inv, const json_t *answer)
{
	struct timespec pause = {0, LOOK_MS * 1000000L};
	json_t *body = NULL, *events = NULL;
	struct http_answer later = {0};
	char *target = NULL, why[256];
	double began = seconds_now();

	nanosleep(&pause, NULL);
	if (!build_request(inv, &target, &body) &&
	    !http_request(socket_of(inv), "GET", target, NULL, &later, why, sizeof(why)) && later.status == 200) {
		double seconds = seconds_now() - began;

		if (breaker_acts(json_object_get(later.body, "breaker")))
			events = breaker_events(inv);
		explain(answer, later.body, seconds, events);
		print_service(later.body);
	} else {
		print_service(answer);
	}
	http_release(&later);
	json_decref(events);
	json_decref(body);
	free(target);
}
