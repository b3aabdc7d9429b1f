// SPDX-License-Identifier: GPL-2.0-only
/* test_signals: from what the kernel has counted to what one tick saw; slots of a half-open breaker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/signals.h"

#define TICK (100 * NS_PER_MS)
#define START (1000 * NS_PER_S)

/* A service as the kernel has it, and what user space makes of it. */
struct bench {
	struct slc_signals map;
	struct slc_measure measure;
	struct signals signals;
	struct signals_facts facts;
	struct sample sample;
};

static int set_up(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));

	*state = b;
	if (!b || signals_init(&b->signals))
		return -1;
	b->measure = (struct slc_measure){.failures = SLC_FAILURES_DEFAULT,
					  .slow_after_ns = 400 * NS_PER_MS,
					  .timeout_ns = NS_PER_S,
					  .owed_shift = 27};
	b->facts.now_ns = START;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	signals_free(&b->signals);
	free(b);
	return 0;
}

static void tick(struct bench *b, uint32_t generation)
{
	b->facts.now_ns += TICK;
	signals_take(&b->signals, &b->map, &b->measure, &b->facts, generation, &b->sample);
}

static uint64_t all_failures(const struct sample *sample)
{
	uint64_t sum = 0;

	for (unsigned int c = 0; c < SLC_CELLS; c++)
		sum += sample->cells[c].failure + sample->cells[c].unproven;
	return sum;
}

/* What was there before the first look is of another time; then each outcome is seen once. */
static void differences_are_taken(void **state)
{
	struct bench *b = *state;

	b->map.cells[0][7] = (struct slc_cell){.success = 100, .failure = 50};
	b->map.known_failure[0] = 9;
	tick(b, 4);
	assert_int_equal(b->sample.cells[7].success, 0);
	assert_int_equal(b->sample.known_failure, 0);
	b->map.cells[0][7].success += 3;
	b->map.cells[0][7].slow += 1;
	b->map.cells[0][9].unproven = UINT32_MAX; /* the counter comes round in the next tick */
	b->map.known_success[0] = 2;
	tick(b, 4);
	assert_int_equal(b->sample.at_ns, b->facts.now_ns);
	assert_int_equal(b->sample.cells[7].success, 3);
	assert_int_equal(b->sample.cells[7].slow, 1);
	assert_int_equal(b->sample.known_success, 2);
	b->map.cells[0][9].unproven = 4;
	tick(b, 4);
	assert_int_equal(b->sample.cells[7].success, 0);
	assert_int_equal(b->sample.cells[9].unproven, 5);
}

/* Of the failures those that no client can cause alone, by kind; what is no failure here is none. */
static void certain_failures_are_of_the_service(void **state)
{
	struct bench *b = *state;
	uint32_t certain[SLC_OUTCOME_COUNT] = {[SLC_OUT_reset] = 1, [SLC_OUT_http_5xx] = 1};

	b->map.outcomes[0][SLC_OUT_reset] = 50;
	tick(b, 0);
	assert_int_equal(b->sample.certain, 0);
	for (int slow_fails = 0; slow_fails < 2; slow_fails++) {
		for (int kind = 0; kind < SLC_OUTCOME_COUNT; kind++) {
			b->map.outcomes[0][kind] += 7;
			b->map.outcomes[1][kind] += 9; /* of another generation */
			tick(b, 0);
			assert_int_equal(b->sample.certain, 7 * certain[kind]);
			assert_false(b->sample.certain && b->sample.empty);
		}
		tick(b, 0);
		assert_int_equal(b->sample.certain, 0);
		b->measure.failures |= 1u << SLC_OUT_slow;
		certain[SLC_OUT_slow] = 1;
	}
}

