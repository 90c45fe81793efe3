/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is not there yet: sockets over RDMA. A name that were missing would stop programs that
 * never call it, so all are there and say that they cannot.
 */
#include <errno.h>
#include <stdint.h>

#include "verbs/export.h"

#define NOT_SUPPORTED(N)                                                                           \
    N(raccept)                                                                                     \
    N(rbind)                                                                                       \
    N(rclose)                                                                                      \
    N(rconnect)                                                                                    \
    N(rfcntl)                                                                                      \
    N(rgetpeername)                                                                                \
    N(rgetsockname)                                                                                \
    N(rgetsockopt)                                                                                 \
    N(riomap)                                                                                      \
    N(riounmap)                                                                                    \
    N(riowrite)                                                                                    \
    N(rlisten)                                                                                     \
    N(rpoll)                                                                                       \
    N(rread)                                                                                       \
    N(rreadv)                                                                                      \
    N(rrecv)                                                                                       \
    N(rrecvfrom)                                                                                   \
    N(rrecvmsg)                                                                                    \
    N(rselect)                                                                                     \
    N(rsend)                                                                                       \
    N(rsendmsg)                                                                                    \
    N(rsendto)                                                                                     \
    N(rsetsockopt)                                                                                 \
    N(rshutdown)                                                                                   \
    N(rsocket)                                                                                     \
    N(rwrite)                                                                                      \
    N(rwritev)

/* -1 in the widest type that any of them returns; what they take is not looked at. */
#define NOT_SUPPORTED_STUB(name)                                                                   \
    EXPORT intptr_t name(void);                                                                    \
    EXPORT intptr_t name(void)                                                                     \
    {                                                                                              \
        errno = EOPNOTSUPP;                                                                        \
        return -1;                                                                                 \
    }
NOT_SUPPORTED(NOT_SUPPORTED_STUB)
