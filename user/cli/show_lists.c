// SPDX-License-Identifier: GPL-2.0-only
/* show_lists.c: sources, trust, overrides, configuration: one renderer an answer. */
#include <stdlib.h>
#include <string.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"

static void put_line(const char *text)
{
	print_safe(stdout, text, 1024);
	putchar('\n');
}

/* --- sources ------------------------------------------------------------------------------------------------- */

void show_sources(const struct invocation *inv, const json_t *answer)
{
	static const char *const titles[] = {"source",       "service", ">attempts", ">refused",
					     ">established", ">open",   ">good",     ">seen",
					     ">tokens",      "known",   NULL};
	const json_t *sources = json_object_get(answer, "sources"), *source;
	struct table table;
	char buf[FIGURE];
	size_t i;

	(void)inv;
	table_begin(&table, titles);
	json_array_foreach(sources, i, source)
	{
		table_row(&table);
		table_cell(&table, 0, "%s", text_at(source, "address"));
		table_cell(&table, 1, "%s", text_at(source, "service"));
		table_cell(&table, 2, "%s", count_at(source, "attempts", buf));
		table_cell(&table, 3, "%s", count_at(source, "refused", buf));
		table_cell(&table, 4, "%s", count_at(source, "established", buf));
		table_cell(&table, 5, "%s", count_at(source, "open", buf));
		table_cell(&table, 6, "%s", count_at(source, "good", buf));
		if (has_number(source, "seen_ms_ago"))
			table_cell(&table, 7, "%s", seconds_text(number_at(source, "seen_ms_ago") / 1000, buf));
		if (has_number(source, "tokens"))
			table_cell(&table, 8, "%.1f", number_at(source, "tokens"));
		table_cell(&table, 9, "%s", true_at(source, "known") ? "known-good" : "");
	}
	table_end(&table, 0);
	if (!json_array_size(sources))
		puts("no source was seen more than once");
	if (json_is_false(json_object_get(answer, "complete")))
		printf("The walk was cut short after %.0f entries: the list may lack some.\n",
		       number_at(answer, "scanned"));
}

static const char *rule_text(const json_t *rule, char buf[CELL])
{
	if (json_is_string(rule))
		return json_string_value(rule);
	if (!json_is_object(rule))
		return "";
	snprintf(buf, CELL, "%.20s %.40s", text_at(rule, "action"), text_at(rule, "cidr"));
	return buf;
}

void show_source(const struct invocation *inv, const json_t *answer)
{
	static const char *const titles[] = {"service", ">tokens", "rate",  ">attempts", ">refused",
					     ">open",   "known",   "trust", "order",     NULL};
	const json_t *services = json_object_get(answer, "services"), *service;
	struct table table;
	char buf[FIGURE], cell[CELL];
	size_t i;

	(void)inv;
	printf("%s", text_at(answer, "address"));
	if (*text_at(answer, "key"))
		printf(", counted as %s", text_at(answer, "key"));
	putchar('\n');
	table_begin(&table, titles);
	json_array_foreach(services, i, service)
	{
		table_row(&table);
		table_cell(&table, 0, "%s", text_at(service, "service"));
		if (has_number(service, "tokens"))
			table_cell(&table, 1, "%.1f", number_at(service, "tokens"));
		else
			table_cell(&table, 1, "-");
		table_cell(&table, 2, "%s", text_at(service, "rate"));
		table_cell(&table, 3, "%s", count_at(service, "attempts", buf));
		table_cell(&table, 4, "%s", count_at(service, "refused", buf));
		table_cell(&table, 5, "%s", count_at(service, "open", buf));
		table_cell(&table, 6, "%s", true_at(service, "known") ? "known-good" : "");
		table_cell(&table, 7, "%s", rule_text(json_object_get(service, "trust"), cell));
		table_cell(&table, 8, "%s", rule_text(json_object_get(service, "order"), cell));
	}
	table_end(&table, 0);
	if (!json_array_size(services))
		puts("no service has seen this source");
}

/* --- orders -------------------------------------------------------------------------------------------------- */

static double override_id(const json_t *answer)
{
	return number_at(json_object_get(answer, "override"), "id");
}

static void put_until(const struct invocation *inv, const json_t *answer)
{
	if (inv->values[OPT_for])
		printf(", for %s", inv->values[OPT_for]);
	else
		printf(", until `sluicectl overrides release %.0f`", override_id(answer));
	puts("");
}

void show_limits(const struct invocation *inv, const json_t *answer)
{
	char *effective = json_dumps(json_object_get(answer, "effective"), JSON_COMPACT | JSON_PRESERVE_ORDER);

	printf("override %.0f: %s", override_id(answer), inv->args[0]);
	for (int i = 1; i < inv->arg_count; i++)
		printf(" %s", inv->args[i]);
	put_until(inv, answer);
	if (effective) {
		printf("read back from the kernel: ");
		put_line(effective);
	}
	free(effective);
}

void show_order(const struct invocation *inv, const json_t *answer)
{
	printf("override %.0f: %s %s", override_id(answer), inv->command->path, inv->args[0]);
	if (!strcmp(inv->command->path, "allow"))
		printf(" up to %s", inv->values[OPT_ceiling] ? inv->values[OPT_ceiling] : "1000/s");
	put_until(inv, answer);
}

