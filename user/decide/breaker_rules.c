// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <math.h>
#include <string.h>

#include "user/decide/breaker_rules.h"
#include "user/decide/breaker_time.h"

#define WHOLE 10000.0 /* of rates in 1/100 % */
#define FAST_BUCKET_NS 100000000ULL /* a tick: the newest outcomes are told apart by ticks, not better */
#define SECOND_NS 1000000000ULL
#define CONSECUTIVE_BELOW 20 /* outcomes in the last second: above it counts per CPU have no order */
#define OWED_CELLS_SURE (SLC_OWED_CELLS / 2) /* as many cells as there are: more sources would share them */
#define UNANSWERED_LATE_NS 220000000ULL /* a slot of what began, a tick, and what overdue.c waits besides */
#define BREAKER_PAST 128.0 /* outcomes that `past` remembers */
#define BY_CHANCE 1e-7 /* of a run, at each outcome: once in 10 million */

int breaker_windows_new(const struct breaker_config *config, struct window **ret_window, struct window **ret_fast)
{
	uint64_t span = config->fast_within_ns > BREAKER_RECENT_NS ? config->fast_within_ns : BREAKER_RECENT_NS;
	uint64_t buckets = (span + FAST_BUCKET_NS - 1) / FAST_BUCKET_NS;
	struct window *window, *fast;

	if (buckets > WINDOW_BUCKETS_MAX)
		buckets = WINDOW_BUCKETS_MAX;
	window = window_new(config->window_ns / config->buckets, config->buckets);
	fast = window_new((span + buckets - 1) / buckets, buckets);
	if (!window || !fast) {
		window_free(&window);
		window_free(&fast);
		return -ENOMEM;
	}
	*ret_window = window;
	*ret_fast = fast;
	return 0;
}

void breaker_windows_clear(struct breaker *breaker)
{
	window_clear(breaker->window);
	window_clear(breaker->fast);
	breaker->run = breaker->certain_run = 0;
	breaker->past_outcomes = 0;
	breaker->past_failures = 0;
	breaker->last_second_outcomes = 0;
	breaker->owing = false;
}

/*
 * Not enough sources to bear each other out: then what one client can cause by itself says nothing of the service, for
 * at night one may be all there is. Who is there the whole window says: of the newest outcomes all may be of the one
 * that fails.
 */
static bool few_sources(const struct breaker *breaker, const struct tally *tally)
{
	return tally->active < breaker->config.min_sources &&
	       breaker->figures.window.active < breaker->config.min_sources;
}

static void weigh_doubt(const struct breaker *breaker, struct tally *tally)
{
	if (few_sources(breaker, tally))
		window_doubt(tally);
}

static uint32_t longer(uint32_t run, uint64_t failures)
{
	return failures > UINT32_MAX - run ? UINT32_MAX : run + (uint32_t)failures;
}

/* Those who are unanswered now asked timeout ago; since then it may have answered others, and that is no run. */
static bool answered_meanwhile(const struct breaker *breaker, const struct breaker_input *input)
{
	return input->has_last_answer &&
	       input->last_answer_ns + breaker->config.timeout_ns + UNANSWERED_LATE_NS >= input->now_ns;
}

/*
 * The kernel's counts of a tick have no order: a success anywhere in it ends the run. Failures of strangers are in none:
 * where as many of known-good sources fail as bear them out, with no success between them, those are a run already.
 */
static void record_run(struct breaker *breaker, const struct breaker_input *input)
{
	const struct sample *sample = input->sample;
	uint64_t success = 0, failure = 0, certain = sample->certain;

	for (unsigned int i = 0; i < SLC_CELLS && !sample->empty; i++) {
		success += sample->cells[i].success;
		failure += sample->cells[i].failure;
	}
	certain = (certain < failure ? certain : failure) + sample->always;
	failure += sample->always;
	if (answered_meanwhile(breaker, input)) {
		breaker->past_failures += sample->unanswered;
		breaker->past_outcomes += sample->unanswered;
		failure -= sample->unanswered;
	}
	/* Overloaded: what failed is not all there was, and the rest is not told here. */
	if (sample->pressed > 0) {
		breaker->run = breaker->certain_run = 0;
		return;
	}
	if (success == 0) {
		breaker->run = longer(breaker->run, failure);
		breaker->certain_run = longer(breaker->certain_run, certain);
		return;
	}
	breaker->past_failures += (double)breaker->run + (double)failure;
	breaker->past_outcomes += (double)breaker->run + (double)failure + (double)success;
	breaker->run = breaker->certain_run = 0;
	if (breaker->past_outcomes > BREAKER_PAST) {
		breaker->past_failures *= BREAKER_PAST / breaker->past_outcomes;
		breaker->past_outcomes = BREAKER_PAST;
	}
}

