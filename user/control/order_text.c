// SPDX-License-Identifier: GPL-2.0-only
/*
 * order_text.c: what every order of an operator carries beside its values: how long it holds (--for) and why
 * (--reason). The CLI and the API ask here, so that both refuse the same things in the same words.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "user/control/config.h"
#include "user/control/order_text.h"

#define NS_PER_S 1000000000ULL
#define FOR_ACCEPTED "1s to 8760h (a year) with a unit, as in 90s, 10m, 2h"

int parse_order_time(const char *text, uint64_t *ret_ns, char *why, size_t why_len)
{
	uint64_t ns;

	/* parse_duration's own words may name another range: an order's is narrower. */
	if (parse_duration(text, &ns, why, why_len) || ns < NS_PER_S || ns > 8760 * 3600 * NS_PER_S) {
		snprintf(why, why_len, "%s", FOR_ACCEPTED);
		return -EINVAL;
	}
	*ret_ns = ns;
	return 0;
}

/* Length of the UTF-8 sequence at `s` (RFC 3629: shortest form, no surrogates, up to U+10FFFF), 0 if it is none. */
static size_t utf8_char(const unsigned char *s, size_t len, uint32_t *ret_code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t need = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
	uint32_t code;

	if (!need || need > len)
		return 0;
	code = need == 1 ? s[0] : s[0] & (0x7f >> need);
	for (size_t i = 1; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[need] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return need;
}

bool text_is_utf8(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t code;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_char(s + i, len - i, &code);
		if (!n)
			return false;
	}
	return true;
}

int check_reason(const char *text, size_t len, char *why, size_t why_len)
{
	const unsigned char *s = (const unsigned char *)text;
	bool blank = true;
	uint32_t code = 0;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_char(s + i, len - i, &code);
		if (!n || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
			snprintf(why, why_len, "1 to %d bytes of UTF-8 without control characters; byte %zu is %s",
				 REASON_MAX, i + 1, n ? "a control character" : "not UTF-8");
			return -EINVAL;
		}
		blank = blank && code == ' ';
	}
	if (blank || len > REASON_MAX) {
		snprintf(why, why_len, "1 to %d bytes of UTF-8 without control characters; this is %s", REASON_MAX,
			 len > REASON_MAX ? "longer" : "empty");
		return -EINVAL;
	}
	return 0;
}
