// SPDX-License-Identifier: GPL-2.0-only
/* test_mountinfo: where cgroup2 is, from the text of mountinfo on the kinds of systems people have (c67). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/datapath/mountinfo.h"

#define BASE                                                                          \
	"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n" \
	"23 22 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"

#define V1                                                                                                \
	"26 23 0:24 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n"         \
	"28 26 0:26 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd\n" \
	"31 26 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct\n"

static const struct {
	const char *name, *text;
	int result;
	const char *path;
} cases[] = {
	{"v2 only", BASE "27 23 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", 0,
	 "/sys/fs/cgroup"},
	{"hybrid", BASE V1 "27 26 0:25 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n", 0,
	 "/sys/fs/cgroup/unified"},
	{"v1 only", BASE V1, -ENOENT, NULL},
	{"elsewhere, with a space", BASE "40 22 0:40 / /mnt/my\\040cgroups rw,relatime - cgroup2 none rw\n", 0,
	 "/mnt/my cgroups"},
	{"nested: a container with its own cgroup namespace",
	 "500 400 0:60 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/x:/var/lib/y\n"
	 "510 500 0:25 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n",
	 0, "/sys/fs/cgroup"},
	{"nested: the container sees the host's tree from above its own group",
	 "510 500 0:25 /../../.. /sys/fs/cgroup ro,relatime - cgroup2 cgroup rw\n", 0, "/sys/fs/cgroup"},
	{"a part bound somewhere, the whole later",
	 BASE "60 22 0:25 /system.slice /srv/part rw - cgroup2 none rw\n"
	      "61 23 0:25 / /sys/fs/cgroup rw - cgroup2 none rw\n",
	 0, "/sys/fs/cgroup"},
	{"several whole ones: the first",
	 BASE "61 23 0:25 / /sys/fs/cgroup rw - cgroup2 none rw\n62 22 0:25 / /mnt/c rw - cgroup2 none rw\n", 0,
	 "/sys/fs/cgroup"},
	{"hidden by a later mount on the same place",
	 BASE "61 23 0:25 / /sys/fs/cgroup rw - cgroup2 none rw\n62 61 0:70 / /sys/fs/cgroup rw - tmpfs none rw\n",
	 -ENOENT, NULL},
	{"many optional fields", "61 23 0:25 / /c rw shared:1 master:2 propagate_from:3 unbindable - cgroup2 none rw\n",
	 0, "/c"},
	{"the word elsewhere is no mount of it",
	 "61 23 0:25 / /mnt/cgroup2 rw - ext4 cgroup2 rw,cgroup2\n62 23 0:25 /cgroup2 /x rw shared:2 - tmpfs a rw\n",
	 -ENOENT, NULL},
	{"no newline at the end", "61 23 0:25 / /c rw - cgroup2 none rw", 0, "/c"},
	{"broken lines are passed over",
	 "\n-\n61 23\n61 23 0:25 / /c rw\n62 23 0:25 / /d rw -\n63 1 0:1 / /e rw - cgroup2 x rw\n", 0, "/e"},
	{"empty", "", -ENOENT, NULL},
	{"a backslash that escapes nothing", "61 23 0:25 / /a\\9\\04 rw - cgroup2 none rw\n", 0, "/a\\9\\04"},
};

static void c67_cgroup2_is_found_in_mountinfo(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char path[64] = "untouched";
		int r = mountinfo_find(cases[i].text, "cgroup2", path, sizeof(path));

		if (r != cases[i].result || (r == 0 && strcmp(path, cases[i].path) != 0))
			fail_msg("%s: gave %d '%s'", cases[i].name, r, path);
		if (r < 0)
			assert_string_equal(path, "untouched");
	}
}

static void c67_a_path_that_does_not_fit_is_an_error(void **state)
{
	static const char text[] = "61 23 0:25 / /abcdef rw - cgroup2 none rw\n";
	char path[8];

	(void)state;
	assert_int_equal(mountinfo_find(text, "cgroup2", path, 7), -ENAMETOOLONG);
	assert_int_equal(mountinfo_find(text, "cgroup2", path, 8), 0);
	assert_string_equal(path, "/abcdef");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c67_cgroup2_is_found_in_mountinfo),
		cmocka_unit_test(c67_a_path_that_does_not_fit_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
