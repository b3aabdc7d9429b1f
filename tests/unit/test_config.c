// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration from a file: one table of bad input with what its message must say, one of good forms, every key
 * with every kind of value, and files that are not what they should be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/config_text.h"
#include "user/control/schema.h"

/* --- bad input ------------------------------------------------------------------------------------------------------ */

static const struct bad {
	const char *name, *text;
	const char *parts[5]; /* one error has them all */
} bad[] = {
	/* zero, negative, overflow, without unit: key, value, what is accepted, what to do */
	{"c34 burst 0",
	 HEAD "    source: {rate: 20/s, burst: 0}\n",
	 {"test.yaml:5:33:", "services[web].source.burst", "\"0\" is zero", "from 1 to 1000000", "deny"}},
	{"c34 burst null",
	 HEAD "    source: {rate: 20/s, burst: ~}\n",
	 {"test.yaml:5:33:", "source.burst", "has no value"}},
	{"c34 burst empty",
	 HEAD "    source: {rate: 20/s, burst: }\n",
	 {"test.yaml:5", "source.burst", "has no value"}},
	{"c34 burst empty string",
	 HEAD "    source: {rate: 20/s, burst: \"\"}\n",
	 {"test.yaml:5:33:", "source.burst", "\"\" is empty", "from 1 to 1000000"}},
	{"c34 burst absent",
	 HEAD "    source: {rate: 20/s}\n",
	 {"test.yaml:5:20:", "source.rate", "20/s is set without burst", "add burst"}},
	{"c34 rate absent",
	 HEAD "    source: {burst: 5}\n",
	 {"test.yaml:5:21:", "source.burst", "5 is set without rate"}},
	{"total rate without burst",
	 HEAD "    total: {rate: 20/s}\n",
	 {"test.yaml:5:19:", "total.rate", "without burst"}},
	{"total burst without rate",
	 HEAD "    total: {burst: 9, rate: unlimited}\n",
	 {"test.yaml:5:20:", "total.burst", "9 is set without rate"}},
	{"c35 rate 0",
	 HEAD "    source: {rate: 0/s, burst: 1}\n",
	 {"test.yaml:5:20:", "source.rate", "\"0/s\" is zero", "write unlimited", "1/24h to 100000000/s"}},
	{"c35 rate 0 without unit",
	 HEAD "    total: {rate: 0, burst: 1}\n",
	 {"test.yaml:5:19:", "total.rate", "\"0\" is zero", "deny", "1/h to 100000000/s"}},
	{"concurrent 0",
	 HEAD "    source: {concurrent: 0}\n",
	 {"test.yaml:5:26:", "source.concurrent", "\"0\" is zero", "unlimited", "from 1 to 16777215"}},
	{"negative rate", HEAD "    source: {rate: -5/s, burst: 1}\n", {"test.yaml:5:20:", "\"-5/s\" is negative"}},
	{"negative count", HEAD "    total: {concurrent: -1}\n", {"test.yaml:5:25:", "\"-1\" is negative"}},
	{"rate without unit",
	 HEAD "    source: {rate: 20, burst: 1}\n",
	 {"test.yaml:5:20:", "source.rate", "\"20\" has no unit", "COUNT/s"}},
	{"duration without unit",
	 HEAD "    accept_queue: {max_wait: 250}\n",
	 {"test.yaml:5:30:", "accept_queue.max_wait", "\"250\" has no unit", "1ms to 5m"}},
	{"percentage without unit",
	 HEAD "    accept_queue: {high: 90}\n",
	 {"test.yaml:5:26:", "accept_queue.high", "\"90\" has no unit", "1% to 100%"}},
	{"count with unit",
	 HEAD "    source: {rate: 20/s, burst: 40/s}\n",
	 {"test.yaml:5:33:", "\"40/s\" has a unit", "without unit"}},
	{"percent over 100", HEAD "    accept_queue: {high: 101%}\n", {"test.yaml:5:26:", "\"101%\" is too large"}},
	{"c32 count over 32 bits",
	 HEAD "    total: {concurrent: 4294967297}\n",
	 {"test.yaml:5:25:", "\"4294967297\" is too large", "1000000000"}},
	{"c32 count over 64 bits",
	 HEAD "    total: {concurrent: 18446744073709551617}\n",
	 {"test.yaml:5:25:", "is too large"}},
	{"c31 rate over its bound",
	 HEAD "    total: {rate: 18446744073709551616/s, burst: 1}\n",
	 {"test.yaml:5:19:", "is too large", "100000000/s"}},
	{"c32 rate over 32 bits",
	 HEAD "    total: {rate: 4294967296/s, burst: 1}\n",
	 {"test.yaml:5:19:", "\"4294967296/s\" is too large"}},
	{"rate too slow for total",
	 HEAD "    total: {rate: 1/2h, burst: 1}\n",
	 {"test.yaml:5:19:", "\"1/2h\" is too small", "1/h"}},
	{"rate that cannot be held",
	 HEAD "    total: {rate: 77777777/s, burst: 1}\n",
	 {"test.yaml:5:19:", "total.rate", "77777777/s cannot be held within 0.1 %", "/s can"}},
	{"burst of months",
	 HEAD "    source: {rate: 1/24h, burst: 27}\n",
	 {"test.yaml:5:20:", "source.rate", "over 26 days", "1 to 26"}},
	{"NaN",
	 HEAD "    breaker: {risk: {open_at: .nan}}\n",
	 {"test.yaml:5:31:", "open_at", "\".nan\" is not a number"}},
	{"weights",
	 HEAD "    breaker: {risk: {weights: [0.6, 0.5]}}\n",
	 {"test.yaml:5:31:", "weights", "[0.6, 0.5]", "2 numbers that make 1"}},
	{"word for a rate", HEAD "    source: {rate: fast, burst: 1}\n", {"test.yaml:5:20:", "\"fast\" is not a rate"}},
	{"yes for a bool", HEAD "    source: {vlan: yes}\n", {"test.yaml:5:20:", "\"yes\"", "true, false"}},
	{"duration below its bound",
	 "failsafe: {lease: 1ms}\n" HEAD,
	 {"test.yaml:1:19:", "failsafe.lease", "\"1ms\" is too small", "500ms to 1m"}},

	/* order and dependence of keys */
	{"low > high",
	 HEAD "    accept_queue: {low: 95%, high: 90%}\n",
	 {"test.yaml:5:", "accept_queue.low", "95%", "is above high: 90%", "at most high"}},
	{"low > default high",
	 HEAD "    accept_queue: {low: 95%}\n",
	 {"test.yaml:5:25:", "accept_queue.low", "95%", "high: 90% (default)"}},
	{"default low > high",
	 HEAD "    accept_queue: {high: 40%}\n",
	 {"test.yaml:5:26:", "accept_queue.low", "50% (default)", "high: 40%"}},
	{"target = max_wait",
	 HEAD "    accept_queue: {target: 50ms, max_wait: 50ms}\n",
	 {"test.yaml:5:", "accept_queue.target", "50ms", "max_wait: 50ms", "less than max_wait"}},
	{"target > max_wait",
	 HEAD "    accept_queue: {target: 1s}\n",
	 {"test.yaml:5:28:", "accept_queue.target", "1s", "max_wait: 250ms (default)"}},
	{"reserve >= deadline", HEAD "    accept_queue: {reserve: 1s}\n", {"accept_queue.reserve", "deadline: 800ms"}},
	{"release >= cut",
	 "host: {cpu: {cut: 50%}}\n" HEAD,
	 {"test.yaml:1:19:", "host.cpu.release", "80%", "cut: 50%"}},
	{"wide without rate",
	 HEAD "    source: {wide: {rate: 1/s, burst: 1}}\n",
	 {"test.yaml:5:27:", "source.rate must be set"}},
	{"wide not wider",
	 HEAD "    source: {rate: 1/s, burst: 1, ipv4_prefix: 24, wide: {rate: 1/s, burst: 1}}\n",
	 {"test.yaml:5:48:", "source.wide.ipv4_prefix, 24, is not shorter than source.ipv4_prefix, 24"}},
	{"overrides without rate",
	 HEAD "    source: {overrides: [{cidr: 192.0.2.0/24, rate: 1/s, burst: 1}]}\n",
	 {"test.yaml:5", "overrides", "source.rate"}},
	{"override twice",
	 HEAD "    source: {rate: 1/s, burst: 1, overrides: [{cidr: 192.0.2.0/24, rate: 1/s, burst: 1},\n"
	      "      {cidr: 192.0.2.0/24, rate: 2/s, burst: 1}]}\n",
	 {"overrides", "192.0.2.0/24 stands twice"}},
	{"override without burst",
	 HEAD "    source: {rate: 1/s, burst: 1, overrides: [{cidr: 192.0.2.0/24, rate: 1/s}]}\n",
	 {"test.yaml:5:47:", "overrides[192.0.2.0/24]", "\"burst\" is missing"}},
	{"minimum shares over 100 %",
	 "classes: {vip: {min: 50%}, low: {min: 60%}}\n" HEAD,
	 {"test.yaml:1:10:", "classes", "120.00%", "at most 100%"}},

	/* UDP */
	{"udp with a gate",
	 HEAD "    protocol: udp\n    accept_queue: {low: 50%}\n",
	 {"test.yaml:6:19:", "accept_queue", "tcp only"}},
	{"udp with connections",
	 HEAD "    protocol: udp\n    source: {concurrent: 5}\n",
	 {"test.yaml:6:26:", "source.concurrent", "tcp only"}},
	{"udp with reset",
	 HEAD "    protocol: udp\n    shed: {action: reset}\n",
	 {"test.yaml:6:20:", "shed.action", "tcp only"}},

	/* names and addresses */
	{"two services on one address",
	 HEAD SECOND "  - name: third\n    listen: [\"192.0.2.1:80\"]\n",
	 {"test.yaml:8:", "services[third].listen", "192.0.2.1 port 80", "service web in line 3"}},
	{"two services on *",
	 HEAD "  - {name: a, listen: [\"*:90\"]}\n  - {name: b, listen: [\"0.0.0.0:90\"]}\n",
	 {"test.yaml:6:", "services[b].listen", "0.0.0.0 port 90", "service a in line 5"}},
	{"mapped address is the IPv4 one",
	 HEAD "  - {name: b, listen: [\"[::ffff:192.0.2.1]:80\"]}\n",
	 {"test.yaml:5:", "services[b].listen", "192.0.2.1 port 80", "line 3"}},
	{"one address twice",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"*:80\", \"*:80\"]}]\n",
	 {"test.yaml:2:", "services[web].listen", "port 80 stands twice"}},
	{"service twice",
	 HEAD "  - {name: web, listen: [\"192.0.2.1:82\"]}\n",
	 {"test.yaml:5:12:", "services[web].name", "\"web\" is taken", "line 3"}},
	{"interface twice",
	 "interfaces: [{name: eth0}, {name: eth0}]\nservices: [{name: web, listen: [\"*:80\"]}]\n",
	 {"test.yaml:1:28:", "interfaces[eth0].name", "stands twice"}},
	{"interface name too long",
	 "interfaces: [{name: abcdefghijklmnop}]\n",
	 {"test.yaml:1:21:", "interfaces[abcdefghijklmnop].name", "15 characters"}},
	{"service name with space",
	 "interfaces: [{name: eth0}]\nservices: [{name: \"we b\", listen: [\"*:80\"]}]\n",
	 {"test.yaml:2:19:", "services[1].name", "\"we b\"", "A-Z a-z 0-9"}},
	{"c136 service name with quote and newline",
	 "interfaces: [{name: eth0}]\nservices: [{name: \"a\\\"\\nb\", listen: [\"*:80\"]}]\n",
	 {"test.yaml:2:19:", "\\x0ab", "A-Z a-z 0-9"}},
	{"service name of 32",
	 "interfaces: [{name: eth0}]\nservices: [{name: a1234567890123456789012345678901, listen: [\"*:80\"]}]\n",
	 {"test.yaml:2:19:", "31 characters"}},
	{"no port",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [192.0.2.1]}]\n",
	 {"test.yaml:2:33:", "services[web].listen", "\"192.0.2.1\" has no port"}},
	{"port 0",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"*:0\"]}]\n",
	 {"test.yaml:2:33:", "\"*:0\"", "1 to 65535"}},
	{"port 65536",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"*:65536\"]}]\n",
	 {"test.yaml:2:33:", "\"*:65536\"", "1 to 65535"}},
	{"IPv6 without brackets",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"2001:db8::1:443\"]}]\n",
	 {"test.yaml:2:33:", "brackets"}},
	{"host name to listen on",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"www.example.net:443\"]}]\n",
	 {"test.yaml:2:33:", "\"www.example.net:443\"", "names are not looked up"}},
	{"empty listen",
	 "interfaces: [{name: eth0}]\nservices: [{name: web, listen: []}]\n",
	 {"test.yaml:2:32:", "services[web].listen", "0 entries", "1 to 64"}},
	{"fallback unknown",
	 HEAD "    shed: {fallback: busy}\n",
	 {"test.yaml:5:22:", "fallback", "\"busy\" is no service"}},
	{"fallback is itself",
	 HEAD "    shed: {fallback: web}\n",
	 {"test.yaml:5:22:", "fallback", "\"web\" is the service itself"}},
	{"depends_on unknown",
	 HEAD "    depends_on: [db]\n",
	 {"test.yaml:5:18:", "depends_on", "\"db\" is no service"}},
	{"depends_on itself",
	 HEAD "    depends_on: [web]\n",
	 {"test.yaml:5:18:", "depends_on", "\"web\" is the service itself"}},
	{"depends_on in a circle",
	 HEAD "    depends_on: [api]\n" SECOND "    depends_on: [web]\n",
	 {"test.yaml:8:18:", "services[api].depends_on", "\"web\" leads back to api", "cycle"}},
	{"signal unknown", HEAD "    shed: {signal: lag}\n", {"test.yaml:5:20:", "signal", "\"lag\" is no signal"}},
	{"stage unknown", HEAD "    dry_run: [gat]\n", {"test.yaml:5:15:", "dry_run", "\"gat\"", "did you mean gate?"}},
	{"stage before the service", HEAD "    dry_run: [parse]\n", {"test.yaml:5:15:", "\"parse\"", "parser:"}},
	{"all beside others", HEAD "    dry_run: [all, gate]\n", {"test.yaml:5:14:", "dry_run", "cannot stand beside"}},
	{"wrong word",
	 "failsafe: {on_loss: statik}\n" HEAD,
	 {"test.yaml:1:21:", "failsafe.on_loss", "\"statik\"", "did you mean static?", "static, pass, closed"}},
	{"on_loss: open",
	 "failsafe: {on_loss: open}\n" HEAD,
	 {"test.yaml:1:21:", "failsafe.on_loss", "\"open\"", "write pass", "static, pass, closed"}},
	{"relative path",
	 "control: {socket: sluice.sock}\n" HEAD,
	 {"test.yaml:1:19:", "control.socket", "\"sluice.sock\" is not an absolute path"}},
	{"metrics without port",
	 "control: {metrics: 127.0.0.1}\n" HEAD,
	 {"test.yaml:1:20:", "control.metrics", "has no port"}},

	/* trust */
	{"allow without ceiling",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: allow}\n",
	 {"test.yaml:6:12:", "192.0.2.0/24", "allow needs a ceiling", "1000/s"}},
	{"allow with ceiling 0",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: allow, ceiling: 0/s}\n",
	 {"test.yaml:6:50:", "trust[192.0.2.0/24].ceiling", "\"0/s\" is zero"}},
	{"deny with ceiling",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: deny, ceiling: 1/s}\n",
	 {"test.yaml:6:12:", "ceiling is for action: allow"}},
	{"class without class",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: class}\n",
	 {"test.yaml:6:12:", "needs class", "vip, known, stranger"}},
	{"allow with class",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: allow, ceiling: 1/s, class: vip}\n",
	 {"test.yaml:6:12:", "class: is for action: class"}},
	{"deny everyone",
	 HEAD "trust:\n  - {cidr: 0.0.0.0/0, action: deny}\n",
	 {"test.yaml:6:12:", "0.0.0.0/0", "deny everyone", "sluicectl drain NAME"}},
	{"deny everyone of IPv6",
	 HEAD "trust:\n  - {cidr: \"::/0\", action: deny}\n",
	 {"test.yaml:6:12:", "::/0", "deny everyone"}},
	{"class of both families",
	 HEAD "trust:\n  - {cidr: \"::/0\", action: class, class: low}\n",
	 {"test.yaml:6:12:", "::/0", "IPv4 too", "2000::/3"}},
	{"host bits",
	 HEAD "trust:\n  - {cidr: 192.0.2.7/24, action: deny}\n",
	 {"test.yaml:6:12:", "trust[192.0.2.7/24].cidr", "write 192.0.2.0/24", "192.0.2.7/32"}},
	{"c145 host name",
	 HEAD "trust:\n  - {cidr: monitor.example.net, action: class, class: vip}\n",
	 {"test.yaml:6:12:", "trust[monitor.example.net].cidr", "names are not looked up", "both families"}},
	{"neither cidr nor file", HEAD "trust:\n  - {action: deny}\n", {"test.yaml:6:5:", "one of cidr and file"}},
	{"cidr and file",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, file: /x, action: deny}\n",
	 {"test.yaml:6:12:", "only one"}},
	{"max_age without file",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: deny, max_age: 1h}\n",
	 {"test.yaml:6:12:", "max_age is for file"}},
	{"c145 one prefix, two rules",
	 HEAD "trust:\n  - {cidr: 192.0.2.0/24, action: deny}\n  - {cidr: 192.0.2.0/24, action: class, class: vip}\n",
	 {"test.yaml:7", "192.0.2.0/24", "test.yaml:6", "test.yaml:7", "different rules"}},
	{"list file missing",
	 HEAD "trust:\n  - {file: /nonexistent/deny.txt, action: deny}\n",
	 {"test.yaml:6", "/nonexistent/deny.txt", "No such file"}},
	{"list file is a directory",
	 HEAD "trust:\n  - {file: /proc, action: deny}\n",
	 {"test.yaml:6", "/proc", "directory"}},

	/* YAML */
	{"c127 hyphen for underscore",
	 HEAD "    accept-queue: {low: 50%}\n",
	 {"test.yaml:5:5:", "services[web]", "unknown key \"accept-queue\"", "did you mean accept_queue?"}},
	{"c127 max-age",
	 HEAD "trust:\n  - {file: /x, action: deny, max-age: 1h}\n",
	 {"test.yaml:6:30:", "unknown key \"max-age\"", "did you mean max_age?"}},
	{"c127 other tools' word",
	 HEAD "    source: {requests_per_minute: 5}\n",
	 {"test.yaml:5:14:", "services[web].source", "unknown key \"requests_per_minute\"", "known keys: rate, burst"}},
	{"c127 misspelt",
	 HEAD "    source: {rate: 1/s, brust: 5}\n",
	 {"test.yaml:5:25:", "unknown key \"brust\"", "did you mean burst?"}},
	{"c127 key in the wrong section",
	 HEAD "    rate: 20/s\n",
	 {"test.yaml:5:5:", "services[web]", "unknown key \"rate\"", "services.source.rate"}},
	{"c127 at the top",
	 HEAD "service: []\n",
	 {"test.yaml:5:1:", "unknown key \"service\"", "did you mean services?"}},
	{"c127 key twice",
	 HEAD "    source: {rate: 1/s, burst: 1, rate: 2/s}\n",
	 {"test.yaml:5:35:", "\"rate\" stands twice", "line 5"}},
	{"c127 block twice",
	 HEAD "    source: {rate: 1/s, burst: 1}\n    source: {rate: 2/s, burst: 1}\n",
	 {"test.yaml:6:5:", "\"source\" stands twice", "line 5"}},
	{"c127 top key twice",
	 "tables: {flows: 2048}\n" HEAD "tables: {flows: 4096}\n",
	 {"test.yaml:6:1:", "\"tables\" stands twice", "line 1"}},
	{"signal twice", HEAD "signals: {a: {}, a: {}}\n", {"test.yaml:5:18:", "\"a\" stands twice"}},
	{"c127 merge key", HEAD "    source: {<<: {rate: 1/s}}\n", {"test.yaml:5:14:", "merge key"}},
	{"c127 anchor", HEAD "    source: &a {rate: 1/s, burst: 1}\n", {"test.yaml:5:13:", "anchor \"a\""}},
	{"c127 alias",
	 HEAD "    source: &a {rate: 1/s, burst: 1}\n    total: *a\n",
	 {"test.yaml:6:12:", "alias \"a\""}},
	{"tag", HEAD "    priority: !!int 5\n", {"test.yaml:5:15:", "tag", "int"}},
	{"key that is a list", HEAD "    [a, b]: 5\n", {"test.yaml:5:5:", "key is a list"}},
	{"key that is null", HEAD "    ~: 5\n", {"test.yaml:5:5:", "key is nothing"}},
	{"two documents", HEAD "---\n" HEAD, {"test.yaml:5:1:", "second document"}},
	{"tab to indent", HEAD "\tsource: {rate: 1/s, burst: 1}\n", {"test.yaml:5:1:", "tab", "spaces"}},
	{"tab to separate", HEAD "    priority:\t5\n", {"test.yaml:5:14:", "tab"}},
	{"c130 unclosed list", HEAD "    depends_on: [a, b\n", {"test.yaml:6:1:", "not valid YAML"}},
	{"c130 unclosed quote", HEAD "    netns: \"blue\n", {"test.yaml:6:", "not valid YAML"}},
	{"c130 wrong indentation", HEAD "   source: {rate: 1/s, burst: 1}\n", {"test.yaml:5:", "not valid YAML"}},
	{"c130 not YAML at all", "{{{{%%%", {"test.yaml:1:", "not valid YAML"}},
	{"c130 empty", "", {"test.yaml:", "empty", "interfaces: and services:"}},
	{"c130 only comments", "# nothing\n\n", {"test.yaml:", "empty"}},
	{"c130 null", "~\n", {"test.yaml:", "empty"}},
	{"c130 a list", "- a\n", {"test.yaml:1:1:", "the file is a list"}},
	{"c130 a text", "hello\n", {"test.yaml:1:1:", "the file is a single value"}},
	{"c130 services missing", "interfaces: [{name: eth0}]\n", {"test.yaml:1:1:", "\"services\" is missing"}},
	{"c130 interfaces missing",
	 "services: [{name: web, listen: [\"*:80\"]}]\n",
	 {"test.yaml:1:1:", "\"interfaces\" is missing"}},
	{"c130 services empty",
	 "interfaces: [{name: eth0}]\nservices: []\n",
	 {"test.yaml:2:11:", "services", "0 entries"}},
	{"c130 listen missing",
	 "interfaces: [{name: eth0}]\nservices: [{name: web}]\n",
	 {"test.yaml:2:12:", "services[web]", "\"listen\" is missing"}},
	{"c130 name missing",
	 "interfaces: [{name: eth0}]\nservices: [{listen: [\"*:80\"]}]\n",
	 {"test.yaml:2:12:", "services[1]", "\"name\" is missing"}},
	{"c130 control character", HEAD "    netns: \x01\n", {"test.yaml:5:12:", "0x01", "control character"}},
	{"c130 Latin-1", HEAD "# caf\xe9\n", {"test.yaml:5:6:", "0xe9", "not UTF-8"}},
	{"c130 overlong UTF-8", HEAD "    netns: \xc0\xaf\n", {"test.yaml:5:12:", "0xc0", "not UTF-8"}},
	{"c130 surrogate", HEAD "    netns: \xed\xa0\x80\n", {"test.yaml:5:12:", "not UTF-8"}},
	{"c130 UTF-16",
	 "\xff\xfe"
	 "a",
	 {"test.yaml:1:1:", "not UTF-8"}},
	{"NUL by an escape", HEAD "    netns: \"a\\0b\"\n", {"test.yaml:5:12:", "NUL"}},
	{"deep nesting", "a: [[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]\n", {"test.yaml:1:", "deep"}},
};

