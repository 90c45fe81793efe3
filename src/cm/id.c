/* SPDX-License-Identifier: BSD-2-Clause */
/* Communication IDs: their tables, their life, and the events that they raise. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_private.h"

#define IDS_MAX_DEFAULT 65536u
#define COMM_ID_BITS 24

int cm_new(const struct cm_config *config, struct cm **out)
{
    struct cm *cm = calloc(1, sizeof(*cm));

    if (cm == NULL)
        return -ENOMEM;
    cm->config = *config;
    if (cm->config.ids_max == 0)
        cm->config.ids_max = IDS_MAX_DEFAULT;
    random_init(&cm->random, config->seed);
    cm->psn = (uint32_t)random_below(&cm->random, 1u << 24);
    cm->deadline_ns = CM_NEVER;
    list_init(&cm->timers);
    list_init(&cm->ready);
    list_init(&cm->events);
    *out = cm;
    return 0;
}

void cm_free(struct cm *cm)
{
    struct cm_id *id;
    struct cm_id *next;
    struct list *link;

    while ((link = list_pop_head(&cm->events)) != NULL)
        free(LIST_ENTRY(link, struct cm_event_node, link));
    for (id = cm->ids; id != NULL; id = id->by_comm_id.next)
        cm_id_answered(id);
    HASH_ITER (by_comm_id, cm->ids, id, next) {
        cm_id_release(id);
    }
    free(cm);
}

const struct cm_counters *cm_counters(const struct cm *cm)
{
    return &cm->counters;
}

uint32_t cm_id_count(const struct cm *cm)
{
    return cm->id_count;
}

struct cm_id *cm_find(struct cm *cm, uint32_t comm_id)
{
    struct cm_id *id;

    HASH_FIND(by_comm_id, cm->ids, &comm_id, sizeof(comm_id), id);
    return id;
}

struct cm_id *cm_find_peer(struct cm *cm, const struct cm_peer_key *key)
{
    struct cm_id *id;

    HASH_FIND(by_peer, cm->peers, key, sizeof(*key), id);
    return id;
}

struct cm_id *cm_find_qp(struct cm *cm, const struct cm_qp_key *key)
{
    struct cm_id *id;

    HASH_FIND(by_qp, cm->qps, key, sizeof(*key), id);
    return id;
}

static struct cm_id *find_service(struct cm *cm, uint64_t service_id)
{
    struct cm_id *id;

    HASH_FIND(by_service, cm->services, &service_id, sizeof(service_id), id);
    return id;
}

struct cm_id *cm_find_listener(struct cm *cm, uint64_t service_id, const struct gid *local)
{
    struct cm_id *best = NULL;
    unsigned best_rank = 0;

    for (struct cm_id *id = find_service(cm, service_id); id != NULL; id = id->next_service) {
        unsigned rank = gid_listen_rank(&id->local, local);

        if (rank > best_rank)
            best = id;
        best_rank = rank > best_rank ? rank : best_rank;
    }
    return best;
}

static uint32_t draw_comm_id(struct cm *cm)
{
    uint32_t comm_id;

    do
        comm_id = (uint32_t)cm->config.slot << COMM_ID_BITS |
                  (uint32_t)random_below(&cm->random, 1u << COMM_ID_BITS);
    while (comm_id == 0 || cm_find(cm, comm_id) != NULL);
    return comm_id;
}

int cm_id_new(struct cm *cm, void *user, struct cm_id **out)
{
    struct cm_id *id;

    if (cm->id_count >= cm->config.ids_max)
        return -ENOSPC;
    id = calloc(1, sizeof(*id));
    if (id == NULL)
        return -ENOMEM;
    id->cm = cm;
    id->user = user;
    id->comm_id = draw_comm_id(cm);
    id->answer_ns = cm_code_ns(CM_RESPONSE_TIMEOUT);
    id->retries = CM_RETRIES;
    list_init(&id->timer);
    list_init(&id->ready);
    HASH_ADD(by_comm_id, cm->ids, comm_id, sizeof(id->comm_id), id);
    if (id->by_comm_id.tbl == NULL) {
        free(id);
        return -ENOMEM;
    }
    cm->id_count++;
    *out = id;
    return 0;
}

void cm_set_peer(struct cm_id *id, const struct gid *gid, uint32_t comm_id, bool sidr)
{
    const struct cm_peer_key key = {.gid = *gid, .comm_id = comm_id, .sidr = sidr};

    if (id->has_peer || cm_find_peer(id->cm, &key) != NULL)
        return;
    id->peer = key;
    HASH_ADD(by_peer, id->cm->peers, peer, sizeof(id->peer), id);
    id->has_peer = id->by_peer.tbl != NULL;
}

void cm_set_qp(struct cm_id *id, const struct gid *gid, uint32_t qpn)
{
    const struct cm_qp_key key = {.gid = *gid, .qpn = qpn};

    id->remote = key;
    if (id->has_qp || cm_find_qp(id->cm, &key) != NULL)
        return;
    HASH_ADD(by_qp, id->cm->qps, remote, sizeof(id->remote), id);
    id->has_qp = id->by_qp.tbl != NULL;
}

void cm_forget_qp(struct cm_id *id)
{
    if (id->has_qp)
        HASH_DELETE(by_qp, id->cm->qps, id);
    id->has_qp = false;
}

static void forget_service(struct cm_id *id)
{
    struct cm *cm = id->cm;
    struct cm_id *first = find_service(cm, id->service_id);
    struct cm_id **link = &first;

    HASH_DELETE(by_service, cm->services, first);
    while (*link != id)
        link = &(*link)->next_service;
    *link = id->next_service;
    if (first != NULL)
        HASH_ADD(by_service, cm->services, service_id, sizeof(first->service_id), first);
}

int cm_listen(struct cm_id *id, uint64_t service_id, const struct gid *local, uint32_t backlog)
{
    static const struct gid any;
    struct cm *cm = id->cm;
    struct cm_id *first = find_service(cm, service_id);

    if (id->state != CM_STATE_IDLE || service_id == 0)
        return -EINVAL;
    if (local == NULL)
        local = &any;
    for (struct cm_id *other = first; other != NULL; other = other->next_service)
        if (gid_equal(&other->local, local))
            return -EADDRINUSE;
    id->service_id = service_id;
    id->local = *local;
    id->backlog = backlog;
    if (first != NULL) {
        id->next_service = first->next_service;
        first->next_service = id;
    } else {
        HASH_ADD(by_service, cm->services, service_id, sizeof(id->service_id), id);
        if (id->by_service.tbl == NULL)
            return -ENOMEM;
    }
    id->state = CM_STATE_LISTENING;
    return 0;
}

static void drop_events(struct cm_id *id)
{
    struct list *events = &id->cm->events;

    for (struct list *link = events->next, *next; link != events; link = next) {
        struct cm_event_node *node = LIST_ENTRY(link, struct cm_event_node, link);

        next = link->next;
        if (node->event.id != id)
            continue;
        list_remove(link);
        free(node);
    }
}

void cm_id_answered(struct cm_id *id)
{
    if (id->listener == NULL)
        return;
    id->listener->waiting--;
    id->listener = NULL;
}

/* Requests that the caller never saw are refused; the others go on without their listener. */
static void end_children(struct cm_id *listener, uint64_t now)
{
    struct cm_id *id;
    struct cm_id *next;

    if (listener->waiting == 0)
        return;
    HASH_ITER (by_comm_id, listener->cm->ids, id, next) {
        if (id->listener == listener && !id->taken)
            cm_id_free(id, now);
        else if (id->listener == listener)
            cm_id_answered(id);
    }
}

