// SPDX-License-Identifier: GPL-2.0-only
/*
 * Values that follow from others of the same service: `auto`, and defaults that depend on what was given. What is in
 * force is stored, and shown as the setting's value; its origin says how it came about.
 */
#include "user/control/config_load.h"

#include <stdlib.h>
#include <string.h>

#define NS_S 1000000000ULL
#define SILENT_MIN_NS (5 * NS_S)

/* Replaces what the setting shows. `rule` stays behind the place in the file, where the word was given there. */
static void show(struct load *load, size_t service, const char *name, const char *value, const char *rule)
{
	const struct setting *found = config_service_setting(load, service, name);
	struct setting *setting = found ? &load->config->settings[found - load->config->settings] : NULL;
	char *shown, *origin;

	if (!setting)
		return;
	shown = strdup(value);
	if (asprintf(&origin, setting->line ? "%2$s, %1$s" : "%1$s", rule, setting->origin) < 0)
		origin = NULL;
	if (!shown || !origin) {
		load->report->oom = true;
		free(shown);
		free(origin);
		return;
	}
	free(setting->value);
	free(setting->origin);
	setting->value = shown;
	setting->origin = origin;
}

static void show_duration(struct load *load, size_t service, const char *name, uint64_t ns, const char *rule)
{
	char value[64];

	format_duration(ns, value, sizeof(value));
	show(load, service, name, value, rule);
}

static bool says(const struct load *load, size_t service, const char *name, const char *word)
{
	const struct setting *setting = config_service_setting(load, service, name);

	return setting && !strcmp(setting->value, word);
}

static bool is_given(const struct load *load, size_t service, const char *name)
{
	const struct setting *setting = config_service_setting(load, service, name);

	return setting && setting->line;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void resolve_times(struct load *load, size_t index)
{
	struct service_config *service = &load->config->services[index];
	struct breaker_config *breaker = &service->breaker;

	breaker->slow_after_ns = service->slow_after_ns;
	breaker->timeout_ns = service->timeout_ns;
	if (says(load, index, "breaker.silent", "auto")) {
		breaker->has_silent = true;
		breaker->silent_ns = larger(2 * service->timeout_ns, SILENT_MIN_NS);
		show_duration(load, index, "breaker.silent", breaker->silent_ns, "auto: max(2 x timeout, 5s)");
	}
	if (says(load, index, "breaker.max_half_open", "auto")) {
		breaker->max_half_open_ns = larger(breaker->open_cap_ns, 2 * service->timeout_ns);
		show_duration(load, index, "breaker.max_half_open", breaker->max_half_open_ns,
			      "auto: max(breaker.open.cap, 2 x timeout)");
	}
	/* The learned baseline is at most half of lat_ref: so is the one that stands in for it, unless it was given. */
	if (!is_given(load, index, "breaker.risk.base") && breaker->base_ns > breaker->lat_ref_ns / 2) {
		breaker->base_ns = breaker->lat_ref_ns / 2;
		show_duration(load, index, "breaker.risk.base", breaker->base_ns, "auto: half of breaker.risk.lat_ref");
	}
}

/* Fewer probes than the default asks successes of: all of them must succeed. */
static void resolve_close_after(struct load *load, size_t index)
{
	struct breaker_config *breaker = &load->config->services[index].breaker;
	char value[16];

	if (is_given(load, index, "breaker.close_after") || breaker->close_after <= breaker->probes)
		return;
	breaker->close_after = breaker->probes;
	snprintf(value, sizeof(value), "%u", breaker->close_after);
	show(load, index, "breaker.close_after", value, "auto: at most breaker.probes");
}

/* jitter is stored as its percentage; of the words only here is known which. */
static void resolve_jitter(struct load *load, size_t index)
{
	struct breaker_config *breaker = &load->config->services[index].breaker;

	breaker->jitter = says(load, index, "breaker.open.jitter", "full")   ? JITTER_FULL
			  : says(load, index, "breaker.open.jitter", "none") ? JITTER_NONE
									     : JITTER_PART;
}

static void show_failures(struct load *load, size_t index)
{
	const struct service_config *service = &load->config->services[index];
	char value[256] = "[";
	size_t at = 1;

	for (unsigned kind = 0; kind < SLC_OUTCOME_COUNT; kind++)
		if (service->failures >> kind & 1)
			at += (size_t)snprintf(value + at, sizeof(value) - at, "%s%s", at > 1 ? ", " : "",
					       schema_outcomes[kind]);
	snprintf(value + at, sizeof(value) - at, "]");
	show(load, index, "breaker.failures", value,
	     service->slow_is_failure ? "auto: failures by nature, and slow_is: failure" : "auto: failures by nature");
}

/* A list replaces the default, `slow` in it says what slow_is: failure says. Two that disagree: config_breaker. */
static void resolve_failures(struct load *load, size_t index)
{
	struct service_config *service = &load->config->services[index];

	if (says(load, index, "breaker.failures", "auto")) {
		if (service->slow_is_failure)
			service->failures |= 1u << SLC_OUT_slow;
		show_failures(load, index);
	} else if (service->failures & 1u << SLC_OUT_slow && !is_given(load, index, "slow_is")) {
		service->slow_is_failure = true;
		show(load, index, "slow_is", "failure", "breaker.failures");
	}
}

void config_resolve(struct load *load)
{
	for (size_t i = 0; i < load->config->service_count; i++) {
		resolve_times(load, i);
		resolve_close_after(load, i);
		resolve_jitter(load, i);
		resolve_failures(load, i);
	}
}