static void bad_input_is_refused_with_its_place(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct diag diag = {};

		if (!parse_bad(bad[i].text, strlen(bad[i].text), &diag)) {
			print_error("%s: accepted\n", bad[i].name);
			failed++;
		} else if (!has_message(diag.errors, diag.error_count, bad[i].parts, COUNT_OF(bad[i].parts))) {
			print_error("%s: not among %zu, first: %s\n", bad[i].name, diag.error_count, diag.errors[0]);
			failed++;
		}
		diag_reset(&diag);
	}
	assert_int_equal(failed, 0);
}

/* --- every key, every kind of value --------------------------------------------------------------------------------- */

enum kind { PLAIN, QUOTED, LITERAL, NUMBER, TRUTH, LIST, LISTS, EMPTY_LIST, MAP, EMPTY_MAP, TILDE, NOTHING, KINDS };

static const char *const kind_text[KINDS] = {
	[PLAIN] = "word", [QUOTED] = "\"quoted\"", [LITERAL] = "'single'", [NUMBER] = "12345678901234567890",
	[TRUTH] = "true", [LIST] = "[1, 2]",       [LISTS] = "[[1], [2]]", [EMPTY_LIST] = "[]",
	[MAP] = "{a: 1}", [EMPTY_MAP] = "{}",      [TILDE] = "~",          [NOTHING] = "",
};

