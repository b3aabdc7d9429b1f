/* SPDX-License-Identifier: GPL-2.0-only */
/* controller.h: the tick: facts from the maps, decisions back into them, and the lease. With the daemon's lock held. */
#ifndef SLUICE_CONTROLLER_H
#define SLUICE_CONTROLLER_H

#include "user/control/daemon.h"

#define TICK_NS (100 * NS_PER_MS)
#define SALT_LIFE_NS (128 * NS_PER_S) /* longer than a client goes on sending its SYN */

/* Fresh tables get their dice; others keep theirs for a full life. */
void controller_start(struct daemon *d, uint64_t now_ns);
/* Everything that is due, at `began_ns`; clock_ns() tells when it was done. */
void controller_tick(struct daemon *d, uint64_t began_ns);
/*
 * Decisions and lease alone. -ETIME: `began_ns` is more than half a lease ago, nothing was pushed: a process that
 * was stopped must not give a stale decision a fresh lease.
 */
int controller_decide(struct daemon *d, uint64_t began_ns);

#endif /* SLUICE_CONTROLLER_H */
