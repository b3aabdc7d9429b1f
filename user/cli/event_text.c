// SPDX-License-Identifier: GPL-2.0-only
/* event_text.c: an event on one line: when, which service, what, and the figures that decided. */
#include <stdlib.h>
#include <string.h>

#include "user/cli/breaker.h"
#include "user/cli/event_text.h"
#include "user/cli/fault.h"

static void put_order(FILE *out, const json_t *order)
{
	if (!json_is_object(order))
		return;
	fprintf(out, ", override %.0f by uid %.0f: ", number_at(order, "id"), number_at(order, "by_uid"));
	print_safe(out, text_at(order, "reason"), 120);
}

/* What it depends on, at that moment: an outage may have begun there. */
static void put_dependencies(FILE *out, const json_t *depends_on)
{
	const json_t *neighbour;
	size_t i;

	json_array_foreach(depends_on, i, neighbour)
	{
		fprintf(out, "; %s is ", text_at(neighbour, "service"));
		print_safe(out, text_at(neighbour, "state"), 40);
		if (has_number(neighbour, "health"))
			fprintf(out, ", health %.0f %%", number_at(neighbour, "health"));
		else
			fputs(", health unknown", out);
	}
}

static void put_breaker(FILE *out, const json_t *event)
{
	const json_t *context = json_object_get(event, "context");
	const char *rule = text_at(event, "rule"), *to = text_at(event, "to");
	char *figures = NULL, buf[FIGURE];
	size_t len = 0;
	FILE *text;

	fprintf(out, "breaker %s -> %s", text_at(event, "from"), to);
	if (json_is_false(json_object_get(event, "enforced")))
		fputs(" (metrics-only: nothing is refused)", out);
	fprintf(out, ": %s", rule_words(rule));
	text = open_memstream(&figures, &len);
	if (text) {
		print_rule_figures(text, rule, json_object_get(context, "service"), NULL);
		if (!fclose(text) && len)
			fprintf(out, ", %s", figures);
		free(figures);
	}
	if (has_number(event, "open_for_ms") && !strcmp(to, "open"))
		fprintf(out, ", %s in %s",
			json_is_false(json_object_get(event, "enforced")) ? "judged again" : "probes",
			milliseconds_text(json_object_get(event, "open_for_ms"), buf));
	put_order(out, json_object_get(event, "order"));
	put_dependencies(out, json_object_get(context, "depends_on"));
}

static void put_endpoint(FILE *out, const json_t *event, const char *address, const char *port)
{
	const char *text = text_at(event, address);

	fprintf(out, strchr(text, ':') ? "[%s]:%.0f" : "%s:%.0f", text, number_at(event, port));
}

static void put_refusal(FILE *out, const json_t *event)
{
	char age[FIGURE];

	fputs(true_at(event, "dry") ? "dry run: would refuse " : "refused ", out);
	put_endpoint(out, event, "source", "source_port");
	fputs(" -> ", out);
	put_endpoint(out, event, "destination", "destination_port");
	fprintf(out, " as %s, class %s", text_at(event, "reason"), text_at(event, "class"));
	if (number_at(event, "backlog_max") > 0)
		fprintf(out, ", queue %.0f/%.0f, %.0f expected, head age %s", number_at(event, "backlog"),
			number_at(event, "backlog_max"), number_at(event, "predicted"),
			milliseconds_text(json_object_get(event, "head_age_ms"), age));
}

static const struct {
	const char *schema;
	void (*put)(FILE *out, const json_t *event);
} schemas[] = {
	{"sluice.breaker.v1", put_breaker},
	{"sluice.refusal.v1", put_refusal},
};

/* A schema of a later version: its members as they are. */
static void put_unknown(FILE *out, const json_t *event)
{
	char *text = json_dumps(event, JSON_COMPACT);

	print_safe(out, text ? text : "", 1024);
	free(text);
}

void print_event(FILE *out, const json_t *event)
{
	void (*put)(FILE * out, const json_t *event) = put_unknown;
	const char *service = text_at(event, "service");

	for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
		if (!strcmp(schemas[i].schema, text_at(event, "schema")))
			put = schemas[i].put;
	}
	print_safe(out, text_at(event, "wall"), 40);
	fputs("  ", out);
	print_safe(out, *service ? service : "-", 40);
	fputs("  ", out);
	put(out, event);
	fputc('\n', out);
}