/* `key: value` in the block that `path` (of the schema, NULL: the top) names, in flow style. */
static void emit(const char *path, const char *key, const char *value, char *buf, size_t len)
{
	char inner[600], up[128] = "", outer[600];

	snprintf(inner, sizeof(inner), "{%s: %s}", key, value);
	if (path)
		snprintf(up, sizeof(up), "%s", path);
	while (up[0]) {
		char *dot = strrchr(up, '.'), *name = dot ? dot + 1 : up;
		const struct schema_key *row = schema_find(up);

		snprintf(outer, sizeof(outer), row && row->type == KEY_LIST ? "{%s: [%.400s]}" : "{%s: %.400s}",
			 strcmp(name, "*") ? name : "any", inner);
		snprintf(inner, sizeof(inner), "%s", outer);
		*(dot ? dot : up) = 0;
	}
	snprintf(buf, len, "%s\n", inner);
}

static void c127_unknown_key_with_every_kind_of_value(void **state)
{
	unsigned blocks = 0;
	char text[1000];

	(void)state;
	for (size_t i = 0; i <= schema_count; i++) {
		const struct schema_key *block = i < schema_count ? &schema[i] : NULL;

		if (block && block->type != KEY_MAP && block->type != KEY_LIST)
			continue;
		blocks++;
		for (int kind = 0; kind < KINDS; kind++) {
			const char *parts[] = {"test.yaml:1:", "unknown key \"max-rates\""};
			struct diag diag = {};

			emit(block ? block->path : NULL, "max-rates", kind_text[kind], text, sizeof(text));
			assert_int_not_equal(parse_bad(text, strlen(text), &diag), 0);
			if (!has_message(diag.errors, diag.error_count, parts, 2))
				fail_msg("%s not reported as unknown: %s", text, diag.errors[0]);
			diag_reset(&diag);
		}
	}
	assert_true(blocks > 30);
}

