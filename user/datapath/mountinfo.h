/* SPDX-License-Identifier: GPL-2.0-only */
/* mountinfo.h: finds a file system in the text of /proc/self/mountinfo (proc(5)). Pure. */
#ifndef SLUICE_MOUNTINFO_H
#define SLUICE_MOUNTINFO_H

#include <stddef.h>

/*
 * Where a file system of type `fstype` is mounted: 0 and the path (octal escapes undone), or -ENOENT, or -ENAMETOOLONG.
 * Of several mounts the one that shows the most of the tree wins: root "/" before a sub-directory, the first of equals;
 * one that a later mount on the same path hides does not count.
 */
int mountinfo_find(const char *text, const char *fstype, char *ret_path, size_t path_len);

#endif /* SLUICE_MOUNTINFO_H */