/* c86: what ends late is in the row of its own generation, and in no sample of the new one. */
static void c86_late_results_are_of_their_own_generation(void **state)
{
	struct bench *b = *state;

	tick(b, 4);
	b->map.cells[1][3].failure = 1000; /* generation 3 and before */
	tick(b, 4);
	assert_int_equal(all_failures(&b->sample), 0);
	signals_rebase(&b->signals, &b->map, 5, b->facts.now_ns);
	b->map.cells[0][3].failure += 20; /* of generation 4, filed in the moment of the change */
	b->map.cells[1][3].failure += 2;
	b->map.outcomes[SLC_ROW_other][SLC_OUT_reset] += 30; /* and after it */
	tick(b, 5);
	assert_int_equal(all_failures(&b->sample), 2);
	signals_rebase(&b->signals, &b->map, 6, b->facts.now_ns);
	tick(b, 6);
	assert_int_equal(all_failures(&b->sample), 0);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_reset), 30);
}

static void nobody_listens_counts_once_a_tick(void **state)
{
	struct bench *b = *state;

	b->map.outcomes[0][SLC_OUT_no_listener] = 5;
	tick(b, 0);
	b->map.outcomes[0][SLC_OUT_no_listener] += 3;
	b->map.no_listener_s[1] = b->map.no_listener_s[200] = 1000;
	tick(b, 0);
	assert_int_equal(b->sample.always, 3);
	assert_int_equal(b->sample.always_sources, 2);
	tick(b, 0);
	assert_int_equal(b->sample.always, 0);
	b->measure.failures &= ~SLC_FAILS_no_listener; /* breaker.failures does not name it */
	b->map.outcomes[0][SLC_OUT_no_listener]++;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0);
}

/*
 * It listens on one address of the host; SYNs to another one meet nobody, and those who send them need not exist. Only
 * once it listens nowhere has it failed, and what came before that is not made up for.
 */
static void nobody_listens_where_the_service_is_not(void **state)
{
	struct bench *b = *state;

	b->facts.was_listening = b->facts.listening = true;
	tick(b, 0);
	for (int i = 0; i < 50; i++) {
		b->map.outcomes[0][SLC_OUT_no_listener] += 100;
		for (int c = 0; c < 100; c++)
			b->map.no_listener_s[c] = 1000 + i;
		tick(b, 0);
		assert_int_equal(b->sample.always, 0);
		assert_int_equal(b->sample.always_sources, 0);
	}
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_no_listener), 5000);
	b->facts.listening = false;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0);
	b->map.outcomes[0][SLC_OUT_no_listener] += 4;
	b->map.no_listener_s[7] = 2000;
	tick(b, 0);
	assert_int_equal(b->sample.always, 4);
	assert_int_equal(b->sample.always_sources, 1);
}

/* Without a look of the kernel side: it listened, does not any more, and somebody was let through to nobody. */
static void without_the_gate_sock_diag_tells(void **state)
{
	struct bench *b = *state;

	b->facts.gate_blind = true;
	b->facts.admitted = 10;
	tick(b, 0);
	b->facts.admitted = 20;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0); /* nobody knows whether it ever listened */
	b->facts.was_listening = b->facts.listening = true;
	b->facts.admitted = 30;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0);
	b->facts.listening = false;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0); /* nobody came */
	b->facts.admitted = 90;
	tick(b, 0);
	assert_int_equal(b->sample.always, 1);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_no_listener), 1);
	b->facts.gate_blind = false;
	b->facts.admitted = 100;
	tick(b, 0);
	assert_int_equal(b->sample.always, 0); /* the kernel side counts these */
}

/* Turns that began in this slot and cell and never end. */
static void owe(struct bench *b, enum slc_grade grade, unsigned int cell, uint64_t at_ns, uint32_t count)
{
	b->map.started[grade][at_ns / SLC_TURN_SLOT_NS % SLC_TURN_SLOTS].started += count;
	if (grade != SLC_GRADE_pressure)
		b->map.owed[grade][at_ns >> b->measure.owed_shift & (SLC_OWED_SLOTS - 1)][cell >> 2] += count;
	b->map.turns_begun += count;
}

