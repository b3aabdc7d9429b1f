/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * config_load.h: what the steps of reading a configuration share: text -> tree (config_yaml) -> keys and values by
 * the schema (config_walk) -> values that follow from others (config_resolve) -> list files (listfile) -> what only
 * several keys together can violate (config_check; of the breaker: config_breaker).
 * Each step reports all it finds; the next one runs only if nothing was found.
 */
#ifndef SLUICE_CONFIG_LOAD_H
#define SLUICE_CONFIG_LOAD_H

#include "user/control/config_yaml.h"
#include "user/control/schema.h"

/* A name that must exist elsewhere in the file. */
struct reference {
	const struct schema_key *key;
	size_t service; /* that holds it */
	size_t target; /* the service that it names; config_check */
	const struct node *node; /* its text and place */
};

struct load {
	struct report *report;
	struct config *config;
	const char *base_name; /* of the file, for origins */
	const struct node *root;
	struct reference *references;
	size_t reference_count;
	size_t *service_settings; /* first setting of each service; one more: the end */
	/* while inside of services: */
	size_t service;
	const char *profile;
	bool udp;
};

void config_walk(struct load *load);
void config_resolve(struct load *load);
void config_check(struct load *load);

void config_check_breaker(struct load *load, size_t service);
void config_check_dscp(struct load *load);

/* An error of a service's key, "source.rate": at its place, or at the service's where it is a default. */
void config_blame(struct load *load, size_t service, const char *name, const char *what);
bool cidr_covers_ipv4(const struct cidr *cidr);

/* What no rule may say of this prefix, as the end of a sentence; NULL: fine. */
const char *config_trust_problem(enum trust_action action, const struct cidr *cidr);

/* Reads trust_entries into trust; `hash` is continued over the files' bytes. */
void listfile_expand(struct load *load, uint64_t *hash);
uint64_t config_hash(uint64_t hash, const void *bytes, size_t len); /* FNV-1a */
#define CONFIG_HASH_START 0xcbf29ce484222325ULL

/* Whole file, at most `max` bytes, with a NUL after it. -EFBIG: larger; `why` is the end of a sentence. */
int config_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len, char *why, size_t why_len);

void config_add_setting(struct load *load, const struct schema_key *key, const char *path, const char *value,
			const char *origin, const struct node *node);
/* Setting of a service by the rest of its path, "source.rate". */
const struct setting *config_service_setting(const struct load *load, size_t service, const char *name);

#endif /* SLUICE_CONFIG_LOAD_H */
