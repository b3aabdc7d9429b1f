// SPDX-License-Identifier: GPL-2.0-only
/* offline.c: what needs no daemon: config check, version, help. */
#include <string.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"
#include "user/control/config.h"
#include "user/version.h"

static json_t *strings(char *const *lines, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(lines[i]));
	return array;
}

static void report_check(const struct invocation *inv, const struct diag *diag, const struct config *config)
{
	json_t *answer;

	for (size_t i = 0; i < diag->error_count; i++)
		fprintf(stderr, "sluicectl: %s\n", diag->errors[i]);
	for (size_t i = 0; i < diag->warning_count; i++)
		fprintf(stderr, "sluicectl: warning: %s\n", diag->warnings[i]);
	if (config && inv->values[OPT_effective]) {
		config_effective(config, stdout);
	} else if (inv->values[OPT_json]) {
		answer = json_pack("{s:b, s:o, s:o}", "ok", config != NULL, "errors",
				   strings(diag->errors, diag->error_count), "warnings",
				   strings(diag->warnings, diag->warning_count));
		print_json(answer);
		json_decref(answer);
	} else if (config) {
		printf("%s: valid; interfaces: %zu, services: %zu, trust rules: %zu\n", inv->args[0],
		       config->interface_count, config->service_count, config->trust_count);
	}
}

int run_config_check(const struct invocation *inv)
{
	struct config *config = NULL;
	struct diag diag = {0};
	int err = config_load(inv->args[0], &config, &diag);

	if (err && !diag.error_count)
		diag_error(&diag, "%s: %s", inv->args[0], strerror(-err));
	report_check(inv, &diag, err ? NULL : config);
	config_free(&config);
	diag_reset(&diag);
	return err ? STATUS_REFUSED : STATUS_OK;
}

int run_version(const struct invocation *inv)
{
	struct http_answer answer = {0};
	char why[512];
	int err = http_request(socket_of(inv), "GET", "/v1/status", NULL, &answer, why, sizeof(why));
	const json_t *running = err || answer.status != 200 ? NULL : json_object_get(answer.body, "version");

	if (inv->values[OPT_json]) {
		json_t *both = json_pack("{s:s, s:O?}", "sluicectl", SLUICE_VERSION, "sluiced", (json_t *)running);

		print_json(both);
		json_decref(both);
	} else {
		printf("sluicectl %s\n", SLUICE_VERSION);
		if (running)
			printf("sluiced   %s\n", json_string_value(running));
		else
			printf("sluiced   not reachable at %s: %s\n", socket_of(inv), err ? why : "unexpected answer");
	}
	http_release(&answer);
	return STATUS_OK;
}

int run_help(const struct invocation *inv)
{
	if (!inv->arg_count) {
		print_help(stdout);
		return STATUS_OK;
	}
	if (print_topic_help(stdout, inv->args, inv->arg_count))
		return STATUS_OK;
	report_fault(inv, &(struct fault){.message = "there is no help on this",
					  .value = inv->args[0],
					  .hint = "sluicectl --help lists the commands"});
	return STATUS_USAGE;
}
