// SPDX-License-Identifier: GPL-2.0-only
/* doctor.c: what to look at comes from the daemon, else from the configuration; the findings from user/control. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/fault.h"
#include "user/cli/output.h"
#include "user/cli/request.h"
#include "user/control/config.h"
#include "user/control/doctor.h"
#include "user/control/schema.h"

#define DEFAULT_CONFIG "/etc/sluice/sluice.yaml"

static const char *const level_names[] = {"OK", "WARN", "FAIL"};
static const enum paint level_paints[] = {PAINT_GREEN, PAINT_YELLOW, PAINT_RED};

static void input_free(struct doctor_input *input)
{
	for (size_t i = 0; i < input->service_count; i++)
		free(input->services[i].keys);
	free(input->services);
	free(input->interfaces);
}

static bool input_make(struct doctor_input *input, size_t interfaces, size_t services)
{
	input->interfaces = calloc(interfaces + 1, sizeof(*input->interfaces));
	input->services = calloc(services + 1, sizeof(*input->services));
	return input->interfaces && input->services;
}

static void add_key(struct doctor_service *service, const struct listen_address *listen, uint8_t proto)
{
	struct slc_service_key *grown = realloc(service->keys, (service->key_count + 1) * sizeof(*grown));

	if (!grown)
		return;
	service->keys = grown;
	grown[service->key_count] = (struct slc_service_key){.port = listen->port, .proto = proto};
	memcpy(grown[service->key_count++].addr, listen->addr, sizeof(listen->addr));
}

/* --- from the daemon ------------------------------------------------------------------------------------------- */

static void take_keys(struct doctor_service *service, const json_t *from)
{
	const struct schema_key *key = schema_find("services.listen");
	uint8_t proto = strcmp(text_at(from, "protocol"), "udp") ? IPPROTO_TCP : IPPROTO_UDP;
	const json_t *text;
	char why[512];
	size_t i;

	json_array_foreach(json_object_get(from, "listen"), i, text)
	{
		struct value value = {0};

		if (!key || !json_is_string(text) ||
		    schema_value(key, json_string_value(text), &value, why, sizeof(why)))
			continue;
		for (size_t n = 0; n < value.listen_count; n++)
			add_key(service, &value.listen[n], proto);
	}
}

/* `from` as `service show` has it. */
static void take_service(struct doctor_service *service, const json_t *from)
{
	const json_t *policy = json_object_get(from, "policy");

	snprintf(service->name, sizeof(service->name), "%s", text_at(from, "name"));
	if (strcmp(text_at(policy, "netns"), "host"))
		snprintf(service->netns, sizeof(service->netns), "%s", text_at(policy, "netns"));
	service->gate = json_is_object(json_object_get(policy, "accept_queue"));
	service->reset = !strcmp(text_at(policy, "action"), "reset");
	snprintf(service->advice, sizeof(service->advice), "%s", text_at(json_object_get(from, "breaker"), "advice"));
	take_keys(service, from);
}

/* Removed by a reload in between: not looked at. */
static void ask_for_service(const struct invocation *inv, const json_t *listed, struct doctor_input *input)
{
	char *name = http_escape(text_at(listed, "name"));
	struct http_answer answer = {0};
	char target[512], why[512];

	if (!name)
		return;
	snprintf(target, sizeof(target), "/v1/services/%s", name);
	free(name);
	if (http_request(socket_of(inv), "GET", target, NULL, &answer, why, sizeof(why)))
		return;
	if (answer.status == 200)
		take_service(&input->services[input->service_count++], answer.body);
	http_release(&answer);
}

/* What is degraded, as `status` names it. */
static void say_unattached(struct doctor_report *report, const json_t *status, const char *key, const char *mode,
			   const char *todo)
{
	const json_t *programs = json_object_get(status, key);

	if (json_is_object(programs) && !true_at(programs, "attached"))
		doctor_say(report, DOCTOR_WARN, mode, NULL, todo, "%s", text_at(programs, "why"));
}

static void say_modes(struct doctor_report *report, const json_t *status)
{
	static const char todo[] = "detach that program or attach it as one of several (bpftool cgroup tree shows "
				   "them), then restart sluiced";

	say_unattached(report, status, "sockops", "no_sockops", todo);
	if (true_at(json_object_get(status, "sockops"), "attached"))
		say_unattached(report, status, "turns", "no_turns", todo);
}

static bool input_from_daemon(const struct invocation *inv, struct doctor_input *input, struct doctor_report *report)
{
	const json_t *interfaces, *services, *item;
	struct http_answer answer = {0};
	char why[512];
	bool made;
	size_t i;

	if (http_request(socket_of(inv), "GET", "/v1/status", NULL, &answer, why, sizeof(why)))
		return false;
	interfaces = json_object_get(answer.body, "interfaces");
	services = json_object_get(answer.body, "services");
	made = answer.status == 200 && json_is_array(services) &&
	       input_make(input, json_array_size(interfaces), json_array_size(services));
	if (made) {
		json_array_foreach(interfaces, i, item)
			snprintf(input->interfaces[input->interface_count++], IF_NAMESIZE, "%s", text_at(item, "name"));
		json_array_foreach(services, i, item) ask_for_service(inv, item, input);
		say_modes(report, answer.body);
	}
	http_release(&answer);
	return made;
}

