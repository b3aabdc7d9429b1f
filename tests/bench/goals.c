// SPDX-License-Identifier: GPL-2.0-only
/* goals.c: the figures this project has promised, computed from one run. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tests/bench/bench.h"

enum { AT_1 = 0, AT_1K = 1, AT_1M = 3, AT_ALL = 4 }; /* rows of spreads[] */

struct goal {
	const char *name;
	bool met;
	char figures[400];
};

static void append(struct goal *goal, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(struct goal *goal, const char *fmt, ...)
{
	size_t used = strlen(goal->figures);
	va_list args;

	va_start(args, fmt);
	vsnprintf(goal->figures + used, sizeof(goal->figures) - used, fmt, args);
	va_end(args);
}

static double live_ns(const struct results *results, int spread, enum scenario s)
{
	const struct cell *cell = &results->cells[0][spread][s];

	return median(cell->ns, cell->rounds);
}

static double live_over(const struct results *results, int spread, enum scenario s)
{
	const struct cell *cell = &results->cells[0][spread][s];

	return median(cell->over, cell->rounds);
}

/* Both ways of refusing: the dearer one passes the source's bucket and writes a flow record first. */
static void goal_refused(const struct results *results, struct goal *goal)
{
	static const struct {
		int spread;
		double limit;
	} at[] = {{AT_1, 100}, {AT_1M, 200}, {AT_ALL, 200}};

	goal->name = "1 refused SYN <= +100 / +200 / +200 ns over bare XDP_DROP at 1 / 1 M / 2^32 sources";
	goal->met = true;
	for (int way = REFUSED_SOURCE; way <= REFUSED_TOTAL; way++) {
		append(goal, "%s%s:", way == REFUSED_SOURCE ? "" : "; ", scenarios[way].label);
		for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
			double over = live_over(results, at[i].spread, way);

			goal->met &= over <= at[i].limit;
			append(goal, " %+.0f", over);
		}
	}
}

/* The same frames against the same kind of limit, whole way: the generator's part counts for both. */
static void goal_peers(const struct results *results, struct goal *goal)
{
	static const struct {
		int spread;
		double limit;
	} at[] = {{AT_1K, 2.5}, {AT_1M, 5}};

	goal->name = "2 refused SYN >= 2.5x faster than nftables and iptables hashlimit at 1 k sources, >= 5x at 1 M";
	goal->met = true;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		const int spread = at[i].spread;
		double ours = live_ns(results, spread, REFUSED_SOURCE), bare = live_ns(results, spread, BARE_DROP);

		append(goal, "%s%s:", i ? "; " : "", spreads[spread].label);
		for (int peer = NFT; peer <= IPTABLES; peer++) {
			double ratio = live_ns(results, spread, peer) / ours;

			goal->met &= peer == NFT_INGRESS || ratio >= at[i].limit;
			append(goal, " %s %.1fx (%.1fx without the bare way)", scenarios[peer].label, ratio,
			       (live_ns(results, spread, peer) - bare) / (ours - bare));
		}
	}
}

/* Where the packet comes from makes no difference to it: all rounds count alike. */
static void goal_established(const struct results *results, struct goal *goal)
{
	double over[SPREADS * BENCH_MAX_ROUNDS], alone[SPREADS * BENCH_MAX_ROUNDS], live;
	unsigned n = 0, m = 0;

	for (int i = 0; i < SPREADS; i++) {
		const struct cell *cell = &results->cells[0][i][ESTABLISHED];
		const struct run_cell *run = &results->runs[i][ESTABLISHED];

		for (unsigned r = 0; r < cell->rounds; r++)
			over[n++] = cell->over[r];
		for (unsigned r = 0; r < run->rounds; r++)
			alone[m++] = run->over[r];
	}
	live = median(over, n);
	goal->name = "3 packet of an established connection <= 25 ns over a bare pass";
	goal->met = live <= 25;
	append(goal, "live %+.0f ns, %+.0f for the program alone", live, median(alone, m));
}

/*
 * From above only the interval between two readings of the counter is judged, the whole run being one of them: a frame
 * that waits between its stamp and the limiter makes the generator's own span too short by that wait.
 */
static void goal_exact(const struct results *results, struct goal *goal)
{
	double lowest = INFINITY, worst = -INFINITY;

	goal->name =
		"4 admitted in any interval t <= rate x t + burst + 1 per further CPU; >= 99 % of the limit at 1.1x";
	goal->met = true;
	for (unsigned i = 0; i < results->accuracy_count; i++) {
		const struct accuracy *a = &results->accuracy[i];
		double ratio = (double)a->admitted / (double)a->ideal;

		goal->met &= a->worst <= a->cpus - 1 && ratio >= 0.99;
		lowest = fmin(lowest, ratio);
		worst = fmax(worst, a->worst);
	}
	append(goal, "at least %.4f of what an exact limiter admits; worst interval %+.1f", lowest, worst);
}

/* Mean of the two programs, by the kernel's clock. */
static double timed(const double values[2][BENCH_MAX_ROUNDS], unsigned rounds)
{
	return (median(values[0], rounds) + median(values[1], rounds)) / 2;
}

/*
 * A whole turn has four packets: request, ACK, answer, ACK. Both the programs alone and the same on real connections must
 * hold: alone everything is in the cache and the socket is no TCP socket, on connections there are no figures of single
 * packets.
 */
static void goal_turns(const struct results *results, struct goal *goal)
{
	const struct turns_live *live = &results->turns_live[0];
	const struct run_cell *in = &results->turns[TURN_OTHER_IN], *out = &results->turns[TURN_OTHER_OUT];
	const double service = timed(live->timed_service, live->rounds), other = timed(live->timed_other, live->rounds);
	const double alone = fmax(median(in->over, in->rounds), median(out->over, out->rounds));

	goal->name = "5 turns <= 100 ns per packet of a measured service, <= 15 ns per packet of sockets of no service";
	goal->met = service <= 100 && other <= 15 && alone <= 15;
	for (int i = 0; i < TURN_WHOLES; i++) {
		const char *label = "";
		const double mean = turn_mean(results, i), dearest = turn_dearest(results, i, &label);

		goal->met &= mean <= 100;
		append(goal, "%smean %+.0f, dearest %+.0f (%s); ", i ? "TLS " : "", mean, dearest, label);
	}
	append(goal, "no service %+.0f; on real connections: service %+.0f, no service %+.0f", alone, service, other);
}

#define GOALS 5

static size_t goals_of(const struct results *results, struct goal goals[GOALS])
{
	size_t n = 0;

	memset(goals, 0, GOALS * sizeof(*goals));
	if (!results->has_sluice)
		return 0;
	if (results->cells[0][0][BARE_DROP].rounds) {
		goal_refused(results, &goals[n++]);
		goal_peers(results, &goals[n++]);
		goal_established(results, &goals[n++]);
	}
	if (results->accuracy_count)
		goal_exact(results, &goals[n++]);
	if (results->turns_live[0].rounds)
		goal_turns(results, &goals[n++]);
	return n;
}

int report_goals(const struct results *results, FILE *out)
{
	struct goal goals[GOALS];
	size_t count = goals_of(results, goals);
	int missed = 0;

	if (count)
		fprintf(out, "\nGoals\n");
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%s  %s\n      %s\n", goals[i].met ? "PASS" : "MISS", goals[i].name, goals[i].figures);
		missed += !goals[i].met;
	}
	return missed;
}

json_t *goals_json(const struct results *results)
{
	struct goal goals[GOALS];
	size_t count = goals_of(results, goals);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "goal", goals[i].name, "met", goals[i].met,
						      "figures", goals[i].figures));
	return list;
}
