// SPDX-License-Identifier: GPL-2.0-only
/*
 * lock.c: one instance per pin directory. A bpffs holds no regular files, so the lock lies in /run/sluice, named after
 * the directory ("/" as "-", "-" as "--"); the kernel drops it with its holder, also after kill -9. The file goes with
 * its holder's clean end and with a detach, while that holds the lock: who locked a file that is no longer there starts
 * over.
 */
#include "user/datapath/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_DIR "/run/sluice"

static int lock_path(const char *pins, char *buf, size_t len)
{
	size_t n = (size_t)snprintf(buf, len, "%s/", LOCK_DIR);

	for (const char *c = pins + (*pins == '/'); *c; c++) {
		if (n + 8 >= len)
			return -ENAMETOOLONG;
		if (*c == '-')
			buf[n++] = '-';
		buf[n++] = *c == '/' ? '-' : *c;
	}
	snprintf(buf + n, len - n, ".lock");
	return 0;
}

static bool is_still_at(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

void lock_forget(const char *pins, int fd)
{
	char path[PATH_MAX];

	if (lock_path(pins, path, sizeof(path)) == 0 && is_still_at(fd, path))
		unlink(path);
}

void lock_remove(const char *pins)
{
	_cleanup_fd_ int fd = -1;
	char path[PATH_MAX];

	if (lock_path(pins, path, sizeof(path)) < 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		lock_forget(pins, fd);
}

int lock_pins(const char *pins, int *ret_fd, char *why, size_t why_len)
{
	_cleanup_fd_ int fd = -1;
	char path[PATH_MAX], pid[32];
	ssize_t n;
	int r = lock_path(pins, path, sizeof(path));

	if (r < 0)
		return because(r, why, why_len, "pins: %s: the path is too long for a lock file", pins);
	if (mkdir(LOCK_DIR, 0755) < 0 && errno != EEXIST)
		return because(-errno, why, why_len, "cannot make %s for the lock: %s", LOCK_DIR, strerror(errno));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return because(-errno, why, why_len, "cannot open the lock %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return because(-errno, why, why_len, "cannot lock %s: %s", path, strerror(errno));
		n = pread(fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		return because(-EBUSY, why, why_len,
			       "another instance (pid %s) uses %s: it holds %s; stop it first, or give this one "
			       "other control.pins",
			       *pid ? pid : "unknown", pins, path);
	}
	if (!is_still_at(fd, path)) {
		close_fd(&fd);
		return lock_pins(pins, ret_fd, why, why_len);
	}
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n)
		return because(-EIO, why, why_len, "cannot write the lock %s", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
