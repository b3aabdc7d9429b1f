/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breaker_sim.h: a breaker under a fake clock. struct sim feeds it outcomes tick by tick; struct world also plays the
 * kernel (admission, slots of slc_probe, outcomes filed with the generation their turn began in) and the service.
 */
#ifndef TESTS_UNIT_BREAKER_SIM_H
#define TESTS_UNIT_BREAKER_SIM_H

#include <math.h>
#include <string.h>

#include "tests/unit/dice.h"
#include "user/decide/breaker.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define TICK (100 * MS)

__attribute__((unused)) static struct breaker_config sim_config(void)
{
	return (struct breaker_config){
		.enforce = true,
		.window_ns = 60 * S,
		.buckets = 10,
		.min_outcomes = 20,
		.min_sources = 3,
		.failure_rate = 5000,
		.fast_outcomes = 100,
		.fast_within_ns = 10 * S,
		.has_consecutive = true,
		.consecutive = 5,
		.has_silent = true,
		.silent_ns = 10 * S,
		.formula = RISK_LOG,
		.err_ref = 3000,
		.base_ns = 200 * MS,
		.lat_ref_ns = 400 * MS,
		.risk_weights = {600, 400},
		.open_at = 800,
		.open_base_ns = 1 * S,
		.open_cap_ns = 30 * S,
		.jitter = JITTER_FULL,
		.probes = 5,
		.close_after = 3,
		.max_half_open_ns = 30 * S,
		.ramp_from = 1000,
		.ramp_step = 1000,
		.ramp_every_ns = 1 * S,
		.health_weights = {400, 300, 200, 100},
		.health_gate = 8500,
		.slow_after_ns = 400 * MS,
		.timeout_ns = 5 * S,
	};
}

static double sim_uniform(void)
{
	return ((double)dice(1ULL << 48) + 1) / (double)((1ULL << 48) + 1);
}

/* How many of n, each with probability p: steps from one to the next, so that rare ones cost little. */
__attribute__((unused)) static unsigned int binomial(unsigned int n, double p)
{
	unsigned int hits = 0;
	double at = 0;

	if (p >= 1)
		return n;
	while (p > 0) {
		at += floor(log(sim_uniform()) / log1p(-p)) + 1;
		if (at > n)
			break;
		hits++;
	}
	return hits;
}

struct sim {
	struct breaker breaker;
	struct breaker_input input;
	struct baseline baseline; /* nothing learned, unless a test says so */
	struct sample sample;
	struct breaker_decision decision;
	struct breaker_event event; /* the newest */
	unsigned int events;
	unsigned int cells; /* sources, each a cell of its own */
	unsigned int bad_cells; /* of these fail: the first ones; 0: any may */
	bool causable; /* failures are such as a client can cause alone */
};

__attribute__((unused)) static void sim_begin(struct sim *sim, const struct breaker_config *config)
{
	memset(sim, 0, sizeof(*sim));
	sim->cells = 30;
	sim->input.now_ns = 1000 * S;
	assert_int_equal(breaker_init(&sim->breaker, config, 7, sim->input.now_ns), 0);
}

__attribute__((unused)) static void sim_end(struct sim *sim)
{
	breaker_finish(&sim->breaker);
}

/* Bookkeeping that holds at every tick of every test. */
static void sim_tick_after(struct sim *sim, uint64_t ns)
{
	struct breaker_event events[BREAKER_EVENTS_MAX];
	const enum breaker_state before = sim->breaker.state;
	const uint32_t generation = sim->breaker.generation;
	unsigned int moved;

	for (unsigned int i = 0; i < SLC_CELLS && !sim->causable; i++)
		sim->sample.certain += sim->sample.cells[i].failure + sim->sample.cells[i].unproven;
	sim->input.now_ns += ns;
	sim->sample.at_ns = sim->input.now_ns;
	sim->input.sample = &sim->sample;
	sim->input.baseline = &sim->baseline;
	sim->input.random = dice(1ULL << 32) << 32 | dice(1ULL << 32);
	moved = breaker_tick(&sim->breaker, &sim->input, events, &sim->decision);
	assert_true(moved <= 1);
	assert_int_equal(sim->breaker.generation, generation + moved);
	assert_true(sim->decision.open + sim->decision.half_open + sim->decision.ramp <= 1);
	assert_true(sim->decision.reserved <= sim->decision.probes);
	if (moved) {
		sim->event = events[0];
		assert_int_equal(sim->event.from, before);
		assert_int_equal(sim->event.to, sim->breaker.state);
		assert_int_equal(sim->event.rule, sim->breaker.rule);
		assert_int_equal(sim->event.generation, sim->breaker.generation);
		assert_int_equal(sim->event.at_ns, sim->input.now_ns);
	} else {
		assert_int_equal(sim->breaker.state, before);
	}
	sim->events += moved;
	memset(&sim->sample, 0, sizeof(sim->sample));
}

