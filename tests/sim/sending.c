/* SPDX-License-Identifier: BSD-2-Clause */
/* Rolls send requests, posts them and tells the checkers what must come of them. */
#include <stdlib.h>
#include <string.h>

#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"
#include "support/pattern.h"

#define RKEY_OF_NOTHING 0xdeadbeefu

/* --- what to send --- */

static enum wr_opcode roll_opcode(struct endpoint *ep)
{
    enum wr_opcode opcode =
        (enum wr_opcode)dice_weighted(&ep->app->dice, ep->weights, WR_OPCODE_COUNT);

    return windows_can(ep, opcode) ? opcode : WR_SEND;
}

static uint32_t roll_length(struct endpoint *ep, enum wr_opcode opcode, uint32_t max)
{
    struct dice *d = &ep->app->dice;
    uint32_t pmtu = ep->channel.pmtu;
    const uint32_t edges[] = {0, 1, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu};
    uint32_t len;

    if (opcode_is_atomic(opcode) || opcode == WR_ATOMIC_WRITE)
        return 8;
    if (opcode_is_local(opcode) || opcode == WR_FLUSH)
        return 0;
    if (dice_percent(d, 40))
        len = edges[dice_below(d, sizeof(edges) / sizeof(edges[0]))];
    else if (dice_percent(d, 40))
        len = (uint32_t)dice_below(d, 300);
    else
        len = (uint32_t)dice_below(d, (uint64_t)max + 1);
    if (len > max)
        len = (uint32_t)dice_below(d, (uint64_t)max + 1);
    if (len > ep->bytes_left)
        len = (uint32_t)ep->bytes_left;
    return len;
}

/* The queue that the message takes from. */
static const struct receive_queue *queue_of(const struct message *m, const struct endpoint *to)
{
    return m->queue ? m->queue : to->receives;
}

static uint32_t undelivered(const struct endpoint *ep, const struct receive_queue *q)
{
    const struct channel *c = &ep->channel;
    uint32_t count = 0;
    uint32_t i;

    for (i = c->delivered > c->life_first ? c->delivered : c->life_first; i < c->count; i++)
        count +=
            opcode_takes_receive(c->messages[i]->opcode) && queue_of(c->messages[i], ep->peer) == q;
    return count;
}

/* How many requests of q a datagram will still take, if it is not lost. */
static uint32_t promised_by_datagram(const struct app *a, const struct message *m,
                                     const struct receive_queue *q)
{
    const struct endpoint *to = m->destination;
    uint32_t count = to && to->receives == q && m->deliveries == 0;

    for (uint32_t i = 0; m->members && i < a->endpoint_count; i++)
        count +=
            (a->endpoints[i]->member & m->members & ~m->reached) && a->endpoints[i]->receives == q;
    return count;
}

/* Messages that were posted and will take a receive request of q. */
static uint32_t promised(const struct app *a, const struct receive_queue *q)
{
    uint32_t count = 0;
    uint32_t i;
    uint32_t k;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        if (ep->peer)
            count += undelivered(ep, q);
        for (k = 0; !ep->peer && k < ep->channel.count; k++) {
            const struct message *m = ep->channel.messages[k];

            count += promised_by_datagram(a, m, q);
        }
    }
    return count;
}

/* Where nothing may be lost for want of a receive request, one must be there for each message. */
bool sending_has_receive(const struct endpoint *ep, const struct receive_queue *q, uint32_t count)
{
    const struct world *w = &ep->app->world;

    if (w->plan.mode != MODE_lossless && !(w->plan.mode == MODE_exhaustion && world_is_healed(w)))
        return true;
    if (w->plan.mode == MODE_exhaustion && !endpoint_is_reliable(ep))
        return true;
    return promised(ep->app, q) + q->lost + count <= q->open;
}

/* XRC: one of the SRQs of the peer's domain. */
static void name_srq(struct endpoint *ep, struct message *m)
{
    const struct app_srq *s =
        &ep->peer->home->srqs[dice_between(&ep->app->dice, SRQ_XRC_FIRST, SRQ_XRC_LAST)];

    m->queue = &s->queue;
    m->srqn = srq_number(s->srq);
}

struct message *sending_message(struct endpoint *ep, enum wr_opcode opcode, uint32_t length)
{
    struct message *m = calloc(1, sizeof(*m));

    EXPECT(m, "no memory for the test itself");
    m->id = ++ep->app->message_ids;
    m->opcode = opcode;
    m->length = length;
    m->imm = (uint32_t)dice_u64(&ep->app->dice);
    m->flush_placement = FLUSH_GLOBAL;
    if (ep->service == SERVICE_XRC)
        name_srq(ep, m);
    return m;
}

