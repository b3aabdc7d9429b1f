// SPDX-License-Identifier: GPL-2.0-only
/* fault.c: errors in one form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/fault.h"
#include "user/control/order_text.h"

#define VALUE_SHOWN 80 /* bytes of a value that are repeated */

void print_safe(FILE *out, const char *text, size_t max)
{
	size_t len = strlen(text), shown = len > max ? max : len;
	bool utf8 = text_is_utf8(text, len);

	/* A character cut in half would be another fault: step back to where one begins. */
	while (utf8 && shown < len && shown && (text[shown] & 0xc0) == 0x80)
		shown--;
	for (size_t i = 0; i < shown; i++) {
		unsigned char c = text[i];

		fputc(c < ' ' || c == 0x7f || (c >= 0x80 && !utf8) ? '?' : c, out);
	}
	if (shown < len)
		fprintf(out, "... (%zu bytes)", len);
}

static void print_line(FILE *out, const char *name, const char *text, size_t max)
{
	if (!text)
		return;
	fprintf(out, "  %-10s", name);
	print_safe(out, text, max);
	fputc('\n', out);
}

/* Several errors come as several lines. */
static void print_message(FILE *out, const char *message)
{
	char line[4096];

	do {
		size_t len = strcspn(message, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)len, message);
		fputs("sluicectl: ", out);
		print_safe(out, line, sizeof(line));
		fputc('\n', out);
		message += len + (message[len] == '\n');
	} while (*message);
}

void print_fault(FILE *out, const struct fault *fault)
{
	print_message(out, fault->message);
	print_line(out, "key:", fault->key, VALUE_SHOWN);
	print_line(out, "value:", fault->value, VALUE_SHOWN);
	print_line(out, "accepted:", fault->accepted, 1024);
	print_line(out, "hint:", fault->hint, 1024);
}

/* JSON is UTF-8, what was given need not be. */
static void set_text(json_t *object, const char *key, const char *text)
{
	char *safe = NULL;
	size_t len;
	FILE *out = text ? open_memstream(&safe, &len) : NULL;

	if (!out)
		return;
	print_safe(out, text, SIZE_MAX);
	if (!fclose(out))
		json_object_set_new(object, key, json_string(safe));
	free(safe);
}

json_t *fault_json(const struct fault *fault)
{
	json_t *error = json_object();

	set_text(error, "message", fault->message);
	set_text(error, "key", fault->key);
	set_text(error, "value", fault->value);
	set_text(error, "accepted", fault->accepted);
	set_text(error, "hint", fault->hint);
	return json_pack("{s:o}", "error", error);
}

static void print_list(FILE *out, const json_t *answer, const char *name, const char *word)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(answer, name), i, item)
	{
		if (json_is_string(item))
			print_line(out, word, json_string_value(item), 4096);
	}
}

/* Values are sent as they came, so that they may be numbers or objects: shown as JSON then. */
static const char *text_of(const json_t *value, char **to_free)
{
	if (!value || json_is_null(value))
		return NULL;
	if (json_is_string(value))
		return json_string_value(value);
	return *to_free = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

void print_answer_fault(FILE *out, const json_t *answer, long status)
{
	const json_t *error = json_object_get(answer, "error");
	struct fault fault = {0};
	char text[64], *spare[4] = {0};

	snprintf(text, sizeof(text), "the daemon refused (HTTP status %ld)", status);
	fault.message =
		json_is_string(error) ? json_string_value(error) : json_string_value(json_object_get(error, "message"));
	if (!fault.message)
		fault.message = text;
	fault.key = text_of(json_object_get(error, "key"), &spare[0]);
	fault.value = text_of(json_object_get(error, "value"), &spare[1]);
	fault.accepted = text_of(json_object_get(error, "accepted"), &spare[2]);
	fault.hint = text_of(json_object_get(error, "hint"), &spare[3]);
	print_fault(out, &fault);
	print_list(out, json_object_get(answer, "errors") ? answer : error, "errors", "error:");
	print_list(out, json_object_get(answer, "warnings") ? answer : error, "warnings", "warning:");
	for (size_t i = 0; i < sizeof(spare) / sizeof(spare[0]); i++)
		free(spare[i]);
}
