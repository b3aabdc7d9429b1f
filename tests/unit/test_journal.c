// SPDX-License-Identifier: GPL-2.0-only
/* test_journal: what outlives the daemon and the boot; deadlines on two clocks; labels and messages of any text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "user/control/clock.h"
#include "user/control/journal.h"
#include "user/control/metrics.h"
#include "user/control/order_text.h"
#include "user/control/problem.h"

static char directory[64];

static int make_directory(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/slc-journal-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	static const char *const names[] = {"journal.db",         "journal.db-wal",         "journal.db-shm",
					    "journal.db.damaged", "journal.db.damaged-wal", "journal.db.damaged-shm"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	return rmdir(directory);
}

static struct journal *open_journal(int *ret_reset)
{
	struct journal *journal = NULL;
	char why[256] = "";

	assert_int_equal(journal_open(directory, &journal, ret_reset, why, sizeof(why)), 0);
	return journal;
}

struct found {
	size_t count;
	uint32_t id;
	char text[256];
	uint64_t until_ns;
};

static void take_order(const struct journal_order *order, void *arg)
{
	struct found *found = arg;

	found->count++;
	found->id = order->id;
	found->until_ns = moment_here(&order->until);
	snprintf(found->text, sizeof(found->text), "%s|%s|%s|%s|%u", order->kind, order->subject, order->values,
		 order->reason, order->by_uid);
}

static void orders_outlive_the_daemon(void **state)
{
	struct journal_order order = {.kind = "deny",
				      .subject = "192.0.2.0/24",
				      .values = "{}",
				      .reason = "it's \"them\"; DROP TABLE",
				      .by_uid = 1000,
				      .set_wall_ms = 1,
				      .until = moment_at(SLC_FOREVER)};
	struct journal *journal;
	struct found found = {0};
	uint32_t first, second;
	int reset;

	(void)state;
	journal = open_journal(&reset);
	assert_int_equal(reset, 0);
	assert_int_equal(journal_order_add(journal, &order, &first), 0);
	assert_int_equal(journal_order_delete(journal, first), 0);
	assert_int_equal(journal_order_add(journal, &order, &second), 0);
	assert_true(second > first); /* an id that was released means nothing else later */
	journal_close(&journal);
	assert_null(journal);

	journal = open_journal(&reset);
	assert_int_equal(journal_orders(journal, take_order, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.id, second);
	assert_int_equal(found.until_ns, SLC_FOREVER);
	assert_string_equal(found.text, "deny|192.0.2.0/24|{}|it's \"them\"; DROP TABLE|1000");
	journal_close(&journal);
}

static void damaged_file_is_put_aside(void **state)
{
	char path[128];
	struct journal *journal;
	struct found found = {0};
	FILE *file;
	int reset;

	(void)state;
	snprintf(path, sizeof(path), "%s/journal.db", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < 4096; i++)
		fputc("no database "[i % 12], file);
	fclose(file);
	journal = open_journal(&reset);
	assert_int_equal(reset, 1);
	assert_int_equal(journal_orders(journal, take_order, &found), 0);
	assert_int_equal(found.count, 0);
	journal_close(&journal);
	strcat(path, ".damaged");
	assert_int_equal(access(path, F_OK), 0);
}

static void unusable_directory_is_said(void **state)
{
	struct journal *journal = NULL;
	char why[256] = "";
	int reset;

	(void)state;
	assert_true(journal_open("/proc/nowhere", &journal, &reset, why, sizeof(why)) < 0);
	assert_non_null(strstr(why, "/proc/nowhere"));
	assert_null(journal);
}

static void take_known(const struct journal_known *known, void *arg)
{
	struct found *found = arg;

	found->count++;
	found->until_ns = known->until.mono_ns;
	snprintf(found->text, sizeof(found->text), "%s %u", known->service, known->addr[15]);
}

static void known_are_put_and_dropped(void **state)
{
	struct journal_known changes[3] = {0};
	struct journal *journal;
	struct found found = {0};
	int reset;

	(void)state;
	for (int i = 0; i < 3; i++) {
		strcpy(changes[i].service, "web");
		changes[i].addr[15] = i;
		changes[i].since = moment_at(clock_ns());
		changes[i].until = moment_at(clock_ns() + 60 * NS_PER_S);
	}
	journal = open_journal(&reset);
	assert_int_equal(journal_known_write(journal, changes, 3), 0);
	changes[0].until = (struct moment){0};
	changes[1].until.mono_ns = 1; /* ended */
	assert_int_equal(journal_known_write(journal, changes, 3), 0);
	assert_int_equal(journal_knowns(journal, take_known, &found), 0);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.text, "web 2");
	assert_int_equal(found.until_ns, changes[2].until.mono_ns);
	journal_close(&journal);
}

