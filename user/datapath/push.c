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

int datapath_push_decision(struct datapath *dp, uint16_t state, const struct slc_decision_half *half)
{
	struct slc_decision *decision;
	uint64_t word;

	if (state >= SLC_STATES)
		return -EINVAL;
	decision = &dp->decision[state];
	word = __atomic_load_n(&decision->word, __ATOMIC_RELAXED) ^ 1; /* other half, same generation */
	decision->half[word & 1] = *half;
	__atomic_store_n(&decision->word, word, __ATOMIC_RELEASE);
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

/* 2048 sets are 16 384 sources: some 20 us. A table of a million is swept in 64 ticks, 6 s; 2^38 ns are 4.6 min. */
#define SWEEP_SETS 2048u

int datapath_sweep(struct datapath *dp)
{
	int fd = bpf_program__fd(dp->skel->progs.slc_sweep);

	for (size_t tries = 0; tries <= dp->live.count; tries++) {
		const struct slc_policy *policy;
		struct slc_sweep args;
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));
		uint32_t sets;

		if (dp->sweep.service >= dp->live.count)
			dp->sweep.service = 0;
		if (!dp->live.count)
			return 0;
		policy = &dp->live.services[dp->sweep.service].policy;
		sets = policy->set_mask + 1;
		if (dp->sweep.set >= sets) {
			dp->sweep.service++;
			dp->sweep.set = 0;
			continue;
		}
		args = (struct slc_sweep){
			.first = policy->set_base + dp->sweep.set,
			.count = sets - dp->sweep.set < SWEEP_SETS ? sets - dp->sweep.set : SWEEP_SETS,
			.shift = policy->shift,
		};
		dp->sweep.set += args.count;
		return bpf_prog_test_run_opts(fd, &opts);
	}
	return 0;
}

int datapath_to_units(uint64_t ns16, uint8_t shift, uint32_t *ret_units)
{
	return to_units(ns16, shift, ret_units);
}
