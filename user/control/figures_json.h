/* SPDX-License-Identifier: GPL-2.0-only */
/* figures_json.h: figures of a breaker as JSON, in events and in `service show` alike. */
#ifndef SLUICE_FIGURES_JSON_H
#define SLUICE_FIGURES_JSON_H

#include <jansson.h>

#include "user/decide/breaker.h"

json_t *milliseconds_json(uint64_t ns);
/* A ratio or score, to 1/10000; null where it is not known. */
json_t *ratio_json(bool known, double value);
json_t *figures_json(const struct breaker_figures *figures);
/* What an event of a breaker has beside the fields of every event. `order` and `context` are taken over. */
json_t *breaker_event_json(const struct breaker_event *event, json_t *order, json_t *context);

#endif /* SLUICE_FIGURES_JSON_H */
