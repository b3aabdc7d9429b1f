// SPDX-License-Identifier: GPL-2.0-only
/* commands.c: the table of options and the table of commands. */
#include "user/cli/command.h"

const struct option_spec option_specs[OPTION_COUNT] = {
	[OPT_socket] = {"--socket", "PATH", KIND_FILE, false, "the daemon's socket (default /run/sluice/sluice.sock)"},
	[OPT_json] = {"--json", NULL, KIND_NONE, false, "print the answer as JSON"},
	[OPT_color] = {"--color", "WHEN", KIND_TEXT, false, "auto (on a terminal), always or never"},
	[OPT_help] = {"--help", NULL, KIND_NONE, false, "this help, or the help of the command given"},
	[OPT_version] = {"--version", NULL, KIND_NONE, false, "print the version of sluicectl"},
	[OPT_man] = {"--man", NULL, KIND_NONE, true, "print the section of the man page about commands"},
	[OPT_man_config] = {"--man-config", NULL, KIND_NONE, true, "print the section of sluice.yaml(5) about keys"},
	[OPT_for] = {"--for", "TIME", KIND_FOR, false, "how long, 1s to 8760h (a year), as in 90s, 10m, 2h"},
	[OPT_reason] = {"--reason", "TEXT", KIND_REASON, false,
			"why, 1 to 500 bytes: shown to the next person who looks"},
	[OPT_service] = {"--service", "NAME", KIND_NAME, false, "only this service"},
	[OPT_limit] = {"--limit", "N", KIND_COUNT, false, "how many rows, 1 to 1000 (default 20)"},
	[OPT_ceiling] = {"--ceiling", "RATE", KIND_RATE, false,
			 "of all sources of the prefix together (default 1000/s)"},
	[OPT_all_packets] = {"--all-packets", NULL, KIND_NONE, false, "established connections too, not only new ones"},
	[OPT_force] = {"--force", NULL, KIND_NONE, false,
		       "allow a prefix that covers everybody, or meets a management prefix"},
	[OPT_effective] = {"--effective", NULL, KIND_NONE, false,
			   "print every value with where it comes from, as JSON"},
	[OPT_config] = {"--config", "FILE", KIND_FILE, false,
			"the configuration, where no daemon answers (default /etc/sluice/sluice.yaml)"},
	[OPT_pins] = {"--pins", "DIR", KIND_FILE, false,
		      "where the maps are pinned, where no daemon answers (default /sys/fs/bpf/sluice)"},
	[OPT_follow] = {"--follow", NULL, KIND_NONE, false, "wait for more and print each as it comes"},
	[OPT_kind] = {"--kind", "KIND", KIND_EVENTS, false, "only this kind: breaker or refusal"},
	[OPT_after] = {"--after", "SEQ", KIND_SEQUENCE, false, "only events with a greater number"},
};

#define BREAKER_ORDER(order)                                    \
	.method = "POST", .target = "/v1/services/{0}/breaker", \
	.fields = {{"order", FROM_CONSTANT, 0, order},          \
		   {"for", FROM_OPTION, OPT_for, NULL},         \
		   {"reason", FROM_OPTION, OPT_reason, NULL}},  \
	.run = run_breaker

