/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains: opened by inode or without one, closed when the last holder closes. */
#include "verbs/xrcd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/own_descriptor.h"
#include "verbs/context.h"

/* Under the node's lock. */
struct domain {
    struct list link; /* on domains, if it has an inode */
    struct device_handle *device;
    uint32_t fork_generation;
    int fd; /* of the inode, so that its number is not given to another; -1: no inode */
    dev_t file_system;
    ino_t inode;
    uint32_t open_count;
    struct xrcd *xrcd;
};

static struct list domains = {&domains, &domains};

static struct domain *find(const struct context_handle *c, const struct stat *file)
{
    for (struct list *l = domains.next; l != &domains; l = l->next) {
        struct domain *d = LIST_ENTRY(l, struct domain, link);

        if (d->device == c->device && d->fork_generation == c->fork_generation &&
            d->file_system == file->st_dev && d->inode == file->st_ino)
            return d;
    }
    return NULL;
}

/* file: NULL for a domain that nobody else is to find. 0 or an errno. */
static int make(struct context_handle *c, int fd, const struct stat *file, struct domain **out)
{
    struct domain *d = calloc(1, sizeof(*d));
    int error = ENOMEM;

    if (d == NULL)
        return ENOMEM;
    *d = (struct domain){.device = c->device, .fork_generation = c->fork_generation, .fd = -1};
    list_init(&d->link);
    if (file != NULL) {
        d->fd = own_descriptor_copy(fd);
        error = errno;
        if (d->fd < 0)
            goto free_domain;
        d->file_system = file->st_dev;
        d->inode = file->st_ino;
    }
    error = -xrcd_new(node_engine(c->node), &d->xrcd);
    if (error != 0)
        goto close_file;
    if (file != NULL)
        list_push_tail(&domains, &d->link);
    *out = d;
    return 0;

close_file:
    if (d->fd >= 0)
        close(d->fd);
free_domain:
    free(d);
    return error;
}

static void release(struct domain *d)
{
    int error;

    assert(d->open_count > 0);
    if (--d->open_count > 0)
        return;
    list_remove(&d->link);
    error = xrcd_free(d->xrcd);
    assert(error == 0); /* what is in it holds a handle */
    (void)error;
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

/* The errors are the kernel's (ib_uverbs_open_xrcd); the man page names none. 0 or an errno. */
static int find_or_make(struct context_handle *c, const struct ibv_xrcd_init_attr *attr,
                        struct domain **out)
{
    struct stat file;
    int error = 0;

    if (attr->fd == -1)
        return make(c, -1, NULL, out);
    if (fstat(attr->fd, &file) != 0)
        return errno;
    *out = find(c, &file);
    if (*out == NULL)
        error = (attr->oflags & O_CREAT) != 0 ? make(c, attr->fd, &file, out) : EAGAIN;
    else if ((attr->oflags & O_EXCL) != 0)
        error = EINVAL;
    return error;
}

static int check(const struct context_handle *c, const struct ibv_xrcd_init_attr *attr)
{
    const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

    if (!context_alive(c))
        return EIO;
    if ((attr->comp_mask & ~needed) != 0)
        return EOPNOTSUPP;
    return attr->comp_mask == needed ? 0 : EINVAL;
}

struct ibv_xrcd *xrcd_handle_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    struct context_handle *c = context_of(context);
    struct xrcd_handle *h;
    int error = check(c, attr);

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    h->ibv.context = context;
    h->context = c;
    node_lock(c->node);
    error = find_or_make(c, attr, &h->domain);
    if (error == 0) {
        h->domain->open_count++;
        h->xrcd = h->domain->xrcd;
        context_get(c);
    }
    node_unlock(c->node);
    if (error == 0)
        return &h->ibv;
    free(h);

fail:
    errno = error;
    return NULL;
}

int xrcd_handle_close(struct ibv_xrcd *ibv)
{
    struct xrcd_handle *h = xrcd_of(ibv);
    struct context_handle *c = h->context;
    bool in_use;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    in_use = h->use_count > 0;
    if (!in_use)
        release(h->domain);
    node_unlock(c->node);
    if (in_use)
        return EBUSY;
    free(h);
    context_put(c);
    return 0;
}
