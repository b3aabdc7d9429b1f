// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/window.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000ULL

/* Outcomes by cell. 32 bits: one cell does not see 4e9 outcomes in a window. */
struct outcomes {
	uint64_t success, failure, unproven; /* over all cells */
	uint64_t known_success, known_failure, certain;
	uint64_t always;
	uint32_t always_sources;
	uint64_t busy[SLC_CELLS / 64]; /* cells that hold anything: the others are neither cleared nor read */
	struct cell_counts cells[SLC_CELLS];
};

struct bucket {
	bool used;
	uint64_t slot; /* of time; another one than asked for: what is here is old */
	struct outcomes outcomes;
};

struct window {
	uint64_t width_ns;
	unsigned int buckets;
	bool any;
	uint64_t newest; /* slot */
	bool filled; /* anything was recorded */
	uint64_t newest_filled; /* slot of the last that was */
	uint64_t second; /* of the newest `always`, and the sources it has seen so far */
	uint32_t second_sources;
	struct bucket bucket[]; /* slot % buckets; pages that are never touched cost nothing */
};

struct window *window_new(uint64_t width_ns, unsigned int buckets)
{
	struct window *window = calloc(1, sizeof(*window) + buckets * sizeof(window->bucket[0]));

	if (!window)
		return NULL;
	window->width_ns = width_ns;
	window->buckets = buckets;
	return window;
}

void window_free(struct window **window)
{
	free(*window);
	*window = NULL;
}

void window_clear(struct window *window)
{
	window->any = false;
	window->filled = false;
	window->second_sources = 0;
	for (unsigned int i = 0; i < window->buckets; i++)
		window->bucket[i].used = false;
}

static bool cell_busy(const struct cell_counts *cell)
{
	return cell->success | cell->failure | cell->unproven | cell->slow;
}

static void add_cell(struct outcomes *sum, unsigned int cell, const struct cell_counts *counts)
{
	struct cell_counts *to = &sum->cells[cell];

	if (!(sum->busy[cell / 64] & 1ULL << cell % 64)) {
		sum->busy[cell / 64] |= 1ULL << cell % 64;
		*to = *counts;
		return;
	}
	to->success += counts->success;
	to->failure += counts->failure;
	to->unproven += counts->unproven;
	to->slow += counts->slow;
}

/* All but the cells. */
static void outcomes_clear(struct outcomes *sum)
{
	memset(sum, 0, offsetof(struct outcomes, cells));
}

static void outcomes_merge(struct outcomes *sum, const struct outcomes *part)
{
	sum->success += part->success;
	sum->failure += part->failure;
	sum->unproven += part->unproven;
	sum->known_success += part->known_success;
	sum->known_failure += part->known_failure;
	sum->certain += part->certain;
	sum->always += part->always;
	if (sum->always_sources < part->always_sources)
		sum->always_sources = part->always_sources;
	for (unsigned int word = 0; word < SLC_CELLS / 64; word++) {
		for (uint64_t bits = part->busy[word]; bits; bits &= bits - 1) {
			unsigned int cell = word * 64 + __builtin_ctzll(bits);

			add_cell(sum, cell, &part->cells[cell]);
		}
	}
}

/* --- recording ------------------------------------------------------------------------------------------------------ */

static void rotate(struct window *window, uint64_t at_ns)
{
	uint64_t slot = at_ns / window->width_ns;

	if (!window->any || slot > window->newest) /* c94 */
		window->newest = slot;
	window->any = true;
}

/* The bucket of now, empty if it was another slot's. Only this one is touched, whatever the gap (c92). */
static struct outcomes *fill(struct window *window)
{
	struct bucket *bucket = &window->bucket[window->newest % window->buckets];

	if (!bucket->used || bucket->slot != window->newest) {
		bucket->used = true;
		bucket->slot = window->newest;
		outcomes_clear(&bucket->outcomes);
	}
	window->filled = true;
	window->newest_filled = window->newest;
	return &bucket->outcomes;
}

/*
 * A source files at most one failure of this kind in each second of the clock, so that the sources of one second are
 * different ones, and those of the next may be the same again.
 */
static void add_always(struct window *window, struct outcomes *to, const struct sample *sample)
{
	if (!sample->always)
		return;
	if (window->second != sample->at_ns / NS_PER_S) {
		window->second = sample->at_ns / NS_PER_S;
		window->second_sources = 0;
	}
	window->second_sources += sample->always_sources;
	to->always += sample->always;
	if (to->always_sources < window->second_sources)
		to->always_sources = window->second_sources;
}

static bool sample_empty(const struct sample *sample)
{
	if (sample->empty)
		return true;
	if (sample->known_success | sample->known_failure | sample->certain | sample->always)
		return false;
	for (unsigned int i = 0; i < SLC_CELLS; i++) {
		if (cell_busy(&sample->cells[i]))
			return false;
	}
	return true;
}