static void take_breaker(const struct journal_breaker *row, void *arg)
{
	struct journal_breaker *rows = arg;

	rows[row->service[0] == 'w'] = *row;
}

/* One row a service, replaced at each transition; what was never learned comes back as not learned, not as 0. */
static void breakers_outlive_the_daemon(void **state)
{
	struct journal_breaker web = {.service = "web",
				      .state = "open",
				      .rule = "fast",
				      .tripped_by = "fast",
				      .generation = 4000000000u,
				      .openings = 3,
				      .since = moment_at(clock_ns()),
				      .open_until = moment_at(clock_ns() + 30 * NS_PER_S),
				      .has_base = true,
				      .base_ns = 0,
				      .has_rate = true,
				      .rate = 200,
				      .has_connections = true,
				      .connections = 12.5};
	struct journal_breaker db = {.service = "db", .state = "closed", .rule = "none", .tripped_by = "none"};
	struct journal_breaker rows[] = {web, db}, found[2] = {0};
	struct journal *journal;
	int reset;

	(void)state;
	db.since = db.open_until = moment_at(clock_ns());
	db.has_ramp = true;
	db.ramp_steps = 4;
	db.ramp_at = moment_at(clock_ns() + NS_PER_S);
	rows[1] = db;
	journal = open_journal(&reset);
	rows[0].openings = 1;
	assert_int_equal(journal_breakers_write(journal, rows, 2, false), 0);
	assert_int_equal(journal_breakers_write(journal, &web, 1, false), 0);
	journal_close(&journal);

	journal = open_journal(&reset);
	assert_int_equal(journal_breakers(journal, NULL, take_breaker, found), 0);
	journal_close(&journal);
	assert_string_equal(found[0].service, "db");
	assert_false(found[0].has_base || found[0].has_p99 || found[0].has_rate || found[0].has_connections);
	assert_true(found[0].has_ramp);
	assert_int_equal(found[0].ramp_steps, 4);
	assert_int_equal(moment_here(&found[0].ramp_at), db.ramp_at.mono_ns);
	assert_string_equal(found[1].state, "open");
	assert_string_equal(found[1].rule, "fast");
	assert_int_equal(found[1].generation, 4000000000u);
	assert_int_equal(found[1].openings, 3);
	assert_int_equal(moment_here(&found[1].open_until), web.open_until.mono_ns);
	assert_true(found[1].has_base && found[1].base_ns == 0);
	assert_false(found[1].has_p99);
	assert_true(found[1].has_rate && found[1].rate == 200);
	assert_true(found[1].has_connections && found[1].connections == 12.5);
	assert_false(found[1].has_ramp);
}

/* What is not among all there are is gone; a write of some takes nothing away. */
static void rows_of_services_that_are_no_more(void **state)
{
	struct journal_breaker row = {.state = "open", .rule = "fast", .tripped_by = "fast", .generation = 5}, found[2];
	struct journal *journal;
	int reset;

	(void)state;
	row.since = row.open_until = moment_at(clock_ns());
	journal = open_journal(&reset);
	for (int all = 0; all < 2; all++) {
		memset(found, 0, sizeof(found));
		strcpy(row.service, "db");
		assert_int_equal(journal_breakers_write(journal, &row, 1, false), 0);
		strcpy(row.service, "web");
		assert_int_equal(journal_breakers_write(journal, &row, 1, all), 0);
		assert_int_equal(journal_breakers(journal, NULL, take_breaker, found), 0);
		assert_string_equal(found[0].service, all ? "" : "db");
		assert_string_equal(found[1].service, "web");
	}
	journal_close(&journal);
}

