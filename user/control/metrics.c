// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/metrics_parts.h"

#include <errno.h>
#include <string.h>

#include "user/control/clock.h"
#include "user/control/order_text.h"
#include "user/control/overrides.h"
#include "user/control/status.h"

void metrics_escape(FILE *out, const char *value)
{
	bool utf8 = text_is_utf8(value, strlen(value));

	for (; *value; value++) {
		unsigned char c = *value;

		if (c == '\\' || c == '"')
			fprintf(out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", out);
		else
			fputc(c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) ? '?' : c, out);
	}
}

void metrics_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* name{label="value",...} : pairs of label and value, ended by NULL */
void metrics_series(FILE *out, const char *name, const char *const labels[][2])
{
	fputs(name, out);
	for (size_t i = 0; labels && labels[i][0]; i++) {
		fprintf(out, "%s%s=\"", i ? "," : "{", labels[i][0]);
		metrics_escape(out, labels[i][1]);
		fputc('"', out);
	}
	if (labels && labels[0][0])
		fputc('}', out);
	fputc(' ', out);
}

void metrics_count(FILE *out, const char *name, const char *const labels[][2], uint64_t value)
{
	metrics_series(out, name, labels);
	fprintf(out, "%llu\n", (unsigned long long)value);
}

void metrics_ratio(FILE *out, const char *name, const char *const labels[][2], double value)
{
	metrics_series(out, name, labels);
	fprintf(out, "%.6f\n", value);
}

void metrics_seconds(FILE *out, const char *name, const char *const labels[][2], uint64_t ns)
{
	metrics_series(out, name, labels);
	fprintf(out, "%llu.%09llu\n", (unsigned long long)(ns / NS_PER_S), (unsigned long long)(ns % NS_PER_S));
}

/* --- services ------------------------------------------------------------------------------------------------------ */

static const char *const verdict_names[] = {[SLC_PASS] = "pass", [SLC_DROP] = "drop", [SLC_REFUSE] = "refuse"};

static void reasons_of(const struct page *page, const char *name, const char *service,
		       const struct slc_reasons *reasons)
{
	const uint64_t *counts = reason_counts(reasons);

	for (unsigned int r = 0; r < SLC_REASON_COUNT; r++)
		metrics_count(page->out, name,
			      LABELS({"service", service}, {"reason", reason_info[r].name},
				     {"verdict", verdict_names[reason_info[r].verdict]}),
			      counts[r]);
}

static void put_reasons(const struct page *page)
{
	metrics_family(page->out, "sluice_packets_total", "counter",
		       "Packets by the one reason that decided; service is empty for packets to no service.");
	reasons_of(page, "sluice_packets_total", "", &page->host.enforced);
	for (size_t i = 0; i < page->d->service_count; i++)
		reasons_of(page, "sluice_packets_total", page->d->services[i]->policy.name,
			   &page->counters[i].enforced);

	metrics_family(
		page->out, "sluice_dry_run_total", "counter",
		"Packets that a stage in dry run would have refused; each has its one reason in sluice_packets_total.");
	for (size_t i = 0; i < page->d->service_count; i++) {
		const uint64_t *counts = reason_counts(&page->counters[i].dry);

		for (unsigned int r = 0; r < SLC_REASON_COUNT; r++) {
			if (reason_info[r].verdict == SLC_REFUSE)
				metrics_count(page->out, "sluice_dry_run_total",
					      LABELS({"service", page->d->services[i]->policy.name},
						     {"reason", reason_info[r].name}),
					      counts[r]);
		}
	}
}

/* Plain counters of struct slc_counters. */
static const struct {
	const char *name, *help;
	size_t offset;
} counter_table[] = {
	{"sluice_attempts_total", "New connections and UDP flows tried, retransmits not.",
	 offsetof(struct slc_counters, attempts)},
	{"sluice_resets_total", "Refusals answered with a reset.", offsetof(struct slc_counters, resets)},
	{"sluice_resets_held_total", "Resets over their bound: dropped.", offsetof(struct slc_counters, resets_held)},
	{"sluice_sources_inherited_total", "New sources that took over the debt of an evicted one.",
	 offsetof(struct slc_counters, inherited)},
	{"sluice_flows_evicted_total", "Live flow records evicted.", offsetof(struct slc_counters, flow_evicted)},
	{"sluice_gate_blind_total", "Attempts whose accept queue could not be judged.",
	 offsetof(struct slc_counters, gate_blind)},
	{"sluice_events_lost_total", "Events over their budget, or with the ring full.",
	 offsetof(struct slc_counters, events_lost)},
};