/* Room comes back only with a completion, so at least one of those in the queue has one. */
bool sending_must_signal(const struct endpoint *ep)
{
    return ep->init.all_signaled || ep->messages_left <= 1 ||
           ep->unsignalled + 1 >= ep->init.cap.send_wr_max;
}

static void roll_flags(struct endpoint *ep, struct message *m)
{
    struct dice *d = &ep->app->dice;

    if (dice_percent(d, ep->signal_percent) || sending_must_signal(ep))
        m->flags |= WR_SIGNALED;
    if (dice_percent(d, 20))
        m->flags |= WR_SOLICITED;
    if (endpoint_is_reliable(ep) && dice_percent(d, 10))
        m->flags |= WR_FENCE;
    if (opcode_carries_data(m->opcode) && m->length <= ep->init.cap.inline_max &&
        dice_percent(d, 40))
        m->flags |= WR_INLINE;
}

/* --- memory --- */

bool sending_take_memory(struct endpoint *ep, struct draft *d, uint32_t piece_count)
{
    struct message *m = d->m;
    struct dice *dice = &ep->app->dice;
    uint32_t left = m->length;
    uint32_t i;

    for (i = 0; i < piece_count; i++) {
        uint32_t part = i + 1 == piece_count ? left : (uint32_t)dice_below(dice, left + 1);

        if (dice_percent(dice, 10) && i + 1 < piece_count)
            part = 0;
        if (!arena_take(&ep->arena, part, dice, &m->pieces[i]))
            break;
        m->piece_count++;
        left -= part;
        d->sges[i] = arena_sge(&ep->arena, &m->pieces[i], dice);
    }
    d->sge_count = m->piece_count;
    if (i == piece_count)
        return true;
    while (m->piece_count > 0)
        arena_give(&ep->arena, &m->pieces[--m->piece_count]);
    return false;
}

void sending_write_message(const struct message *m)
{
    uint32_t done = 0;
    uint32_t i;

    for (i = 0; i < m->piece_count; i++) {
        uint8_t *bytes = malloc(m->pieces[i].len + 1);

        EXPECT(bytes, "no memory for the test itself");
        pattern_fill(m->id, done, bytes, m->pieces[i].len);
        book_write(m->pieces[i], bytes);
        done += m->pieces[i].len;
        free(bytes);
    }
}

/* Inline bytes live until the post returns. */
static uint8_t *use_inline(struct endpoint *ep, struct draft *d)
{
    uint8_t *bytes = malloc(d->m->length + 1);
    uint32_t half = (uint32_t)dice_below(&ep->app->dice, d->m->length + 1);

    EXPECT(bytes, "no memory for the test itself");
    pattern_fill(d->m->id, 0, bytes, d->m->length);
    d->sges[0] = (struct sge){.addr = (uintptr_t)bytes, .length = half};
    d->sges[1] = (struct sge){.addr = (uintptr_t)bytes + half, .length = d->m->length - half};
    d->sge_count = 2;
    return bytes;
}

/* --- what it does to the peer --- */

static bool overlaps_read(const struct channel *c, const struct piece *where)
{
    uint32_t i;

    for (i = c->completed; i < c->count; i++) {
        const struct piece *other = &c->messages[i]->where;

        if (c->messages[i]->opcode == WR_READ && other->offset < where->offset + where->len &&
            where->offset < other->offset + other->len)
            return true;
    }
    return false;
}

static void claim_target(struct message *m)
{
    uint8_t *bytes = malloc(m->length + 1);

    EXPECT(bytes, "no memory for the test itself");
    pattern_fill(m->id, 0, bytes, m->length);
    m->target = claim_open(m->where, bytes);
    free(bytes);
}

/* What the READ must bring: all that was posted before it is done by then. */
static void claim_answer(struct message *m)
{
    const uint8_t *bytes = m->where.book->future + m->where.offset;
    uint32_t i;

    for (i = 0; i < m->piece_count; i++) {
        m->answer[i] = m->pieces[i].len ? claim_open(m->pieces[i], bytes) : NULL;
        bytes += m->pieces[i].len;
    }
}

/* Something comes as the answer. */
static void claim_anything(struct message *m)
{
    uint32_t i;

    for (i = 0; opcode_fetches(m->opcode) && i < m->piece_count; i++)
        m->answer[i] = m->pieces[i].len ? claim_open(m->pieces[i], NULL) : NULL;
}

