// SPDX-License-Identifier: GPL-2.0-only
/* test_cli.c: sluicectl's tables, parser, requests and texts, without a daemon. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "maps/outcomes.h"
#include "user/cli/breaker.h"
#include "user/cli/command.h"
#include "user/cli/event_text.h"
#include "user/cli/fault.h"
#include "user/cli/http.h"
#include "user/cli/output.h"
#include "user/cli/signals.h"
#include "user/control/order_text.h"
#include "user/decide/breaker_transitions.h"

#define WORDS 24

/* --- helpers ----------------------------------------------------------------------------------------------------- */

/* Splits like a shell: blanks, 'single quotes', up to a pipe. */
static int split_line(char *line, char *argv[WORDS])
{
	int argc = 0;

	while (*line && argc < WORDS - 1) {
		char *to = argv[argc] = line;
		bool quoted = false;

		if (*line == '|')
			break;
		for (; *line && (quoted || *line != ' '); line++) {
			if (*line == '\'')
				quoted = !quoted;
			else
				*to++ = *line;
		}
		argc++;
		if (*line)
			line++;
		*to = '\0';
	}
	argv[argc] = NULL;
	return argc;
}

static int parse_line(const char *text, struct invocation *inv, char **ret_message)
{
	static char line[16384]; /* the invocation points into it */
	char *argv[WORDS];
	json_t *error = NULL;
	int argc, err;

	*ret_message = NULL;
	snprintf(line, sizeof(line), "%s", text);
	argc = split_line(line, argv);
	err = parse_command_line(argc, argv, inv, &error);
	if (err) {
		size_t len;
		FILE *out = open_memstream(ret_message, &len);

		print_answer_fault(out, error, 0);
		fclose(out);
	}
	json_decref(error);
	return err;
}

static void accept_line(const char *text, struct invocation *inv)
{
	char *message;

	if (parse_line(text, inv, &message))
		fail_msg("%s: %s", text, message);
}

static char *whole_help(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	print(out);
	fclose(out);
	return text;
}

/* What a renderer prints on stdout. */
static int stdout_copy = -1;
static FILE *capture_file;

static void capture_begin(void)
{
	fflush(stdout);
	capture_file = tmpfile();
	assert_non_null(capture_file);
	stdout_copy = dup(STDOUT_FILENO);
	dup2(fileno(capture_file), STDOUT_FILENO);
}

static char *capture_end(void)
{
	static char text[65536];
	size_t len;

	fflush(stdout);
	dup2(stdout_copy, STDOUT_FILENO);
	close(stdout_copy);
	rewind(capture_file);
	len = fread(text, 1, sizeof(text) - 1, capture_file);
	text[len] = '\0';
	fclose(capture_file);
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

static void assert_narrow(const char *text, size_t columns)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (len > columns)
			fail_msg("%zu columns: %.*s", len, (int)len, line);
		line += len + (line[len] == '\n');
	}
}

/* --- the tables -------------------------------------------------------------------------------------------------- */

static void test_table_is_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < command_count; i++) {
		const struct command *c = &commands[i];
		int args = 0;

		while (args < 3 && c->args[args].name)
			args++;
		assert_non_null(c->summary);
		assert_true(c->run || c->show);
		assert_true(c->run || (c->method && c->target));
		assert_int_equal(c->required & ~c->options, 0);
		assert_int_equal(c->options & GLOBAL_OPTIONS, 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(c->path, commands[j].path);
		for (const char *t = c->target ? strchr(c->target, '{') : NULL; t; t = strchr(t + 1, '{'))
			assert_in_range(t[1] - '0', 0, args - 1);
		for (const struct field *f = c->fields; f->name; f++) {
			if (f->from == FROM_ARGUMENT || f->from == FROM_LIMITS)
				assert_in_range(f->index, 0, args - 1);
			if (f->from == FROM_OPTION || f->from == FROM_SWITCH)
				assert_true(c->options & 1u << f->index);
		}
	}
}

/* An example that the parser refuses would be worse than none. */
static void test_examples_are_accepted(void **state)
{
	struct invocation inv;

	(void)state;
	for (size_t i = 0; i < command_count; i++) {
		for (int e = 0; e < 4 && commands[i].examples[e]; e++) {
			accept_line(commands[i].examples[e], &inv);
			assert_ptr_equal(inv.command, &commands[i]);
		}
	}
}

/* --- parsing ----------------------------------------------------------------------------------------------------- */

static void test_options_anywhere(void **state)
{
	static const char *const lines[] = {
		"sluicectl limits set web source.rate=5/s --for 10m --reason 'a b' --json",
		"sluicectl --json --reason 'a b' limits --for=10m set web source.rate=5/s",
		"sluicectl --reason='a b' --for 10m --json limits set -- web source.rate=5/s",
	};
	struct invocation inv;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		accept_line(lines[i], &inv);
		assert_string_equal(inv.command->path, "limits set");
		assert_int_equal(inv.arg_count, 2);
		assert_string_equal(inv.args[1], "source.rate=5/s");
		assert_string_equal(inv.values[OPT_for], "10m");
		assert_string_equal(inv.values[OPT_reason], "a b");
		assert_non_null(inv.values[OPT_json]);
	}
}

static void test_help_needs_no_complete_command(void **state)
{
	static const char *const lines[] = {"sluicectl --help", "sluicectl limits set --help", "sluicectl -h",
					    "sluicectl --help nonsense"};
	struct invocation inv;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		accept_line(lines[i], &inv);
		assert_null(inv.command);
		assert_true(inv.wants_help);
	}
}

