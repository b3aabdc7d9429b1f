// SPDX-License-Identifier: GPL-2.0-only
/* Reading, showing and storing one value by its row of the schema. */
#include "user/control/nearest.h"
#include "user/control/schema.h"
#include "user/control/units.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME(name, text) #name "|"
static const char stage_names[] = SLC_STAGES(STAGE_NAME);
static const char protocol_words[] = "tcp|udp";

/* Outcomes that can be failures: those that are by default, and slow ones. */
#define SAY_FAILURE(name) #name "|"
#define SAY_SUCCESS(name)
#define SAY_NEUTRAL(name)
#define SAY_OUTCOME(name, class, text) SAY_##class(name)
static const char failure_words[] = "slow|" SLC_OUTCOMES(SAY_OUTCOME);

const char *const schema_outcomes[SLC_OUTCOME_COUNT] = {
#define X(name, class, text) [SLC_OUT_##name] = #name,
	SLC_OUTCOMES(X)
#undef X
};

const char *schema_name(const struct schema_key *key)
{
	const char *dot = strrchr(key->path, '.');

	return dot ? dot + 1 : key->path;
}

static bool is_child(const struct schema_key *parent, const struct schema_key *key)
{
	const char *name = key->path;

	if (parent) {
		size_t len = strlen(parent->path);

		if (strncmp(key->path, parent->path, len) || key->path[len] != '.')
			return false;
		name += len + 1;
	}
	return !strchr(name, '.') && strcmp(name, "*");
}

const struct schema_key *schema_next(const struct schema_key *parent, const struct schema_key *previous)
{
	for (const struct schema_key *key = previous ? previous + 1 : schema; key < schema + schema_count; key++)
		if (is_child(parent, key))
			return key;
	return NULL;
}

const struct schema_key *schema_child(const struct schema_key *parent, const char *name)
{
	for (const struct schema_key *key = NULL; (key = schema_next(parent, key));)
		if (!strcmp(schema_name(key), name))
			return key;
	return NULL;
}

const struct schema_key *schema_find(const char *path)
{
	for (size_t i = 0; i < schema_count; i++)
		if (!strcmp(schema[i].path, path))
			return &schema[i];
	return NULL;
}

bool schema_is_later(const struct schema_key *key)
{
	for (const struct schema_key *block = schema; block <= key; block++) {
		size_t len = strlen(block->path);

		if (block->flags & KEY_LATER && !strncmp(block->path, key->path, len) && strchr(".", key->path[len]))
			return true;
	}
	return false;
}

/* --- words ------------------------------------------------------------------------------------------------------ */

/* Next word of "a|b|c" into buf; false at the end. */
static bool next_word(const char **words, char *buf, size_t len)
{
	size_t n = *words ? strcspn(*words, "|") : 0;

	if (!n)
		return false;
	snprintf(buf, len, "%.*s", (int)n, *words);
	*words += n + ((*words)[n] == '|');
	return true;
}

static int find_word(const char *words, const char *text)
{
	char word[64];

	for (int i = 0; next_word(&words, word, sizeof(word)); i++)
		if (!strcmp(word, text))
			return i;
	return -1;
}

/* A slip, not another word: about a third of the letters differ at most, or one begins with the other. */
static bool is_near(const char *given, const char *known, unsigned *best)
{
	unsigned d = text_distance(given, known);
	size_t shorter = strlen(given) < strlen(known) ? strlen(given) : strlen(known);

	if (shorter >= 4 && !strncmp(given, known, shorter) && d > 2)
		d = 2;
	if (d >= *best || d > (strlen(known) + 1) / 3 || d >= strlen(known))
		return false;
	*best = d;
	return true;
}

/* Where else a key of that name stands: "services.source.rate, services.total.rate". */
static void other_places(const char *name, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (size_t i = 0; i < schema_count && at < len; i++)
		if (!strcmp(schema_name(&schema[i]), name))
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "", schema[i].path);
}

void schema_suggest(const struct schema_key *parent, const char *name, char *buf, size_t len)
{
	const struct schema_key *nearest = NULL;
	unsigned best = 32;
	char places[256];
	size_t at = 0;

	for (const struct schema_key *key = NULL; (key = schema_next(parent, key));)
		if (is_near(name, schema_name(key), &best))
			nearest = key;
	if (nearest) {
		snprintf(buf, len, "did you mean %s?", schema_name(nearest));
		return;
	}
	other_places(name, places, sizeof(places));
	if (places[0]) {
		snprintf(buf, len, "it belongs elsewhere: %s", places);
		return;
	}
	buf[0] = 0;
	for (const struct schema_key *key = NULL; (key = schema_next(parent, key)) && at < len;)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "known keys: ", schema_name(key));
}

/* --- what is accepted ------------------------------------------------------------------------------------------- */

