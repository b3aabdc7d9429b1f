// SPDX-License-Identifier: GPL-2.0-only
/* breaker_text.c: the breaker in words, the same in `service show` and in events. */
#include <string.h>

#include "user/cli/breaker.h"
#include "user/cli/fault.h"

/* --- what a rule saw ----------------------------------------------------------------------------------------- */

/* 0 to 1 as percent; "-" where there was nothing to divide by. */
static const char *share_at(const json_t *object, const char *key, char buf[FIGURE])
{
	if (!has_number(object, key))
		return "-";
	return percent_text(number_at(object, key), 1, buf);
}

/* A threshold of the configuration, where the daemon says it: "50%", 0.8, 5. */
static void put_mark(FILE *out, const json_t *marks, const char *key)
{
	const json_t *mark = json_object_get(marks, key);

	if (json_is_string(mark))
		fprintf(out, ", opens at %s", json_string_value(mark));
	else if (json_is_number(mark))
		fprintf(out, ", opens at %g", json_number_value(mark));
}

static void put_tally(FILE *out, const json_t *tally, const char *what, const json_t *marks)
{
	char failures[FIGURE], outcomes[FIGURE], share[FIGURE];

	fprintf(out, "%s of %s %s failed (%s", count_at(tally, "failures", failures),
		count_at(tally, "outcomes", outcomes), what, share_at(tally, "failure_rate", share));
	put_mark(out, marks, "failure_rate");
	fprintf(out, ") from %.0f of %.0f sources", number_at(tally, "failing_sources"),
		number_at(tally, "active_sources"));
}

static void put_long(FILE *out, const json_t *figures, const json_t *marks)
{
	put_tally(out, json_object_get(figures, "window"), "outcomes of the window", marks);
}

static void put_fast(FILE *out, const json_t *figures, const json_t *marks)
{
	put_tally(out, json_object_get(figures, "fast"), "newest outcomes", marks);
}

static void put_consecutive(FILE *out, const json_t *figures, const json_t *marks)
{
	fprintf(out, "%.0f failures in a row and no success", number_at(figures, "run"));
	put_mark(out, marks, "consecutive");
}

static void put_slow(FILE *out, const json_t *figures, const json_t *marks)
{
	const json_t *window = json_object_get(figures, "window");
	char share[FIGURE], outcomes[FIGURE];

	fprintf(out, "%s of %s outcomes were slow", share_at(window, "slow_rate", share),
		count_at(window, "outcomes", outcomes));
	put_mark(out, marks, "slow_rate");
}

static void put_silent(FILE *out, const json_t *figures, const json_t *marks)
{
	char silence[FIGURE], owed[FIGURE];

	fprintf(out, "no answer for %s and %s owed", milliseconds_text(json_object_get(figures, "silence_ms"), silence),
		count_at(figures, "owed", owed));
	put_mark(out, marks, "silent");
}

static void put_risk(FILE *out, const json_t *figures, const json_t *marks)
{
	char p95[FIGURE], base[FIGURE];

	if (!has_number(figures, "risk")) {
		fputs("risk -", out);
		return;
	}
	fprintf(out, "risk %.2f", number_at(figures, "risk"));
	put_mark(out, marks, "open_at");
	fprintf(out, ": errors %.2f, latency %.2f (P95 %s, healthy %s)", number_at(figures, "risk_error"),
		number_at(figures, "risk_latency"), milliseconds_text(json_object_get(figures, "p95_ms"), p95),
		milliseconds_text(json_object_get(figures, "base_ms"), base));
}

