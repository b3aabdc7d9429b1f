/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * units.h: the readers behind parse_*() of config.h, for callers with bounds of their own. Each returns NULL, or
 * what is wrong with the text as the end of a sentence ("is zero"); outputs are untouched then.
 */
#ifndef SLUICE_UNITS_H
#define SLUICE_UNITS_H

#include "user/control/config.h"

const char *unit_duration(const char *text, uint64_t *ret_ns); /* zero is refused */
const char *unit_rate(const char *text, struct rate *ret);
const char *unit_percent(const char *text, uint16_t *ret_hundredths);
const char *unit_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/* A decimal number in thousandths; it must be exact. */
const char *unit_number(const char *text, uint64_t *ret_thousandths);
void format_number(uint64_t thousandths, char *buf, size_t len);

#endif /* SLUICE_UNITS_H */