static void unanswered_turns_are_failures_when_their_time_is_over(void **state)
{
	struct bench *b = *state;
	uint64_t failures = 0;

	b->signals.since_ns = START;
	tick(b, 0);
	owe(b, SLC_GRADE_proven, 40, b->facts.now_ns + TICK, 12);
	owe(b, SLC_GRADE_pressure, 40, b->facts.now_ns + TICK, 7);
	for (int i = 0; i < 9; i++) {
		tick(b, 0);
		assert_int_equal(all_failures(&b->sample), 0);
	}
	for (int i = 0; i < 6; i++) {
		tick(b, 0);
		failures += all_failures(&b->sample);
	}
	assert_int_equal(failures, 12);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_unanswered), 19);
	assert_int_equal(signals_outcome(&b->signals, &b->map, SLC_ROW_pressure, SLC_OUT_unanswered), 7);
	assert_int_equal(signals_owed(&b->map), 19);
}

/* Datagrams without an answer: their turns end for nobody but the clock, and the service is at rest then. */
static void datagrams_that_nobody_answers_are_in_flight_until_timeout(void **state)
{
	struct bench *b = *state;

	tick(b, 0);
	for (int i = 0; i < 50; i++) { /* 5 s */
		if (i < 30)
			owe(b, SLC_GRADE_proven, 40, b->facts.now_ns + TICK, 1);
		tick(b, 0);
		assert_in_range(b->signals.in_flight, 0, 12); /* of the last second */
		assert_true(b->signals.in_flight > 0 || i > 30);
	}
	assert_int_equal(signals_owed(&b->map), 30);
	for (int i = 0; i < 100; i++) {
		tick(b, 0);
		assert_int_equal(b->signals.in_flight, 0);
		assert_int_equal(signals_in_flight(&b->signals, &b->map, b->facts.now_ns), 0);
	}
}

/* c86: of turns that began in another state the breaker learns nothing. */
static void c86_unanswered_turns_of_before_are_stale(void **state)
{
	struct bench *b = *state;

	b->signals.since_ns = START;
	tick(b, 0);
	owe(b, SLC_GRADE_proven, 40, b->facts.now_ns + TICK, 12);
	for (int i = 0; i < 5; i++)
		tick(b, 0);
	signals_rebase(&b->signals, &b->map, 1, b->facts.now_ns);
	for (int i = 0; i < 12; i++) {
		tick(b, 1);
		assert_int_equal(all_failures(&b->sample), 0);
	}
	assert_int_equal(signals_outcome(&b->signals, &b->map, SLC_ROW_other, SLC_OUT_unanswered), 12);
}

static void lost_handshakes_never_fall(void **state)
{
	struct bench *b = *state;

	b->facts.admitted_then = 100;
	b->facts.established = 90;
	tick(b, 0);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_handshake_lost), 10);
	b->facts.established = 95; /* some were only late */
	tick(b, 0);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_handshake_lost), 10);
	b->facts.admitted_then = 120;
	b->facts.drops = 4;
	tick(b, 0);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_handshake_lost), 25);
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_overflow), 4);
}

/* c101: what came in a gap is in no sample. */
static void c101_a_gap_is_forgotten(void **state)
{
	struct bench *b = *state;

	tick(b, 2);
	b->map.cells[0][1].failure += 500;
	b->facts.now_ns += 30 * NS_PER_S;
	signals_renew(&b->signals, &b->map, b->facts.now_ns);
	tick(b, 2);
	assert_int_equal(all_failures(&b->sample), 0);
}

static void percentiles_and_totals(void **state)
{
	struct bench *b = *state;
	struct dist_counts counts;
	uint64_t ns;

	b->map.latency.bin[dist_bin(NS_PER_MS)] = 5; /* from before: in the totals only */
	tick(b, 0);
	b->map.latency.bin[dist_bin(50 * NS_PER_MS)] += 100;
	b->map.latency.sum_ns += 100 * 50 * NS_PER_MS;
	tick(b, 0);
	dist_window_sum(b->signals.latency.minute, b->facts.now_ns, &counts);
	assert_int_equal(counts.total, 0); /* nothing has ended: it is not read */
	b->map.turns_ended = 100;
	tick(b, 0);
	dist_window_sum(b->signals.latency.minute, b->facts.now_ns, &counts);
	assert_int_equal(counts.total, 100);
	assert_true(dist_quantile(&counts, 5000, &ns));
	assert_in_range(ns, 49 * NS_PER_MS, 51 * NS_PER_MS);
	assert_int_equal(b->signals.latency.total.total, 105);
	assert_int_equal(dist_total_below(&b->signals.latency.total, 10 * NS_PER_MS), 5);
	assert_int_equal(dist_total_below(&b->signals.latency.total, NS_PER_S), 105);
}

