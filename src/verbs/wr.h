/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work request builder (ibv_wr_start ... ibv_wr_complete): requests are
 * gathered here, with copies of their SGEs and inline data, and go to the
 * engine all together or not at all.
 */
#ifndef UROCE_VERBS_WR_H
#define UROCE_VERBS_WR_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct qp_handle;
struct wr_builder;

/* The operations (enum ibv_qp_create_send_ops_flags) that a QP of this type can have. */
uint64_t wr_operations_of(enum ibv_qp_type type);

/* Puts a builder for these operations into the object. 0 or ENOMEM. */
int wr_builder_attach(struct qp_handle *h, uint64_t operations);
void wr_builder_free(struct wr_builder *b); /* NULL: nothing */

#endif
