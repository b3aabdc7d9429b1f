/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dispatcher.h: interfaces whose XDP hook holds libxdp's dispatcher, put there by other tools. Ours joins it: it runs
 * first (priority 10 of libxdp's default 50) and hands on what it passes.
 */
#ifndef SLUICE_DATAPATH_DISPATCHER_H
#define SLUICE_DATAPATH_DISPATCHER_H

#include "user/datapath/internal.h"

bool dispatcher_present(int ifindex);
/* Joins, or replaces an older program of ours there. The mode is the dispatcher's. */
int dispatcher_attach(const struct datapath *dp, const char *ifname, int ifindex, struct attach_state *state);
int dispatcher_leave(const struct datapath *dp, int ifindex); /* 0 also if ours is not there, or ifindex is 0 */

/* Is the program with this id one to remove? */
typedef bool (*dispatcher_match)(uint32_t prog_id, const void *arg);
/* Removes the matching programs; the others stay. 0 also if there is no dispatcher. */
int dispatcher_detach(int ifindex, dispatcher_match match, const void *arg);
/* One matching program that is there, 0 if none. */
uint32_t dispatcher_find(int ifindex, dispatcher_match match, const void *arg);

#endif /* SLUICE_DATAPATH_DISPATCHER_H */
