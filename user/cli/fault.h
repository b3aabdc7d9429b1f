/* SPDX-License-Identifier: GPL-2.0-only */
/* fault.h: an error as a person reads it: what, where, what was given, what is accepted, what to do. */
#ifndef SLUICE_CLI_FAULT_H
#define SLUICE_CLI_FAULT_H

#include <jansson.h>
#include <stdio.h>

struct fault {
	const char *message; /* always */
	const char *key, *value, *accepted, *hint; /* NULL where it does not apply */
};

void print_fault(FILE *out, const struct fault *fault);
/* {"error": {"message": ..., "key": ...}}, the form of the daemon's refusals; NULL: out of memory. */
json_t *fault_json(const struct fault *fault);
/* The answer of a refused request: {"error": {...}}, or anything else with `status` in words. */
void print_answer_fault(FILE *out, const json_t *answer, long status);
/* Text from elsewhere on one line: control characters become '?'. At most `max` bytes, "..." behind what was cut. */
void print_safe(FILE *out, const char *text, size_t max);

#endif /* SLUICE_CLI_FAULT_H */
