/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of RDMA CM: numbers under a port space, which all processes of a host share. */
#ifndef UROCE_RDMACM_PORT_H
#define UROCE_RDMACM_PORT_H

#include "rdmacm/address.h"
#include "rdmacm/id.h"

/* Gives the ID a source address, and a port if it has none. 0 or a negative errno. */
int port_bind(struct id_handle *h, const struct endpoint *at);

/* The source address becomes this one; the port stays. */
void port_set_address(struct id_handle *h, const struct endpoint *at);

/* RDMA_OPTION_ID_AFONLY, before the ID asks or listens. 0 or a negative errno. */
int port_set_one_family(struct id_handle *h, bool on);

/* The port is given back, if the ID has it. The node's lock is held. */
void port_give_back(struct id_handle *h);

#endif
