/* SPDX-License-Identifier: GPL-2.0-only */
/* services.h: figures of a SERVICE object of the API that several commands show. */
#ifndef SLUICE_CLI_SERVICES_H
#define SLUICE_CLI_SERVICES_H

#include <jansson.h>

double refused_total(const json_t *service); /* over all reasons */
const char *top_reason(const json_t *counts, double *ret_count); /* "" if all are zero */
double open_total(const json_t *service); /* connections open now, from before the start too */
void print_services(const json_t *services);

#endif /* SLUICE_CLI_SERVICES_H */
