// SPDX-License-Identifier: GPL-2.0-only
/* test_doctor.c: judgements of doctor on machines that this one is not. */
#include <net/if_arp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/control/doctor.h"

#define UNREAD INT64_MIN

/* The finding of a check, which must be there `times` times. */
static const struct doctor_finding *find(const struct doctor_report *report, const char *check, size_t times)
{
	const struct doctor_finding *found = NULL;
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++) {
		if (!strcmp(report->findings[i].check, check)) {
			found = &report->findings[i];
			count++;
		}
	}
	if (count != times)
		fail_msg("%s: %zu findings, not %zu", check, count, times);
	return found;
}

static void expect(const struct doctor_report *report, const char *check, enum doctor_level level, const char *words)
{
	const struct doctor_finding *finding = find(report, check, 1);

	if (finding->level != level)
		fail_msg("%s: level %d, not %d: %s", check, finding->level, level, finding->what);
	if (!strstr(finding->what, words))
		fail_msg("%s: no '%s' in: %s", check, words, finding->what);
	/* A warning says what to do, or there is nothing to be done about it by anybody. */
	if (level == DOCTOR_FAIL)
		assert_true(*finding->todo || !strcmp(check, "kernel"));
}

/* --- where cgroup2 is, comes from the mount table ------------------------------------------------------------ */