void sending_claim(struct endpoint *ep, struct message *m)
{
    if (app_is_hostile(ep->app)) {
        claim_anything(m);
    } else if (opcode_is_write(m->opcode) || m->opcode == WR_ATOMIC_WRITE) {
        if (overlaps_read(&ep->channel, &m->where))
            m->flags |= WR_FENCE;
        claim_target(m);
    } else if (m->opcode == WR_READ) {
        claim_answer(m);
    }
}

static uint32_t right_for(enum wr_opcode opcode)
{
    if (opcode == WR_READ)
        return ACCESS_REMOTE_READ;
    if (opcode == WR_FLUSH)
        return ACCESS_FLUSH_GLOBAL;
    return opcode_is_atomic(opcode) ? ACCESS_REMOTE_ATOMIC : ACCESS_REMOTE_WRITE;
}

/* The message goes through the peer's region, or a window. */
static struct door choose_door(struct endpoint *ep, struct message *m, const struct entry *e)
{
    struct door door = windows_door(ep->peer, e);

    if (door.through)
        census_add(TROUBLE_THROUGH_WINDOW, 1);
    m->through = door.through;
    m->rkey = door.key;
    return door;
}

/* A place of len bytes from first on, whose address is a multiple of unit. */
static uint64_t roll_place(const struct door *door, uint32_t len, uint32_t unit, struct dice *d)
{
    uint64_t first = -door->addr % unit;

    return first + unit * dice_below(d, (door->len - len - first) / unit + 1);
}

static void aim_at_memory(struct endpoint *ep, struct message *m)
{
    struct dice *d = &ep->app->dice;
    struct book *book = &ep->peer->target_book;
    uint32_t unit = m->opcode == WR_ATOMIC_WRITE ? 8 : 1;
    struct door door = choose_door(ep, m,
                                   &(struct entry){.region = &ep->peer->target,
                                                   .what = {book, 0, m->length + unit - 1},
                                                   .anywhere = true,
                                                   .right = right_for(m->opcode)});
    uint64_t place = roll_place(&door, m->length, unit, d);

    m->where = (struct piece){book, door.offset + place, m->length};
    m->remote_addr = door.addr + place;
    if (m->length == 0 && dice_percent(d, 50)) { /* no key is looked at */
        m->remote_addr = dice_u64(d);
        m->rkey = RKEY_OF_NOTHING;
    }
    sending_claim(ep, m);
}

/* What was written before it is in memory when it is done, as all that completes is. */
static void aim_flush(struct endpoint *ep, struct message *m)
{
    struct dice *d = &ep->app->dice;
    struct door door = choose_door(ep, m,
                                   &(struct entry){.region = &ep->peer->target,
                                                   .what = {&ep->peer->target_book, 0, 0},
                                                   .anywhere = true,
                                                   .right = right_for(m->opcode)});

    m->flush_selectivity = dice_percent(d, 30) ? FLUSH_REGION : FLUSH_RANGE;
    m->flush_len = (uint32_t)dice_below(d, door.len + 1);
    m->remote_addr = door.addr + dice_below(d, door.len - m->flush_len + 1);
    if (m->flush_selectivity == FLUSH_REGION) /* no address is looked at */
        m->remote_addr = dice_u64(d);
}

static uint64_t expected_value(const struct cell *c)
{
    uint64_t value = c->guess;

    for (uint32_t i = 0; i < c->open_count; i++)
        value = atomic_result(c->open[i], value);
    return value;
}

static void aim_at_cell(struct endpoint *ep, struct message *m)
{
    struct dice *d = &ep->app->dice;
    struct app_host *to = ep->peer->home;
    bool alone = app_expects_errors(ep->app) || dice_percent(d, 50);
    uint32_t index = alone ? SHARED_CELLS + ep->index : (uint32_t)dice_below(d, SHARED_CELLS);
    struct door door;

    m->cell = &to->cells[index];
    door = choose_door(ep, m,
                       &(struct entry){.region = &to->cell_region,
                                       .what = m->cell->where,
                                       .right = right_for(m->opcode)});
    m->remote_addr = door.addr + (m->cell->where.offset - door.offset);
    m->swap = dice_u64(d);
    m->compare = dice_u64(d) | 1;
    if (m->opcode == WR_CMP_SWAP && dice_percent(d, 70))
        m->compare = expected_value(m->cell);
    claim_anything(m);
}

void sending_aim_datagram(struct endpoint *ep, struct draft *d, const struct endpoint *to)
{
    d->ah = (struct ah){
        .pd = ep->home->pd,
        .path = {.src = ep->home->host->gid, .dst = to->home->host->gid, .hop_limit = 64}};
    d->m->destination = to;
    d->m->path = d->ah.path;
    d->m->remote_qpn = qp_qpn(to->qp);
    d->m->remote_qkey = SIM_QKEY;
}

