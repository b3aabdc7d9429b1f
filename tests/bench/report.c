// SPDX-License-Identifier: GPL-2.0-only
/* report.c: the tables for people, the JSON for machines. The goals are in goals.c. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "tests/bench/bench.h"

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double quantile(const double *values, unsigned count, double q)
{
	double sorted[SPREADS * BENCH_MAX_ROUNDS];

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

/* --- where it ran --------------------------------------------------------------------------------------------------- */

/* First line of a command's output, or "?". */
static void first_line(const char *command, char *buf, int len)
{
	FILE *pipe = popen(command, "r");

	if (!pipe || !fgets(buf, len, pipe))
		snprintf(buf, (size_t)len, "?");
	if (pipe)
		pclose(pipe);
	buf[strcspn(buf, "\n")] = '\0';
}

struct machine {
	char kernel[80], cpu[96], nft[64], iptables[64], load[64];
};

static void machine_read(struct machine *machine)
{
	struct utsname names;

	uname(&names);
	snprintf(machine->kernel, sizeof(machine->kernel), "%.64s", names.release);
	first_line("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo", machine->cpu, sizeof(machine->cpu));
	first_line("nft --version", machine->nft, sizeof(machine->nft));
	first_line("iptables --version", machine->iptables, sizeof(machine->iptables));
	first_line("cut -d' ' -f1-3 /proc/loadavg", machine->load, sizeof(machine->load));
}

/* --- text ------------------------------------------------------------------------------------------------------------- */

static void print_heads(FILE *out)
{
	fprintf(out, "%-20s", "sources");
	for (int i = 0; i < SPREADS; i++)
		fprintf(out, "%15s", spreads[i].label);
	fprintf(out, "\n");
}

static void print_ns(FILE *out, enum scenario s, const double *ns, const double *over, unsigned rounds)
{
	if (scenarios[s].base == s)
		fprintf(out, "%8.0f       ", median(ns, rounds));
	else
		fprintf(out, "%8.0f (%+4.0f)", median(ns, rounds), median(over, rounds));
}

static void print_live(const struct results *results, unsigned cpus, FILE *out)
{
	fprintf(out,
		"\nLive frames over veth, %u CPU%s: ns per packet%s, whole way; in brackets over the bare verdict;"
		" median of %u rounds\n",
		cpus, cpus > 1 ? "s" : "", cpus > 1 ? " and CPU" : "", results->cells[cpus - 1][SPREADS - 1][0].rounds);
	print_heads(out);
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		if (!results->cells[cpus - 1][0][s].rounds)
			continue;
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++) {
			const struct cell *cell = &results->cells[cpus - 1][i][s];

			print_ns(out, s, cell->ns, cell->over, cell->rounds);
		}
		fprintf(out, "\n");
	}
}

static void print_runs(const struct results *results, FILE *out)
{
	fprintf(out,
		"\nThe program alone (BPF_PROG_TEST_RUN), 1 CPU: ns per packet with the rewriting of the source\n");
	print_heads(out);
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		if (!results->runs[0][s].rounds)
			continue;
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++) {
			const struct run_cell *cell = &results->runs[i][s];

			print_ns(out, s, cell->ns, cell->over, cell->rounds);
		}
		fprintf(out, "\n");
	}
	if (results->has_sluice)
		fprintf(out, "slc_xdp: %u instructions, %u bytes of machine code, %u verified at load\n",
			results->xlated, results->jited, results->verified);
}

/* Frames that were lost on the way, and frames that met another verdict than the row is named after. */
static void print_checks(const struct results *results, FILE *out)
{
	uint64_t sent = 0, received = 0;

	fprintf(out, "\nPart of the frames that met the verdict of the row (1 CPU)\n");
	print_heads(out);
	for (int s = 0; s < SCENARIO_COUNT; s++) {
		if (!results->cells[0][0][s].rounds)
			continue;
		for (int i = 0; i < SPREADS; i++)
			for (unsigned c = 0; c < results->live_cpus; c++) {
				sent += results->cells[c][i][s].sent;
				received += results->cells[c][i][s].received;
			}
		if (results->cells[0][0][s].limited < 0)
			continue;
		fprintf(out, "%-20s", scenarios[s].label);
		for (int i = 0; i < SPREADS; i++)
			fprintf(out, "%14.1f%%", 100 * results->cells[0][i][s].limited);
		fprintf(out, "\n");
	}
	fprintf(out, "frames sent %ju, received %ju; slices measured %u, of these disturbed by other tasks %u\n",
		(uintmax_t)sent, (uintmax_t)received, results->slices, results->disturbed);
}

