/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts for tests: network namespaces joined by a pair of virtual interfaces, near and far,
 * 02:00:00:00:00:01 and 02:00:00:00:00:02, with an address of each family and a link-local one. The
 * test is in the near one.
 */
#ifndef UROCE_TESTS_LINK_HOSTS_H
#define UROCE_TESTS_LINK_HOSTS_H

#include "wire/datagram.h"

extern int near_namespace; /* descriptors for setns */
extern int far_namespace;

/* Makes them; ends the test program as skipped where that is forbidden. */
void hosts_make(void);

/* The MTU of near and far, which is 1500. */
void hosts_set_mtu(int mtu);

/* From near to far. */
struct path path_ipv4(void);
struct path path_ipv6(void);

#endif
