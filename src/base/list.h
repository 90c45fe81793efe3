/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Circular doubly linked lists through links embedded in the members. A link
 * that is on no list points to itself, so that "is it queued" is derived.
 */
#ifndef UROCE_BASE_LIST_H
#define UROCE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The struct that holds the link. */
#define LIST_ENTRY(link, type, member) ((type *)(void *)(((char *)(link)) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

/* For a head: no members. For a link: on no list. */
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_push_tail(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_push_head(struct list *head, struct list *link)
{
    list_push_tail(head->next, link);
}

/* Takes link off its list; does nothing if it is on none. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Takes the first member off, or returns NULL. */
static inline struct list *list_pop_head(struct list *head)
{
    struct list *first = head->next;

    if (first == head)
        return NULL;
    list_remove(first);
    return first;
}

#endif