static void add_rule(struct table *table, const json_t *rule)
{
	table_row(table);
	table_cell(table, 0, "%s", text_at(rule, "cidr"));
	table_cell(table, 1, "%s", text_at(rule, "action"));
	table_cell(table, 2, "%s", text_at(rule, "class"));
	table_cell(table, 3, "%s", text_at(rule, "ceiling"));
	if (number_at(rule, "id") > 0)
		table_cell(table, 4, "%.0f", number_at(rule, "id"));
	table_cell(table, 5, "%s", text_at(rule, "origin"));
}

void show_trust(const struct invocation *inv, const json_t *answer)
{
	static const char *const titles[] = {"prefix", "action", "class", "ceiling", ">id", "origin", NULL};
	const json_t *trust = json_object_get(answer, "trust"), *orders = json_object_get(answer, "orders"), *item;
	const json_t *management = json_object_get(answer, "management");
	struct table table;
	size_t i;

	(void)inv;
	table_begin(&table, titles);
	json_array_foreach(orders, i, item) add_rule(&table, item);
	json_array_foreach(trust, i, item) add_rule(&table, item);
	table_end(&table, 0);
	if (!json_array_size(trust) && !json_array_size(orders))
		puts("no rules and no orders");
	printf("never refused (management): ports");
	json_array_foreach(json_object_get(management, "ports"), i, item) printf(" %.0f", json_number_value(item));
	json_array_foreach(json_object_get(management, "cidrs"), i, item)
		printf("%s%s", i ? " " : ", prefixes ", json_string_value(item));
	putchar('\n');
}

static void put_values(struct table *table, size_t column, const json_t *values)
{
	char *text = json_dumps(values, JSON_COMPACT | JSON_ENCODE_ANY);
	size_t at = 0;

	/* {"source.rate":"5/s"} as source.rate=5/s */
	for (size_t i = 0; text && text[i]; i++) {
		if (!strchr("{}\"", text[i]))
			text[at++] = text[i] == ':' ? '=' : text[i] == ',' ? ' ' : text[i];
	}
	if (text)
		text[at] = '\0';
	table_cell(table, column, "%s", values && text ? text : "");
	free(text);
}

void show_overrides(const struct invocation *inv, const json_t *answer)
{
	static const char *const titles[] = {">id", "kind", "of", "values", ">left", ">uid", "set at", "reason", NULL};
	const json_t *overrides = json_object_get(answer, "overrides"), *item;
	struct table table;
	char buf[FIGURE];
	size_t i;

	(void)inv;
	table_begin(&table, titles);
	json_array_foreach(overrides, i, item)
	{
		table_row(&table);
		table_cell(&table, 0, "%.0f", number_at(item, "id"));
		table_cell(&table, 1, "%s", text_at(item, "kind"));
		table_cell(&table, 2, "%s",
			   *text_at(item, "service") ? text_at(item, "service") : text_at(item, "cidr"));
		put_values(&table, 3, json_object_get(item, "values"));
		table_cell(&table, 4, "%s",
			   has_number(item, "seconds_left") ? seconds_text(number_at(item, "seconds_left"), buf)
							    : "no end");
		table_cell(&table, 5, "%.0f", number_at(item, "by_uid"));
		table_cell(&table, 6, "%s", text_at(item, "set_at"));
		table_cell(&table, 7, "%s", text_at(item, "reason"));
	}
	table_end(&table, 0);
	if (!json_array_size(overrides))
		puts("no overrides: the configuration holds as it is");
}

void show_released(const struct invocation *inv, const json_t *answer)
{
	(void)answer;
	printf("override %s released: the configuration holds again\n", inv->args[0]);
}

void show_undrain(const struct invocation *inv, const json_t *answer)
{
	(void)answer;
	printf("%s admits new connections again\n", inv->args[0]);
}

/* --- configuration ------------------------------------------------------------------------------------------- */

void show_loaded(const struct invocation *inv, const json_t *answer)
{
	const json_t *warning;
	size_t i;

	(void)inv;
	json_array_foreach(json_object_get(answer, "warnings"), i, warning)
	{
		fputs("sluicectl: warning: ", stderr);
		print_safe(stderr, json_string_value(warning) ? json_string_value(warning) : "", 1024);
		fputc('\n', stderr);
	}
	if (json_is_false(json_object_get(answer, "changed")))
		printf("unchanged: snapshot %.0f stays, no map was written\n", number_at(answer, "snapshot"));
	else
		printf("in force: snapshot %.0f\n", number_at(answer, "snapshot"));
}

static void put_side(struct table *table, size_t column, const json_t *value)
{
	char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	table_cell(table, column, "%s",
		   json_is_string(value)           ? json_string_value(value)
		   : !value || json_is_null(value) ? "-"
		   : text                          ? text
						   : "");
	free(text);
}

void show_diff(const struct invocation *inv, const json_t *answer)
{
	static const char *const titles[] = {"key", "running", "file", NULL};
	const json_t *diff = json_object_get(answer, "diff"), *row;
	struct table table;
	size_t i;

	(void)inv;
	table_begin(&table, titles);
	json_array_foreach(diff, i, row)
	{
		table_row(&table);
		table_cell(&table, 0, "%s", text_at(row, "key"));
		put_side(&table, 1, json_object_get(row, "running"));
		put_side(&table, 2, json_object_get(row, "file"));
	}
	table_end(&table, 0);
	if (!json_array_size(diff))
		puts("no difference: the file says what is in force");
}
