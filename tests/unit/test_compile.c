// SPDX-License-Identifier: GPL-2.0-only
/* From configuration to snapshot: sweeps against arithmetic in 128 bits, and every field of a policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/control/compile.h"
#include "user/control/schema.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define HEAD "interfaces: [{name: eth0}]\nservices:\n  - name: web\n    listen: [\"192.0.2.1:80\"]\n"

typedef unsigned __int128 u128;

#define NS_S 1000000000ULL
#define DAYS26 ((u128)1 << 51) /* in ns: longest time to fill a bucket */

static struct config *parse(const char *text)
{
	struct config *config = NULL;
	struct diag diag = {};

	if (config_parse("test.yaml", text, strlen(text), &config, &diag))
		fail_msg("%s\n%s", diag.error_count ? diag.errors[0] : "no message", text);
	diag_reset(&diag);
	return config;
}

static struct snapshot *compile(const char *text)
{
	struct config *config = parse(text);
	struct snapshot *snapshot = NULL;
	struct diag diag = {};

	if (compile_snapshot(config, &snapshot, &diag))
		fail_msg("%s", diag.error_count ? diag.errors[0] : "no message");
	assert_int_equal(diag.error_count, 0);
	diag_reset(&diag);
	config_free(&config);
	return snapshot;
}

/* --- rates and buckets -------------------------------------------------------------------------------------------- */

/* What compile_rate() must say of count events per per_ns, from first principles. */
static void check_rate(uint64_t count, uint64_t per_ns)
{
	struct rate rate = {true, count, per_ns};
	u128 wanted = (u128)16 * per_ns, interval = (wanted + count - 1) / count;
	bool exact = (interval * count - wanted) * 1000 <= wanted && interval <= DAYS26 * 16;
	char why[WHY_LEN] = "";
	uint64_t got = 77;
	int err = compile_rate(&rate, &got, why, sizeof(why));

	if (err != (exact ? 0 : -ERANGE))
		fail_msg("%llu per %llu ns: %d %s", (unsigned long long)count, (unsigned long long)per_ns, err, why);
	if (err) {
		assert_int_equal(got, 77);
		assert_true(why[0]);
		return;
	}
	assert_true(got == interval);
	/* Never faster than asked, and at most 0.1 % slower. */
	assert_true((u128)got * count >= wanted);
	assert_true((u128)got * count * 1000 <= wanted * 1001);
}

static void c31_intervals_equal_the_model(void **state)
{
	static const uint64_t periods[] = {1000,        1000000,      NS_S,         60 * NS_S,
					   3600 * NS_S, 86400 * NS_S, 7 * NS_S + 1, 333333333};
	uint64_t seed = 88172645463325252ULL;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(periods); i++)
		for (int bits = 0; bits < 64; bits++)
			for (int delta = -1; delta <= 1; delta++)
				if ((1ULL << bits) + (uint64_t)(int64_t)delta)
					check_rate((1ULL << bits) + (uint64_t)(int64_t)delta, periods[i]);
	for (int i = 0; i < 100000; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		uint64_t scale = seed >> 58;
		check_rate(1 + (seed >> scale), 1 + (seed * 2685821657736338717ULL) % (86400 * NS_S));
	}
}

/* Refused ones name rates that are accepted. */
static void inexact_rates_name_those_that_can_be_held(void **state)
{
	char why[WHY_LEN];
	uint64_t interval;
	unsigned refused = 0;

	(void)state;
	for (uint64_t count = 10000000; count <= 100000000; count += 999983) {
		struct rate rate = {true, count, NS_S};
		unsigned long long slower, faster;

		if (!compile_rate(&rate, &interval, why, sizeof(why)))
			continue;
		refused++;
		const char *list = strstr(why, "; ");
		assert_non_null(list);
		assert_int_equal(sscanf(list, "; %llu/s or %llu/s can", &slower, &faster), 2);
		assert_true(slower < count && count < faster);
		rate.count = slower;
		assert_int_equal(compile_rate(&rate, &interval, why, sizeof(why)), 0);
		rate.count = faster;
		assert_int_equal(compile_rate(&rate, &interval, why, sizeof(why)), 0);
	}
	assert_true(refused > 10);
}

