// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/pressure.h"

#include <math.h>
#include <stddef.h>

#define OVERLOAD_PERCENT 125 /* of mu: turns begun that are more than it was seen to serve */
#define NS_PER_S 1000000000ULL
#define RATE_MIN_NS 200000000ULL /* of less no rate is made: one tick may hold a burst */
#define SECOND_MIN_NS 900000000ULL /* of less no second is remembered */
#define REACHED_PERCENT 90

static void note(struct pressure *pressure, const struct pressure_input *input)
{
	const struct pressure_sample *last =
		&pressure->samples[(pressure->next + PRESSURE_SAMPLES - 1) % PRESSURE_SAMPLES];

	/* Counters that fell, or a clock that did: another life. */
	if (pressure->count &&
	    (input->begun < last->begun || input->answered < last->answered || input->closed < last->closed ||
	     input->failed < last->failed || input->now_ns < last->at_ns))
		*pressure = (struct pressure){0};
	pressure->samples[pressure->next] = (struct pressure_sample){
		.at_ns = input->now_ns,
		.begun = input->begun,
		.answered = input->answered,
		.closed = input->closed,
		.failed = input->failed,
	};
	pressure->next = (pressure->next + 1) % PRESSURE_SAMPLES;
	if (pressure->count < PRESSURE_SAMPLES)
		pressure->count++;
}

/* Oldest tick that is not older than a second: what came before it is not in the rates, nor is a gap. */
static const struct pressure_sample *second_ago(const struct pressure *pressure, uint64_t now_ns)
{
	const struct pressure_sample *oldest = NULL;

	for (unsigned int i = 1; i <= pressure->count; i++) {
		const struct pressure_sample *sample =
			&pressure->samples[(pressure->next + PRESSURE_SAMPLES - i) % PRESSURE_SAMPLES];

		if (now_ns - sample->at_ns > NS_PER_S)
			break;
		oldest = sample;
	}
	return oldest;
}

/* Over how many ns; 0: no rates. */
static uint64_t measure(struct pressure *pressure, const struct pressure_input *input)
{
	const struct pressure_sample *then = second_ago(pressure, input->now_ns);
	uint64_t over_ns = input->now_ns - then->at_ns, closed, failed;
	double seconds = (double)over_ns / NS_PER_S;

	pressure->begun = pressure->answered = pressure->departed = 0;
	if (over_ns < RATE_MIN_NS)
		return 0;
	closed = input->closed - then->closed;
	failed = input->failed - then->failed;
	pressure->begun = (double)(input->begun - then->begun) / seconds;
	pressure->answered = (double)(input->answered - then->answered) / seconds;
	pressure->departed = closed > failed ? (double)(closed - failed) / seconds : 0;
	return over_ns;
}

static void remember(struct pressure *pressure, uint64_t now_ns)
{
	struct pressure_second *second = &pressure->seconds[now_ns / NS_PER_S % PRESSURE_SECONDS];

	if (!second->used || second->second != now_ns / NS_PER_S)
		*second = (struct pressure_second){.used = true, .second = now_ns / NS_PER_S};
	if (second->answered < pressure->answered)
		second->answered = pressure->answered;
}

/* What a tenth of the remembered seconds reached, at least one of them. */
static double reached(const struct pressure *pressure, uint64_t now_ns)
{
	double sorted[PRESSURE_SECONDS];
	unsigned int n = 0;

	for (unsigned int i = 0; i < PRESSURE_SECONDS; i++) {
		const struct pressure_second *second = &pressure->seconds[i];
		unsigned int at = n;

		if (!second->used || now_ns / NS_PER_S - second->second >= PRESSURE_SECONDS)
			continue;
		for (; at > 0 && sorted[at - 1] > second->answered; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = second->answered;
		n++;
	}
	return n ? sorted[(n * REACHED_PERCENT + 99) / 100 - 1] : 0;
}

/* Slow at a load that it was seen to serve is no overload, however many wait: a second tells the two apart. */
static bool is_slow(struct pressure *pressure, bool over, uint64_t now_ns)
{
	if (!over) {
		pressure->over = pressure->overloaded = false;
		return false;
	}
	if (!pressure->over) {
		pressure->over = true;
		pressure->over_since_ns = now_ns;
	}
	if (pressure->begun * 100 >= pressure->mu * OVERLOAD_PERCENT)
		pressure->overloaded = true;
	return !pressure->overloaded && now_ns - pressure->over_since_ns >= NS_PER_S;
}

bool pressure_tick(struct pressure *pressure, const struct pressure_input *input)
{
	bool answers, works_for_nobody, over;

	note(pressure, input);
	if (measure(pressure, input) >= SECOND_MIN_NS)
		remember(pressure, input->now_ns);
	pressure->mu = fmax(reached(pressure, input->now_ns), pressure->answered);
	if (input->has_healthy_rate)
		pressure->mu = fmax(pressure->mu, input->healthy_rate);
	pressure->has_mu = pressure->mu > 0;
	pressure->limit = fmax(PRESSURE_TURNS_MIN, pressure->mu * (double)input->slow_after_ns / NS_PER_S);
	answers = pressure->answered * 2 >= pressure->mu;
	works_for_nobody = pressure->begun >= 2 * pressure->mu && pressure->departed * 2 >= pressure->mu;
	pressure->works = pressure->has_mu && (answers || works_for_nobody);
	over = pressure->works && (double)input->in_flight > pressure->limit;
	if (is_slow(pressure, over, input->now_ns))
		pressure->works = false;
	pressure->on = over && pressure->works;
	return pressure->on;
}
