// SPDX-License-Identifier: GPL-2.0-only
/* listeners.c: arrival rings of listeners: how old the head of an accept queue is. */
#include "user/datapath/internal.h"

#include <string.h>

int datapath_head_age(const struct datapath *dp, uint64_t cookie, uint32_t backlog, uint64_t now,
		      uint64_t *ret_head_age_ns)
{
	_cleanup_free_ struct slc_arrivals *ring = malloc(sizeof(*ring));
	uint64_t stamp;
	int r = ring ? bpf_map_lookup_elem(dp->maps.fd[MAP_arrivals], &cookie, ring) : -ENOMEM;

	if (r < 0)
		return r;
	if (!backlog) {
		*ret_head_age_ns = 0;
		return 0;
	}
	/* More waiting than the ring has stamps of: the oldest known one is a lower bound. */
	if (backlog > SLC_RING)
		backlog = SLC_RING;
	if (backlog > ring->n) {
		stamp = ring->since_ns;
	} else {
		stamp = ring->stamp_ns[(ring->n - backlog) & (SLC_RING - 1)];
		if (stamp < ring->since_ns)
			stamp = ring->since_ns;
	}
	*ret_head_age_ns = now > stamp ? now - stamp : 0;
	return 0;
}

int datapath_adopt_listener(struct datapath *dp, int fd, uint64_t cookie, uint32_t uid, uint16_t state,
			    uint32_t backlog, uint64_t now)
{
	_cleanup_free_ struct slc_arrivals *ring = calloc(1, sizeof(*ring));
	struct slc_mark mark = {.listener = cookie};
	int r;

	if (!ring)
		return -ENOMEM;
	/* Those that wait came at some time before: counted as arrived now, so the age starts as a lower bound. */
	ring->n = backlog < SLC_RING ? backlog : SLC_RING;
	ring->since_ns = now;
	ring->uid = uid;
	ring->state = state;
	for (uint64_t i = 0; i < ring->n; i++)
		ring->stamp_ns[i] = now;
	r = bpf_map_update_elem(dp->maps.fd[MAP_arrivals], &cookie, ring, BPF_NOEXIST);
	if (r == -E2BIG)
		r = -ENOSPC;
	if (r < 0 && r != -EEXIST) /* a ring that is there already knows more than we do */
		return r;
	return bpf_map_update_elem(dp->maps.fd[MAP_marks], &fd, &mark, BPF_ANY);
}

int datapath_drop_listener(struct datapath *dp, uint64_t cookie)
{
	return bpf_map_delete_elem(dp->maps.fd[MAP_arrivals], &cookie);
}

struct listener_walk {
	int fd;
	struct slc_arrivals *ring;
	listener_visit visit;
	void *arg;
};

static int visit_listener(const void *key, void *arg)
{
	struct listener_walk *walk = arg;
	uint64_t cookie;

	memcpy(&cookie, key, sizeof(cookie));
	if (bpf_map_lookup_elem(walk->fd, &cookie, walk->ring) == 0)
		walk->visit(cookie, walk->ring->uid, (uint16_t)walk->ring->state, walk->arg);
	return 0;
}

int datapath_listeners_walk(const struct datapath *dp, listener_visit visit, void *arg)
{
	_cleanup_free_ struct slc_arrivals *ring = malloc(sizeof(*ring));
	struct listener_walk walk = {dp->maps.fd[MAP_arrivals], ring, visit, arg};

	return ring ? map_walk(walk.fd, sizeof(uint64_t), SLC_LISTENERS, visit_listener, &walk) : -ENOMEM;
}
