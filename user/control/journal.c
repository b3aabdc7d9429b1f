// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/journal.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "user/control/scope.h"
#include "user/directories.h"

#define FORMAT 2 /* since 1: what breakers_more lists */
#define TEXT_OF(macro) TEXT_OF_(macro)
#define TEXT_OF_(value) #value

struct journal {
	sqlite3 *orders;
	sqlite3 *known;
	sqlite3 *breakers;
};

static const char schema[] = "PRAGMA journal_mode = WAL;"
			     "PRAGMA synchronous = FULL;"
			     "CREATE TABLE IF NOT EXISTS orders("
			     " id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject TEXT NOT NULL,"
			     " details TEXT NOT NULL, reason TEXT NOT NULL, by_uid INTEGER NOT NULL,"
			     " set_wall_ms INTEGER NOT NULL, until_wall_ms INTEGER, until_mono_ns INTEGER NOT NULL,"
			     " boot TEXT NOT NULL);"
			     "CREATE TABLE IF NOT EXISTS known("
			     " service TEXT NOT NULL, addr BLOB NOT NULL, since_wall_ms INTEGER NOT NULL,"
			     " since_mono_ns INTEGER NOT NULL, until_wall_ms INTEGER NOT NULL,"
			     " until_mono_ns INTEGER NOT NULL, boot TEXT NOT NULL,"
			     " PRIMARY KEY(service, addr)) WITHOUT ROWID;"
			     "CREATE TABLE IF NOT EXISTS breakers("
			     " service TEXT PRIMARY KEY, state TEXT NOT NULL, rule TEXT NOT NULL,"
			     " tripped_by TEXT NOT NULL, generation INTEGER NOT NULL, openings INTEGER NOT NULL,"
			     " since_wall_ms INTEGER NOT NULL, since_mono_ns INTEGER NOT NULL,"
			     " until_wall_ms INTEGER NOT NULL, until_mono_ns INTEGER NOT NULL, boot TEXT NOT NULL,"
			     " base_ns INTEGER, p99_ns INTEGER, rate REAL) WITHOUT ROWID;";

/* Columns that an older file does not have. */
static const struct {
	const char *name, *add;
} breakers_more[] = {
	{"connections", "ALTER TABLE breakers ADD COLUMN connections REAL"},
	{"ramp_steps", "ALTER TABLE breakers ADD COLUMN ramp_steps INTEGER"},
	{"ramp_wall_ms", "ALTER TABLE breakers ADD COLUMN ramp_wall_ms INTEGER"},
	{"ramp_mono_ns", "ALTER TABLE breakers ADD COLUMN ramp_mono_ns INTEGER"},
};

static int error_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return -EACCES;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	default:
		return -EIO;
	}
}

static int read_format(void *arg, int columns, char **values, char **names)
{
	(void)columns;
	(void)names;
	*(int *)arg = values[0] ? atoi(values[0]) : 0;
	return 0;
}

static int add_columns(sqlite3 *db)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < sizeof(breakers_more) / sizeof(breakers_more[0]) && rc == SQLITE_OK; i++) {
		if (sqlite3_table_column_metadata(db, NULL, "breakers", breakers_more[i].name, NULL, NULL, NULL, NULL,
						  NULL) != SQLITE_OK)
			rc = sqlite3_exec(db, breakers_more[i].add, NULL, NULL, NULL);
	}
	return rc;
}

static int open_one(const char *path, sqlite3 **ret_db)
{
	sqlite3 *db = NULL;
	int format = 0, rc;

	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(db, 1000);
		rc = sqlite3_exec(db, "PRAGMA user_version", read_format, &format, NULL);
	}
	if (rc == SQLITE_OK && format > FORMAT) {
		sqlite3_close(db);
		return -EPROTO;
	}
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, schema, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = add_columns(db);
	if (rc == SQLITE_OK && format < FORMAT)
		rc = sqlite3_exec(db, "PRAGMA user_version = " TEXT_OF(FORMAT), NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		sqlite3_close(db);
		return error_of(rc);
	}
	*ret_db = db;
	return 0;
}

