// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/bucket.h"

uint32_t pow2_floor(uint32_t x)
{
	return x ? 1u << (31 - __builtin_clz(x)) : 0;
}

uint32_t pow2_ceil(uint32_t x)
{
	uint32_t floor = pow2_floor(x);

	if (x <= 1)
		return 1;
	return floor == x || floor == 1u << 31 ? floor : floor << 1;
}

uint32_t range_target(uint32_t configured, size_t services)
{
	if (!services)
		return configured;
	return services > configured ? 0 : pow2_floor(configured / (uint32_t)services);
}

static bool overlaps(struct range a, struct range b)
{
	return a.size && b.size && a.base < b.base + b.size && b.base < a.base + a.size;
}

struct layout {
	struct range *taken;
	size_t count;
	uint32_t sets;
};

/* The range that stands in the way of `r`, or NULL. */
static const struct range *in_the_way(const struct layout *layout, struct range r)
{
	for (size_t i = 0; i < layout->count; i++)
		if (overlaps(layout->taken[i], r))
			return &layout->taken[i];
	return NULL;
}

/* The largest aligned block around the free range `r` that is free as a whole. */
static uint32_t free_around(const struct layout *layout, struct range r)
{
	while (r.size <= layout->sets / 2) {
		struct range twice = {.base = r.base & ~(2 * r.size - 1), .size = 2 * r.size};

		if (in_the_way(layout, twice))
			break;
		r = twice;
	}
	return r.size;
}

/* Best fit, as in a buddy allocator: the place in the smallest free block, so that large blocks stay whole. */
static bool find_place(const struct layout *layout, uint32_t size, struct range *ret)
{
	struct range best = {0};
	uint32_t best_block = 0;

	for (uint64_t base = 0; base + size <= layout->sets;) {
		struct range r = {.base = (uint32_t)base, .size = size};
		const struct range *other = in_the_way(layout, r);
		uint32_t block;

		if (other) {
			uint64_t end = (uint64_t)other->base + other->size;

			base = end > base + size ? end : base + size;
			continue;
		}
		block = free_around(layout, r);
		if (!best.size || block < best_block) {
			best = r;
			best_block = block;
		}
		if (block == size)
			break;
		base += block; /* the rest of this block is no better */
	}
	if (!best.size)
		return false;
	*ret = best;
	return true;
}

int layout_ranges(struct range_want *want, size_t count, const struct range *busy, size_t busy_count, uint32_t sets,
		  uint32_t target, bool *ret_settled)
{
	struct layout layout = {.sets = sets};
	bool settled = true;
	int r = 0;

	if (!count) {
		*ret_settled = true;
		return 0;
	}
	if (!target)
		return -ENOSPC;
	struct range *next = calloc(count, sizeof(*next));

	layout.taken = calloc(count + busy_count, sizeof(*layout.taken));
	if (!layout.taken || !next) {
		r = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < busy_count; i++)
		if (busy[i].size)
			layout.taken[layout.count++] = busy[i];
	for (size_t i = 0; i < count; i++) {
		uint32_t size = target;

		if (want[i].now.size == target) {
			next[i] = want[i].now;
			continue;
		}
		if (find_place(&layout, size, &next[i])) {
			layout.taken[layout.count++] = next[i];
			continue;
		}
		settled = false;
		if (want[i].now.size) {
			next[i] = want[i].now;
			continue;
		}
		while (size > 1 && !next[i].size)
			find_place(&layout, size >>= 1, &next[i]);
		if (!next[i].size) {
			r = -ENOSPC;
			goto out;
		}
		layout.taken[layout.count++] = next[i];
	}
	for (size_t i = 0; i < count; i++)
		want[i].next = next[i];
	*ret_settled = settled;
out:
	free(layout.taken);
	free(next);
	return r;
}

/* Larger is older; an unused way is older than any. */
static uint64_t way_age(uint64_t word, uint64_t now)
{
	return word ? slc_tat_age(word, now) : UINT64_MAX;
}

/* Puts one debt into a set: the larger of it and what the source has there already. */
static bool put_debt(struct slc_set *set, uint64_t word, uint64_t now)
{
	for (int try = 0; try < 64; try++) {
		uint64_t seen[SLC_WAYS], oldest = 0;
		int slot = 0;

		for (int i = 0; i < SLC_WAYS; i++) {
			seen[i] = __atomic_load_n(&set->way[i].word, __ATOMIC_RELAXED);
			if (seen[i] && seen[i] >> 40 == word >> 40) {
				slot = i;
				break;
			}
			if (way_age(seen[i], now) >= oldest) {
				oldest = way_age(seen[i], now);
				slot = i;
			}
		}
		if (way_age(seen[slot], now) <= way_age(word, now))
			return seen[slot] >> 40 == word >> 40;
		if (__sync_val_compare_and_swap(&set->way[slot].word, seen[slot], word) == seen[slot])
			return true;
	}
	return false;
}

/* The word in the new unit, 0 for a full bucket. Rounds the debt up: a move never gives a token. */
static uint64_t in_new_unit(const struct move *move, uint64_t word)
{
	uint64_t ahead = slc_tat_ahead(word, move->now_ns >> move->from_shift);

	if (!ahead)
		return 0;
	if (move->from_shift == move->to_shift)
		return word;
	if (move->from_shift > move->to_shift)
		ahead <<= move->from_shift - move->to_shift;
	else
		ahead = (ahead + (1ULL << (move->to_shift - move->from_shift)) - 1) >>
			(move->to_shift - move->from_shift);
	if (ahead > SLC_TAT_FUTURE)
		ahead = SLC_TAT_FUTURE; /* the packet path stores it back to the bucket's depth */
	return slc_way_word(word >> 40, (move->now_ns >> move->to_shift) + ahead);
}

size_t move_debts(const struct move *move)
{
	uint64_t now = move->now_ns >> move->to_shift;
	size_t lost = 0;

	for (uint32_t i = 0; i < move->from_sets; i++) {
		for (int w = 0; w < SLC_WAYS; w++) {
			uint64_t word = __atomic_load_n(&move->from[i].way[w].word, __ATOMIC_RELAXED);

			word = word ? in_new_unit(move, word) : 0;
			if (!word)
				continue;
			for (uint32_t j = i & (move->to_sets - 1); j < move->to_sets; j += move->from_sets)
				lost += !put_debt(&move->to[j], word, now);
		}
	}
	return lost;
}
