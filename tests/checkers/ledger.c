/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of a channel by PSN, and their names: see ledger.h. */
#include "checkers/ledger.h"

#include <stdio.h>
#include <stdlib.h>

void channel_begin(struct channel *c, uint32_t psn)
{
    c->life_first = c->count;
    c->completed = c->count;
    c->delivered = c->count;
    c->failed = false;
    c->psn_first = 0x1000000u + psn; /* a PSN before the first is a number too */
    c->psn_next = c->psn_first;
    c->bytes_next = 0;
}

void channel_fini(struct channel *c)
{
    uint32_t i;

    for (i = 0; i < c->count; i++)
        free(c->messages[i]);
    free(c->messages);
}

struct message *channel_find(const struct channel *c, uint64_t psn)
{
    uint32_t low = c->life_first;
    uint32_t high = c->count;

    if (psn < c->psn_first || psn >= c->psn_next)
        return NULL;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (c->messages[middle]->psn <= psn)
            low = middle;
        else
            high = middle;
    }
    return c->messages[low];
}

uint64_t channel_bytes_before(const struct channel *c, uint64_t psn)
{
    const struct message *m = channel_find(c, psn);
    uint64_t part;

    if (!m)
        return psn < c->psn_first ? 0 : c->bytes_next;
    if (!opcode_carries_data(m->opcode))
        return m->bytes_before;
    part = (psn - m->psn) * c->pmtu;
    return m->bytes_before + (part < m->length ? part : m->length);
}

const char *wr_opcode_name(enum wr_opcode opcode)
{
    static const char *const names[] = {
        [WR_WRITE] = "WRITE",         [WR_WRITE_IMM] = "WRITE_IMM",
        [WR_SEND] = "SEND",           [WR_SEND_IMM] = "SEND_IMM",
        [WR_READ] = "READ",           [WR_CMP_SWAP] = "CMP_SWAP",
        [WR_FETCH_ADD] = "FETCH_ADD", [WR_LOCAL_INV] = "LOCAL_INV",
        [WR_BIND_MW] = "BIND_MW",     [WR_SEND_INV] = "SEND_INV",
        [WR_FLUSH] = "FLUSH",         [WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
    };

    return (unsigned)opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : "?";
}

const char *message_name(const struct message *m)
{
    static char names[4][48];
    static unsigned turn;
    char *out = names[turn++ % 4];

    snprintf(out, sizeof(names[0]), "request %u (%s, %u B)", m->index, wr_opcode_name(m->opcode),
             m->length);
    return out;
}

const char *status_name(enum completion_status status)
{
    static const char *const names[] = {
        [STATUS_SUCCESS] = "SUCCESS",
        [STATUS_LOC_LEN_ERR] = "LOC_LEN_ERR",
        [STATUS_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
        [STATUS_LOC_PROT_ERR] = "LOC_PROT_ERR",
        [STATUS_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
        [STATUS_MW_BIND_ERR] = "MW_BIND_ERR",
        [STATUS_BAD_RESP_ERR] = "BAD_RESP_ERR",
        [STATUS_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
        [STATUS_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
        [STATUS_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
        [STATUS_REM_OP_ERR] = "REM_OP_ERR",
        [STATUS_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
        [STATUS_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
        [STATUS_GENERAL_ERR] = "GENERAL_ERR",
    };
    const char *name = (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status] : NULL;

    return name ? name : "?";
}
