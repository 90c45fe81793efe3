/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: create, poll, arm, resize, destroy. */
#include "verbs/cq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "verbs/channel.h"
#include "engine/limits.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/pd.h"

#define NS_PER_US 1000u
#define POLL_BATCH 16u /* entries translated at a time; they lie on the stack */

static const uint64_t wc_flags_supported = (uint64_t)IBV_WC_STANDARD_FLAGS |
                                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/* --- create and destroy --- */

/* The parent domain that a CQ may be made with is one of the same context. */
static bool domain_fits(const struct context_handle *c, const struct ibv_cq_init_attr_ex *attr)
{
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) == 0)
        return true;
    return attr->parent_domain != NULL && attr->parent_domain->context == &c->verbs.context &&
           pd_of(attr->parent_domain)->domain != NULL;
}

static int check_new(struct context_handle *c, const struct ibv_cq_init_attr_ex *attr)
{
    const uint32_t mask_known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const uint32_t flags_known =
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

    if (!context_alive(c))
        return EIO;
    if ((attr->comp_mask & ~mask_known) != 0)
        return EOPNOTSUPP;
    if (!domain_fits(c, attr))
        return EINVAL;
    if ((attr->wc_flags & ~wc_flags_supported) != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & ~flags_known) != 0)
        return EOPNOTSUPP;
    if (attr->comp_vector >= (uint32_t)c->verbs.context.num_comp_vectors)
        return EINVAL;
    if (attr->channel != NULL && attr->channel->context != &c->verbs.context)
        return EINVAL;
    return 0;
}

static bool has_flag(const struct ibv_cq_init_attr_ex *attr, uint32_t flag)
{
    return (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & flag) != 0;
}

static void fill(struct cq_handle *h, struct context_handle *c,
                 const struct ibv_cq_init_attr_ex *attr)
{
    h->context = c;
    h->channel = attr->channel != NULL ? channel_of(attr->channel) : NULL;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0)
        h->domain = pd_of(attr->parent_domain);
    h->single_threaded = has_flag(attr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    h->ibv.context = &c->verbs.context;
    h->ibv.channel = attr->channel;
    h->ibv.cq_context = attr->cq_context;
    list_init(&h->comp_link);
    async_source_init(&h->async, ASYNC_CQ);
    pthread_mutex_init(&h->ibv.mutex, NULL);
    pthread_cond_init(&h->ibv.cond, NULL);
    pthread_mutex_init(&h->poll_lock, NULL);
    cq_ex_fill(h);
}

static void free_handle(struct cq_handle *h)
{
    pthread_mutex_destroy(&h->poll_lock);
    pthread_cond_destroy(&h->ibv.cond);
    pthread_mutex_destroy(&h->ibv.mutex);
    free(h);
}

/* Puts the ring where the application wants it. 0 or an errno. */
static int place_ring(struct cq_handle *h)
{
    size_t len = cq_ring_len(cq_capacity(h->cq));
    int error = rings_alloc(&h->rings, h->domain, len, RINGS_CQ);

    node_lock(h->context->node);
    if (error != 0)
        cq_free(h->cq);
    else if (h->rings.bytes != NULL)
        cq_set_ring(h->cq, h->rings.bytes);
    node_unlock(h->context->node);
    return error;
}

/* Makes the engine's part. 0 or an errno. */
static int create(struct cq_handle *h, const struct ibv_cq_init_attr_ex *attr)
{
    struct context_handle *c = h->context;
    int error;

    node_lock(c->node);
    error = -cq_new(node_engine(c->node), attr->cqe, h, &h->cq);
    node_unlock(c->node);
    if (error == 0)
        error = place_ring(h);
    if (error != 0)
        return error;
    node_lock(c->node);
    h->ibv.cqe = (int)cq_capacity(h->cq);
    if (has_flag(attr, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
        cq_ignore_overrun(h->cq);
    context_get(c);
    if (h->channel != NULL)
        h->channel->ibv.refcnt++;
    node_unlock(c->node);
    return 0;
}

struct ibv_cq_ex *cq_handle_new_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct context_handle *c = context_of(context);
    struct cq_handle *h;
    int error = check_new(c, attr);

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    fill(h, c, attr);
    error = create(h, attr);
    if (error == 0)
        return &h->ibv;
    free_handle(h);

fail:
    errno = error;
    return NULL;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int comp_vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe > 0 ? (uint32_t)cqe : 0, /* 0 is refused */
        .cq_context = cq_context,
        .channel = channel,
        .comp_vector = (uint32_t)comp_vector,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
    };
    struct ibv_cq_ex *cq = cq_handle_new_ex(context, &attr);

    return cq != NULL ? ibv_cq_ex_to_cq(cq) : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    struct cq_handle *h = cq_of(cq);
    uint32_t capacity = cqe > 0 ? (uint32_t)cqe : 0;
    struct rings rings, unused;
    int error;

    if (!context_alive(h->context))
        return EIO;
    if (capacity > CQ_CAPACITY_MAX)
        return EINVAL;
    error = rings_alloc(&rings, h->domain, cq_ring_len(capacity), RINGS_CQ);
    if (error != 0)
        return error;
    unused = rings;
    node_lock(h->context->node);
    error = -cq_resize(h->cq, capacity);
    if (error == 0) {
        unused = h->rings;
        h->rings = rings;
        if (rings.bytes != NULL)
            cq_set_ring(h->cq, rings.bytes);
    }
    cq->cqe = (int)cq_capacity(h->cq);
    node_unlock(h->context->node);
    rings_free(&unused);
    return error;
}

