/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * promote.h: reads the facts of sources in slices and keeps slc_known in step with the rule of decide/known.h. What
 * changes is gathered for the journal and written there in the background. With the daemon's lock held.
 */
#ifndef SLUICE_PROMOTE_H
#define SLUICE_PROMOTE_H

#include "user/control/daemon.h"

/* What the map and the journal still know. */
void promote_load(struct daemon *d);
/* One slice of slc_cold, and of the entries that may have ended. */
void promote_tick(struct daemon *d, uint64_t now_ns);
/* Entries of services that are no more. */
void promote_prune(struct daemon *d);
/* At the end: writes what is left, here and now. */
void promote_finish(struct daemon *d);

#endif /* SLUICE_PROMOTE_H */
