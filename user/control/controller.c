// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/controller.h"

#include <errno.h>
#include <string.h>

#include "user/control/breakers.h"
#include "user/control/clock.h"
#include "user/control/interfaces.h"
#include "user/control/accept_queues.h"
#include "user/control/log.h"
#include "user/control/overrides.h"
#include "user/control/promote.h"
#include "user/control/reload.h"

/* Classes whose members have completed handshakes before: each of their SYNs counts as a connection to come. */
static bool is_sure(unsigned int class)
{
	return class == SLC_CLASS_vip || class == SLC_CLASS_known;
}

static void take_samples(struct daemon *d, struct service *service, uint64_t now_ns)
{
	const struct slc_signals *signals = datapath_signals(d->dp, service->policy.state);
	struct completion_sample sample = {.at_ns = now_ns};

	/* Established first: it may fall short of admitted by the time between the reads, never exceed it. */
	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++)
		sample.established[c] = __atomic_load_n(&signals->established[c], __ATOMIC_RELAXED);
	if (datapath_counters(d->dp, service->policy.state, &service->counters))
		return;
	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++) {
		sample.admitted[c] = service->counters.admitted[c];
		if (service->handshakes[c].primed && sample.established[c] == service->handshakes_seen[c])
			continue;
		service->handshakes_seen[c] = sample.established[c];
		handshakes_take(&service->handshakes[c], signals->handshake[c], now_ns);
	}
	completion_add(&service->completion, &sample);
}

/* Pure of the samples: the half to push, without its validity. */
static void decide_handshake(const struct service *service, uint64_t now_ns, struct slc_decision_half *half)
{
	uint64_t longest_ns = 0, class_ns[SLC_CLASS_COUNT];
	uint32_t slices;

	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++) {
		class_ns[c] = handshakes_p90(&service->handshakes[c], now_ns);
		if (class_ns[c] > longest_ns)
			longest_ns = class_ns[c];
	}
	half->handshake_ns = longest_ns ? longest_ns : HANDSHAKE_DEFAULT_NS;
	for (unsigned int c = 0; c < SLC_CLASS_COUNT; c++) {
		uint64_t lag_ns = class_ns[c] ? class_ns[c] : HANDSHAKE_DEFAULT_NS;

		half->completion_q16[c] = is_sure(c) ? COMPLETION_ONE : completion_q16(&service->completion, c, lag_ns);
	}
	handshake_slices(half->handshake_ns, &half->slice_shift, &slices);
	half->slices = slices;
	half->listeners = service->queue.sharers;
}

static void forget(struct service *service)
{
	completion_reset(&service->completion);
	memset(service->handshakes, 0, sizeof(service->handshakes));
}

static void decide(struct daemon *d, struct service *service, uint64_t now_ns)
{
	struct slc_decision_half half = {.slice_shift = service->decision.slice_shift};

	decide_handshake(service, now_ns, &half);
	breakers_decide(d, service, now_ns, &half);
	service->decision = half;
}

int controller_decide(struct daemon *d, uint64_t began_ns)
{
	uint64_t until_ns = began_ns + d->config->lease_ns;

	for (size_t i = 0; i < d->service_count; i++) {
		struct service *service = d->services[i];

		service->resting = breakers_rest(d, service, d->tick.count + i, began_ns);
		if (!service->resting)
			take_samples(d, service, began_ns);
	}
	breakers_sense(d, began_ns);
	for (size_t i = 0; i < d->service_count; i++) {
		if (!d->services[i]->resting)
			decide(d, d->services[i], began_ns);
		d->services[i]->decision.valid_until_ns = until_ns;
	}
	if (clock_ns() - began_ns > d->config->lease_ns / 2) {
		d->tick.discarded++;
		return -ETIME;
	}
	for (size_t i = 0; i < d->service_count; i++)
		datapath_push_decision(d->dp, d->services[i]->policy.state, &d->services[i]->decision,
				       d->services[i]->breaker.generation);
	return datapath_renew_lease(d->dp, until_ns);
}

void controller_start(struct daemon *d, uint64_t now_ns)
{
	const struct slc_control *control = datapath_control(d->dp);

	if (control->salt[0] == 0 && control->salt[1] == 0)
		datapath_set_salt(d->dp, clock_random());
	d->salt_ns = now_ns;
}

static void rotate_salt(struct daemon *d, uint64_t now_ns)
{
	if (now_ns - d->salt_ns < SALT_LIFE_NS)
		return;
	datapath_set_salt(d->dp, clock_random());
	d->salt_ns = now_ns;
}

/* The kernel acted without us: what was measured before says nothing about now. */
static void notice_lapse(struct daemon *d, uint64_t began_ns)
{
	if (!d->tick.began_ns)
		return;
	breakers_gap(d, began_ns - d->tick.began_ns, began_ns);
	if (began_ns - d->tick.began_ns <= d->config->lease_ns)
		return;
	d->tick.lapses++;
	log_warning("the lease lapsed: %llu ms between two ticks; the kernel side acted on failsafe.on_loss meanwhile",
		    (unsigned long long)((began_ns - d->tick.began_ns) / NS_PER_MS));
	for (size_t i = 0; i < d->service_count; i++)
		forget(d->services[i]);
}

static void measure(struct daemon *d, uint64_t began_ns)
{
	uint64_t took_ns = clock_ns() - began_ns;

	d->tick.count++;
	d->tick.sum_ns += took_ns;
	d->tick.last_ns = took_ns;
	if (took_ns > d->tick.max_ns)
		d->tick.max_ns = took_ns;
}

void controller_tick(struct daemon *d, uint64_t began_ns)
{
	notice_lapse(d, began_ns);
	d->tick.began_ns = began_ns;
	controller_decide(d, began_ns);
	rotate_salt(d, began_ns);
	datapath_sweep(d->dp);
	overrides_expire(d, began_ns);
	reload_system(d, began_ns);
	listeners_look(d, began_ns);
	unread_look(d, began_ns);
	listeners_adopt_later(d, began_ns);
	promote_tick(d, began_ns);
	breakers_save_later(d, began_ns);
	interfaces_reconcile(d, began_ns, false, NULL, 0);
	measure(d, began_ns);
}