static void aim(struct endpoint *ep, struct draft *d, const struct endpoint *to)
{
    struct message *m = d->m;

    if (ep->service == SERVICE_UD)
        sending_aim_datagram(ep, d, to);
    else if (opcode_is_atomic(m->opcode))
        aim_at_cell(ep, m);
    else if (m->opcode == WR_READ || m->opcode == WR_ATOMIC_WRITE || opcode_is_write(m->opcode))
        aim_at_memory(ep, m);
    else if (m->opcode == WR_FLUSH)
        aim_flush(ep, m);
    else if (m->opcode == WR_BIND_MW)
        windows_bind(ep, d);
    else if (m->opcode == WR_LOCAL_INV)
        windows_invalidate(ep, m);
    else if (m->opcode == WR_SEND_INV)
        windows_send_invalidate(ep, m);
}

/* --- posting --- */

void sending_post(struct endpoint *ep, struct draft *d)
{
    struct message *m = d->m;
    struct dice *dice = &ep->app->dice;
    struct send_wr wr;
    int error;

    m->wr_id = app_work(ep->app, &(struct work){.ep = ep, .message = m, .home = ep->home});
    wr = (struct send_wr){
        .wr_id = m->wr_id,
        .opcode = m->opcode,
        .flags = ep->init.all_signaled ? m->flags & ~(uint32_t)WR_SIGNALED : m->flags,
        .sges = d->sges,
        .sge_count = d->sge_count,
        .imm = m->imm,
        .remote_addr = m->remote_addr,
        .rkey = m->rkey,
        .compare = m->compare,
        .swap = m->swap,
        .ah = ep->service == SERVICE_UD ? &d->ah : NULL,
        .flush_len = m->flush_len,
        .flush_placement = m->flush_placement,
        .flush_selectivity = m->flush_selectivity,
        .remote_srqn = m->srqn,
        .remote_qpn = m->remote_qpn,
        .remote_qkey = m->remote_qkey,
        .bind = &d->bind,
    };
    if (m->remote_qkey == SIM_QKEY && dice_percent(dice, 20))
        wr.remote_qkey |= 0x80000000u; /* the QP's own, which is the same */
    requests_posted(&ep->channel, m);
    if (m->cell)
        atomics_posted(m->cell, m);
    ep->unsignalled = m->flags & WR_SIGNALED ? 0 : ep->unsignalled + 1;
    ladder_note(ep->app->world.ladder, ep->app->world.now, ep->home->host->index,
                "%s posts %s%s%s%s", ep->channel.name, message_name(m),
                m->flags & WR_SIGNALED ? "" : " unsignalled", m->flags & WR_FENCE ? " fence" : "",
                m->flags & WR_INLINE ? " inline" : "");
    error = qp_post_send(ep->qp, &wr);
    EXPECT(error == 0, "%s: qp_post_send of %s returns %d", ep->channel.name, message_name(m),
           error);
}

void sending_post_late(struct endpoint *ep)
{
    struct draft d = {0};

    if (requests_open(&ep->channel) >= ep->init.cap.send_wr_max)
        return;
    d.m = sending_message(ep, WR_SEND, 0);
    d.m->refused = true;
    sending_post(ep, &d);
}

const struct endpoint *sending_destination(struct endpoint *ep)
{
    struct app *a = ep->app;
    const struct endpoint *to;

    if (ep->service != SERVICE_UD)
        return ep->peer;
    do {
        to = a->endpoints[dice_below(&a->dice, a->endpoint_count)];
    } while (to->service != SERVICE_UD || to == ep);
    return to;
}

static uint32_t length_max(struct endpoint *ep, const struct endpoint *to)
{
    if (ep->service != SERVICE_UD)
        return ep->app->world.plan.size_max;
    if (ep->init.pmtu < to->init.pmtu ||
        (ep->app->world.plan.mode != MODE_lossless && dice_percent(&ep->app->dice, 10)))
        return ep->init.pmtu; /* too long for the other's port: dropped */
    return to->init.pmtu;
}

/* Memory for the draft. When there is none and nothing signalled would bring some back: a request
 * without bytes. */