/* The damaged file and its write-ahead log, out of the way and kept for a look. */
static void put_aside(const char *path)
{
	static const char *const parts[] = {"", "-wal", "-shm"};
	char from[600], to[640];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(from, sizeof(from), "%s%s", path, parts[i]);
		snprintf(to, sizeof(to), "%s.damaged%s", path, parts[i]);
		rename(from, to);
	}
}

#define DIRECTORY_MAX 511 /* leaves room for the names put_aside() makes */

int journal_open(const char *directory, struct journal **ret_journal, int *ret_reset, char *why, size_t why_len)
{
	struct journal *journal = NULL;
	char path[560];
	int err = strlen(directory) > DIRECTORY_MAX ? -ENAMETOOLONG : make_directories(directory, 0750), reset = 0;

	snprintf(path, sizeof(path), "%.*s/journal.db", DIRECTORY_MAX, directory);
	if (!err)
		journal = calloc(1, sizeof(*journal));
	if (!err && !journal)
		err = -ENOMEM;
	if (!err)
		err = open_one(path, &journal->orders);
	if (err == -EUCLEAN) {
		put_aside(path);
		reset = 1;
		err = open_one(path, &journal->orders);
	}
	if (!err)
		err = open_one(path, &journal->known);
	if (!err)
		err = open_one(path, &journal->breakers);
	if (err) {
		snprintf(why, why_len, "control.state: %s: %s", path,
			 err == -EPROTO ? "written by a newer sluiced" : strerror(-err));
		journal_close(&journal);
		return err;
	}
	*ret_reset = reset;
	*ret_journal = journal;
	return 0;
}

void journal_close(struct journal **journal)
{
	if (!*journal)
		return;
	sqlite3_close((*journal)->orders);
	sqlite3_close((*journal)->known);
	sqlite3_close((*journal)->breakers);
	free(*journal);
	*journal = NULL;
}

static void bind_moment(sqlite3_stmt *stmt, int wall, int mono, const struct moment *moment)
{
	sqlite3_bind_int64(stmt, wall, moment->wall_ms);
	sqlite3_bind_int64(stmt, mono, (int64_t)moment->mono_ns);
}

static struct moment column_moment(sqlite3_stmt *stmt, int wall, int mono, int boot)
{
	struct moment moment = {
		.mono_ns = (uint64_t)sqlite3_column_int64(stmt, mono),
		.wall_ms = sqlite3_column_int64(stmt, wall),
	};
	const unsigned char *id = sqlite3_column_text(stmt, boot);

	snprintf(moment.boot, sizeof(moment.boot), "%s", id ? (const char *)id : "");
	return moment;
}

int journal_order_add(struct journal *journal, const struct journal_order *order, uint32_t *ret_id)
{
	static const char sql[] = "INSERT INTO orders(kind, subject, details, reason, by_uid, set_wall_ms,"
				  " until_wall_ms, until_mono_ns, boot) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)";
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(journal->orders, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK) {
		sqlite3_bind_text(stmt, 1, order->kind, -1, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 2, order->subject, -1, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 3, order->values, -1, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 4, order->reason, -1, SQLITE_STATIC);
		sqlite3_bind_int64(stmt, 5, order->by_uid);
		sqlite3_bind_int64(stmt, 6, order->set_wall_ms);
		bind_moment(stmt, 7, 8, &order->until);
		sqlite3_bind_text(stmt, 9, order->until.boot, -1, SQLITE_STATIC);
		rc = sqlite3_step(stmt);
	}
	sqlite3_finalize(stmt);
	if (rc == SQLITE_DONE)
		*ret_id = sqlite3_last_insert_rowid(journal->orders);
	return error_of(rc);
}

int journal_order_delete(struct journal *journal, uint32_t id)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(journal->orders, "DELETE FROM orders WHERE id = ?", -1, &stmt, NULL);

	if (rc == SQLITE_OK) {
		sqlite3_bind_int64(stmt, 1, id);
		rc = sqlite3_step(stmt);
	}
	sqlite3_finalize(stmt);
	return error_of(rc);
}

