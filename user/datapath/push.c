// SPDX-License-Identifier: GPL-2.0-only
/*
 * push.c: what the controller writes each tick. Shared memory only, no system call but the sweep's.
 *
 * Two halves and a word: the half that the word does not name is filled, then the word is stored with release order.
 * A packet that read the word just before still reads the other half, which the next push overwrites one tick
 * (100 ms) later; a packet takes microseconds.
 */
#include "user/datapath/internal.h"

#include "sluice.skel.h"

int datapath_push_decision(struct datapath *dp, uint16_t state, const struct slc_decision_half *half,
			   uint32_t generation)
{
	struct slc_decision *decision;
	uint64_t index;

	if (state >= SLC_STATES)
		return -EINVAL;
	decision = &dp->decision[state];
	index = !(__atomic_load_n(&decision->word, __ATOMIC_RELAXED) & 1);
	decision->half[index] = *half;
	__atomic_store_n(&decision->word, (uint64_t)generation << 32 | index, __ATOMIC_RELEASE);
	return 0;
}

int datapath_get_decision(const struct datapath *dp, uint16_t state, struct slc_decision_half *ret_half,
			  uint32_t *ret_generation)
{
	uint64_t word;

	if (state >= SLC_STATES)
		return -EINVAL;
	word = __atomic_load_n(&dp->decision[state].word, __ATOMIC_ACQUIRE);
	*ret_half = dp->decision[state].half[word & 1];
	*ret_generation = word >> 32;
	return 0;
}

int datapath_renew_lease(struct datapath *dp, uint64_t until_ns)
{
	__atomic_store_n(&dp->control->lease_until_ns, until_ns, __ATOMIC_RELEASE);
	return 0;
}

int datapath_set_salt(struct datapath *dp, uint64_t salt)
{
	uint64_t other = !(dp->control->salt_index & 1);

	__atomic_store_n(&dp->control->salt[other], salt, __ATOMIC_RELAXED);
	__atomic_store_n(&dp->control->salt_index, other, __ATOMIC_RELEASE);
	return 0;
}

int datapath_set_override(struct datapath *dp, uint16_t state, const struct slc_override_half *half)
{
	struct slc_override *override;
	uint64_t word;

	if (state >= SLC_STATES)
		return -EINVAL;
	override = &dp->override[state];
	word = !(__atomic_load_n(&override->word, __ATOMIC_RELAXED) & 1);
	override->half[word] = *half;
	__atomic_store_n(&override->word, word, __ATOMIC_RELEASE);
	return 0;
}

int datapath_get_override(struct datapath *dp, uint16_t state, struct slc_override_half *ret_half)
{
	if (state >= SLC_STATES)
		return -EINVAL;
	*ret_half = dp->override[state].half[dp->override[state].word & 1];
	return 0;
}

/* The next slice: at most SLC_SWEEP_MAX sets of one range; false if there is no service. */
static bool next_slice(struct datapath *dp, struct slc_sweep *ret_slice)
{
	const struct slc_policy *policy;
	uint32_t sets;

	if (!dp->live.count)
		return false;
	if (dp->sweep.service >= dp->live.count)
		dp->sweep.service = dp->sweep.set = 0;
	policy = &dp->live.services[dp->sweep.service].policy;
	sets = policy->set_mask + 1;
	*ret_slice = (struct slc_sweep){
		.first = policy->set_base + dp->sweep.set,
		.count = sets - dp->sweep.set < SLC_SWEEP_MAX ? sets - dp->sweep.set : SLC_SWEEP_MAX,
		.shift = policy->shift,
	};
	dp->sweep.set += ret_slice->count;
	if (dp->sweep.set >= sets) {
		dp->sweep.service++;
		dp->sweep.set = 0;
	}
	return true;
}

/*
 * A TAT comes round after 2^40 units, 18 min at the finest unit, and is rewritten once it is 2^38 old. So a round may
 * take 13 min; this takes at most 1024 calls plus one a service, 2 min of 100 ms ticks, whatever the size of the table.
 */
int datapath_sweep(struct datapath *dp)
{
	int fd = bpf_program__fd(dp->skel->progs.slc_sweep);
	uint32_t slices = 1 + dp->configured_sets / SLC_SWEEP_MAX / 1024;
	struct slc_sweep slice;

	for (uint32_t i = 0; i < slices && next_slice(dp, &slice); i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &slice, .ctx_size_in = sizeof(slice));
		int r = bpf_prog_test_run_opts(fd, &opts);

		if (r < 0)
			return r;
	}
	return 0;
}

int datapath_to_units(uint64_t ns16, uint8_t shift, uint32_t *ret_units)
{
	return to_units(ns16, shift, ret_units);
}
