// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <string.h>

#include "user/decide/breaker.h"
#include "user/decide/breaker_rules.h"
#include "user/decide/breaker_time.h"

#define OPENINGS_MAX 64 /* far beyond any cap; the count stops there */
#define TICKET_MIN_NS 1000000000ULL
#define TICKET_HANDSHAKES 3
#define CALM_CAPS 2 /* closed for so many caps: n starts again */

const char *const breaker_state_names[BREAKER_STATE_COUNT] = {
#define X(name) [BREAKER_##name] = #name,
	BREAKER_STATES(X)
#undef X
};

const char *const breaker_rule_names[RULE_COUNT] = {
#define X(name, trips, text) [RULE_##name] = #name,
	BREAKER_RULES(X)
#undef X
};

const char *const breaker_rule_texts[RULE_COUNT] = {
#define X(name, trips, text) [RULE_##name] = text,
	BREAKER_RULES(X)
#undef X
};

static const bool rule_trips[RULE_COUNT] = {
#define X(name, trips, text) [RULE_##name] = trips,
	BREAKER_RULES(X)
#undef X
};

enum openings { OPENINGS_KEEP, OPENINGS_NEXT, OPENINGS_ZERO, OPENINGS_RAMP };

struct transition {
	enum breaker_state from;
	enum breaker_rule rule;
	enum breaker_state to;
	enum openings openings;
};

static const struct transition transitions[] = {
#define X(from, rule, to, openings) {BREAKER_##from, RULE_##rule, BREAKER_##to, OPENINGS_##openings},
	BREAKER_TRANSITIONS(X)
#undef X
};

static const struct transition *transition_of(enum breaker_state from, enum breaker_rule rule)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		if (transitions[i].from == from && transitions[i].rule == rule)
			return &transitions[i];
	}
	return NULL;
}

int breaker_init(struct breaker *breaker, const struct breaker_config *config, uint32_t generation, uint64_t now_ns)
{
	struct window *window, *fast;
	int r = breaker_windows_new(config, &window, &fast);

	if (r < 0)
		return r;
	memset(breaker, 0, sizeof(*breaker));
	breaker->config = *config;
	breaker->generation = generation;
	breaker->since_ns = now_ns;
	breaker->window = window;
	breaker->fast = fast;
	return 0;
}

void breaker_finish(struct breaker *breaker)
{
	window_free(&breaker->window);
	window_free(&breaker->fast);
}

int breaker_reconfigure(struct breaker *breaker, const struct breaker_config *config, uint64_t now_ns)
{
	const struct breaker_config *old = &breaker->config;
	const bool same = config->window_ns == old->window_ns && config->buckets == old->buckets &&
			  config->fast_within_ns == old->fast_within_ns;
	struct window *window, *fast;

	if (!same) {
		int r = breaker_windows_new(config, &window, &fast);

		if (r < 0)
			return r;
		breaker_windows_clear(breaker);
		breaker_finish(breaker);
		breaker->window = window;
		breaker->fast = fast;
	}
	breaker->config = *config;
	breaker->ramping = breaker->ramping && config->enforce;
	if (breaker->open_until_ns > now_ns && breaker->open_until_ns - now_ns > config->open_cap_ns)
		breaker->open_until_ns = now_ns + config->open_cap_ns;
	return 0;
}

void breaker_restore(struct breaker *breaker, enum breaker_state state, unsigned int openings, uint64_t open_until_ns,
		     uint64_t now_ns)
{
	const uint64_t latest_ns = now_ns + breaker->config.open_cap_ns;

	breaker->state = state;
	breaker->openings = openings < OPENINGS_MAX ? openings : OPENINGS_MAX;
	breaker->open_until_ns = open_until_ns < latest_ns ? open_until_ns : latest_ns;
	breaker->since_ns = now_ns;
	breaker->held = false;
	breaker->ramping = false;
}

void breaker_forget(struct breaker *breaker)
{
	breaker_windows_clear(breaker);
}

/* --- transitions ------------------------------------------------------------------------------------------------------ */

static void count_openings(struct breaker *breaker, enum openings what)
{
	const bool next = what == OPENINGS_NEXT || (what == OPENINGS_RAMP && breaker->ramping);

	if (what == OPENINGS_ZERO)
		breaker->openings = 0;
	else if (next && breaker->openings < OPENINGS_MAX)
		breaker->openings++;
}

/* What a state begins with. */
static void enter(struct breaker *breaker, const struct breaker_input *input)
{
	breaker->since_ns = input->now_ns;
	breaker->held = false;
	breaker->ramping = false;
	if (breaker->state == BREAKER_open)
		breaker->open_until_ns =
			input->now_ns + breaker_open_time(&breaker->config, breaker->openings, breaker->has_healthy_p99,
							  breaker->healthy_p99_ns, input->random);
	/* Old failures must not open it again. */
	if (breaker->state == BREAKER_closed)
		breaker_windows_clear(breaker);
}

/* The one way from state to state. False: the table has no such row, and nothing has changed. */
static bool move(struct breaker *breaker, enum breaker_rule rule, const struct breaker_input *input,
		 struct breaker_event *ret_event)
{
	const struct transition *row = transition_of(breaker->state, rule);