/* The kernel's bins have 32 bits; Prometheus reads counters that do not fall. */
static void totals_do_not_come_round(void **state)
{
	static struct slc_dist dist;
	static struct dist_total total;

	(void)state;
	dist.bin[100] = UINT32_MAX - 1;
	dist_total_take(&total, &dist);
	dist.bin[100] += 10;
	dist_total_take(&total, &dist);
	assert_int_equal(total.total, (uint64_t)UINT32_MAX + 9);
	assert_int_equal(dist_total_below(&total, NS_PER_S), total.total);
	for (uint64_t ns = NS_PER_MS / 1000, below = 0; ns < 100 * NS_PER_S; ns += ns / 7 + 1) {
		assert_true(dist_total_below(&total, ns) >= below);
		below = dist_total_below(&total, ns);
	}
}

/* --- slots ------------------------------------------------------------------------------------------------------------ */

static void put(struct slc_probe *probe, unsigned int i, uint32_t generation, enum slc_slot_state slot_state,
		uint64_t deadline_ns)
{
	probe->slot[i].word = 0;
	probe->slot[i].tag = 1 + i;
	probe->slot[i].generation = generation & 0xffffff;
	probe->slot[i].state = slot_state;
	probe->deadline_ns[i] = deadline_ns;
}

/* c80: whoever never reports is past its deadline one day: owed an answer it has failed, else its slot is nobody's. */
static void c80_slots_end_by_their_deadline(void **state)
{
	struct slc_probe probe = {0};
	struct probe_view view;

	(void)state;
	put(&probe, 0, 9, SLC_SLOT_ticket, START + 1);
	put(&probe, 1, 9, SLC_SLOT_ticket, START);
	put(&probe, 2, 9, SLC_SLOT_probe, START + 1);
	put(&probe, 3, 9, SLC_SLOT_probe, START);
	put(&probe, 4, 9, SLC_SLOT_owed, START + 1);
	put(&probe, 5, 9, SLC_SLOT_owed, START);
	put(&probe, 6, 9, SLC_SLOT_success, 0);
	put(&probe, 7, 9, SLC_SLOT_failure, 0);
	put(&probe, 8, 9, SLC_SLOT_free, 0);
	probes_view(&probe, 9, START, &view);
	assert_int_equal(view.tickets, 1);
	assert_int_equal(view.outstanding, 2);
	assert_int_equal(view.succeeded, 1);
	assert_int_equal(view.failed, 2);
}

/* c86: a probe of one half-open period says nothing in the next; generations are compared in the slot's 24 bits. */
static void c86_slots_of_another_generation_do_not_count(void **state)
{
	struct slc_probe probe = {0};
	struct probe_view view;

	(void)state;
	put(&probe, 0, 9, SLC_SLOT_success, 0);
	put(&probe, 1, 11, SLC_SLOT_failure, 0);
	probes_view(&probe, 10, START, &view);
	assert_int_equal(view.succeeded + view.failed + view.tickets + view.outstanding, 0);
	put(&probe, 2, 0x5000001, SLC_SLOT_success, 0);
	probes_view(&probe, 0x5000001, START, &view);
	assert_int_equal(view.succeeded, 1);
}

static void rates_become_intervals(void **state)
{
	(void)state;
	assert_int_equal(rate_interval16(200), 80000000);
	assert_int_equal(rate_interval16(3), 5333333334); /* rounded up: never faster */
	assert_int_equal(rate_interval16(1e12), 1);
	assert_true(rate_interval16(0) == ~0ULL);
}

