/* SPDX-License-Identifier: GPL-2.0-only */
/* event_text.h: an event on one line, for people. */
#ifndef SLUICE_CLI_EVENT_TEXT_H
#define SLUICE_CLI_EVENT_TEXT_H

#include <jansson.h>
#include <stdio.h>

void print_event(FILE *out, const json_t *event);

#endif /* SLUICE_CLI_EVENT_TEXT_H */
