// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/rest.h"

bool rest_tick(struct rest *rest, uint64_t moved, bool calm, uint64_t turn, uint64_t now_ns)
{
	if (!rest->any || rest->moved != moved || !calm || now_ns < rest->since_ns)
		*rest = (struct rest){.any = true, .moved = moved, .since_ns = now_ns};
	return now_ns - rest->since_ns >= REST_AFTER_NS && turn % REST_TICKS != 0;
}
