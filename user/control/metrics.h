/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * metrics.h: everything as Prometheus text. The number of series follows from the configuration (services x reasons),
 * never from traffic: sources are shown by the CLI only.
 */
#ifndef SLUICE_METRICS_H
#define SLUICE_METRICS_H

#include <stddef.h>
#include <stdio.h>

#include "user/control/daemon.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* With the daemon's lock held. *ret_text is to be freed; -errno. */
int metrics_text(struct daemon *d, uint64_t now_ns, char **ret_text, size_t *ret_len);

/* A label's value, escaped: backslash, quote and newline; what is not UTF-8 becomes '?'. */
void metrics_escape(FILE *out, const char *value);

#endif /* SLUICE_METRICS_H */
