/* SPDX-License-Identifier: BSD-2-Clause */
/* What was counted, told at the end of a process that was asked to tell (UROCE_LOG=info). */
#include "node/node_private.h"

#include <string.h>

#include "base/log.h"

struct counter {
    const char *name;
    const char *text;
};

/* values is a struct of counters, of which table names each field in order. */
static void report(const char *layer, const struct counter *table, const void *values, size_t len)
{
    for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
        uint64_t value;

        memcpy(&value, (const char *)values + i * sizeof(value), sizeof(value));
        if (value > 0)
            log_info("%s: %llu %s (%s)", layer, (unsigned long long)value, table[i].name,
                     table[i].text);
    }
}

#define COUNTER_ROW(counter, sentence) {.name = #counter, .text = sentence},

void report_counters(const struct node *n)
{
    static const struct counter of_engine[] = {ENGINE_COUNTERS(COUNTER_ROW)};
    static const struct counter of_link[] = {LINK_COUNTERS(COUNTER_ROW)};
    static const struct counter of_cm[] = {CM_COUNTERS(COUNTER_ROW)};
    static const struct counter of_node[] = {NODE_COUNTERS(COUNTER_ROW)};
    struct node_counters node = n->counters;

    if (!log_enabled(LOG_LEVEL_INFO) || n->link == NULL)
        return;
    node.pokes = atomic_load_explicit(&n->pokes, memory_order_relaxed);
    report("engine", of_engine, engine_counters(n->engine), sizeof(struct engine_counters));
    report("link", of_link, &n->link->counters, sizeof(struct link_counters));
    report("cm", of_cm, cm_counters(n->cm), sizeof(struct cm_counters));
    report("node", of_node, &node, sizeof(node));
}
