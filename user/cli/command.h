/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * command.h: one table of commands and one of options. Parsing, dispatch, --help, the man page's section and the
 * HTTP requests all come from them (commands.c); nothing about a command is written down twice.
 */
#ifndef SLUICE_CLI_COMMAND_H
#define SLUICE_CLI_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit statuses, as --help lists them. */
enum status {
	STATUS_OK = 0,
	STATUS_REFUSED = 1,
	STATUS_USAGE = 2,
	STATUS_TIME_LIMIT = 3,
	STATUS_UNREACHABLE = 4,
};

/* What a value must be: checked by the parsers of user/control, so that the bounds are the daemon's. */
enum kind {
	KIND_NONE, /* a switch */
	KIND_TEXT, /* as it is */
	KIND_NAME, /* service */
	KIND_CIDR,
	KIND_ADDRESS,
	KIND_LIMIT, /* key=value of limits set */
	KIND_RATE,
	KIND_COUNT, /* 1 to COUNT_MAX */
	KIND_ID,
	KIND_FOR,
	KIND_REASON,
	KIND_FILE,
	KIND_EVENTS, /* breaker or refusal */
	KIND_SEQUENCE, /* of an event */
};
#define COUNT_MAX 1000 /* rows of a list */

enum option {
	OPT_socket,
	OPT_json,
	OPT_color,
	OPT_help,
	OPT_version,
	OPT_man,
	OPT_man_config,
	OPT_for,
	OPT_reason,
	OPT_service,
	OPT_limit,
	OPT_ceiling,
	OPT_all_packets,
	OPT_force,
	OPT_effective,
	OPT_config,
	OPT_pins,
	OPT_follow,
	OPT_kind,
	OPT_after,
	OPTION_COUNT
};
#define BIT(option) (1u << OPT_##option)
#define GLOBAL_OPTIONS (BIT(socket) | BIT(json) | BIT(color) | BIT(help) | BIT(version) | BIT(man) | BIT(man_config))

struct option_spec {
	const char *name; /* "--for" */
	const char *value; /* "TIME"; NULL for a switch */
	enum kind kind;
	bool hidden;
	const char *help;
};
extern const struct option_spec option_specs[OPTION_COUNT];

struct positional {
	const char *name; /* "NAME"; NULL ends the list */
	enum kind kind;
	bool optional;
	bool many; /* one or more, last */
};

struct invocation;

/* A member of the request: of its body, or of its query where the request has no body. */
struct field {
	const char *name; /* NULL ends the list */
	enum { FROM_CONSTANT, FROM_ARGUMENT, FROM_OPTION, FROM_SWITCH, FROM_LIMITS } from;
	int index; /* positional, or enum option */
	const char *constant;
};

struct command {
	const char *path; /* "limits set" */
	struct positional args[3];
	unsigned options; /* BIT(x) it takes beside the global ones */
	unsigned required; /* of these, must be given */
	const char *summary; /* one line */
	const char *text; /* more, for its own help; may be NULL */
	const char *examples[4];
	const char *method, *target; /* "/v1/services/{0}": {n} is a positional argument */
	struct field fields[8];
	/* Prints the answer for a person; never called with --json. */
	void (*show)(const struct invocation *inv, const json_t *answer);
	/* Instead of one request: commands that do more, or work without the daemon. */
	int (*run)(const struct invocation *inv);
};
extern const struct command commands[];
extern const size_t command_count;

#define ARGS_MAX 16

/* A command line that was understood. */
struct invocation {
	const struct command *command; /* NULL: only --help, --version, --man */
	const char *args[ARGS_MAX];
	int arg_count;
	const char *values[OPTION_COUNT]; /* "" for a switch that is on; NULL: absent */
	const char *topic[ARGS_MAX]; /* words after `help` */
	int topic_count;
	bool wants_help;
};

/* parse.c: 0, or -EINVAL with what is wrong as {"error": ...} in `*ret_error`. */
int parse_command_line(int argc, char *const argv[], struct invocation *inv, json_t **ret_error);

/* help.c */
void print_help(FILE *out);
void print_command_help(FILE *out, const struct command *command);
/* Help of every command that begins with the words; false if none does. */
bool print_topic_help(FILE *out, const char *const *words, int count);
void print_man_section(FILE *out);
void print_man_config(FILE *out); /* keys of sluice.yaml(5) */
void print_usage_line(FILE *out, const struct command *command);

/* request.c: the request of a command line. Both are to be freed. */
int build_request(const struct invocation *inv, char **ret_target, json_t **ret_body);
int run_request(const struct invocation *inv); /* sends, shows, returns the exit status */

/* The commands that are more than one request. */
int run_drain(const struct invocation *inv);
int run_detach(const struct invocation *inv);
int run_config_check(const struct invocation *inv);
int run_breaker(const struct invocation *inv);
int run_events(const struct invocation *inv);
int run_doctor(const struct invocation *inv);
int run_version(const struct invocation *inv);
int run_help(const struct invocation *inv);

/* Renderers. */
void show_status(const struct invocation *inv, const json_t *answer);
void show_services(const struct invocation *inv, const json_t *answer);
void show_service(const struct invocation *inv, const json_t *answer);
void show_sources(const struct invocation *inv, const json_t *answer);
void show_source(const struct invocation *inv, const json_t *answer);
void show_limits(const struct invocation *inv, const json_t *answer);
void show_order(const struct invocation *inv, const json_t *answer);
void show_trust(const struct invocation *inv, const json_t *answer);
void show_overrides(const struct invocation *inv, const json_t *answer);
void show_released(const struct invocation *inv, const json_t *answer);
void show_undrain(const struct invocation *inv, const json_t *answer);
void show_loaded(const struct invocation *inv, const json_t *answer);
void show_diff(const struct invocation *inv, const json_t *answer);

#endif /* SLUICE_CLI_COMMAND_H */
