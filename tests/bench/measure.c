// SPDX-License-Identifier: GPL-2.0-only
/* measure.c: what is measured, in rounds that visit every scenario in turn, so that a busy moment hits all alike. */
#include <errno.h>
#include <string.h>

#include "maps/abi.h"
#include "tests/bench/bench.h"

#define SLICE 20000 /* frames per CPU: 2 ms of bare drops */
#define RUNS 50000 /* repeats of a PROG_TEST_RUN */
#define FILL_UNICAST 1500000 /* random sources that fill every table under test */

const struct scenario_info scenarios[SCENARIO_COUNT] = {
	[BARE_DROP] = {"bare_drop", "bare XDP_DROP", SUBJECT_DROP, BARE_DROP, PORT_SOURCE, false},
	[BARE_TOUCH] = {"bare_touch", "bare + 1 line of 8M", SUBJECT_TOUCH, BARE_DROP, PORT_SOURCE, false},
	[BARE_PASS] = {"bare_pass", "bare XDP_PASS", SUBJECT_PASS, BARE_PASS, PORT_SOURCE, false},
	[REFUSED_SOURCE] = {"refused_source", "refused, source", SUBJECT_SLUICE, BARE_DROP, PORT_SOURCE, false},
	[REFUSED_TOTAL] = {"refused_total", "refused, total", SUBJECT_SLUICE, BARE_DROP, PORT_TOTAL, false},
	[ESTABLISHED] = {"established", "established", SUBJECT_SLUICE, BARE_PASS, PORT_SOURCE, true},
	[ADMITTED] = {"admitted", "admitted, gate", SUBJECT_SLUICE, BARE_PASS, PORT_GATE, false},
	[NFT] = {"nftables", "nft set, raw", SUBJECT_NFT, BARE_DROP, PORT_SOURCE, false},
	[NFT_INGRESS] = {"nftables_ingress", "nft set, ingress", SUBJECT_NFT_INGRESS, BARE_DROP, PORT_SOURCE, false},
	[IPTABLES] = {"iptables_hashlimit", "iptables hashlimit", SUBJECT_IPTABLES, BARE_DROP, PORT_SOURCE, false},
};

const struct spread_info spreads[SPREADS] = {
	{1, "1", "1"},       {1000, "1 k", "1000"}, {100000, "100 k", "100000"}, {1000000, "1 M", "1000000"},
	{0, "2^32", "2^32"},
};

static bool wanted(const struct bench *bench, enum scenario scenario)
{
	return bench->sluice || scenarios[scenario].subject != SUBJECT_SLUICE;
}

static bool is_peer(enum subject subject)
{
	return subject == SUBJECT_NFT || subject == SUBJECT_NFT_INGRESS || subject == SUBJECT_IPTABLES;
}

static struct load load_of(const struct bench *bench, enum scenario scenario, const struct spread_info *spread)
{
	const struct scenario_info *info = &scenarios[scenario];

	return (struct load){
		.ifindex = topology_near(bench->topology, info->subject),
		.dport = info->dport,
		.ack = info->ack,
		.sources = spread->sources,
		.frames = SLICE,
		.cpus = 1,
	};
}

/* Every source once, so that the tables are as they are in the middle of such a flood. */
static int fill(struct bench *bench, enum scenario scenario, const struct spread_info *spread)
{
	struct load load = load_of(bench, scenario, spread);
	struct load_result result;

	if (scenarios[scenario].ack || scenario <= BARE_PASS)
		return 0;
	load.sweep = spread->sources != 0;
	load.frames = spread->sources ?: FILL_UNICAST;
	return loader_run(bench->loader, &load, &result);
}

/* --- which verdict the frames met ------------------------------------------------------------------------------- */

struct verdicts {
	uint64_t limited, all;
};

static uint64_t sum_reasons(const struct slc_reasons *reasons)
{
	const __u64 *numbers = (const __u64 *)reasons;
	uint64_t sum = 0;

	for (int i = 0; i < SLC_REASON_COUNT; i++)
		sum += numbers[i];
	return sum;
}