/*
 * Silence is counted from the last answer, from when the owed began, from the closing, and from when it was last seen
 * working, whichever is latest: of an event loop in a great overload every client has left before its turn comes.
 */
static void record_silence(struct breaker *breaker, const struct breaker_input *input)
{
	struct breaker_figures *figures = &breaker->figures;
	uint64_t since_ns;

	if (input->owed * 2 < breaker->config.min_outcomes) {
		breaker->owing = false;
	} else if (breaker->owing ? input->working : input->owed >= breaker->config.min_outcomes) {
		breaker->owing = true;
		breaker->owing_since_ns = input->now_ns;
	}
	figures->owed = input->owed;
	figures->owed_proven = input->owed_proven;
	figures->owed_unproven = input->owed_unproven;
	figures->has_answered = input->has_last_answer;
	figures->has_silence = breaker->owing;
	figures->silence_ns = 0;
	if (!breaker->owing)
		return;
	since_ns = breaker->owing_since_ns;
	if (input->has_last_answer && input->last_answer_ns > since_ns)
		since_ns = input->last_answer_ns;
	if (breaker->state == BREAKER_closed && breaker->since_ns > since_ns)
		since_ns = breaker->since_ns;
	figures->silence_ns = breaker_elapsed(input->now_ns, since_ns);
}

bool breaker_risk(const struct breaker_config *config, bool has_base, uint64_t learned_base_ns,
		  const struct tally *tally, bool has_p95, uint64_t p95_ns, struct breaker_figures *figures)
{
	const uint64_t most_ns = config->lat_ref_ns / 2;
	uint64_t base_ns = has_base ? learned_base_ns : config->base_ns;
	double error, latency, times;

	base_ns = base_ns > most_ns ? most_ns : base_ns;
	base_ns = base_ns > 0 ? base_ns : 1;
	if (config->formula == RISK_NONE || !tally->has_rate || !has_p95)
		return false;
	error = fmin(1, tally->failure_rate * WHOLE / config->err_ref);
	times = (double)p95_ns / (double)base_ns;
	if (config->formula == RISK_PUBLISHED)
		latency = fmin(1, log2(times + 1));
	else if (p95_ns <= base_ns)
		latency = 0;
	else
		latency = fmin(1, log2(times) / log2((double)config->lat_ref_ns / (double)base_ns));
	figures->risk_error = error;
	figures->risk_latency = latency;
	figures->risk = (config->risk_weights[0] * error + config->risk_weights[1] * latency) / 1000;
	figures->base_ns = base_ns;
	return true;
}

static void record_risk(struct breaker *breaker, const struct breaker_input *input)
{
	struct breaker_figures *figures = &breaker->figures;

	figures->has_risk = false;
	figures->risk = figures->risk_error = figures->risk_latency = 0;
	figures->has_p95 = input->has_p95;
	figures->p95_ns = input->p95_ns;
	figures->base_ns = breaker->has_base ? breaker->learned_base_ns : breaker->config.base_ns;
	memset(&breaker->recent, 0, sizeof(breaker->recent));
	if (breaker->config.formula == RISK_NONE || !input->has_p95)
		return;
	window_newest(breaker->fast, input->now_ns, UINT64_MAX, BREAKER_RECENT_NS, &breaker->recent);
	weigh_doubt(breaker, &breaker->recent);
	figures->has_risk = breaker_risk(&breaker->config, breaker->has_base, breaker->learned_base_ns,
					 &breaker->recent, input->has_p95, input->p95_ns, figures);
}

void breaker_record(struct breaker *breaker, const struct breaker_input *input)
{
	const struct breaker_config *config = &breaker->config;
	struct breaker_figures *figures = &breaker->figures;
	struct tally second;

	window_add(breaker->window, input->sample);
	window_add(breaker->fast, input->sample);
	window_sum(breaker->window, input->now_ns, &figures->window);
	window_newest(breaker->fast, input->now_ns, config->fast_outcomes, config->fast_within_ns, &figures->fast);
	weigh_doubt(breaker, &figures->fast);
	weigh_doubt(breaker, &figures->window);
	window_newest(breaker->fast, input->now_ns, UINT64_MAX, SECOND_NS, &second);
	breaker->last_second_outcomes = second.outcomes + second.discounted;
	record_run(breaker, input);
	figures->run = few_sources(breaker, &figures->window) ? breaker->certain_run : breaker->run;
	record_silence(breaker, input);
	record_risk(breaker, input);
}

/* --- rules --------------------------------------------------------------------------------------------------------- */