	if (!row)
		return false;
	count_openings(breaker, row->openings);
	breaker->state = row->to;
	breaker->rule = rule;
	breaker->generation++;
	if (rule_trips[rule])
		breaker->tripped_by = rule;
	if (row->to == BREAKER_open)
		breaker->trips[rule]++;
	enter(breaker, input);
	if (rule == RULE_probes_succeeded)
		breaker_ramp_begin(breaker, input->now_ns);
	*ret_event = (struct breaker_event){
		.at_ns = input->now_ns,
		.from = row->from,
		.to = row->to,
		.rule = rule,
		.generation = breaker->generation,
		.enforced = breaker->config.enforce,
		.open_for_ns = row->to == BREAKER_open ? breaker->open_until_ns - input->now_ns : 0,
		.figures = breaker->figures,
	};
	return true;
}

/* --- what each state waits for ---------------------------------------------------------------------------------------- */

static enum breaker_rule next_of_closed(struct breaker *breaker, const struct breaker_input *input)
{
	enum breaker_rule rule = breaker_trips(breaker);

	if (rule != RULE_none)
		return rule;
	if (breaker_elapsed(input->now_ns, breaker->since_ns) / CALM_CAPS >= breaker->config.open_cap_ns)
		breaker->openings = 0;
	breaker_ramp_step(breaker, input->now_ns);
	return RULE_none;
}

static enum breaker_rule next_of_open(struct breaker *breaker, const struct breaker_input *input)
{
	if (input->now_ns < breaker->open_until_ns)
		return RULE_none;
	/* Nothing was refused: what came meanwhile is what probes would have shown. */
	if (!breaker->config.enforce)
		return breaker_trips(breaker) == RULE_none ? RULE_recovered : RULE_none;
	return breaker_waits(breaker, input->held, input->now_ns) ? RULE_none : RULE_wait_over;
}

static enum breaker_rule next_of_half_open(struct breaker *breaker, const struct breaker_input *input)
{
	if (!breaker->config.enforce && breaker_trips(breaker) == RULE_none)
		return RULE_recovered;
	if (input->probes.failed > 0)
		return RULE_probe_failed;
	if (input->probes.succeeded >= breaker->config.close_after)
		return RULE_probes_succeeded;
	if (breaker_elapsed(input->now_ns, breaker->since_ns) >= breaker->config.max_half_open_ns)
		return RULE_half_open_over;
	return RULE_none;
}

/* An order freezes the machine: nothing but another order or its end moves it. */
static enum breaker_rule next_of_forced(struct breaker *breaker, const struct breaker_input *input)
{
	(void)breaker;
	return input->order == ORDER_NONE ? RULE_order_over : RULE_none;
}

static enum breaker_rule (*const next_of[BREAKER_STATE_COUNT])(struct breaker *, const struct breaker_input *) = {
	[BREAKER_closed] = next_of_closed,        [BREAKER_open] = next_of_open,
	[BREAKER_half_open] = next_of_half_open,  [BREAKER_forced_open] = next_of_forced,
	[BREAKER_forced_closed] = next_of_forced,
};

/* What an order asks for; RULE_none where it is in force already. */
static enum breaker_rule ordered(const struct breaker *breaker, enum breaker_order order)
{
	if (order == ORDER_OPEN && breaker->state != BREAKER_forced_open)
		return RULE_order_open;
	if (order == ORDER_CLOSED && breaker->state != BREAKER_forced_closed)
		return RULE_order_closed;
	return RULE_none;
}

/* Half, but never so many that strangers alone could not bring the verdict: those who are known may stay away. */
static unsigned int reserved(const struct breaker_config *config, bool known_any)
{
	unsigned int half = config->probes / 2, spare = config->probes - config->close_after;

	if (!known_any)
		return 0;
	return half < spare ? half : spare;
}

static void decide(const struct breaker *breaker, const struct breaker_input *input, struct breaker_decision *decision)
{
	const struct breaker_config *config = &breaker->config;
	uint64_t ticket_ns = input->handshake_ns > UINT32_MAX / TICKET_HANDSHAKES * 1000000ULL
				     ? UINT32_MAX * 1000000ULL
				     : input->handshake_ns * TICKET_HANDSHAKES;

	memset(decision, 0, sizeof(*decision));
	decision->shadow = !config->enforce;
	decision->open = breaker->state == BREAKER_open || breaker->state == BREAKER_forced_open;
	decision->half_open = breaker->state == BREAKER_half_open;
	decision->ramp = breaker->ramping;
	if (breaker->ramping)
		decision->ramp_rate = breaker_ramp_rate(breaker);
	decision->has_floor = breaker->has_healthy_rate && (decision->open || decision->half_open);
	if (decision->has_floor)
		decision->floor_rate = fmax(1, breaker->healthy_rate * config->ramp_from / 10000);
	decision->probes = config->probes;
	decision->reserved = reserved(config, input->known_any);
	decision->ticket_ms = (uint32_t)((ticket_ns > TICKET_MIN_NS ? ticket_ns : TICKET_MIN_NS) / 1000000);
}

unsigned int breaker_tick(struct breaker *breaker, const struct breaker_input *input,
			  struct breaker_event events[BREAKER_EVENTS_MAX], struct breaker_decision *ret_decision)
{
	enum breaker_rule rule;
	unsigned int moved = 0;

	breaker_learn(breaker, input->baseline);
	breaker_record(breaker, input);
	rule = ordered(breaker, input->order);
	if (rule == RULE_none)
		rule = next_of[breaker->state](breaker, input);
	if (rule != RULE_none && move(breaker, rule, input, &events[0]))
		moved = 1;
	decide(breaker, input, ret_decision);
	return moved;
}
