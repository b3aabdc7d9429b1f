/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * schema.h: the one table of keys. File, CLI and `config check --effective` all read bounds, defaults and help here.
 *
 * A key's path has no indices: "services.source.rate" is the rate of each service, "signals.*.unit" of each signal.
 * The table is in the order of the file; a block's children follow it.
 */
#ifndef SLUICE_SCHEMA_H
#define SLUICE_SCHEMA_H

#include "user/control/config.h"

enum key_type {
	KEY_MAP, /* block of keys; `size` 1: a bool, in force (with `words`), or there (without) */
	KEY_LIST, /* list of blocks, stored as an array of `item_size` */
	KEY_NAMED, /* block whose keys are free names; each value is the block "PATH.*" */
	KEY_BOOL,
	KEY_WORD, /* one of `words`; stored as its index */
	KEY_PROTOCOL,
	KEY_STAGE, /* bit of enum slc_stage */
	KEY_OUTCOME, /* bit of enum slc_outcome, of those that can be failures */
	KEY_COUNT,
	KEY_LIMIT, /* struct limit */
	KEY_NUMBER, /* with a fraction, bounds in 1/1000 */
	KEY_RATE, /* min: longest interval in ns; max: events per s */
	KEY_DURATION, /* ns */
	KEY_PERCENT, /* 1/100 % */
	KEY_NAME, /* [A-Za-z0-9_.-], min to max characters */
	KEY_SERVICE, /* name of a services: entry */
	KEY_SIGNAL, /* name of a signals: entry */
	KEY_PATH, /* absolute; KEY_RELATIVE: to the configuration's directory */
	KEY_ENDPOINT, /* ADDRESS:PORT */
	KEY_LISTEN, /* ADDRESS:PORT or *:PORT, one or two struct listen_address */
	KEY_CIDR,
	KEY_MISSING, /* ignore, tighten, last DURATION, value NUMBER */
};

#define KEY_REQUIRED (1u << 0)
#define KEY_LATER (1u << 1) /* read and checked, not acted on yet: a warning says so */
#define KEY_MANY (1u << 2) /* list of values, stored as an array of `item_size`; item_size 0: each by itself */
#define KEY_ONE_OK (1u << 3) /* KEY_MANY: a single value may stand without brackets */
#define KEY_SETTABLE (1u << 4) /* `limits set` knows it */
#define KEY_TCP (1u << 5) /* only for protocol: tcp */
#define KEY_RELATIVE (1u << 6)

struct schema_key {
	const char *path;
	enum key_type type;
	unsigned flags;
	uint64_t min, max;
	const char *words; /* "none|auto": accepted besides the type's values; the values themselves of KEY_WORD */
	const char *fallback; /* default, as one would write it; of a list its values joined by ", " */
	const char *absent; /* default where the block around it is absent, if another */
	const char *wrong; /* "open=pass": a word often written, and the right one */
	size_t offset, size; /* in the struct of the innermost list, else in struct config; size 0: not stored */
	size_t count_offset, item_size;
	size_t capacity; /* KEY_MANY: items that fit at `offset`; 0: a pointer is there, and they are allocated */
	size_t flag_offset; /* a bool: the value is not one of `words`; 0: not stored */
	size_t line_offset; /* KEY_LIST: where an item keeps its line */
	const char *id; /* KEY_LIST: "cidr|file": children that name an item */
	const char *help;
};

extern const struct schema_key schema[];
extern const size_t schema_count;

/* A value as its type has it. */
struct value {
	bool word; /* one of `words`, `n` is its index */
	uint64_t n;
	struct rate rate;
	struct cidr cidr;
	struct listen_address listen[2];
	size_t listen_count;
	const char *text; /* the caller's */
};

#define VALUE_LEN 600

const struct schema_key *schema_find(const char *path);
const struct schema_key *schema_child(const struct schema_key *parent, const char *name); /* NULL parent: top level */
/* Next child of `parent` after `previous` (NULL: the first). */
const struct schema_key *schema_next(const struct schema_key *parent, const struct schema_key *previous);
const char *schema_name(const struct schema_key *key); /* last part of the path */
/* The key, or a block around it, is KEY_LATER. */
bool schema_is_later(const struct schema_key *key);
/* Ends an "unknown key" message: where the key belongs, the nearest known key, or which keys there are. */
void schema_suggest(const struct schema_key *parent, const char *name, char *buf, size_t len);

/* What the key takes, as the end of a message: "a percentage with % from 1% to 100% is accepted"; "" for free text. */
void schema_accepted(const struct schema_key *key, char *buf, size_t len);
/* 0, or -EINVAL with value and accepted range in `why`. */
int schema_value(const struct schema_key *key, const char *text, struct value *ret_value, char *why, size_t why_len);
void schema_format(const struct schema_key *key, const struct value *value, char *buf, size_t len);
void schema_store(const struct schema_key *key, const struct value *value, void *base); /* single values */

extern const char *const schema_outcomes[SLC_OUTCOME_COUNT]; /* "closed_unanswered" */

/* Defaults that a profile changes; NULL: this key not. */
const char *schema_profile(const char *profile, const struct schema_key *key);

#endif /* SLUICE_SCHEMA_H */
