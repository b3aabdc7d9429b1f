// SPDX-License-Identifier: GPL-2.0-only
/* parse.c: a command line against the tables of commands.c. Nothing here knows a command by name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/cli/check_value.h"
#include "user/cli/command.h"
#include "user/cli/fault.h"
#include "user/control/nearest.h"

#define WHY 512

struct words {
	const char *word[ARGS_MAX + 2];
	int count;
};

static int refuse(json_t **ret_error, const struct fault *fault)
{
	*ret_error = fault_json(fault);
	return *ret_error ? -EINVAL : -ENOMEM;
}

static void keep_nearest(const char *given, const char *candidate, unsigned *best, const char **nearest)
{
	unsigned d = text_distance(given, candidate);

	if (d < *best && d <= 3) {
		*best = d;
		*nearest = candidate;
	}
}

/* --- options ------------------------------------------------------------------------------------------------------- */

static int find_option(const char *word, size_t len)
{
	if (len == 2 && !memcmp(word, "-h", 2))
		return OPT_help;
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (strlen(option_specs[i].name) == len && !memcmp(option_specs[i].name, word, len))
			return i;
	}
	return -1;
}

static int unknown_option(const char *word, json_t **ret_error)
{
	const char *nearest = NULL;
	unsigned best = 99;
	char hint[128] = "sluicectl --help lists the options";

	for (int i = 0; i < OPTION_COUNT; i++)
		keep_nearest(word, option_specs[i].name, &best, &nearest);
	if (nearest)
		snprintf(hint, sizeof(hint), "did you mean %s?", nearest);
	return refuse(ret_error, &(struct fault){.message = "there is no such option", .key = word, .hint = hint});
}

/* argv[*at] is an option; takes its value too and moves *at to the last word it used. */
static int take_option(int argc, char *const argv[], int *at, struct invocation *inv, json_t **ret_error)
{
	const char *word = argv[*at], *equals = strchr(word, '=');
	int option = find_option(word, equals ? (size_t)(equals - word) : strlen(word));
	const struct option_spec *spec;
	const char *value = "";

	if (option < 0)
		return unknown_option(word, ret_error);
	spec = &option_specs[option];
	if (spec->value) {
		if (!equals && *at + 1 >= argc)
			return refuse(ret_error, &(struct fault){.message = "the option needs a value",
								 .key = spec->name,
								 .accepted = spec->help});
		value = equals ? equals + 1 : argv[++*at];
	} else if (equals) {
		return refuse(ret_error, &(struct fault){.message = "the option is a switch and takes no value",
							 .key = spec->name,
							 .value = equals + 1,
							 .accepted = "no value"});
	}
	if (inv->values[option] && spec->value)
		return refuse(ret_error, &(struct fault){.message = "the option is given twice",
							 .key = spec->name,
							 .value = value,
							 .accepted = "one value"});
	inv->values[option] = value;
	return 0;
}

/* Words and options of a line, wherever they stand; "--" ends the options. */
static int split(int argc, char *const argv[], struct invocation *inv, struct words *words, json_t **ret_error)
{
	bool options = true;
	int err;

	for (int i = 1; i < argc; i++) {
		if (options && !strcmp(argv[i], "--")) {
			options = false;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			err = take_option(argc, argv, &i, inv, ret_error);
			if (err)
				return err;
		} else if (words->count == ARGS_MAX) {
			return refuse(ret_error, &(struct fault){.message = "too many words",
								 .value = argv[i],
								 .accepted = "at most 16"});
		} else {
			words->word[words->count++] = argv[i];
		}
	}
	return 0;
}

/* --- command ------------------------------------------------------------------------------------------------------- */

/* How many words of the line the command's path takes, 0 if it is another command. */
static int path_words(const struct command *command, const struct words *words)
{
	const char *path = command->path;
	int used = 0;

	while (*path) {
		size_t len = strcspn(path, " ");

		if (used == words->count || strlen(words->word[used]) != len || memcmp(words->word[used], path, len))
			return 0;
		used++;
		path += len + (path[len] == ' ');
	}
	return used;
}

static int unknown_command(const struct words *words, json_t **ret_error)
{
	char given[128], hint[256] = "sluicectl --help lists the commands";
	const char *first = words->word[0], *nearest = NULL;
	unsigned best = 99;
	size_t len = 0, first_len = strlen(first);

	snprintf(given, sizeof(given), "%s%s%s", first, words->count > 1 ? " " : "",
		 words->count > 1 ? words->word[1] : "");
	/* The first word of a group: say which words may follow. */
	for (size_t i = 0; i < command_count; i++) {
		const char *path = commands[i].path;

		if (!strncmp(path, first, first_len) && path[first_len] == ' ')
			len += snprintf(hint + len, sizeof(hint) - len, "%s%s", len ? ", " : "one of: ", path);
		keep_nearest(given, path, &best, &nearest);
		keep_nearest(first, path, &best, &nearest);
	}
	if (!len && nearest)
		snprintf(hint, sizeof(hint), "did you mean '%s'?", nearest);
	return refuse(ret_error,
		      &(struct fault){.message = len ? "the command is not complete" : "there is no such command",
				      .value = given,
				      .hint = hint});
}

static const struct command *find_command(const struct words *words, int *ret_used)
{
	for (size_t i = 0; i < command_count; i++) {
		*ret_used = path_words(&commands[i], words);
		if (*ret_used)
			return &commands[i];
	}
	return NULL;
}

/* --- values -------------------------------------------------------------------------------------------------------- */

