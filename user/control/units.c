// SPDX-License-Identifier: GPL-2.0-only
/*
 * Values with units, for the file and the CLI alike. Only digits and a unit are a value: no sign, no fraction, no
 * space, no exponent, so that nothing is accepted by half.
 */
#include "user/control/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define NS_US 1000ULL
#define NS_MS 1000000ULL
#define NS_S 1000000000ULL
#define NS_M (60 * NS_S)
#define NS_H (3600 * NS_S)

#define DURATION_MAX_H 87600ULL /* 10 years: any longer is a slip of the unit */
#define RATE_MAX_PER_S 100000000ULL /* T of 160 sixteenths of a ns: the 0.1 % rule can still be met */
#define RATE_MIN_PER_NS (24 * NS_H)

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {{"us", NS_US}, {"ms", NS_MS}, {"s", NS_S}, {"m", NS_M}, {"h", NS_H}};
#define UNITS (sizeof(units) / sizeof(units[0]))

static const char rate_accepted[] = "a rate is COUNT/s, /m, /h or /DURATION, from 1/24h to 100000000/s";
static const char duration_accepted[] = "a duration is a whole number and us, ms, s, m or h, from 1us to 87600h";
static const char percent_accepted[] = "a percentage is 0.01% to 100%";

const char *quote(const char *text, char buf[QUOTE_LEN])
{
	size_t at = 0;
	unsigned shown = 0;

	buf[at++] = '"';
	for (; *text && shown < 64; text++, shown++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c < 0x7f && c != '\\')
			buf[at++] = (char)c;
		else
			at += (size_t)sprintf(buf + at, "\\x%02x", c);
	}
	buf[at++] = '"';
	strcpy(buf + at, *text ? "..." : "");
	return buf;
}

static int refuse(char *why, size_t why_len, const char *text, const char *problem, const char *accepted)
{
	char quoted[QUOTE_LEN];

	snprintf(why, why_len, "%s %s; %s", quote(text, quoted), problem, accepted);
	return -EINVAL;
}

enum number { NUMBER_NONE, NUMBER_OK, NUMBER_HUGE };

/* Digits at *text; moves past them. */
static enum number number(const char **text, uint64_t *ret)
{
	const char *p = *text;
	uint64_t n = 0;
	bool huge = false;

	for (; *p >= '0' && *p <= '9'; p++) {
		huge |= __builtin_mul_overflow(n, 10, &n);
		huge |= __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
	}
	if (p == *text)
		return NUMBER_NONE;
	*text = p;
	*ret = n;
	return huge ? NUMBER_HUGE : NUMBER_OK;
}

/* What is wrong with a text that has no digits where a number should be. */
static const char *not_a_number(const char *text)
{
	if (!*text)
		return "is empty";
	if (*text == '-')
		return "is negative";
	return "is not a number with a unit";
}

static const struct unit *find_unit(const char *name)
{
	for (size_t i = 0; i < UNITS; i++)
		if (!strcmp(name, units[i].name))
			return &units[i];
	return NULL;
}

static const char *duration(const char *text, uint64_t *ret_ns)
{
	const char *p = text;
	uint64_t n;

	switch (number(&p, &n)) {
	case NUMBER_NONE:
		return not_a_number(text);
	case NUMBER_HUGE:
		return "is too large";
	case NUMBER_OK:
		break;
	}
	if (!*p)
		return n ? "has no unit" : "is zero and has no unit";
	const struct unit *unit = find_unit(p);
	if (!unit)
		return *p == '.' ? "has a fraction: use a smaller unit" : "has an unknown unit";
	if (n > DURATION_MAX_H * NS_H / unit->ns)
		return "is too large";
	*ret_ns = n * unit->ns;
	return NULL;
}

const char *unit_duration(const char *text, uint64_t *ret_ns)
{
	uint64_t ns;
	const char *problem = duration(text, &ns);

	if (problem)
		return problem;
	if (!ns)
		return "is zero";
	*ret_ns = ns;
	return NULL;
}

int parse_duration(const char *text, uint64_t *ret_ns, char *why, size_t why_len)
{
	const char *problem = unit_duration(text, ret_ns);

	return problem ? refuse(why, why_len, text, problem, duration_accepted) : 0;
}

/* The part after the slash: a unit alone, or a duration. */
static const char *rate_period(const char *text, uint64_t *ret_ns)
{
	const struct unit *unit = find_unit(text);

	if (unit && unit->ns >= NS_S) {
		*ret_ns = unit->ns;
		return NULL;
	}
	if (duration(text, ret_ns))
		return "has an unknown unit";
	if (!*ret_ns)
		return "has a period of zero";
	return *ret_ns > RATE_MIN_PER_NS ? "has a period over 24h" : NULL;
}

