// SPDX-License-Identifier: GPL-2.0-only
/* request.c: from a command line to a request, by the table's fields. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/fault.h"
#include "user/cli/request.h"

const char *socket_of(const struct invocation *inv)
{
	return inv->values[OPT_socket] ? inv->values[OPT_socket] : DEFAULT_SOCKET;
}

void print_json(const json_t *json)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
	putchar('\n');
}

void report_fault(const struct invocation *inv, const struct fault *fault)
{
	json_t *error = inv->values[OPT_json] ? fault_json(fault) : NULL;

	if (error)
		print_json(error);
	json_decref(error);
	print_fault(stderr, fault);
}

/* --- fields ---------------------------------------------------------------------------------------------------- */

/* A file's name as the daemon, in another directory, must see it. */
static const char *absolute(const struct invocation *inv, int index, char path[PATH_MAX])
{
	if (inv->command->args[index].kind == KIND_FILE && realpath(inv->args[index], path))
		return path;
	return inv->args[index];
}

/* "key=value" words as {"key": "value"}; they were checked by limits_assign(). */
static json_t *limits_of(const struct invocation *inv, int first)
{
	json_t *set = json_object();

	for (int i = first; i < inv->arg_count; i++) {
		const char *equals = strchr(inv->args[i], '=');
		char key[64];

		snprintf(key, sizeof(key), "%.*s", (int)(equals - inv->args[i]), inv->args[i]);
		json_object_set_new(set, key, json_string(equals + 1));
	}
	return set;
}

/* NULL: the field is absent. */
static json_t *field_value(const struct invocation *inv, const struct field *field)
{
	char path[PATH_MAX];

	switch (field->from) {
	case FROM_CONSTANT:
		return json_string(field->constant);
	case FROM_ARGUMENT:
		return field->index < inv->arg_count ? json_string(absolute(inv, field->index, path)) : NULL;
	case FROM_OPTION:
		return inv->values[field->index] ? json_string(inv->values[field->index]) : NULL;
	case FROM_SWITCH:
		return inv->values[field->index] ? json_true() : NULL;
	case FROM_LIMITS:
		return limits_of(inv, field->index);
	}
	return NULL;
}

/* The target's {n} replaced by arguments, escaped. */
static void put_target(FILE *out, const struct invocation *inv)
{
	for (const char *c = inv->command->target; *c; c++) {
		if (*c == '{') {
			char *escaped = http_escape(inv->args[c[1] - '0']);

			fputs(escaped ? escaped : "", out);
			free(escaped);
			c += 2;
		} else {
			fputc(*c, out);
		}
	}
}

static void put_query(FILE *out, const json_t *fields)
{
	const char *key, *separator = "?";
	json_t *value;

	json_object_foreach((json_t *)fields, key, value)
	{
		char *escaped = http_escape(json_is_string(value) ? json_string_value(value) : "true");

		fprintf(out, "%s%s=%s", separator, key, escaped ? escaped : "");
		separator = "&";
		free(escaped);
	}
}

int build_request(const struct invocation *inv, char **ret_target, json_t **ret_body)
{
	json_t *fields = json_object();
	size_t len;
	FILE *out = open_memstream(ret_target, &len);

	if (!out || !fields) {
		json_decref(fields);
		return -ENOMEM;
	}
	for (const struct field *field = inv->command->fields; field->name; field++) {
		json_t *value = field_value(inv, field);

		if (value)
			json_object_set_new(fields, field->name, value);
	}
	put_target(out, inv);
	if (!strcmp(inv->command->method, "POST")) {
		*ret_body = fields;
	} else {
		put_query(out, fields);
		json_decref(fields);
		*ret_body = NULL;
	}
	return fclose(out) ? -ENOMEM : 0;
}

/* --- answer ---------------------------------------------------------------------------------------------------- */

static void report_unreachable(const struct invocation *inv, const char *why)
{
	char message[640];

	snprintf(message, sizeof(message), "cannot reach sluiced: %s", why);
	report_fault(inv, &(struct fault){message, "--socket", socket_of(inv), "the socket of a running sluiced",
					  "is sluiced running, may you open its socket, and is it this one? "
					  "doctor, config check and detach work without it"});
}

int ask(const struct invocation *inv, const char *method, const char *target, const json_t *body,
	struct http_answer *ret_answer)
{
	struct http_answer answer = {0};
	char why[512];
	int err = http_request(socket_of(inv), method, target, body, &answer, why, sizeof(why));

	if (err == -ENOTCONN) {
		report_unreachable(inv, why);
		return STATUS_UNREACHABLE;
	}
	if (err) {
		report_fault(inv, &(struct fault){.message = why, .key = target});
		return STATUS_REFUSED;
	}
	if (answer.status >= 200 && answer.status < 300) {
		*ret_answer = answer;
		return STATUS_OK;
	}
	if (inv->values[OPT_json])
		print_json(answer.body);
	print_answer_fault(stderr, answer.body, answer.status);
	http_release(&answer);
	return STATUS_REFUSED;
}

int run_request(const struct invocation *inv)
{
	struct http_answer answer = {0};
	char *target = NULL;
	json_t *body = NULL;
	int status = STATUS_REFUSED;

	if (build_request(inv, &target, &body)) {
		report_fault(inv, &(struct fault){.message = "out of memory"});
	} else {
		status = ask(inv, inv->command->method, target, body, &answer);
		if (status == STATUS_OK && inv->values[OPT_json])
			print_json(answer.body);
		else if (status == STATUS_OK)
			inv->command->show(inv, answer.body);
		http_release(&answer);
	}
	json_decref(body);
	free(target);
	return status;
}