/* Each refusal names what it is about, the value given and what is accepted (or what to do). */
static void test_bad_lines(void **state)
{
	static const struct {
		const char *line, *parts[4];
	} rows[] = {
		{"sluicectl", {"no command", "--help"}},
		{"sluicectl statsu", {"no such command", "statsu", "did you mean 'status'"}},
		{"sluicectl service", {"not complete", "service list", "service show"}},
		{"sluicectl --jsno status", {"no such option", "--jsno", "did you mean --json"}},
		{"sluicectl status --json=yes", {"switch", "--json", "yes", "no value"}},
		{"sluicectl status --socket", {"needs a value", "--socket"}},
		{"sluicectl status --socket a --socket b", {"given twice", "--socket", "b", "one value"}},
		{"sluicectl status --color blue", {"--color", "blue", "auto, always, never"}},
		{"sluicectl drain web --limit 3", {"drain does not take", "--limit", "3"}},
		{"sluicectl undrain web extra", {"no more words", "extra"}},
		{"sluicectl undrain", {"needs NAME", "sluicectl undrain web"}},
		{"sluicectl limits set web --reason x", {"needs KEY=VALUE"}},
		{"sluicectl limits set web total.rate=5/s", {"needs --reason", "1 to 500 bytes"}},
		{"sluicectl deny 192.0.2.0/24", {"needs --reason"}},
		/* values */
		{"sluicectl deny 192.0.2.0/33 --reason x", {"CIDR", "192.0.2.0/33", "0 to 32"}},
		{"sluicectl deny 192.0.2.256 --reason x", {"CIDR", "192.0.2.256", "accepted"}},
		{"sluicectl deny 192.0.2.1 --for 0s --reason x", {"--for", "0s", "1s to 8760h"}},
		{"sluicectl deny 192.0.2.1 --for -1h --reason x", {"--for", "-1h", "1s to 8760h"}},
		{"sluicectl deny 192.0.2.1 --for 10 --reason x", {"--for", "10", "with a unit"}},
		{"sluicectl deny 192.0.2.1 --for 100y --reason x", {"--for", "100y", "1s to 8760h"}},
		{"sluicectl deny 192.0.2.1 --for 87601h --reason x", {"--for", "87601h", "1s to 8760h"}},
		{"sluicectl deny 192.0.2.1 --for 99999999999999999999s --reason x", {"--for", "1s to 8760h"}},
		{"sluicectl deny 192.0.2.1 --reason ''", {"--reason", "1 to 500 bytes", "empty"}},
		{"sluicectl deny 192.0.2.1 --reason '   '", {"--reason", "1 to 500 bytes", "empty"}},
		{"sluicectl deny 192.0.2.1 --reason 'a\001b'", {"--reason", "a?b", "control character"}},
		{"sluicectl deny 192.0.2.1 --reason 'a\nb'", {"--reason", "a?b", "control character"}},
		{"sluicectl deny 192.0.2.1 --reason 'a\xff'", {"--reason", "a?", "not UTF-8"}},
		{"sluicectl allow 192.0.2.1 --ceiling 50 --reason x", {"--ceiling", "50", "unit"}},
		{"sluicectl allow 192.0.2.1 --ceiling 0/s --reason x", {"--ceiling", "0/s", "zero"}},
		{"sluicectl limits set web source.rate=0/s --reason x", {"source.rate", "0/s", "accepted"}},
		{"sluicectl limits set web source.rate=-1/s --reason x", {"source.rate", "-1/s", "accepted"}},
		{"sluicectl limits set web source.rate=20 --reason x", {"source.rate", "20", "unit"}},
		{"sluicectl limits set web total.burst=4294967296 --reason x",
		 {"total.burst", "4294967296", "accepted"}},
		{"sluicectl limits set web source.rat=2/s --reason x", {"source.rat", "KEY is source.rate"}},
		{"sluicectl limits set web source.rate --reason x", {"source.rate", "KEY=VALUE"}},
		{"sluicectl source top --limit 0", {"--limit", "0", "1 to 1000"}},
		{"sluicectl source top --limit 1001", {"--limit", "1001", "1 to 1000"}},
		{"sluicectl source show 192.0.2.0/24", {"ADDRESS", "192.0.2.0/24", "address"}},
		{"sluicectl source show example.org", {"ADDRESS", "example.org", "names are not looked up"}},
		{"sluicectl overrides release x", {"ID", "x", "overrides list"}},
		{"sluicectl service show a/b", {"NAME", "a/b", "service list"}},
		/* breaker and events */
		{"sluicectl breaker", {"not complete", "breaker open", "breaker close", "breaker auto"}},
		{"sluicectl breaker opne web", {"not complete", "breaker opne", "breaker open"}},
		{"sluicectl breaker open --reason x", {"needs NAME", "sluicectl breaker open web"}},
		{"sluicectl breaker open web", {"breaker open needs --reason", "1 to 500 bytes"}},
		{"sluicectl breaker close web --for 10m", {"breaker close needs --reason", "1 to 500 bytes"}},
		{"sluicectl breaker open web --for 10 --reason x", {"--for", "10", "with a unit", "1s to 8760h"}},
		{"sluicectl breaker open web --for 0s --reason x", {"--for", "0s", "1s to 8760h"}},
		{"sluicectl breaker auto web --for 10m", {"breaker auto does not take", "--for", "10m"}},
		{"sluicectl breaker open web api --reason x", {"no more words", "api"}},
		{"sluicectl events web", {"no more words", "web"}},
		{"sluicectl events --kind trip", {"--kind", "trip", "breaker, refusal"}},
		{"sluicectl events --after -1", {"--after", "-1", "number of an event"}},
		{"sluicectl events --after 9223372036854775808", {"--after", "number of an event"}},
		{"sluicectl events --follow=yes", {"switch", "--follow", "yes"}},
		{"sluicectl events --folow", {"no such option", "did you mean --follow"}},
	};
	struct invocation inv;
	char *message;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!parse_line(rows[i].line, &inv, &message))
			fail_msg("accepted: %s", rows[i].line);
		assert_non_null(message);
		assert_int_equal(strncmp(message, "sluicectl: ", 11), 0);
		for (int p = 0; p < 4 && rows[i].parts[p]; p++) {
			if (!strstr(message, rows[i].parts[p]))
				fail_msg("%s: no '%s' in: %s", rows[i].line, rows[i].parts[p], message);
		}
		free(message);
	}
}

/* With --json they are the members that the daemon's refusals have. */
static void test_bad_values_as_json(void **state)
{
	static const struct {
		const char *line, *key, *value, *accepted, *hint;
	} rows[] = {
		{"sluicectl limits set web source.rate=0 --reason x", "source.rate", "0",
		 "a rate (COUNT/s, /m, /h or /DURATION) from 1/24h to 100000000/s",
		 "to refuse use deny or drain, to end an override overrides release"},
		{"sluicectl limits set web source.burst=a;b --reason x", "source.burst", "a;b",
		 "a whole number without unit from 1 to 1000000", NULL},
		{"sluicectl deny 192.0.2.0/33 --reason x", "CIDR", "192.0.2.0/33", "a prefix length of 0 to 32", NULL},
		{"sluicectl source top --limit 0", "--limit", "0", "a whole number from 1 to 1000, without unit,",
		 NULL},
		{"sluicectl drain web --for 0", "--for", "0", "1s to 8760h (a year) with a unit, as in 90s, 10m, 2h",
		 NULL},
	};
	static char line[256];
	struct invocation inv;
	char *argv[WORDS];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *wanted[] = {rows[i].key, rows[i].value, rows[i].accepted, rows[i].hint};
		static const char *const members[] = {"key", "value", "accepted", "hint"};
		json_t *error = NULL;

		snprintf(line, sizeof(line), "%s", rows[i].line);
		assert_int_not_equal(parse_command_line(split_line(line, argv), argv, &inv, &error), 0);
		for (int m = 0; m < 4; m++) {
			const char *got =
				json_string_value(json_object_get(json_object_get(error, "error"), members[m]));

			if (wanted[m] ? !got || strcmp(got, wanted[m]) : got != NULL)
				fail_msg("%s: %s is '%s'", rows[i].line, members[m], got ? got : "absent");
		}
		json_decref(error);
	}
}

