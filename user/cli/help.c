// SPDX-License-Identifier: GPL-2.0-only
/* help.c: --help, the help of a command and the man page's section, all from the tables. */
#include <stdlib.h>
#include <string.h>

#include "user/cli/command.h"
#include "user/cli/roff.h"

#define WIDTH 96 /* columns of the text */

static const struct {
	enum status status;
	const char *text;
} statuses[] = {
	{STATUS_OK, "done"},
	{STATUS_REFUSED, "the request was refused, or failed"},
	{STATUS_USAGE, "the command line was not understood; nothing was sent"},
	{STATUS_TIME_LIMIT, "drain: connections were still open when the time was over"},
	{STATUS_UNREACHABLE, "the daemon was not reachable"},
};

/* Text in lines of WIDTH columns, each behind `indent` blanks. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
	int column = 0;

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (column && column + 1 + len > WIDTH - indent) {
			fputc('\n', out);
			column = 0;
		}
		if (!column)
			fprintf(out, "%*s", indent, "");
		else
			fputc(' ', out);
		fprintf(out, "%.*s", len, text);
		column += len + (column != 0);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void usage(FILE *out, const struct command *command)
{
	fputs(command->path, out);
	for (size_t i = 0; i < sizeof(command->args) / sizeof(command->args[0]) && command->args[i].name; i++) {
		const struct positional *arg = &command->args[i];

		fprintf(out, arg->optional ? " [%s%s]" : " %s%s", arg->name, arg->many ? "..." : "");
	}
	/* What must be given comes last in the line, as in the examples. */
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < OPTION_COUNT; i++) {
			const struct option_spec *spec = &option_specs[i];
			bool required = command->required & 1u << i;

			if (!(command->options & 1u << i) || required != (pass == 1))
				continue;
			fprintf(out, required ? " %s%s%s" : " [%s%s%s]", spec->name, spec->value ? " " : "",
				spec->value ? spec->value : "");
		}
	}
}

void print_usage_line(FILE *out, const struct command *command)
{
	fputs("sluicectl ", out);
	usage(out, command);
	fputc('\n', out);
}

static void print_options(FILE *out, unsigned options)
{
	for (int i = 0; i < OPTION_COUNT; i++) {
		const struct option_spec *spec = &option_specs[i];
		char name[40];

		if (!(options & 1u << i) || spec->hidden)
			continue;
		snprintf(name, sizeof(name), "%s %s", spec->name, spec->value ? spec->value : "");
		fprintf(out, "  %-18s %s\n", name, spec->help);
	}
}

void print_help(FILE *out)
{
	fputs("sluicectl: watch and steer sluiced, the load shedder in front of the accept queue\n\n"
	      "  sluicectl [--socket PATH] [--json] COMMAND ...\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < command_count; i++) {
		const struct command *command = &commands[i];
		char line[256];
		FILE *text = fmemopen(line, sizeof(line), "w");

		if (!text)
			return;
		usage(text, command);
		fclose(text);
		if (strlen(line) <= 26)
			fprintf(out, "  %-26s  %s\n", line, command->summary);
		else
			fprintf(out, "  %s\n  %-26s  %s\n", line, "", command->summary);
	}
	fputs("\nOptions of every command:\n", out);
	print_options(out, GLOBAL_OPTIONS);
	fputs("\nExit status:\n", out);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		fprintf(out, "  %d  %s\n", statuses[i].status, statuses[i].text);
	fputs("\n`sluicectl help COMMAND` has examples. Times, rates and percents need a unit: 10m, 20/s, 75%.\n", out);
}

void print_command_help(FILE *out, const struct command *command)
{
	print_usage_line(out, command);
	print_wrapped(out, command->summary, 4);
	if (command->text)
		print_wrapped(out, command->text, 4);
	if (command->options)
		print_options(out, command->options);
	for (size_t i = 0; i < sizeof(command->examples) / sizeof(command->examples[0]); i++) {
		if (command->examples[i])
			fprintf(out, "%s%s\n", i ? "           " : "  example: ", command->examples[i]);
	}
}

bool print_topic_help(FILE *out, const char *const *words, int count)
{
	char topic[256] = "";
	bool found = false;
	size_t len;

	/* Words behind the path are arguments: `sluicectl limits set web --help` is help for limits set. */
	for (int used = count; used > 0 && !found; used--) {
		topic[0] = '\0';
		for (int i = 0; i < used; i++) {
			len = strlen(topic);
			snprintf(topic + len, sizeof(topic) - len, "%s%s", len ? " " : "", words[i]);
		}
		len = strlen(topic);
		for (size_t i = 0; i < command_count; i++) {
			const char *path = commands[i].path;

			if (strncmp(path, topic, len) || (path[len] && path[len] != ' '))
				continue;
			if (found)
				fputc('\n', out);
			print_command_help(out, &commands[i]);
			found = true;
		}
	}
	return found;
}

/* --- man page ------------------------------------------------------------------------------------------------------ */

void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
	}
}

static void roff_options(FILE *out, unsigned options)
{
	for (int i = 0; i < OPTION_COUNT; i++) {
		const struct option_spec *spec = &option_specs[i];

		if (!(options & 1u << i) || spec->hidden)
			continue;
		fputs(".TP\n.B ", out);
		roff(out, spec->name);
		if (spec->value)
			fprintf(out, " \\fI%s\\fR", spec->value);
		fputc('\n', out);
		roff(out, spec->help);
		fputs(".\n", out);
	}
}

static void roff_command(FILE *out, const struct command *command)
{
	char *line = NULL;
	size_t len;
	FILE *text = open_memstream(&line, &len);

	if (!text)
		return;
	usage(text, command);
	fclose(text);
	fputs(".SS ", out);
	roff(out, line);
	fputc('\n', out);
	free(line);
	roff(out, command->summary);
	fputs(".\n", out);
	if (command->text) {
		fputs(".PP\n", out);
		roff(out, command->text);
		fputc('\n', out);
	}
	roff_options(out, command->options);
	if (!command->examples[0])
		return;
	fputs(".PP\n.nf\n.RS\n", out);
	for (size_t i = 0; i < sizeof(command->examples) / sizeof(command->examples[0]); i++) {
		if (!command->examples[i])
			continue;
		roff(out, command->examples[i]);
		fputc('\n', out);
	}
	fputs(".RE\n.fi\n", out);
}

void print_man_section(FILE *out)
{
	fputs(".SH COMMANDS\n", out);
	for (size_t i = 0; i < command_count; i++)
		roff_command(out, &commands[i]);
	fputs(".SH OPTIONS\n", out);
	roff_options(out, GLOBAL_OPTIONS);
	fputs(".SH EXIT STATUS\n", out);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		fprintf(out, ".TP\n.B %d\n%s.\n", statuses[i].status, statuses[i].text);
}
