/* SPDX-License-Identifier: GPL-2.0-only */
/* version.h: the version that --version, status, metrics and the man pages show. */
#ifndef SLUICE_VERSION_H
#define SLUICE_VERSION_H

#define SLUICE_VERSION "0.1.0"

#endif /* SLUICE_VERSION_H */