/* Kinds that a key takes; the value itself may still be wrong. */
static bool takes(const struct schema_key *key, int kind)
{
	bool scalar = kind <= TRUTH, list = kind == LIST || kind == EMPTY_LIST, map = kind == MAP || kind == EMPTY_MAP;

	if (kind == TILDE || kind == NOTHING)
		return false;
	if (key->type == KEY_MAP || key->type == KEY_NAMED)
		return map || (scalar && key->words);
	if (key->type == KEY_LIST)
		return list || kind == LISTS;
	if (key->flags & KEY_MANY)
		return list || (scalar && key->flags & KEY_ONE_OK);
	return scalar;
}

static void c127_known_key_with_every_wrong_kind_of_value(void **state)
{
	unsigned tried = 0;
	char text[1000];

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		char parent[128] = "";
		const char *dot = strrchr(key->path, '.');

		if (!strcmp(schema_name(key), "*"))
			continue;
		if (dot)
			snprintf(parent, sizeof(parent), "%.*s", (int)(dot - key->path), key->path);
		for (int kind = 0; kind < KINDS; kind++) {
			const char *wrong[] = {"test.yaml:1:", schema_name(key), "expected"};
			const char *empty[] = {"test.yaml:1:", schema_name(key), "has no value"};
			struct diag diag = {};

			if (takes(key, kind))
				continue;
			tried++;
			emit(dot ? parent : NULL, schema_name(key), kind_text[kind], text, sizeof(text));
			assert_int_not_equal(parse_bad(text, strlen(text), &diag), 0);
			if (!has_message(diag.errors, diag.error_count, kind >= TILDE ? empty : wrong, 3))
				fail_msg("%s: %s", text, diag.errors[0]);
			diag_reset(&diag);
		}
	}
	assert_true(tried > 800);
}

/* No value of text that a key takes is read by half: junk after or before a good value is refused. */
static void junk_around_values_is_refused(void **state)
{
	static const char *const junk[] = {"%s x", "x %s", "%s,", "'%s\\n'", "-%s", "+%s", "%s%s"};
	char text[300], why[512];
	struct value value;

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		bool number = key->type == KEY_COUNT || key->type == KEY_LIMIT || key->type == KEY_RATE ||
			      key->type == KEY_DURATION || key->type == KEY_PERCENT || key->type == KEY_NUMBER;

		if (!number || !key->fallback || strchr(key->fallback, ',') || !key->fallback[0])
			continue;
		for (size_t i = 0; i < COUNT_OF(junk); i++) {
			if (i == COUNT_OF(junk) - 1 && (key->type == KEY_COUNT || key->type == KEY_LIMIT))
				continue; /* twice a number is a number */
			snprintf(text, sizeof(text), junk[i], key->fallback, key->fallback);
			if (schema_value(key, text, &value, why, sizeof(why)) != -EINVAL)
				fail_msg("%s: %s", key->path, text);
		}
	}
}

static void every_default_is_valid_and_every_key_has_help(void **state)
{
	struct value value;
	char why[512], copy[200];

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		char *next = copy;

		assert_non_null(key->help);
		for (const struct schema_key *other = schema; other < key; other++)
			assert_string_not_equal(other->path, key->path);
		if (!key->fallback || !key->fallback[0] || key->type == KEY_LIST)
			continue;
		snprintf(copy, sizeof(copy), "%s", key->fallback);
		for (char *one; (one = strsep(&next, ","));)
			if (schema_value(key, one + strspn(one, " "), &value, why, sizeof(why)))
				fail_msg("%s: %s", key->path, why);
	}
}

/* --- several errors ------------------------------------------------------------------------------------------------- */

static void errors_are_collected_in_the_order_of_the_file(void **state)
{
	static const char text[] = HEAD "    source: {rate: 0/s, brust: 5}\n    accept_queue: {high: 90}\n"
					"failsafe: {on_loss: open}\nnonsense: 1\n";
	static const char *const order[] = {
		"test.yaml:5:20: ", "test.yaml:5:25: ", "test.yaml:6:26: ", "test.yaml:7:21: ", "test.yaml:8:1: "};
	struct diag diag = {};

	(void)state;
	assert_int_equal(parse_bad(text, strlen(text), &diag), -EINVAL);
	assert_int_equal(diag.error_count, COUNT_OF(order));
	for (size_t i = 0; i < COUNT_OF(order); i++)
		if (strncmp(diag.errors[i], order[i], strlen(order[i])))
			fail_msg("%zu: %s", i, diag.errors[i]);
	diag_reset(&diag);
	assert_int_equal(diag.error_count, 0);
}