static void put_counters(const struct page *page)
{
	for (size_t t = 0; t < sizeof(counter_table) / sizeof(counter_table[0]); t++) {
		metrics_family(page->out, counter_table[t].name, "counter", counter_table[t].help);
		for (size_t i = 0; i < page->d->service_count; i++)
			metrics_count(page->out, counter_table[t].name,
				      LABELS({"service", page->d->services[i]->policy.name}),
				      *(const uint64_t *)((const char *)&page->counters[i] + counter_table[t].offset));
	}
}

/* Plain words of struct slc_signals. */
static const struct {
	const char *name, *type, *help;
	size_t offset;
} signal_table[] = {
	{"sluice_open_connections", "gauge", "Connections established since the start and not closed.",
	 offsetof(struct slc_signals, open)},
	{"sluice_held_connections", "gauge", "Of the open ones, those that the application has not closed.",
	 offsetof(struct slc_signals, held)},
	{"sluice_closed_total", "counter", "Connections closed.", offsetof(struct slc_signals, closed)},
	{"sluice_closed_by_reset_total", "counter", "Of the closed ones, those ended by a reset of either side.",
	 offsetof(struct slc_signals, reset)},
	{"sluice_cold_full_total", "counter", "New sources without an entry: their open connections are not limited.",
	 offsetof(struct slc_signals, cold_full)},
	{"sluice_ring_full_total", "counter", "Listeners without an arrival ring.",
	 offsetof(struct slc_signals, ring_full)},
	{"sluice_unmatched_total", "counter", "Connections established without a flow record.",
	 offsetof(struct slc_signals, unmatched)},
};

static void put_signals(const struct page *page)
{
	for (size_t t = 0; t < sizeof(signal_table) / sizeof(signal_table[0]); t++) {
		metrics_family(page->out, signal_table[t].name, signal_table[t].type, signal_table[t].help);
		for (size_t i = 0; i < page->d->service_count; i++) {
			const char *signals =
				(const char *)datapath_signals(page->d->dp, page->d->services[i]->policy.state);

			metrics_count(page->out, signal_table[t].name,
				      LABELS({"service", page->d->services[i]->policy.name}),
				      *(const uint64_t *)(signals + signal_table[t].offset));
		}
	}
}

static void put_classes(const struct page *page)
{
	struct daemon *d = page->d;

	metrics_family(page->out, "sluice_admitted_total", "counter", "First admissions by class of the source.");
	for (size_t i = 0; i < d->service_count; i++) {
		for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
			metrics_count(page->out, "sluice_admitted_total",
				      LABELS({"service", d->services[i]->policy.name}, {"class", class_names[c]}),
				      page->counters[i].admitted[c]);
	}
	metrics_family(page->out, "sluice_established_total", "counter",
		       "Connections established by class of the source.");
	for (size_t i = 0; i < d->service_count; i++) {
		const struct slc_signals *signals = datapath_signals(d->dp, d->services[i]->policy.state);

		for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
			metrics_count(page->out, "sluice_established_total",
				      LABELS({"service", d->services[i]->policy.name}, {"class", class_names[c]}),
				      signals->established[c]);
	}
	metrics_family(page->out, "sluice_completion_ratio", "gauge",
		       "Part of the admitted that becomes connections, as the gate uses it.");
	for (size_t i = 0; i < d->service_count; i++) {
		for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++) {
			metrics_ratio(page->out, "sluice_completion_ratio",
				      LABELS({"service", d->services[i]->policy.name}, {"class", class_names[c]}),
				      d->services[i]->decision.completion_q16[c] / 65536.0);
		}
	}
}