static void test_long_values_are_cut_in_messages(void **state)
{
	char line[10600] = "sluicectl deny 192.0.2.1 --reason ";
	struct invocation inv;
	char *message;
	size_t len = strlen(line);

	(void)state;
	memset(line + len, 'x', 10240);
	line[len + 10240] = '\0';
	assert_int_not_equal(parse_line(line, &inv, &message), 0);
	assert_has(message, "(10240 bytes)");
	assert_has(message, "1 to 500 bytes");
	assert_true(strlen(message) < 600);
	free(message);
}

static void test_reasons(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{"x", true},
		{"ticket 4711", true},
		{"Überlast \xe2\x82\xac", true},
		{"\xf0\x9f\x9a\xb0", true},
		{"", false},
		{" ", false},
		{"a\tb", false},
		{"a\x7f", false},
		{"\xc2\x85", false},
		{"\xc0\x80", false},
		{"\xed\xa0\x80", false},
		{"\xf4\x90\x80\x80", false},
		{"\xe2\x82", false},
		{"\x80", false},
		{"\xe0\x80\xaf", false},
	};
	char why[256], longest[REASON_MAX + 2];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(check_reason(rows[i].text, strlen(rows[i].text), why, sizeof(why)) == 0, rows[i].good);
	memset(longest, 'x', sizeof(longest));
	assert_int_equal(check_reason(longest, REASON_MAX, why, sizeof(why)), 0);
	assert_int_not_equal(check_reason(longest, REASON_MAX + 1, why, sizeof(why)), 0);
	assert_int_not_equal(check_reason("a\0b", 3, why, sizeof(why)), 0);
}

static void test_order_times(void **state)
{
	static const struct {
		const char *text;
		uint64_t s; /* 0: refused */
	} rows[] = {{"1s", 1},    {"90s", 90}, {"10m", 600}, {"2h", 7200}, {"168h", 604800}, {"8760h", 31536000},
		    {"8761h", 0}, {"7d", 0},   {"999ms", 0}, {"0", 0},     {"1", 0},         {"", 0},
		    {" 1s", 0},   {"1s ", 0},  {"1e3s", 0},  {"+1s", 0},   {"inf", 0}};
	char why[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = 42;
		int err = parse_order_time(rows[i].text, &ns, why, sizeof(why));

		if ((err == 0) != (rows[i].s != 0))
			fail_msg("'%s' gives %d", rows[i].text, err);
		assert_int_equal(ns, rows[i].s ? rows[i].s * 1000000000ULL : 42);
		if (err)
			assert_has(why, "1s to 8760h");
	}
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static void test_requests(void **state)
{
	static const struct {
		const char *line, *method, *target, *body;
	} rows[] = {
		{"sluicectl status", "GET", "/v1/status", NULL},
		{"sluicectl service show web", "GET", "/v1/services/web", NULL},
		{"sluicectl service show w%3b", "GET", "/v1/services/w%253b", NULL},
		{"sluicectl source top", "GET", "/v1/sources", NULL},
		{"sluicectl source top --service web --limit 5", "GET", "/v1/sources?service=web&limit=5", NULL},
		{"sluicectl source show 2001:db8::1 --service a&b", "GET", "/v1/sources/2001:db8::1?service=a%26b",
		 NULL},
		{"sluicectl limits set web source.rate=5/s total.concurrent=9 --for 10m --reason 'too much'", "POST",
		 "/v1/limits",
		 "{\"service\":\"web\",\"set\":{\"source.rate\":\"5/s\",\"total.concurrent\":\"9\"},\"for\":\"10m\","
		 "\"reason\":\"too much\"}"},
		{"sluicectl deny 192.0.2.0/24 --all-packets --reason x", "POST", "/v1/orders",
		 "{\"action\":\"deny\",\"cidr\":\"192.0.2.0/24\",\"all_packets\":true,\"reason\":\"x\"}"},
		{"sluicectl allow 192.0.2.1 --ceiling 50/s --reason x", "POST", "/v1/orders",
		 "{\"action\":\"allow\",\"cidr\":\"192.0.2.1\",\"ceiling\":\"50/s\",\"reason\":\"x\"}"},
		{"sluicectl trust list", "GET", "/v1/trust", NULL},
		{"sluicectl overrides list", "GET", "/v1/overrides", NULL},
		{"sluicectl overrides release 3", "DELETE", "/v1/overrides/3", NULL},
		{"sluicectl drain web --for 5s", "POST", "/v1/services/web/drain", "{}"},
		{"sluicectl undrain web", "POST", "/v1/services/web/undrain", "{}"},
		{"sluicectl config load", "POST", "/v1/config/load", "{}"},
		{"sluicectl config load /nowhere/x.yaml", "POST", "/v1/config/load", "{\"path\":\"/nowhere/x.yaml\"}"},
		{"sluicectl config diff", "GET", "/v1/config/diff", NULL},
		{"sluicectl breaker open web --for 10m --reason 'db is away'", "POST", "/v1/services/web/breaker",
		 "{\"order\":\"open\",\"for\":\"10m\",\"reason\":\"db is away\"}"},
		{"sluicectl breaker close w%3b --reason x", "POST", "/v1/services/w%253b/breaker",
		 "{\"order\":\"close\",\"reason\":\"x\"}"},
		{"sluicectl breaker auto web", "POST", "/v1/services/web/breaker", "{\"order\":\"auto\"}"},
	};
	struct invocation inv;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *target = NULL, *text;
		json_t *body = NULL;

		accept_line(rows[i].line, &inv);
		assert_string_equal(inv.command->method, rows[i].method);
		assert_int_equal(build_request(&inv, &target, &body), 0);
		assert_string_equal(target, rows[i].target);
		text = body ? json_dumps(body, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
		if (rows[i].body)
			assert_string_equal(text, rows[i].body);
		else
			assert_null(text);
		free(text);
		free(target);
		json_decref(body);
	}
}

static void test_nobody_answers(void **state)
{
	struct http_answer answer = {0};
	char why[256], path[300];

	(void)state;
	assert_int_equal(http_request("/nowhere/sluice.sock", "GET", "/v1/status", NULL, &answer, why, sizeof(why)),
			 -ENOTCONN);
	assert_has(why, "No such file");
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_not_equal(http_request(path, "GET", "/v1/status", NULL, &answer, why, sizeof(why)), 0);
	assert_null(answer.body);
}

/* --- help and manual --------------------------------------------------------------------------------------------- */

static void test_help_has_every_command(void **state)
{
	char *help = whole_help(print_help);

	(void)state;
	for (size_t i = 0; i < command_count; i++) {
		char line[128];

		snprintf(line, sizeof(line), "\n  %s", commands[i].path);
		assert_has(help, line);
		assert_has(help, commands[i].summary);
	}
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (GLOBAL_OPTIONS & 1u << i && !option_specs[i].hidden)
			assert_has(help, option_specs[i].help);
	}
	assert_null(strstr(help, "--man"));
	for (const char *s = "01234"; *s; s++) {
		char line[8] = {'\n', ' ', ' ', *s, ' ', ' ', 0};

		assert_has(help, line);
	}
	assert_narrow(help, 100);
	free(help);
}

