/* SPDX-License-Identifier: GPL-2.0-only */
/* check_value.h: is this word what the table says it must be? */
#ifndef SLUICE_CLI_CHECK_VALUE_H
#define SLUICE_CLI_CHECK_VALUE_H

#include "user/cli/command.h"

/*
 * 0, or -EINVAL. `why` is then what is accepted; or, with *ret_sentence, a whole sentence that has the value and what
 * is accepted in it.
 */
int check_value(enum kind kind, const char *text, bool *ret_sentence, char *why, size_t why_len);

#endif /* SLUICE_CLI_CHECK_VALUE_H */
