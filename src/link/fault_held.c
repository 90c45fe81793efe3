/* SPDX-License-Identifier: BSD-2-Clause */
/* A sorted list: packets mostly come in the order in which they go on. */
#include "link/fault_held.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int fault_queue_open(struct fault_queue *q)
{
    *q = (struct fault_queue){.all = malloc(FAULT_HELD_MAX * sizeof(*q->all))};
    list_init(&q->waiting);
    list_init(&q->spare);
    return q->all != NULL ? 0 : -ENOMEM;
}

void fault_queue_close(struct fault_queue *q)
{
    free(q->all);
    q->all = NULL;
}

struct fault_held *fault_queue_take_spare(struct fault_queue *q)
{
    struct list *link = list_pop_head(&q->spare);

    if (link != NULL)
        return LIST_ENTRY(link, struct fault_held, link);
    return q->used < FAULT_HELD_MAX ? &q->all[q->used++] : NULL;
}

static void insert(struct fault_queue *q, struct fault_held *h)
{
    struct list *before = q->waiting.prev;

    while (before != &q->waiting && LIST_ENTRY(before, struct fault_held, link)->due_ns > h->due_ns)
        before = before->prev;
    list_push_head(before, &h->link);
}

void fault_queue_put(struct fault_queue *q, struct fault_held *h)
{
    assert(h->len <= sizeof(h->bytes));
    insert(q, h);
    q->bytes += h->len;
    q->to_overtake += h->overtakers > 0;
}

void fault_queue_pass(struct fault_queue *q, uint32_t qpn)
{
    struct list *next;

    if (q->to_overtake == 0)
        return;
    for (struct list *link = q->waiting.next; link != &q->waiting; link = next) {
        struct fault_held *h = LIST_ENTRY(link, struct fault_held, link);

        next = link->next;
        if (h->qpn != qpn || h->overtakers == 0 || --h->overtakers > 0)
            continue;
        q->to_overtake--;
        h->due_ns = 0;
        list_remove(link);
        insert(q, h);
    }
}

struct fault_held *fault_queue_first(const struct fault_queue *q)
{
    return list_empty(&q->waiting) ? NULL : LIST_ENTRY(q->waiting.next, struct fault_held, link);
}

void fault_queue_remove(struct fault_queue *q, struct fault_held *h)
{
    assert(q->bytes >= h->len);
    q->bytes -= h->len;
    q->to_overtake -= h->overtakers > 0;
    list_remove(&h->link);
    list_push_head(&q->spare, &h->link);
}
