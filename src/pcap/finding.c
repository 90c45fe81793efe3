/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/finding.h"

#include <assert.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum finding_class class;
    const char *text;
    const char *meaning;
} kinds[FINDING_COUNT] = {
#define FINDING_ROW(name, class, text, meaning) {#name, FINDING_CLASS_##class, text, meaning},
    FINDINGS(FINDING_ROW)
#undef FINDING_ROW
};

static const struct {
    bool alarm;
    const char *text;
} classes[FINDING_CLASS_COUNT] = {
#define FINDING_CLASS_ROW(name, alarm, text) {alarm, text},
    FINDING_CLASSES(FINDING_CLASS_ROW)
#undef FINDING_CLASS_ROW
};

const struct finding *finding_find(const struct finding_list *list, enum finding_kind kind)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].kind == kind)
            return &list->items[i];
    }
    return NULL;
}

struct finding *finding_of(struct finding_list *list, enum finding_kind kind)
{
    assert(kind < FINDING_COUNT);
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].kind == kind)
            return &list->items[i];
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
        struct finding *items = realloc(list->items, capacity * sizeof(*items));

        if (items == NULL)
            return NULL;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count] = (struct finding){.kind = kind};
    return &list->items[list->count++];
}

void finding_list_fini(struct finding_list *list)
{
    free(list->items);
    *list = (struct finding_list){.items = NULL};
}

const char *finding_name(enum finding_kind kind)
{
    assert(kind < FINDING_COUNT);
    return kinds[kind].name;
}

const char *finding_text(enum finding_kind kind)
{
    assert(kind < FINDING_COUNT);
    return kinds[kind].text;
}

const char *finding_meaning(enum finding_kind kind)
{
    assert(kind < FINDING_COUNT);
    return kinds[kind].meaning;
}

enum finding_class finding_class(enum finding_kind kind)
{
    assert(kind < FINDING_COUNT);
    return kinds[kind].class;
}

const char *finding_class_text(enum finding_class class)
{
    assert(class < FINDING_CLASS_COUNT);
    return classes[class].text;
}

bool finding_is_alarm(enum finding_kind kind)
{
    return classes[finding_class(kind)].alarm;
}