void window_add(struct window *window, const struct sample *sample)
{
	struct outcomes *to;

	rotate(window, sample->at_ns);
	if (sample_empty(sample))
		return;
	to = fill(window);
	for (unsigned int i = 0; i < SLC_CELLS; i++) {
		const struct cell_counts *cell = &sample->cells[i];

		if (!cell_busy(cell))
			continue;
		add_cell(to, i, cell);
		to->success += cell->success;
		to->failure += cell->failure;
		to->unproven += cell->unproven;
	}
	to->known_success += sample->known_success;
	to->known_failure += sample->known_failure;
	to->certain += sample->certain;
	add_always(window, to, sample);
}

/* --- weights ---------------------------------------------------------------------------------------------------------- */

/* One cell's part of the window is at most 1 / this; 0: no bound, too few are active. */
static unsigned int parts_of(unsigned int active)
{
	if (active >= WINDOW_MANY_CELLS)
		return WINDOW_MANY_PARTS;
	return active >= WINDOW_SOME_CELLS ? WINDOW_SOME_PARTS : 0;
}

/*
 * Water-filling: the cap k for which k = (sum of min(n, k)) / parts, or all of the largest where it is lighter than
 * that. With m cells above the cap and the rest summing to r: k = r / (parts - m). Each round finds more cells above a
 * lower cap, until none is found; m stays below `parts` since the smallest of >= parts cells is never above it.
 * Compared in whole numbers, so that rounding cannot put all cells above their own cap.
 */
static double cap_of(const uint64_t *n, unsigned int cells, unsigned int parts)
{
	uint64_t sum = 0, rest;
	unsigned int above = 0, found;

	for (unsigned int i = 0; i < cells; i++)
		sum += n[i];
	for (rest = sum;; above = found) {
		uint64_t below = 0;

		found = 0;
		for (unsigned int i = 0; i < cells; i++) {
			if (n[i] * (parts - above) > rest)
				found++;
			else
				below += n[i];
		}
		if (found == above)
			return (double)rest / (parts - above);
		rest = below;
	}
}

/* One cell of a tally: unproven failures count or not. */
static uint64_t failures_of(const struct cell_counts *cell, bool unproven_counts)
{
	return cell->failure + (unproven_counts ? (uint64_t)cell->unproven : 0);
}

/* Weights, raw sums and cells; all unproven failures count, or none. */
static void weigh(const struct outcomes *sum, bool unproven_counts, struct tally *tally)
{
	uint64_t n[SLC_CELLS], whole = 0;
	const struct cell_counts *cells[SLC_CELLS];
	double cap = 0, average = 1;
	unsigned int parts;

	*tally = (struct tally){.discounted = unproven_counts ? 0 : sum->unproven};
	for (unsigned int i = 0; i < SLC_CELLS; i++) {
		const struct cell_counts *cell = &sum->cells[i];

		if (!(sum->busy[i / 64] & 1ULL << i % 64))
			continue;
		cells[tally->active] = cell;
		n[tally->active] = cell->success + failures_of(cell, unproven_counts);
		if (n[tally->active])
			whole += n[tally->active++];
	}
	parts = parts_of(tally->active);
	if (parts)
		cap = cap_of(n, tally->active, parts);
	for (unsigned int i = 0; i < tally->active; i++) {
		double scale = parts && n[i] > cap ? cap / n[i] : 1;
		uint64_t failure = failures_of(cells[i], unproven_counts);

		tally->success_weight += scale * cells[i]->success;
		tally->failure_weight += scale * failure;
		tally->slow_weight += scale * cells[i]->slow;
		tally->failing += failure > 0;
	}
	/* Failures that are in no cell weigh as an outcome does on average: whose they are says nothing about them. */
	if (whole)
		average = (tally->success_weight + tally->failure_weight) / whole;
	tally->failure_weight += average * sum->always;
	tally->outcomes = whole + sum->always;
	tally->failures = tally->outcomes - sum->success;
}

/* Whether known-good sources fail at that rate, or at a higher one. */
static bool borne_out(const struct outcomes *sum, const struct tally *tally)
{
	return tally->failure_weight * sum->known_success <= tally->success_weight * sum->known_failure;
}

/* Unproven failures of cells that have no other, and those of them that have no outcome else; as many as count. */
static void add_sources(const struct outcomes *sum, uint64_t counted, struct tally *tally)
{
	uint64_t failing = 0, active = 0;

	for (unsigned int i = 0; i < SLC_CELLS; i++) {
		const struct cell_counts *cell = &sum->cells[i];

		if (!(sum->busy[i / 64] & 1ULL << i % 64) || !cell->unproven || cell->failure)
			continue;
		failing++;
		active += !cell->success;
	}
	tally->failing += failing < counted ? failing : counted;
	tally->active += active < counted ? active : counted;
}