static int verdicts_of(struct bench *bench, enum scenario scenario, struct verdicts *ret)
{
	const struct scenario_info *info = &scenarios[scenario];
	struct slc_counters counters;
	uint64_t within;
	int r;

	*ret = (struct verdicts){};
	if (is_peer(info->subject)) {
		r = topology_peer_counters(bench->topology, info->subject, &ret->limited, &within);
		ret->all = ret->limited + within;
		return r;
	}
	if (info->subject != SUBJECT_SLUICE)
		return 0;
	r = sluice_counters(bench->sluice, info->dport, &counters);
	if (r)
		return r;
	ret->all = sum_reasons(&counters.enforced);
	switch (scenario) {
	case REFUSED_SOURCE:
		ret->limited = counters.enforced.rate_limited;
		ret->all -= counters.enforced.established; /* shares the port */
		break;
	case REFUSED_TOTAL:
		ret->limited = counters.enforced.service_rate;
		break;
	case ESTABLISHED:
		ret->limited = ret->all = counters.enforced.established;
		break;
	default:
		ret->limited = counters.enforced.admitted;
	}
	return 0;
}

/* --- live frames ---------------------------------------------------------------------------------------------------- */

/* Somebody else on the CPU spoils a slice: try again, a few times. */
static int slice(struct bench *bench, const struct load *load, enum subject subject, struct cell *cell, double *ret_ns)
{
	struct load_result result = {};

	for (int attempt = 0; attempt < 4; attempt++) {
		uint32_t before, after;
		int r = topology_received(bench->topology, subject, &before);

		r = r ?: loader_run(bench->loader, load, &result);
		r = r ?: topology_received(bench->topology, subject, &after);
		if (r)
			return r;
		cell->sent += result.frames;
		cell->received += (uint32_t)(after - before);
		if (!result.disturbed)
			break;
	}
	bench->results->slices++;
	bench->results->disturbed += result.disturbed;
	*ret_ns = result.ns;
	return 0;
}

static int one_round(struct bench *bench, const struct spread_info *spread, unsigned cpus, struct cell *cells)
{
	double ns[SCENARIO_COUNT];

	for (int s = 0; s < SCENARIO_COUNT; s++) {
		struct load load = load_of(bench, s, spread);
		struct cell *cell = &cells[s];
		int r;

		if (!wanted(bench, s))
			continue;
		load.cpus = cpus;
		r = slice(bench, &load, scenarios[s].subject, cell, &ns[s]);
		if (r)
			return r;
		cell->ns[cell->rounds] = ns[s];
		cell->over[cell->rounds] = ns[s] - ns[scenarios[s].base];
		cell->rounds++;
	}
	return 0;
}

static int live_cells(struct bench *bench, const struct spread_info *spread, unsigned cpus, double until,
		      struct cell *cells)
{
	struct verdicts before[SCENARIO_COUNT] = {}, after;
	int r = 0;

	for (int s = 0; !r && s < SCENARIO_COUNT; s++)
		if (wanted(bench, s))
			r = verdicts_of(bench, s, &before[s]);
	for (unsigned i = 0; !r && i < bench->results->rounds; i++) {
		if (i >= BENCH_MIN_ROUNDS && seconds_now() > until)
			break;
		r = bench_stopped ? -EINTR : one_round(bench, spread, cpus, cells);
	}
	for (int s = 0; !r && s < SCENARIO_COUNT; s++) {
		cells[s].limited = -1;
		if (!wanted(bench, s))
			continue;
		r = verdicts_of(bench, s, &after);
		if (!r && after.all > before[s].all)
			cells[s].limited =
				(double)(after.limited - before[s].limited) / (double)(after.all - before[s].all);
	}
	return r;
}

