// SPDX-License-Identifier: GPL-2.0-only
/* breaker_order.c: breaker open, close, auto. Success is what the daemon read back from the maps, not that it answered. */
#include <stdlib.h>
#include <string.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"

static const struct {
	const char *path, *state; /* NULL: any that is not forced */
	const char *words;
} orders[] = {
	{"breaker open", "forced_open", "every new connection is refused as circuit_open"},
	{"breaker close", "forced_closed", "the breaker opens for nothing"},
	{"breaker auto", NULL, "the breaker decides again"},
};

static size_t order_of(const struct invocation *inv)
{
	size_t i = 0;

	while (i + 1 < sizeof(orders) / sizeof(orders[0]) && strcmp(orders[i].path, inv->command->path))
		i++;
	return i;
}

/* What was read back is what was ordered. */
static bool holds(size_t order, const json_t *answer)
{
	const char *state = text_at(json_object_get(answer, "breaker"), "state");
	bool overridden = json_is_object(json_object_get(answer, "override"));

	if (orders[order].state)
		return overridden && !strcmp(state, orders[order].state);
	return !overridden && *state && strncmp(state, "forced", strlen("forced")) != 0;
}

static int report_other_state(const struct invocation *inv, const json_t *answer)
{
	const json_t *override = json_object_get(answer, "override");
	char message[256];

	snprintf(message, sizeof(message), "%s: not in force: read back were state %.40s and %s", inv->command->path,
		 text_at(json_object_get(answer, "breaker"), "state"),
		 json_is_object(override) ? "an override" : "no override");
	report_fault(inv, &(struct fault){.message = message,
					  .key = "NAME",
					  .value = inv->args[0],
					  .hint = "sluicectl service show NAME, sluicectl overrides list"});
	return STATUS_REFUSED;
}

static void print_order(const struct invocation *inv, size_t order, const json_t *answer)
{
	const json_t *breaker = json_object_get(answer, "breaker"), *override = json_object_get(answer, "override");

	printf("%s: %s", inv->args[0], orders[order].words);
	if (json_is_object(override) && inv->values[OPT_for])
		printf(", for %s", inv->values[OPT_for]);
	else if (json_is_object(override))
		printf(", until `sluicectl breaker auto %s`", inv->args[0]);
	printf("\nread back: state %s, generation %.0f, ", text_at(breaker, "state"), number_at(breaker, "generation"));
	if (json_is_object(override))
		printf("override %.0f\n", number_at(override, "id"));
	else
		puts("no override");
}

int run_breaker(const struct invocation *inv)
{
	struct http_answer answer = {0};
	size_t order = order_of(inv);
	char *target = NULL;
	json_t *body = NULL;
	int status = STATUS_REFUSED;

	if (build_request(inv, &target, &body))
		report_fault(inv, &(struct fault){.message = "out of memory"});
	else
		status = ask(inv, inv->command->method, target, body, &answer);
	if (status == STATUS_OK && !holds(order, answer.body)) {
		status = report_other_state(inv, answer.body);
	} else if (status == STATUS_OK) {
		if (inv->values[OPT_json])
			print_json(answer.body);
		else
			print_order(inv, order, answer.body);
		if (orders[order].state && !strcmp(orders[order].state, "forced_closed"))
			fputs("sluicectl: warning: forced closed: connections are admitted into the service even while "
			      "it is broken; end it with `breaker auto`\n",
			      stderr);
	}
	http_release(&answer);
	json_decref(body);
	free(target);
	return status;
}