static void show_words(const char *words, const char *before, char *buf, size_t len)
{
	char word[64];
	size_t at = strlen(buf);

	for (; next_word(&words, word, sizeof(word)) && at < len; before = ", ")
		at += (size_t)snprintf(buf + at, len - at, "%s%s", before, word);
}

static void show_range(const struct schema_key *key, const char *what, const char *min, const char *max, char *buf,
		       size_t len)
{
	snprintf(buf, len, "%s from %s to %s", what, min, max);
	show_words(key->words, ", or ", buf, len);
	size_t at = strlen(buf);
	snprintf(buf + at, len - at, " is accepted");
}

void schema_accepted(const struct schema_key *key, char *buf, size_t len)
{
	char min[32], max[32];

	buf[0] = 0;
	switch (key->type) {
	case KEY_COUNT:
	case KEY_LIMIT:
		snprintf(min, sizeof(min), "%llu", (unsigned long long)key->min);
		snprintf(max, sizeof(max), "%llu", (unsigned long long)key->max);
		show_range(key, "a whole number without unit", min, max, buf, len);
		return;
	case KEY_NUMBER:
		format_number(key->min, min, sizeof(min));
		format_number(key->max, max, sizeof(max));
		show_range(key, "a number", min, max, buf, len);
		return;
	case KEY_PERCENT:
		format_percent((uint16_t)key->min, min, sizeof(min));
		format_percent((uint16_t)key->max, max, sizeof(max));
		show_range(key, "a percentage with %", min, max, buf, len);
		return;
	case KEY_DURATION:
		format_duration(key->min, min, sizeof(min));
		format_duration(key->max, max, sizeof(max));
		show_range(key, "a duration with unit us, ms, s, m or h", min, max, buf, len);
		return;
	case KEY_RATE:
		format_rate(&(struct rate){true, 1, key->min}, min, sizeof(min));
		format_rate(&(struct rate){true, key->max, 1000000000}, max, sizeof(max));
		show_range(key, "a rate (COUNT/s, /m, /h or /DURATION)", min, max, buf, len);
		return;
	case KEY_BOOL:
		snprintf(buf, len, "accepted: true, false");
		return;
	case KEY_STAGE:
		show_words(stage_names + sizeof("parse"), "accepted: all, ", buf, len);
		return;
	case KEY_OUTCOME:
		show_words(failure_words, "accepted: auto, ", buf, len);
		return;
	default:
		show_words(key->words, "accepted: ", buf, len);
		return;
	}
}

/* What to write instead of zero, where it is not only a smaller number. */
static const char *instead_of_zero(const struct schema_key *key)
{
	if (find_word(key->words ?: "", "unlimited") >= 0)
		return " (to refuse use deny, for no limit write unlimited)";
	if (find_word(key->words ?: "", "none") >= 0)
		return " (to switch it off write none)";
	if (key->flags & KEY_SETTABLE)
		return " (to refuse use deny; for no limit write rate: unlimited and leave burst out)";
	return "";
}

