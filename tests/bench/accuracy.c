// SPDX-License-Identifier: GPL-2.0-only
/* accuracy.c: is a limit of N a limit of N? Paced frames against a rate, from one CPU and from two. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "maps/abi.h"
#include "tests/bench/bench.h"

static const struct {
	const char *limit;
	uint16_t port;
	uint32_t sources;
} kinds[] = {
	{"source", PORT_EXACT_SOURCE, 1},
	{"total", PORT_EXACT_TOTAL, 1000000},
};

static const double factors[] = {1.1, 10};

/*
 * Readings of the counter, each between two looks at the clock. Over any two readings i < j:
 *   admitted_j - admitted_i <= rate x (after_j - before_i) + burst
 * so the largest (admitted - rate x after) over the smallest (admitted - rate x before) of the earlier ones, less the
 * burst, is the worst excess; above 0 the limit was broken for certain.
 */
struct watch {
	const struct bench *bench;
	uint16_t port;
	uint64_t first, admitted;
	bool started;
	double lowest, worst;
};

static void sample(void *arg)
{
	struct watch *w = arg;
	struct slc_counters counters;
	double before = seconds_now(), after, admitted;

	if (sluice_counters(w->bench->sluice, w->port, &counters))
		return;
	after = seconds_now();
	if (!w->started) {
		w->started = true;
		w->first = counters.enforced.admitted;
		w->lowest = INFINITY;
		w->worst = -INFINITY;
	}
	w->admitted = counters.enforced.admitted - w->first;
	admitted = (double)w->admitted;
	w->lowest = fmin(w->lowest, admitted - EXACT_RATE * before);
	w->worst = fmax(w->worst, admitted - EXACT_RATE * after - w->lowest - EXACT_BURST);
}

static int one_row(struct bench *bench, size_t kind, unsigned cpus, double factor)
{
	const struct pace pace = {
		.rate = factor * EXACT_RATE,
		.seconds = bench->results->quick ? 0.7 : 2,
		.limit_rate = EXACT_RATE,
		.limit_burst = EXACT_BURST,
	};
	struct watch watch = {.bench = bench, .port = kinds[kind].port};
	const struct load load = {
		.ifindex = topology_near(bench->topology, SUBJECT_SLUICE),
		.dport = kinds[kind].port,
		.sources = kinds[kind].sources,
		.cpus = cpus,
	};
	struct load_result result;
	int r;

	sample(&watch);
	r = loader_pace(bench->loader, &load, &pace, sample, &watch, &result);
	if (r)
		return r;
	bench->results->accuracy[bench->results->accuracy_count++] = (struct accuracy){
		.limit = kinds[kind].limit,
		.cpus = cpus,
		.factor = factor,
		.seconds = result.seconds,
		.offered = result.frames,
		.admitted = watch.admitted,
		.ideal = result.ideal,
		.allowed = EXACT_RATE * result.seconds + EXACT_BURST,
		.worst = watch.worst,
	};
	return 0;
}

int measure_accuracy(struct bench *bench)
{
	int r = 0;

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
		for (unsigned cpus = 1; cpus <= bench->results->cpus; cpus++)
			for (size_t f = 0; !r && f < sizeof(factors) / sizeof(factors[0]); f++)
				r = bench_stopped ? -EINTR : one_row(bench, kind, cpus, factors[f]);
	if (r)
		fprintf(stderr, "bench: accuracy: %s\n", strerror(-r));
	return r;
}
