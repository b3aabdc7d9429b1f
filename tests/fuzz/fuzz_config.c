// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any text through the configuration: it is taken or refused with a message, never half; what is taken compiles to a
 * snapshot, or that is refused with a message. A first byte below 8 picks one of the readers of single values instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "user/control/compile.h"
#include "user/control/config.h"
#include "tests/fuzz/fuzz.h"

/* --- single values: what is accepted is shown in a form that is accepted as the same ------------------------------- */

static char why[WHY_LEN];

static void one_rate(const char *text)
{
	struct rate rate = {0}, again = {0};
	char shown[128];
	uint64_t interval;

	if (parse_rate(text, &rate, why, sizeof(why)))
		return;
	format_rate(&rate, shown, sizeof(shown));
	HOLDS(!parse_rate(shown, &again, why, sizeof(why)));
	HOLDS((unsigned __int128)rate.count * again.per_ns == (unsigned __int128)again.count * rate.per_ns);
	if (!compile_rate(&rate, &interval, why, sizeof(why)))
		HOLDS(interval > 0);
}

static void one_duration(const char *text)
{
	uint64_t ns = 0, again = 0;
	char shown[128];

	if (parse_duration(text, &ns, why, sizeof(why)))
		return;
	format_duration(ns, shown, sizeof(shown));
	HOLDS(!parse_duration(shown, &again, why, sizeof(why)));
	HOLDS(ns == again);
}

static void one_percent(const char *text)
{
	uint16_t hundredths = 0, again = 0;
	char shown[64];

	if (parse_percent(text, &hundredths, why, sizeof(why)))
		return;
	format_percent(hundredths, shown, sizeof(shown));
	HOLDS(!parse_percent(shown, &again, why, sizeof(why)));
	HOLDS(hundredths == again);
}

static void one_cidr(const char *text)
{
	struct cidr cidr = {0}, again = {0};
	char shown[128];

	if (parse_cidr(text, &cidr, why, sizeof(why)))
		return;
	HOLDS(cidr.prefix <= 128);
	format_cidr(&cidr, shown, sizeof(shown));
	HOLDS(!parse_cidr(shown, &again, why, sizeof(why)));
	HOLDS(!memcmp(cidr.addr, again.addr, sizeof(cidr.addr)) && cidr.prefix == again.prefix);
}

static void one_count(const char *text)
{
	uint64_t count = 0;

	if (!parse_count(text, 1, 1000000, &count, why, sizeof(why)))
		HOLDS(count >= 1 && count <= 1000000);
}

static void one_limit(const char *text)
{
	struct limits_change change = {0};

	(void)limits_assign(&change, text, why, sizeof(why));
}

static void (*const VALUES[])(const char *text) = {one_rate, one_duration, one_percent, one_cidr, one_count, one_limit};

/* --- whole files ------------------------------------------------------------------------------------------------------ */

static void same(const char *key, const char *running, const char *file, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s: %s became %s\n", key, running, file);
	abort();
}

/* What was taken is shown as JSON that a strict parser reads, and differs in nothing from itself read once more. */
static void shown(const struct config *config, const char *input, size_t size)
{
	struct config *again = NULL;
	struct diag diag = {0};
	size_t length = 0;
	char *text = NULL;
	json_error_t error;
	json_t *json;
	FILE *out = open_memstream(&text, &length);

	HOLDS(out && !config_effective(config, out));
	fclose(out);
	json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fprintf(stderr, "%s at %d:\n%s\n", error.text, error.line, text);
	HOLDS(json);
	json_decref(json);
	free(text);
	HOLDS(!config_parse("fuzz", input, size, &again, &diag));
	HOLDS(config_diff(config, again, same, NULL) == 0);
	config_free(&again);
	diag_reset(&diag);
}

/* What others divide by, index with or compare deadlines by. */
static void consistent(const struct config *config, const struct service_config *service)
{
	const struct breaker_config *breaker = &service->breaker;

	HOLDS(breaker->buckets && breaker->window_ns && breaker->window_ns % breaker->buckets == 0);
	HOLDS(breaker->min_outcomes && breaker->fast_outcomes && breaker->fast_within_ns);
	HOLDS(breaker->probes && breaker->probes <= SLC_PROBES);
	HOLDS(breaker->close_after && breaker->close_after <= breaker->probes);
	HOLDS(breaker->open_base_ns && breaker->open_base_ns <= breaker->open_cap_ns);
	HOLDS(breaker->base_ns && breaker->base_ns < breaker->lat_ref_ns && breaker->err_ref);
	HOLDS(breaker->max_half_open_ns && breaker->ramp_from && breaker->ramp_step && breaker->ramp_every_ns);
	HOLDS(service->slow_after_ns && service->slow_after_ns <= service->timeout_ns);
	HOLDS(service->timeout_ns <= SLC_TIMEOUT_MAX_NS);
	HOLDS(breaker->slow_after_ns == service->slow_after_ns && breaker->timeout_ns == service->timeout_ns);
	HOLDS(!breaker->has_silent || breaker->silent_ns >= service->timeout_ns);
	HOLDS(!!(service->failures & 1u << SLC_OUT_slow) == service->slow_is_failure);
	HOLDS(service->failures && service->http_code_count <= SLC_HTTP_CODES);
	HOLDS(service->has_breaker || !breaker->enforce);
	for (size_t i = 0; i < service->depends_count; i++)
		HOLDS(service->depends_on[i] < config->service_count &&
		      &config->services[service->depends_on[i]] != service);
}