const char *unit_rate(const char *text, struct rate *ret)
{
	const char *p = text;
	uint64_t n, per_ns;

	switch (number(&p, &n)) {
	case NUMBER_NONE:
		return *text == '-' || !*text ? not_a_number(text) : "is not a rate";
	case NUMBER_HUGE:
		return "is too large";
	case NUMBER_OK:
		break;
	}
	if (!*p)
		return n ? "has no unit" : "is zero";
	if (*p == '.')
		return "has a fraction: write 1/2s for one in two seconds";
	if (*p != '/')
		return "is not a rate";
	const char *problem = rate_period(p + 1, &per_ns);
	if (problem)
		return problem;
	if (!n)
		return "is zero";
	if ((unsigned __int128)n * NS_S > (unsigned __int128)RATE_MAX_PER_S * per_ns)
		return "is too large";
	*ret = (struct rate){true, n, per_ns};
	return NULL;
}

int parse_rate(const char *text, struct rate *ret_rate, char *why, size_t why_len)
{
	const char *problem = unit_rate(text, ret_rate);

	return problem ? refuse(why, why_len, text, problem, rate_accepted) : 0;
}

/* A number with up to `digits` digits after the point, in units of the last of them; *p is left behind it. */
static const char *fixed_point(const char **p, int digits, const char *not_one, const char *finer, uint64_t *ret_whole,
			       uint64_t *ret_part)
{
	const char *text = *p, *point;

	*ret_part = 0;
	switch (number(p, ret_whole)) {
	case NUMBER_NONE:
		return *text == '-' || !*text ? not_a_number(text) : not_one;
	case NUMBER_HUGE:
		return "is too large";
	case NUMBER_OK:
		break;
	}
	if (**p != '.')
		return NULL;
	point = ++*p;
	if (number(p, ret_part) == NUMBER_NONE || *p - point > digits)
		return finer;
	for (ptrdiff_t i = *p - point; i < digits; i++)
		*ret_part *= 10;
	return NULL;
}

/* Hundredths from up to two digits after the point. */
const char *unit_percent(const char *text, uint16_t *ret_hundredths)
{
	const char *p = text, *problem;
	uint64_t whole, part;

	problem = fixed_point(&p, 2, "is not a percentage", "is finer than 0.01%", &whole, &part);
	if (problem)
		return problem;
	if (!*p)
		return "has no unit";
	if (strcmp(p, "%"))
		return "has an unknown unit";
	if (whole > 100 || whole * 100 + part > 10000)
		return "is too large";
	if (!whole && !part)
		return "is zero";
	*ret_hundredths = (uint16_t)(whole * 100 + part);
	return NULL;
}

int parse_percent(const char *text, uint16_t *ret_hundredths, char *why, size_t why_len)
{
	const char *problem = unit_percent(text, ret_hundredths);

	return problem ? refuse(why, why_len, text, problem, percent_accepted) : 0;
}

const char *unit_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *p = text;
	uint64_t n;

	switch (number(&p, &n)) {
	case NUMBER_NONE:
		return *text == '-' || !*text ? not_a_number(text) : "is not a whole number";
	case NUMBER_HUGE:
		return *p ? "is not a whole number" : "is too large";
	case NUMBER_OK:
		break;
	}
	if (*p == '.')
		return "has a fraction";
	if (*p)
		return "has a unit or other text: a count has none";
	if (!n && min)
		return "is zero";
	if (n < min)
		return "is too small";
	if (n > max)
		return "is too large";
	*ret = n;
	return NULL;
}

int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count, char *why, size_t why_len)
{
	const char *problem = unit_count(text, min, max, ret_count);
	char accepted[96];

	if (!problem)
		return 0;
	snprintf(accepted, sizeof(accepted), "a whole number from %llu to %llu, without unit, is accepted",
		 (unsigned long long)min, (unsigned long long)max);
	return refuse(why, why_len, text, problem, accepted);
}

const char *unit_number(const char *text, uint64_t *ret_thousandths)
{
	const char *p = text, *problem;
	uint64_t whole, part;

	problem = fixed_point(&p, 3, "is not a number", "is finer than 0.001", &whole, &part);
	if (problem)
		return problem;
	if (*p)
		return "has a unit or other text";
	if (whole > UINT64_MAX / 1000 - 1)
		return "is too large";
	*ret_thousandths = whole * 1000 + part;
	return NULL;
}

void format_number(uint64_t thousandths, char *buf, size_t len)
{
	unsigned part = (unsigned)(thousandths % 1000);
	unsigned long long whole = thousandths / 1000;

	if (!part)
		snprintf(buf, len, "%llu", whole);
	else if (part % 10)
		snprintf(buf, len, "%llu.%03u", whole, part);
	else if (part % 100)
		snprintf(buf, len, "%llu.%02u", whole, part / 10);
	else
		snprintf(buf, len, "%llu.%u", whole, part / 100);
}

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

int parse_address(const char *text, uint8_t ret_addr[16], char *why, size_t why_len)
{
	uint8_t addr[16];

	memcpy(addr, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, addr + sizeof(mapped)) != 1 && inet_pton(AF_INET6, text, addr) != 1)
		return refuse(why, why_len, text, *text ? "is not an address" : "is empty",
			      "IPv4 or IPv6 addresses are accepted; names are not looked up, write each address (both "
			      "families)");
	memcpy(ret_addr, addr, sizeof(addr));
	return 0;
}

