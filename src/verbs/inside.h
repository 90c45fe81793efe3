/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm.so.1 has of the process's node, which lives in libibverbs.so.1: a table of calls,
 * so that one name is exported and none that a program might have too. Both libraries are of
 * one build; the number in the name changes with the table, so that two that do not fit together
 * are told by the loader.
 */
#ifndef UROCE_VERBS_INSIDE_H
#define UROCE_VERBS_INSIDE_H

#include "cm/cm.h"
#include "node/node.h"

#define INSIDE_CALLS(C)                                                                            \
    C(node_get)                                                                                    \
    C(node_lock)                                                                                   \
    C(node_unlock)                                                                                 \
    C(node_now)                                                                                    \
    C(node_before_sleep)                                                                           \
    C(node_progress)                                                                               \
    C(node_deadline)                                                                               \
    C(node_wait_begin)                                                                             \
    C(node_wait)                                                                                   \
    C(node_wait_end)                                                                               \
    C(node_cm)                                                                                     \
    C(node_set_cm_handler)                                                                         \
    C(node_set_alarm_handler)                                                                      \
    C(node_set_alarm)                                                                              \
    C(node_take_service)                                                                           \
    C(node_give_service)                                                                           \
    C(cm_id_new)                                                                                   \
    C(cm_id_free)                                                                                  \
    C(cm_id_set_patience)                                                                          \
    C(cm_id_set_user)                                                                              \
    C(cm_id_user)                                                                                  \
    C(cm_id_path)                                                                                  \
    C(cm_listen)                                                                                   \
    C(cm_connect)                                                                                  \
    C(cm_accept)                                                                                   \
    C(cm_reject)                                                                                   \
    C(cm_establish)                                                                                \
    C(cm_note_traffic)                                                                             \
    C(cm_disconnect)                                                                               \
    C(cm_resolve)                                                                                  \
    C(cm_resolve_reply)

struct inside {
#define INSIDE_MEMBER(name) __typeof__(name) *name;
    INSIDE_CALLS(INSIDE_MEMBER)
#undef INSIDE_MEMBER
};

/* Never NULL; static storage. */
const struct inside *uroce_inside_4(void);

#endif
