// SPDX-License-Identifier: GPL-2.0-only
/* show_signals.c: outcomes, times, turns, health and visibility of a service, in the order an operator asks for them. */
#include <string.h>

#include "maps/outcomes.h"
#include "user/cli/fault.h"
#include "user/cli/signals.h"

static const struct {
	const char *name, *text;
} kinds[] = {
#define X(name, class, text) {#name, text},
	SLC_OUTCOMES(X)
#undef X
};

struct wording {
	const char *name, *text;
};

static const char *word_for(const struct wording *words, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(words[i].name, name))
			return words[i].text;
	}
	return "";
}
#define WORD_FOR(words, name) word_for(words, sizeof(words) / sizeof((words)[0]), name)

/* --- outcomes ------------------------------------------------------------------------------------------------ */

/* Counts that are not zero, on one line. */
static void print_counts(const char *title, const json_t *counts)
{
	const char *kind, *separator = "";
	json_t *count;
	char buf[FIGURE];

	if (!json_is_object(counts) || !json_object_size(counts))
		return;
	printf("  %s: ", title);
	json_object_foreach((json_t *)counts, kind, count)
	{
		if (json_number_value(count) <= 0)
			continue;
		printf("%s%s %s", separator, kind, count_text(json_number_value(count), buf));
		separator = ", ";
	}
	puts(*separator ? "" : "none");
}

void print_outcomes(const json_t *service)
{
	const json_t *outcomes = json_object_get(service, "outcomes"), *by_kind = json_object_get(outcomes, "by_kind");
	char success[FIGURE], failure[FIGURE], neutral[FIGURE], count[FIGURE];

	if (!json_is_object(outcomes))
		return;
	printf("outcomes    success %s, failure %s, neutral %s\n", count_at(outcomes, "success", success),
	       count_at(outcomes, "failure", failure), count_at(outcomes, "neutral", neutral));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (number_at(by_kind, kinds[i].name) > 0)
			printf("  %-17s %6s  %s\n", kinds[i].name, count_at(by_kind, kinds[i].name, count),
			       kinds[i].text);
	}
	print_counts("met under pressure, which is no affair of the breaker",
		     json_object_get(outcomes, "under_pressure"));
	print_counts("begun before the breaker's last change", json_object_get(outcomes, "other_generation"));
}

/* --- times --------------------------------------------------------------------------------------------------- */

static void add_times(struct table *table, const char *title, const json_t *times)
{
	static const char *const columns[] = {"p50", "p95", "p99"};
	char buf[FIGURE];

	if (!json_is_object(times))
		return;
	table_row(table);
	table_cell(table, 0, "%s", title);
	for (size_t i = 0; i < 3; i++)
		table_cell(table, i + 1, "%s", milliseconds_text(json_object_get(times, columns[i]), buf));
	table_cell(table, 4, "%s", has_number(times, "samples") ? count_at(times, "samples", buf) : "-");
}

static void print_times(const json_t *service)
{
	static const char *const titles[] = {"time", ">P50", ">P95", ">P99", ">samples", NULL};
	static const struct {
		const char *key, *title;
	} rows[] = {
		{"latency_ms", "answer, 60 s"},        {"latency_5m_ms", "answer, 5 min"},
		{"tls_handshake_ms", "TLS handshake"}, {"handshake_ms", "TCP handshake"},
		{"rtt_ms", "round trip to clients"},   {"head_wait_ms", "wait in the accept queue"},
	};
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		add_times(&table, rows[i].title, json_object_get(service, rows[i].key));
	table_end(&table, 2);
}

/* A figure that goes up and down: 0.4 ms and 2.3 s alike. */
static const char *short_time(double ms, char buf[FIGURE])
{
	snprintf(buf, FIGURE, "%.*f", ms < 10 ? 1 : 0, ms);
	return buf;
}

const char *answer_time(const json_t *service, char buf[FIGURE])
{
	const json_t *times = json_object_get(service, "latency_ms");
	double p50 = number_at(times, "p50"), p95 = number_at(times, "p95");
	char low[FIGURE], high[FIGURE];

	if (!has_number(times, "p50") || !has_number(times, "p95"))
		return "-";
	if (p95 >= 1000)
		snprintf(buf, FIGURE, "%.1f/%.1f s", p50 / 1000, p95 / 1000);
	else
		snprintf(buf, FIGURE, "%.20s/%.20s ms", short_time(p50, low), short_time(p95, high));
	return buf;
}