void cm_id_release(struct cm_id *id)
{
    struct cm *cm = id->cm;

    drop_events(id);
    cm_id_answered(id);
    list_remove(&id->timer);
    list_remove(&id->ready);
    HASH_DELETE(by_comm_id, cm->ids, id);
    if (id->has_peer)
        HASH_DELETE(by_peer, cm->peers, id);
    cm_forget_qp(id);
    if (id->state == CM_STATE_LISTENING)
        forget_service(id);
    cm->id_count--;
    free(id);
}

/* The last word of an ID. False when nothing is to be waited for after it. */
static bool say_farewell(struct cm_id *id, uint64_t now)
{
    const struct cm_bytes none = {0};

    switch (id->state) {
    case CM_STATE_LISTENING:
        end_children(id, now);
        return false;
    case CM_STATE_REQ_SENT:
        cm_send_reject(id, CM_REASON_TIMEOUT);
        return false;
    case CM_STATE_REP_SENT:
    case CM_STATE_REQ_RECEIVED:
    case CM_STATE_REP_RECEIVED:
        cm_refuse(id, CM_REASON_CONSUMER, none, none, now);
        return true; /* until it was said often enough */
    case CM_STATE_SIDR_RECEIVED:
        cm_resolve_reply(id, CM_SIDR_REJECTED, 0, 0, none, now);
        return true;
    case CM_STATE_ESTABLISHED:
        cm_disconnect(id, none, now);
        return true;
    case CM_STATE_DREQ_SENT:
    case CM_STATE_TIMEWAIT:
    case CM_STATE_ANSWERED:
        return true;
    case CM_STATE_IDLE:
    case CM_STATE_SIDR_SENT:
    case CM_STATE_OVER:
        break;
    }
    return false;
}