static void whole_file(const char *text, size_t size)
{
	struct config *config = NULL;
	struct snapshot *snapshot = NULL;
	struct diag diag = {0};
	int err = config_parse("fuzz", text, size, &config, &diag);

	if (err) {
		HOLDS(!config && diag.error_count);
	} else {
		HOLDS(config);
		shown(config, text, size);
		for (size_t i = 0; i < config->service_count; i++)
			consistent(config, &config->services[i]);
		if (!compile_snapshot(config, &snapshot, &diag))
			HOLDS(snapshot);
		else
			HOLDS(!snapshot && diag.error_count);
	}
	snapshot_free(&snapshot);
	config_free(&config);
	diag_reset(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (size && data[0] < 0x08)
		VALUES[data[0] % (sizeof(VALUES) / sizeof(*VALUES))](text + 1);
	else
		whole_file(text, size);
	free(text);
	return 0;
}

/* --- seeds ------------------------------------------------------------------------------------------------------------- */

static const char *const SEEDS[] = {
	"interfaces: [{name: eth0, mode: auto}]\n"
	"trust:\n"
	"  - {cidr: 192.0.2.0/24, action: class, class: vip}\n"
	"services:\n"
	"  - name: web\n"
	"    listen: [\"203.0.113.10:443\", \"[2001:db8::10]:443\"]\n"
	"    source: {rate: 20/s, burst: 40, concurrent: 200}\n"
	"    total: {rate: 5000/s, burst: 1000, concurrent: 20000}\n"
	"    accept_queue: {low: 50%, high: 90%, target: 20ms, max_wait: 250ms}\n",
	"interfaces: [{name: lo}]\nservices: [{name: a, listen: [\"*:1\"], source: {rate: 1/m, burst: 1}}]\n",
	"interfaces: [{name: lo, dscp_trust: true}]\nfailsafe: {hold: 7s}\ndscp_trust: [192.0.2.0/24]\n"
	"services:\n"
	"  - name: web\n"
	"    listen: [\"*:80\"]\n"
	"    profile: api\n"
	"    depends_on: [db]\n"
	"    breaker: {mode: enforce, window: 30s, buckets: 6, min_outcomes: 20, min_sources: 4, failure_rate: 45.5%,\n"
	"      fast: {outcomes: 50, within: 100ms}, consecutive: none, slow_rate: 70%, silent: auto,\n"
	"      failures: [unanswered, http_5xx, slow],\n"
	"      risk: {formula: log, err_ref: 31%, base: 50ms, lat_ref: 600ms, weights: [0.3, 0.7], open_at: 0.9},\n"
	"      open: {base: 3s, cap: 40s, jitter: 15%}, probes: 16, close_after: 4, probe: dyed, max_half_open: 9s,\n"
	"      ramp: {from: 20%, step: 5%, every: 2s}, health: {weights: [0.1, 0.2, 0.3, 0.4], gate: 80%}}\n"
	"    turns: tls\n"
	"    http: {status: [500, 502, 599]}\n"
	"    slow_after: 700ms\n"
	"    timeout: 4s\n"
	"  - {name: db, protocol: udp, listen: [\"*:53\"], turns: opaque, slow_is: failure, breaker: {failures: "
	"auto}}\n",
	"trust: [{cidr: \"::/0\", action: allow, ceiling: 1000/s}]\n",
	"a: &x [1, 2]\nb: *x\n<<: *x\n",
	"\x00"
	"20/s",
	"\x00"
	"1/m",
	"\x00"
	"18446744073709551615/ns",
	"\x01"
	"250ms",
	"\x01"
	"1h30m",
	"\x01"
	"1d",
	"\x02"
	"75%",
	"\x02"
	"0.01%",
	"\x03"
	"192.0.2.0/24",
	"\x03"
	"2001:db8::/32",
	"\x03"
	"::ffff:1.2.3.4/128",
	"\x04"
	"1000",
	"\x05"
	"source.rate=5/s",
	"\x05"
	"total.concurrent=unlimited",
};

/* The first argument that is no option is the corpus; libFuzzer reads it after this. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct stat st;

	for (int i = 1; i < *argc; i++) {
		const char *directory = (*argv)[i];

		if (directory[0] == '-')
			continue;
		if (stat(directory, &st) || !S_ISDIR(st.st_mode))
			break; /* one input to reproduce */
		for (size_t s = 0; s < sizeof(SEEDS) / sizeof(*SEEDS); s++) {
			/* a seed for value reader 0 begins with a NUL */
			size_t length = SEEDS[s][0] ? strlen(SEEDS[s]) : 1 + strlen(SEEDS[s] + 1);
			char path[4096];
			FILE *f;

			snprintf(path, sizeof(path), "%s/seed-%02zu", directory, s);
			f = fopen(path, "w");
			if (!f || fwrite(SEEDS[s], 1, length, f) != length || fclose(f)) {
				perror(path);
				exit(1);
			}
		}
		break;
	}
	return 0;
}