static bool draw_memory(struct endpoint *ep, struct draft *d, uint8_t **inlined)
{
    struct message *m = d->m;
    uint32_t count = (uint32_t)dice_between(&ep->app->dice, 1, ep->init.cap.send_sge_max);

    if (m->flags & WR_INLINE) {
        *inlined = use_inline(ep, d);
        return true;
    }
    if (opcode_is_local(m->opcode) || m->opcode == WR_FLUSH)
        return true;
    if (m->length == 8 && count > 2)
        count = 2;
    if (sending_take_memory(ep, d, count)) {
        if (opcode_carries_data(m->opcode))
            sending_write_message(m);
        return true;
    }
    if (ep->unsignalled == 0 || opcode_is_atomic(m->opcode) || m->opcode == WR_ATOMIC_WRITE)
        return false;
    m->length = 0;
    m->flags |= WR_SIGNALED;
    return sending_take_memory(ep, d, 1);
}

static bool post_random(struct endpoint *ep)
{
    enum wr_opcode opcode = roll_opcode(ep);
    const struct endpoint *to = sending_destination(ep);
    struct draft d = {0};
    uint8_t *inlined = NULL;
    uint32_t length;

    length = roll_length(ep, opcode, length_max(ep, to));
    d.m = sending_message(ep, opcode, length);
    roll_flags(ep, d.m);
    if ((opcode_takes_receive(opcode) && !sending_has_receive(ep, queue_of(d.m, to), 1)) ||
        !draw_memory(ep, &d, &inlined)) {
        free(d.m);
        return false;
    }
    aim(ep, &d, to);
    sending_post(ep, &d);
    if (inlined)
        memset(inlined, 0xa5, d.m->length);
    free(inlined);
    ep->messages_left--;
    ep->bytes_left -= d.m->length < ep->bytes_left ? d.m->length : ep->bytes_left;
    return true;
}

uint32_t sending_turn(struct endpoint *ep)
{
    uint32_t burst = (uint32_t)dice_below(&ep->app->dice, 5);
    uint32_t count = 0;

    if (ep->connection && ep->connection->state != CONNECTION_RUNS)
        return 0;
    if (qp_state(ep->qp) != QP_RTS && qp_state(ep->qp) != QP_SQD)
        return 0;
    while (count < burst && ep->messages_left > 0 &&
           requests_open(&ep->channel) < ep->init.cap.send_wr_max) {
        if (refusal_turn(ep))
            return 1;
        if (ep->service == SERVICE_UD && dice_percent(&ep->app->dice, 20)) {
            if (!groups_post(ep))
                break;
        } else if (!post_random(ep))
            break;
        count++;
    }
    return count;
}

/* --- completions --- */

void sending_release(struct endpoint *ep, bool life_over)
{
    struct channel *c = &ep->channel;

    while (ep->released < c->completed) {
        struct message *m = c->messages[ep->released];

        if (m->status != STATUS_SUCCESS && !life_over)
            return;
        while (m->piece_count > 0)
            arena_give(&ep->arena, &m->pieces[--m->piece_count]);
        ep->released++;
    }
}

static void note_giving_up(const struct endpoint *ep, const struct completion *wc)
{
    const struct world *w = &ep->app->world;

    if (wc->status == STATUS_RNR_RETRY_EXC_ERR)
        census_add(TROUBLE_RNR_EXCEEDED, 1);
    if (wc->status != STATUS_RETRY_EXC_ERR)
        return;
    census_add(TROUBLE_RETRIES_EXCEEDED, 1);
    if (ep->peer->home->host->stopped_until_ns > w->now)
        census_add(TROUBLE_OUTLASTED, 1);
}

void sending_completed(struct endpoint *ep, struct message *m, const struct completion *wc)
{
    EXPECT(wc->owner == ep->qp && wc->qpn == qp_qpn(ep->qp), "%s: completion of another QP",
           ep->channel.name);
    requests_completed(&ep->channel, m, wc);
    note_giving_up(ep, wc);
    if (wc->status == STATUS_SUCCESS && m->opcode == WR_FLUSH)
        census_add(TROUBLE_FLUSHED, 1);
    if (wc->status == STATUS_SUCCESS && m->opcode == WR_ATOMIC_WRITE)
        census_add(TROUBLE_ATOMICALLY_WRITTEN, 1);
    if (wc->status == STATUS_RNR_RETRY_EXC_ERR && !app_is_hostile(ep->app))
        EXPECT(ep->flow.rnr_naks == ep->attr.rnr_retry + 1u,
               "%s: gives up after %u RNR NAKs, not %u", ep->channel.name, ep->flow.rnr_naks,
               ep->attr.rnr_retry + 1u);
    sending_release(ep, false);
    if (wc->status != STATUS_SUCCESS && ep->connection)
        connection_close(ep->connection);
}