static void print_accuracy(const struct results *results, FILE *out)
{
	if (!results->accuracy_count)
		return;
	fprintf(out, "\nAccuracy of a limit of %u/s with a burst of %u, paced frames\n", EXACT_RATE, EXACT_BURST);
	fprintf(out, "%-8s %4s %8s %9s %9s %9s %9s %14s %21s\n", "limit", "CPUs", "offered", "frames", "admitted",
		"exact", "ratio", "rate x t+burst", "worst in an interval");
	for (unsigned i = 0; i < results->accuracy_count; i++) {
		const struct accuracy *a = &results->accuracy[i];

		fprintf(out, "%-8s %4u %7.1fx %9ju %9ju %9ju %9.4f %14.1f %+21.1f\n", a->limit, a->cpus, a->factor,
			(uintmax_t)a->offered, (uintmax_t)a->admitted, (uintmax_t)a->ideal,
			(double)a->admitted / (double)a->ideal, a->allowed, a->worst);
	}
}

void report_text(const struct results *results, FILE *out)
{
	struct machine machine;

	machine_read(&machine);
	fprintf(out, "sluice bench: kernel %s, %s, %u CPU%s, %s, %s, load %s%s%s\n", machine.kernel, machine.cpu,
		results->cpus, results->cpus > 1 ? "s" : "", machine.nft, machine.iptables, machine.load,
		results->has_sluice ? ", XDP " : "", results->has_sluice ? results->mode : "");
	if (results->cells[0][0][BARE_DROP].rounds) {
		for (unsigned cpus = 1; cpus <= results->live_cpus; cpus++)
			print_live(results, cpus, out);
		print_checks(results, out);
	}
	if (results->runs[0][BARE_DROP].rounds)
		print_runs(results, out);
	report_turns(results, out);
	print_accuracy(results, out);
	fprintf(out, "\nwhole bench: %.0f s\n", results->seconds);
}

/* --- JSON --------------------------------------------------------------------------------------------------------------- */

static json_t *figures(const double *ns, const double *over, unsigned rounds)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "ns", median(ns, rounds), "q1", quantile(ns, rounds, 0.25),
			 "q3", quantile(ns, rounds, 0.75), "over", median(over, rounds), "over_q1",
			 quantile(over, rounds, 0.25), "over_q3", quantile(over, rounds, 0.75));
}

static json_t *live_json(const struct results *results)
{
	json_t *list = json_array();

	for (unsigned c = 0; c < results->live_cpus; c++)
		for (int i = 0; i < SPREADS; i++)
			for (int s = 0; s < SCENARIO_COUNT; s++) {
				const struct cell *cell = &results->cells[c][i][s];
				json_t *row;

				if (!cell->rounds)
					continue;
				row = json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:f}", "scenario", scenarios[s].name,
						"over_base", scenarios[scenarios[s].base].name, "cpus", (int)c + 1,
						"sources", spreads[i].name, "sent", (json_int_t)cell->sent, "received",
						(json_int_t)cell->received, "verdict_part", cell->limited);
				json_object_update_new(row, figures(cell->ns, cell->over, cell->rounds));
				json_array_append_new(list, row);
			}
	return list;
}

static json_t *runs_json(const struct results *results)
{
	json_t *list = json_array();

	for (int i = 0; i < SPREADS; i++)
		for (int s = 0; s < SCENARIO_COUNT; s++) {
			const struct run_cell *cell = &results->runs[i][s];
			json_t *row;

			if (!cell->rounds)
				continue;
			row = json_pack("{s:s, s:s, s:s}", "scenario", scenarios[s].name, "over_base",
					scenarios[scenarios[s].base].name, "sources", spreads[i].name);
			json_object_update_new(row, figures(cell->ns, cell->over, cell->rounds));
			json_array_append_new(list, row);
		}
	return list;
}

static json_t *accuracy_json(const struct results *results)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < results->accuracy_count; i++) {
		const struct accuracy *a = &results->accuracy[i];
		json_t *row = json_pack("{s:s, s:i, s:f, s:f, s:I, s:I, s:I, s:f, s:f}", "limit", a->limit, "cpus",
					(int)a->cpus, "offered_factor", a->factor, "seconds", a->seconds, "offered",
					(json_int_t)a->offered, "admitted", (json_int_t)a->admitted, "exact",
					(json_int_t)a->ideal, "allowed", a->allowed, "worst_excess", a->worst);

		json_array_append_new(list, row);
	}
	return list;
}

int report_json(const struct results *results, const char *path)
{
	struct machine machine;
	json_t *root, *sizes;
	int r;

	machine_read(&machine);
	sizes = results->has_sluice
			? json_pack("{s:s, s:i, s:i, s:i}", "mode", results->mode, "instructions", (int)results->xlated,
				    "jited_bytes", (int)results->jited, "verified", (int)results->verified)
			: json_null();
	root = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:f, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "time", (json_int_t)time(NULL), "kernel", machine.kernel, "cpu", machine.cpu, "nftables",
			 machine.nft, "iptables", machine.iptables, "load", machine.load, "quick", results->quick,
			 "rounds", (int)results->rounds, "seconds", results->seconds, "slices", (int)results->slices,
			 "disturbed", (int)results->disturbed, "program", sizes, "live", live_json(results), "alone",
			 runs_json(results), "turns", turns_json(results), "accuracy", accuracy_json(results), "goals",
			 goals_json(results));
	if (!root)
		return -ENOMEM;
	r = json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) ? -(errno ?: EIO) : 0;
	json_decref(root);
	return r;
}
