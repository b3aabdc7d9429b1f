// SPDX-License-Identifier: GPL-2.0-only
/* check_value.c: one check a kind of value, each by the parser that the daemon uses. */
#include <errno.h>
#include <string.h>

#include "user/cli/check_value.h"
#include "user/control/config.h"
#include "user/control/order_text.h"

static int accept_only(char *why, size_t why_len, const char *accepted)
{
	snprintf(why, why_len, "%s", accepted);
	return -EINVAL;
}

static int check_text(const char *text, char *why, size_t why_len)
{
	if (!*text || !text_is_utf8(text, strlen(text)))
		return accept_only(why, why_len, "not empty, UTF-8");
	return 0;
}

/* The daemon knows which names there are; this only keeps out what cannot be one. */
static int check_name(const char *text, char *why, size_t why_len)
{
	size_t len = strlen(text);

	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		if (*s <= ' ' || *s == 0x7f || *s == '/')
			len = 0;
	}
	if (!len || len >= SLC_NAME_LEN || !text_is_utf8(text, len))
		return accept_only(why, why_len, "the name of a service, 1 to 31 bytes: `sluicectl service list`");
	return 0;
}

static int check_cidr(const char *text, char *why, size_t why_len)
{
	struct cidr cidr;

	return parse_cidr(text, &cidr, why, why_len);
}

static int check_address(const char *text, char *why, size_t why_len)
{
	uint8_t addr[16];

	return parse_address(text, addr, why, why_len);
}

static int check_limit(const char *text, char *why, size_t why_len)
{
	struct limits_change change = {0};

	return limits_assign(&change, text, why, why_len);
}

static int check_rate(const char *text, char *why, size_t why_len)
{
	struct rate rate;

	return parse_rate(text, &rate, why, why_len);
}

static int check_count(const char *text, char *why, size_t why_len)
{
	uint64_t count;

	return parse_count(text, 1, COUNT_MAX, &count, why, why_len);
}

static int check_id(const char *text, char *why, size_t why_len)
{
	uint64_t id;

	if (parse_count(text, 1, UINT32_MAX, &id, why, why_len))
		return accept_only(why, why_len, "the number of an override: `sluicectl overrides list`");
	return 0;
}

static int check_for(const char *text, char *why, size_t why_len)
{
	uint64_t ns;

	return parse_order_time(text, &ns, why, why_len);
}

static int check_reason_text(const char *text, char *why, size_t why_len)
{
	return check_reason(text, strlen(text), why, why_len);
}

static int check_events(const char *text, char *why, size_t why_len)
{
	if (strcmp(text, "breaker") && strcmp(text, "refusal"))
		return accept_only(why, why_len, "breaker, refusal");
	return 0;
}

static int check_sequence(const char *text, char *why, size_t why_len)
{
	uint64_t sequence;

	if (parse_count(text, 0, INT64_MAX, &sequence, why, why_len))
		return accept_only(why, why_len, "the number of an event: `seq` in `sluicectl events --json`");
	return 0;
}

int check_value(enum kind kind, const char *text, bool *ret_sentence, char *why, size_t why_len)
{
	static const struct {
		int (*check)(const char *text, char *why, size_t why_len);
		bool sentence; /* the parsers of config.h speak in sentences */
	} checks[] = {
		[KIND_TEXT] = {check_text, false},         [KIND_NAME] = {check_name, false},
		[KIND_CIDR] = {check_cidr, true},          [KIND_ADDRESS] = {check_address, true},
		[KIND_LIMIT] = {check_limit, true},        [KIND_RATE] = {check_rate, true},
		[KIND_COUNT] = {check_count, true},        [KIND_ID] = {check_id, false},
		[KIND_FOR] = {check_for, false},           [KIND_REASON] = {check_reason_text, false},
		[KIND_FILE] = {check_text, false},         [KIND_EVENTS] = {check_events, false},
		[KIND_SEQUENCE] = {check_sequence, false},
	};

	*ret_sentence = checks[kind].sentence;
	return checks[kind].check ? checks[kind].check(text, why, why_len) : 0;
}
