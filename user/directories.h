/* SPDX-License-Identifier: GPL-2.0-only */
/* directories.h: mkdir -p, for a directory and for the place of a file. Those that exist keep their mode. */
#ifndef SLUICE_DIRECTORIES_H
#define SLUICE_DIRECTORIES_H

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* Everything before the last '/' of `path`. 0 or -errno. */
static inline int make_parents(const char *path, mode_t mode)
{
	char part[PATH_MAX];

	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t i = 1; path[0] && path[i]; i++) {
		if (path[i] != '/')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static inline int make_directories(const char *path, mode_t mode)
{
	int r = make_parents(path, mode);

	if (r < 0)
		return r;
	return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

#endif /* SLUICE_DIRECTORIES_H */