static void test_help_of_a_command(void **state)
{
	static const char *const limits[] = {"limits"}, *set[] = {"limits", "set", "web"}, *none[] = {"nonsense"};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_true(print_topic_help(out, limits, 1));
	fflush(out);
	assert_has(text, "sluicectl limits set NAME KEY=VALUE... [--for TIME] --reason TEXT\n");
	assert_has(text, "source.rate, source.burst");
	assert_has(text, "example: sluicectl limits set web");
	assert_narrow(text, 100);
	assert_true(print_topic_help(out, set, 3));
	assert_false(print_topic_help(out, none, 1));
	fclose(out);
	free(text);
}

/* A page of the tree holds what its table says, word for word. */
static void page_holds(const char *name, void (*print)(FILE *out))
{
	char path[4096], *page, *section = whole_help(print);
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 64);
	char *end;
	FILE *in;

	assert_true(len > 0);
	path[len] = '\0';
	for (int up = 0; up < 3; up++) { /* build/unit/test_cli */
		end = strrchr(path, '/');
		assert_non_null(end);
		*end = '\0';
	}
	strcat(path, "/user/man/");
	strcat(path, name);
	in = fopen(path, "re");
	if (!in)
		fail_msg("%s is missing", path);
	page = calloc(1, 1 << 20);
	assert_true(fread(page, 1, (1 << 20) - 1, in) > 0);
	fclose(in);
	if (!strstr(page, section))
		fail_msg("%s differs from its table: scripts/man writes it anew", name);
	free(page);
	free(section);
}

static void test_man_pages_hold_the_tables(void **state)
{
	(void)state;
	page_holds("sluicectl.8", print_man_section);
	page_holds("sluice.yaml.5", print_man_config);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

static void test_figures(void **state)
{
	static const struct {
		double count;
		const char *text;
	} counts[] = {{0, "0"},           {99999, "99999"},    {100000, "100k"}, {999499, "999k"}, {999600, "1.00M"},
		      {1234567, "1.23M"}, {12345678, "12.3M"}, {5e9, "5.00G"},   {2e15, "2.00P"},  {9e18, "9000P"}};
	static const struct {
		double s;
		const char *text;
	} times[] = {{0, "0s"}, {59.4, "59s"}, {60, "1m 00s"}, {3599, "59m 59s"}, {3660, "1h 01m"}, {90000, "1d 01h"}};
	char buf[FIGURE];

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		assert_string_equal(count_text(counts[i].count, buf), counts[i].text);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		assert_string_equal(seconds_text(times[i].s, buf), times[i].text);
	assert_string_equal(percent_text(1, 0, buf), "0 %");
	assert_string_equal(percent_text(1, 300, buf), "0.3 %");
	assert_string_equal(percent_text(50, 100, buf), "50 %");
	assert_string_equal(milliseconds_text(NULL, buf), "-");
}

static json_t *fixture(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);

	if (!json)
		fail_msg("%s", error.text);
	return json;
}

static void test_status_text(void **state)
{
	json_t *answer = fixture(
		"{\"version\":\"0.1.0\",\"build_id\":\"00c0ffee\",\"abi\":{\"major\":1,\"minor\":0},\"uptime_s\":3725,"
		"\"pid\":812,\"config\":{\"path\":\"/etc/sluice/"
		"sluice.yaml\",\"snapshot\":7,\"last_reload_success\":false,"
		"\"last_reload_error\":\"sluice.yaml:3: unknown key\",\"loaded_at\":\"2026-01-02T03:04:05Z\"},"
		"\"interfaces\":[{\"name\":\"eth0\",\"mode\":\"generic\",\"program_id\":42,\"dispatcher\":false,"
		"\"why\":\"the driver refuses native mode: MTU 9000\"}],\"failsafe\":false,\"lease_ms_left\":2900,"
		"\"modes\":[\"cold_full\"],\"sockops\":{\"attached\":true},"
		"\"turns\":{\"attached\":false,\"why\":\"program id 7 tolerates no "
		"other\"},\"services\":[{\"name\":\"web\","
		"\"signal\":\"accept\",\"attempts\":1234567,\"admitted\":400000,\"refused\":{\"rate_limited\":834567},"
		"\"open_connections\":321,\"before_start_connections\":2,\"draining\":false,\"accept_queue\":{"
		"\"length\":12,"
		"\"limit\":511,\"head_age_ms\":14.2,\"listeners\":1,\"blind\":null},"
		"\"latency_ms\":{\"p50\":12.4,\"p95\":45,\"p99\":90,\"samples\":20},"
		"\"breaker\":{\"mode\":\"enforce\",\"state\":\"half_open\",\"rule\":\"wait_over\",\"generation\":3}},"
		"{\"name\":\"busy\",\"signal\":"
		"\"none\","
		"\"attempts\":0,\"admitted\":0,\"refused\":{},\"open_connections\":0,\"draining\":true,"
		"\"latency_ms\":{\"p50\":null,\"p95\":null,\"p99\":null,\"samples\":0},"
		"\"breaker\":{\"mode\":\"metrics\",\"state\":\"closed\",\"would\":\"open\"},\"accept_queue\":"
		"{\"length\":0,\"limit\":0,\"head_age_ms\":null,\"listeners\":0,\"blind\":\"no listener\\u0007\"}}]}");
	struct invocation inv = {.command = &commands[0]};
	char *text;

	(void)state;
	capture_begin();
	show_status(&inv, answer);
	text = capture_end();
	assert_has(text, "sluiced 0.1.0 (programs 00c0ffee), pid 812, up 1h 02m, map layout 1.0\n");
	assert_has(text, "turns       not attached: answers are not timed: program id 7 tolerates no other\n");
	assert_has(text, "the last reload failed, the old configuration holds: sluice.yaml:3: unknown key\n");
	assert_has(text, "lease       2.9 s left\n");
	assert_has(text, "degraded    cold_full\n");
	assert_has(text, "eth0       generic       42\n");
	assert_has(text, "eth0: the driver refuses native mode: MTU 9000\n");
	assert_has(text,
		   "service  attempts  admitted  refused  open   queue  head age   P50/P95  breaker     most by\n");
	assert_has(
		text,
		"web         1.23M      400k     835k   323  12/511     14 ms  12/45 ms  half-open   rate_limited\n");
	assert_has(text,
		   "busy            0         0        0     0       -         -         -  would open  draining\n");
	assert_has(text, "busy: the accept-queue gate is blind: no listener?\n");
	assert_null(strchr(text, '\033'));
	assert_narrow(text, 100);
	json_decref(answer);
}

