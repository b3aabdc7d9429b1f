/* SPDX-License-Identifier: GPL-2.0-only */
/* breaker_rules.h: what was seen, and the trip rules over it. For breaker.c. */
#ifndef SLUICE_BREAKER_RULES_H
#define SLUICE_BREAKER_RULES_H

#include "user/decide/breaker.h"

#define BREAKER_RECENT_NS 10000000000ULL /* what risk and the ramp look at */

/* Windows of the configuration's shape, empty. -ENOMEM: neither is set. */
int breaker_windows_new(const struct breaker_config *config, struct window **ret_window, struct window **ret_fast);
/* What was seen says nothing about now: windows, run and what is owed. */
void breaker_windows_clear(struct breaker *breaker);
/* Rotate and record; the figures are of `now` then. */
void breaker_record(struct breaker *breaker, const struct breaker_input *input);
/* The trip rule that holds, RULE_none if none does. */
enum breaker_rule breaker_trips(const struct breaker *breaker);
/* Failures in a row that open it now: more than `consecutive` where the service fails now and then anyway. */
uint32_t breaker_run_needed(const struct breaker *breaker);

#endif /* SLUICE_BREAKER_RULES_H */
