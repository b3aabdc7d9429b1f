/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dependencies.h: how well each service does, and who waits for whom with its probes (CONTROL 3): while a service that
 * it depends on is known to be ill, a probe would only find out about that one. With the daemon's lock held.
 */
#ifndef SLUICE_DEPENDENCIES_H
#define SLUICE_DEPENDENCIES_H

#include <jansson.h>

#include "user/control/daemon.h"

/* Once a tick, before breakers decide: health where it is due, and who is held by whom. */
void dependencies_judge(struct daemon *d, uint64_t now_ns);
/* The services that `service` depends on, as they are now: state, health, gate, figures. */
json_t *dependencies_json(const struct daemon *d, const struct service *service);
/* What an event of the service's breaker is read with: its figures, and those of its dependencies. */
json_t *context_json(const struct daemon *d, const struct service *service, const struct breaker_figures *figures);
json_t *health_json(const struct health *health);

#endif /* SLUICE_DEPENDENCIES_H */
