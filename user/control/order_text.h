/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * order_text.h: what every order of an operator carries, judged in one place for CLI and API. -EINVAL: `why` says
 * what is accepted.
 */
#ifndef SLUICE_ORDER_TEXT_H
#define SLUICE_ORDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REASON_MAX 500 /* bytes */

int parse_order_time(const char *text, uint64_t *ret_ns, char *why, size_t why_len); /* 1 s to 8760 h (a year) */
/* 1 to REASON_MAX bytes of UTF-8 without control characters, not only blanks. */
int check_reason(const char *text, size_t len, char *why, size_t why_len);
bool text_is_utf8(const char *text, size_t len);

#endif /* SLUICE_ORDER_TEXT_H */