static bool is_ipv4(const uint8_t addr[16])
{
	return !memcmp(addr, mapped, sizeof(mapped));
}

/* Clears the bits after `prefix`; true if any was set. */
static bool clear_host_bits(uint8_t addr[16], unsigned prefix)
{
	bool any = false;

	for (unsigned i = 0; i < 16; i++) {
		unsigned keep = prefix >= 8 * (i + 1) ? 8 : prefix > 8 * i ? prefix - 8 * i : 0;
		uint8_t kept = (uint8_t)(addr[i] & (0xff00u >> keep));

		any |= kept != addr[i];
		addr[i] = kept;
	}
	return any;
}

static int cidr_prefix(const char *text, const char *digits, bool dotted, unsigned *ret, char *why, size_t why_len)
{
	unsigned max = dotted ? 32 : 128;
	uint64_t n = max;
	char accepted[64];

	if (!digits || !unit_count(digits, 0, max, &n)) {
		*ret = (unsigned)(dotted ? 96 + n : n);
		return 0;
	}
	snprintf(accepted, sizeof(accepted), "a prefix length of 0 to %u is accepted", max);
	return refuse(why, why_len, text, "has no valid prefix length", accepted);
}

int parse_cidr(const char *text, struct cidr *ret_cidr, char *why, size_t why_len)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char address[INET6_ADDRSTRLEN] = "";
	struct cidr cidr;
	unsigned prefix;

	if (len < sizeof(address))
		memcpy(address, text, len);
	if (parse_address(address, cidr.addr, why, why_len))
		return refuse(why, why_len, text, *text ? "is not a CIDR" : "is empty",
			      "ADDRESS/LENGTH is accepted, as in 192.0.2.0/24 or 2001:db8::/32; names are not looked "
			      "up, write each address (both families)");
	int err = cidr_prefix(text, slash ? slash + 1 : NULL, !strchr(address, ':'), &prefix, why, why_len);
	if (err)
		return err;
	cidr.prefix = (uint8_t)prefix;

	struct cidr host = {.prefix = 128};
	memcpy(host.addr, cidr.addr, sizeof(host.addr));
	if (clear_host_bits(cidr.addr, prefix)) {
		char quoted[QUOTE_LEN], fixed[64], single[64];

		format_cidr(&cidr, fixed, sizeof(fixed));
		format_cidr(&host, single, sizeof(single));
		snprintf(why, why_len, "%s has bits set after its prefix; write %s for the network or %s for the host",
			 quote(text, quoted), fixed, single);
		return -EINVAL;
	}
	*ret_cidr = cidr;
	return 0;
}

void format_duration(uint64_t ns, char *buf, size_t len)
{
	for (size_t i = UNITS; i-- > 0;)
		if (ns >= units[i].ns && ns % units[i].ns == 0) {
			snprintf(buf, len, "%llu%s", (unsigned long long)(ns / units[i].ns), units[i].name);
			return;
		}
	snprintf(buf, len, "%lluns", (unsigned long long)ns);
}

void format_rate(const struct rate *rate, char *buf, size_t len)
{
	char period[32];

	if (!rate->set) {
		snprintf(buf, len, "unlimited");
		return;
	}
	format_duration(rate->per_ns, period, sizeof(period));
	snprintf(buf, len, "%llu/%s", (unsigned long long)rate->count,
		 !strncmp(period, "1", 1) && find_unit(period + 1) && rate->per_ns >= NS_S ? period + 1 : period);
}

void format_percent(uint16_t hundredths, char *buf, size_t len)
{
	unsigned whole = hundredths / 100, part = hundredths % 100;

	if (!part)
		snprintf(buf, len, "%u%%", whole);
	else if (part % 10)
		snprintf(buf, len, "%u.%02u%%", whole, part);
	else
		snprintf(buf, len, "%u.%u%%", whole, part / 10);
}

void format_address(const uint8_t addr[16], char *buf, size_t len)
{
	char text[INET6_ADDRSTRLEN];

	if (is_ipv4(addr))
		inet_ntop(AF_INET, addr + sizeof(mapped), text, sizeof(text));
	else
		inet_ntop(AF_INET6, addr, text, sizeof(text));
	snprintf(buf, len, "%s", text);
}

void format_cidr(const struct cidr *cidr, char *buf, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	bool ipv4 = is_ipv4(cidr->addr) && cidr->prefix >= 96;

	if (ipv4)
		format_address(cidr->addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, cidr->addr, text, sizeof(text));
	snprintf(buf, len, "%s/%u", text, ipv4 ? cidr->prefix - 96u : cidr->prefix);
}

bool cidr_contains(const struct cidr *outer, const struct cidr *inner)
{
	unsigned bytes = outer->prefix / 8, bits = outer->prefix % 8;

	return inner->prefix >= outer->prefix && !memcmp(inner->addr, outer->addr, bytes) &&
	       (!bits || !((inner->addr[bytes] ^ outer->addr[bytes]) >> (8 - bits)));
}
