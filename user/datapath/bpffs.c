// SPDX-License-Identifier: GPL-2.0-only
/* bpffs.c: the pin directory: on a BPF file system, mounted where it usually is, made if missing. */
#include "user/datapath/internal.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "user/directories.h"

#define USUAL_PLACE "/sys/fs/bpf"

bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (uint32_t)fs.f_type == (uint32_t)BPF_FS_MAGIC;
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int bpffs_prepare(const char *pins, char *why, size_t why_len)
{
	int r;

	if (*pins != '/')
		return because(-EINVAL, why, why_len, "pins: '%s' must be an absolute path, such as %s/sluice", pins,
			       USUAL_PLACE);
	if (is_below(pins, USUAL_PLACE) && !is_bpffs(USUAL_PLACE) &&
	    mount("bpf", USUAL_PLACE, "bpf", 0, "mode=0700") < 0)
		return because(-errno, why, why_len,
			       "cannot mount the BPF file system at %s: %s; needs CAP_SYS_ADMIN, or "
			       "`mount -t bpf bpf %s` beforehand",
			       USUAL_PLACE, strerror(errno), USUAL_PLACE);
	r = make_directories(pins, 0700);
	if (r < 0)
		return because(r, why, why_len,
			       "pins: cannot make %s: %s; names with a dot are not allowed on a BPF file system", pins,
			       strerror(-r));
	if (!is_bpffs(pins))
		return because(-EINVAL, why, why_len,
			       "pins: %s is not on a BPF file system; mount one there, or use a directory below %s",
			       pins, USUAL_PLACE);
	return 0;
}