static void test_lists_text(void **state)
{
	static const struct {
		void (*show)(const struct invocation *inv, const json_t *answer);
		const char *answer, *parts[3];
	} rows[] = {
		{show_sources,
		 "{\"sources\":[{\"address\":\"198.51.100.7\",\"service\":\"web\",\"attempts\":900,\"refused\":800,"
		 "\"established\":90,\"open\":3,\"good\":1,\"seen_ms_ago\":1200,\"tokens\":0.25,\"known\":true}],"
		 "\"scanned\":4096,\"complete\":false}",
		 {"198.51.100.7  web", "known-good", "cut short after 4096 entries"}},
		{show_sources,
		 "{\"sources\":[],\"scanned\":0,\"complete\":true}",
		 {"no source was seen more than once"}},
		{show_source,
		 "{\"address\":\"198.51.100.7\",\"key\":\"198.51.100.7/32\",\"services\":[{\"service\":\"web\","
		 "\"tokens\":3.5,\"rate\":\"20/s\",\"attempts\":9,\"refused\":0,\"open\":1,\"known\":false,"
		 "\"trust\":{\"action\":\"class\",\"cidr\":\"198.51.100.0/24\"},\"order\":null}]}",
		 {"198.51.100.7, counted as 198.51.100.7/32", "class 198.51.100.0/24"}},
		{show_trust,
		 "{\"trust\":[{\"cidr\":\"192.0.2.0/24\",\"action\":\"allow\",\"ceiling\":\"1000/s\","
		 "\"origin\":\"sluice.yaml:12\"}],\"orders\":[{\"cidr\":\"198.51.100.0/"
		 "24\",\"action\":\"deny\",\"id\":3,"
		 "\"origin\":\"order\"}],\"management\":{\"ports\":[22],\"cidrs\":[\"10.0.0.0/8\"]}}",
		 {"198.51.100.0/24  deny", "sluice.yaml:12", "ports 22, prefixes 10.0.0.0/8"}},
		{show_overrides,
		 "{\"overrides\":[{\"id\":3,\"kind\":\"limits\",\"service\":\"web\",\"values\":{\"source.rate\":\"5/"
		 "s\"},"
		 "\"reason\":\"scraper\",\"by_uid\":0,\"set_at\":\"2026-01-02T03:04:05Z\",\"until\":null,"
		 "\"seconds_left\":null}]}",
		 {"source.rate=5/s", "no end", "scraper"}},
		{show_overrides, "{\"overrides\":[]}", {"no overrides"}},
		{show_diff, "{\"diff\":[{\"key\":\"a.b\",\"running\":\"1/s\",\"file\":null}]}", {"a.b  1/s      -"}},
		{show_diff, "{\"diff\":[]}", {"no difference"}},
		{show_loaded, "{\"snapshot\":8,\"changed\":true}", {"in force: snapshot 8"}},
		{show_loaded, "{\"snapshot\":8,\"changed\":false}", {"unchanged"}},
	};
	struct invocation inv = {.command = &commands[0]};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *answer = fixture(rows[i].answer);
		char *text;

		capture_begin();
		rows[i].show(&inv, answer);
		text = capture_end();
		for (int p = 0; p < 3 && rows[i].parts[p]; p++)
			assert_has(text, rows[i].parts[p]);
		assert_narrow(text, 100);
		json_decref(answer);
	}
}

/* --- breaker and signals ----------------------------------------------------------------------------------------- */

#define TALLY(outcomes, failures, rate)                                                                          \
	"{\"outcomes\":" #outcomes ",\"failures\":" #failures ",\"failure_rate\":" #rate ",\"slow_rate\":" #rate \
	",\"active_sources\":20,\"failing_sources\":12,\"discounted\":0}"
#define FIGURES(window, fast)                                                                              \
	"{\"window\":" window ",\"fast\":" fast ",\"risk\":0.87,\"risk_error\":0.9,\"risk_latency\":0.82," \
	"\"p95_ms\":420,\"base_ms\":200,\"owed\":57,\"silence_ms\":6100,\"run\":6}"
#define PROBES                                                                                      \
	"{\"limit\":5,\"reserved\":2,\"tickets\":1,\"outstanding\":1,\"succeeded\":2,\"failed\":0," \
	"\"granted\":12,\"returned\":3,\"established\":9,\"neutral\":1,\"invited\":4}"
#define MARKS                                                                                                  \
	"{\"failure_rate\":\"50%\",\"consecutive\":5,\"slow_rate\":\"80%\",\"silent\":\"5s\",\"open_at\":0.8," \
	"\"close_after\":3}"
#define SERVICE(breaker)                                                                                      \
	"{\"name\":\"web\",\"policy\":{\"breaker\":" MARKS "},\"overrides\":[{\"id\":4,\"kind\":\"breaker\"," \
	"\"reason\":\"restore\",\"seconds_left\":90}],\"breaker\":" breaker "}"
#define TRIP(rule)                                                 \
	"[{\"rule\":\"silent\",\"to\":\"open\"},{\"rule\":\"" rule \
	"\",\"to\":\"open\",\"context\":{\"service\":" FIGURES(    \
		TALLY(40, 30, 0.75), TALLY(100, 100, 1)) "}},{\"rule\":\"wait_over\",\"to\":\"half_open\"}]"

static char *sentence_of(const char *service_text, const char *events_text)
{
	json_t *service = fixture(service_text), *events = events_text ? fixture(events_text) : NULL;
	char *text;

	capture_begin();
	print_breaker_sentence(service, events);
	text = capture_end();
	json_decref(service);
	json_decref(events);
	return text;
}

