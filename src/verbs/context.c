/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing devices, and the tables of calls that an open device
 * carries. A slot that is left empty means "not supported": the inline
 * functions of the header answer EOPNOTSUPP for it.
 */
#include "verbs/context.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/event_fd.h"
#include "verbs/export.h"
#include "verbs/mw.h"
#include "verbs/port.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "verbs/xrcd.h"

uint32_t fork_generation;

static void count_fork(void)
{
    fork_generation++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

#undef ibv_query_port

static const struct ibv_context_ops context_ops = {
    ._compat_query_device = ibv_query_device,
    ._compat_query_port = ibv_query_port,
    .alloc_mw = mw_handle_new,
    .bind_mw = mw_handle_bind,
    .dealloc_mw = mw_handle_free,
    .poll_cq = cq_handle_poll,
    .req_notify_cq = cq_handle_arm,
    .post_srq_recv = srq_handle_post,
    .post_send = qp_handle_post_send,
    .post_recv = qp_handle_post_recv,
};

static void fill_verbs(struct verbs_context *v, struct ibv_device *device)
{
    v->query_port = port_query;
    v->modify_qp_rate_limit = qp_handle_modify_rate;
    v->modify_cq = cq_handle_modify;
    v->query_rt_values = context_query_clock;
    v->create_cq_ex = cq_handle_new_ex;
    v->query_device_ex = context_query_device;
    v->create_qp_ex = qp_handle_new_ex;
    v->create_srq_ex = srq_handle_new_ex;
    v->get_srq_num = srq_handle_number;
    v->open_qp = qp_handle_open;
    v->open_xrcd = xrcd_handle_open;
    v->close_xrcd = xrcd_handle_close;
    v->sz = sizeof(*v);
    v->context.device = device;
    v->context.ops = context_ops;
    v->context.num_comp_vectors = 1;
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&v->context.mutex, NULL);
}

/* cmd_fd answers no command; programs duplicate and compare it, so it is a descriptor of its own.
 */
static int open_descriptors(struct ibv_context *ibv)
{
    ibv->cmd_fd = event_fd_open();
    if (ibv->cmd_fd < 0)
        return -1;
    ibv->async_fd = event_fd_open();
    if (ibv->async_fd < 0)
        goto close_cmd;
    return 0;

close_cmd:
    close(ibv->cmd_fd);
    return -1;
}

/* Under the node's lock. */
static struct list open_contexts = {&open_contexts, &open_contexts};

/* The node's change handler. */
static void tell_changes(struct node *n)
{
    if (devices_refresh() != 0)
        return;
    node_lock(n);
    for (struct list *l = open_contexts.next; l != &open_contexts; l = l->next) {
        struct context_handle *c = LIST_ENTRY(l, struct context_handle, link);

        if (context_alive(c))
            event_tell_changes(c);
    }
    node_unlock(n);
}

/* From now on it hears of changes. */
static void enlist(struct context_handle *c)
{
    device_open(c->device);
    async_source_init(&c->port, ASYNC_PORT);
    node_lock(c->node);
    c->told = device_changes(c->device);
    list_push_tail(&open_contexts, &c->link);
    node_unlock(c->node);
}

static void delist(struct context_handle *c)
{
    node_lock(c->node);
    list_remove(&c->link);
    async_withdraw(c, &c->port);
    node_unlock(c->node);
    device_close(c->device);
}

static bool device_is_there(struct ibv_device *device)
{
    struct device state;

    return devices_refresh() == 0 && device_snapshot(device_of(device), &state);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct context_handle *c;

    if (!device_is_there(device)) {
        errno = ENODEV;
        return NULL;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    if (open_descriptors(&c->verbs.context) != 0)
        goto free_context;
    c->node = node_get();
    if (c->node == NULL)
        goto close_descriptors;
    node_set_event_handler(event_dispatch);
    node_set_change_handler(tell_changes);
    fill_verbs(&c->verbs, device);
    c->device = device_of(device);
    c->fork_generation = fork_generation;
    c->use_count = 1;
    list_init(&c->async);
    enlist(c);
    return &c->verbs.context;

close_descriptors:
    close(c->verbs.context.cmd_fd);
    close(c->verbs.context.async_fd);
free_context:
    free(c);
    return NULL;
}

void context_put(struct context_handle *c)
{
    bool last;

    node_lock(c->node);
    assert(c->use_count > 0);
    last = --c->use_count == 0;
    node_unlock(c->node);
    if (!last)
        return;
    assert(list_empty(&c->async));
    node_put(c->node);
    close(c->verbs.context.cmd_fd);
    close(c->verbs.context.async_fd);
    pthread_mutex_destroy(&c->verbs.context.mutex);
    free(c);
}

/* Objects that the application forgot keep the context's memory, and so stay harmless. */
EXPORT int ibv_close_device(struct ibv_context *ibv)
{
    struct context_handle *c = context_of(ibv);

    if (!context_alive(c))
        return EIO;
    delist(c);
    context_put(c);
    return 0;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    (void)cmd_fd;
    errno = EOPNOTSUPP;
    return NULL;
}
