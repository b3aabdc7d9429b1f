/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * config_yaml.h: YAML text to a tree with places. The strict half of YAML only: one document, no anchors, aliases,
 * tags, merge keys or tabs, keys are plain texts and stand once.
 */
#ifndef SLUICE_CONFIG_YAML_H
#define SLUICE_CONFIG_YAML_H

#include "user/control/diag.h"

enum node_kind {
	NODE_SCALAR,
	NODE_LIST,
	NODE_MAP,
	NODE_NULL, /* nothing, ~ or null, unquoted */
	NODE_BAD, /* already reported */
};

struct node {
	enum node_kind kind;
	unsigned line, column; /* from 1 */
	char *text; /* of a scalar */
	struct node **child; /* of a map: key, value, key, value */
	size_t count;
};

/* 0, or -EINVAL (reported), or -ENOMEM. */
int config_yaml(const char *text, size_t len, struct node **ret_root, struct report *report);
void node_free(struct node **node);
const char *node_kind_name(const struct node *node);
/* Value of `key` in a map, or NULL; NULL and other kinds of node have none. */
struct node *node_get(const struct node *map, const char *key);

#endif /* SLUICE_CONFIG_YAML_H */
