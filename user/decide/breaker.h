/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breaker.h: the circuit breaker of one service (CONTROL 3), pure: time, randomness and what was seen come in, what the
 * kernel is to do comes out. Every state is left by comparing deadlines with `now_ns` on each tick, never by a timer that
 * could be lost (c101); every transition is a row of breaker_transitions.h and raises the generation by one.
 *
 * In mode metrics nothing is enforced: the machine runs on the outcomes of unrefused traffic and reports what it would
 * have done; a would-be open state ends (rule `recovered`) when its time is over and no trip rule holds.
 */
#ifndef SLUICE_BREAKER_H
#define SLUICE_BREAKER_H

#include "user/decide/baseline.h"
#include "user/decide/breaker_transitions.h"
#include "user/decide/window.h"

enum breaker_state {
#define X(name) BREAKER_##name,
	BREAKER_STATES(X)
#undef X
		BREAKER_STATE_COUNT
};

enum breaker_rule {
#define X(name, trips, text) RULE_##name,
	BREAKER_RULES(X)
#undef X
		RULE_COUNT
};

extern const char *const breaker_state_names[BREAKER_STATE_COUNT]; /* "half_open" */

/* By an order, which acts in either mode. */
static inline bool breaker_is_forced(enum breaker_state state)
{
	return state == BREAKER_forced_open || state == BREAKER_forced_closed;
}

extern const char *const breaker_rule_names[RULE_COUNT];
extern const char *const breaker_rule_texts[RULE_COUNT];

enum risk_formula { RISK_LOG, RISK_PUBLISHED, RISK_NONE };
enum jitter { JITTER_PART, JITTER_FULL, JITTER_NONE };

/* As the file says it. Percents in 1/100 %, weights and open_at in 1/1000. A rule that is off has its `has_` false. */
struct breaker_config {
	bool enforce;
	uint64_t window_ns;
	uint32_t buckets, min_outcomes, min_sources;
	uint16_t failure_rate;
	uint32_t fast_outcomes;
	uint64_t fast_within_ns;
	bool has_consecutive;
	uint32_t consecutive;
	bool has_slow_rate;
	uint16_t slow_rate;
	bool has_silent;
	uint64_t silent_ns; /* auto resolved: max(2 x timeout, 5 s) */
	enum risk_formula formula;
	uint16_t err_ref;
	uint64_t base_ns, lat_ref_ns;
	uint32_t risk_weights[2];
	uint32_t open_at;
	uint64_t open_base_ns, open_cap_ns;
	enum jitter jitter;
	uint16_t jitter_part;
	uint32_t probes, close_after;
	bool dyed;
	uint64_t max_half_open_ns; /* auto resolved: max(cap, 2 x timeout) */
	uint16_t ramp_from, ramp_step;
	uint64_t ramp_every_ns;
	uint32_t health_weights[4];
	uint16_t health_gate;
	uint64_t slow_after_ns, timeout_ns;
};

/* What the half-open slots say (control counts them from slc_probe, of the breaker's generation). */
struct probe_view {
	unsigned int tickets, outstanding; /* outstanding: established, within their deadline */
	unsigned int succeeded, failed; /* failed: also those past their deadline with an answer owed */
};

enum breaker_order { ORDER_NONE, ORDER_OPEN, ORDER_CLOSED };

/* One tick. */
struct breaker_input {
	uint64_t now_ns;
	uint64_t random; /* fresh, uniform */
	const struct sample *sample; /* of the breaker's generation */
	uint64_t owed; /* turns that are owed an answer and younger than timeout */
	unsigned int owed_proven; /* cells of proven sources that got none to what they asked in the last silent_ns */
	unsigned int owed_unproven; /* of other sources; 0 where they may be forged */
	bool working; /* it answers as ever, or works for clients who have left: pressure.h */
	bool has_last_answer;
	uint64_t last_answer_ns;
	bool has_p95; /* of the last 10 s */
	uint64_t p95_ns;
	const struct baseline *baseline; /* what is learned so far */
	uint64_t handshake_ns; /* H */
	bool known_any; /* slc_known is not empty */
	struct probe_view probes;
	bool held; /* a dependency is below its gate: no probes yet */
	enum breaker_order order;
};

/* The figures that decided, for events and `service show`. */
struct breaker_figures {
	struct tally window, fast;
	bool has_risk;
	double risk, risk_error, risk_latency; /* the sum and its two terms before weights */
	uint64_t p95_ns, base_ns;
	bool has_p95;
	uint64_t owed;
	unsigned int owed_proven, owed_unproven;
	bool has_answered; /* anybody, ever */
	bool has_silence;
	uint64_t silence_ns;
	uint32_t run; /* consecutive failures */
};

