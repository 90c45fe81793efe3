/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A statement that must hold while a simulation runs. What does not hold ends
 * the run: the sentence is kept, and control goes back to where the run began.
 */
#ifndef UROCE_TESTS_EXPECT_H
#define UROCE_TESTS_EXPECT_H

#include <setjmp.h>

extern jmp_buf expect_escape;    /* set by who starts the run */
extern char expect_message[512]; /* why it ended */

_Noreturn void expect_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            expect_failed(__FILE__, __LINE__, __VA_ARGS__);                                        \
    } while (0)

#endif