void cm_id_free(struct cm_id *id, uint64_t now)
{
    id->orphan = true;
    drop_events(id);
    cm_id_answered(id);
    if (!say_farewell(id, now))
        cm_id_release(id);
}

void cm_leave(struct cm *cm, uint64_t now)
{
    struct cm_id *id;
    struct cm_id *next;

    /* The end of a listener ends others, and has nothing to say itself. */
    HASH_ITER (by_comm_id, cm->ids, id, next) {
        /* Nobody will answer when a DREQ is repeated, whose DREP got lost. */
        if (id->state == CM_STATE_TIMEWAIT && id->said_drep)
            cm_send_again(id);
        else if (!id->orphan && id->state != CM_STATE_LISTENING && !say_farewell(id, now))
            cm_enter_over(id);
    }
}

void cm_id_set_patience(struct cm_id *id, uint64_t patience_ns)
{
    id->patience_ns = patience_ns;
}

void cm_id_set_user(struct cm_id *id, void *user)
{
    id->user = user;
}

void *cm_id_user(const struct cm_id *id)
{
    return id->user;
}

enum cm_state cm_id_state(const struct cm_id *id)
{
    return id->state;
}

const struct path *cm_id_path(const struct cm_id *id)
{
    return &id->path;
}

uint32_t cm_id_comm_id(const struct cm_id *id)
{
    return id->comm_id;
}

uint32_t cm_id_remote_qpn(const struct cm_id *id)
{
    return id->remote.qpn;
}

bool cm_raise(struct cm_id *id, enum cm_event_type type, const struct cm_message *message,
              struct cm_id *listener)
{
    struct cm_event_node *node;

    if (id->orphan)
        return true;
    node = malloc(sizeof(*node));
    if (node == NULL)
        return false;
    node->event = (struct cm_event){.type = type, .id = id, .listener = listener};
    if (message != NULL) {
        node->event.has_message = true;
        node->event.message = *message;
    }
    list_push_tail(&id->cm->events, &node->link);
    return true;
}

bool cm_event_next(struct cm *cm, struct cm_event *out)
{
    struct list *link = list_pop_head(&cm->events);
    struct cm_event_node *node;

    if (link == NULL)
        return false;
    node = LIST_ENTRY(link, struct cm_event_node, link);
    *out = node->event;
    out->id->taken = true;
    free(node);
    return true;
}
