// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/authority.h"

#define NS_PER_S 1000000000ULL
#define PARTS 5 /* 20 % */

const char *const authority_names[AUTHORITY_COUNT] = {
#define X(name) [AUTHORITY_##name] = #name,
	AUTHORITIES(X)
#undef X
};

/* Time behind the newest second is taken as that second's. */
static struct authority_second *rotate(struct authority_view *view, uint64_t now_ns)
{
	struct authority_second *second;

	if (view->newest < now_ns / NS_PER_S)
		view->newest = now_ns / NS_PER_S;
	second = &view->seconds[view->newest % AUTHORITY_SECONDS];
	if (!second->used || second->second != view->newest)
		*second = (struct authority_second){.used = true, .second = view->newest};
	return second;
}

static bool is_marked(const struct authority_input *input)
{
	return (input->has_head_age && input->head_age_ns > input->target_ns) ||
	       (input->has_occupancy && input->occupancy > AUTHORITY_OCCUPANCY);
}

static void record(struct authority_view *view, const struct authority_input *input)
{
	struct authority_second *second = rotate(view, input->now_ns);

	second->ticks++;
	second->marked += is_marked(input);
	/* The first tick's turns are from before, and counters that fell are another life's. */
	if (view->primed && input->turns_begun >= view->begun && input->turns_young >= view->young) {
		second->begun += input->turns_begun - view->begun;
		second->young += input->turns_young - view->young;
	}
	view->primed = true;
	view->begun = input->turns_begun;
	view->young = input->turns_young;
}

static struct authority_second sum(const struct authority_view *view, uint64_t now_ns)
{
	uint64_t newest = now_ns / NS_PER_S > view->newest ? now_ns / NS_PER_S : view->newest;
	struct authority_second all = {0};

	for (unsigned int i = 0; i < AUTHORITY_SECONDS; i++) {
		const struct authority_second *second = &view->seconds[i];

		if (!second->used || newest - second->second >= AUTHORITY_SECONDS)
			continue;
		all.ticks += second->ticks;
		all.marked += second->marked;
		all.begun += second->begun;
		all.young += second->young;
	}
	return all;
}

static enum authority judge(const struct authority_view *view, uint64_t now_ns)
{
	struct authority_second all = sum(view, now_ns);

	if (all.marked * PARTS >= all.ticks && all.marked > 0)
		return AUTHORITY_accept;
	if (!all.begun)
		return view->authority;
	return all.young * PARTS >= all.begun ? AUTHORITY_inflight : AUTHORITY_none;
}

bool authority_tick(struct authority_view *view, const struct authority_input *input)
{
	enum authority right;

	record(view, input);
	right = judge(view, input->now_ns);
	if (right == view->authority) {
		view->differs = false;
		return false;
	}
	if (!view->differs || view->next != right) {
		view->differs = true;
		view->next = right;
		view->next_since_ns = input->now_ns;
	}
	if (input->now_ns < view->next_since_ns + AUTHORITY_DWELL_NS)
		return false;
	view->authority = right;
	view->differs = false;
	return true;
}

bool authority_young_share(const struct authority_view *view, uint64_t now_ns, double *ret_share)
{
	struct authority_second all = sum(view, now_ns);

	if (!all.begun)
		return false;
	*ret_share = (double)all.young / (double)all.begun;
	return true;
}