/* Not by the failures of one or two, where more are there. */
static bool enough_sources(const struct breaker *breaker, const struct tally *tally)
{
	return few_sources(breaker, tally) || tally->failing >= breaker->config.min_sources;
}

static bool fails(const struct breaker *breaker, const struct tally *tally, uint64_t outcomes)
{
	return tally->outcomes >= outcomes && tally->has_rate && tally->failures > 0 &&
	       tally->failure_rate * WHOLE >= breaker->config.failure_rate && enough_sources(breaker, tally);
}

static bool holds_long(const struct breaker *breaker)
{
	return fails(breaker, &breaker->figures.window, breaker->config.min_outcomes);
}

static bool holds_fast(const struct breaker *breaker)
{
	return breaker->config.fast_outcomes > 0 &&
	       fails(breaker, &breaker->figures.fast, breaker->config.fast_outcomes);
}

/*
 * Five in a row say "down" of a service that does not fail, and nothing of one where each fifth request fails: at 2/s
 * chance makes such a run within the hour. So a run counts where p^run <= BY_CHANCE, p being the upper bound (two standard
 * deviations) of the failure rate before it; where that is not known yet or nothing failed, `consecutive` alone counts.
 */
uint32_t breaker_run_needed(const struct breaker *breaker)
{
	const struct breaker_config *config = &breaker->config;
	const uint32_t most = config->consecutive > config->min_outcomes ? config->consecutive : config->min_outcomes;
	const double failed = breaker->past_failures + 1;
	double rate, needed;

	if (breaker->past_outcomes < config->min_outcomes || breaker->past_failures < 0.5)
		return config->consecutive;
	rate = (failed + 2 * sqrt(failed)) / breaker->past_outcomes;
	if (rate >= 0.5)
		return most;
	needed = ceil(log(BY_CHANCE) / log(rate));
	if (needed <= config->consecutive)
		return config->consecutive;
	return needed < most ? (uint32_t)needed : most;
}

/* Where many are under way traffic is not low: their outcomes are still to come. */
static bool holds_consecutive(const struct breaker *breaker)
{
	return breaker->config.has_consecutive && breaker->last_second_outcomes < CONSECUTIVE_BELOW &&
	       breaker->figures.owed < CONSECUTIVE_BELOW && breaker->figures.run >= breaker_run_needed(breaker) &&
	       enough_sources(breaker, &breaker->figures.window);
}

static bool holds_slow(const struct breaker *breaker)
{
	const struct tally *tally = &breaker->figures.window;

	return breaker->config.has_slow_rate && tally->outcomes >= breaker->config.min_outcomes && tally->has_rate &&
	       tally->slow_rate * WHOLE >= breaker->config.slow_rate;
}

/*
 * Strangers who ask nothing that can be answered are met with silence by a healthy service too, and at night they may be
 * all there is. So somebody must wait who was answered before: as many as are active, up to min_sources. Of a service
 * that has never answered anybody nobody was: there strangers tell, unless they may be one in disguise.
 */
static bool silence_borne_out(const struct breaker *breaker)
{
	const struct breaker_figures *figures = &breaker->figures;
	uint32_t least = breaker->config.min_sources;

	if (least > OWED_CELLS_SURE)
		least = OWED_CELLS_SURE;
	if (!figures->has_answered && figures->owed_unproven >= least)
		return true;
	return figures->owed_proven >= least || (figures->owed_proven > 0 && figures->window.active < least);
}

static bool holds_silent(const struct breaker *breaker)
{
	return breaker->config.has_silent && breaker->figures.has_silence &&
	       breaker->figures.silence_ns >= breaker->config.silent_ns && silence_borne_out(breaker);
}

static bool holds_risk(const struct breaker *breaker)
{
	const struct breaker_config *config = &breaker->config;
	const struct breaker_figures *figures = &breaker->figures;

	return figures->has_risk && breaker->recent.outcomes >= config->min_outcomes &&
	       enough_sources(breaker, &breaker->recent) && figures->risk * 1000 >= config->open_at &&
	       breaker->recent.failure_rate * WHOLE * 6 > config->err_ref * 5.0;
}

/* In the order in which they are named, where several hold. */
static const struct {
	enum breaker_rule rule;
	bool (*holds)(const struct breaker *breaker);
} rules[] = {
	{RULE_fast, holds_fast}, {RULE_long, holds_long},     {RULE_consecutive, holds_consecutive},
	{RULE_slow, holds_slow}, {RULE_silent, holds_silent}, {RULE_risk, holds_risk},
};

enum breaker_rule breaker_trips(const struct breaker *breaker)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (rules[i].holds(breaker))
			return rules[i].rule;
	}
	return RULE_none;
}