__attribute__((unused)) static void sim_fill(struct sim *sim, unsigned int success, unsigned int failure)
{
	const unsigned int bad = sim->bad_cells ? sim->bad_cells : sim->cells;

	for (; success > sim->cells; success -= sim->cells) { /* many: a round each, only the rest by chance */
		for (unsigned int i = 0; i < sim->cells; i++)
			sim->sample.cells[i].success++;
	}
	while (success-- > 0)
		sim->sample.cells[dice(sim->cells)].success++;
	while (failure-- > 0)
		sim->sample.cells[dice(bad)].failure++;
}

/* One tick with these outcomes. */
__attribute__((unused)) static void sim_tick(struct sim *sim, unsigned int success, unsigned int failure)
{
	sim_fill(sim, success, failure);
	sim_tick_after(sim, TICK);
}

/* `per_s` outcomes a second, each failed with probability p, for so long or until a transition. True: none. */
__attribute__((unused)) static bool sim_run(struct sim *sim, double per_s, double p, uint64_t ns)
{
	const unsigned int before = sim->events;
	double due = 0;

	for (uint64_t at = 0; at < ns && sim->events == before; at += TICK) {
		unsigned int n, failures;

		due += per_s * TICK / S;
		n = (unsigned int)due;
		due -= n;
		failures = binomial(n, p);
		sim_tick(sim, n - failures, failures);
	}
	return sim->events == before;
}

/* --- kernel and service ------------------------------------------------------------------------------------------- */

enum service { HEALTHY, FAILING, HANGING };

#define WORLD_SLOTS 16
#define WORLD_DELAY 64 /* ticks; longer than any timeout here */

struct world {
	struct sim sim;
	enum service service;
	double per_s; /* attempts */
	double vanish; /* share of them whose client never finishes the handshake */
	double neutral; /* share of probes that end so */
	double due, ramp_due;
	struct {
		uint32_t generation;
		enum slc_slot_state state;
		uint64_t deadline_ns;
	} slots[WORLD_SLOTS];
	uint32_t period; /* generation of the half-open period whose established ones are counted */
	unsigned int established; /* in it, without those that ended neutral */
	struct {
		uint32_t generation;
		unsigned int success, failure;
	} pending[WORLD_DELAY][3]; /* by tick of completion; generations of one tick */
	unsigned int tick;
	uint64_t other; /* outcomes of another generation: filed, and not in the sample */
	unsigned int owed;
};

static bool slot_is_free(const struct world *world, unsigned int i)
{
	const enum slc_slot_state state = world->slots[i].state;

	if (world->slots[i].generation != world->sim.breaker.generation || state == SLC_SLOT_free)
		return true;
	return (state == SLC_SLOT_ticket || state == SLC_SLOT_probe) &&
	       world->slots[i].deadline_ns <= world->sim.input.now_ns;
}

static void file_later(struct world *world, unsigned int ticks, bool success)
{
	const uint32_t generation = world->sim.breaker.generation;
	unsigned int at = (world->tick + ticks) % WORLD_DELAY, i = 0;

	while (i < 2 && world->pending[at][i].generation != generation && world->pending[at][i].generation)
		i++;
	world->pending[at][i].generation = generation;
	world->pending[at][i].success += success;
	world->pending[at][i].failure += !success;
}

/* A turn begins: when and how it will end. */
static void begin_turn(struct world *world)
{
	if (world->service == HANGING)
		file_later(world, world->sim.breaker.config.timeout_ns / TICK, false);
	else
		file_later(world, 1, world->service == HEALTHY);
}

