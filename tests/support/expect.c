/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends a run whose expectation does not hold. */
#include "support/expect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

jmp_buf expect_escape;
char expect_message[512];

void expect_failed(const char *file, int line, const char *format, ...)
{
    const char *name = strrchr(file, '/');
    va_list ap;
    int len;

    len = snprintf(expect_message, sizeof(expect_message), "%s:%d: ", name ? name + 1 : file, line);
    va_start(ap, format);
    vsnprintf(expect_message + len, sizeof(expect_message) - (size_t)len, format, ap);
    va_end(ap);
    longjmp(expect_escape, 1);
}