int measure_live(struct bench *bench)
{
	struct results *results = bench->results;
	double left;

	for (int i = 0; i < SPREADS; i++) {
		int r = bench_stopped ? -EINTR : 0;

		for (int s = 0; !r && s < SCENARIO_COUNT; s++)
			if (wanted(bench, s))
				r = fill(bench, s, &spreads[i]);
		/* Of what is left, each number of sources gets its part, and each number of CPUs. */
		left = (bench->deadline - seconds_now()) / (SPREADS - i);
		for (unsigned cpus = 1; !r && cpus <= results->live_cpus; cpus++)
			r = live_cells(bench, &spreads[i], cpus, seconds_now() + left / results->live_cpus,
				       results->cells[cpus - 1][i]);
		if (r) {
			fprintf(stderr, "bench: live frames from %s sources: %s\n", spreads[i].label, strerror(-r));
			return r;
		}
		if (bench->verbose)
			fprintf(stderr, "bench: live, %s sources done\n", spreads[i].label);
	}
	return 0;
}

/* --- the program alone ----------------------------------------------------------------------------------------------- */

static int prog_of(const struct bench *bench, enum scenario scenario)
{
	enum subject subject = scenarios[scenario].subject;

	return subject == SUBJECT_SLUICE ? sluice_prog_fd(bench->sluice) : loader_bare_fd(bench->loader, subject);
}

/* The gate looks for the listener in the namespace of the caller: stand where the service is. */
int measure_runs(struct bench *bench)
{
	const double spare = bench->results->quick ? 1 : 8, until = seconds_now() + SPREADS * spare;
	int r = topology_enter(bench->topology, SUBJECT_SLUICE);

	for (int i = 0; !r && i < SPREADS; i++)
		for (unsigned round = 0; !r && round < bench->results->rounds; round++) {
			double ns[SCENARIO_COUNT] = {};

			if (round >= BENCH_MIN_ROUNDS && seconds_now() > until - (SPREADS - 1 - i) * spare)
				break;
			r = bench_stopped ? -EINTR : 0;
			for (int s = 0; !r && s < SCENARIO_COUNT; s++) {
				struct load load = load_of(bench, s, &spreads[i]);
				struct run_cell *cell = &bench->results->runs[i][s];
				uint32_t action;

				if (!wanted(bench, s) || is_peer(scenarios[s].subject))
					continue;
				load.frames = RUNS;
				r = loader_test_run(bench->loader, prog_of(bench, s), &load, &ns[s], &action);
				cell->ns[cell->rounds] = ns[s];
				cell->over[cell->rounds] = ns[s] - ns[scenarios[s].base];
				cell->rounds++;
			}
		}
	if (r)
		fprintf(stderr, "bench: PROG_TEST_RUN: %s\n", strerror(-r));
	return topology_enter_generator(bench->topology) ?: r;
}

/* --- for a profiler ----------------------------------------------------------------------------------------------- */

static int loop_once(struct bench *bench, enum scenario scenario, const struct load *load, bool live, double *ret_ns)
{
	struct load_result result;
	uint32_t action;
	int r;

	if (!live)
		return loader_test_run(bench->loader, prog_of(bench, scenario), load, ret_ns, &action);
	r = loader_run(bench->loader, load, &result);
	if (!r)
		*ret_ns = result.ns;
	return r;
}

int measure_loop(struct bench *bench, const char *scenario, uint32_t sources, double seconds, bool live)
{
	const struct spread_info spread = {.sources = sources};
	double values[BENCH_MAX_ROUNDS], spent = 0;
	unsigned rounds = 0;
	int s = 0, r;

	while (s < SCENARIO_COUNT && strcmp(scenarios[s].name, scenario))
		s++;
	if (s == SCENARIO_COUNT || !wanted(bench, s) || (!live && is_peer(scenarios[s].subject))) {
		fprintf(stderr, "bench: no scenario '%s' here\n", scenario);
		return -EINVAL;
	}
	r = fill(bench, s, &spread);
	if (!r && !live)
		r = topology_enter(bench->topology, SUBJECT_SLUICE);
	while (!r && spent < seconds && rounds < BENCH_MAX_ROUNDS) {
		struct load load = load_of(bench, s, &spread);

		load.frames = (unsigned)(seconds * 1e9 / BENCH_MAX_ROUNDS / 250);
		r = loop_once(bench, s, &load, live, &values[rounds]);
		spent += values[rounds++] * load.frames / 1e9;
	}
	if (!r)
		printf("%s %s from %u sources: %.0f ns per packet\n", live ? "live" : "alone", scenario, sources,
		       median(values, rounds));
	return r;
}