static void claim(struct world *world)
{
	unsigned int i = 0;

	while (i < world->sim.decision.probes && !slot_is_free(world, i))
		i++;
	if (i == world->sim.decision.probes)
		return;
	world->slots[i].generation = world->sim.breaker.generation;
	world->slots[i].state = SLC_SLOT_ticket;
	world->slots[i].deadline_ns = world->sim.input.now_ns + world->sim.decision.ticket_ms * MS;
	if (sim_uniform() < world->vanish)
		return;
	world->slots[i].state = SLC_SLOT_owed;
	world->slots[i].deadline_ns = world->sim.input.now_ns + world->sim.breaker.config.timeout_ns;
	if (world->period != world->sim.breaker.generation) {
		world->period = world->sim.breaker.generation;
		world->established = 0;
	}
	world->established++;
	assert_true(world->established <= world->sim.decision.probes);
	begin_turn(world);
}

/* Answers of probes, one tick later; what is past its deadline is read as failed. */
static void end_probes(struct world *world)
{
	struct probe_view *view = &world->sim.input.probes;

	memset(view, 0, sizeof(*view));
	for (unsigned int i = 0; i < WORLD_SLOTS; i++) {
		if (world->slots[i].generation != world->sim.breaker.generation)
			continue;
		if (world->slots[i].state == SLC_SLOT_owed && world->service != HANGING) {
			world->slots[i].state = world->service == HEALTHY ? SLC_SLOT_success : SLC_SLOT_failure;
			if (sim_uniform() < world->neutral) {
				world->slots[i].state = SLC_SLOT_free;
				world->established--;
			}
		}
		switch (world->slots[i].state) {
		case SLC_SLOT_ticket:
			view->tickets += world->slots[i].deadline_ns > world->sim.input.now_ns;
			break;
		case SLC_SLOT_owed:
			view->outstanding += world->slots[i].deadline_ns > world->sim.input.now_ns;
			view->failed += world->slots[i].deadline_ns <= world->sim.input.now_ns;
			break;
		case SLC_SLOT_success:
			view->succeeded++;
			break;
		case SLC_SLOT_failure:
			view->failed++;
			break;
		default:
			break;
		}
	}
	assert_true(view->tickets + view->outstanding + view->succeeded + view->failed <= WORLD_SLOTS);
}

static void admit(struct world *world)
{
	const struct breaker_decision *decision = &world->sim.decision;
	unsigned int attempts;

	world->due += world->per_s * TICK / S;
	attempts = (unsigned int)world->due;
	world->due -= attempts;
	if (decision->ramp && !decision->shadow) {
		world->ramp_due = fmin(world->ramp_due + decision->ramp_rate * TICK / S, attempts);
		attempts = (unsigned int)world->ramp_due;
		world->ramp_due -= attempts;
	}
	for (; attempts > 0; attempts--) {
		if (decision->shadow || (!decision->open && !decision->half_open))
			begin_turn(world);
		else if (decision->half_open)
			claim(world);
	}
}

/* What ended in this tick: of the breaker's generation to the sample, the rest to the row `other`. */
static void file_outcomes(struct world *world)
{
	for (unsigned int i = 0; i < 3; i++) {
		const unsigned int success = world->pending[world->tick % WORLD_DELAY][i].success;
		const unsigned int failure = world->pending[world->tick % WORLD_DELAY][i].failure;

		if (world->pending[world->tick % WORLD_DELAY][i].generation == world->sim.breaker.generation)
			sim_fill(&world->sim, success, failure);
		else
			world->other += success + failure;
		if (success) {
			world->sim.input.has_last_answer = true;
			world->sim.input.last_answer_ns = world->sim.input.now_ns;
		}
	}
	memset(world->pending[world->tick % WORLD_DELAY], 0, sizeof(world->pending[0]));
}

static void world_tick(struct world *world)
{
	world->tick++;
	end_probes(world);
	file_outcomes(world);
	sim_tick_after(&world->sim, TICK);
	admit(world);
}

__attribute__((unused)) static void world_begin(struct world *world, const struct breaker_config *config)
{
	memset(world, 0, sizeof(*world));
	sim_begin(&world->sim, config);
	world->per_s = 200;
}

/* Until this state, at most so long. True: reached. */
__attribute__((unused)) static bool world_until(struct world *world, enum breaker_state state, uint64_t ns)
{
	for (uint64_t at = 0; at <= ns; at += TICK) {
		if (world->sim.breaker.state == state)
			return true;
		world_tick(world);
	}
	return world->sim.breaker.state == state;
}

__attribute__((unused)) static void world_run(struct world *world, uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += TICK)
		world_tick(world);
}

#endif /* TESTS_UNIT_BREAKER_SIM_H */