/* --- from the file --------------------------------------------------------------------------------------------- */

static bool input_from_config(const struct config *config, struct doctor_input *input)
{
	if (!input_make(input, config->interface_count, config->service_count))
		return false;
	for (size_t i = 0; i < config->interface_count; i++)
		memcpy(input->interfaces[input->interface_count++], config->interfaces[i].name, IF_NAMESIZE);
	for (size_t i = 0; i < config->service_count; i++) {
		const struct service_config *from = &config->services[i];
		struct doctor_service *service = &input->services[input->service_count++];

		memcpy(service->name, from->name, sizeof(service->name));
		snprintf(service->netns, sizeof(service->netns), "%s", from->netns);
		service->gate = from->has_queue;
		service->reset = from->action == ACTION_RESET;
		for (size_t n = 0; n < from->listen_count; n++)
			add_key(service, &from->listen[n], from->proto);
	}
	return true;
}

static void say_config(struct doctor_report *report, const struct diag *diag, const char *path, bool asked)
{
	char first[256];

	if (!diag->error_count) {
		doctor_say(report, DOCTOR_OK, "config", path, NULL, "valid");
		return;
	}
	snprintf(first, sizeof(first), "%s", diag->errors[0]);
	doctor_say(report, asked ? DOCTOR_FAIL : DOCTOR_WARN, "config", path,
		   "sluicectl config check FILE; or give --config FILE, so that interfaces and listeners are looked at",
		   "no daemon answers, and there is no valid configuration: %s", first);
}

/* --- output ---------------------------------------------------------------------------------------------------- */

static void add_json(json_t *findings, const struct doctor_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *f = &report->findings[i];

		json_array_append_new(findings,
				      json_pack("{s:s, s:s, s:s, s:s, s:s}", "level", level_names[f->level], "check",
						f->check, "subject", f->subject, "what", f->what, "todo", f->todo));
	}
}

static void print_finding(const struct invocation *inv, const struct doctor_finding *finding)
{
	char word[8];

	snprintf(word, sizeof(word), "%-5s", level_names[finding->level]);
	print_painted(inv, level_paints[finding->level], word);
	printf("%s%s", finding->check, *finding->subject ? " " : "");
	print_safe(stdout, finding->subject, sizeof(finding->subject));
	printf(": ");
	print_safe(stdout, finding->what, sizeof(finding->what));
	if (*finding->todo) {
		printf(" -> ");
		print_safe(stdout, finding->todo, sizeof(finding->todo));
	}
	putchar('\n');
}

static int report_all(const struct invocation *inv, const struct doctor_report *reports, size_t count)
{
	size_t levels[3] = {0};
	json_t *findings = json_array(), *answer;

	for (size_t r = 0; r < count; r++) {
		for (size_t i = 0; i < reports[r].count; i++) {
			levels[reports[r].findings[i].level]++;
			if (!inv->values[OPT_json])
				print_finding(inv, &reports[r].findings[i]);
		}
		add_json(findings, &reports[r]);
	}
	if (inv->values[OPT_json]) {
		answer = json_pack("{s:b, s:O}", "ok", !levels[DOCTOR_FAIL], "findings", findings);
		print_json(answer);
		json_decref(answer);
	} else {
		printf("%zu OK, %zu WARN, %zu FAIL\n", levels[DOCTOR_OK], levels[DOCTOR_WARN], levels[DOCTOR_FAIL]);
	}
	json_decref(findings);
	return levels[DOCTOR_FAIL] ? STATUS_REFUSED : STATUS_OK;
}

int run_doctor(const struct invocation *inv)
{
	const char *path = inv->values[OPT_config] ? inv->values[OPT_config] : DEFAULT_CONFIG;
	struct doctor_report reports[2] = {0};
	struct doctor_input input = {.root = ""};
	struct config *config = NULL;
	struct diag diag = {0};
	int status = STATUS_REFUSED;

	/* --config is a wish to look at that file: the daemon is not asked. */
	if (inv->values[OPT_config] || !input_from_daemon(inv, &input, &reports[0])) {
		if (!config_load(path, &config, &diag) && !input_from_config(config, &input))
			input.service_count = input.interface_count = 0;
		say_config(&reports[0], &diag, path, inv->values[OPT_config] != NULL);
	}
	if (doctor_run(&input, &reports[1]))
		report_fault(inv, &(struct fault){.message = "out of memory"});
	else
		status = report_all(inv, reports, 2);
	doctor_report_free(&reports[0]);
	doctor_report_free(&reports[1]);
	input_free(&input);
	config_free(&config);
	diag_reset(&diag);
	return status;
}
