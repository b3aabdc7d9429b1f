/* SPDX-License-Identifier: GPL-2.0-only */
/* breaker.h: a service's breaker in words; BREAKER, FIGURES and events as the API has them. */
#ifndef SLUICE_CLI_BREAKER_H
#define SLUICE_CLI_BREAKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "user/cli/output.h"

/* The state for a column: "closed", "OPEN", "half-open", "metrics" or, metrics-only, "would open". "" without one. */
const char *breaker_word(const json_t *breaker);
/* Does it refuse anything, or would it, or is it under an order? */
bool breaker_acts(const json_t *breaker);

/*
 * What a rule saw: "100 of 100 newest outcomes failed (100 %, opens at 50 %)". `marks` is policy.breaker, for what
 * opens, or NULL. "" for a rule that has no figures.
 */
void print_rule_figures(FILE *out, const char *rule, const json_t *figures, const json_t *marks);
/* Why a transition came: "fast rule", "a probe failed"; an unknown rule by its name. */
const char *rule_words(const char *rule);

/* One sentence: what the breaker does and why. `events`: breaker events of the service, oldest first, or NULL. */
void print_breaker_sentence(const json_t *service, const json_t *events);
/* The lines below it: generation, trips, probes, windows. */
void print_breaker_facts(const json_t *service);

#endif /* SLUICE_CLI_BREAKER_H */