/* The sentence says the state, the rule, its figures and what comes next; each row is one state. */
static void test_c88_breaker_sentences(void **state)
{
	static const struct {
		const char *service, *events, *parts[5];
	} rows[] = {
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"fast\",\"tripped_by\":\"fast\","
			 "\"since_s\":3,\"open_left_ms\":800}"),
		 TRIP("fast"),
		 {"breaker OPEN since 3.0 s: fast rule, 100 of 100 newest outcomes failed (100 %, opens at 50%) from "
		  "12 of 20 sources, probes in 800 ms; every new connection is refused as circuit_open.\n"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"probe_failed\",\"tripped_by\":"
			 "\"long\",\"since_s\":75,\"held_by\":\"db\",\"open_left_ms\":0}"),
		 TRIP("long"),
		 {"OPEN since 1m 15s: a probe failed; tripped by long rule, 30 of 40 outcomes of the window failed (75 "
		  "%",
		  "probes wait for db"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"consecutive\",\"tripped_by\":"
			 "\"consecutive\",\"since_s\":1,\"open_left_ms\":800}"),
		 TRIP("consecutive"),
		 {"consecutive rule, 6 failures in a row and no success, opens at 5, probes"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"slow\",\"tripped_by\":\"slow\","
			 "\"since_s\":1,\"open_left_ms\":800}"),
		 TRIP("slow"),
		 {"slow rule, 75 % of 40 outcomes were slow, opens at 80%"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"silent\",\"tripped_by\":"
			 "\"silent\",\"since_s\":1,\"open_left_ms\":800}"),
		 TRIP("silent"),
		 {"silent rule, no answer for 6.1 s and 57 owed, opens at 5s"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"risk\",\"tripped_by\":\"risk\","
			 "\"since_s\":1,\"open_left_ms\":800}"),
		 TRIP("risk"),
		 {"risk rule, risk 0.87, opens at 0.8: errors 0.90, latency 0.82 (P95 420 ms, healthy 200 ms)"}},
		/* another daemon's list lacks the trip: the rule alone */
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"open\",\"rule\":\"fast\",\"tripped_by\":\"fast\","
			 "\"since_s\":3,\"open_left_ms\":800}"),
		 NULL,
		 {"breaker OPEN since 3.0 s: fast rule, probes in 800 ms; every"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"half_open\",\"rule\":\"wait_over\",\"tripped_by\":"
			 "\"fast\",\"since_s\":1.2,\"open_left_ms\":null,\"probes\":" PROBES "}"),
		 TRIP("fast"),
		 {"breaker HALF-OPEN since 1.2 s: its open time is over; tripped by fast rule, 100 of 100",
		  "2 probes succeeded of the 3 that close it, 2 under way, at most 5; all others are refused"}},
		{SERVICE("{\"mode\":\"metrics\",\"state\":\"closed\",\"would\":\"open\",\"rule\":\"fast\","
			 "\"tripped_by\":\"fast\",\"since_s\":3,\"open_left_ms\":800}"),
		 TRIP("fast"),
		 {"breaker would be OPEN since 3.0 s: fast rule, 100 of 100",
		  "judged again in 800 ms; metrics-only, so it "
		  "refuses nothing"}},
		{SERVICE("{\"mode\":\"metrics\",\"state\":\"closed\",\"would\":\"closed\",\"rule\":\"none\","
			 "\"since_s\":3,\"figures\":" FIGURES(TALLY(420, 3, 0.0071), TALLY(100, 0, 0)) "}"),
		 NULL,
		 {"breaker closed since 3.0 s: 3 of 420 outcomes of the window failed (0.7 %, opens at 50%)",
		  "metrics-only, so it refuses nothing"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"closed\",\"rule\":\"none\",\"since_s\":3,\"ramp\":null,"
			 "\"figures\":{\"window\":" TALLY(0, 0, null) "}}"),
		 NULL,
		 {"breaker closed since 3.0 s: no outcome in its window.\n"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"closed\",\"rule\":\"probes_succeeded\",\"since_s\":2,"
			 "\"ramp\":{\"share\":0.2,\"rate\":40.5},\"figures\":null}"),
		 NULL,
		 {"breaker closed since 2.0 s: its probes succeeded, and ramps: 20 % of the healthy rate, 40.5/s, "
		  "are"}},
		{SERVICE("{\"mode\":\"enforce\",\"state\":\"forced_open\",\"rule\":\"order_open\",\"since_s\":9}"),
		 NULL,
		 {"breaker FORCED OPEN since 9.0 s: override 4, restore, 1m 30s left; every new connection is refused",
		  "until `sluicectl breaker auto web`.\n"}},
		{SERVICE("{\"mode\":\"metrics\",\"state\":\"forced_closed\",\"would\":\"forced_closed\","
			 "\"since_s\":9}"),
		 NULL,
		 {"breaker FORCED CLOSED since 9.0 s: override 4", "it admits even while the service is broken"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = sentence_of(rows[i].service, rows[i].events);

		for (int p = 0; p < 5 && rows[i].parts[p]; p++)
			assert_has(text, rows[i].parts[p]);
		assert_true(strlen(text) > 2 && strchr(text, '\n') == text + strlen(text) - 1);
		assert_null(strstr(text, "-1"));
		assert_null(strstr(text, "nan"));
	}
}

/* Every state and rule that there is has words of its own, and every trip rule figures. */
static void test_every_rule_and_state_has_words(void **state)
{
	static const struct {
		const char *name;
		bool trips;
	} rules[] = {
#define X(name, trips, text) {#name, trips},
		BREAKER_RULES(X)
#undef X
	};
	static const char *const states[] = {
#define X(name) #name,
		BREAKER_STATES(X)
#undef X
	};
	json_t *figures = fixture(FIGURES(TALLY(40, 30, 0.75), TALLY(100, 100, 1)));

	(void)state;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);

		print_rule_figures(out, rules[i].name, figures, NULL);
		fclose(out);
		if ((len > 0) != rules[i].trips || !strcmp(rule_words(rules[i].name), rules[i].name))
			fail_msg("%s: '%s', '%s'", rules[i].name, rule_words(rules[i].name), text);
		free(text);
	}
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		json_t *breaker = json_pack("{s:s, s:s}", "mode", "enforce", "state", states[i]);
		char line[128];

		if (strcmp(states[i], "closed") != 0)
			assert_true(strcmp(breaker_word(breaker), states[i]) != 0);
		snprintf(line, sizeof(line), "{\"breaker\":{\"mode\":\"enforce\",\"state\":\"%s\"}}", states[i]);
		assert_int_equal(strncmp(sentence_of(line, NULL), "breaker ", 8), 0);
		json_decref(breaker);
	}
	json_decref(figures);
}

