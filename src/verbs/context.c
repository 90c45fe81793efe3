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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/own_descriptor.h"
#include "verbs/cq.h"
#include "verbs/dm.h"
#include "verbs/event.h"
#include "verbs/event_fd.h"
#include "verbs/export.h"
#include "verbs/mr.h"
#include "verbs/mw.h"
#include "verbs/pd.h"
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
    v->alloc_td = td_handle_new;
    v->dealloc_td = td_handle_free;
    v->alloc_parent_domain = pd_handle_new_parent;
    v->alloc_dm = dm_handle_new;
    v->free_dm = dm_handle_free;
    v->reg_dm_mr = mr_handle_new_dm;
    v->alloc_null_mr = mr_handle_new_null;
    v->advise_mr = mr_handle_advise;
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

/* The command descriptor answers no command. Programs duplicate it, and import what they find by
 * it, so it is open on a file of its own. */
static int open_command_file(void)
{
    return own_descriptor(memfd_create("uroce-device", MFD_CLOEXEC));
}

static bool file_of(int fd, struct context_file *out)
{
    struct stat s;

    if (fstat(fd, &s) != 0)
        return false;
    *out = (struct context_file){.device = s.st_dev, .inode = s.st_ino};
    return true;
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
    struct device state;

    device_open(c->device);
    device_snapshot(c->device, &state);
    async_source_init(&c->port, ASYNC_PORT);
    node_lock(c->node);
    c->told = device_changes(c->device);
    c->port_tag = node_port_tag(c->node, state.name, state.netdev);
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

/* cmd_fd is taken on success. NULL with errno set. */
static struct ibv_context *open_with(struct ibv_device *device, int cmd_fd)
{
    struct context_handle *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    if (!file_of(cmd_fd, &c->file))
        goto free_context;
    c->verbs.context.cmd_fd = cmd_fd;
    c->verbs.context.async_fd = event_fd_open();
    if (c->verbs.context.async_fd < 0)
        goto free_context;
    c->node = node_get();
    if (c->node == NULL)
        goto close_async;
    node_set_event_handler(event_dispatch);
    node_set_change_handler(tell_changes);
    fill_verbs(&c->verbs, device);
    c->device = device_of(device);
    c->fork_generation = fork_generation;
    c->use_count = 1;
    list_init(&c->async);
    enlist(c);
    return &c->verbs.context;

close_async:
    close(c->verbs.context.async_fd);
free_context:
    free(c);
    return NULL;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context;
    int cmd_fd;

    if (!device_is_there(device)) {
        errno = ENODEV;
        return NULL;
    }
    cmd_fd = open_command_file();
    if (cmd_fd < 0)
        return NULL;
    context = open_with(device, cmd_fd);
    if (context == NULL)
        close(cmd_fd);
    return context;
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

/* The device that a duplicate of its command descriptor names; NULL: none of this process. */
static struct ibv_device *find_open(struct node *n, int cmd_fd)
{
    struct ibv_device *found = NULL;
    struct context_file file;

    if (!file_of(cmd_fd, &file))
        return NULL;
    node_lock(n);
    for (struct list *l = open_contexts.next; l != &open_contexts && found == NULL; l = l->next) {
        const struct context_handle *c = LIST_ENTRY(l, struct context_handle, link);

        if (context_alive(c) && file_same(&c->file, &file))
            found = c->verbs.context.device;
    }
    node_unlock(n);
    return found;
}

/* Within one process. Memory of another is never reachable, so its devices are not known here. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    struct node *n = node_get();
    struct ibv_context *context = NULL;
    struct ibv_device *device;

    if (n == NULL)
        return NULL;
    device = find_open(n, cmd_fd);
    if (device != NULL)
        context = open_with(device, cmd_fd);
    else
        errno = EPROTONOSUPPORT;
    node_put(n);
    return context;
}
