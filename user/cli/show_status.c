// SPDX-License-Identifier: GPL-2.0-only
/* show_status.c: status and service list. */
#include <string.h>

#include "user/cli/breaker.h"
#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/services.h"
#include "user/cli/signals.h"

double refused_total(const json_t *service)
{
	const char *reason;
	json_t *count;
	double sum = 0;

	json_object_foreach(json_object_get(service, "refused"), reason, count) sum += json_number_value(count);
	return sum;
}

const char *top_reason(const json_t *counts, double *ret_count)
{
	const char *reason, *top = "";
	json_t *count;

	*ret_count = 0;
	json_object_foreach((json_t *)counts, reason, count)
	{
		if (json_number_value(count) > *ret_count) {
			*ret_count = json_number_value(count);
			top = reason;
		}
	}
	return top;
}

double open_total(const json_t *service)
{
	return number_at(service, "open_connections") + number_at(service, "before_start_connections");
}

/* What a service's line says last: the thing an operator would want to know first. */
static const char *note_of(const json_t *service, char buf[CELL])
{
	const char *reason;
	double count;

	if (true_at(service, "draining"))
		return "draining";
	reason = top_reason(json_object_get(service, "refused"), &count);
	if (!count) {
		reason = top_reason(json_object_get(service, "dry"), &count);
		if (!count)
			return "";
		snprintf(buf, CELL, "dry run: would refuse, %s", reason);
		return buf;
	}
	return reason;
}

static void add_service(struct table *table, const json_t *service)
{
	const json_t *queue = json_object_get(service, "accept_queue");
	char buf[FIGURE], note[CELL];

	table_row(table);
	table_cell(table, 0, "%s", text_at(service, "name"));
	table_cell(table, 1, "%s", count_at(service, "attempts", buf));
	table_cell(table, 2, "%s", count_at(service, "admitted", buf));
	table_cell(table, 3, "%s", count_text(refused_total(service), buf));
	table_cell(table, 4, "%s", count_text(open_total(service), buf));
	if (number_at(queue, "listeners") > 0)
		table_cell(table, 5, "%.0f/%.0f", number_at(queue, "length"), number_at(queue, "limit"));
	else
		table_cell(table, 5, "-");
	table_cell(table, 6, "%s", milliseconds_text(json_object_get(queue, "head_age_ms"), buf));
	table_cell(table, 7, "%s", answer_time(service, buf));
	table_cell(table, 8, "%s", breaker_word(json_object_get(service, "breaker")));
	table_cell(table, 9, "%s", note_of(service, note));
}

void print_services(const json_t *services)
{
	static const char *const titles[] = {"service",   ">attempts", ">admitted", ">refused", ">open", ">queue",
					     ">head age", ">P50/P95",  "breaker",   "most by",  NULL};
	struct table table;
	const json_t *service;
	size_t i;

	if (!json_array_size(services)) {
		puts("no services");
		return;
	}
	table_begin(&table, titles);
	json_array_foreach(services, i, service) add_service(&table, service);
	table_end(&table, 0);
	json_array_foreach(services, i, service)
	{
		const char *blind = text_at(json_object_get(service, "accept_queue"), "blind");

		if (*blind) {
			printf("%s: the accept-queue gate is blind: ", text_at(service, "name"));
			print_safe(stdout, blind, 512);
			putchar('\n');
		}
	}
}

void show_services(const struct invocation *inv, const json_t *answer)
{
	(void)inv;
	print_services(json_object_get(answer, "services"));
}

/* --- status -------------------------------------------------------------------------------------------------- */

static void print_interfaces(const json_t *interfaces)
{
	static const char *const titles[] = {"interface", "mode", ">program", "note", NULL};
	struct table table;
	const json_t *interface;
	size_t i;

	table_begin(&table, titles);
	json_array_foreach(interfaces, i, interface)
	{
		table_row(&table);
		table_cell(&table, 0, "%s", text_at(interface, "name"));
		table_cell(&table, 1, "%s", text_at(interface, "mode"));
		if (number_at(interface, "program_id") > 0)
			table_cell(&table, 2, "%.0f", number_at(interface, "program_id"));
		else
			table_cell(&table, 2, "-");
		table_cell(&table, 3, "%s", true_at(interface, "dispatcher") ? "beside other programs" : "");
	}
	table_end(&table, 0);
	/* A reason is a sentence: below the table, so that it is never cut. */
	json_array_foreach(interfaces, i, interface)
	{
		const char *why = text_at(interface, "why");

		if (*why) {
			printf("%s: ", text_at(interface, "name"));
			print_safe(stdout, why, 512);
			putchar('\n');
		}
	}
}

static void print_config(const struct invocation *inv, const json_t *config)
{
	printf("config      ");
	print_safe(stdout, text_at(config, "path"), 256);
	printf(", snapshot %.0f", number_at(config, "snapshot"));
	if (*text_at(config, "loaded_at"))
		printf(", loaded %s", text_at(config, "loaded_at"));
	putchar('\n');
	if (json_is_false(json_object_get(config, "last_reload_success"))) {
		printf("            ");
		print_painted(inv, PAINT_RED, "the last reload failed, the old configuration holds: ");
		print_safe(stdout, text_at(config, "last_reload_error"), 1024);
		putchar('\n');
	}
}

static void print_unattached(const struct invocation *inv, const json_t *programs, const char *title)
{
	if (!json_is_object(programs) || true_at(programs, "attached"))
		return;
	print_painted(inv, PAINT_YELLOW, title);
	print_safe(stdout, text_at(programs, "why"), 512);
	putchar('\n');
}

static void print_modes(const struct invocation *inv, const json_t *answer)
{
	const json_t *modes = json_object_get(answer, "modes"), *sockops = json_object_get(answer, "sockops"), *mode;
	size_t i;

	if (true_at(answer, "failsafe"))
		print_painted(inv, PAINT_RED, "lease       LAPSED: the fail-safe holds (failsafe.on_loss)\n");
	else if (has_number(answer, "lease_ms_left"))
		printf("lease       %.1f s left\n", number_at(answer, "lease_ms_left") / 1000);
	json_array_foreach(modes, i, mode)
	{
		print_painted(inv, PAINT_YELLOW, "degraded    ");
		print_safe(stdout, json_string_value(mode) ? json_string_value(mode) : "", 512);
		putchar('\n');
	}
	print_unattached(inv, sockops, "sockops     not attached: connections are not counted: ");
	/* Without sockops the reason is the same. */
	if (true_at(sockops, "attached"))
		print_unattached(inv, json_object_get(answer, "turns"),
				 "turns       not attached: answers are not timed: ");
}

void show_status(const struct invocation *inv, const json_t *answer)
{
	const json_t *abi = json_object_get(answer, "abi"), *build = json_object_get(answer, "build_id");
	char buf[FIGURE];

	printf("sluiced %s", text_at(answer, "version"));
	if (json_is_string(build))
		printf(" (programs %s)", json_string_value(build));
	else if (json_is_integer(build))
		printf(" (programs %016llx)", (unsigned long long)json_integer_value(build));
	printf(", pid %.0f, up %s, map layout %.0f.%.0f\n", number_at(answer, "pid"),
	       seconds_text(number_at(answer, "uptime_s"), buf), number_at(abi, "major"), number_at(abi, "minor"));
	print_config(inv, json_object_get(answer, "config"));
	print_modes(inv, answer);
	putchar('\n');
	print_interfaces(json_object_get(answer, "interfaces"));
	putchar('\n');
	print_services(json_object_get(answer, "services"));
}
