// SPDX-License-Identifier: GPL-2.0-only
#include "user/datapath/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A field of a line, not terminated. */
struct field {
	const char *text;
	size_t len;
};

static struct field next_field(const char **cursor, const char *end)
{
	struct field f;

	while (*cursor < end && **cursor == ' ')
		(*cursor)++;
	f.text = *cursor;
	while (*cursor < end && **cursor != ' ')
		(*cursor)++;
	f.len = (size_t)(*cursor - f.text);
	return f;
}

static bool field_is(struct field f, const char *text)
{
	return f.len == strlen(text) && memcmp(f.text, text, f.len) == 0;
}

struct mount {
	struct field root, point, type;
};

/* "id parent major:minor root point options [optional...] - type source super": false for anything else. */
static bool parse_line(const char *line, const char *end, struct mount *ret)
{
	const char *cursor = line;
	struct mount m;
	struct field f;

	for (int i = 0; i < 3; i++)
		next_field(&cursor, end);
	m.root = next_field(&cursor, end);
	m.point = next_field(&cursor, end);
	do {
		f = next_field(&cursor, end);
		if (!f.len)
			return false;
	} while (!field_is(f, "-"));
	m.type = next_field(&cursor, end);
	if (!m.type.len)
		return false;
	*ret = m;
	return true;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes space, tab, newline and backslash as \ooo. */
static int unescape(struct field f, char *ret, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < f.len; n++) {
		char c = f.text[i++];

		if (n + 1 >= len)
			return -ENAMETOOLONG;
		if (c == '\\' && f.len - i >= 3 && is_octal(f.text[i]) && is_octal(f.text[i + 1]) &&
		    is_octal(f.text[i + 2])) {
			c = (char)((f.text[i] - '0') << 6 | (f.text[i + 1] - '0') << 3 | (f.text[i + 2] - '0'));
			i += 3;
		}
		ret[n] = c;
	}
	if (n >= len)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

static bool hidden_later(const char *rest, struct field point)
{
	for (const char *line = rest; *line;) {
		const char *end = strchrnul(line, '\n');
		struct mount m;

		if (parse_line(line, end, &m) && m.point.len == point.len &&
		    memcmp(m.point.text, point.text, point.len) == 0)
			return true;
		line = *end ? end + 1 : end;
	}
	return false;
}

int mountinfo_find(const char *text, const char *fstype, char *ret_path, size_t path_len)
{
	struct field best = {0};
	size_t best_root = 0;

	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *rest = *end ? end + 1 : end;
		struct mount m;

		if (parse_line(line, end, &m) && field_is(m.type, fstype) && !hidden_later(rest, m.point) &&
		    (!best.len || m.root.len < best_root)) {
			best = m.point;
			best_root = m.root.len;
		}
		line = rest;
	}
	return best.len ? unescape(best, ret_path, path_len) : -ENOENT;
}
