/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a link cannot open: an errno for the caller and a sentence for a person.
 */
#ifndef UROCE_LINK_REFUSAL_H
#define UROCE_LINK_REFUSAL_H

#include <stdarg.h>
#include <stdio.h>

#include "link/udp.h"

/* Writes the sentence to error (UDP_ERROR_LEN bytes) and returns err. */
__attribute__((format(printf, 3, 4))) static inline int refuse(char *error, int err,
                                                               const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error, UDP_ERROR_LEN, format, arguments);
    va_end(arguments);
    return err;
}

#endif
