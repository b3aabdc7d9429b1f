/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * journal.h: what must outlive the daemon and the boot: orders of operators, known-good sources and breakers, in SQLite.
 * Deadlines are kept as wall time and as time of one boot (clock.h). Services are kept by name: uids end with the pins.
 */
#ifndef SLUICE_JOURNAL_H
#define SLUICE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/abi.h"
#include "user/control/clock.h"

struct journal; /* opaque */

/* Makes the directory. A damaged file is put aside as journal.db.damaged (`*ret_reset`), never fatal. */
int journal_open(const char *directory, struct journal **ret_journal, int *ret_reset, char *why, size_t why_len);
void journal_close(struct journal **journal);

struct journal_order {
	uint32_t id;
	const char *kind;
	const char *subject; /* service or CIDR */
	const char *values; /* JSON */
	const char *reason;
	uint32_t by_uid;
	int64_t set_wall_ms;
	struct moment until;
};

/* Durable when it returns. *ret_id is never used twice. */
int journal_order_add(struct journal *journal, const struct journal_order *order, uint32_t *ret_id);
int journal_order_delete(struct journal *journal, uint32_t id);
int journal_orders(struct journal *journal, void (*visit)(const struct journal_order *order, void *arg), void *arg);

struct journal_known {
	char service[SLC_NAME_LEN];
	uint8_t addr[16];
	struct moment since, until; /* until.mono_ns 0: delete */
};

/* One transaction, on a connection of its own: may run beside the others, in another thread. */
int journal_known_write(struct journal *journal, const struct journal_known *changes, size_t count);
int journal_knowns(struct journal *journal, void (*visit)(const struct journal_known *known, void *arg), void *arg);

/* A breaker as it was at its last transition, and what it has learned. */
struct journal_breaker {
	char service[SLC_NAME_LEN];
	char state[16], rule[20], tripped_by[20]; /* by name: numbers may change with the version */
	uint32_t generation, openings;
	struct moment since, open_until;
	bool has_base, has_p99, has_rate, has_connections;
	uint64_t base_ns, p99_ns;
	double rate, connections;
	bool has_ramp; /* of a closed one: steps taken, and when the next one is due */
	uint32_t ramp_steps;
	struct moment ramp_at;
};

/*
 * As with journal_known_write(): one transaction on a connection of its own. A row replaces that of its service; with
 * `all` the rows are all there are: a service of the same name as one that was dropped is another one.
 */
int journal_breakers_write(struct journal *journal, const struct journal_breaker *rows, size_t count, bool all);
/* The row of `service`; NULL: all of them. */
int journal_breakers(struct journal *journal, const char *service,
		     void (*visit)(const struct journal_breaker *row, void *arg), void *arg);

#endif /* SLUICE_JOURNAL_H */
