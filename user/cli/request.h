/* SPDX-License-Identifier: GPL-2.0-only */
/* request.h: sends the request of a command line, and says why it failed. */
#ifndef SLUICE_CLI_REQUEST_H
#define SLUICE_CLI_REQUEST_H

#include "user/cli/command.h"
#include "user/cli/fault.h"
#include "user/cli/http.h"

const char *socket_of(const struct invocation *inv);
/*
 * STATUS_OK and *ret_answer with a 2xx; else the exit status, after the reason was printed: on stderr for a person,
 * and with --json the daemon's answer on stdout.
 */
int ask(const struct invocation *inv, const char *method, const char *target, const json_t *body,
	struct http_answer *ret_answer);
void print_json(const json_t *json);
/* On stderr for a person; with --json on stdout too, as the daemon's refusals are. */
void report_fault(const struct invocation *inv, const struct fault *fault);

#endif /* SLUICE_CLI_REQUEST_H */