static void c31_depths_equal_the_model(void **state)
{
	static const uint64_t periods[] = {NS_S, 60 * NS_S, 3600 * NS_S, 86400 * NS_S};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(periods); i++)
		for (int rate_bits = 0; rate_bits < 27; rate_bits++)
			for (int burst_bits = 0; burst_bits < 32; burst_bits++) {
				struct bucket_config bucket = {{true, 1ULL << rate_bits, periods[i]}, 1u << burst_bits};
				uint64_t interval = 77, depth = 77, wanted;
				char why[WHY_LEN];

				if (compile_rate(&bucket.rate, &wanted, why, sizeof(why)))
					continue;
				u128 tau = (u128)wanted << burst_bits;
				int err = compile_bucket(&bucket, &interval, &depth, why, sizeof(why));
				if (tau > DAYS26 * 16) {
					assert_int_equal(err, -ERANGE);
					assert_int_equal(depth, 77);
					assert_non_null(strstr(why, "bursts of 1 to "));
					/* The burst it names is the largest that is accepted. */
					unsigned long long most;
					assert_int_equal(
						sscanf(strstr(why, "bursts of 1 to "), "bursts of 1 to %llu", &most),
						1);
					bucket.burst = (uint32_t)most;
					assert_int_equal(compile_bucket(&bucket, &interval, &depth, why, sizeof(why)),
							 0);
					bucket.burst++;
					assert_int_equal(compile_bucket(&bucket, &interval, &depth, why, sizeof(why)),
							 -ERANGE);
				} else {
					assert_int_equal(err, 0);
					assert_true(interval == wanted && depth == tau);
				}
			}
}

static void c32_values_come_back_as_set(void **state)
{
	static const struct {
		const char *limits;
		uint64_t total_interval16, total_depth16;
		uint32_t bulkhead;
	} rows[] = {
		{"total: {rate: 4294967295/h, burst: 1, concurrent: 1}", 13412, 13412, 1},
		{"total: {rate: 4294967296/h, burst: 2, concurrent: 999999999}", 13412, 26824, 999999999},
		{"total: {rate: 4294967297/h, burst: 100000000, concurrent: 1000000000}", 13412, 1341200000000,
		 1000000000},
		{"total: {rate: 100000000/s, burst: 100000000, concurrent: 65536}", 160, 16000000000, 65536},
		{"total: {rate: 1/h, burst: 600}", 57600000000000, 34560000000000000, 0},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		snprintf(text, sizeof(text), HEAD "    %s\n", rows[i].limits);
		struct snapshot *snapshot = compile(text);
		const struct slc_policy *policy = &snapshot->services[0].policy;

		assert_int_equal(policy->total_interval16, rows[i].total_interval16);
		assert_int_equal(policy->total_depth16, rows[i].total_depth16);
		assert_int_equal(policy->total_concurrent, rows[i].bulkhead);
		snapshot_free(&snapshot);
	}
}

