/* SPDX-License-Identifier: GPL-2.0-only */
/* signals.h: what the kernel saw of a service: outcomes, times, turns, health, and what it cannot see. */
#ifndef SLUICE_CLI_SIGNALS_H
#define SLUICE_CLI_SIGNALS_H

#include <jansson.h>

#include "user/cli/output.h"

/* "12/45 ms", "-" without samples. */
const char *answer_time(const json_t *service, char buf[FIGURE]);
void print_signals(const json_t *service);
void print_outcomes(const json_t *service);

#endif /* SLUICE_CLI_SIGNALS_H */