static const struct positional *positional_at(const struct command *command, int index)
{
	for (size_t i = 0; i < sizeof(command->args) / sizeof(command->args[0]) && command->args[i].name; i++) {
		if ((int)i == index || command->args[i].many)
			return &command->args[i];
	}
	return NULL;
}

/* Cuts `text` at its first "; " after `from`; returns what stands behind it, or NULL. */
static char *cut(char *text, char *from)
{
	char *end = text ? strstr(from, "; ") : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	return end + 2;
}

/*
 * The parsers of config.h speak in sentences: "VALUE" is this; that is accepted; do something else. The value itself
 * may hold a semicolon.
 */
static int refuse_sentence(const char *path, const char *key, const char *value, char *why, json_t **ret_error)
{
	static const char suffix[] = " is accepted";
	char *quoted = strstr(why, value), message[WHY + 160];
	char *accepted = cut(why, quoted ? quoted + strlen(value) : why), *hint = cut(accepted, accepted);
	size_t len = accepted ? strlen(accepted) : 0;

	if (len > strlen(suffix) && !strcmp(accepted + len - strlen(suffix), suffix))
		accepted[len - strlen(suffix)] = '\0';
	snprintf(message, sizeof(message), "%s: %s", path, why);
	return refuse(ret_error, &(struct fault){message, key, value, accepted, hint});
}

static int check(const struct command *command, enum kind kind, const char *name, const char *value, json_t **ret_error)
{
	char why[WHY] = "", message[WHY + 160], key[64];
	const char *equals = kind == KIND_LIMIT ? strchr(value, '=') : NULL;
	bool sentence;

	if (!check_value(kind, value, &sentence, why, sizeof(why)))
		return 0;
	if (equals) { /* a limit is a key of its own: source.rate=0/s is the value 0/s of source.rate */
		snprintf(key, sizeof(key), "%.*s", (int)(equals - value), value);
		return refuse_sentence(command->path, key, equals + 1, why, ret_error);
	}
	if (sentence)
		return refuse_sentence(command->path, name, value, why, ret_error);
	snprintf(message, sizeof(message), "%s: the value of %s is not accepted", command->path, name);
	return refuse(ret_error, &(struct fault){message, name, value, why, NULL});
}

static int check_args(struct invocation *inv, json_t **ret_error)
{
	const struct command *command = inv->command;
	const struct positional *arg;
	char message[160];
	int err;

	for (int i = 0; i < inv->arg_count; i++) {
		arg = positional_at(command, i);
		if (!arg) {
			snprintf(message, sizeof(message), "%s takes no more words", command->path);
			return refuse(ret_error, &(struct fault){.message = message, .value = inv->args[i]});
		}
		err = check(command, arg->kind, arg->name, inv->args[i], ret_error);
		if (err)
			return err;
	}
	arg = positional_at(command, inv->arg_count);
	if (arg && !arg->optional && (!arg->many || inv->arg_count < (int)(arg - command->args) + 1)) {
		snprintf(message, sizeof(message), "%s needs %s", command->path, arg->name);
		return refuse(ret_error,
			      &(struct fault){.message = message, .key = arg->name, .hint = command->examples[0]});
	}
	return 0;
}

static int check_options(struct invocation *inv, json_t **ret_error)
{
	const struct command *command = inv->command;
	char message[160];
	int err;

	for (int i = 0; i < OPTION_COUNT; i++) {
		const struct option_spec *spec = &option_specs[i];

		if (!inv->values[i]) {
			if (!(command->required & 1u << i))
				continue;
			snprintf(message, sizeof(message), "%s needs %s", command->path, spec->name);
			return refuse(ret_error, &(struct fault){.message = message,
								 .key = spec->name,
								 .accepted = spec->help,
								 .hint = command->examples[0]});
		}
		if (!((command->options | GLOBAL_OPTIONS) & 1u << i)) {
			snprintf(message, sizeof(message), "%s does not take this option", command->path);
			return refuse(ret_error, &(struct fault){.message = message,
								 .key = spec->name,
								 .value = spec->value ? inv->values[i] : NULL});
		}
		err = check(command, spec->kind, spec->name, inv->values[i], ret_error);
		if (err)
			return err;
	}
	return 0;
}

static int check_color(const struct invocation *inv, json_t **ret_error)
{
	const char *when = inv->values[OPT_color];

	if (!when || !strcmp(when, "auto") || !strcmp(when, "always") || !strcmp(when, "never"))
		return 0;
	return refuse(ret_error, &(struct fault){"the value of --color is not accepted", "--color", when,
						 "auto, always, never", NULL});
}

int parse_command_line(int argc, char *const argv[], struct invocation *inv, json_t **ret_error)
{
	struct words words = {0};
	int err, used;

	*inv = (struct invocation){0};
	err = split(argc, argv, inv, &words, ret_error);
	if (!err)
		err = check_color(inv, ret_error);
	if (err)
		return err;
	inv->wants_help = inv->values[OPT_help] != NULL;
	if (!words.count || inv->wants_help) {
		memcpy(inv->topic, words.word, sizeof(inv->topic));
		inv->topic_count = words.count;
		if (words.count || inv->wants_help || inv->values[OPT_version] || inv->values[OPT_man] ||
		    inv->values[OPT_man_config])
			return 0;
		return refuse(ret_error, &(struct fault){.message = "no command given",
							 .hint = "sluicectl --help lists the commands"});
	}
	inv->command = find_command(&words, &used);
	if (!inv->command)
		return unknown_command(&words, ret_error);
	inv->arg_count = words.count - used;
	memcpy(inv->args, words.word + used, inv->arg_count * sizeof(inv->args[0]));
	err = check_args(inv, ret_error);
	return err ? err : check_options(inv, ret_error);
}