static void source_limits_survive_their_unit(void **state)
{
	static const struct {
		uint64_t count, per_ns;
	} rates[] = {{1, 86400 * NS_S}, {1, 3600 * NS_S}, {1, 60 * NS_S},   {1, NS_S},
		     {7, NS_S},         {20, NS_S},       {999, NS_S},      {1000000, NS_S},
		     {3000000, NS_S},   {7777777, NS_S},  {100000000, NS_S}};
	struct config config = {.host_reset_rate = {true, 1000, NS_S}};
	unsigned accepted = 0, refused = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rates); i++)
		for (uint64_t burst = 1; burst <= 1000000; burst = burst * 3 + 1) {
			struct service_config service = {
				.name = "web",
				.source = {{true, rates[i].count, rates[i].per_ns}, (uint32_t)burst},
				.reset_rate = {true, 1000, NS_S},
			};
			struct snapshot_service out;
			const char *key;
			char why[WHY_LEN];

			if (compile_service(&config, &service, &out, &key, why, sizeof(why))) {
				assert_string_equal(key, "source.rate");
				refused++;
				continue;
			}
			accepted++;
			/* Some unit holds both: T within 0.1 %, tau within 2^30 of it. */
			unsigned shift = 0;
			while ((out.source_depth_ns16 + (16ULL << shift) - 1) / (16ULL << shift) > 1u << 30)
				shift++;
			u128 unit = (u128)16 << shift, held = (out.source_interval_ns16 + unit - 1) / unit * unit;
			u128 wanted = (u128)16 * rates[i].per_ns;
			assert_true(held * rates[i].count >= wanted);
			assert_true(held * rates[i].count * 1000 <= wanted * 1001);
			assert_true(out.source_interval_ns16 <= out.source_depth_ns16);
			free(out.overrides);
		}
	assert_true(accepted > 50 && refused > 10);
}

static void one_long_bucket_must_not_spoil_the_others(void **state)
{
	/* 26 days in 2^30 units are 2.1 ms each: 100000/s is not to be had beside it. */
	static const char text[] = HEAD
		"    source: {rate: 100000/s, burst: 10, overrides: [{cidr: 192.0.2.0/24, rate: 1/h, burst: 600}]}\n";
	struct config *config = (void *)&config;
	struct diag diag = {};

	(void)state;
	assert_int_equal(config_parse("test.yaml", text, strlen(text), &config, &diag), -EINVAL);
	assert_ptr_equal(config, &config);
	assert_non_null(strstr(diag.errors[0], "test.yaml:5:20: services[web].source.rate: no unit of time holds it"));
	diag_reset(&diag);
}

/* --- the bounds of the table -------------------------------------------------------------------------------------- */

static bool is_number(const struct schema_key *key)
{
	return key->type == KEY_COUNT || key->type == KEY_LIMIT || key->type == KEY_NUMBER ||
	       key->type == KEY_DURATION || key->type == KEY_PERCENT;
}

/* One step of the type's smallest unit beyond the bound. */
static void write_bound(const struct schema_key *key, uint64_t n, char *text, size_t len)
{
	struct value value = {.n = n};

	schema_format(key, &value, text, len);
}

static uint64_t step(const struct schema_key *key)
{
	return key->type == KEY_DURATION ? 1000 : 1;
}

static void expect(const struct schema_key *key, const char *text, bool good)
{
	struct value value;
	char why[WHY_LEN];
	int err = schema_value(key, text, &value, why, sizeof(why));

	if (!err != good)
		fail_msg("%s: %s: %s", key->path, text, err ? why : "accepted");
	if (err && (!strstr(why, text) || !strstr(why, "accepted")))
		fail_msg("%s: message lacks value or range: %s", key->path, why);
}

static void c148_every_number_is_bounded_on_both_sides(void **state)
{
	char text[64];
	unsigned numbers = 0;

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		if (!is_number(key))
			continue;
		numbers++;
		write_bound(key, key->max, text, sizeof(text));
		expect(key, text, true);
		write_bound(key, key->max + step(key), text, sizeof(text));
		expect(key, text, false);
		if (key->min) {
			write_bound(key, key->min, text, sizeof(text));
			expect(key, text, true);
			write_bound(key, key->min - step(key), text, sizeof(text));
			expect(key, text, false);
		}
		/* What is stored must fit where it is stored. */
		if (key->size && !key->item_size && key->type != KEY_LIMIT && key->size < 8)
			assert_true(key->max < 1ULL << (8 * key->size));
	}
	assert_true(numbers > 60);
}

