// SPDX-License-Identifier: GPL-2.0-only
/* libyaml's events to a tree of nodes. */
#include "user/control/config_yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define DEPTH_MAX 12 /* the deepest key stands at 7 */

void node_free(struct node **node)
{
	struct node *n = *node;

	if (!n)
		return;
	for (size_t i = 0; i < n->count; i++)
		node_free(&n->child[i]);
	free(n->child);
	free(n->text);
	free(n);
	*node = NULL;
}

const char *node_kind_name(const struct node *node)
{
	static const char *const names[] = {
		[NODE_SCALAR] = "a single value", [NODE_LIST] = "a list", [NODE_MAP] = "a block of keys",
		[NODE_NULL] = "nothing",          [NODE_BAD] = "nothing",
	};

	return names[node->kind];
}

struct node *node_get(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (size_t i = 0; i + 1 < map->count; i += 2)
		if (map->child[i]->kind == NODE_SCALAR && !strcmp(map->child[i]->text, key))
			return map->child[i + 1];
	return NULL;
}

/* --- bytes ------------------------------------------------------------------------------------------------------ */

/* Length of the UTF-8 character at p, 0 if it is none. */
static unsigned utf8_length(const unsigned char *p, const unsigned char *end)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;

	if (n <= 1)
		return n;
	if (end - p < n)
		return 0;
	uint32_t c = *p & (0x7fu >> n);
	for (unsigned i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* The byte that no configuration has, in words; NULL: fine. */
static const char *bad_byte(unsigned char c, bool comment)
{
	if (c == '\t')
		return comment ? NULL : "tab: indent and separate with spaces";
	if (c == 0)
		return "NUL byte: is this a text file?";
	if ((c < 0x20 && c != '\n' && c != '\r') || c == 0x7f)
		return "control character";
	return NULL;
}

/* libyaml says less about these, and in offsets. */
static bool check_bytes(const char *text, size_t len, struct report *report)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len;
	unsigned line = 1, column = 1;
	bool comment = false, blank = true;

	while (p < end) {
		unsigned n = utf8_length(p, end);
		const char *problem = n ? bad_byte(*p, comment) : "not UTF-8: is the file complete, and is it text?";

		if (problem) {
			report_error(report, line, column, "byte 0x%02x: %s", *p, problem);
			return false;
		}
		if (*p == '\n') {
			line++;
			column = 0;
			comment = false;
			blank = true;
		} else if (*p == '#' && blank) {
			comment = true;
		} else if (*p != ' ') {
			blank = false;
		}
		p += n;
		column++;
	}
	return true;
}

/* --- tree ------------------------------------------------------------------------------------------------------- */

struct builder {
	struct report *report;
	struct node *stack[DEPTH_MAX];
	size_t depth;
	struct node *root;
	unsigned documents;
	bool stop; /* the tree is of no use: reported */
};

static bool is_null(const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;

	return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
}

static int attach(struct builder *b, struct node *node)
{
	if (!b->depth) {
		b->root = node;
		return 0;
	}
	struct node *parent = b->stack[b->depth - 1];
	/* Grows by doubling: room is needed at 0, 1, 2, 4, ... */
	if (!(parent->count & (parent->count - 1))) {
		struct node **grown =
			reallocarray(parent->child, parent->count ? 2 * parent->count : 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		parent->child = grown;
	}
	parent->child[parent->count++] = node;
	return 0;
}

static int add_node(struct builder *b, const yaml_event_t *event, enum node_kind kind)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return -ENOMEM;
	node->kind = kind;
	node->line = (unsigned)event->start_mark.line + 1;
	node->column = (unsigned)event->start_mark.column + 1;
	if (kind == NODE_SCALAR) {
		node->text = strdup((const char *)event->data.scalar.value);
		/* A NUL can come in by an escape, "\0": the text would end early. */
		if (node->text && strlen(node->text) != event->data.scalar.length) {
			report_error(b->report, node->line, node->column, "value with a NUL character");
			node->kind = NODE_BAD;
		}
	}
	if ((kind == NODE_SCALAR && !node->text) || attach(b, node)) {
		node_free(&node);
		return -ENOMEM;
	}
	if (kind != NODE_LIST && kind != NODE_MAP)
		return 0;
	if (b->depth == DEPTH_MAX) {
		report_error(b->report, node->line, node->column, "nested more than %d deep", DEPTH_MAX);
		b->stop = true;
		return 0;
	}
	b->stack[b->depth++] = node;
	return 0;
}

static void refuse_extras(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
			  const yaml_char_t *tag)
{
	unsigned line = (unsigned)event->start_mark.line + 1, column = (unsigned)event->start_mark.column + 1;
	char quoted[QUOTE_LEN];

	if (anchor)
		report_error(b->report, line, column, "anchor %s: anchors and aliases are not accepted, write it out",
			     quote((const char *)anchor, quoted));
	if (tag)
		report_error(b->report, line, column, "tag %s: tags are not accepted, write the value alone",
			     quote((const char *)tag, quoted));
}

static int on_event(struct builder *b, const yaml_event_t *event)
{
	unsigned line = (unsigned)event->start_mark.line + 1, column = (unsigned)event->start_mark.column + 1;
	char quoted[QUOTE_LEN];

	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (b->documents++) {
			report_error(b->report, line, column,
				     "a second document begins: one is accepted, remove \"---\"");
			b->stop = true;
		}
		return 0;
	case YAML_ALIAS_EVENT:
		report_error(b->report, line, column, "alias %s: anchors and aliases are not accepted, write it out",
			     quote((const char *)event->data.alias.anchor, quoted));
		return add_node(b, event, NODE_BAD);
	case YAML_SCALAR_EVENT:
		refuse_extras(b, event, event->data.scalar.anchor, event->data.scalar.tag);
		return add_node(b, event, is_null(event) ? NODE_NULL : NODE_SCALAR);
	case YAML_SEQUENCE_START_EVENT:
		refuse_extras(b, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
		return add_node(b, event, NODE_LIST);
	case YAML_MAPPING_START_EVENT:
		refuse_extras(b, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
		return add_node(b, event, NODE_MAP);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		b->depth--;
		return 0;
	default:
		return 0;
	}
}

static void report_parser(struct report *report, const yaml_parser_t *parser)
{
	const yaml_mark_t *mark = &parser->problem_mark;

	report_error(report, (unsigned)mark->line + 1, (unsigned)mark->column + 1, "not valid YAML: %s%s%s",
		     parser->problem ?: "unknown problem", parser->context ? " " : "", parser->context ?: "");
}

static int run(yaml_parser_t *parser, struct builder *b)
{
	for (;;) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event)) {
			if (parser->error == YAML_MEMORY_ERROR)
				return -ENOMEM;
			report_parser(b->report, parser);
			return -EINVAL;
		}
		bool end = event.type == YAML_STREAM_END_EVENT;
		int err = on_event(b, &event);
		yaml_event_delete(&event);
		if (err)
			return err;
		if (b->stop)
			return -EINVAL;
		if (end)
			return 0;
	}
}

int config_yaml(const char *text, size_t len, struct node **ret_root, struct report *report)
{
	struct builder b = {.report = report};
	yaml_parser_t parser;

	if (!check_bytes(text, len, report))
		return -EINVAL;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	int err = run(&parser, &b);
	yaml_parser_delete(&parser);
	if (!err && (!b.root || b.root->kind == NODE_NULL)) {
		report_error(report, 0, 0, "the configuration is empty; interfaces: and services: are required");
		err = -EINVAL;
	}
	if (err) {
		node_free(&b.root);
		return err;
	}
	*ret_root = b.root;
	return 0;
}
