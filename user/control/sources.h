/* SPDX-License-Identifier: GPL-2.0-only */
/* sources.h: routes that show sources. They are many and chosen by clients: only here, never in metrics. */
#ifndef SLUICE_SOURCES_H
#define SLUICE_SOURCES_H

#include "user/control/api.h"

/* Without the lock held: walks the whole cold table in slices. */
int sources_top(const struct call *call, struct reply *reply, struct problem *problem);
int sources_show(const struct call *call, struct reply *reply, struct problem *problem);

#endif /* SLUICE_SOURCES_H */