static void c148_every_rate_is_bounded_on_both_sides(void **state)
{
	char text[64];

	(void)state;
	for (const struct schema_key *key = schema; key < schema + schema_count; key++) {
		if (key->type != KEY_RATE)
			continue;
		snprintf(text, sizeof(text), "%llu/s", (unsigned long long)key->max);
		expect(key, text, true);
		snprintf(text, sizeof(text), "%llu/s", (unsigned long long)key->max + 1);
		expect(key, text, false);
		format_rate(&(struct rate){true, 1, key->min}, text, sizeof(text));
		expect(key, text, true);
		snprintf(text, sizeof(text), "1/%llus", (unsigned long long)key->min / NS_S + 1);
		expect(key, text, false);
		/* The bounds themselves can be held. */
		struct rate fastest = {true, key->max, NS_S}, slowest = {true, 1, key->min};
		uint64_t interval;
		char why[WHY_LEN];
		assert_int_equal(compile_rate(&fastest, &interval, why, sizeof(why)), 0);
		assert_int_equal(compile_rate(&slowest, &interval, why, sizeof(why)), 0);
	}
}

/* Everything at its largest at once loads, compiles, and reads back. */
static void c148_all_limits_at_their_largest(void **state)
{
	struct snapshot *snapshot =
		compile(HEAD "    source: {rate: 100000000/s, burst: 1000000, concurrent: 16777215,\n"
			     "      wide: {rate: 100000000/s, burst: 1000000}}\n"
			     "    total: {rate: 100000000/s, burst: 100000000, concurrent: 1000000000}\n"
			     "    accept_queue: {low: 100%, high: 100%, max_wait: 300s, deadline: 3600s}\n");
	const struct snapshot_service *service = &snapshot->services[0];
	const struct slc_policy *policy = &service->policy;

	(void)state;
	assert_int_equal(service->source_interval_ns16, 160);
	assert_int_equal(service->source_depth_ns16, 160000000);
	assert_int_equal(service->wide_depth_ns16, 160000000);
	assert_int_equal(policy->source_concurrent, 16777215);
	assert_int_equal(policy->total_depth16, 16000000000);
	assert_int_equal(policy->total_concurrent, 1000000000);
	assert_int_equal(policy->high_q16, 65536);
	for (int c = 0; c < SLC_CLASS_COUNT; c++)
		assert_int_equal(policy->low_q16[c], 65536);
	assert_int_equal(policy->max_wait_ns, 300 * NS_S);
	snapshot_free(&snapshot);
}

/* --- a policy, field by field ------------------------------------------------------------------------------------- */

