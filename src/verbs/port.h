/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of devices and ports. A device has one port. */
#ifndef UROCE_VERBS_PORT_H
#define UROCE_VERBS_PORT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_NUMBER 1u

/* verbs_context: 0 or an errno; fill no more than the caller's struct holds. */
int port_query(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *out,
               size_t size);
int context_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *out, size_t size);
int context_query_clock(struct ibv_context *context, struct ibv_values_ex *values);

/* Path MTU: bytes to the interface's number, and back (0 for none). */
enum ibv_mtu mtu_to_ibv(uint32_t bytes);
uint32_t mtu_from_ibv(enum ibv_mtu mtu);

#endif
