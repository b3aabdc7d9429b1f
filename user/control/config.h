/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * config.h: the configuration as the file says it, with units resolved: durations in ns, rates as events per ns
 * fraction, percents in 1/100 %. Reading is strict: the whole file is checked against one table of keys and bounds
 * (schema.c) before anything of it is used; the same table serves the CLI's `limits set`.
 */
#ifndef SLUICE_CONFIG_H
#define SLUICE_CONFIG_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "maps/abi.h"
#include "user/decide/breaker.h"

/* A rate is `count` events per `per_ns`; "20/s" is {20, 1e9}, "1/m" {1, 60e9}. Absent: !set. */
struct rate {
	bool set;
	uint64_t count;
	uint64_t per_ns;
};

/* A count that may be absent ("unlimited"). */
struct limit {
	bool set;
	uint32_t value;
};

struct cidr {
	uint8_t addr[16]; /* network order, IPv4 as ::ffff:a.b.c.d, host bits cleared */
	uint8_t prefix; /* of the 16 bytes: IPv4 /24 is 120 */
};

/* One bucket: rate and burst go together (a rate without burst is an error). */
struct bucket_config {
	struct rate rate;
	uint32_t burst;
};

struct source_override {
	struct cidr cidr;
	struct bucket_config bucket;
	uint32_t weight;
};

struct listen_address {
	uint8_t addr[16]; /* wildcard as in struct slc_service_key; "*" is two of these */
	uint16_t port;
};

enum action { ACTION_DROP, ACTION_RESET };

struct service_config {
	char name[SLC_NAME_LEN];
	struct listen_address *listen;
	size_t listen_count;
	uint8_t proto; /* IPPROTO_TCP or IPPROTO_UDP */
	char netns[64]; /* "" for the host's */
	uint32_t dry; /* bit per enum slc_stage */
	bool has_source; /* any of source.* given */
	struct bucket_config source;
	struct limit source_concurrent;
	uint8_t v4_prefix, v6_prefix;
	bool vlan;
	bool has_wide;
	struct bucket_config wide;
	uint8_t wide_v4_prefix, wide_v6_prefix;
	struct source_override *overrides;
	size_t override_count;
	struct bucket_config total;
	struct limit total_concurrent;
	bool has_queue; /* accept_queue given */
	uint16_t low, high; /* 1/100 % of the backlog */
	uint64_t target_ns, max_wait_ns, deadline_ns;
	enum action action;
	struct rate reset_rate;
	enum profile { PROFILE_NONE, PROFILE_API, PROFILE_TRANSACTION, PROFILE_BATCH } profile;
	size_t *depends_on; /* indices in config.services; no cycles */
	size_t depends_count;
	uint8_t turns; /* enum slc_turns_mode */
	uint16_t http_codes[SLC_HTTP_CODES];
	size_t http_code_count; /* 0: answers are not read */
	uint64_t slow_after_ns, timeout_ns;
	bool slow_is_failure;
	uint32_t failures; /* bit per enum slc_outcome: breaker.failures and slow_is resolved */
	bool failures_listed; /* by name: breaker.failures is not auto */
	bool has_breaker; /* a breaker: block is there */
	struct breaker_config breaker; /* complete also without a block: then enforce is false */
	int line; /* of the entry in the file, for later messages */
};

enum trust_action { TRUST_ALLOW, TRUST_DENY, TRUST_CLASS };

struct trust_config {
	struct cidr cidr;
	enum trust_action action;
	struct rate ceiling; /* with TRUST_ALLOW */
	uint8_t class; /* enum slc_class, with TRUST_CLASS */
	int line;
	char origin[64]; /* "sluice.yaml:12" or "deny.txt:3" */
};

struct interface_config {
	char name[IF_NAMESIZE];
	enum { MODE_AUTO, MODE_NATIVE, MODE_GENERIC } mode;
	bool dscp_trust;
};

struct class_config {
	uint16_t depth; /* theta, 1/100 % */
	uint16_t min; /* minimum share, 1/100 % */
};

/* An entry of `trust:` as the file has it; a list file becomes one trust_config per prefix. */
struct trust_entry {
	struct cidr cidr;
	char file[512]; /* "" when `cidr` is given */
	uint64_t max_age_ns; /* 0: any age */
	enum trust_action action;
	struct rate ceiling;
	uint8_t class;
	int line;
};

/* One key as it is in force, for `config check --effective` and `config diff`. */
struct setting {
	const struct schema_key *key; /* schema.h */
	char *path; /* "services[web].source.rate" */
	char *value; /* normalised: "1000ms" is "1s" */
	char *origin; /* "sluice.yaml:12", "default", "profile api" */
	unsigned line, column; /* 0: not from the file */
};