static void test_breaker_words(void **state)
{
	static const struct {
		const char *breaker, *word;
		bool acts;
	} rows[] = {
		{"{\"mode\":\"enforce\",\"state\":\"closed\"}", "closed", false},
		{"{\"mode\":\"enforce\",\"state\":\"closed\",\"ramp\":{\"share\":0.1,\"rate\":1}}", "ramp", true},
		{"{\"mode\":\"enforce\",\"state\":\"open\"}", "OPEN", true},
		{"{\"mode\":\"enforce\",\"state\":\"half_open\"}", "half-open", true},
		{"{\"mode\":\"enforce\",\"state\":\"forced_open\"}", "FORCED OPEN", true},
		{"{\"mode\":\"metrics\",\"state\":\"forced_closed\"}", "forced closed", true},
		{"{\"mode\":\"metrics\",\"state\":\"closed\"}", "metrics", false},
		{"{\"mode\":\"metrics\",\"state\":\"open\"}", "would open", true},
		{"{\"mode\":\"metrics\",\"state\":\"closed\",\"would\":\"half_open\"}", "would probe", true},
		{"{}", "", false},
		{"{\"state\":\"later\"}", "later", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *breaker = fixture(rows[i].breaker);

		assert_string_equal(breaker_word(breaker), rows[i].word);
		assert_int_equal(breaker_acts(breaker), rows[i].acts);
		json_decref(breaker);
	}
}

static void test_breaker_facts_text(void **state)
{
	json_t *service = fixture(
		SERVICE("{\"mode\":\"enforce\",\"state\":\"half_open\",\"generation\":7,\"openings\":2,\"trips\":"
			"{\"long\":1,\"fast\":2,\"slow\":0},\"probes\":" PROBES
			",\"figures\":" FIGURES(TALLY(40, 0, 0), TALLY(0, 0, null)) "}"));
	char *text;

	(void)state;
	capture_begin();
	print_breaker_facts(service);
	text = capture_end();
	assert_has(text, "breaker     enforce, generation 7, openings in a row: 2; trips: long 1, fast 2\n");
	assert_has(text, "window      0 of 40 outcomes failed (0 %)");
	assert_has(text, "newest      0 of 0 outcomes failed (-)");
	assert_has(text, "risk        risk 0.87");
	assert_has(text, "at most 5, 2 of them for known-good sources; tickets 1, outstanding 1,");
	assert_has(text, "granted 12, returned 3, established 9,");
	assert_narrow(text, 100);
	json_decref(service);
}

static void test_outcomes_text(void **state)
{
	json_t *service =
		fixture("{\"outcomes\":{\"success\":420,\"failure\":3,\"neutral\":17,\"by_kind\":{\"answered\":410,"
			"\"slow\":10,\"reset\":3,\"http_5xx\":0,\"gave_up\":17},\"under_pressure\":{\"reset\":2},"
			"\"other_generation\":{}}}");
	char *text, *answered;

	(void)state;
	capture_begin();
	print_outcomes(service);
	text = capture_end();
	assert_has(text, "outcomes    success 420, failure 3, neutral 17\n");
	assert_has(text, "  reset                  3  RST by the service, which had read everything");
	assert_has(text, "under pressure, which is no affair of the breaker: reset 2\n");
	assert_null(strstr(text, "http_5xx"));
	assert_null(strstr(text, "last change"));
	answered = strstr(text, "answered");
	assert_true(answered && answered < strstr(text, "gave_up"));
	assert_narrow(text, 100);
	json_decref(service);
}

/* Every kind of the table is printed with its meaning, and fits. */
static void test_every_outcome_is_shown(void **state)
{
	static const char *const rows[][2] = {
#define X(name, class, text) {#name, text},
		SLC_OUTCOMES(X)
#undef X
	};
	json_t *service = json_pack("{s:{s:{}}}", "outcomes", "by_kind");
	json_t *by_kind = json_object_get(json_object_get(service, "outcomes"), "by_kind");
	char *text;

	(void)state;
	for (size_t i = 0; i < SLC_OUTCOME_COUNT; i++)
		json_object_set_new(by_kind, rows[i][0], json_integer(12345678));
	capture_begin();
	print_outcomes(service);
	text = capture_end();
	for (size_t i = 0; i < SLC_OUTCOME_COUNT; i++) {
		assert_has(text, rows[i][0]);
		assert_has(text, rows[i][1]);
	}
	assert_narrow(text, 100);
	json_decref(service);
}

/* c89: without samples there is '-', never 0 or -1. */
static void test_c89_no_samples_are_a_dash(void **state)
{
#define NONE "{\"p50\":null,\"p95\":null,\"p99\":null,\"samples\":0}"
	json_t *service = fixture(
		"{\"signal\":\"inflight\",\"visibility\":\"bytes\",\"latency_ms\":" NONE ",\"latency_5m_ms\":{\"p50\":"
		"12.3,\"p95\":45.6,\"p99\":1234,\"samples\":9},\"rtt_ms\":" NONE ",\"turns\":{\"mode\":"
		"\"request-response\",\"in_flight\":3,\"begun\":9,\"ended\":6,\"young_share\":null},\"retransmits\":5,"
		"\"repeats\":0,\"health\":{\"60s\":{\"known\":false,\"percent\":null,\"error\":0,\"latency\":0,"
		"\"queue\":0,\"cpu\":0},\"5m\":{\"known\":true,\"percent\":97.2,\"error\":0.01,\"latency\":0,"
		"\"queue\":0.25,\"cpu\":0}}}");
	char *text, buf[FIGURE];

	(void)state;
	capture_begin();
	print_signals(service);
	text = capture_end();
	assert_has(text, "  answer, 60 s               -      -      -        0\n");
	assert_has(text, "  answer, 5 min          12 ms  46 ms  1.2 s        9\n");
	assert_has(text, "signal      inflight: turns in flight");
	assert_has(text, "visibility  bytes: when an answer begins");
	assert_has(text, "TLS and HTTP/2");
	assert_has(text, "turns       request-response, 3 in flight, 9 begun, 6 ended\n");
	assert_has(text, "segments sent again 5, SYNs sent again 0\n");
	assert_has(text, "health      60 s: unknown (too few outcomes); 5 min: 97 %, error 0.01, queue 0.25\n");
	assert_null(strstr(text, "-1"));
	assert_narrow(text, 100);
	assert_string_equal(answer_time(service, buf), "-");
	json_object_set(service, "latency_ms", json_object_get(service, "latency_5m_ms"));
	assert_string_equal(answer_time(service, buf), "12/46 ms");
	json_decref(service);
}

static char *event_line(const char *event_text)
{
	json_t *event = fixture(event_text);
	char *line = NULL;
	size_t len;
	FILE *out = open_memstream(&line, &len);

	print_event(out, event);
	fclose(out);
	json_decref(event);
	return line;
}

static void test_event_lines(void **state)
{
#define HEAD(kind) "{\"schema\":\"sluice." kind ".v1\",\"seq\":7,\"mono_ns\":1,\"wall\":\"2026-01-02T03:04:05.678Z\","
	static const struct {
		const char *event, *line;
	} rows[] = {
		{HEAD("breaker") "\"service\":\"web\",\"generation\":4,\"rule\":\"fast\",\"from\":\"closed\",\"to\":"
				 "\"open\","
				 "\"enforced\":true,\"open_for_ms\":1250,\"order\":null,\"context\":{"
				 "\"service\":" FIGURES(
					 TALLY(40, 30, 0.75),
					 TALLY(100, 57,
					       0.57)) ",\"depends_on\":[{\"service\":\"db\",\"state\":\"closed\","
						      "\"health\":97.4,\"gate\":85},{\"service\":\"auth\",\"state\":"
						      "\"open\",\"health\":null,\"gate\":85}]}}",
		 "2026-01-02T03:04:05.678Z  web  breaker closed -> open: fast rule, 57 of 100 newest outcomes failed "
		 "(57 %) "
		 "from 12 of 20 sources, probes in 1.2 s; db is closed, health 97 %; auth is open, health unknown\n"},
		{HEAD("breaker") "\"service\":\"web\",\"rule\":\"silent\",\"from\":\"closed\",\"to\":\"open\","
				 "\"enforced\":"
				 "false,\"open_for_ms\":null,\"context\":{\"service\":" FIGURES(TALLY(40, 30, 0.75),
												TALLY(0, 0, null)) "}}",
		 "2026-01-02T03:04:05.678Z  web  breaker closed -> open (metrics-only: nothing is refused): silent "
		 "rule, no "
		 "answer for 6.1 s and 57 owed\n"},
		{HEAD("breaker") "\"service\":\"web\",\"rule\":\"order_open\",\"from\":\"closed\",\"to\":\"forced_"
				 "open\","
				 "\"enforced\":true,\"order\":{\"id\":3,\"reason\":\"a\\u001b[2Jb\",\"by_uid\":1000}}",
		 "2026-01-02T03:04:05.678Z  web  breaker closed -> forced_open: ordered open, override 3 by uid 1000: "
		 "a?[2Jb\n"},
		{HEAD("refusal") "\"service\":\"web\",\"reason\":\"queue_wait\",\"dry\":false,\"class\":\"stranger\","
				 "\"source\":"
				 "\"2001:db8::7\",\"source_port\":4242,\"destination\":\"2001:db8::10\",\"destination_"
				 "port\":"
				 "443,\"backlog\":12,\"backlog_max\":511,\"predicted\":3,\"head_age_ms\":260}",
		 "2026-01-02T03:04:05.678Z  web  refused [2001:db8::7]:4242 -> [2001:db8::10]:443 as queue_wait, class "
		 "stranger, queue 12/511, 3 expected, head age 260 ms\n"},
		{HEAD("refusal") "\"service\":null,\"reason\":\"denied\",\"dry\":true,\"class\":\"low\",\"source\":"
				 "\"192.0.2.1\","
				 "\"source_port\":1,\"destination\":\"192.0.2.2\",\"destination_port\":2,\"backlog\":0,"
				 "\"backlog_max\":0}",
		 "2026-01-02T03:04:05.678Z  -  dry run: would refuse 192.0.2.1:1 -> 192.0.2.2:2 as denied, class "
		 "low\n"},
		{"{\"schema\":\"sluice.later.v3\",\"seq\":8,\"wall\":\"x\"}",
		 "x  -  {\"schema\":\"sluice.later.v3\",\"seq\":8,\"wall\":\"x\"}\n"},
		{"7", "  -  \n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *line = event_line(rows[i].event);

		assert_string_equal(line, rows[i].line);
		free(line);
	}
}

/* An answer that lacks members, or has others than expected, is shown as far as it goes; nothing crashes. */
static void test_odd_answers(void **state)
{
	static void (*const shows[])(const struct invocation *, const json_t *) = {
		show_status, show_services,  show_sources,  show_source,  show_limits, show_order,
		show_trust,  show_overrides, show_released, show_undrain, show_loaded, show_diff};
	static const char *const odd[] = {
		"{}",
		"[]",
		"{\"services\":7,\"sources\":\"x\",\"overrides\":{},\"diff\":null,\"trust\":[1,[]]}",
		"{\"services\":[1,null,{}],\"sources\":[{}],\"overrides\":[{\"values\":[1]}],\"diff\":[{}],\"modes\":["
		"4],"
		"\"interfaces\":[3,{}],\"warnings\":[5],\"management\":{\"cidrs\":[\"x\"],\"ports\":[\"y\"]}}",
		"{\"breaker\":{\"state\":\"open\",\"mode\":7,\"probes\":[],\"figures\":3,\"trips\":[1]},\"policy\":4,"
		"\"outcomes\":{\"by_kind\":[],\"under_pressure\":{\"x\":\"y\"}},\"turns\":{},\"health\":{\"60s\":1},"
		"\"latency_ms\":7,\"overrides\":[4]}",
		"{\"schema\":\"sluice.breaker.v1\",\"context\":[],\"rule\":\"fast\",\"order\":{}}"};
	struct invocation inv = {.command = &commands[0], .args = {"1", "2"}, .arg_count = 2};

	(void)state;
	capture_begin();
	for (size_t s = 0; s < sizeof(shows) / sizeof(shows[0]); s++) {
		for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
			json_t *answer = json_loads(odd[i], 0, NULL);

			shows[s](&inv, answer);
			json_decref(answer);
		}
	}
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		json_t *service = json_loads(odd[i], 0, NULL);

		print_breaker_sentence(service, service);
		print_breaker_facts(service);
		print_signals(service);
		print_outcomes(service);
		print_event(stdout, service);
		json_decref(service);
	}
	assert_non_null(capture_end());
}

