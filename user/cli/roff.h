/* SPDX-License-Identifier: GPL-2.0-only */
/* roff.h: text as it must stand in a man page. */
#ifndef SLUICE_CLI_ROFF_H
#define SLUICE_CLI_ROFF_H

#include <stdio.h>

void roff(FILE *out, const char *text); /* backslashes, leading dots and minus signs are roff's own: escaped */

#endif /* SLUICE_CLI_ROFF_H */