/* A file of the version before, with a breaker in it, is taken over with what it does not know left out. */
static void a_journal_of_the_version_before(void **state)
{
	static const char old[] = "CREATE TABLE breakers(service TEXT PRIMARY KEY, state TEXT NOT NULL,"
				  " rule TEXT NOT NULL, tripped_by TEXT NOT NULL, generation INTEGER NOT NULL,"
				  " openings INTEGER NOT NULL, since_wall_ms INTEGER NOT NULL,"
				  " since_mono_ns INTEGER NOT NULL, until_wall_ms INTEGER NOT NULL,"
				  " until_mono_ns INTEGER NOT NULL, boot TEXT NOT NULL, base_ns INTEGER,"
				  " p99_ns INTEGER, rate REAL) WITHOUT ROWID;"
				  "INSERT INTO breakers VALUES('web', 'open', 'fast', 'fast', 7, 1, 0, 0, 0, 0, 'b',"
				  " NULL, 30000000, 200.0);"
				  "PRAGMA user_version = 1;";
	struct journal_breaker found[2] = {0}, row;
	struct journal *journal;
	char path[300];
	sqlite3 *db;
	int reset;

	(void)state;
	snprintf(path, sizeof(path), "%s/journal.db", directory);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	for (int start = 0; start < 2; start++) {
		memset(found, 0, sizeof(found));
		journal = open_journal(&reset);
		assert_int_equal(reset, 0);
		assert_int_equal(journal_breakers(journal, NULL, take_breaker, found), 0);
		assert_string_equal(found[1].service, "web");
		assert_int_equal(found[1].generation, 7);
		assert_true(found[1].has_rate && found[1].rate == 200);
		assert_int_equal(found[1].has_connections, start);
		assert_int_equal(found[1].has_ramp, start);
		row = found[1];
		row.has_connections = row.has_ramp = true;
		assert_int_equal(journal_breakers_write(journal, &row, 1, false), 0);
		journal_close(&journal);
	}
}

/* Within a boot the monotonic deadline holds, whatever became of the wall clock; after it the wall time does. */
static void deadlines_of_two_boots(void **state)
{
	uint64_t now_ns = clock_ns(), left_ns;
	struct moment moment = moment_at(now_ns + 600 * NS_PER_S);

	(void)state;
	moment.wall_ms -= 86400000; /* the wall clock was set */
	assert_int_equal(moment_here(&moment), moment.mono_ns);
	moment = moment_at(now_ns + 600 * NS_PER_S);
	strcpy(moment.boot, "another boot");
	moment.mono_ns = 12345;
	left_ns = moment_here(&moment) - clock_ns();
	assert_in_range(left_ns, 598 * NS_PER_S, 601 * NS_PER_S);
	moment.wall_ms = 1000; /* long ago */
	assert_int_equal(moment_here(&moment), 0);
	moment.mono_ns = SLC_FOREVER;
	assert_int_equal(moment_here(&moment), SLC_FOREVER);
}

static void escaped(const char *value, const char *expected)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	metrics_escape(out, value);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

/* c136: one label must not blind the whole page. */
static void c136_labels_are_escaped(void **state)
{
	(void)state;
	escaped("plain-1", "plain-1");
	escaped("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
	escaped("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	escaped("bad\xff\t", "bad??");
}

static void messages_are_cut_at_characters(void **state)
{
	struct problem problem;
	char value[400];

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		memset(value, 'x', sizeof(value));
		for (size_t i = 0; i < 120; i++)
			memcpy(value + shift + 3 * i, "\xe2\x82\xac", 3);
		value[shift + 3 * 120] = '\0';
		problem_value(&problem, 400, "key", value, NULL, NULL, "%s%s%s", value, value, value);
		assert_true(text_is_utf8(problem.value, strlen(problem.value)));
		assert_in_range(strlen(problem.value), sizeof(problem.value) - 4, sizeof(problem.value) - 1);
		assert_true(text_is_utf8(problem.message, strlen(problem.message)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(orders_outlive_the_daemon, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(damaged_file_is_put_aside, make_directory, remove_directory),
		cmocka_unit_test(unusable_directory_is_said),
		cmocka_unit_test_setup_teardown(known_are_put_and_dropped, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(breakers_outlive_the_daemon, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(rows_of_services_that_are_no_more, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(a_journal_of_the_version_before, make_directory, remove_directory),
		cmocka_unit_test(deadlines_of_two_boots),
		cmocka_unit_test(c136_labels_are_escaped),
		cmocka_unit_test(messages_are_cut_at_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