int journal_orders(struct journal *journal, void (*visit)(const struct journal_order *order, void *arg), void *arg)
{
	static const char sql[] = "SELECT id, kind, subject, details, reason, by_uid, set_wall_ms, until_wall_ms,"
				  " until_mono_ns, boot FROM orders ORDER BY id";
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(journal->orders, sql, -1, &stmt, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(stmt);
		if (rc != SQLITE_ROW)
			break;
		visit(&(struct journal_order){.id = sqlite3_column_int64(stmt, 0),
					      .kind = (const char *)sqlite3_column_text(stmt, 1),
					      .subject = (const char *)sqlite3_column_text(stmt, 2),
					      .values = (const char *)sqlite3_column_text(stmt, 3),
					      .reason = (const char *)sqlite3_column_text(stmt, 4),
					      .by_uid = sqlite3_column_int64(stmt, 5),
					      .set_wall_ms = sqlite3_column_int64(stmt, 6),
					      .until = column_moment(stmt, 7, 8, 9)},
		      arg);
	}
	sqlite3_finalize(stmt);
	return error_of(rc);
}

static int known_one(sqlite3_stmt *put, sqlite3_stmt *drop, const struct journal_known *known)
{
	sqlite3_stmt *stmt = known->until.mono_ns ? put : drop;
	int rc;

	sqlite3_bind_text(stmt, 1, known->service, -1, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, known->addr, sizeof(known->addr), SQLITE_STATIC);
	if (stmt == put) {
		bind_moment(stmt, 3, 4, &known->since);
		bind_moment(stmt, 5, 6, &known->until);
		sqlite3_bind_text(stmt, 7, known->until.boot, -1, SQLITE_STATIC);
	}
	rc = sqlite3_step(stmt);
	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int journal_known_write(struct journal *journal, const struct journal_known *changes, size_t count)
{
	sqlite3_stmt *put = NULL, *drop = NULL;
	int rc;

	rc = sqlite3_prepare_v2(journal->known, "INSERT OR REPLACE INTO known VALUES(?, ?, ?, ?, ?, ?, ?)", -1, &put,
				NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(journal->known, "DELETE FROM known WHERE service = ? AND addr = ?", -1, &drop,
					NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(journal->known, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		rc = known_one(put, drop, &changes[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(journal->known, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK && !sqlite3_get_autocommit(journal->known))
		sqlite3_exec(journal->known, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_finalize(put);
	sqlite3_finalize(drop);
	return error_of(rc);
}

/* What ended is of no use; rows of this boot are judged by their monotonic deadline. */
static void forget_ended(struct journal *journal)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(journal->known,
			       "DELETE FROM known WHERE boot = ?1 AND until_mono_ns <= ?2"
			       " OR boot <> ?1 AND until_wall_ms <= ?3",
			       -1, &stmt, NULL) == SQLITE_OK) {
		sqlite3_bind_text(stmt, 1, clock_boot_id(), -1, SQLITE_STATIC);
		sqlite3_bind_int64(stmt, 2, (int64_t)clock_ns());
		sqlite3_bind_int64(stmt, 3, clock_wall_ms());
		sqlite3_step(stmt);
	}
	sqlite3_finalize(stmt);
}

int journal_knowns(struct journal *journal, void (*visit)(const struct journal_known *known, void *arg), void *arg)
{
	sqlite3_stmt *stmt = NULL;
	int rc;

	forget_ended(journal);
	rc = sqlite3_prepare_v2(journal->known,
				"SELECT service, addr, since_wall_ms, since_mono_ns, until_wall_ms,"
				" until_mono_ns, boot FROM known",
				-1, &stmt, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		struct journal_known known = {0};

		rc = sqlite3_step(stmt);
		if (rc != SQLITE_ROW)
			break;
		if (sqlite3_column_bytes(stmt, 1) != sizeof(known.addr))
			continue;
		snprintf(known.service, sizeof(known.service), "%s", (const char *)sqlite3_column_text(stmt, 0));
		memcpy(known.addr, sqlite3_column_blob(stmt, 1), sizeof(known.addr));
		known.since = column_moment(stmt, 2, 3, 6);
		known.until = column_moment(stmt, 4, 5, 6);
		visit(&known, arg);
	}
	sqlite3_finalize(stmt);
	return error_of(rc);
}

/* --- breakers ----------------------------------------------------------------------------------------------------- */

#define BREAKER_COLUMNS                                                                                        \
	"service, state, rule, tripped_by, generation, openings, since_wall_ms, since_mono_ns, until_wall_ms," \
	" until_mono_ns, boot, base_ns, p99_ns, rate, connections, ramp_steps, ramp_wall_ms, ramp_mono_ns"

/* What is not bound is NULL. */
static void bind_learned(sqlite3_stmt *stmt, const struct journal_breaker *row)
{
	if (row->has_base)
		sqlite3_bind_int64(stmt, 12, (int64_t)row->base_ns);
	if (row->has_p99)
		sqlite3_bind_int64(stmt, 13, (int64_t)row->p99_ns);
	if (row->has_rate)
		sqlite3_bind_double(stmt, 14, row->rate);
	if (row->has_connections)
		sqlite3_bind_double(stmt, 15, row->connections);
}

static int breaker_one(sqlite3_stmt *stmt, const struct journal_breaker *row)
{
	int rc;

	sqlite3_bind_text(stmt, 1, row->service, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, row->state, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 3, row->rule, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, row->tripped_by, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 5, row->generation);
	sqlite3_bind_int64(stmt, 6, row->openings);
	bind_moment(stmt, 7, 8, &row->since);
	bind_moment(stmt, 9, 10, &row->open_until);
	sqlite3_bind_text(stmt, 11, row->since.boot, -1, SQLITE_STATIC);
	bind_learned(stmt, row);
	if (row->has_ramp) {
		sqlite3_bind_int64(stmt, 16, row->ramp_steps);
		bind_moment(stmt, 17, 18, &row->ramp_at);
	}
	rc = sqlite3_step(stmt);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int journal_breakers_write(struct journal *journal, const struct journal_breaker *rows, size_t count, bool all)
{
	sqlite3 *db = journal->breakers;
	sqlite3_stmt *put = NULL;
	int rc = sqlite3_prepare_v2(db,
				    "INSERT OR REPLACE INTO breakers(" BREAKER_COLUMNS ")"
				    " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				    -1, &put, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc == SQLITE_OK && all)
		rc = sqlite3_exec(db, "DELETE FROM breakers", NULL, NULL, NULL);
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		rc = breaker_one(put, &rows[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_finalize(put);
	return error_of(rc);
}

static void column_name(sqlite3_stmt *stmt, int column, char *buf, size_t len)
{
	const unsigned char *text = sqlite3_column_text(stmt, column);

	snprintf(buf, len, "%s", text ? (const char *)text : "");
}

int journal_breakers(struct journal *journal, const char *service,
		     void (*visit)(const struct journal_breaker *row, void *arg), void *arg)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(journal->breakers,
				    "SELECT " BREAKER_COLUMNS " FROM breakers WHERE ?1 IS NULL OR service = ?1", -1,
				    &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(stmt, 1, service, -1, SQLITE_STATIC);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		struct journal_breaker row = {0};

		rc = sqlite3_step(stmt);
		if (rc != SQLITE_ROW)
			break;
		column_name(stmt, 0, row.service, sizeof(row.service));
		column_name(stmt, 1, row.state, sizeof(row.state));
		column_name(stmt, 2, row.rule, sizeof(row.rule));
		column_name(stmt, 3, row.tripped_by, sizeof(row.tripped_by));
		row.generation = sqlite3_column_int64(stmt, 4);
		row.openings = sqlite3_column_int64(stmt, 5);
		row.since = column_moment(stmt, 6, 7, 10);
		row.open_until = column_moment(stmt, 8, 9, 10);
		row.has_base = sqlite3_column_type(stmt, 11) == SQLITE_INTEGER;
		row.base_ns = sqlite3_column_int64(stmt, 11);
		row.has_p99 = sqlite3_column_type(stmt, 12) == SQLITE_INTEGER;
		row.p99_ns = sqlite3_column_int64(stmt, 12);
		row.has_rate = sqlite3_column_type(stmt, 13) == SQLITE_FLOAT;
		row.rate = sqlite3_column_double(stmt, 13);
		row.has_connections = sqlite3_column_type(stmt, 14) == SQLITE_FLOAT;
		row.connections = sqlite3_column_double(stmt, 14);
		row.has_ramp = sqlite3_column_type(stmt, 15) == SQLITE_INTEGER;
		row.ramp_steps = sqlite3_column_int64(stmt, 15);
		row.ramp_at = column_moment(stmt, 16, 17, 10);
		visit(&row, arg);
	}
	sqlite3_finalize(stmt);
	return error_of(rc);
}
