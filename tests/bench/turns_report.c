// SPDX-License-Identifier: GPL-2.0-only
/* turns_report.c: what the programs that look at turns cost, as text and JSON. */
#include <jansson.h>

#include "tests/bench/bench.h"

static double over(const struct results *results, enum turn_packet packet)
{
	return median(results->turns[packet].over, results->turns[packet].rounds);
}

double turn_mean(const struct results *results, int whole)
{
	double sum = 0;

	for (int i = 0; i < TURN_WHOLE_PACKETS; i++)
		sum += over(results, turn_wholes[whole][i]);
	return sum / TURN_WHOLE_PACKETS;
}

double turn_dearest(const struct results *results, int whole, const char **ret_label)
{
	double most = 0;

	for (int i = 0; i < TURN_WHOLE_PACKETS; i++) {
		const enum turn_packet packet = turn_wholes[whole][i];

		if (i && over(results, packet) <= most)
			continue;
		most = over(results, packet);
		*ret_label = turn_packets[packet].label;
	}
	return most;
}

static void print_range(FILE *out, const double *values, unsigned rounds)
{
	fprintf(out, " %+6.0f (%+4.0f %+4.0f)", median(values, rounds), quantile(values, rounds, 0.25),
		quantile(values, rounds, 0.75));
}

static void report_live(const struct results *results, FILE *out)
{
	fprintf(out,
		"\nTurns on real connections over loopback, ns per packet over empty programs: CPU time, median "
		"(quartiles)\n"
		"%-18s %10s %11s %18s %18s %18s\n",
		"connections", "whole way", "empty hook", "measured service", "no service, TCP", "no service, UDP");
	for (int i = 0; i < TURNS_LIVE_ROWS; i++) {
		const struct turns_live *row = &results->turns_live[i];

		fprintf(out, "%-4u %.0f segments   %10.0f %+11.0f", row->connections, row->segments,
			median(row->way, row->rounds), median(row->hook, row->rounds));
		print_range(out, row->service, row->rounds);
		print_range(out, row->other, row->rounds);
		print_range(out, row->udp, row->rounds);
		fprintf(out, "\n");
	}
	fprintf(out, "the same by the kernel's clock around each program\n%-18s %18s %18s %18s %18s\n", "connections",
		"service, ingress", "service, egress", "none, ingress", "none, egress");
	for (int i = 0; i < TURNS_LIVE_ROWS; i++) {
		const struct turns_live *row = &results->turns_live[i];

		fprintf(out, "%-4u %.0f segments   ", row->connections, row->segments);
		for (int egress = 0; egress < 2; egress++)
			print_range(out, row->timed_service[egress], row->rounds);
		for (int egress = 0; egress < 2; egress++)
			print_range(out, row->timed_other[egress], row->rounds);
		fprintf(out, "\n");
	}
	if (results->foreign)
		fprintf(out, "programs of others saw these packets too: a figure beside them is not one of this "
			     "program alone\n");
}

void report_turns(const struct results *results, FILE *out)
{
	if (!results->turns[0].rounds)
		return;
	fprintf(out,
		"\nTurns: the programs at cgroup_skb alone (BPF_PROG_TEST_RUN): ns per packet over an empty program\n");
	for (int i = 0; i < TURN_PACKETS; i++)
		fprintf(out, "%-28s %+6.0f\n", turn_packets[i].label, over(results, i));
	for (int i = 0; i < TURN_WHOLES; i++)
		fprintf(out, "%-28s %+6.0f  request, ACK, first segment of the answer, ACK\n",
			i ? "mean over a turn, TLS" : "mean over a turn", turn_mean(results, i));
	if (results->turns_live[0].rounds)
		report_live(results, out);
}

static json_t *figures(const double *values, unsigned rounds)
{
	return json_pack("{s:f, s:f, s:f}", "ns", median(values, rounds), "q1", quantile(values, rounds, 0.25), "q3",
			 quantile(values, rounds, 0.75));
}

static json_t *live_json(const struct turns_live *row)
{
	return json_pack("{s:i, s:f, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "connections",
			 (int)row->connections, "segments", row->segments, "rounds", (int)row->rounds, "way",
			 figures(row->way, row->rounds), "empty_hook", figures(row->hook, row->rounds), "service",
			 figures(row->service, row->rounds), "no_service_tcp", figures(row->other, row->rounds),
			 "no_service_udp", figures(row->udp, row->rounds), "timed_service_ingress",
			 figures(row->timed_service[0], row->rounds), "timed_service_egress",
			 figures(row->timed_service[1], row->rounds), "timed_no_service_ingress",
			 figures(row->timed_other[0], row->rounds), "timed_no_service_egress",
			 figures(row->timed_other[1], row->rounds));
}

json_t *turns_json(const struct results *results)
{
	json_t *packets = json_object(), *live = json_array();

	for (int i = 0; results->turns[0].rounds && i < TURN_PACKETS; i++)
		json_object_set_new(packets, turn_packets[i].name,
				    figures(results->turns[i].over, results->turns[i].rounds));
	for (int i = 0; i < TURNS_LIVE_ROWS; i++)
		if (results->turns_live[i].rounds)
			json_array_append_new(live, live_json(&results->turns_live[i]));
	return json_pack("{s:o, s:o, s:b}", "alone", packets, "live", live, "foreign_programs", results->foreign != 0);
}
