/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * breakers.h: drives the breaker of each service (user/decide/breaker.h): from the maps to what it sees, from what it
 * decides to the half that is pushed. With the daemon's lock held.
 */
#ifndef SLUICE_BREAKERS_H
#define SLUICE_BREAKERS_H

#include "user/control/daemon.h"

/*
 * A service that was not there before. State, deadline and generation are those of the journal where it tells of the
 * same life of the maps, else of the maps alone. -ENOMEM.
 */
int breakers_new(struct daemon *d, struct service *service, uint64_t now_ns);
/* A reload: what was measured and decided goes on under the new configuration. */
void breakers_move(struct service *to, struct service *from, uint64_t now_ns);
void breakers_free(struct service *service);

/* Whether the tick may pass the service over: the maps show that it is at rest. Asked once a tick. */
bool breakers_rest(const struct daemon *d, struct service *service, uint64_t turn, uint64_t now_ns);
/* Once a tick, all services that do not rest: what was seen since the last one. Then, for each, its part of the half to push. */
void breakers_sense(struct daemon *d, uint64_t now_ns);
void breakers_decide(struct daemon *d, struct service *service, uint64_t now_ns, struct slc_decision_half *half);
/* `gap_ns` between two ticks: longer than the lease, and what was measured before says nothing about now. */
void breakers_gap(struct daemon *d, uint64_t gap_ns, uint64_t now_ns);
/* Whether the maps show what was decided last, state and generation. */
bool breakers_in_force(const struct daemon *d, const struct service *service);

/* Whether what was measured speaks against `config` of the service: then `buf` says what and why. */
bool breakers_advice(const struct service *service, const struct service_config *config, char *buf, size_t len);
/* Warnings about a configuration, from what was measured of services of the same name. */
void breakers_advise(const struct daemon *d, const struct config *config, struct diag *diag);

/* The journal, in the background; the rest at the end. */
void breakers_save_later(struct daemon *d, uint64_t now_ns);
void breakers_finish(struct daemon *d);

/*
 * Whether something shows that not all is well: a refusal since the last tick that is not of a static limit, a full
 * queue or more in flight than is answered in time, or a breaker that is not closed for good.
 */
bool breakers_disturbed(const struct service *service);
/* Slots of this generation. Past its deadline an owed one has failed, and a ticket or an idle probe is nobody's. */
void probes_view(const struct slc_probe *probe, uint32_t generation, uint64_t now_ns, struct probe_view *ret_view);
/* T in 1/16 ns, rounded up; ~0 for a rate that has none. */
uint64_t rate_interval16(double per_second);

#endif /* SLUICE_BREAKERS_H */
