// SPDX-License-Identifier: GPL-2.0-only
#include "user/control/adopt.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "user/control/scope.h"

static inline void scope_closedir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define SCOPE_DIR __attribute__((cleanup(scope_closedir))) DIR

static int number_of(const char *name)
{
	return isdigit((unsigned char)name[0]) ? atoi(name) : -1;
}

/* Inode of the socket that /proc/PID/fd/N is; 0 for other files. */
static uint32_t socket_inode(int dir_fd, const char *name)
{
	char link[64];
	ssize_t len = readlinkat(dir_fd, name, link, sizeof(link) - 1);

	if (len < 0)
		return 0;
	link[len] = '\0';
	return strncmp(link, "socket:[", 8) == 0 ? strtoul(link + 8, NULL, 10) : 0;
}

static size_t search_process(int proc_fd, int pid, struct adopt_want *wants, size_t count)
{
	char path[32];
	size_t found = 0;
	SCOPE_DIR *dir = NULL;
	struct dirent *entry;
	int fd;

	snprintf(path, sizeof(path), "%d/fd", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0; /* ended, or not ours to see */
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return 0;
	}
	while ((entry = readdir(dir))) {
		uint32_t inode = number_of(entry->d_name) >= 0 ? socket_inode(dirfd(dir), entry->d_name) : 0;

		for (size_t i = 0; i < count && inode; i++) {
			if (wants[i].inode != inode || wants[i].fd >= 0)
				continue;
			wants[i].pid = pid;
			wants[i].fd = number_of(entry->d_name);
			found++;
		}
	}
	return found;
}

size_t adopt_find(struct adopt_want *wants, size_t count)
{
	SCOPE_DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		wants[i].pid = 0;
		wants[i].fd = -1;
	}
	while (proc && found < count && (entry = readdir(proc))) {
		int pid = number_of(entry->d_name);

		if (pid > 0)
			found += search_process(dirfd(proc), pid, wants, count);
	}
	return found;
}

int adopt_take(const struct adopt_want *want, int *ret_fd)
{
	SCOPE_FD pidfd = -1, fd = -1;
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (want->fd < 0)
		return -ENOENT;
	pidfd = syscall(SYS_pidfd_open, want->pid, 0);
	if (pidfd < 0)
		return -errno;
	fd = syscall(SYS_pidfd_getfd, pidfd, want->fd, 0);
	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0)
		return -errno;
	if (cookie != want->cookie)
		return -ESTALE;
	*ret_fd = take_fd(&fd);
	return 0;
}