/* --- turns, health, visibility ------------------------------------------------------------------------------- */

static void print_turns(const json_t *service)
{
	const json_t *turns = json_object_get(service, "turns");
	char begun[FIGURE], ended[FIGURE], share[FIGURE], count[FIGURE];

	if (!json_is_object(turns))
		return;
	printf("turns       %s, %.0f in flight, %s begun, %s ended", text_at(turns, "mode"),
	       number_at(turns, "in_flight"), count_at(turns, "begun", begun), count_at(turns, "ended", ended));
	if (has_number(turns, "young_share"))
		printf(", %s on connections under 10 s old", percent_text(number_at(turns, "young_share"), 1, share));
	if (has_number(service, "retransmits"))
		printf("\n            segments sent again %s", count_at(service, "retransmits", count));
	if (has_number(service, "repeats"))
		printf(", SYNs sent again %s", count_at(service, "repeats", count));
	putchar('\n');
}

/* Where turns are not seen. */
static void print_unread(const json_t *service)
{
	const json_t *unread = json_object_get(service, "unread");
	char count[FIGURE], bytes[FIGURE], age[FIGURE];

	if (!json_is_object(unread))
		return;
	if (!has_number(unread, "connections"))
		printf("unread      not known%s%s\n", *text_at(unread, "why") ? ": " : "", text_at(unread, "why"));
	else if (number_at(unread, "connections") == 0)
		puts("unread      nothing: all that was received has been read");
	else
		printf("unread      %s bytes on %s connections, for %s at least\n", count_at(unread, "bytes", bytes),
		       count_at(unread, "connections", count),
		       milliseconds_text(json_object_get(unread, "age_ms"), age));
}

static void print_health_of(const char *title, const json_t *health)
{
	static const char *const terms[] = {"error", "latency", "queue", "cpu"};

	printf("%s ", title);
	if (!has_number(health, "percent")) {
		fputs("unknown (too few outcomes)", stdout);
		return;
	}
	printf("%.0f %%", number_at(health, "percent"));
	for (size_t i = 0; i < 4; i++) {
		if (number_at(health, terms[i]) > 0)
			printf(", %s %.2f", terms[i], number_at(health, terms[i]));
	}
}

static void print_health(const json_t *service)
{
	const json_t *health = json_object_get(service, "health");

	if (!json_is_object(health))
		return;
	fputs("health      ", stdout);
	print_health_of("60 s:", json_object_get(health, "60s"));
	print_health_of("; 5 min:", json_object_get(health, "5m"));
	putchar('\n');
}

static void print_words(const char *title, const char *name, const char *text)
{
	if (!*name)
		return;
	printf("%-12s%s%s%s\n", title, name, *text ? ": " : "", text);
}

static const struct wording authorities[] = {
	{"accept", "the accept queue speaks for it"},
	{"inflight", "turns in flight and answer time speak for it: it accepts at once"},
	{"none", "refusing connections would not relieve it: most turns begin on old ones"},
};

static const struct wording visibilities[] = {
	{"bytes", "when an answer begins, how it ends, not what it says: a fast error page is\n"
		  "            an answer (`http: {status: [...]}` reads plaintext ones). Within TLS and HTTP/2\n"
		  "            nothing is read, and streams of one connection are not told apart"},
	{"http", "when an answer begins, how it ends, and the status of a plaintext one. Within TLS and\n"
		 "            HTTP/2 nothing is read"},
	{"signals", "the application reports what bytes do not say"},
	{"none", "turns are not seen (opaque, or no program on sockets): outcomes are\n"
		 "            those of connections, and the breaker knows little of answers"},
};

void print_signals(const json_t *service)
{
	const char *signal = text_at(service, "signal"), *visibility = text_at(service, "visibility");

	print_words("signal", signal, WORD_FOR(authorities, signal));
	print_words("visibility", visibility, WORD_FOR(visibilities, visibility));
	print_turns(service);
	print_unread(service);
	print_health(service);
	print_times(service);
}