static void errors_are_capped(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	struct diag diag = {};

	(void)state;
	for (int i = 0; i < 50000; i++)
		fprintf(file, "k%d: 1\n", i);
	fclose(file);
	assert_int_equal(parse_bad(text, len, &diag), -EINVAL);
	assert_in_range(diag.error_count, 20, 21);
	diag_reset(&diag);
	free(text);
}

/* --- good forms ----------------------------------------------------------------------------------------------------- */

static void short_form_and_profile(void **state)
{
	static const char text[] =
		"interfaces: [{name: eth0, mode: auto}]\n"
		"trust:\n"
		"  - {cidr: 192.0.2.0/24, action: class, class: vip}\n"
		"services:\n"
		"  - name: web\n"
		"    listen: [\"203.0.113.10:443\", \"[2001:db8::10]:443\"]\n"
		"    profile: api\n"
		"    source: {rate: 20/s, burst: 40, concurrent: 200}\n"
		"    total: {rate: 5000/s, burst: 1000, concurrent: 20000}\n"
		"    accept_queue: {low: 50%, high: 90%, target: 20ms, max_wait: 250ms, deadline: 800ms}\n"
		"    shed: {law: adaptive, fallback: busy}\n"
		"  - {name: busy, listen: [\"127.0.0.1:8081\"]}\n";
	struct diag diag = {};
	struct config *config = parse_good(text, &diag);
	const struct service_config *web = &config->services[0];
	const char *warning[] = {"test.yaml:11: services[web].shed.law is read but not acted on by this version"};

	(void)state;
	assert_int_equal(config->service_count, 2);
	assert_string_equal(web->name, "web");
	assert_int_equal(web->line, 5);
	assert_int_equal(web->listen_count, 2);
	assert_int_equal(web->listen[1].port, 443);
	assert_int_equal(web->proto, IPPROTO_TCP);
	assert_true(web->has_source);
	assert_int_equal(web->source.rate.count, 20);
	assert_int_equal(web->source.burst, 40);
	assert_true(web->source_concurrent.set);
	assert_int_equal(web->source_concurrent.value, 200);
	assert_true(web->has_queue);
	assert_int_equal(web->low, 5000);
	assert_int_equal(web->max_wait_ns, 250000000);
	assert_int_equal(web->action, ACTION_DROP);
	assert_int_equal(web->reset_rate.count, 10000);
	assert_false(config->services[1].has_source);
	assert_true(config->services[1].has_queue);
	assert_int_equal(config->trust_count, 1);
	assert_int_equal(config->trust[0].action, TRUST_CLASS);
	assert_int_equal(config->trust[0].class, SLC_CLASS_vip);
	assert_string_equal(config->trust[0].origin, "test.yaml:3");
	assert_int_equal(config->lease_ns, 3000000000);
	assert_int_equal(config->sources, 1048576);
	assert_int_equal(config->known.turns, 3);
	assert_int_equal(config->known.over_ns, 60000000000);
	assert_int_equal(config->classes[SLC_CLASS_stranger].depth, 5000);
	assert_string_equal(config->metrics, "127.0.0.1:9469");
	assert_string_equal(config->pins, "/sys/fs/bpf/sluice");
	assert_false(config->detach_on_exit);
	assert_true(has_message(diag.warnings, diag.warning_count, warning, 1));

	assert_string_equal(value_of(config, "services[web].timeout"), "3s");
	assert_string_equal(origin_of(config, "services[web].timeout"), "profile api");
	assert_string_equal(value_of(config, "services[web].slow_after"), "120ms");
	assert_string_equal(origin_of(config, "services[web].slow_after"), "profile api");
	assert_string_equal(value_of(config, "services[web].breaker.risk.weights"), "[0.7, 0.3]");
	assert_string_equal(value_of(config, "services[web].accept_queue.reserve"), "80ms");
	assert_string_equal(value_of(config, "services[web].breaker.mode"), "metrics");
	assert_string_equal(origin_of(config, "services[web].source.rate"), "test.yaml:8");
	assert_string_equal(value_of(config, "services[busy].timeout"), "5s");
	assert_string_equal(origin_of(config, "services[busy].timeout"), "default");
	assert_string_equal(value_of(config, "services[busy].source"), "unlimited");
	diag_reset(&diag);
	config_free(&config);
	assert_null(config);
}

static void exact_beside_wildcard(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD "  - {name: any, listen: [\"*:80\"]}\n"
						"  - {name: dns, protocol: udp, listen: [\"192.0.2.1:80\"]}\n",
					   &diag);

	(void)state;
	assert_int_equal(config->services[1].listen_count, 2);
	assert_int_equal(config->services[2].proto, IPPROTO_UDP);
	assert_false(config->services[2].has_queue);
	assert_int_equal(diag.warning_count, 0);
	config_free(&config);
}

static void off_switches(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(
		"control: {metrics: none, on_exit: detach}\nfailsafe: {on_loss: pass}\n"
		"management: {ports: []}\nknown: {jitter: none}\n" HEAD
		"    source: {rate: unlimited, concurrent: unlimited}\n    total: unlimited\n    accept_queue: none\n"
		"    dry_run: all\n    netns: host\n",
		&diag);
	const struct service_config *web = &config->services[0];

	(void)state;
	assert_string_equal(config->metrics, "");
	assert_true(config->detach_on_exit);
	assert_int_equal(config->on_loss, SLC_ON_LOSS_pass);
	assert_int_equal(config->management_port_count, 0);
	assert_int_equal(config->known.jitter, 0);
	assert_false(web->source.rate.set);
	assert_false(web->source_concurrent.set);
	assert_false(web->total.rate.set);
	assert_false(web->total_concurrent.set);
	assert_false(web->has_queue);
	assert_string_equal(web->netns, "");
	assert_int_equal(web->dry, (1u << SLC_STAGE_COUNT) - 1 - (1u << SLC_STAGE_parse));
	assert_int_equal(diag.warning_count, 0);
	config_free(&config);
}

static void c146_management_is_looked_after(void **state)
{
	struct diag diag = {};
	struct config *config =
		parse_good("management: {ports: [22, 80], cidrs: [10.0.0.0/8, 0.0.0.0/0]}\n" HEAD
			   "trust:\n  - {cidr: 10.1.2.3, action: deny}\n  - {cidr: \"2001:db8::/32\", action: deny}\n",
			   &diag);
	const char *all[] = {"test.yaml:1: management.cidrs: 0.0.0.0/0 covers every address of IPv4"};
	const char *port[] = {"test.yaml:4: services[web].listen: port 80 is a management port"};
	const char *rule[] = {"test.yaml:7: trust: 10.1.2.3/32 (test.yaml:7) lies within management prefix 10.0.0.0/8"};

	(void)state;
	assert_true(has_message(diag.warnings, diag.warning_count, all, 1));
	assert_true(has_message(diag.warnings, diag.warning_count, port, 1));
	assert_true(has_message(diag.warnings, diag.warning_count, rule, 1));
	/* The denied host of the management network is not denied. */
	assert_int_equal(config->trust_count, 1);
	assert_int_equal(config->trust[0].cidr.prefix, 32);
	diag_reset(&diag);
	config_free(&config);
}

static void c146_ssh_is_management_by_default(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD, &diag);

	(void)state;
	assert_int_equal(config->management_port_count, 1);
	assert_int_equal(config->management_ports[0], 22);
	config_free(&config);
}

static void max_wait_beyond_the_deadline_is_a_warning(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD "    accept_queue: {max_wait: 2s}\n", &diag);
	const char *parts[] = {"test.yaml:5: ", "accept_queue.max_wait: 2s is longer than deadline, 800ms (default)"};

	(void)state;
	assert_true(has_message(diag.warnings, diag.warning_count, parts, 2));
	diag_reset(&diag);
	config_free(&config);
}

