/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages on their way out, and time: what is repeated stands in its ID, what
 * is said once in a ring. A management datagram is a UD SEND ONLY from QP1 to
 * QP1 (IBA 13.5.1, 17.4.3 of the RoCEv2 annex).
 */
#include <assert.h>
#include <string.h>

#include "cm/cm_private.h"
#include "wire/packet.h"

#define HEADERS_LEN (BTH_LEN + DETH_LEN)
#define DATAGRAM_LEN (HEADERS_LEN + MAD_LEN + ICRC_LEN)
#define OPCODE_UD_SEND_ONLY 0x64u
#define PKEY 0xffffu
#define JITTER_PART 4u

void cm_reply_mad(struct cm *cm, const struct path *path, const uint8_t mad[MAD_LEN])
{
    struct cm_reply *reply = &cm->replies[cm->replies_tail % CM_REPLIES];

    if (cm->replies_tail - cm->replies_head == CM_REPLIES) {
        cm->counters.replies_dropped++;
        return;
    }
    cm->replies_tail++;
    reply->path = *path;
    memcpy(reply->mad, mad, MAD_LEN);
}

void cm_reply(struct cm *cm, const struct path *path, const struct cm_message *message)
{
    uint8_t mad[MAD_LEN];

    cm_write(message, mad);
    cm_reply_mad(cm, path, mad);
}

static void arm(struct cm_id *id, uint64_t due_ns)
{
    id->due_ns = due_ns;
    if (due_ns < id->cm->deadline_ns)
        id->cm->deadline_ns = due_ns;
    if (list_empty(&id->timer))
        list_push_tail(&id->cm->timers, &id->timer);
}

/* Not all at the same moment: those that were asked at once got lost together. */
static void arm_repeat(struct cm_id *id, uint64_t now)
{
    const uint64_t due_ns =
        now + id->repeat_ns - random_below(&id->cm->random, id->repeat_ns / JITTER_PART);

    arm(id, due_ns < id->give_up_ns ? due_ns : id->give_up_ns);
}

void cm_send(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
    cm_write(message, id->mad);
    id->repeat_ns = CM_REPEAT_FIRST_NS;
    id->give_up_ns = now + (id->retries + 1u) * id->answer_ns;
    arm_repeat(id, now);
    cm_send_again(id);
}

void cm_send_again(struct cm_id *id)
{
    if (list_empty(&id->ready))
        list_push_tail(&id->cm->ready, &id->ready);
}

void cm_stop(struct cm_id *id)
{
    list_remove(&id->timer);
    list_remove(&id->ready);
}

void cm_wait(struct cm_id *id, uint64_t until_ns)
{
    cm_stop(id);
    arm(id, until_ns);
}

bool cm_ask_again(struct cm_id *id, uint64_t now)
{
    if (now >= id->patient_until_ns)
        return false;
    cm_wait(id, now + CM_ASK_AGAIN_NS);
    return true;
}

static void arm_reminder(struct cm_id *id, uint64_t now)
{
    const uint64_t grid = (now + CM_REMIND_NS) / CM_REMIND_GRID_NS + 1;

    arm(id, grid * CM_REMIND_GRID_NS);
}

void cm_enter_established(struct cm_id *id, uint64_t now)
{
    id->state = CM_STATE_ESTABLISHED;
    cm_stop(id);
    arm_reminder(id, now);
}

void cm_enter_timewait(struct cm_id *id, uint64_t now)
{
    id->state = CM_STATE_TIMEWAIT;
    cm_forget_qp(id);
    cm_wait(id, now + CM_TIMEWAIT_NS);
}

void cm_answer(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
    cm_write(message, id->mad);
    id->state = CM_STATE_ANSWERED;
    cm_forget_qp(id);
    cm_wait(id, now + CM_ANSWERED_NS + (id->peer_waits ? cm_code_ns(CM_SERVICE_TIMEOUT) : 0));
    cm_send_again(id);
}

void cm_enter_over(struct cm_id *id)
{
    cm_stop(id);
    id->state = CM_STATE_OVER;
    cm_forget_qp(id);
    if (id->orphan)
        cm_id_release(id);
}

