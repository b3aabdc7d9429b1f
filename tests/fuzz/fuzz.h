/* SPDX-License-Identifier: GPL-2.0-only */
/* fuzz.h: libFuzzer's entry points, and how a target says that an invariant is broken. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(what)                                                                               \
	do {                                                                                      \
		if (!(what)) {                                                                    \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                                  \
		}                                                                                 \
	} while (0)

#endif /* TESTS_FUZZ_FUZZ_H */