static void put_queues(const struct page *page)
{
	struct daemon *d = page->d;

	metrics_family(page->out, "sluice_accept_queue_length", "gauge", "Waiting in the fullest listener.");
	for (size_t i = 0; i < d->service_count; i++) {
		if (d->services[i]->queue.listeners)
			metrics_count(page->out, "sluice_accept_queue_length",
				      LABELS({"service", d->services[i]->policy.name}), d->services[i]->queue.length);
	}
	metrics_family(page->out, "sluice_accept_queue_limit", "gauge", "Backlog of the fullest listener.");
	for (size_t i = 0; i < d->service_count; i++) {
		if (d->services[i]->queue.listeners)
			metrics_count(page->out, "sluice_accept_queue_limit",
				      LABELS({"service", d->services[i]->policy.name}), d->services[i]->queue.limit);
	}
	metrics_family(page->out, "sluice_accept_queue_head_age_seconds", "gauge",
		       "Age of the oldest connection waiting.");
	for (size_t i = 0; i < d->service_count; i++) {
		if (d->services[i]->queue.has_head_age)
			metrics_seconds(page->out, "sluice_accept_queue_head_age_seconds",
					LABELS({"service", d->services[i]->policy.name}),
					d->services[i]->queue.head_age_ns);
	}
	metrics_family(page->out, "sluice_listeners", "gauge", "Listeners that the service's connections reach.");
	for (size_t i = 0; i < d->service_count; i++)
		metrics_count(page->out, "sluice_listeners", LABELS({"service", d->services[i]->policy.name}),
			      d->services[i]->queue.listeners);
	metrics_family(page->out, "sluice_handshake_seconds", "gauge",
		       "P90 of SYN to established, as the gate uses it.");
	for (size_t i = 0; i < d->service_count; i++)
		metrics_seconds(page->out, "sluice_handshake_seconds", LABELS({"service", d->services[i]->policy.name}),
				d->services[i]->decision.handshake_ns);
	metrics_family(page->out, "sluice_before_start_connections", "gauge",
		       "Connections from before the start, not in sluice_open_connections.");
	for (size_t i = 0; i < d->service_count; i++)
		metrics_count(page->out, "sluice_before_start_connections",
			      LABELS({"service", d->services[i]->policy.name}), d->services[i]->before_start);
	metrics_family(page->out, "sluice_draining", "gauge", "1 while the service drains.");
	for (size_t i = 0; i < d->service_count; i++)
		metrics_count(page->out, "sluice_draining", LABELS({"service", d->services[i]->policy.name}),
			      overrides_draining(d, d->services[i]));
}

/* --- the host --------------------------------------------------------------------------------------------------------- */

static void put_host(const struct page *page)
{
	struct daemon *d = page->d;
	const struct datapath_modes *datapath = datapath_modes(d->dp);
	uint64_t until_ns = __atomic_load_n(&datapath_control(d->dp)->lease_until_ns, __ATOMIC_RELAXED);
	bool modes[MODE_COUNT];
	char build[32];

	snprintf(build, sizeof(build), "%016llx", (unsigned long long)datapath->build_id);
	metrics_family(page->out, "sluice_build_info", "gauge", "Always 1; version and program of this daemon.");
	metrics_count(page->out, "sluice_build_info", LABELS({"version", SLUICE_VERSION}, {"build_id", build}), 1);

	metrics_family(page->out, "sluice_interface_info", "gauge", "Always 1; how the program is attached.");
	for (size_t i = 0; i < d->interface_count; i++) {
		const struct interface *iface = &d->interfaces[i];

		metrics_count(page->out, "sluice_interface_info",
			      LABELS({"interface", iface->config.name},
				     {"mode", iface->attached ? attach_names[iface->state.mode] : "none"}),
			      1);
	}
	metrics_family(page->out, "sluice_failsafe", "gauge",
		       "1 while the lease has lapsed and failsafe.on_loss acts.");
	metrics_count(page->out, "sluice_failsafe", NULL, until_ns <= page->now_ns);
	metrics_family(page->out, "sluice_lease_seconds", "gauge", "Time until the lease lapses.");
	metrics_seconds(page->out, "sluice_lease_seconds", NULL, until_ns > page->now_ns ? until_ns - page->now_ns : 0);
	metrics_family(page->out, "sluice_lease_lapses_total", "counter",
		       "Gaps between ticks that were longer than the lease.");
	metrics_count(page->out, "sluice_lease_lapses_total", NULL, d->tick.lapses);

	modes_now(d, page->now_ns, modes);
	metrics_family(page->out, "sluice_mode", "gauge", "1 while the degraded mode holds.");
	for (unsigned int m = 0; m < MODE_COUNT; m++)
		metrics_count(page->out, "sluice_mode", LABELS({"mode", mode_names[m]}), modes[m]);
}