const struct command commands[] = {
	{
		.path = "status",
		.summary = "what runs, on which interfaces, and how each service fares",
		.text = "Shows the daemon, its configuration, each interface with the mode of XDP and why, what is "
			"degraded, and a line for each service: attempts, refusals by reason, open connections, the "
			"fullest accept queue, its breaker and the answer time (P50/P95 of the last minute).",
		.examples = {"sluicectl status", "sluicectl status --json | jq '.services[].refused'"},
		.method = "GET",
		.target = "/v1/status",
		.show = show_status,
	},
	{
		.path = "service list",
		.summary = "a line for each service",
		.examples = {"sluicectl service list"},
		.method = "GET",
		.target = "/v1/services",
		.show = show_services,
	},
	{
		.path = "service show",
		.args = {{"NAME", KIND_NAME, false, false}},
		.summary = "one service: what binds now, what the kernel sees of it, limits, reasons",
		.text = "The first sentence says what refuses connections at the moment, if anything does: the breaker, with "
			"the rule that opened it and the figures that decided, a drain, an override, the accept-queue gate or "
			"a limit. Then come outcomes by kind, percentiles of the answer time, turns, health and what cannot "
			"be seen of this service. A figure without samples is '-'.",
		.examples = {"sluicectl service show web"},
		.method = "GET",
		.target = "/v1/services/{0}",
		.show = show_service,
	},
	{
		.path = "source top",
		.options = BIT(service) | BIT(limit),
		.summary = "the sources most refused",
		.text = "Only sources seen more than once have an entry; where the walk over the table was cut short, "
			"the last line says so.",
		.examples = {"sluicectl source top", "sluicectl source top --service web --limit 5"},
		.method = "GET",
		.target = "/v1/sources",
		.fields = {{"service", FROM_OPTION, OPT_service, NULL}, {"limit", FROM_OPTION, OPT_limit, NULL}},
		.show = show_sources,
	},
	{
		.path = "source show",
		.args = {{"ADDRESS", KIND_ADDRESS, false, false}},
		.options = BIT(service),
		.summary = "one source: its tokens and the rules it falls under, by service",
		.examples = {"sluicectl source show 198.51.100.7", "sluicectl source show 2001:db8::7 --service web"},
		.method = "GET",
		.target = "/v1/sources/{0}",
		.fields = {{"service", FROM_OPTION, OPT_service, NULL}},
		.show = show_source,
	},
	{
		.path = "limits set",
		.args = {{"NAME", KIND_NAME, false, false}, {"KEY=VALUE", KIND_LIMIT, false, true}},
		.options = BIT(for) | BIT(reason),
		.required = BIT(reason),
		.summary = "replace limits of a service until released, or for a time",
		.text = "Keys: source.rate, source.burst, source.concurrent, total.rate, total.burst, total.concurrent. "
			"The file's values come back when the override ends. Reports success only after the kernel's "
			"map was read back.",
		.examples = {"sluicectl limits set web source.rate=5/s --for 10m --reason 'scraper'",
			     "sluicectl limits set web total.rate=2000/s total.burst=400 --reason 'db is slow'"},
		.method = "POST",
		.target = "/v1/limits",
		.fields = {{"service", FROM_ARGUMENT, 0, NULL},
			   {"set", FROM_LIMITS, 1, NULL},
			   {"for", FROM_OPTION, OPT_for, NULL},
			   {"reason", FROM_OPTION, OPT_reason, NULL}},
		.show = show_limits,
	},
	{
		.path = "breaker open",
		.args = {{"NAME", KIND_NAME, false, false}},
		.options = BIT(for) | BIT(reason),
		.required = BIT(reason),
		.summary = "hold the circuit breaker open: refuse every new connection",
		.text = "Until `breaker auto`, or for a time; then the breaker probes. It holds without the daemon, and in "
			"a service without a `breaker:` block too. Success is what was read back from the kernel.",
		.examples = {"sluicectl breaker open web --for 10m --reason 'database restore'"},
		BREAKER_ORDER("open"),
	},
	{
		.path = "breaker close",
		.args = {{"NAME", KIND_NAME, false, false}},
		.options = BIT(for) | BIT(reason),
		.required = BIT(reason),
		.summary = "hold the circuit breaker closed: it opens for nothing",
		.text = "New connections are admitted even while the service is broken; the other limits still hold. "
			"Until `breaker auto`, or for a time. Success is what was read back from the kernel.",
		.examples = {"sluicectl breaker close web --for 5m --reason 'breaker opens on a test'"},
		BREAKER_ORDER("close"),
	},
	{
		.path = "breaker auto",
		.args = {{"NAME", KIND_NAME, false, false}},
		.options = BIT(reason),
		.summary = "let the breaker decide again: ends `breaker open` and `breaker close`",
		.text = "Done as well where there was no such order. What was held open probes first.",
		.examples = {"sluicectl breaker auto web"},
		BREAKER_ORDER("auto"),
	},
	{
		.path = "deny",
		.args = {{"CIDR", KIND_CIDR, false, false}},
		.options = BIT(for) | BIT(all_packets) | BIT(force) | BIT(reason),
		.required = BIT(reason),
		.summary = "refuse new connections of a prefix to every service",
		.text = "Management ports and prefixes stay reachable. A prefix of length 0, one that covers a management "
			"prefix, or one within it needs --force; the last then acts on management too, but never on its "
			"ports.",
		.examples = {"sluicectl deny 198.51.100.0/24 --for 1h --reason 'botnet, ticket 4711'"},
		.method = "POST",
		.target = "/v1/orders",
		.fields = {{"action", FROM_CONSTANT, 0, "deny"},
			   {"cidr", FROM_ARGUMENT, 0, NULL},
			   {"for", FROM_OPTION, OPT_for, NULL},
			   {"all_packets", FROM_SWITCH, OPT_all_packets, NULL},
			   {"force", FROM_SWITCH, OPT_force, NULL},
			   {"reason", FROM_OPTION, OPT_reason, NULL}},
		.show = show_order,
	},
	{
		.path = "allow",
		.args = {{"CIDR", KIND_CIDR, false, false}},
		.options = BIT(ceiling) | BIT(for) | BIT(force) | BIT(reason),
		.required = BIT(reason),
		.summary = "let a prefix past every limit, up to a ceiling",
		.text = "The ceiling is one bucket for the whole prefix: what is above it is refused as `ceiling`, so "
			"that a forged source of the prefix cannot pass without bound. A prefix of length 0 needs --force.",
		.examples = {"sluicectl allow 192.0.2.10/32 --ceiling 50/s --for 2h --reason 'health checks'"},
		.method = "POST",
		.target = "/v1/orders",
		.fields = {{"action", FROM_CONSTANT, 0, "allow"},
			   {"cidr", FROM_ARGUMENT, 0, NULL},
			   {"ceiling", FROM_OPTION, OPT_ceiling, NULL},
			   {"for", FROM_OPTION, OPT_for, NULL},
			   {"force", FROM_SWITCH, OPT_force, NULL},
			   {"reason", FROM_OPTION, OPT_reason, NULL}},
		.show = show_order,
	},
	{
		.path = "events",
		.options = BIT(follow) | BIT(service) | BIT(kind) | BIT(after),
		.summary = "what breakers did and whom sluice refused, with the figures that decided",
		.text = "A line for each event, oldest first; with --json an object a line (JSON lines). The daemon keeps the "
			"newest ones, and refusals come as a sample; what it no longer had when asked is counted on stderr. "
			"--follow waits out a restart of the daemon; it ends with status 0 when it is interrupted or its "
			"reader is gone.",
		.examples = {"sluicectl events --kind breaker",
			     "sluicectl events --follow --service web",
			     "sluicectl events --follow --json --kind breaker | jq -c '[.service, .to, .rule]'"},
		.run = run_events,
	},
	{
		.path = "trust list",
		.summary = "the trust list in force, with the origin of each rule",
		.examples = {"sluicectl trust list"},
		.method = "GET",
		.target = "/v1/trust",
		.show = show_trust,
	},
	{
		.path = "overrides list",
		.summary = "what operators ordered: limits, breaker, deny, allow, drain",
		.examples = {"sluicectl overrides list"},
		.method = "GET",
		.target = "/v1/overrides",
		.show = show_overrides,
	},
	{
		.path = "overrides release",
		.args = {{"ID", KIND_ID, false, false}},
		.summary = "end an override: the configuration holds again",
		.examples = {"sluicectl overrides release 3"},
		.method = "DELETE",
		.target = "/v1/overrides/{0}",
		.show = show_released,
	},
	{
		.path = "drain",
		.args = {{"NAME", KIND_NAME, false, false}},
		.options = BIT(for) | BIT(reason),
		.summary = "refuse new connections and wait until none is open",
		.text = "Shows on one line how open connections fall. Ends with status 0 when none is open, 3 when the "
			"time of --for is over. The service stays drained either way, until `undrain`.",
		.examples = {"sluicectl drain web --for 2m --reason 'kernel update'"},
		.method = "POST",
		.target = "/v1/services/{0}/drain",
		.fields = {{"reason", FROM_OPTION, OPT_reason, NULL}},
		.run = run_drain,
	},
	{
		.path = "undrain",
		.args = {{"NAME", KIND_NAME, false, false}},
		.summary = "admit new connections again",
		.examples = {"sluicectl undrain web"},
		.method = "POST",
		.target = "/v1/services/{0}/undrain",
		.show = show_undrain,
	},
	{
		.path = "config check",
		.args = {{"FILE", KIND_FILE, false, false}},
		.options = BIT(effective),
		.summary = "is this file valid? (asks no daemon)",
		.text = "Prints errors and warnings, each with file, line, the value given and what is accepted. Status "
			"0 if the file would be loaded.",
		.examples = {"sluicectl config check sluice.yaml", "sluicectl config check --effective sluice.yaml"},
		.run = run_config_check,
	},
	{
		.path = "config load",
		.args = {{"FILE", KIND_FILE, true, false}},
		.summary = "check the daemon's file, or another, and put it in force as a whole",
		.text = "On any error the configuration in force stays. Buckets, counters and overrides stay in any "
			"case. New interfaces are attached before those that left the file are released; one that is "
			"not there, or cannot be attached, is an error.",
		.examples = {"sluicectl config load", "sluicectl config load /etc/sluice/storm.yaml"},
		.method = "POST",
		.target = "/v1/config/load",
		.fields = {{"path", FROM_ARGUMENT, 0, NULL}},
		.show = show_loaded,
	},
	{
		.path = "config diff",
		.args = {{"FILE", KIND_FILE, true, false}},
		.summary = "what `config load` would change",
		.examples = {"sluicectl config diff", "sluicectl config diff /etc/sluice/storm.yaml"},
		.method = "GET",
		.target = "/v1/config/diff",
		.fields = {{"path", FROM_ARGUMENT, 0, NULL}},
		.show = show_diff,
	},
	{
		.path = "doctor",
		.options = BIT(config),
		.summary = "is this machine set up well? (works without the daemon)",
		.text = "A line for each finding: OK, WARN or FAIL, what it means and what to do. Status 0 if nothing "
			"is FAIL.",
		.examples = {"sluicectl doctor", "sluicectl doctor --config sluice.yaml"},
		.run = run_doctor,
	},
	{
		.path = "detach",
		.options = BIT(pins),
		.summary = "remove every program, link, map and pin (works without the daemon)",
		.text = "A running daemon removes them and exits; else sluicectl does it itself. Then looks whether "
			"anything is left: status 0 only if nothing is.",
		.examples = {"sluicectl detach", "sluicectl detach --pins /sys/fs/bpf/sluice"},
		.method = "POST",
		.target = "/v1/detach",
		.run = run_detach,
	},
	{
		.path = "version",
		.summary = "versions of sluicectl and of the running daemon",
		.run = run_version,
	},
	{
		.path = "help",
		.args = {{"COMMAND", KIND_TEXT, true, true}},
		.summary = "this help, or the help of the commands that begin so",
		.examples = {"sluicectl help limits"},
		.run = run_help,
	},
};

const size_t command_count = sizeof(commands) / sizeof(commands[0]);
