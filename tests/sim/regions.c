/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions that come, change and go while work is under way. One that nobody
 * uses gets another address, so that its old key must be dead at once; a
 * region with windows keeps what it has.
 */
#include <errno.h>

#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

/* Keys of other regions stay as they are. */
static void churn(struct app *a, struct app_host *home)
{
    struct mr_attr attr = {.base = home->cell_book.bytes,
                           .len = home->cell_book.len,
                           .iova = dice_u64(&a->dice) >> 1,
                           .access = ACCESS_REMOTE_READ};
    struct mr *mrs[8];
    uint32_t count = (uint32_t)dice_between(&a->dice, 1, 8);

    for (uint32_t i = 0; i < count; i++)
        EXPECT(mr_new(home->pd, &attr, &mrs[i]) == 0, "mr_new fails");
    for (uint32_t i = 0; i < count; i++)
        EXPECT(mr_free(mrs[i]) == 0, "mr_free fails");
}

static bool names_region(enum wr_opcode opcode)
{
    return opcode == WR_WRITE_IMM || !opcode_takes_receive(opcode);
}

/* A request of the peer is under way that may name the target, or a bind of its owner. */
static bool is_target_in_use(const struct endpoint *ep)
{
    const struct channel *own = &ep->channel;
    const struct channel *c = &ep->peer->channel;

    for (uint32_t i = own->completed; i < own->count; i++) {
        if (own->messages[i]->opcode == WR_BIND_MW)
            return true;
    }
    for (uint32_t i = c->completed; i < c->count; i++) {
        if (names_region(c->messages[i]->opcode))
            return true;
    }
    /* Nobody sees how long a WRITE of UC is on its way; one that is late is lost. */
    return !endpoint_is_reliable(ep) && ep->app->world.plan.mode == MODE_lossless;
}

static void move_target(struct endpoint *ep)
{
    uint32_t key = ep->target.mr->key;

    if (ep->connection->state != CONNECTION_RUNS || ep->connection->refusal || is_target_in_use(ep))
        return;
    if (ep->target.mr->window_count > 0) {
        EXPECT(mr_change(ep->target.mr, NULL, NULL) == -EBUSY, "%s: a region with windows changes",
               ep->channel.name);
        EXPECT(ep->target.mr->key == key, "%s: a refused change changes the key", ep->channel.name);
        return;
    }
    region_move(&ep->target, &ep->app->dice);
    census_add(TROUBLE_MOVED, 1);
}

void regions_turn(struct app *a, struct app_host *home)
{
    if (dice_percent(&a->dice, 2))
        churn(a, home);
    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (ep->home != home || !dice_percent(&a->dice, 3))
            continue;
        if (arena_move(&ep->arena, &a->dice))
            census_add(TROUBLE_MOVED_OWN, 1);
        if (ep->peer)
            move_target(ep);
    }
}