static void nothing_said_is_no_limit_but_the_gate(void **state)
{
	struct snapshot *snapshot = compile(HEAD);
	const struct slc_policy *policy = &snapshot->services[0].policy;

	(void)state;
	assert_int_equal(snapshot->service_count, 1);
	/* What classes may use of a total is there for one that an operator orders. */
	assert_int_equal(policy->flags, SLC_P_GATE | SLC_P_MIN_SHARE);
	assert_int_equal(policy->theta_q16[SLC_CLASS_stranger], 65536 / 2);
	assert_string_equal(policy->name, "web");
	assert_int_equal(policy->proto, IPPROTO_TCP);
	assert_int_equal(policy->dry, 0);
	assert_int_equal(policy->v4_prefix, 32);
	assert_int_equal(policy->v6_prefix, 64);
	assert_int_equal(policy->max_wait_ns, 250000000);
	assert_int_equal(policy->target_ns, 20000000);
	assert_int_equal(policy->high_q16, 58982); /* 0.9 x 65536, down */
	assert_int_equal(policy->low_q16[SLC_CLASS_vip], 58982);
	assert_int_equal(policy->low_q16[SLC_CLASS_known], 32768 + (58982 - 32768) * 9 / 10);
	assert_int_equal(policy->low_q16[SLC_CLASS_stranger], 32768 + (58982 - 32768) / 2);
	assert_int_equal(policy->low_q16[SLC_CLASS_low], 32768 + (58982 - 32768) / 4);
	assert_int_equal(policy->reset_interval16, 16 * NS_S / 10000);
	assert_int_equal(policy->reset_depth16, 16 * NS_S);
	assert_int_equal(snapshot->global.on_loss, SLC_ON_LOSS_static);
	assert_int_equal(snapshot->global.fragments_drop, 0);
	assert_int_equal(snapshot->global.ip_options_drop, 0);
	assert_int_equal(snapshot->global.unparseable_pass, 0);
	assert_int_equal(snapshot->global.has_trust, 0);
	assert_int_equal(snapshot->global.has_exact, 1);
	assert_int_equal(snapshot->global.has_wildcard, 0);
	assert_int_equal(snapshot->global.event_interval16, 16 * NS_S / 1000);
	assert_int_equal(snapshot->global.event_depth16, 16 * NS_S);
	assert_int_equal(snapshot->global.reset_interval16, 16 * NS_S / 10000);
	assert_int_equal(snapshot->management_port_count, 1);
	assert_int_equal(snapshot->management_ports[0], 22);
	snapshot_free(&snapshot);
}