static const struct {
	const char *rule, *words;
	void (*put)(FILE *out, const json_t *figures, const json_t *marks);
} rules[] = {
	{"long", "long rule", put_long},
	{"fast", "fast rule", put_fast},
	{"consecutive", "consecutive rule", put_consecutive},
	{"slow", "slow rule", put_slow},
	{"silent", "silent rule", put_silent},
	{"risk", "risk rule", put_risk},
	{"wait_over", "its open time is over", NULL},
	{"probes_succeeded", "its probes succeeded", NULL},
	{"probe_failed", "a probe failed", NULL},
	{"half_open_over", "half-open for too long without a verdict", NULL},
	{"recovered", "no rule holds any more", NULL},
	{"order_open", "ordered open", NULL},
	{"order_closed", "ordered closed", NULL},
	{"order_over", "the order is over", NULL},
	{"none", "no transition yet", NULL},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

static size_t find_rule(const char *rule)
{
	size_t i = 0;

	while (i < RULES && strcmp(rules[i].rule, rule))
		i++;
	return i;
}

const char *rule_words(const char *rule)
{
	size_t i = find_rule(rule);

	return i < RULES ? rules[i].words : rule;
}

void print_rule_figures(FILE *out, const char *rule, const json_t *figures, const json_t *marks)
{
	size_t i = find_rule(rule);

	if (i < RULES && rules[i].put && json_is_object(figures))
		rules[i].put(out, figures, marks);
}

/* --- state --------------------------------------------------------------------------------------------------- */

static bool metrics_only(const json_t *breaker)
{
	return !strcmp(text_at(breaker, "mode"), "metrics");
}

/* Of the machine: metrics-only says in `would` where it stands. */
static const char *state_of(const json_t *breaker)
{
	const char *would = metrics_only(breaker) ? text_at(breaker, "would") : "";

	return *would ? would : text_at(breaker, "state");
}

static const struct {
	const char *state, *word, *would, *name;
} states[] = {
	{"closed", "closed", "metrics", "closed"},
	{"open", "OPEN", "would open", "OPEN"},
	{"half_open", "half-open", "would probe", "HALF-OPEN"},
	{"forced_open", "FORCED OPEN", "FORCED OPEN", "FORCED OPEN"},
	{"forced_closed", "forced closed", "forced closed", "FORCED CLOSED"},
};
#define STATES (sizeof(states) / sizeof(states[0]))

static size_t find_state(const char *state)
{
	size_t i = 0;

	while (i < STATES && strcmp(states[i].state, state))
		i++;
	return i;
}

const char *breaker_word(const json_t *breaker)
{
	size_t i = find_state(state_of(breaker));

	if (i == STATES)
		return state_of(breaker);
	if (!metrics_only(breaker) && json_is_object(json_object_get(breaker, "ramp")))
		return "ramp";
	return metrics_only(breaker) ? states[i].would : states[i].word;
}

bool breaker_acts(const json_t *breaker)
{
	const char *state = state_of(breaker);

	return *state && (strcmp(state, "closed") != 0 || json_is_object(json_object_get(breaker, "ramp")));
}

/* --- the sentence -------------------------------------------------------------------------------------------- */

static const json_t *marks_of(const json_t *service)
{
	return json_object_get(json_object_get(service, "policy"), "breaker");
}

/* The newest trip among the events: what a half-open or re-opened breaker was opened for at first. */
static const json_t *newest_trip(const json_t *events)
{
	for (size_t i = json_array_size(events); i-- > 0;) {
		const json_t *event = json_array_get(events, i);
		size_t rule = find_rule(text_at(event, "rule"));

		if (rule < RULES && rules[rule].put)
			return event;
	}
	return NULL;
}

static void put_trip(const json_t *service, const json_t *events)
{
	const json_t *breaker = json_object_get(service, "breaker"), *trip = newest_trip(events);
	const char *rule = text_at(breaker, "rule"), *tripped_by = text_at(breaker, "tripped_by");
	size_t last = find_rule(rule);

	if (last == RULES || !rules[last].put) /* the last transition was no trip: say it, and the trip before */
		printf("%s%s", rule_words(rule), *tripped_by ? "; tripped by " : "");
	if (!*tripped_by)
		return;
	fputs(rule_words(tripped_by), stdout);
	if (!trip || strcmp(text_at(trip, "rule"), tripped_by))
		return;
	fputs(", ", stdout);
	print_rule_figures(stdout, tripped_by, json_object_get(json_object_get(trip, "context"), "service"),
			   marks_of(service));
}

static void put_open(const json_t *service, const json_t *events)
{
	const json_t *breaker = json_object_get(service, "breaker");
	char left[FIGURE];

	put_trip(service, events);
	if (*text_at(breaker, "held_by"))
		printf(", and probes wait for %s, which it depends on", text_at(breaker, "held_by"));
	else if (has_number(breaker, "open_left_ms"))
		printf(", %s in %s", metrics_only(breaker) ? "judged again" : "probes",
		       milliseconds_text(json_object_get(breaker, "open_left_ms"), left));
	if (!metrics_only(breaker))
		fputs("; every new connection is refused as circuit_open", stdout);
}

static void put_half_open(const json_t *service, const json_t *events)
{
	const json_t *breaker = json_object_get(service, "breaker"), *probes = json_object_get(breaker, "probes");
	const json_t *marks = marks_of(service);

	put_trip(service, events);
	if (metrics_only(breaker))
		return;
	printf("; %.0f probes succeeded", number_at(probes, "succeeded"));
	if (has_number(marks, "close_after"))
		printf(" of the %.0f that close it", number_at(marks, "close_after"));
	printf(", %.0f under way, at most %.0f; all others are refused as circuit_open",
	       number_at(probes, "tickets") + number_at(probes, "outstanding"), number_at(probes, "limit"));
}

static void put_closed(const json_t *service, const json_t *events)
{
	const json_t *breaker = json_object_get(service, "breaker"), *ramp = json_object_get(breaker, "ramp");
	const json_t *figures = json_object_get(breaker, "figures");
	char share[FIGURE];

	(void)events;
	if (json_is_object(ramp))
		printf("%s, and ramps: %s of the healthy rate, %.1f/s, are admitted; ",
		       rule_words(text_at(breaker, "rule")), share_at(ramp, "share", share), number_at(ramp, "rate"));
	if (number_at(json_object_get(figures, "window"), "outcomes") > 0)
		print_rule_figures(stdout, "long", figures, marks_of(service));
	else
		fputs("no outcome in its window", stdout);
}

static const json_t *breaker_order(const json_t *service)
{
	const json_t *override, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(service, "overrides"), i, override)
	{
		if (!strcmp(text_at(override, "kind"), "breaker"))
			found = override;
	}
	return found;
}