struct config {
	char path[4096];
	uint64_t hash; /* of the file's bytes and of the list files it names */
	struct interface_config *interfaces;
	size_t interface_count;
	char socket[108], group[64], pins[256], state[256];
	char metrics[64]; /* "127.0.0.1:9469", "" for off */
	bool detach_on_exit; /* control.on_exit: detach */
	uint64_t lease_ns, hold_ns;
	uint8_t on_loss; /* enum slc_on_loss */
	uint16_t *management_ports;
	size_t management_port_count;
	struct cidr *management_cidrs;
	size_t management_cidr_count;
	struct cidr *dscp_trust; /* sources whose DSCP marks are believed */
	size_t dscp_trust_count;
	bool fragments_drop, ip_options_drop, unparseable_pass;
	uint32_t sources, flows; /* table sizes, entries */
	struct rate events;
	struct rate host_reset_rate;
	struct {
		uint32_t turns;
		uint64_t over_ns, ttl_ns;
		uint16_t jitter;
		uint32_t max_per_v4_24, max_per_v6_48;
	} known;
	struct class_config classes[SLC_CLASS_COUNT];
	struct trust_entry *trust_entries;
	size_t trust_entry_count;
	struct trust_config *trust; /* no prefix twice; none covered by a management prefix */
	size_t trust_count;
	struct setting *settings;
	size_t setting_count;
	struct service_config *services;
	size_t service_count;
};

/*
 * What is wrong, for a person: where (file:line:column or the flag), the key, the value given, what is accepted,
 * what to do. One line each; several may be collected. `warnings` do not fail.
 */
struct diag {
	char **errors;
	size_t error_count;
	char **warnings;
	size_t warning_count;
};
void diag_error(struct diag *diag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_warn(struct diag *diag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_reset(struct diag *diag);

/*
 * config_load: reads and checks `path`. 0 and *ret_config, or -EINVAL (see diag), or another -errno (diag says it
 * too); *ret_config is untouched on failure. Accepts at most 1 MiB of file.
 */
int config_load(const char *path, struct config **ret_config, struct diag *diag);
int config_parse(const char *name, const char *text, size_t len, struct config **ret_config, struct diag *diag);
void config_free(struct config **config);

/* Whether breaker.open.base is under 3 x the P99 that was measured: then `buf` has the advice, to follow "NAME: ". */
bool config_advise_open_base(const struct service_config *service, uint64_t p99_ns, char *buf, size_t len);

/* Values with units, shared by file and CLI. Each: 0, or -EINVAL with what is accepted in `why`. */
int parse_rate(const char *text, struct rate *ret_rate, char *why, size_t why_len);
int parse_duration(const char *text, uint64_t *ret_ns, char *why, size_t why_len);
int parse_percent(const char *text, uint16_t *ret_hundredths, char *why, size_t why_len);
int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count, char *why, size_t why_len);
/* An IPv4 or IPv6 address; the one place where IPv4 becomes ::ffff:a.b.c.d. */
int parse_address(const char *text, uint8_t ret_addr[16], char *why, size_t why_len);
int parse_cidr(const char *text, struct cidr *ret_cidr, char *why, size_t why_len);
void format_rate(const struct rate *rate, char *buf, size_t len);
void format_duration(uint64_t ns, char *buf, size_t len);
void format_percent(uint16_t hundredths, char *buf, size_t len);
void format_address(const uint8_t addr[16], char *buf, size_t len);
void format_cidr(const struct cidr *cidr, char *buf, size_t len);
bool cidr_contains(const struct cidr *outer, const struct cidr *inner);
/* Text of others for a message: quoted, one line, at most 64 bytes of it, everything unprintable as \xNN. */
#define QUOTE_LEN 280
const char *quote(const char *text, char buf[QUOTE_LEN]);

/*
 * One `limits set NAME key=value` assignment, checked by the same table as the file: keys source.rate,
 * source.burst, source.concurrent, total.rate, total.burst, total.concurrent. -EINVAL with `why` ready to print.
 */
struct limits_change {
	struct rate source_rate, total_rate;
	struct limit source_burst, total_burst;
	struct limit source_concurrent, total_concurrent;
};
int limits_assign(struct limits_change *change, const char *assignment, char *why, size_t why_len);

/* JSON of every key with its value and origin ("file:12", "default", "profile api"). */
int config_effective(const struct config *config, FILE *out);

/* Keys that differ, in the order of their names; `running` or `file` is NULL where that side lacks the key. */
typedef void (*config_diff_visit)(const char *key, const char *running, const char *file, void *arg);
/* Returns the number of rows, or -ENOMEM. `running` may be NULL: everything is new. */
int config_diff(const struct config *running, const struct config *file, config_diff_visit visit, void *arg);

#endif /* SLUICE_CONFIG_H */