static void what_asks_for_nothing_is_no_warning(void **state)
{
	struct diag diag = {};
	struct config *config =
		parse_good(HEAD "    profile: none\n    depends_on: []\n    shed: {law: static, fallback: none}\n"
				"    http: none\ndscp_trust: []\n",
			   &diag);

	(void)state;
	if (diag.warning_count)
		fail_msg("%s", diag.warnings[0]);
	config_free(&config);
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/sluice-test-config-XXXXXX";
static char data[PATH_MAX]; /* tests/data/config of this checkout */

static int set_up(void **state)
{
	char self[PATH_MAX] = "";

	(void)state;
	if (!mkdtemp(dir) || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return -1;
	/* ROOT/build/unit/test_config */
	for (int i = 0; i < 3; i++)
		dirname(self);
	snprintf(data, sizeof(data), "%.4000s/tests/data/config", self);
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"sluice.yaml", "deny.txt", "allow.txt", "other.txt", "fifo", "directory"};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
	return rmdir(dir);
}

static const char *in_dir(const char *name)
{
	static char path[2][PATH_MAX];
	static int turn;

	turn ^= 1;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static void write_file(const char *name, const char *text, size_t len)
{
	FILE *file = fopen(in_dir(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	fclose(file);
}

static void put(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static char *slurp(const char *name, size_t *ret_len)
{
	char path[PATH_MAX + 64], *text = malloc(1 << 16);

	snprintf(path, sizeof(path), "%s/%s", data, name);
	FILE *file = fopen(path, "r");
	if (!file || !text)
		fail_msg("cannot read %s", path);
	*ret_len = fread(text, 1, (1 << 16) - 1, file);
	text[*ret_len] = 0;
	fclose(file);
	return text;
}

/* config_load() of a bad file: this errno, a message with these parts, output untouched. */
static void load_bad(const char *path, int wanted, const char *part, const char *other)
{
	struct diag diag = {};
	struct config *untouched = (void *)&diag, *config = untouched;
	const char *parts[] = {path, part, other};
	int err = config_load(path, &config, &diag);

	assert_ptr_equal(config, untouched);
	if (err != wanted || !has_message(diag.errors, diag.error_count, parts, 3))
		fail_msg("%s: %d, %s", path, err, diag.error_count ? diag.errors[0] : "no message");
	check_messages(&diag);
	diag_reset(&diag);
}

static struct config *load_good(const char *path, struct diag *diag)
{
	struct config *config = NULL;

	if (config_load(path, &config, diag))
		fail_msg("%s", diag->errors[0]);
	return config;
}

static void c130_files_that_are_none(void **state)
{
	char *big = calloc(1, (1 << 20) + 2);

	(void)state;
	load_bad(in_dir("missing.yaml"), -ENOENT, "cannot be read", "No such file");
	load_bad("/dev/null/x.yaml", -ENOTDIR, "cannot be read", NULL);
	load_bad("/dev/zero", -ENOTSUP, "not a regular file", NULL);
	mkdir(in_dir("directory"), 0700);
	load_bad(in_dir("directory"), -EISDIR, "is a directory", NULL);
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	load_bad(in_dir("fifo"), -ENOTSUP, "not a regular file", NULL);
	put("sluice.yaml", "");
	load_bad(in_dir("sluice.yaml"), -EINVAL, "empty", NULL);
	write_file("sluice.yaml", HEAD "\0\0\0", sizeof(HEAD) + 2);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "sluice.yaml:5:1:", "NUL");
	memset(big, '#', (1 << 20) + 1);
	write_file("sluice.yaml", big, (1 << 20) + 1);
	load_bad(in_dir("sluice.yaml"), -EFBIG, "larger than 1024 KiB", NULL);
	/* 100 MB, of which nothing is read. */
	assert_int_equal(truncate(in_dir("sluice.yaml"), 100 << 20), 0);
	load_bad(in_dir("sluice.yaml"), -EFBIG, "larger than 1024 KiB", NULL);
	/* Just 1 MiB is read. */
	memcpy(big, HEAD, sizeof(HEAD) - 1);
	write_file("sluice.yaml", big, 1 << 20);
	struct diag diag = {};
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	config_free(&config);
	free(big);
}

static void c130_unreadable_file(void **state)
{
	(void)state;
	put("sluice.yaml", HEAD);
	chmod(in_dir("sluice.yaml"), 0);
	chmod(dir, 0711);
	/* Root reads everything: be somebody else for a moment. */
	bool root = geteuid() == 0;
	if (root)
		assert_int_equal(seteuid(65534), 0);
	load_bad(in_dir("sluice.yaml"), -EACCES, "cannot be read: Permission denied", NULL);
	if (root)
		assert_int_equal(seteuid(0), 0);
	chmod(in_dir("sluice.yaml"), 0600);
}

/* Half-written: an error, or a complete smaller configuration; never a crash or a leak (ASan watches). */
static void c130_truncated_anywhere(void **state)
{
	size_t len, good = 0;
	char *text = slurp("complete.yaml", &len);

	(void)state;
	for (size_t cut = 0; cut < len; cut += 1 + cut % 5) {
		struct diag diag = {};
		char *half = malloc(cut ?: 1); /* exactly as long, for ASan */

		memcpy(half, text, cut);
		good += !parse_bad(half, cut, &diag);
		diag_reset(&diag);
		free(half);
	}
	/* Only behind the first whole service, and without the list that is beside the file. */
	assert_true(good < len / 5);
	free(text);
}

static void c130_bytes_changed_at_random(void **state)
{
	uint64_t seed = 88172645463325252ULL;
	size_t len, refused = 0;
	char *text = slurp("complete.yaml", &len), *changed = malloc(len);

	(void)state;
	for (int round = 0; round < 1000; round++) {
		struct diag diag = {};

		memcpy(changed, text, len);
		for (int i = 0; i <= round % 4; i++) {
			static const char pool[] = "{}[]:,&*!|>'\"%@-?#~0\n \t/\\<\x80\xff";

			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			changed[seed % len] = pool[(seed >> 32) % sizeof(pool)];
		}
		refused += parse_bad(changed, len, &diag) != 0;
		diag_reset(&diag);
	}
	assert_true(refused > 200);
	free(changed);
	free(text);
}

/* --- the complete file ---------------------------------------------------------------------------------------------- */

static struct config *load_complete(void)
{
	size_t len;
	char *text = slurp("complete.yaml", &len), *list;
	struct diag diag = {};

	write_file("sluice.yaml", text, len);
	free(text);
	list = slurp("deny.txt", &len);
	write_file("deny.txt", list, len);
	free(list);
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	check_messages(&diag);
	assert_true(diag.warning_count > 10);
	for (size_t i = 0; i < diag.warning_count; i++)
		if (!strstr(diag.warnings[i], "is read but not acted on by this version"))
			fail_msg("%s", diag.warnings[i]);
	diag_reset(&diag);
	return config;
}

static void complete_file_has_every_key(void **state)
{
	struct config *config = load_complete();

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		bool found = key->type == KEY_MAP || key->type == KEY_LIST || key->type == KEY_NAMED;

		for (size_t i = 0; !found && i < config->setting_count; i++)
			found = config->settings[i].key == key && config->settings[i].line;
		/* `http: none` stands for its block. */
		if (!found && strcmp(key->path, "services.http.status"))
			fail_msg("%s is not in complete.yaml", key->path);
	}
	assert_int_equal(config->trust_count, 5);
	assert_string_equal(config->trust[3].origin, "deny.txt:3");
	assert_int_equal(config->trust[3].cidr.prefix, 128);
	config_free(&config);
}

struct diff {
	char text[8192];
};

static void note(const char *key, const char *running, const char *file, void *arg)
{
	struct diff *diff = arg;
	size_t at = strlen(diff->text);

	snprintf(diff->text + at, sizeof(diff->text) - at, "%s: %s -> %s\n", key, running ? running : "-",
		 file ? file : "-");
}

/* Where complete.yaml does not say "example", it shows the default. */
static void complete_file_shows_the_defaults(void **state)
{
	static const char *const examples[] = {
		"breaker.mode", /* a block is there */
		"listen",       "[lag]", "signals", "source", "total", "trust", "weight", "[dns]",
	};
	struct config *complete = load_complete(), *least;
	struct diag diag = {};

	(void)state;
	least = parse_good("interfaces: [{name: eth0}]\nservices: [{name: web, listen: [\"192.0.2.1:80\"]}]\n", &diag);
	for (size_t i = 0; i < least->setting_count; i++) {
		const struct setting *setting = &least->settings[i];
		bool example = false;

		for (size_t j = 0; j < COUNT_OF(examples); j++)
			example |= strstr(setting->path, examples[j]) != NULL;
		if (!example && strcmp(setting->value, value_of(complete, setting->path)))
			fail_msg("%s: default %s, complete.yaml has %s", setting->path, setting->value,
				 value_of(complete, setting->path));
	}
	config_free(&least);
	config_free(&complete);
}

static void diff_names_what_changed(void **state)
{
	struct diag diag = {};
	struct config *a = parse_good(
		HEAD "    source: {rate: 20/s, burst: 40}\n    total: {rate: 60/m, burst: 5}\n" SECOND, &diag);
	struct config *b = parse_good("tables: {flows: 4096}\n" HEAD
				      "    source: {rate: 30/s, burst: 40}\n    total: {rate: 60/m, burst: 5}\n",
				      &diag);
	struct diff diff = {};
	int rows = config_diff(a, b, note, &diff);

	(void)state;
	assert_true(rows > 3);
	assert_non_null(strstr(diff.text, "services[web].source.rate: 20/s -> 30/s\n"));
	assert_non_null(strstr(diff.text, "tables.flows: 65536 -> 4096\n"));
	assert_non_null(strstr(diff.text, "services[api].name: api -> -\n"));
	assert_null(strstr(diff.text, "services[web].total"));
	assert_null(strstr(diff.text, "services[web].source.burst"));
	memset(&diff, 0, sizeof(diff));
	assert_int_equal(config_diff(a, a, note, &diff), 0);
	assert_string_equal(diff.text, "");
	assert_int_equal(config_diff(NULL, b, note, &diff), b->setting_count);
	config_free(&a);
	config_free(&b);
}

/* Another way of writing the same is no difference. */
static void diff_sees_values_not_spelling(void **state)
{
	struct diag diag = {};
	struct config *a = parse_good(HEAD "    accept_queue: {max_wait: 500ms, deadline: 1000ms}\n", &diag);
	struct config *b = parse_good(HEAD "    accept_queue:\n      deadline: 1s\n      max_wait: \"500ms\"\n", &diag);
	struct diff diff = {};

	(void)state;
	assert_int_equal(config_diff(a, b, note, &diff), 0);
	assert_true(a->hash != b->hash);
	diag_reset(&diag);
	config_free(&a);
	config_free(&b);
}

static void effective_is_json_with_origins(void **state)
{
	struct diag diag = {};
	struct config *config = parse_good(HEAD "    source: {rate: 20/s, burst: 40}\n", &diag);
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(config_effective(config, out), 0);
	fclose(out);
	assert_non_null(strstr(
		text,
		"\"key\": \"services[web].source.rate\",\n   \"value\": \"20/s\",\n   \"origin\": \"test.yaml:5\""));
	assert_non_null(
		strstr(text, "\"key\": \"failsafe.lease\",\n   \"value\": \"3s\",\n   \"origin\": \"default\""));
	assert_non_null(strstr(text,
			       "\"key\": \"services[web].shed.interval\",\n   \"value\": \"100ms\",\n   \"origin\": "
			       "\"default\",\n   \"acted_on\": false"));
	assert_non_null(strstr(text, "\"key\": \"services[web].shed.action\",\n   \"value\": \"drop\",\n   \"origin\": "
				     "\"default\",\n   \"acted_on\": true"));
	assert_int_equal(text[len - 1], '\n');
	free(text);
	config_free(&config);
}

/* --- list files ----------------------------------------------------------------------------------------------------- */

#define LISTED HEAD "trust:\n  - {file: deny.txt, action: deny}\n"

static void lists_are_read_beside_the_file(void **state)
{
	struct diag diag = {};

	(void)state;
	put("sluice.yaml", LISTED);
	put("deny.txt", "# bad ones\n\n192.0.2.0/24\n\t198.51.100.7 # one host\r\n2001:db8::/32");
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	assert_int_equal(config->trust_count, 3);
	assert_string_equal(config->trust[0].origin, "deny.txt:3");
	assert_string_equal(config->trust[1].origin, "deny.txt:4");
	assert_string_equal(config->trust[2].origin, "deny.txt:5");
	assert_int_equal(config->trust[1].action, TRUST_DENY);
	assert_int_equal(diag.warning_count, 0);

	/* A change of the list is a change of the configuration. */
	put("deny.txt", "192.0.2.0/24\n198.51.100.7\n2001:db8::/48\n");
	struct config *after = load_good(in_dir("sluice.yaml"), &diag);
	struct diff diff = {};
	assert_true(config->hash != after->hash);
	assert_int_equal(config_diff(config, after, note, &diff), 1);
	assert_non_null(strstr(diff.text, "trust[deny.txt].prefixes"));
	config_free(&config);
	config_free(&after);
}

static void bad_lists(void **state)
{
	static const struct {
		const char *text, *part, *other;
	} rows[] = {
		{"192.0.2.0/24\n\nnonsense\n", "deny.txt:3: \"nonsense\"", "sluice.yaml:6:"},
		{"192.0.2.1/24\n", "deny.txt:1: ", "write 192.0.2.0/24"},
		{"host.example.net\n", "deny.txt:1: ", "names are not looked up"},
		{"192.0.2.0/24 198.51.100.0/24\n", "deny.txt:1: ", NULL},
		{"192.0.2.0/24,\n", "deny.txt:1: ", NULL},
		{"", "has no prefix", NULL},
		{"# nothing\n", "has no prefix", NULL},
		{"\xff\xfe\n", "deny.txt:1: ", "\\xff\\xfe"},
	};

	(void)state;
	put("sluice.yaml", LISTED);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		put("deny.txt", rows[i].text);
		load_bad(in_dir("sluice.yaml"), -EINVAL, rows[i].part, rows[i].other);
	}
	write_file("deny.txt", "192.0.2.0/24\n\0\n", 15);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt:2: NUL", NULL);
	remove(in_dir("deny.txt"));
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt: cannot be read: No such file", NULL);
	mkdir(in_dir("deny.txt"), 0700);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt: is a directory", NULL);
	rmdir(in_dir("deny.txt"));
	put("deny.txt", "");
	assert_int_equal(truncate(in_dir("deny.txt"), 100 << 20), 0);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt: is larger than 16384 KiB", NULL);
}

static void deny_everyone_by_a_list(void **state)
{
	(void)state;
	put("sluice.yaml", LISTED);
	put("deny.txt", "192.0.2.0/24\n0.0.0.0/0\n");
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt:2: ", "would deny everyone");
	put("deny.txt", "::/0\n");
	load_bad(in_dir("sluice.yaml"), -EINVAL, "deny.txt:1: ", "would deny everyone");
}

static void old_lists_are_refused(void **state)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
	struct diag diag = {};

	(void)state;
	put("sluice.yaml", HEAD "trust:\n  - {file: deny.txt, action: deny, max_age: 24h}\n");
	put("deny.txt", "192.0.2.0/24\n");
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	config_free(&config);
	clock_gettime(CLOCK_REALTIME, &times[1]);
	times[1].tv_sec -= 25 * 3600;
	assert_int_equal(utimensat(AT_FDCWD, in_dir("deny.txt"), times, 0), 0);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "was written 25h ago", "max_age is 24h");
	/* Written in the future, by a host with another clock: not old. */
	times[1].tv_sec += 50 * 3600;
	assert_int_equal(utimensat(AT_FDCWD, in_dir("deny.txt"), times, 0), 0);
	config = load_good(in_dir("sluice.yaml"), &diag);
	config_free(&config);
}