static void everything_said_reaches_the_policy(void **state)
{
	struct snapshot *snapshot = compile(
		"interfaces: [{name: eth0}]\n"
		"parser: {fragments: drop, ip_options: drop, unparseable: pass}\n"
		"failsafe: {on_loss: closed}\n"
		"management: {ports: [22, 2222], cidrs: [10.0.0.0/8]}\n"
		"classes: {vip: {min: none}, known: {depth: 80%, min: 10%}, stranger: {depth: 40%, min: 1%}, low: "
		"{min: none}}\n"
		"services:\n"
		"  - name: web\n"
		"    listen: [\"*:443\", \"192.0.2.1:443\", \"[2001:db8::1]:8443\"]\n"
		"    netns: blue\n"
		"    dry_run: [gate, source]\n"
		"    source: {rate: 20/s, burst: 40, concurrent: 200, ipv4_prefix: 24, ipv6_prefix: 56, vlan: true,\n"
		"      wide: {ipv4_prefix: 16, ipv6_prefix: 40, rate: 400/s, burst: 800},\n"
		"      overrides: [{cidr: 203.0.113.64/28, rate: 1/m, burst: 3}]}\n"
		"    total: {rate: 5000/s, burst: 1000, concurrent: 20000}\n"
		"    accept_queue: none\n"
		"    shed: {action: reset, reset_rate: 100/s}\n");
	const struct snapshot_service *service = &snapshot->services[0];
	const struct slc_policy *policy = &service->policy;

	(void)state;
	assert_int_equal(policy->flags, SLC_P_SOURCE | SLC_P_WIDE | SLC_P_OVERRIDES | SLC_P_TOTAL | SLC_P_CONCURRENT |
						SLC_P_BULKHEAD | SLC_P_RESET | SLC_P_VLAN | SLC_P_NETNS |
						SLC_P_MIN_SHARE);
	assert_int_equal(policy->dry, 1u << SLC_STAGE_gate | 1u << SLC_STAGE_source);
	assert_int_equal(policy->v4_prefix, 24);
	assert_int_equal(policy->v6_prefix, 56);
	assert_int_equal(policy->wide_v4_prefix, 16);
	assert_int_equal(policy->wide_v6_prefix, 40);
	assert_int_equal(service->source_interval_ns16, 800000000);
	assert_int_equal(service->source_depth_ns16, 40 * 800000000ULL);
	assert_int_equal(service->wide_interval_ns16, 40000000);
	assert_int_equal(service->wide_depth_ns16, 800 * 40000000ULL);
	assert_int_equal(service->override_count, 1);
	assert_int_equal(service->overrides[0].interval_ns16, 960 * NS_S);
	assert_int_equal(service->overrides[0].depth_ns16, 3 * 960 * NS_S);
	assert_int_equal(service->overrides[0].prefix, 96 + 28);
	assert_memory_equal(service->overrides[0].addr + 12, ((uint8_t[]){203, 0, 113, 64}), 4);
	assert_int_equal(policy->source_concurrent, 200);
	assert_int_equal(policy->total_concurrent, 20000);
	assert_int_equal(policy->total_interval16, 3200000);
	assert_int_equal(policy->total_depth16, 3200000000);
	assert_int_equal(policy->theta_q16[SLC_CLASS_vip], 65536);
	assert_int_equal(policy->theta_q16[SLC_CLASS_known], 65536 * 8 / 10);
	assert_int_equal(policy->theta_q16[SLC_CLASS_stranger], 65536 * 4 / 10);
	assert_int_equal(policy->theta_q16[SLC_CLASS_low], 16384);
	assert_int_equal(policy->share_inverse_q8[SLC_CLASS_vip], 0xffffffff);
	assert_int_equal(policy->share_inverse_q8[SLC_CLASS_known], 2560);
	assert_int_equal(policy->share_inverse_q8[SLC_CLASS_stranger], 25600);
	assert_int_equal(policy->share_inverse_q8[SLC_CLASS_low], 0xffffffff);
	assert_int_equal(policy->share_depth16, 16 * NS_S);
	assert_int_equal(policy->reset_interval16, 160000000);
	assert_int_equal(service->key_count, 4);
	assert_int_equal(service->keys[0].port, 443);
	assert_int_equal(service->keys[0].proto, IPPROTO_TCP);
	assert_memory_equal(service->keys[0].addr, ((uint8_t[16]){[10] = 0xff, 0xff}), 16);
	assert_memory_equal(service->keys[1].addr, ((uint8_t[16]){}), 16);
	assert_memory_equal(service->keys[2].addr + 12, ((uint8_t[]){192, 0, 2, 1}), 4);
	assert_int_equal(service->keys[3].port, 8443);
	assert_int_equal(snapshot->global.has_wildcard, 1);
	assert_int_equal(snapshot->global.has_exact, 1);
	assert_int_equal(snapshot->global.fragments_drop, 1);
	assert_int_equal(snapshot->global.ip_options_drop, 1);
	assert_int_equal(snapshot->global.unparseable_pass, 1);
	assert_int_equal(snapshot->global.on_loss, SLC_ON_LOSS_closed);
	assert_int_equal(snapshot->management_port_count, 2);
	assert_int_equal(snapshot->trust_count, 1);
	assert_int_equal(snapshot->trust[0].rule.action, SLC_ACTION_management);
	assert_int_equal(snapshot->trust[0].prefix, 104);
	snapshot_free(&snapshot);
}

static void udp_has_no_gate(void **state)
{
	struct snapshot *snapshot =
		compile("interfaces: [{name: eth0}]\nservices:\n  - {name: dns, protocol: udp, listen: "
			"[\"*:53\"], dry_run: all}\n");
	const struct slc_policy *policy = &snapshot->services[0].policy;

	(void)state;
	assert_int_equal(policy->flags, SLC_P_MIN_SHARE);
	assert_int_equal(policy->proto, IPPROTO_UDP);
	assert_int_equal(snapshot->services[0].keys[0].proto, IPPROTO_UDP);
	for (int stage = 0; stage < SLC_STAGE_COUNT; stage++)
		assert_int_equal(policy->dry >> stage & 1, stage != SLC_STAGE_parse);
	snapshot_free(&snapshot);
}

