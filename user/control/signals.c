// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ULL
#define WINDOW_BUCKETS 10

const char *const outcome_names[SLC_OUTCOME_COUNT] = {
#define X(name, class, text) [SLC_OUT_##name] = #name,
	SLC_OUTCOMES(X)
#undef X
};

static const enum slc_outcome_class default_class[SLC_OUTCOME_COUNT] = {
#define X(name, class, text) [SLC_OUT_##name] = SLC_OUTCOME_##class,
	SLC_OUTCOMES(X)
#undef X
};

/* The kernel writes these while we read. */
#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

enum slc_outcome_class outcome_class(const struct slc_measure *measure, enum slc_outcome kind)
{
	if (measure->failures & 1u << kind)
		return SLC_OUTCOME_FAILURE;
	return default_class[kind] == SLC_OUTCOME_SUCCESS ? SLC_OUTCOME_SUCCESS : SLC_OUTCOME_NEUTRAL;
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static int view_init(struct dist_view *view, bool fast, bool five)
{
	view->minute = dist_window_new(6 * SECOND_NS, WINDOW_BUCKETS);
	view->fast = fast ? dist_window_new(SECOND_NS, WINDOW_BUCKETS) : NULL;
	view->five = five ? dist_window_new(30 * SECOND_NS, WINDOW_BUCKETS) : NULL;
	return view->minute && (view->fast || !fast) && (view->five || !five) ? 0 : -ENOMEM;
}

static void view_free(struct dist_view *view)
{
	dist_window_free(&view->fast);
	dist_window_free(&view->minute);
	dist_window_free(&view->five);
}

int signals_init(struct signals *s)
{
	*s = (struct signals){
		.overdue = overdue_new(),
		.minute = window_new(6 * SECOND_NS, WINDOW_BUCKETS),
		.five = window_new(30 * SECOND_NS, WINDOW_BUCKETS),
	};
	if (!s->overdue || !s->minute || !s->five)
		return -ENOMEM;
	if (view_init(&s->latency, true, true) || view_init(&s->tls, false, false) ||
	    view_init(&s->rtt, false, false) || view_init(&s->head_wait, false, false))
		return -ENOMEM;
	return 0;
}

void signals_free(struct signals *s)
{
	overdue_free(&s->overdue);
	window_free(&s->minute);
	window_free(&s->five);
	view_free(&s->latency);
	view_free(&s->tls);
	view_free(&s->rtt);
	view_free(&s->head_wait);
}

/* --- distributions ------------------------------------------------------------------------------------------------- */

static void view_take(struct dist_view *view, const struct slc_dist *dist, uint64_t now_ns)
{
	dist_total_take(&view->total, dist);
	dist_window_take(view->minute, dist, now_ns);
	if (view->fast)
		dist_window_take(view->fast, dist, now_ns);
	if (view->five)
		dist_window_take(view->five, dist, now_ns);
}

/* 3 KiB each: only where something has ended since. */
static void take_distributions(struct signals *s, const struct slc_signals *map, const struct signals_facts *facts)
{
	uint64_t ended = LOAD(map->turns_ended) + LOAD(map->closed);

	if (!s->latency.total.primed || ended != s->ended) {
		view_take(&s->latency, &map->latency, facts->now_ns);
		view_take(&s->tls, &map->tls, facts->now_ns);
		view_take(&s->rtt, &map->rtt, facts->now_ns);
		s->ended = ended;
	}
	if (!facts->has_head_wait)
		return;
	s->head_waits.bin[dist_bin(facts->head_wait_ns)]++;
	s->head_waits.sum_ns += facts->head_wait_ns;
	view_take(&s->head_wait, &s->head_waits, facts->now_ns);
}

/* --- outcomes ---------------------------------------------------------------------------------------------------------- */

static uint64_t pressed(const struct signals *s, const struct slc_signals *map)
{
	uint64_t sum = 0;

	for (int kind = 0; kind < SLC_OUTCOME_COUNT; kind++)
		sum += signals_outcome(s, map, SLC_ROW_pressure, kind);
	return sum;
}

static void take_pressed(struct signals *s, const struct slc_signals *map, struct sample *sample)
{
	uint64_t now = pressed(s, map);

	sample->pressed = now - s->pressed;
	s->pressed = now;
}

static void take_bases(struct signals *s, const struct slc_signals *map, uint32_t generation)
{
	unsigned int row = generation & 1;

	for (unsigned int c = 0; c < SLC_CELLS; c++) {
		const struct slc_cell *cell = &map->cells[row][c];

		s->cells[c] = (struct slc_cell){LOAD(cell->success), LOAD(cell->failure), LOAD(cell->unproven),
						LOAD(cell->slow)};
		s->no_listener_s[c] = LOAD(map->no_listener_s[c]);
	}
	s->known_success = LOAD(map->known_success[row]);
	s->known_failure = LOAD(map->known_failure[row]);
	s->no_listener = LOAD(map->outcomes[row][SLC_OUT_no_listener]);
	for (unsigned int kind = 0; kind < SLC_OUTCOME_COUNT; kind++)
		s->filed[kind] = LOAD(map->outcomes[row][kind]);
	s->pressed = pressed(s, map);
	s->generation = generation;
	s->based = true;
}

/* Most services of a host are at rest most of the time: then the cells are compared, and the sample said to be empty. */
static void take_cells(struct signals *s, const struct slc_signals *map, struct sample *sample)
{
	unsigned int row = s->generation & 1;

	sample->empty = memcmp(s->cells, map->cells[row], sizeof(s->cells)) == 0;
	for (unsigned int c = 0; c < SLC_CELLS && !sample->empty; c++) {
		const struct slc_cell *cell = &map->cells[row][c];
		struct slc_cell now = {LOAD(cell->success), LOAD(cell->failure), LOAD(cell->unproven),
				       LOAD(cell->slow)};
		struct slc_cell *base = &s->cells[c];

		sample->cells[c] = (struct cell_counts){
			.success = now.success - base->success,
			.failure = now.failure - base->failure,
			.unproven = now.unproven - base->unproven,
			.slow = now.slow - base->slow,
		};
		*base = now;
	}
}

static void take_known(struct signals *s, const struct slc_signals *map, struct sample *sample)
{
	unsigned int row = s->generation & 1;
	uint64_t success = LOAD(map->known_success[row]), failure = LOAD(map->known_failure[row]);

	sample->known_success = success - s->known_success;
	sample->known_failure = failure - s->known_failure;
	s->known_success = success;
	s->known_failure = failure;
	sample->empty &= !sample->known_success && !sample->known_failure;
}

/*
 * What a client alone can bring about: it asks half a question and waits, or leaves, or waits until the service closes.
 * no_listener is told by the kernel of the host, and counted elsewhere.
 */
#define CAUSABLE                                                                                \
	(1u << SLC_OUT_unanswered | 1u << SLC_OUT_abandoned | 1u << SLC_OUT_closed_unanswered | \
	 1u << SLC_OUT_no_listener)

static void take_certain(struct signals *s, const struct slc_signals *map, const struct slc_measure *measure,
			 struct sample *sample)
{
	for (unsigned int kind = 0; kind < SLC_OUTCOME_COUNT; kind++) {
		uint64_t now = LOAD(map->outcomes[s->generation & 1][kind]);

		if (measure->failures & ~CAUSABLE & 1u << kind)
			sample->certain += now - s->filed[kind];
		s->filed[kind] = now;
	}
	sample->empty &= !sample->certain;
}

/* How many cells had a SYN without a listener in a second of its own since the last look. */
static uint32_t take_sources(struct signals *s, const struct slc_signals *map)
{
	uint32_t sources = 0;

	for (unsigned int c = 0; c < SLC_CELLS; c++) {
		uint32_t second = LOAD(map->no_listener_s[c]);

		sources += second != s->no_listener_s[c];
		s->no_listener_s[c] = second;
	}
	return sources;
}

/*
 * SYNs that met no listener: as the kernel side saw them, once per source and second; where it does not look, from
 * sock_diag: the service had a listener, has none, and something was admitted: one a tick at most. While it has one, they
 * went to an address that it does not serve, which says something about who sent them only: they need not even be there.
 */
static void take_no_listener(struct signals *s, const struct slc_signals *map, const struct slc_measure *measure,
			     const struct signals_facts *facts, struct sample *sample)
{
	uint64_t now = LOAD(map->outcomes[s->generation & 1][SLC_OUT_no_listener]);
	uint32_t grown = now - s->no_listener, sources = 0;

	s->no_listener = now;
	if (memcmp(s->no_listener_s, map->no_listener_s, sizeof(s->no_listener_s)) != 0)
		sources = take_sources(s, map);
	if (facts->listening || !facts->was_listening) {
		s->missing_admitted = facts->admitted;
	} else if (facts->gate_blind && facts->admitted > s->missing_admitted) {
		s->missing_admitted = facts->admitted;
		s->unlistened++;
		grown++;
		sources++;
	}
	if (facts->listening || outcome_class(measure, SLC_OUT_no_listener) != SLC_OUTCOME_FAILURE)
		return;
	sample->always = grown;
	sample->always_sources = sources;
	sample->empty &= !grown;
}

static void take_overdue(struct signals *s, const struct slc_signals *map, const struct slc_measure *measure,
			 uint64_t now_ns, struct sample *sample)
{
	bool fails = outcome_class(measure, SLC_OUT_unanswered) == SLC_OUTCOME_FAILURE;
	struct overdue_counts counts;

	overdue_take(s->overdue, map, measure, now_ns, s->since_ns, &counts);
	s->in_flight = signals_in_flight(s, map, now_ns);
	sample->empty &= !counts.total;
	for (unsigned int c = 0; fails && counts.total && c < SLC_CELLS; c++) {
		sample->cells[c].failure += counts.proven[c];
		sample->unanswered += counts.proven[c];
		sample->cells[c].unproven += counts.unproven[c];
	}
	s->unanswered[SLC_ROW_other] += counts.stale;
	s->unanswered[SLC_ROW_pressure] += counts.pressure;
	s->unanswered[s->generation & 1] += counts.total - counts.stale - counts.pressure;
}

void signals_take(struct signals *s, const struct slc_signals *map, const struct slc_measure *measure,
		  const struct signals_facts *facts, uint32_t generation, struct sample *ret_sample)
{
	*ret_sample = (struct sample){.at_ns = facts->now_ns};
	if (!s->based || s->generation != generation)
		take_bases(s, map, generation);
	take_cells(s, map, ret_sample);
	take_known(s, map, ret_sample);
	take_certain(s, map, measure, ret_sample);
	take_no_listener(s, map, measure, facts, ret_sample);
	take_overdue(s, map, measure, facts->now_ns, ret_sample);
	take_pressed(s, map, ret_sample);
	s->overflow += facts->drops;
	/* Those that completed late take back what was counted too early; the counter itself never falls. */
	if (facts->admitted_then > facts->established + s->handshake_lost)
		s->handshake_lost = facts->admitted_then - facts->established;
	take_distributions(s, map, facts);
	window_add(s->minute, ret_sample);
	window_add(s->five, ret_sample);
}

void signals_rebase(struct signals *s, const struct slc_signals *map, uint32_t generation, uint64_t since_ns)
{
	take_bases(s, map, generation);
	if (since_ns > s->since_ns)
		s->since_ns = since_ns;
}

void signals_renew(struct signals *s, const struct slc_signals *map, uint64_t now_ns)
{
	signals_rebase(s, map, s->generation, now_ns);
	window_clear(s->minute);
	window_clear(s->five);
}

/* --- totals ------------------------------------------------------------------------------------------------------------ */

uint64_t signals_filed(const struct slc_signals *map, uint32_t kinds)
{
	uint64_t sum = 0;

	for (int row = 0; row < SLC_ROW_COUNT; row++) {
		for (unsigned int k = 0; k < SLC_OUTCOME_COUNT; k++)
			sum += kinds & 1u << k ? LOAD(map->outcomes[row][k]) : 0;
	}
	return sum;
}

uint64_t signals_outcome(const struct signals *s, const struct slc_signals *map, enum slc_row row,
			 enum slc_outcome kind)
{
	return LOAD(map->outcomes[row][kind]) + (kind == SLC_OUT_unanswered ? s->unanswered[row] : 0);
}

uint64_t signals_outcome_total(const struct signals *s, const struct slc_signals *map, enum slc_outcome kind)
{
	uint64_t total = 0;

	for (int row = 0; row < SLC_ROW_COUNT; row++)
		total += signals_outcome(s, map, row, kind);
	if (kind == SLC_OUT_overflow)
		total += s->overflow;
	if (kind == SLC_OUT_handshake_lost)
		total += s->handshake_lost;
	if (kind == SLC_OUT_no_listener)
		total += s->unlistened;
	return total;
}

uint64_t signals_in_flight(const struct signals *s, const struct slc_signals *map, uint64_t now_ns)
{
	return s->overdue ? overdue_in_flight(s->overdue, map, now_ns) : 0;
}

uint64_t signals_owed(const struct slc_signals *map)
{
	uint64_t ended = LOAD(map->turns_ended), begun = LOAD(map->turns_begun);

	return begun > ended ? begun - ended : 0;
}