static void write_many(const char *name, unsigned first, unsigned count)
{
	FILE *file = fopen(in_dir(name), "w");

	assert_non_null(file);
	for (unsigned i = first; i < first + count; i++)
		fprintf(file, "%u.%u.%u.%u\n", 1 + (i >> 24), i >> 16 & 255, i >> 8 & 255, i & 255);
	fclose(file);
}

static void c142_lists_longer_than_the_table(void **state)
{
	struct diag diag = {};

	(void)state;
	put("sluice.yaml", LISTED);
	write_many("deny.txt", 0, SLC_TRUST);
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	assert_int_equal(config->trust_count, SLC_TRUST);
	config_free(&config);

	write_many("deny.txt", 0, SLC_TRUST + 1);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "262145 prefixes", "at most 262144");

	/* By two lists, and by a list and a rule. */
	put("sluice.yaml", LISTED "  - {file: other.txt, action: deny}\n");
	write_many("deny.txt", 0, SLC_TRUST / 2 + 1);
	write_many("other.txt", SLC_TRUST, SLC_TRUST / 2);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "262145 prefixes", "at most 262144");
	write_many("deny.txt", 0, SLC_TRUST);
	put("sluice.yaml", LISTED "management: {cidrs: [192.0.2.0/24]}\n");
	load_bad(in_dir("sluice.yaml"), -EINVAL, "262145 prefixes", "1 management");

	/* Duplicates count once. */
	put("sluice.yaml", LISTED "  - {file: other.txt, action: deny}\n");
	write_many("other.txt", 0, SLC_TRUST);
	config = load_good(in_dir("sluice.yaml"), &diag);
	const char *parts[] = {"262144 prefixes stand more than once"};
	assert_true(has_message(diag.warnings, diag.warning_count, parts, 1));
	assert_int_equal(config->trust_count, SLC_TRUST);
	config_free(&config);
	diag_reset(&diag);
}

