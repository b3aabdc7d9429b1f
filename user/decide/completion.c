// SPDX-License-Identifier: GPL-2.0-only
#include "user/decide/completion.h"

#include <stddef.h>

#define SLICES_MIN 8
#define SLICES_MAX (SLC_SLICES - 1)

/* i-th newest sample, 0 the newest. */
static const struct completion_sample *newest(const struct completion *c, unsigned int i)
{
	return &c->samples[(c->next + COMPLETION_SAMPLES - 1 - i) % COMPLETION_SAMPLES];
}

void completion_reset(struct completion *c)
{
	c->next = 0;
	c->count = 0;
}

void completion_add(struct completion *c, const struct completion_sample *sample)
{
	if (c->count > 0) {
		const struct completion_sample *last = newest(c, 0);

		for (unsigned int k = 0; k < SLC_CLASS_COUNT; k++) {
			if (sample->admitted[k] < last->admitted[k] || sample->established[k] < last->established[k]) {
				completion_reset(c);
				break;
			}
		}
	}
	c->samples[c->next] = *sample;
	c->next = (c->next + 1) % COMPLETION_SAMPLES;
	if (c->count < COMPLETION_SAMPLES)
		c->count++;
}

/* First of the samples, newest first and from the i-th on, that is not later than `at_ns`; the oldest if all are. */
static unsigned int not_after(const struct completion *c, unsigned int i, uint64_t at_ns)
{
	unsigned int end = c->count - 1;

	while (i < end) {
		unsigned int middle = i + (end - i) / 2;

		if (newest(c, middle)->at_ns <= at_ns)
			end = middle;
		else
			i = middle + 1;
	}
	return i;
}

const struct completion_sample *completion_before(const struct completion *c, uint64_t age_ns, uint64_t now_ns)
{
	const struct completion_sample *sample;

	if (!c->count || now_ns < age_ns)
		return NULL;
	sample = newest(c, not_after(c, 0, now_ns - age_ns));
	return sample->at_ns <= now_ns - age_ns ? sample : NULL;
}

/* First from the i-th on before which COMPLETION_FLOWS were admitted until `last`; the oldest if fewer were. */
static unsigned int flows_before(const struct completion *c, unsigned int i, unsigned int class,
				 const struct completion_sample *last)
{
	unsigned int end = c->count - 1;

	while (i < end) {
		unsigned int middle = i + (end - i) / 2;

		if (last->admitted[class] - newest(c, middle)->admitted[class] >= COMPLETION_FLOWS)
			end = middle;
		else
			i = middle + 1;
	}
	return i;
}

/* Last from the i-th on that is not older than COMPLETION_AGE_NS at `last`. */
static unsigned int not_too_old(const struct completion *c, unsigned int i, const struct completion_sample *last)
{
	unsigned int end = c->count - 1;

	while (i < end) {
		unsigned int middle = i + (end - i + 1) / 2;

		if (last->at_ns - newest(c, middle)->at_ns <= COMPLETION_AGE_NS)
			i = middle;
		else
			end = middle - 1;
	}
	return i;
}

uint32_t completion_q16(const struct completion *c, unsigned int class, uint64_t handshake_ns)
{
	const struct completion_sample *first, *last;
	unsigned int end, start, oldest;
	uint64_t admitted, established, now_ns;

	if (c->count < 2)
		return COMPLETION_ONE;
	now_ns = newest(c, 0)->at_ns;
	if (now_ns < handshake_ns)
		return COMPLETION_ONE;
	end = not_after(c, 0, now_ns - handshake_ns);
	last = newest(c, end);
	start = flows_before(c, end, class, last);
	oldest = not_too_old(c, end, last);
	if (oldest < start)
		start = oldest;
	first = newest(c, start);
	admitted = last->admitted[class] - first->admitted[class];
	if (admitted < COMPLETION_FLOWS_MIN)
		return COMPLETION_ONE;
	/* Both ends of the established ones lie H later, rounded down to a tick alike. */
	established = newest(c, not_after(c, 0, last->at_ns + handshake_ns))->established[class] -
		      newest(c, not_after(c, 0, first->at_ns + handshake_ns))->established[class];
	if (established >= admitted)
		return COMPLETION_ONE;
	return (established * COMPLETION_ONE + admitted - 1) / admitted;
}

static uint64_t slices_of(uint64_t ns, uint32_t shift)
{
	return (ns + (1ULL << shift) - 1) >> shift;
}

void handshake_slices(uint64_t handshake_ns, uint32_t *shift, uint32_t *ret_slices)
{
	uint64_t slices = slices_of(handshake_ns, *shift);

	if (slices < SLICES_MIN || slices > SLICES_MAX) {
		*shift = 0;
		while (slices_of(handshake_ns, *shift) > SLICES_MAX)
			(*shift)++;
		slices = slices_of(handshake_ns, *shift);
	}
	*ret_slices = slices;
}