static void test_c67_cgroup2_of_the_mount_table(void **state)
{
	static const char bpf[] = "30 23 0:27 / /sys/fs/bpf rw,relatime - bpf bpf rw,mode=700\n";
	static const struct {
		const char *text;
		enum doctor_level level;
		const char *words;
	} rows[] = {
		/* v2 only */
		{"25 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", DOCTOR_OK, "at /sys/fs/cgroup:"},
		/* hybrid */
		{"25 23 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
		 "26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		 "27 25 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
		 DOCTOR_OK, "at /sys/fs/cgroup/unified:"},
		/* v1 only */
		{"25 23 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n27 25 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup "
		 "rw,cpu\n",
		 DOCTOR_WARN, "not mounted"},
		/* elsewhere, with a blank in its name */
		{"25 23 0:22 / /mnt/my\\040groups rw - cgroup2 none rw\n", DOCTOR_OK, "at /mnt/my groups:"},
		{"", DOCTOR_WARN, "not mounted"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_report report = {0};
		char text[1024];

		snprintf(text, sizeof(text), "%s%s", rows[i].text, bpf);
		doctor_judge_mounts(&report, text);
		expect(&report, "cgroup2", rows[i].level, rows[i].words);
		expect(&report, "bpffs", DOCTOR_OK, "/sys/fs/bpf");
		doctor_report_free(&report);
	}
}

static void test_no_bpffs(void **state)
{
	struct doctor_report report = {0};

	(void)state;
	doctor_judge_mounts(&report, "25 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	expect(&report, "bpffs", DOCTOR_WARN, "not mounted");
	doctor_report_free(&report);
}

/* --- sysctls ------------------------------------------------------------------------------------------------------ */

static const struct doctor_sysctls good = {
	.somaxconn = 4096,
	.syncookies = 1,
	.abort_on_overflow = 0,
	.migrate_req = 1,
};

static void test_sysctls(void **state)
{
	static const struct {
		const char *check;
		size_t offset;
		int64_t value;
		enum doctor_level level;
		const char *words;
	} rows[] = {
#define AT(name) offsetof(struct doctor_sysctls, name)
		{"tcp_syncookies", AT(syncookies), 1, DOCTOR_OK, "only when the SYN queue is full"},
		{"tcp_syncookies", AT(syncookies), 0, DOCTOR_WARN, "forged"},
		{"tcp_syncookies", AT(syncookies), 2, DOCTOR_WARN, "every handshake"},
		{"tcp_syncookies", AT(syncookies), UNREAD, DOCTOR_WARN, "not there"},
		{"tcp_abort_on_overflow", AT(abort_on_overflow), 0, DOCTOR_OK, "retry"},
		{"tcp_abort_on_overflow", AT(abort_on_overflow), 1, DOCTOR_WARN, "reset"},
		{"bpf_jit_harden", AT(jit_harden), 2, DOCTOR_WARN, "blinded"},
		{"somaxconn", AT(somaxconn), 128, DOCTOR_WARN, "128"},
#undef AT
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_sysctls sysctls = good;
		struct doctor_report report = {0};

		memcpy((char *)&sysctls + rows[i].offset, &rows[i].value, sizeof(rows[i].value));
		doctor_judge_sysctls(&report, &sysctls, false);
		expect(&report, rows[i].check, rows[i].level, rows[i].words);
		doctor_report_free(&report);
	}
}

/* Closing a member of a reuseport group resets what waits in its queue, unless the kernel migrates it. */
static void test_reuseport_without_migration(void **state)
{
	struct doctor_sysctls sysctls = good;
	struct doctor_report report = {0};

	(void)state;
	sysctls.migrate_req = 0;
	doctor_judge_sysctls(&report, &sysctls, false);
	find(&report, "tcp_migrate_req", 0);
	doctor_judge_sysctls(&report, &sysctls, true);
	expect(&report, "tcp_migrate_req", DOCTOR_WARN, "closing one");
	doctor_report_free(&report);
}

/* --- listeners ---------------------------------------------------------------------------------------------------- */

static void test_backlogs(void **state)
{
	static const struct {
		uint32_t backlog;
		enum doctor_level level;
		const char *words;
	} rows[] = {
		{0, DOCTOR_WARN, "coarse"},
		{15, DOCTOR_WARN, "coarse"},
		{511, DOCTOR_OK, "somaxconn is 4096 now"},
		{4096, DOCTOR_OK, "as much as somaxconn allows"},
		{65535, DOCTOR_WARN, "head age is known up to 4096"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_report report = {0};

		doctor_judge_listener(&report, "web", "203.0.113.10:443", rows[i].backlog, &good);
		expect(&report, "backlog", rows[i].level, rows[i].words);
		assert_string_equal(find(&report, "backlog", 1)->subject, "web 203.0.113.10:443");
		doctor_report_free(&report);
	}
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

static void test_kernel(void **state)
{
	struct datapath_features features = {.bpf = true, .gate_fields = true, .frags = true, .jit = true};
	struct doctor_report report = {0};

	(void)state;
	doctor_judge_kernel(&report, "6.1.0", &features, UINT64_MAX);
	expect(&report, "kernel", DOCTOR_OK, "6.1.0");
	expect(&report, "btf", DOCTOR_OK, "gate can read");
	expect(&report, "bpf_jit", DOCTOR_OK, "machine code");
	expect(&report, "capabilities", DOCTOR_OK, "all");
	doctor_report_free(&report);

	features.jit = false;
	doctor_judge_kernel(&report, "6.1.0", &features, UINT64_MAX);
	expect(&report, "bpf_jit", DOCTOR_FAIL, "interpreted");
	doctor_report_free(&report);

	features = (struct datapath_features){.bpf_why = "no bpf()", .gate_why = "no BTF"};
	doctor_judge_kernel(&report, "5.4.0", &features, UINT64_MAX & ~(1ULL << 39));
	expect(&report, "kernel", DOCTOR_FAIL, "no bpf()");
	expect(&report, "btf", DOCTOR_WARN, "no BTF");
	expect(&report, "capabilities", DOCTOR_WARN, "lacks CAP_BPF:");
	doctor_report_free(&report);
}

/* --- interfaces --------------------------------------------------------------------------------------------------- */

static struct doctor_interface ethernet(void)
{
	return (struct doctor_interface){.name = "eth0",
					 .type = ARPHRD_ETHER,
					 .mtu = 1500,
					 .driver = "virtio_net",
					 .lro = OFFLOAD_FIXED_OFF,
					 .gro_hw = OFFLOAD_OFF,
					 .tx_checksum = OFFLOAD_ON};
}

static void test_good_interface(void **state)
{
	struct doctor_interface interface = ethernet();
	struct doctor_report report = {0};

	(void)state;
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_OK, "virtio_net");
	expect(&report, "mtu", DOCTOR_OK, "1500");
	expect(&report, "offloads", DOCTOR_OK, "off");
	for (size_t i = 0; i < report.count; i++)
		assert_string_equal(report.findings[i].subject, "eth0");
	doctor_report_free(&report);
}

/* The feature is named, and whether this machine can change it at all. */
static void test_c113_offloads_are_named(void **state)
{
	static const struct {
		enum doctor_offload lro, gro_hw;
		const char *words, *todo;
	} rows[] = {
		{OFFLOAD_ON, OFFLOAD_OFF, "(LRO) is on:", "ethtool -K eth0 lro off"},
		{OFFLOAD_FIXED_ON, OFFLOAD_OFF, "on and fixed", "host"},
		{OFFLOAD_OFF, OFFLOAD_ON, "hardware GRO is on:", "ethtool -K eth0 rx-gro-hw off"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_interface interface = ethernet();
		struct doctor_report report = {0};

		interface.lro = rows[i].lro;
		interface.gro_hw = rows[i].gro_hw;
		doctor_judge_interface(&report, &interface, true, false);
		expect(&report, "offloads", DOCTOR_WARN, rows[i].words);
		assert_non_null(strstr(find(&report, "offloads", 1)->todo, rows[i].todo));
		doctor_report_free(&report);
	}
}

/* MTU against native mode. */
static void test_c112_mtu(void **state)
{
	static const struct {
		int mtu;
		bool frags;
		enum doctor_level level;
	} rows[] = {{1500, false, DOCTOR_OK},
		    {3498, false, DOCTOR_OK},
		    {3499, false, DOCTOR_WARN},
		    {9000, false, DOCTOR_WARN},
		    {9000, true, DOCTOR_OK}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doctor_interface interface = ethernet();
		struct doctor_report report = {0};

		interface.mtu = rows[i].mtu;
		doctor_judge_interface(&report, &interface, rows[i].frags, false);
		assert_int_equal(find(&report, "mtu", 1)->level, rows[i].level);
		doctor_report_free(&report);
	}
}

/* Devices that are not a plain Ethernet card. */
static void test_c23_other_devices(void **state)
{
	struct doctor_interface interface = ethernet();
	struct doctor_report report = {0};

	(void)state;
	interface.type = -1;
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_WARN, "is not there");
	assert_int_equal(report.count, 1);
	doctor_report_free(&report);

	interface.type = ARPHRD_PPP;
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_FAIL, "no Ethernet header");
	doctor_report_free(&report);

	interface.type = ARPHRD_LOOPBACK;
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_WARN, "loopback");
	doctor_report_free(&report);

	interface = ethernet();
	strcpy(interface.driver, "veth");
	doctor_judge_interface(&report, &interface, true, false);
	find(&report, "resets", 0);
	doctor_judge_interface(&report, &interface, true, true);
	expect(&report, "resets", DOCTOR_WARN, "peer has an XDP program");
	doctor_report_free(&report);

	interface = ethernet();
	strcpy(interface.driver, "bonding");
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_WARN, "is a bond");
	doctor_report_free(&report);

	interface = ethernet();
	interface.member = true;
	doctor_judge_interface(&report, &interface, true, false);
	expect(&report, "interface", DOCTOR_WARN, "belongs to a bond");
	doctor_report_free(&report);
}

/* A whole look at a machine that is a directory: nothing in it can make doctor fail to answer. */
static void test_empty_machine(void **state)
{
	char names[2][IF_NAMESIZE] = {"nosuch0", "../../x"};
	const struct doctor_input input = {.root = "/nowhere", .interfaces = names, .interface_count = 2};
	struct doctor_report report = {0};

	(void)state;
	assert_int_equal(doctor_run(&input, &report), 0);
	expect(&report, "cgroup2", DOCTOR_WARN, "cannot be read");
	expect(&report, "tcp_abort_on_overflow", DOCTOR_WARN, "unreadable");
	assert_int_equal(find(&report, "interface", 2)->level, DOCTOR_WARN);
	doctor_report_free(&report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c67_cgroup2_of_the_mount_table),
		cmocka_unit_test(test_no_bpffs),
		cmocka_unit_test(test_sysctls),
		cmocka_unit_test(test_reuseport_without_migration),
		cmocka_unit_test(test_backlogs),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_good_interface),
		cmocka_unit_test(test_c113_offloads_are_named),
		cmocka_unit_test(test_c112_mtu),
		cmocka_unit_test(test_c23_other_devices),
		cmocka_unit_test(test_empty_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