static void test_refusals_of_the_daemon(void **state)
{
	static const struct {
		const char *answer, *parts[5];
	} rows[] = {
		{"{\"error\":{\"message\":\"no such "
		 "service\",\"key\":\"service\",\"value\":\"wbe\",\"accepted\":\"web, api\","
		 "\"hint\":\"did you mean web?\"}}",
		 {"sluicectl: no such service\n", "key:      service", "value:    wbe", "accepted: web, api",
		  "hint:     did you mean web?"}},
		{"{\"error\":{\"message\":\"a\\u001b[31mb\",\"value\":7}}", {"sluicectl: a?[31mb\n", "value:    7"}},
		{"{\"errors\":[\"x.yaml:3: bad\"],\"error\":{\"message\":\"not valid\"}}",
		 {"not valid", "error:    x.yaml:3"}},
		{"{\"error\":\"plain\"}", {"sluicectl: plain\n"}},
		{"{}", {"HTTP status 400"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *answer = fixture(rows[i].answer);
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);

		print_answer_fault(out, answer, 400);
		fclose(out);
		for (int p = 0; p < 5 && rows[i].parts[p]; p++)
			assert_has(text, rows[i].parts[p]);
		free(text);
		json_decref(answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_is_sound),
		cmocka_unit_test(test_examples_are_accepted),
		cmocka_unit_test(test_options_anywhere),
		cmocka_unit_test(test_help_needs_no_complete_command),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_bad_values_as_json),
		cmocka_unit_test(test_long_values_are_cut_in_messages),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_order_times),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_nobody_answers),
		cmocka_unit_test(test_help_has_every_command),
		cmocka_unit_test(test_help_of_a_command),
		cmocka_unit_test(test_man_pages_hold_the_tables),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_status_text),
		cmocka_unit_test(test_lists_text),
		cmocka_unit_test(test_c88_breaker_sentences),
		cmocka_unit_test(test_every_rule_and_state_has_words),
		cmocka_unit_test(test_breaker_words),
		cmocka_unit_test(test_breaker_facts_text),
		cmocka_unit_test(test_outcomes_text),
		cmocka_unit_test(test_every_outcome_is_shown),
		cmocka_unit_test(test_c89_no_samples_are_a_dash),
		cmocka_unit_test(test_event_lines),
		cmocka_unit_test(test_odd_answers),
		cmocka_unit_test(test_refusals_of_the_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