static void put_daemon(const struct page *page)
{
	struct daemon *d = page->d;

	metrics_family(page->out, "sluice_config_last_reload_success", "gauge",
		       "1 if the last load of the file succeeded.");
	metrics_count(page->out, "sluice_config_last_reload_success", NULL, d->reload_success);
	metrics_family(page->out, "sluice_config_last_success_timestamp_seconds", "gauge",
		       "When a file was last loaded.");
	metrics_count(page->out, "sluice_config_last_success_timestamp_seconds", NULL, d->loaded_wall_ms / 1000);
	metrics_family(page->out, "sluice_config_snapshot", "gauge", "Number of the live snapshot.");
	metrics_count(page->out, "sluice_config_snapshot", NULL, datapath_snapshot_number(d->dp));
	metrics_family(page->out, "sluice_tick_seconds", "summary", "Time that ticks took.");
	metrics_seconds(page->out, "sluice_tick_seconds_sum", NULL, d->tick.sum_ns);
	metrics_count(page->out, "sluice_tick_seconds_count", NULL, d->tick.count);
	metrics_family(page->out, "sluice_tick_seconds_max", "gauge", "Longest tick since the start.");
	metrics_seconds(page->out, "sluice_tick_seconds_max", NULL, d->tick.max_ns);
	metrics_family(page->out, "sluice_ticks_discarded_total", "counter",
		       "Ticks that began too long ago to be pushed.");
	metrics_count(page->out, "sluice_ticks_discarded_total", NULL, d->tick.discarded);
	metrics_family(page->out, "sluice_known_sources", "gauge", "Known-good sources.");
	metrics_count(page->out, "sluice_known_sources", NULL, d->known.live);
	metrics_family(page->out, "sluice_known_crowded_total", "counter",
		       "Looks at sources that earned it while their network or the table was full.");
	metrics_count(page->out, "sluice_known_crowded_total", NULL, d->known_crowded);
	metrics_family(page->out, "sluice_overrides", "gauge", "Overrides of operators in force, by kind.");
	for (int k = 0; k < OVERRIDE_KIND_COUNT; k++) {
		uint64_t n = 0;

		for (size_t i = 0; i < d->overrides.count; i++)
			n += (int)d->overrides.items[i]->kind == k;
		metrics_count(page->out, "sluice_overrides", LABELS({"kind", override_kind_names[k]}), n);
	}
}

int metrics_text(struct daemon *d, uint64_t now_ns, char **ret_text, size_t *ret_len)
{
	struct page page = {.d = d, .now_ns = now_ns};
	char *text = NULL;
	size_t len = 0;
	int err = 0;

	page.counters = calloc(d->service_count ? d->service_count : 1, sizeof(*page.counters));
	page.out = open_memstream(&text, &len);
	if (page.counters && page.out) {
		datapath_counters(d->dp, 0, &page.host);
		for (size_t i = 0; i < d->service_count; i++)
			datapath_counters(d->dp, d->services[i]->policy.state, &page.counters[i]);
		put_reasons(&page);
		put_counters(&page);
		put_signals(&page);
		put_classes(&page);
		metrics_put_signals(&page);
		put_queues(&page);
		put_host(&page);
		put_daemon(&page);
	} else {
		err = -ENOMEM;
	}
	if (page.out && fclose(page.out) != 0)
		err = -ENOMEM;
	free(page.counters);
	if (err) {
		free(text);
		return err;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}