static int refuse(const struct schema_key *key, const char *text, const char *problem, char *why, size_t why_len)
{
	char quoted[QUOTE_LEN], range[400];

	schema_accepted(key, range, sizeof(range));
	snprintf(why, why_len, "%s %s%s%s%s", quote(text, quoted), problem,
		 strstr(problem, "zero") ? instead_of_zero(key) : "", range[0] ? "; " : "", range);
	return -EINVAL;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static const char *in_bounds(const struct schema_key *key, uint64_t n)
{
	return n < key->min ? "is too small" : n > key->max ? "is too large" : NULL;
}

static const char *read_rate(const struct schema_key *key, const char *text, struct value *value)
{
	struct rate rate;
	const char *problem = unit_rate(text, &rate);

	if (problem)
		return problem;
	if (rate.per_ns > (unsigned __int128)rate.count * key->min)
		return "is too small";
	if ((unsigned __int128)rate.count * 1000000000 > (unsigned __int128)key->max * rate.per_ns)
		return "is too large";
	value->rate = rate;
	return NULL;
}

static const char *read_plain(const struct schema_key *key, const char *text, struct value *value)
{
	const char *problem;
	uint16_t hundredths;

	switch (key->type) {
	case KEY_COUNT:
	case KEY_LIMIT:
		return unit_count(text, key->min, key->max, &value->n);
	case KEY_NUMBER:
		problem = unit_number(text, &value->n);
		return problem ?: in_bounds(key, value->n);
	case KEY_DURATION:
		problem = unit_duration(text, &value->n);
		return problem ?: in_bounds(key, value->n);
	case KEY_PERCENT:
		problem = unit_percent(text, &hundredths);
		value->n = problem ? 0 : hundredths;
		return problem ?: in_bounds(key, value->n);
	case KEY_BOOL:
		value->n = !strcmp(text, "true");
		return value->n || !strcmp(text, "false") ? NULL : "is not true or false";
	default:
		return "is not accepted";
	}
}

static const char *read_name(const struct schema_key *key, const char *text)
{
	static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t max = key->max ?: SLC_NAME_LEN - 1, len = strlen(text);

	if (!len)
		return "is empty";
	if (len > max)
		return max == IF_NAMESIZE - 1 ? "is longer than an interface's name, 15 characters"
		       : max == 63            ? "is longer than 63 characters"
					      : "is longer than 31 characters";
	if (strspn(text, good) != len)
		return "has a character other than A-Z a-z 0-9 _ . -";
	return !strcmp(text, ".") || !strcmp(text, "..") ? "is not a name" : NULL;
}

static const char *read_path(const struct schema_key *key, const char *text)
{
	if (!*text)
		return "is empty";
	if (*text != '/' && !(key->flags & KEY_RELATIVE))
		return "is not an absolute path";
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return "has a control character";
	return strlen(text) >= key->size ? "is too long" : NULL;
}

static const char *read_missing(const char *text)
{
	uint64_t n;

	if (!strcmp(text, "ignore") || !strcmp(text, "tighten"))
		return NULL;
	if (!strncmp(text, "last ", 5))
		return unit_duration(text + 5, &n);
	if (!strncmp(text, "value ", 6))
		return unit_number(text + 6, &n);
	return "is not one of: ignore, tighten, last DURATION, value NUMBER";
}

/* ADDRESS:PORT, [ADDRESS]:PORT or *:PORT. */
static const char *read_listen(const char *text, bool star, struct value *value)
{
	const char *colon = strrchr(text, ':');
	char address[64] = "", why[256];
	uint64_t port;

	if (!*text)
		return "is empty";
	if (!colon || colon[1] == ']')
		return "has no port";
	size_t len = (size_t)(colon - text);
	bool bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	if (len >= sizeof(address))
		return "is not ADDRESS:PORT";
	memcpy(address, text + bracketed, len - 2 * bracketed);
	if (unit_count(colon + 1, 1, 65535, &port))
		return "has no port from 1 to 65535";
	if (!bracketed && strchr(address, ':'))
		return "is an IPv6 address without brackets: write [ADDRESS]:PORT";
	value->listen_count = 1;
	value->listen[0].port = value->listen[1].port = (uint16_t)port;
	if (star && !strcmp(address, "*")) {
		parse_address("0.0.0.0", value->listen[0].addr, why, sizeof(why));
		parse_address("::", value->listen[1].addr, why, sizeof(why));
		value->listen_count = 2;
		return NULL;
	}
	if (parse_address(address, value->listen[0].addr, why, sizeof(why)))
		return "is not ADDRESS:PORT, as in 203.0.113.10:443 or [2001:db8::10]:443; names are not looked up, "
		       "write "
		       "each address (both families)";
	return NULL;
}

static int read_word(const struct schema_key *key, const char *words, const char *text, struct value *value, char *why,
		     size_t why_len)
{
	int index = find_word(words, text);
	char problem[128] = "is not known", word[64], nearest[64] = "";
	unsigned best = 32;

	if (index >= 0) {
		value->n = (uint64_t)index;
		return 0;
	}
	size_t wrong = key->wrong ? strcspn(key->wrong, "=") : 0;
	if (wrong && strlen(text) == wrong && !strncmp(key->wrong, text, wrong))
		snprintf(problem, sizeof(problem), "is not used: write %s", key->wrong + wrong + 1);
	else
		while (next_word(&words, word, sizeof(word)))
			if (is_near(text, word, &best))
				strcpy(nearest, word);
	if (nearest[0])
		snprintf(problem, sizeof(problem), "is not known, did you mean %s?", nearest);
	return refuse(key, text, *text ? problem : "is empty", why, why_len);
}

static int read_stage(const struct schema_key *key, const char *text, struct value *value, char *why, size_t why_len)
{
	if (!strcmp(text, "parse"))
		return refuse(key, text, "is before the service is known (see parser:)", why, why_len);
	int err = read_word(key, stage_names, text, value, why, why_len);
	if (!err)
		value->n = 1u << value->n;
	return err;
}

static int read_outcome(const struct schema_key *key, const char *text, struct value *value, char *why, size_t why_len)
{
	int err = read_word(key, failure_words, text, value, why, why_len);

	for (unsigned kind = 0; !err && kind < SLC_OUTCOME_COUNT; kind++)
		if (!strcmp(schema_outcomes[kind], text))
			value->n = 1u << kind;
	return err;
}

/* A word that stands for a set. `all` of the stages: the parser's verdicts come before the service is known. */
static uint64_t word_bits(const struct schema_key *key, int index)
{
	return key->type == KEY_STAGE     ? ((1u << SLC_STAGE_COUNT) - 1) & ~(1u << SLC_STAGE_parse)
	       : key->type == KEY_OUTCOME ? SLC_FAILURES_DEFAULT
					  : (uint64_t)index;
}

static const char *read_text(const struct schema_key *key, const char *text, struct value *value)
{
	switch (key->type) {
	case KEY_RATE:
		return read_rate(key, text, value);
	case KEY_NAME:
	case KEY_SERVICE:
	case KEY_SIGNAL:
		return read_name(key, text);
	case KEY_PATH:
		return read_path(key, text);
	case KEY_MISSING:
		return read_missing(text);
	case KEY_LISTEN:
		return read_listen(text, true, value);
	case KEY_ENDPOINT:
		return strlen(text) >= key->size ? "is too long" : read_listen(text, false, value);
	default:
		return read_plain(key, text, value);
	}
}

int schema_value(const struct schema_key *key, const char *text, struct value *ret_value, char *why, size_t why_len)
{
	struct value value = {.text = text};
	int err = 0, index = key->type == KEY_WORD ? -1 : find_word(key->words ?: "", text);

	if (key->type == KEY_PROTOCOL) {
		err = read_word(key, protocol_words, text, &value, why, why_len);
		value.n = value.n ? IPPROTO_UDP : IPPROTO_TCP;
	} else if (index >= 0) {
		value.word = true;
		value.n = word_bits(key, index);
	} else if (key->type == KEY_WORD) {
		err = read_word(key, key->words, text, &value, why, why_len);
	} else if (key->type == KEY_STAGE) {
		err = read_stage(key, text, &value, why, why_len);
	} else if (key->type == KEY_OUTCOME) {
		err = read_outcome(key, text, &value, why, why_len);
	} else if (key->type == KEY_CIDR) {
		err = parse_cidr(text, &value.cidr, why, why_len);
	} else {
		const char *problem = read_text(key, text, &value);

		if (problem)
			err = refuse(key, text, problem, why, why_len);
	}
	if (!err)
		*ret_value = value;
	return err;
}

/* --- showing and storing ---------------------------------------------------------------------------------------- */

void schema_format(const struct schema_key *key, const struct value *value, char *buf, size_t len)
{
	char address[64];

	if (value->word) {
		snprintf(buf, len, "%s", value->text);
		return;
	}
	switch (key->type) {
	case KEY_COUNT:
	case KEY_LIMIT:
		snprintf(buf, len, "%llu", (unsigned long long)value->n);
		return;
	case KEY_NUMBER:
		format_number(value->n, buf, len);
		return;
	case KEY_DURATION:
		format_duration(value->n, buf, len);
		return;
	case KEY_PERCENT:
		format_percent((uint16_t)value->n, buf, len);
		return;
	case KEY_RATE:
		format_rate(&value->rate, buf, len);
		return;
	case KEY_CIDR:
		format_cidr(&value->cidr, buf, len);
		return;
	case KEY_LISTEN:
		if (value->listen_count == 2) {
			snprintf(buf, len, "*:%u", value->listen[0].port);
			return;
		}
		format_address(value->listen[0].addr, address, sizeof(address));
		snprintf(buf, len, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, value->listen[0].port);
		return;
	default:
		snprintf(buf, len, "%s", value->text);
	}
}

static void store_number(void *slot, size_t size, uint64_t n)
{
	switch (size) {
	case 1:
		*(uint8_t *)slot = (uint8_t)n;
		return;
	case 2:
		*(uint16_t *)slot = (uint16_t)n;
		return;
	case 4:
		*(uint32_t *)slot = (uint32_t)n;
		return;
	default:
		*(uint64_t *)slot = n;
	}
}

void schema_store(const struct schema_key *key, const struct value *value, void *base)
{
	void *slot = (char *)base + key->offset;

	if (!key->size)
		return;
	if (key->flag_offset)
		*(bool *)((char *)base + key->flag_offset) = !value->word;
	switch (key->type) {
	case KEY_LIMIT:
		*(struct limit *)slot = (struct limit){!value->word, value->word ? 0 : (uint32_t)value->n};
		return;
	case KEY_RATE:
		*(struct rate *)slot = value->rate;
		return;
	case KEY_CIDR:
		*(struct cidr *)slot = value->cidr;
		return;
	case KEY_STAGE:
	case KEY_OUTCOME:
		*(uint32_t *)slot |= (uint32_t)value->n;
		return;
	case KEY_NAME:
	case KEY_PATH:
	case KEY_ENDPOINT:
		snprintf(slot, key->size, "%s", value->word ? "" : value->text);
		return;
	default:
		store_number(slot, key->size, value->word ? 0 : value->n);
	}
}
