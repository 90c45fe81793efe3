/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of send requests: see requests.h. */
#include "checkers/requests.h"

#include <stdlib.h>
#include <string.h>

#include "checkers/atomics.h"
#include "support/expect.h"

static uint32_t packets_of(const struct channel *c, const struct message *m)
{
    if (opcode_is_local(m->opcode))
        return 0;
    if (opcode_is_atomic(m->opcode) || m->length == 0)
        return 1;
    return (m->length + c->pmtu - 1) / c->pmtu;
}

void requests_posted(struct channel *c, struct message *m)
{
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 64;
        c->messages = realloc(c->messages, c->capacity * sizeof(struct message *));
        EXPECT(c->messages, "no memory for the test itself");
    }
    m->index = c->count;
    m->psn = c->psn_next;
    m->packet_count = packets_of(c, m);
    m->bytes_before = c->bytes_next;
    c->psn_next += m->packet_count;
    if (opcode_carries_data(m->opcode))
        c->bytes_next += m->length;
    c->messages[c->count++] = m;
}

static enum completion_opcode completion_of(enum wr_opcode opcode)
{
    switch (opcode) {
    case WR_WRITE:
    case WR_WRITE_IMM:
        return COMPLETION_WRITE;
    case WR_READ:
        return COMPLETION_READ;
    case WR_CMP_SWAP:
        return COMPLETION_CMP_SWAP;
    case WR_FETCH_ADD:
        return COMPLETION_FETCH_ADD;
    case WR_FLUSH:
        return COMPLETION_FLUSH;
    case WR_ATOMIC_WRITE:
        return COMPLETION_ATOMIC_WRITE;
    case WR_SEND:
    case WR_SEND_IMM:
    case WR_SEND_INV:
        return COMPLETION_SEND;
    case WR_LOCAL_INV:
        return COMPLETION_LOCAL_INV;
    case WR_BIND_MW:
        return COMPLETION_BIND_MW;
    }
    return COMPLETION_SEND;
}

static void take_answer(struct message *m)
{
    uint32_t i;

    if (opcode_is_atomic(m->opcode)) {
        uint8_t *out = (uint8_t *)&m->original;

        for (i = 0; i < m->piece_count; i++) {
            memcpy(out, m->pieces[i].book->bytes + m->pieces[i].offset, m->pieces[i].len);
            out += m->pieces[i].len;
        }
        atomics_answered(m->cell, m);
    }
    for (i = 0; i < m->piece_count; i++) {
        if (m->answer[i])
            claim_done(m->answer[i], message_name(m));
        m->answer[i] = NULL;
    }
}

static void succeed(struct channel *c, struct message *m)
{
    EXPECT(!m->refused || !channel_is_reliable(c), "%s: %s succeeded and must not", c->name,
           message_name(m));
    m->completed = true;
    m->status = STATUS_SUCCESS;
    if (opcode_fetches(m->opcode))
        take_answer(m);
    if (channel_is_reliable(c) && m->target) {
        claim_done(m->target, message_name(m));
        m->target = NULL;
    }
}

static void check_status(struct channel *c, const struct message *m, const struct completion *wc)
{
    uint32_t allowed = c->errors_allowed | m->errors_allowed;

    if (c->failed) {
        EXPECT(wc->status == STATUS_WR_FLUSH_ERR, "%s: %s ends with %s after an error", c->name,
               message_name(m), status_name(wc->status));
        return;
    }
    EXPECT(c->forged || (allowed & STATUS_BIT(wc->status)), "%s: %s ends with %s", c->name,
           message_name(m), status_name(wc->status));
}

static void check_success(struct channel *c, const struct message *m, const struct completion *wc)
{
    EXPECT(!c->failed, "%s: %s succeeds after an error", c->name, message_name(m));
    EXPECT(m->flags & WR_SIGNALED, "%s: %s is unsignalled and completes", c->name, message_name(m));
    EXPECT(wc->opcode == completion_of(m->opcode), "%s: %s completes as opcode %d", c->name,
           message_name(m), (int)wc->opcode);
    if (opcode_fetches(m->opcode)) {
        uint32_t len = opcode_is_atomic(m->opcode) ? 8 : m->length;

        EXPECT(wc->byte_len == len, "%s: %s completes with byte_len %u", c->name, message_name(m),
               wc->byte_len);
    }
}

void requests_completed(struct channel *c, struct message *m, const struct completion *wc)
{
    EXPECT(!m->completed, "%s: %s completes a second time or late (status %s)", c->name,
           message_name(m), status_name(wc->status));
    EXPECT(m->index >= c->completed, "%s: %s completes out of order", c->name, message_name(m));
    while (c->completed < m->index) {
        struct message *before = c->messages[c->completed++];

        EXPECT(!(before->flags & WR_SIGNALED), "%s: %s completes before %s", c->name,
               message_name(m), message_name(before));
        EXPECT(!c->failed, "%s: %s was not flushed", c->name, message_name(before));
        succeed(c, before);
    }
    c->completed++;
    if (wc->status == STATUS_SUCCESS) {
        check_success(c, m, wc);
        succeed(c, m);
        return;
    }
    check_status(c, m, wc);
    c->failed = true;
    m->completed = true;
    m->status = wc->status;
}

bool requests_only_silent(const struct channel *c)
{
    uint32_t i;

    for (i = c->completed; i < c->count; i++) {
        if (c->failed || (c->messages[i]->flags & WR_SIGNALED))
            return false;
    }
    return c->completed < c->count;
}

void requests_forget(struct channel *c)
{
    for (; c->completed < c->count; c->completed++) {
        c->messages[c->completed]->completed = true;
        c->messages[c->completed]->status = STATUS_WR_FLUSH_ERR;
    }
}

void requests_end_life(struct channel *c)
{
    uint32_t i;
    uint32_t k;

    while (requests_only_silent(c))
        succeed(c, c->messages[c->completed++]);
    for (i = c->life_first; i < c->count; i++) {
        struct message *m = c->messages[i];

        EXPECT(m->completed, "%s: %s never completed", c->name, message_name(m));
        if (m->target)
            claim_settle(m->target, message_name(m));
        m->target = NULL;
        for (k = 0; k < m->piece_count; k++) {
            if (m->answer[k])
                claim_settle(m->answer[k], message_name(m));
            m->answer[k] = NULL;
        }
    }
}