int cq_handle_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    struct cq_handle *h = cq_of(cq);

    if (!context_alive(h->context))
        return EIO;
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
        return EINVAL;
    node_lock(h->context->node);
    cq_moderate(h->cq, attr->moderate.cq_count, (uint64_t)attr->moderate.cq_period * NS_PER_US);
    node_unlock(h->context->node);
    return 0;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct cq_handle *h = cq_of(cq);
    struct context_handle *c = h->context;
    int error;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    error = cq_free(h->cq);
    if (error == 0) {
        async_withdraw(c, &h->async);
        if (h->channel != NULL) {
            channel_withdraw(h);
            h->channel->ibv.refcnt--;
        }
    }
    node_unlock(c->node);
    if (error != 0)
        return -error;
    ack_wait(&cq->mutex, &cq->cond, &cq->comp_events_completed, h->comp_reported);
    ack_wait(&cq->mutex, &cq->cond, &cq->async_events_completed, h->async.reported);
    rings_free(&h->rings);
    free_handle(h);
    context_put(c);
    return 0;
}

/* --- poll --- */

/* Takes what is queued; when that is nothing, makes progress and looks again. The lock is held. */
static int take(struct cq_handle *h, uint32_t count, struct completion *out)
{
    int taken = cq_poll(h->cq, count, out);

    if (taken == 0) {
        node_progress(h->context->node);
        taken = cq_poll(h->cq, count, out);
    }
    return taken;
}

/* Ends a poll that took so many: unlocks, and lets others run when polls keep finding nothing. */
static void leave_polled(struct cq_handle *h, int taken)
{
    uint32_t empty_polls = taken == 0 ? h->empty_polls + 1 : 0;

    h->empty_polls = empty_polls;
    node_leave(h->context->node);
    if (empty_polls > 0)
        node_idle_hint(h->context->node, empty_polls);
}

int cq_handle_take(struct cq_handle *h, uint32_t count, struct completion *out)
{
    int taken;

    if (!context_alive(h->context))
        return -EIO;
    node_enter(h->context->node);
    taken = take(h, count, out);
    leave_polled(h, taken);
    return taken;
}

unsigned completion_wc_flags(const struct completion *c)
{
    return c->flags; /* the numbers are the same, see numbers.c */
}

uint32_t completion_imm(const struct completion *c)
{
    return (c->flags & COMPLETION_IMM) != 0 ? htonl(c->imm) : c->imm;
}

static void translate(const struct completion *c, struct ibv_wc *wc)
{
    *wc = (struct ibv_wc){
        .wr_id = c->wr_id,
        .status = (enum ibv_wc_status)c->status,
        .opcode = (enum ibv_wc_opcode)c->opcode,
        .vendor_err = c->vendor_err,
        .byte_len = c->byte_len,
        .imm_data = completion_imm(c),
        .qp_num = c->qpn,
        .src_qp = c->src_qpn,
        .wc_flags = completion_wc_flags(c),
        .sl = c->service_level,
    };
}

int cq_handle_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
    struct cq_handle *h = cq_of(cq);
    struct completion batch[POLL_BATCH];
    int total = 0;
    int taken;

    if (!context_alive(h->context))
        return -EIO;
    if (num_entries <= 0)
        return num_entries < 0 ? -EINVAL : 0;
    node_enter(h->context->node);
    do {
        uint32_t left = (uint32_t)(num_entries - total);
        uint32_t count = left < POLL_BATCH ? left : POLL_BATCH;

        taken = total == 0 ? take(h, count, batch) : cq_poll(h->cq, count, batch);
        for (int i = 0; i < taken; i++)
            translate(&batch[i], &wc[total + i]);
        total += taken > 0 ? taken : 0;
    } while (taken == (int)POLL_BATCH && total < num_entries);
    leave_polled(h, total);
    return total == 0 ? taken : total;
}

/* Without a channel it is armed all the same, as by adapters; nobody is told. */
int cq_handle_arm(struct ibv_cq *cq, int solicited_only)
{
    struct cq_handle *h = cq_of(cq);

    if (!context_alive(h->context))
        return EIO;
    node_enter(h->context->node);
    cq_arm(h->cq, solicited_only != 0);
    node_leave(h->context->node);
    return 0;
}
