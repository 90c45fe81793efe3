/* SPDX-License-Identifier: BSD-2-Clause */
/* How the program ends when it does not end well: one line and a status that tells the kinds apart.
 */
#ifndef UROCE_TESTS_APPS_ENDING_H
#define UROCE_TESTS_APPS_ENDING_H

#include <stdio.h>
#include <stdlib.h>

#define EXIT_PEER_GONE 3 /* the other process died: no fault of what is tested */

#define end_badly(...)                                                                             \
    do {                                                                                           \
        fprintf(stderr, "verified_transfer: " __VA_ARGS__);                                        \
        fputc('\n', stderr);                                                                       \
        exit(EXIT_FAILURE);                                                                        \
    } while (0)

static inline _Noreturn void end_peer_gone(void)
{
    fprintf(stderr, "verified_transfer: the other process is gone\n");
    exit(EXIT_PEER_GONE);
}

#endif