static void trust_rules(void **state)
{
	struct snapshot *snapshot = compile(HEAD "trust:\n"
						 "  - {cidr: 192.0.2.0/24, action: allow, ceiling: 1000/s}\n"
						 "  - {cidr: 192.0.2.7, action: allow, ceiling: 1/m}\n"
						 "  - {cidr: 198.51.100.0/24, action: class, class: low}\n"
						 "  - {cidr: \"2001:db8::/32\", action: deny}\n");
	const struct snapshot_rule *rules = snapshot->trust;

	(void)state;
	assert_int_equal(snapshot->trust_count, 4);
	assert_int_equal(snapshot->global.has_trust, 1);
	assert_int_equal(rules[0].rule.action, SLC_ACTION_allow);
	assert_int_equal(rules[0].rule.interval, 16000000);
	assert_int_equal(rules[0].rule.depth, 16 * NS_S);
	assert_int_equal(rules[0].prefix, 120);
	assert_int_equal(rules[1].rule.interval, 960 * NS_S);
	assert_int_equal(rules[1].rule.depth, 960 * NS_S); /* one at least */
	assert_int_equal(rules[2].rule.action, SLC_ACTION_class);
	assert_int_equal(rules[2].rule.class, SLC_CLASS_low);
	assert_int_equal(rules[3].rule.action, SLC_ACTION_deny);
	assert_int_equal(rules[3].prefix, 32);
	for (size_t i = 0; i < 4; i++) {
		assert_true(rules[i].rule.until_ns == SLC_FOREVER);
		assert_int_equal(rules[i].rule.id, i + 1);
		assert_memory_equal(rules[i].rule.pad, "\0\0\0", sizeof(rules[i].rule.pad));
	}
	snapshot_free(&snapshot);
}

/* --- what an outcome is ------------------------------------------------------------------------------------------- */

static void measure_of_a_service(void **state)
{
	struct snapshot *snapshot =
		compile(HEAD "    turns: server-first\n"
			     "    slow_after: 250ms\n"
			     "    timeout: 2s\n"
			     "    breaker: {failures: [unanswered, slow]}\n"
			     "  - {name: api, listen: [\"*:81\"], http: {status: [503, 504, 599]}}\n"
			     "  - {name: dns, protocol: udp, listen: [\"*:53\"], timeout: 1ms, slow_after: "
			     "1ms}\n");
	const struct slc_measure *web = &snapshot->services[0].measure, *api = &snapshot->services[1].measure;
	const struct slc_measure *dns = &snapshot->services[2].measure;

	(void)state;
	assert_int_equal(web->turns, SLC_TURNS_server_first);
	assert_int_equal(web->slow_after_ns, 250000000);
	assert_int_equal(web->timeout_ns, 2 * NS_S);
	assert_int_equal(web->failures, 1u << SLC_OUT_unanswered | 1u << SLC_OUT_slow);
	assert_int_equal(web->http, 0);
	assert_int_equal(web->uid, 0);
	assert_int_equal(api->turns, SLC_TURNS_auto);
	assert_int_equal(api->slow_after_ns, 400000000);
	assert_int_equal(api->timeout_ns, 5 * NS_S);
	assert_int_equal(api->failures, SLC_FAILURES_DEFAULT);
	assert_int_equal(api->http, 3);
	assert_memory_equal(api->http_codes, ((uint16_t[SLC_HTTP_CODES]){503, 504, 599}), sizeof(api->http_codes));
	assert_int_equal(dns->owed_shift, 24); /* not under 17 ms */
	snapshot_free(&snapshot);
}

/*
 * The smallest slots that hold: not a power of two larger, and 32 of them reach over four timeouts; and over the time until
 * a turn is counted: its 100 ms, the timeout, and two late ticks.
 */
