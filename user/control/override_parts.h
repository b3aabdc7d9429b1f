/* SPDX-License-Identifier: GPL-2.0-only */
/* override_parts.h: what the files about overrides share: overrides.c (the list), override_values.c, override_push.c. */
#ifndef SLUICE_OVERRIDE_PARTS_H
#define SLUICE_OVERRIDE_PARTS_H

#include "user/control/overrides.h"

static inline bool override_is_order(const struct override *o)
{
	return o->kind == OVERRIDE_deny || o->kind == OVERRIDE_allow;
}

bool override_same_cidr(const struct cidr *a, const struct cidr *b);
void override_free(struct override *o);
int override_append(struct overrides *list, struct override *o);
const struct override *override_by_id(const struct daemon *d, uint32_t id);

/* Of a kind that one subject has once, only the newest stays: in the list, and in the journal. */
void overrides_supersede(struct daemon *d);

/* override_values.c: from `values` to the fields; -EINVAL with the problem. */
int override_read_values(struct override *o, struct problem *problem);
/* Orders that are more likely a slip than a wish, which `force` lets through. */
int override_check_reach(const struct daemon *d, const struct override *o, struct problem *problem);

/* The prefix lies within management.cidrs: packets from there pass, unless the order says force. */
bool override_in_management(const struct daemon *d, const struct cidr *cidr);

/* override_push.c: what `o` acts on, computed anew from all overrides, written and read back. */
int override_push(struct daemon *d, const struct override *o, struct problem *problem);
int override_push_service(struct daemon *d, const struct service *service, struct problem *problem);
/* Whether all limits of the service together can be held; nothing is written. */
int override_try_service(const struct daemon *d, const struct service *service, struct problem *problem);

#endif /* SLUICE_OVERRIDE_PARTS_H */
