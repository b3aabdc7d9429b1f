/* SPDX-License-Identifier: GPL-2.0-only */
/* timers.h: a heap of deadlines for event loops with hundreds of answers under way. */
#ifndef SLUICE_TEST_TIMERS_H
#define SLUICE_TEST_TIMERS_H

#include "tool.h"

/* A timer is never cancelled: `serial` says whether what it was set for is still there. */
struct timer {
	uint64_t at_ns;
	uint32_t id, serial;
};

struct timers {
	struct timer *heap;
	size_t count, room;
};

static inline void timers_swap(struct timers *timers, size_t a, size_t b)
{
	struct timer kept = timers->heap[a];

	timers->heap[a] = timers->heap[b];
	timers->heap[b] = kept;
}

static inline void timers_add(struct timers *timers, uint64_t at_ns, uint32_t id, uint32_t serial)
{
	size_t i = timers->count++;

	if (timers->count > timers->room) {
		timers->room = timers->room ? timers->room * 2 : 1024;
		timers->heap = realloc(timers->heap, timers->room * sizeof(*timers->heap));
		if (!timers->heap)
			die("out of memory for %zu timers", timers->room);
	}
	timers->heap[i] = (struct timer){.at_ns = at_ns, .id = id, .serial = serial};
	for (; i && timers->heap[i].at_ns < timers->heap[(i - 1) / 2].at_ns; i = (i - 1) / 2)
		timers_swap(timers, i, (i - 1) / 2);
}

static inline void timers_sink(struct timers *timers, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < timers->count; child++)
			if (timers->heap[child].at_ns < timers->heap[least].at_ns)
				least = child;
		if (least == i)
			return;
		timers_swap(timers, i, least);
		i = least;
	}
}

/* The earliest timer that is due; false: none is. */
static inline bool timers_take(struct timers *timers, uint64_t now, struct timer *ret)
{
	if (!timers->count || timers->heap[0].at_ns > now)
		return false;
	*ret = timers->heap[0];
	timers->heap[0] = timers->heap[--timers->count];
	timers_sink(timers, 0);
	return true;
}

/* Until the earliest one, at most `most_ns`. */
static inline struct timespec timers_wait(const struct timers *timers, uint64_t now, uint64_t most_ns)
{
	uint64_t wait = most_ns;

	if (timers->count && timers->heap[0].at_ns < now + most_ns)
		wait = timers->heap[0].at_ns > now ? timers->heap[0].at_ns - now : 0;
	return to_timespec(wait);
}

#endif /* SLUICE_TEST_TIMERS_H */
