// SPDX-License-Identifier: GPL-2.0-only
/* man_config.c: the keys of sluice.yaml(5), from the table that the daemon reads the file by. */
#include <string.h>

#include "user/cli/command.h"
#include "user/cli/roff.h"
#include "user/control/schema.h"

/* "a duration ... from 1s to 1m is accepted" and "accepted: a, b" both end as "a duration ...", "a, b". */
static void print_accepted(FILE *out, const struct schema_key *key)
{
	static const char before[] = "accepted: ", after[] = " is accepted";
	char text[VALUE_LEN];
	const char *start = text;
	size_t len;

	schema_accepted(key, text, sizeof(text));
	if (!strncmp(text, before, strlen(before)))
		start += strlen(before);
	len = strlen(start);
	if (len > strlen(after) && !strcmp(start + len - strlen(after), after))
		text[start - text + len - strlen(after)] = '\0';
	if (!*start)
		return;
	/* Of these the words are all there is; elsewhere they stand beside the type's own values. */
	fputs(start != text && key->type != KEY_WORD && key->type != KEY_BOOL && key->type != KEY_PROTOCOL &&
			      key->type != KEY_STAGE && key->type != KEY_OUTCOME
		      ? "Also accepted: "
		      : "Accepted: ",
	      out);
	roff(out, start);
	fputs(".\n", out);
}

static void print_key(FILE *out, const struct schema_key *key)
{
	fputs(".TP\n.B ", out);
	roff(out, key->path);
	if (key->flags & KEY_REQUIRED)
		fputs(" \\fR(required)", out);
	fputc('\n', out);
	roff(out, key->help);
	fputs(".\n", out);
	if (key->type != KEY_MAP && key->type != KEY_LIST)
		print_accepted(out, key);
	if (key->fallback) {
		fputs("Default: ", out);
		roff(out, *key->fallback ? key->fallback : "none");
		fputs(".\n", out);
	}
	if (schema_is_later(key))
		fputs("Read and checked; not acted on by this version.\n", out);
}

void print_man_config(FILE *out)
{
	fputs(".SH KEYS\n", out);
	for (size_t i = 0; i < schema_count; i++) {
		if (!strchr(schema[i].path, '.')) {
			fputs(".SS ", out);
			roff(out, schema[i].path);
			fputc('\n', out);
		}
		print_key(out, &schema[i]);
	}
}
