/* SPDX-License-Identifier: GPL-2.0-only */
/* breaker.h: the service's circuit breaker. An operator's order replaces the controller's decision. */
#ifndef SLC_BREAKER_H
#define SLC_BREAKER_H

#include "attempt.h"

static __always_inline int slc_stage_breaker(struct slc_attempt *a)
{
	_Bool open = a->decision && a->decision->flags & SLC_D_OPEN;

	if (slc_ordered(a, SLC_O_BREAKER, a->override->breaker_until_ns))
		open = a->override->breaker_open;
	if (open)
		REFUSE(a, circuit_open);
	return SLC_NEXT;
}

#endif /* SLC_BREAKER_H */
