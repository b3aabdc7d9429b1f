// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/figures_json.h"

#include <math.h>

json_t *milliseconds_json(uint64_t ns)
{
	return json_real((double)(ns / 1000) / 1000.0);
}

json_t *ratio_json(bool known, double value)
{
	return known ? json_real(round(value * 10000) / 10000) : json_null();
}

static json_t *tally_json(const struct tally *tally)
{
	return json_pack("{s:I, s:I, s:o, s:o, s:I, s:I, s:I}", "outcomes", (json_int_t)tally->outcomes, "failures",
			 (json_int_t)tally->failures, "failure_rate", ratio_json(tally->has_rate, tally->failure_rate),
			 "slow_rate", ratio_json(tally->has_rate, tally->slow_rate), "active_sources",
			 (json_int_t)tally->active, "failing_sources", (json_int_t)tally->failing, "discounted",
			 (json_int_t)tally->discounted);
}

json_t *figures_json(const struct breaker_figures *f)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:I}", "window", tally_json(&f->window), "fast",
			 tally_json(&f->fast), "risk", ratio_json(f->has_risk, f->risk), "risk_error",
			 ratio_json(f->has_risk, f->risk_error), "risk_latency",
			 ratio_json(f->has_risk, f->risk_latency), "p95_ms",
			 f->has_p95 ? milliseconds_json(f->p95_ns) : json_null(), "base_ms",
			 milliseconds_json(f->base_ns), "owed", (json_int_t)f->owed, "silence_ms",
			 f->has_silence ? milliseconds_json(f->silence_ns) : json_null(), "run", (json_int_t)f->run);
}

json_t *breaker_event_json(const struct breaker_event *event, json_t *order, json_t *context)
{
	json_t *open_for = event->to == BREAKER_open ? milliseconds_json(event->open_for_ns) : json_null();

	return json_pack("{s:I, s:s, s:s, s:s, s:b, s:o, s:o, s:o}", "generation", (json_int_t)event->generation,
			 "rule", breaker_rule_names[event->rule], "from", breaker_state_names[event->from], "to",
			 breaker_state_names[event->to], "enforced", event->enforced, "open_for_ms", open_for, "order",
			 order ? order : json_null(), "context", context ? context : json_null());
}