/*
 * As many unproven failures as bring the rate to that of known-good sources. All of them are scaled alike, so that they
 * weigh in common: by cells, each within its bound, they would outweigh few proven sources whose cells are bounded too.
 */
static void add_borne_out(const struct outcomes *sum, struct tally *tally)
{
	double average, room, most;
	uint64_t counted;

	if (!tally->outcomes || !borne_out(sum, tally))
		return;
	average = (tally->success_weight + tally->failure_weight) / tally->outcomes;
	room = tally->success_weight * sum->known_failure / sum->known_success - tally->failure_weight;
	most = room / average;
	counted = most < sum->unproven ? (uint64_t)most : sum->unproven;
	tally->failure_weight += average * counted;
	tally->outcomes += counted;
	tally->failures += counted;
	tally->discounted -= counted;
	add_sources(sum, counted, tally);
}

static void count_unproven(const struct outcomes *sum, struct tally *tally)
{
	struct tally all;

	if (!sum->unproven || sum->known_failure < WINDOW_KNOWN_FAILURES)
		return;
	weigh(sum, true, &all);
	if (borne_out(sum, &all))
		*tally = all;
	else
		add_borne_out(sum, tally);
}

static void make_rates(struct tally *tally)
{
	double weight = tally->success_weight + tally->failure_weight;

	tally->has_rate = tally->outcomes > 0;
	tally->failure_rate = tally->has_rate ? tally->failure_weight / weight : 0;
	tally->slow_rate = tally->has_rate ? tally->slow_weight / weight : 0;
}

void window_doubt(struct tally *tally)
{
	uint64_t doubted = tally->failures - tally->certain;

	if (!doubted)
		return;
	tally->failure_weight *= (double)tally->certain / (double)tally->failures;
	tally->failures -= doubted;
	tally->outcomes -= doubted;
	tally->discounted += doubted;
	if (!tally->failures)
		tally->failing = 0;
	make_rates(tally);
}

static void tally_of(const struct outcomes *sum, struct tally *tally)
{
	weigh(sum, false, tally);
	count_unproven(sum, tally);
	if (tally->failing < sum->always_sources)
		tally->failing = sum->always_sources;
	if (tally->active < tally->failing)
		tally->active = tally->failing;
	tally->certain = sum->certain + sum->always;
	if (tally->certain > tally->failures)
		tally->certain = tally->failures;
	make_rates(tally);
}

/* --- evaluating --------------------------------------------------------------------------------------------------------- */

static uint64_t slot_of(const struct window *window, uint64_t now_ns)
{
	uint64_t slot = now_ns / window->width_ns;

	return window->any && slot < window->newest ? window->newest : slot;
}

/* Oldest slot of the window: its start is later than now - W. */
static uint64_t oldest_of(const struct window *window, uint64_t slot)
{
	return slot >= window->buckets - 1 ? slot - (window->buckets - 1) : 0;
}

static bool nothing_since(const struct window *window, uint64_t oldest)
{
	return !window->filled || window->newest_filled < oldest;
}

static void sum_slots(const struct window *window, uint64_t oldest, uint64_t newest, struct tally *tally)
{
	struct outcomes sum;

	outcomes_clear(&sum);
	for (unsigned int i = 0; i < window->buckets; i++) {
		const struct bucket *bucket = &window->bucket[i];

		if (bucket->used && bucket->slot >= oldest && bucket->slot <= newest)
			outcomes_merge(&sum, &bucket->outcomes);
	}
	tally_of(&sum, tally);
}

void window_sum(const struct window *window, uint64_t now_ns, struct tally *ret_tally)
{
	uint64_t slot = slot_of(window, now_ns), oldest = oldest_of(window, slot);

	*ret_tally = (struct tally){0};
	if (!nothing_since(window, oldest))
		sum_slots(window, oldest, slot, ret_tally);
}

void window_newest(const struct window *window, uint64_t now_ns, uint64_t outcomes, uint64_t within_ns,
		   struct tally *ret_tally)
{
	uint64_t newest = slot_of(window, now_ns), oldest = oldest_of(window, newest), slot;
	uint64_t counted = 0;

	if (now_ns < newest * window->width_ns)
		now_ns = newest * window->width_ns;
	if (now_ns >= within_ns && oldest < (now_ns - within_ns) / window->width_ns + 1)
		oldest = (now_ns - within_ns) / window->width_ns + 1;
	*ret_tally = (struct tally){0};
	if (nothing_since(window, oldest))
		return;
	for (slot = window->newest_filled; slot > oldest; slot--) {
		const struct bucket *bucket = &window->bucket[slot % window->buckets];

		if (!bucket->used || bucket->slot != slot)
			continue;
		counted += bucket->outcomes.success + bucket->outcomes.failure + bucket->outcomes.always;
		if (counted >= outcomes)
			break;
	}
	if (slot < oldest)
		slot = oldest; /* not even the newest one is young enough: an empty range */
	sum_slots(window, slot, newest, ret_tally);
}
