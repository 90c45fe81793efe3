/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes wrong with hosts and ways as a whole: cuts, partitions, processes
 * that stop, applications that forget to receive or give a connection up. All
 * of it ends before the wire is healed.
 */
#include "sim/app.h"
#include "sim/census.h"

#define RNR_STORM 20u /* refusals */

static uint64_t until(const struct world *w, struct dice *d, uint64_t longest)
{
    uint64_t end = w->now + dice_between(d, 1, longest);

    return end < w->plan.heal_ns ? end : w->plan.heal_ns;
}

/* The next of its kind. Retries must win in the end, but where they are to be used up. */
static uint64_t later(struct app *a, uint64_t longest)
{
    uint64_t pause = a->world.plan.mode == MODE_exhaustion ? 0 : 20 * longest;

    return a->world.now + pause + dice_below(&a->dice, 2 * longest);
}

/* --- ways --- */

static void cut_one_way(struct world *w, uint32_t from, uint32_t to, uint64_t end)
{
    w->directions[from][to].cut_until_ns = end;
    ladder_note(w->ladder, w->now, from, "cut to host %u until %.3f us", to, (double)end / 1000);
}

/* No host of the one group reaches one of the other. */
static void partition(struct app *a, uint64_t end)
{
    uint32_t hosts = a->world.plan.host_count;
    uint32_t group = (uint32_t)dice_between(&a->dice, 1, (1u << hosts) - 2);

    for (uint32_t i = 0; i < hosts; i++) {
        for (uint32_t k = 0; k < hosts; k++) {
            if ((group >> i & 1) != (group >> k & 1))
                cut_one_way(&a->world, i, k, end);
        }
    }
    census_add(TROUBLE_PARTITION, 1);
}

static void cut(struct app *a)
{
    struct world *w = &a->world;
    struct dice *d = &a->dice;
    uint64_t end = until(w, d, w->plan.cut_ns);
    uint32_t from = (uint32_t)dice_below(d, w->plan.host_count);
    uint32_t to = (uint32_t)dice_below(d, w->plan.host_count);

    if (dice_percent(d, 40)) {
        partition(a, end);
        return;
    }
    cut_one_way(w, from, to, end);
    if (dice_percent(d, 50))
        cut_one_way(w, to, from, end);
}

static void give_up(struct app *a)
{
    struct connection *c = &a->connections[dice_below(&a->dice, a->connection_count)];

    switch (dice_below(&a->dice, 3)) {
    case 0:
        connection_abort(c);
        break;
    case 1:
        connection_destroy(c);
        break;
    case 2:
        connection_close(c);
        break;
    }
}

/* --- hosts --- */

static void stop(struct app *a)
{
    struct world *w = &a->world;
    struct host *h = &w->hosts[dice_below(&a->dice, w->plan.host_count)];

    h->stopped_until_ns = until(w, &a->dice, w->plan.stop_ns);
    census_add(TROUBLE_STOPPED, 1);
    ladder_note(w->ladder, w->now, h->index, "its process stops until %.3f us",
                (double)h->stopped_until_ns / 1000);
}

static uint64_t rnr_naks(const struct app *a)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < a->world.plan.host_count; i++)
        sum += engine_counters(a->world.hosts[i].engine)->rnr_nak_rcv;
    return sum;
}

static void starve(struct app *a)
{
    struct world *w = &a->world;
    struct app_host *home = &a->hosts[dice_below(&a->dice, w->plan.host_count)];

    home->famine_until_ns = until(w, &a->dice, w->plan.famine_ns);
    home->rnr_naks_before = rnr_naks(a);
    ladder_note(w->ladder, w->now, home->host->index, "posts no receive requests until %.3f us",
                (double)home->famine_until_ns / 1000);
}

bool trouble_starves(const struct app_host *home)
{
    return home->host->world->now < home->famine_until_ns;
}

static void end_famines(struct app *a)
{
    for (uint32_t i = 0; i < a->world.plan.host_count; i++) {
        struct app_host *home = &a->hosts[i];

        if (home->famine_until_ns == 0 || trouble_starves(home))
            continue;
        home->famine_until_ns = 0;
        if (rnr_naks(a) - home->rnr_naks_before >= RNR_STORM)
            census_add(TROUBLE_RNR_STORM, 1);
    }
}

void trouble_turn(struct app *a)
{
    const struct world *w = &a->world;
    const struct plan *p = &w->plan;

    end_famines(a);
    if (world_is_healed(w))
        return;
    if (p->stop_ns > 0 && w->now >= a->next_stop_ns) {
        a->next_stop_ns = later(a, p->stop_ns);
        stop(a);
    }
    if (p->famine_ns > 0 && w->now >= a->next_famine_ns) {
        a->next_famine_ns = w->now + dice_below(&a->dice, 4 * p->famine_ns);
        starve(a);
    }
    if (p->cut_ns > 0 && w->now >= a->next_cut_ns) {
        a->next_cut_ns = later(a, p->cut_ns);
        cut(a);
    }
    if (p->mode == MODE_exhaustion && !a->finished && w->now >= a->next_end_ns) {
        a->next_end_ns = w->now + dice_below(&a->dice, p->heal_ns / 2);
        give_up(a);
    }
}
