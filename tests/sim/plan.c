/* SPDX-License-Identifier: BSD-2-Clause */
/* Rolls a plan from a seed: see plan.h. */
#include "sim/plan.h"

#include "support/dice.h"

#define US 1000ull
#define MS 1000000ull

const char *mode_name(enum sim_mode mode)
{
    static const char *const names[] = {
#define SIM_MODE_NAME(name, weight, text) #name,
        SIM_MODES(SIM_MODE_NAME)
#undef SIM_MODE_NAME
    };

    return names[mode];
}

static uint64_t pick(struct dice *d, const uint64_t *from, uint32_t count)
{
    return from[dice_below(d, count)];
}

#define PICK(d, ...)                                                                               \
    pick(d, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void roll_faults(struct plan *p, struct dice *d)
{
    /* Where nothing may fail, eight tries in a row must not be lost in a hundred thousand runs. */
    const uint32_t lose_max = p->mode == MODE_exhaustion || p->mode == MODE_hostile ? 80000 : 50000;

    p->faults = (struct faults){
        .lose = (uint32_t)PICK(d, 0, 1000, 10000, 30000, lose_max),
        .duplicate = (uint32_t)PICK(d, 0, 0, 2000, 20000, 100000),
        .reorder = (uint32_t)PICK(d, 0, 0, 2000, 20000, 100000),
        .corrupt = (uint32_t)PICK(d, 0, 1000, 10000),
        .delay = (uint32_t)PICK(d, 0, 0, 1000, 10000),
        .overtake = (uint32_t)PICK(d, 0, 0, 0, 0, 1000, 5000),
        .refuse = (uint32_t)PICK(d, 0, 0, 0, 5000, 20000),
        .shorten = (uint32_t)PICK(d, 0, 0, 0, 5000, 50000),
        .busy = (uint32_t)PICK(d, 0, 0, 0, 2000, 20000),
        .stray = (uint32_t)PICK(d, 0, 0, 2000, 20000),
    };
    if (p->mode == MODE_hostile)
        p->faults.forge = (uint32_t)PICK(d, 5000, 50000, 300000);
    if (p->mode == MODE_lossless || (p->mode == MODE_refusal && dice_percent(d, 60)))
        p->faults = (struct faults){0};
}

static void roll_wire(struct plan *p, struct dice *d)
{
    roll_faults(p, d);
    p->delay_ns = PICK(d, 200, 2 * US, 10 * US, 100 * US);
    p->jitter_ns = dice_below(d, p->delay_ns);
    p->reorder_ns = dice_between(d, p->delay_ns / 2, 4 * p->delay_ns);
    p->hold_ns = dice_between(d, p->delay_ns, 10 * p->delay_ns);
    p->ps_per_byte = PICK(d, 0, 80, 320, 800, 8000);
    p->heal_ns = PICK(d, 1 * MS, 5 * MS, 20 * MS, 20 * MS);
    if (p->mode == MODE_exhaustion)
        p->cut_ns = dice_between(d, 1 * MS, 10 * MS);
}

/* Nothing is lost by a mark. By dice of its own: what seeds are remembered for stays as it was. */
static void roll_marks(struct plan *p, uint64_t seed)
{
    struct dice d = dice_make(seed, 6);

    p->faults.mark = (uint32_t)PICK(&d, 0, 0, 0, 2000, 20000, 200000);
}

static void roll_hosts(struct plan *p, struct dice *d)
{
    p->host_count = (uint32_t)PICK(d, 2, 2, 2, 3, 4);
    p->ipv6 = dice_percent(d, 50);
    p->shared_address = p->host_count > 2 && dice_percent(d, 40);
    p->service_ns = PICK(d, 0, 0, 500, 5 * US, 20 * US);
    p->timer_slack_ns = PICK(d, 0, 100, 5 * US);
    p->app_gap_ns = PICK(d, 200, 1 * US, 5 * US, 20 * US);
    p->batch_count_max = (uint32_t)PICK(d, 1, 2, 5, 16, 64, 64);
    p->batch_capacity = (uint32_t)PICK(d, 4200, 9000, 20000, 65507, 65507);
    p->config = engine_config_default();
    for (uint32_t i = 0; i < sizeof(p->config.seed); i++)
        p->config.seed[i] = (uint8_t)dice_u64(d);
    p->config.rd_atomic_max = 16;
    p->config.timeout_floor_ns = 0;
    p->config.window_start = (uint32_t)PICK(d, 0, 0, 1000, 8192, 65536);
    p->config.window_max = (uint32_t)PICK(d, 0, 0, 9000, 65536, 1 << 20);
    p->config.read_window = (uint32_t)PICK(d, 0, 1, 65536, 1 << 20);
    p->paced = dice_percent(d, 30);
    /* Where nothing may fail there is room for the least that everybody sends at once. */
    if ((p->mode == MODE_exhaustion || p->mode == MODE_hostile) && dice_percent(d, 30))
        p->receive_buffer = (uint32_t)PICK(d, 4500, 10000, 40000);
    else if (p->mode != MODE_lossless && dice_percent(d, 20))
        p->receive_buffer = (uint32_t)PICK(d, 40000, 212992);
}

static void roll_work(struct plan *p, struct dice *d)
{
    p->connection_count = (uint32_t)PICK(d, 1, 2, 3, 6);
    p->datagram_count = (uint32_t)PICK(d, 0, 0, 0, 2, 3, 4);
    p->message_count = (uint32_t)PICK(d, 5, 40, 80, 200);
    if (dice_percent(d, 5)) { /* many queue pairs between few processes */
        p->connection_count = 14;
        p->message_count = 30;
    }
    p->crowd = dice_percent(d, 2);
    if (p->crowd) {
        p->connection_count = 40;
        p->message_count = 10;
        p->ps_per_byte = p->ps_per_byte < 800 ? p->ps_per_byte : 800;
    }
    p->small_rings = dice_percent(d, 10);
    p->size_max = (uint32_t)PICK(d, 512, 4096, 16384, 65536, 65536);
    if (p->crowd)
        p->size_max = (uint32_t)PICK(d, 512, 4096);
    p->bytes_max = 1 << 20;
    if (p->connection_count == 1 && dice_percent(d, 8)) {
        p->size_max = 1 << 20;
        p->bytes_max = 3 << 20;
        p->message_count = 10;
    }
    if (p->faults.lose + p->faults.corrupt + p->faults.reorder >= 80000)
        p->bytes_max /= 4; /* going back repeats everything behind the loss */
}

/* Interruptions that are short enough for seven retries, but where those are to be used up. */
static void roll_interruptions(struct plan *p, struct dice *d)
{
    if (p->mode == MODE_lossless)
        return;
    p->overtake_ns = dice_between(d, p->rtt_ns, 4 * p->rtt_ns);
    p->busy_ns = dice_between(d, 1, p->rtt_ns / 2);
    p->stall_ns = dice_percent(d, 15) ? dice_below(d, 2 * p->rtt_ns) : 0;
    if (p->mode == MODE_ordinary) {
        p->cut_ns = dice_percent(d, 15) ? dice_below(d, 2 * p->rtt_ns) : 0;
        p->stop_ns = dice_percent(d, 15) ? dice_below(d, 2 * p->rtt_ns) : 0;
    } else if (p->mode == MODE_exhaustion) {
        p->stop_ns = dice_percent(d, 60) ? dice_between(d, 4 * MS, 20 * MS) : 0;
    }
    if (p->mode == MODE_ordinary || p->mode == MODE_exhaustion)
        p->famine_ns = dice_percent(d, 20) ? PICK(d, 1 * MS, 5 * MS, 10 * MS) : 0;
}

/* Longest times, from all that a packet may meet on its way. */
static void derive(struct plan *p)
{
    uint64_t queue_bytes = 2ull * (p->config.window_max ? p->config.window_max : 1 << 17);
    uint64_t one_way;

    queue_bytes += p->config.read_window > 65536 ? p->config.read_window : 65536;
    queue_bytes *= p->host_count;
    queue_bytes +=
        (uint64_t)p->batch_capacity * 2 * (p->connection_count * 2ull + p->datagram_count + 1);
    one_way = p->delay_ns + p->jitter_ns + p->service_ns + queue_bytes * p->ps_per_byte / 1000;
    if (p->faults.reorder > 0)
        one_way += p->reorder_ns;
    p->config.ack_hold_ns = p->seed % 2 == 0 ? 0 : 5 * US;
    p->rtt_ns = 2 * (one_way + p->timer_slack_ns + US) + p->config.ack_hold_ns;
    p->lifetime_ns = one_way + p->reorder_ns + p->overtake_ns + 20 * p->hold_ns + 20 * p->stall_ns +
                     p->stop_ns + MS;
    p->limit_ns = p->heal_ns + 20000 * MS;
    if (p->mode == MODE_refusal) /* lives that end with eight time-outs of twice four round trips */
        p->limit_ns += REFUSED_LIVES_MAX * 9 * 8 * p->rtt_ns;
}

void plan_make(struct plan *p, uint64_t seed, enum sim_mode mode)
{
    static const uint32_t weights[] = {
#define SIM_MODE_WEIGHT(name, weight, text) weight,
        SIM_MODES(SIM_MODE_WEIGHT)
#undef SIM_MODE_WEIGHT
    };
    struct dice d = dice_make(seed, 1);
    enum sim_mode chosen = (enum sim_mode)dice_weighted(&d, weights, MODE_COUNT);

    *p = (struct plan){.seed = seed, .mode = mode == MODE_COUNT ? chosen : mode};
    roll_wire(p, &d);
    roll_marks(p, seed);
    roll_hosts(p, &d);
    roll_work(p, &d);
    derive(p);
    roll_interruptions(p, &d);
    derive(p);
}

void plan_make_scenario(struct plan *p, uint64_t seed)
{
    struct dice d = dice_make(seed, 5);

    plan_make(p, seed, MODE_ordinary);
    p->faults = (struct faults){0};
    p->cut_ns = p->stall_ns = p->stop_ns = p->famine_ns = 0;
    p->receive_buffer = 0;
    p->crowd = false;
    p->host_count = 2;
    p->shared_address = false;
    p->connection_count = 3;
    p->datagram_count = 2;
    p->message_count = 8;
    p->size_max = (uint32_t)PICK(&d, 600, 3000);
    p->bytes_max = 1 << 15;
    p->batch_count_max = (uint32_t)PICK(&d, 4, 16);
    p->batch_capacity = 65507;
    p->ps_per_byte = 80;
    p->heal_ns = 50 * MS;
    derive(p);
}