static void c142_more_allow_rules_than_ceilings(void **state)
{
	(void)state;
	put("sluice.yaml", HEAD "trust:\n  - {file: allow.txt, action: allow, ceiling: 1000/s}\n");
	write_many("allow.txt", 0, SLC_CEILINGS / 2);
	struct diag diag = {};
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	assert_int_equal(config->trust[7].ceiling.count, 1000);
	config_free(&config);
	write_many("allow.txt", 0, SLC_CEILINGS / 2 + 1);
	load_bad(in_dir("sluice.yaml"), -EINVAL, "2049 prefixes with action allow", "at most 2048");
}

static void c145_lists_add_up_and_may_not_contradict(void **state)
{
	struct diag diag = {};

	(void)state;
	put("sluice.yaml", LISTED "  - {cidr: 198.51.100.8, action: class, class: vip}\n"
				  "  - {cidr: \"2001:db8::8\", action: class, class: vip}\n");
	put("deny.txt", "192.0.2.0/24\n192.0.2.0/24\n");
	struct config *config = load_good(in_dir("sluice.yaml"), &diag);
	assert_int_equal(config->trust_count, 3);
	config_free(&config);
	diag_reset(&diag);
	/* The monitor is in the list of others as well: which of the two holds must not depend on their order. */
	put("deny.txt", "192.0.2.0/24\n::ffff:198.51.100.8\n");
	load_bad(in_dir("sluice.yaml"), -EINVAL, "198.51.100.8/32 stands in deny.txt:2 and in sluice.yaml:7",
		 "different rules");
}

/* --- limits set ------------------------------------------------------------------------------------------------------ */

static void limits_by_the_same_table(void **state)
{
	static const struct {
		const char *assignment, *part, *other;
	} rows[] = {
		{"source.rate=0/s", "source.rate: \"0/s\" is zero", "1/24h to 100000000/s"},
		{"source.rate=-1/s", "\"-1/s\" is negative", NULL},
		{"source.rate=20", "\"20\" has no unit", NULL},
		{"source.rate=", "\"\" is empty", NULL},
		{"source.rate=unlimited", "\"unlimited\" is for the configuration", NULL},
		{"source.rate=4294967296/s", "is too large", "100000000/s"},
		{"source.burst=0", "source.burst: \"0\" is zero", "from 1 to 1000000"},
		{"total.concurrent=0", "use deny or drain", "overrides release"},
		{"source.burst=40/s", "has a unit", NULL},
		{"source.concurrent=16777216", "is too large", "from 1 to 16777215"},
		{"total.concurrent=4294967297", "is too large", "from 1 to 1000000000"},
		{"total.rate=1/2h", "is too small", "1/h"},
		{"total.burst=100000001", "is too large", "100000000"},
		{"source.ipv4_prefix=24", "names no limit", "source.rate, source.burst"},
		{"rate=5/s", "names no limit", NULL},
		{"services.source.rate=5/s", "names no limit", NULL},
		{"=5/s", "names no limit", NULL},
		{"source.rate", "has no =", NULL},
		{"", "has no =", NULL},
	};
	struct limits_change change = {};
	char why[600];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct limits_change before = change;

		assert_int_equal(limits_assign(&change, rows[i].assignment, why, sizeof(why)), -EINVAL);
		assert_memory_equal(&before, &change, sizeof(change));
		if (!strstr(why, rows[i].part) || (rows[i].other && !strstr(why, rows[i].other)))
			fail_msg("%s: %s", rows[i].assignment, why);
	}
	assert_int_equal(limits_assign(&change, "source.rate=20/s", why, sizeof(why)), 0);
	assert_int_equal(limits_assign(&change, "source.burst=40", why, sizeof(why)), 0);
	assert_int_equal(limits_assign(&change, "source.concurrent=7", why, sizeof(why)), 0);
	assert_int_equal(limits_assign(&change, "total.rate=1/m", why, sizeof(why)), 0);
	assert_int_equal(limits_assign(&change, "total.burst=9", why, sizeof(why)), 0);
	assert_int_equal(limits_assign(&change, "total.concurrent=1000000000", why, sizeof(why)), 0);
	assert_int_equal(change.source_rate.count, 20);
	assert_int_equal(change.source_burst.value, 40);
	assert_int_equal(change.source_concurrent.value, 7);
	assert_int_equal(change.total_rate.per_ns, 60000000000);
	assert_int_equal(change.total_burst.value, 9);
	assert_true(change.total_concurrent.set);
	assert_int_equal(change.total_concurrent.value, 1000000000);
	assert_int_equal(limits_assign(&change, "source.rate=21/s", why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "source.rate is given twice"));
	assert_int_equal(change.source_rate.count, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_input_is_refused_with_its_place),
		cmocka_unit_test(c127_unknown_key_with_every_kind_of_value),
		cmocka_unit_test(c127_known_key_with_every_wrong_kind_of_value),
		cmocka_unit_test(junk_around_values_is_refused),
		cmocka_unit_test(every_default_is_valid_and_every_key_has_help),
		cmocka_unit_test(errors_are_collected_in_the_order_of_the_file),
		cmocka_unit_test(errors_are_capped),
		cmocka_unit_test(short_form_and_profile),
		cmocka_unit_test(exact_beside_wildcard),
		cmocka_unit_test(off_switches),
		cmocka_unit_test(c146_management_is_looked_after),
		cmocka_unit_test(c146_ssh_is_management_by_default),
		cmocka_unit_test(max_wait_beyond_the_deadline_is_a_warning),
		cmocka_unit_test(what_asks_for_nothing_is_no_warning),
		cmocka_unit_test(c130_files_that_are_none),
		cmocka_unit_test(c130_unreadable_file),
		cmocka_unit_test(c130_truncated_anywhere),
		cmocka_unit_test(c130_bytes_changed_at_random),
		cmocka_unit_test(complete_file_has_every_key),
		cmocka_unit_test(complete_file_shows_the_defaults),
		cmocka_unit_test(diff_names_what_changed),
		cmocka_unit_test(diff_sees_values_not_spelling),
		cmocka_unit_test(effective_is_json_with_origins),
		cmocka_unit_test(lists_are_read_beside_the_file),
		cmocka_unit_test(bad_lists),
		cmocka_unit_test(deny_everyone_by_a_list),
		cmocka_unit_test(old_lists_are_refused),
		cmocka_unit_test(c142_lists_longer_than_the_table),
		cmocka_unit_test(c142_more_allow_rules_than_ceilings),
		cmocka_unit_test(c145_lists_add_up_and_may_not_contradict),
		cmocka_unit_test(limits_by_the_same_table),
	};

	return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
