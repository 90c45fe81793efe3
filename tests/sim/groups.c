/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of UD queue pairs: who is attached, and datagrams for all of
 * them. A member gets each at most once, the sender never.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/limits.h"
#include "engine/multicast.h"
#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"
#include "wire/packet.h"

struct multicast group_id(const struct plan *p, uint32_t index)
{
    struct multicast id = {.gid = {{[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 7}}};

    if (p->ipv6)
        id = (struct multicast){.gid = {{0xff, 0x05, [12] = 7}}};
    id.gid.bytes[15] = (uint8_t)(index + 1);
    return id;
}

uint32_t groups_members_on(const struct app *a, const struct host *h, const struct gid *gid)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        for (uint32_t g = 0; ep->home->host == h && g < GROUPS; g++) {
            struct multicast id = group_id(&a->world.plan, g);

            count += (ep->groups >> g & 1) && gid_equal(&id.gid, gid);
        }
    }
    return count;
}

static void join(struct endpoint *ep, uint32_t index)
{
    struct multicast id = group_id(&ep->app->world.plan, index);

    EXPECT(multicast_attach(ep->qp, &id) == 0, "%s cannot be attached", ep->channel.name);
    EXPECT(multicast_attach(ep->qp, &id) == 0, "%s cannot be attached again", ep->channel.name);
    ep->groups |= 1u << index;
}

static void leave(struct endpoint *ep, uint32_t index)
{
    struct multicast id = group_id(&ep->app->world.plan, index);

    EXPECT(multicast_detach(ep->qp, &id) == 0, "%s cannot be detached", ep->channel.name);
    ep->groups &= ~(1u << index);
}

void groups_join(struct endpoint *ep)
{
    ep->groups = 0;
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (dice_percent(&ep->app->dice, 60))
            join(ep, g);
    }
}

void groups_leave(struct endpoint *ep)
{
    if (ep->groups != 0)
        EXPECT(qp_free(ep->qp) == -EBUSY, "%s is freed while it is attached", ep->channel.name);
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (ep->groups >> g & 1)
            leave(ep, g);
    }
}

void groups_change(struct endpoint *ep)
{
    uint32_t index = (uint32_t)dice_below(&ep->app->dice, GROUPS);

    if (ep->app->world.plan.mode == MODE_lossless) /* where each must get each */
        return;
    if (ep->groups >> index & 1)
        leave(ep, index);
    else
        join(ep, index);
    census_add(TROUBLE_GROUP_CHANGED, 1);
}

/* Who may get a datagram for the group now or while it is on its way. */
static uint32_t members(const struct endpoint *from, uint32_t index)
{
    const struct app *a = from->app;
    bool settled = a->world.plan.mode == MODE_lossless;
    uint32_t bits = 0;

    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        if (ep != from && ep->service == SERVICE_UD && (!settled || (ep->groups >> index & 1)))
            bits |= ep->member;
    }
    return bits;
}

/* Some may share a queue. */
static bool all_have_receives(const struct endpoint *ep, uint32_t bits)
{
    const struct app *a = ep->app;

    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct receive_queue *q = a->endpoints[i]->receives;
        uint32_t count = 0;

        for (uint32_t k = 0; k < a->endpoint_count; k++)
            count += (a->endpoints[k]->member & bits) && a->endpoints[k]->receives == q;
        if (count > 0 && !sending_has_receive(ep, q, count))
            return false;
    }
    return true;
}

static uint32_t least_pmtu(const struct app *a)
{
    uint32_t least = PMTU_MAX;

    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        if (ep->service == SERVICE_UD && ep->init.pmtu < least)
            least = ep->init.pmtu;
    }
    return least;
}

bool groups_post(struct endpoint *ep)
{
    struct dice *dice = &ep->app->dice;
    uint32_t index = (uint32_t)dice_below(dice, GROUPS);
    uint32_t bits = members(ep, index);
    struct draft d = {0};

    if (bits == 0 || !all_have_receives(ep, bits))
        return false;
    d.m = sending_message(ep, dice_percent(dice, 50) ? WR_SEND : WR_SEND_IMM,
                          (uint32_t)dice_below(dice, least_pmtu(ep->app) + 1));
    if (dice_percent(dice, ep->signal_percent) || sending_must_signal(ep))
        d.m->flags |= WR_SIGNALED;
    if (!sending_take_memory(ep, &d, 1)) {
        free(d.m);
        return false;
    }
    sending_write_message(d.m);
    sending_aim_datagram(ep, &d, ep);
    d.m->destination = NULL;
    d.m->members = bits;
    d.ah.path.dst = group_id(&ep->app->world.plan, index).gid;
    d.m->path = d.ah.path;
    d.m->remote_qpn = QPN_MULTICAST;
    sending_post(ep, &d);
    ep->messages_left--;
    return true;
}