bool cm_wants_transmit(const struct cm *cm)
{
    return !list_empty(&cm->ready) || cm->replies_head != cm->replies_tail;
}

static void fill(struct cm *cm, struct datagram_batch *b, const struct path *path,
                 const uint8_t *mad)
{
    const struct headers h = {
        .bth =
            {
                .opcode = OPCODE_UD_SEND_ONLY,
                .pkey = PKEY,
                .dest_qpn = GSI_QPN,
                .ack_req = true,
                .psn = psn_make(cm->psn++),
            },
        .deth = {.qkey = GSI_QKEY, .src_qpn = GSI_QPN},
    };

    headers_write(&h, b->buffer);
    memcpy(b->buffer + HEADERS_LEN, mad, MAD_LEN);
    b->path = *path;
    b->src_port = roce_src_port_ud(GSI_QPN);
    b->dest_slot = GSI_QPN >> 16;
    b->count = 1;
    b->segment_len = DATAGRAM_LEN;
    b->last_len = DATAGRAM_LEN;
    b->payload_absent = 0;
    b->damaged = false;
    cm->counters.sent++;
}

uint32_t cm_transmit(struct cm *cm, struct datagram_batch *b)
{
    struct list *link;

    b->count = 0;
    if (b->capacity < DATAGRAM_LEN || b->count_max == 0)
        return 0;
    if (cm->replies_head != cm->replies_tail) {
        const struct cm_reply *reply = &cm->replies[cm->replies_head++ % CM_REPLIES];

        fill(cm, b, &reply->path, reply->mad);
        return 1;
    }
    link = list_pop_head(&cm->ready);
    if (link != NULL) {
        const struct cm_id *id = LIST_ENTRY(link, struct cm_id, ready);

        fill(cm, b, &id->path, id->mad);
    }
    return b->count;
}

uint64_t cm_deadline(const struct cm *cm)
{
    return cm->deadline_ns;
}

static uint64_t earliest(const struct cm *cm)
{
    uint64_t deadline = CM_NEVER;

    for (const struct list *l = cm->timers.next; l != &cm->timers; l = l->next) {
        const struct cm_id *id = LIST_ENTRY(l, struct cm_id, timer);

        if (id->due_ns < deadline)
            deadline = id->due_ns;
    }
    return deadline;
}

/* Nobody answered in all that time. */
static void give_up(struct cm_id *id, uint64_t now)
{
    id->cm->counters.gave_up++;
    if (id->state == CM_STATE_DREQ_SENT) {
        cm_raise(id, CM_EVENT_DISCONNECTED, NULL, NULL);
        cm_enter_timewait(id, now);
        return;
    }
    if (id->state != CM_STATE_SIDR_SENT)
        cm_send_reject(id, CM_REASON_TIMEOUT);
    cm_raise(id, CM_EVENT_UNREACHABLE, NULL, NULL);
    cm_enter_over(id);
}

static void expire(struct cm_id *id, uint64_t now)
{
    if (id->state == CM_STATE_TIMEWAIT)
        cm_raise(id, CM_EVENT_TIMEWAIT_OVER, NULL, NULL);
    if (id->state == CM_STATE_TIMEWAIT || id->state == CM_STATE_ANSWERED) {
        cm_enter_over(id);
        return;
    }
    if (id->state == CM_STATE_ESTABLISHED) {
        id->cm->counters.reminders++;
        arm_reminder(id, now);
        cm_send_again(id);
        return;
    }
    if (now >= id->give_up_ns) {
        give_up(id, now);
        return;
    }
    id->cm->counters.repeats++;
    id->repeat_ns *= 2;
    if (id->repeat_ns > id->answer_ns)
        id->repeat_ns = id->answer_ns;
    arm_repeat(id, now);
    cm_send_again(id);
}

void cm_advance(struct cm *cm, uint64_t now)
{
    for (struct list *l = cm->timers.next, *next; l != &cm->timers; l = next) {
        struct cm_id *id = LIST_ENTRY(l, struct cm_id, timer);

        next = l->next;
        if (id->due_ns <= now)
            expire(id, now);
    }
    cm->deadline_ns = earliest(cm);
}