/* Whoever reads samples may pass over the cells of one that is said to be empty. */
static void only_what_holds_nothing_is_empty(void **state)
{
	struct bench *b = *state;
	const unsigned int slot = (START + TICK) / SLC_TURN_SLOT_NS % SLC_TURN_SLOTS;

	tick(b, 4);
	tick(b, 4);
	assert_true(b->sample.empty);
	b->map.cells[0][255].slow++;
	tick(b, 4);
	assert_false(b->sample.empty);
	b->map.known_success[0]++;
	tick(b, 4);
	assert_false(b->sample.empty);
	b->map.outcomes[0][SLC_OUT_no_listener]++;
	b->map.no_listener_s[9]++;
	tick(b, 4);
	assert_false(b->sample.empty);
	assert_int_equal(b->sample.always_sources, 1);
	b->map.cells[1][7].success++; /* of the other generation */
	tick(b, 4);
	assert_true(b->sample.empty);
	/* Nobody counted an answer of a turn that began: a timeout later it is a failure, and in a sample. */
	b->map.started[SLC_GRADE_proven][(slot + 5) % SLC_TURN_SLOTS].started++;
	b->map.owed[0][(START + 6 * TICK) >> b->measure.owed_shift & (SLC_OWED_SLOTS - 1)][3]++;
	for (int i = 0; i < 20; i++) {
		tick(b, 4);
		assert_int_equal(b->sample.empty, all_failures(&b->sample) == 0);
	}
	assert_int_equal(signals_outcome_total(&b->signals, &b->map, SLC_OUT_unanswered), 1);
}

/* One reason is enough, and each is one. */
static void what_disturbs_the_learning_of_health(void **state)
{
	struct service *service = calloc(1, sizeof(*service));
	struct service_config config = {.has_queue = true, .low = 5000, .target_ns = 50 * NS_PER_MS};

	(void)state;
	assert_non_null(service);
	service->config = &config;
	service->queue = (struct queue_view){.listeners = 1, .length = 50, .limit = 100};
	service->counters.enforced.rate_limited = 7; /* a static limit is a limit, not a fault */
	service->counters.enforced.denied = 7;
	assert_false(breakers_disturbed(service));
	service->counters.dry.accept_pressure = 1;
	assert_true(breakers_disturbed(service));
	service->counters.dry.accept_pressure = 0;
	service->pressure.on = true; /* in-flight over its limit */
	assert_true(breakers_disturbed(service));
	service->pressure.on = false;
	service->pressure.works = true;
	assert_false(breakers_disturbed(service));
	service->queue.length = 51;
	assert_true(breakers_disturbed(service));
	service->queue.length = 50;
	service->queue.has_head_age = true;
	service->queue.head_age_ns = config.target_ns + 1;
	assert_true(breakers_disturbed(service));
	service->queue.head_age_ns = config.target_ns;
	service->breaker.ramping = true;
	assert_true(breakers_disturbed(service));
	service->breaker.ramping = false;
	service->breaker.state = BREAKER_half_open;
	assert_true(breakers_disturbed(service));
	service->breaker.state = BREAKER_closed;
	assert_false(breakers_disturbed(service));
	free(service);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_disturbs_the_learning_of_health),
		cmocka_unit_test_setup_teardown(only_what_holds_nothing_is_empty, set_up, tear_down),
		FRESH(differences_are_taken),
		FRESH(certain_failures_are_of_the_service),
		FRESH(c86_late_results_are_of_their_own_generation),
		FRESH(nobody_listens_counts_once_a_tick),
		FRESH(nobody_listens_where_the_service_is_not),
		FRESH(without_the_gate_sock_diag_tells),
		FRESH(unanswered_turns_are_failures_when_their_time_is_over),
		FRESH(datagrams_that_nobody_answers_are_in_flight_until_timeout),
		FRESH(c86_unanswered_turns_of_before_are_stale),
		FRESH(lost_handshakes_never_fall),
		FRESH(c101_a_gap_is_forgotten),
		FRESH(percentiles_and_totals),
		cmocka_unit_test(totals_do_not_come_round),
		cmocka_unit_test(c80_slots_end_by_their_deadline),
		cmocka_unit_test(c86_slots_of_another_generation_do_not_count),
		cmocka_unit_test(rates_become_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