static void owed_slots_fit_every_timeout(void **state)
{
	struct config config = {.host_reset_rate = {true, 1000, NS_S}};
	struct service_config service = {.name = "web", .reset_rate = {true, 1000, NS_S}};

	(void)state;
	for (uint64_t timeout = 1000000; timeout <= SLC_TIMEOUT_MAX_NS; timeout += timeout / 97) {
		struct snapshot_service out;
		const char *key;
		char why[WHY_LEN];

		service.timeout_ns = timeout;
		assert_int_equal(compile_service(&config, &service, &out, &key, why, sizeof(why)), 0);
		uint64_t slot = 1ULL << out.measure.owed_shift;
		assert_true(slot * 8 >= timeout);
		assert_true(SLC_OWED_SLOTS * slot >= 4 * timeout);
		assert_true(SLC_OWED_SLOTS * slot >= SLC_TURN_SLOT_NS + timeout + 2 * 100000000ULL);
		if (timeout > 8ULL << 24)
			assert_true(slot / 2 * 8 < timeout);
		else
			assert_int_equal(out.measure.owed_shift, 24);
	}
	/* The ring of 100 ms slots holds the longest timeout twice. */
	assert_true(SLC_TURN_SLOTS * SLC_TURN_SLOT_NS >= 2 * SLC_TIMEOUT_MAX_NS);
}

static void marks_and_hold(void **state)
{
	unsigned lo = if_nametoindex("lo");
	struct snapshot *snapshot =
		compile("interfaces: [{name: eth0}, {name: absent0, dscp_trust: true}, {name: lo, dscp_trust: true}]\n"
			"failsafe: {hold: 7s}\n"
			"dscp_trust: [192.0.2.0/24, \"2001:db8::/32\"]\n"
			"services:\n"
			"  - {name: web, listen: [\"*:80\"], breaker: {probe: dyed}}\n"
			"  - {name: api, listen: [\"*:81\"], breaker: {probe: any}}\n");

	(void)state;
	assert_true(lo > 0);
	assert_true(snapshot->services[0].policy.flags & SLC_P_DYED);
	assert_false(snapshot->services[1].policy.flags & SLC_P_DYED);
	assert_int_equal(snapshot->global.hold_ns, 7 * NS_S);
	assert_int_equal(snapshot->global.dscp_ifindex[0], lo); /* one that is not there takes no place */
	for (int i = 1; i < 4; i++)
		assert_int_equal(snapshot->global.dscp_ifindex[i], 0);
	assert_int_equal(snapshot->dscp_count, 2);
	assert_int_equal(snapshot->dscp[0].prefix, 120);
	assert_memory_equal(snapshot->dscp[0].addr + 12, ((uint8_t[]){192, 0, 2, 0}), 4);
	assert_int_equal(snapshot->dscp[1].prefix, 32);
	snapshot_free(&snapshot);

	snapshot = compile(HEAD);
	assert_int_equal(snapshot->global.hold_ns, 30 * NS_S);
	assert_int_equal(snapshot->global.dscp_ifindex[0], 0);
	assert_int_equal(snapshot->dscp_count, 0);
	assert_null(snapshot->dscp);
	snapshot_free(&snapshot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c31_intervals_equal_the_model),
		cmocka_unit_test(inexact_rates_name_those_that_can_be_held),
		cmocka_unit_test(c31_depths_equal_the_model),
		cmocka_unit_test(c32_values_come_back_as_set),
		cmocka_unit_test(source_limits_survive_their_unit),
		cmocka_unit_test(one_long_bucket_must_not_spoil_the_others),
		cmocka_unit_test(c148_every_number_is_bounded_on_both_sides),
		cmocka_unit_test(c148_every_rate_is_bounded_on_both_sides),
		cmocka_unit_test(c148_all_limits_at_their_largest),
		cmocka_unit_test(nothing_said_is_no_limit_but_the_gate),
		cmocka_unit_test(everything_said_reaches_the_policy),
		cmocka_unit_test(udp_has_no_gate),
		cmocka_unit_test(trust_rules),
		cmocka_unit_test(measure_of_a_service),
		cmocka_unit_test(owed_slots_fit_every_timeout),
		cmocka_unit_test(marks_and_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