struct breaker_event {
	uint64_t at_ns;
	enum breaker_state from, to;
	enum breaker_rule rule;
	uint32_t generation; /* after it */
	bool enforced; /* false: metrics-only */
	uint64_t open_for_ns; /* when `to` is open: until probes */
	struct breaker_figures figures;
};

struct breaker {
	struct breaker_config config;
	enum breaker_state state;
	enum breaker_rule rule; /* of the last transition */
	enum breaker_rule tripped_by; /* last trip rule; RULE_none: never */
	uint32_t generation;
	uint64_t since_ns; /* in this state */
	uint64_t open_until_ns;
	unsigned int openings; /* n of the open time */
	uint64_t held_since_ns; /* by a dependency, with `held` */
	bool held;
	bool ramping; /* a phase of closed */
	unsigned int ramp_steps; /* taken */
	uint64_t ramp_at_ns; /* of the next step */
	double healthy_rate; /* new connections per second in the last healthy window: what a ramp is a share of */
	bool has_healthy_rate;
	uint64_t healthy_p99_ns; /* of its answers; all these are of the baseline, as of the last tick */
	bool has_healthy_p99;
	uint64_t learned_base_ns; /* healthy P95 */
	bool has_base;
	struct window *window, *fast; /* fast: also of the last second and of risk */
	uint32_t run; /* failures since the last tick with a success */
	uint32_t certain_run; /* of these, what no client can cause alone */
	double past_outcomes, past_failures; /* before the run: of the newest 128 outcomes */
	uint64_t last_second_outcomes;
	struct tally recent; /* of the last 10 s, for risk */
	bool owing; /* at least min_outcomes turns owed, and never under half of that since */
	uint64_t owing_since_ns; /* or last seen working since */
	uint64_t trips[RULE_COUNT];
	struct breaker_figures figures; /* of the last tick */
};

/* What the kernel is to do. */
struct breaker_decision {
	bool shadow; /* metrics-only: none of it is to be enforced */
	bool open, half_open, ramp; /* at most one */
	double ramp_rate; /* admitted per second, with `ramp` */
	bool has_floor; /* with open and half_open */
	double floor_rate; /* of the fail-safe: ramp_from of healthy_rate */
	unsigned int probes, reserved; /* reserved: for known-good sources; the others are enough for close_after */
	uint32_t ticket_ms;
};

/* -ENOMEM. `generation` continues what the maps have; state and deadlines come back by breaker_restore(). */
int breaker_init(struct breaker *breaker, const struct breaker_config *config, uint32_t generation, uint64_t now_ns);
void breaker_finish(struct breaker *breaker);
/* A reload: what was seen is kept where the window's shape allows it, the state always. */
int breaker_reconfigure(struct breaker *breaker, const struct breaker_config *config, uint64_t now_ns);
/* A restart of the controller: state as it was pushed last. Open goes on until `open_until_ns`, or half-open at once. */
void breaker_restore(struct breaker *breaker, enum breaker_state state, unsigned int openings, uint64_t open_until_ns,
		     uint64_t now_ns);
/* After it, and after what was learned: the ramp of a closed breaker goes on after `steps`, the next at step_at_ns. */
void breaker_restore_ramp(struct breaker *breaker, unsigned int steps, uint64_t step_at_ns, uint64_t now_ns);
/* After a lapse of the lease: what was measured before says nothing about now. State and generation stay. */
void breaker_forget(struct breaker *breaker);

/* What is learned; each tick brings it too. */
void breaker_learn(struct breaker *breaker, const struct baseline *baseline);

/*
 * One tick: rotate, record, evaluate. Returns the number of transitions (0 or 1; an order and its release may give 2),
 * each described in events[].
 */
#define BREAKER_EVENTS_MAX 2
unsigned int breaker_tick(struct breaker *breaker, const struct breaker_input *input,
			  struct breaker_event events[BREAKER_EVENTS_MAX], struct breaker_decision *ret_decision);

/* The dual-factor risk (CONTROL 3): error and latency terms are stored too. False: no rate, or no p95. */
bool breaker_risk(const struct breaker_config *config, bool has_base, uint64_t learned_base_ns,
		  const struct tally *tally, bool has_p95, uint64_t p95_ns, struct breaker_figures *figures);
/*
 * t_n = min(cap, max(4 x P99, jitter(base x 2^n))), and jitter keeps below the cap, so that breakers at the cap are spread
 * too. full: uniform in [base, base x 2^n], for n = 0 as for n = 1; part: up to that share shorter; none: exactly that.
 */
uint64_t breaker_open_time(const struct breaker_config *config, unsigned int n, bool has_p99, uint64_t p99_ns,
			   uint64_t random);

#endif /* SLUICE_BREAKER_H */
