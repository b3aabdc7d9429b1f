// SPDX-License-Identifier: GPL-2.0-only
/* events.c: the ring buffer of sampled refusals. */
#include "user/datapath/internal.h"

#include <string.h>

static int take_event(void *arg, void *data, size_t len)
{
	struct datapath *dp = arg;
	struct slc_event event;

	if (len < sizeof(event) || !dp->event_visit)
		return 0;
	memcpy(&event, data, sizeof(event));
	dp->event_visit(&event, dp->event_arg);
	return 0;
}

int events_open(struct datapath *dp)
{
	dp->ring = ring_buffer__new(dp->maps.fd[MAP_events], take_event, dp, NULL);
	return dp->ring ? 0 : -errno;
}

int datapath_events_fd(const struct datapath *dp)
{
	return ring_buffer__epoll_fd(dp->ring);
}

int datapath_events_consume(struct datapath *dp, event_visit visit, void *arg)
{
	int r;

	dp->event_visit = visit;
	dp->event_arg = arg;
	r = ring_buffer__consume(dp->ring);
	dp->event_visit = NULL;
	return r < 0 ? r : 0;
}