static void put_forced(const json_t *service, const char *what)
{
	const json_t *order = breaker_order(service);
	char left[FIGURE];

	if (order) {
		printf("override %.0f, ", number_at(order, "id"));
		print_safe(stdout, text_at(order, "reason"), 200);
		if (has_number(order, "seconds_left"))
			printf(", %s left", seconds_text(number_at(order, "seconds_left"), left));
		fputs("; ", stdout);
	}
	printf("%s until `sluicectl breaker auto %s`", what, text_at(service, "name"));
}

static void put_forced_open(const json_t *service, const json_t *events)
{
	(void)events;
	put_forced(service, "every new connection is refused as circuit_open");
}

static void put_forced_closed(const json_t *service, const json_t *events)
{
	(void)events;
	put_forced(service, "it admits even while the service is broken,");
}

void print_breaker_sentence(const json_t *service, const json_t *events)
{
	static void (*const puts_of[STATES])(const json_t *service, const json_t *events) = {
		put_closed, put_open, put_half_open, put_forced_open, put_forced_closed};
	const json_t *breaker = json_object_get(service, "breaker");
	size_t i = find_state(state_of(breaker));
	char since[FIGURE];
	json_t *ms;

	if (i == STATES)
		return;
	printf("breaker %s%s", metrics_only(breaker) && i && i < 3 ? "would be " : "", states[i].name);
	if (has_number(breaker, "since_s")) {
		ms = json_real(1000 * number_at(breaker, "since_s"));
		printf(" since %s", number_at(breaker, "since_s") < 60
					    ? milliseconds_text(ms, since)
					    : seconds_text(number_at(breaker, "since_s"), since));
		json_decref(ms);
	}
	fputs(": ", stdout);
	puts_of[i](service, events);
	if (metrics_only(breaker) && i < 3)
		fputs("; metrics-only, so it refuses nothing (a `breaker:` block enforces)", stdout);
	puts(".");
}

/* --- below it ------------------------------------------------------------------------------------------------ */

static void put_trips(const json_t *trips)
{
	const char *rule, *separator = "; trips: ";
	json_t *count;

	json_object_foreach((json_t *)trips, rule, count)
	{
		if (json_number_value(count) <= 0)
			continue;
		printf("%s%s %.0f", separator, rule, json_number_value(count));
		separator = ", ";
	}
}

static void put_probes(const json_t *probes)
{
	char buf[FIGURE];

	if (!json_is_object(probes))
		return;
	printf("probes      at most %.0f, %.0f of them for known-good sources; tickets %.0f, outstanding %.0f,\n"
	       "            succeeded %.0f, failed %.0f; ",
	       number_at(probes, "limit"), number_at(probes, "reserved"), number_at(probes, "tickets"),
	       number_at(probes, "outstanding"), number_at(probes, "succeeded"), number_at(probes, "failed"));
	printf("since start: granted %s, ", count_at(probes, "granted", buf));
	printf("returned %s, ", count_at(probes, "returned", buf));
	printf("established %s,\n            ", count_at(probes, "established", buf));
	printf("neutral %s, ", count_at(probes, "neutral", buf));
	printf("invited to repeat %s\n", count_at(probes, "invited", buf));
}

static void put_window(const char *title, const json_t *tally, const char *what)
{
	if (!json_is_object(tally))
		return;
	printf("%-12s", title);
	put_tally(stdout, tally, what, NULL);
	if (number_at(tally, "discounted") > 0)
		printf(", %.0f not counted", number_at(tally, "discounted"));
	putchar('\n');
}

void print_breaker_facts(const json_t *service)
{
	const json_t *breaker = json_object_get(service, "breaker"), *figures = json_object_get(breaker, "figures");

	if (!json_is_object(breaker))
		return;
	printf("breaker     %s, generation %.0f", text_at(breaker, "mode"), number_at(breaker, "generation"));
	if (number_at(breaker, "openings") > 0)
		printf(", openings in a row: %.0f", number_at(breaker, "openings"));
	put_trips(json_object_get(breaker, "trips"));
	putchar('\n');
	put_window("window", json_object_get(figures, "window"), "outcomes");
	put_window("newest", json_object_get(figures, "fast"), "outcomes");
	if (has_number(figures, "risk")) {
		fputs("risk        ", stdout);
		put_risk(stdout, figures, marks_of(service));
		putchar('\n');
	}
	put_probes(json_object_get(breaker, "probes"));
}
