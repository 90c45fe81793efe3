/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire: decides what becomes of each packet, writes and verifies ICRCs as a
 * link does, and has every packet looked at before it leaves.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "sim/census.h"
#include "sim/world.h"
#include "support/expect.h"
#include "wire/icrc.h"

#define ECN_CE 3u /* of the traffic class: congestion experienced */

static struct host *find_host(struct world *w, const struct gid *gid, uint8_t slot)
{
    for (uint32_t i = 0; i < w->plan.host_count; i++) {
        if (w->hosts[i].slot == slot && gid_equal(&w->hosts[i].gid, gid))
            return &w->hosts[i];
    }
    return NULL;
}

static void hash_bytes(struct world *w, const uint8_t *bytes, size_t len)
{
    uint64_t hash = dice_mix(w->hash ^ w->now ^ len);

    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    for (; len > 0; bytes++, len--)
        hash = (hash ^ *bytes) * 0x100000001b3ull;
    w->hash = hash;
}

static struct wire_packet *make_packet(struct host *from, const struct datagram_batch *b,
                                       const uint8_t *bytes, size_t len)
{
    struct world *w = from->world;
    struct wire_packet *p = malloc(sizeof(*p) + len);
    struct icrc_flow flow;

    EXPECT(p, "no memory for the test itself");
    *p = (struct wire_packet){
        .d = {.src = b->path.src,
              .dst = b->path.dst,
              .flow_label = b->path.flow_label,
              .traffic_class = b->path.traffic_class,
              .hop_limit = b->path.hop_limit,
              .src_port = b->src_port,
              .len = len},
        .identification = (uint16_t)dice_u64(&w->dice_wire),
    };
    p->d.bytes = p->bytes;
    memcpy(p->bytes, bytes, len);
    icrc_flow_init(&flow, &p->d.src, &p->d.dst);
    store_le32(p->bytes + len - ICRC_LEN,
               icrc_compute(&flow, b->src_port, p->identification, p->bytes, len - ICRC_LEN));
    return p;
}

static void damage(struct world *w, struct wire_packet *p)
{
    uint32_t flips = (uint32_t)dice_between(&w->dice_wire, 1, 3);

    p->damaged = true;
    while (flips-- > 0) {
        uint64_t bit = dice_below(&w->dice_wire, p->d.len * 8);

        p->bytes[bit / 8] = (uint8_t)(p->bytes[bit / 8] ^ (1u << (bit % 8)));
    }
}

static enum fate roll_fate(struct world *w, struct direction *dir)
{
    const struct faults *f = &w->plan.faults;
    struct dice *d = &w->dice_wire;

    if (w->now < dir->cut_until_ns)
        return FATE_CUT;
    if (dir->cut_until_ns > 0)
        census_add(TROUBLE_MENDED, 1);
    dir->cut_until_ns = 0;
    if (w->plan.single == SINGLE_FATE)
        return w->counters.sent == w->plan.single_at ? (enum fate)w->plan.single_fate
                                                     : FATE_DELIVERED;
    if (world_is_healed(w))
        return FATE_DELIVERED;
    if (dice_chance(d, f->lose))
        return FATE_LOST;
    if (dice_chance(d, f->duplicate))
        return FATE_DUPLICATED;
    if (dice_chance(d, f->reorder))
        return FATE_REORDERED;
    if (dice_chance(d, f->corrupt))
        return FATE_CORRUPTED;
    if (dice_chance(d, f->delay))
        return FATE_DELAYED;
    if (dice_chance(d, f->overtake))
        return FATE_OVERTAKEN;
    if (dice_chance(d, f->mark))
        return FATE_MARKED;
    return FATE_DELIVERED;
}

/* When a packet that leaves at departs reaches its host. */
static uint64_t arrival(struct world *w, struct direction *dir, uint64_t departs, enum fate fate)
{
    struct dice *d = &w->dice_wire;
    uint64_t at = departs + w->plan.delay_ns + dice_below(d, w->plan.jitter_ns + 1);

    if (fate == FATE_REORDERED)
        return at + dice_below(d, w->plan.reorder_ns + 1);
    if (fate == FATE_OVERTAKEN)
        return at + dice_between(d, w->plan.overtake_ns / 2, w->plan.overtake_ns);
    if (fate == FATE_DELAYED)
        at += dice_below(d, w->plan.hold_ns + 1);
    if (at < dir->last_arrival_ns)
        at = dir->last_arrival_ns;
    dir->last_arrival_ns = at;
    return at;
}

static void deliver(struct host *to, struct wire_packet *p, uint64_t at)
{
    to->world->in_flight++;
    world_schedule(to->world, at, EVENT_ARRIVE, to, p);
}

struct departure {
    struct host *from;
    struct host *to;
    uint64_t at_ns;
    enum fate fate;
};

static uint64_t send_packet(const struct departure *dep, const struct datagram_batch *b,
                            const uint8_t *bytes, size_t len)
{
    struct world *w = dep->from->world;
    struct direction *dir = &w->directions[dep->from->index][dep->to->index];
    uint64_t at;

    if (dep->fate == FATE_LOST || dep->fate == FATE_CUT || dep->fate == FATE_REFUSED)
        return 0;
    struct wire_packet *p = make_packet(dep->from, b, bytes, len);

    if (dep->fate == FATE_CORRUPTED)
        damage(w, p);
    if (dep->fate == FATE_MARKED)
        p->d.traffic_class |= ECN_CE;
    at = arrival(w, dir, dep->at_ns, dep->fate);
    p->from = dep->from;
    p->sent_bytes = dir->sent_bytes;
    deliver(dep->to, p, at);
    if (dep->fate == FATE_DUPLICATED)
        deliver(dep->to, make_packet(dep->from, b, bytes, len),
                dep->at_ns + w->plan.delay_ns + dice_below(&w->dice_wire, w->plan.reorder_ns + 1));
    return at - w->now;
}

static void note_packet(const struct departure *dep, const uint8_t *bytes, size_t len,
                        uint64_t travel_ns)
{
    struct ladder *l = dep->from->world->ladder;
    struct packet parsed;
    struct rung *r;

    if (packet_parse(bytes, len, &parsed) != DROP_NONE)
        return;
    r = ladder_packet(l, dep->from->world->now, &parsed);
    r->from = (uint8_t)dep->from->index;
    r->to = (uint8_t)dep->to->index;
    r->fate = dep->fate;
    r->travel_ns = travel_ns;
    ladder_show_live(l);
}

static void check_packet(struct departure *dep, const struct datagram_batch *b,
                         const uint8_t *bytes, size_t len)
{
    struct world *w = dep->from->world;
    struct packet p;
    struct flow *f;

    EXPECT(packet_parse(bytes, len, &p) == DROP_NONE, "host %u sends %zu bytes that do not parse",
           dep->from->index, len);
    if (w->plan.mode == MODE_hostile)
        return; /* what is right depends on what was forged */
    f = w->ops->sender(dep->from, dep->to, p.h.bth.dest_qpn, p.h.deth.src_qpn);
    EXPECT(f, "host %u sends to QPN 0x%06x, of which it knows nothing", dep->from->index,
           p.h.bth.dest_qpn);
    flow_sent(f, b, bytes, len, w->now);
    w->ops->check_windows(dep->from, f);
}

static void forge_field(struct dice *d, uint8_t *bytes, size_t len)
{
    size_t headers = len < 40 ? len : 40;
    size_t at = dice_below(d, headers);
    uint32_t psn = load_be24(bytes + 9);

    switch (dice_below(d, 6)) {
    case 0: /* another operation of the same service */
        bytes[0] = (uint8_t)((bytes[0] & 0xe0) | dice_below(d, 0x20));
        break;
    case 1:
        bytes[0] = (uint8_t)dice_u64(d);
        break;
    case 2:
        store_be24(bytes + 9, (psn + (uint32_t)dice_below(d, 40) - 20) & 0xffffff);
        break;
    case 3: /* anything in the first bytes of the headers */
        bytes[at] = (uint8_t)dice_u64(d);
        break;
    case 4: /* flags, pad, version */
        bytes[1] = (uint8_t)dice_u64(d);
        break;
    case 5: /* the first byte of an AETH */
        if (len > 16)
            bytes[12] = (uint8_t)dice_u64(d);
        break;
    }
}

/* A packet that nobody sent, with a right ICRC. */
static void forge(struct host *from, struct host *to, const struct datagram_batch *b,
                  const uint8_t *bytes, size_t len)
{
    struct world *w = from->world;
    struct dice *d = &w->dice_wire;
    uint8_t copy[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + 16];
    uint32_t fields = (uint32_t)dice_between(d, 1, 3);
    struct wire_packet *p;

    memcpy(copy, bytes, len);
    while (fields-- > 0)
        forge_field(d, copy, len);
    if (dice_percent(d, 20))
        len = BTH_LEN + ICRC_LEN + dice_below(d, len - BTH_LEN - ICRC_LEN + 1);
    if (dice_percent(d, 80))
        len &= ~(size_t)3;
    if (len < BTH_LEN + ICRC_LEN)
        return;
    w->counters.forged++;
    census_add(TROUBLE_FORGED, 1);
    ladder_note(w->ladder, w->now, from->index, "forged %s of %zu bytes to host %u",
                opcode_name(copy[0]), len, to->index);
    p = make_packet(from, b, copy, len);
    p->damaged = len % 4 != 0; /* a link may refuse such a length */
    deliver(to, p, w->now + w->plan.delay_ns + dice_below(d, w->plan.reorder_ns + 1));
}

/*
 * A packet that is none of any queue pair's, for one reason: another address,
 * partition, number or service. It must not make a difference to anybody.
 */
static void stray(struct host *from, struct host *to, const struct datagram_batch *b,
                  const uint8_t *bytes, size_t len)
{
    struct world *w = from->world;
    struct dice *d = &w->dice_wire;
    bool connected = opcode_service(bytes[0]) != SERVICE_UD;
    struct datagram_batch other = *b;
    uint8_t copy[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + 16];
    struct wire_packet *p;

    memcpy(copy, bytes, len);
    switch (dice_below(d, 4)) {
    case 0:
        if (!connected)
            return;
        other.path.src.bytes[14] ^= 1;
        break;
    case 1: /* P_Key: another partition */
        copy[2] ^= (uint8_t)(1u << dice_below(d, 7));
        break;
    case 2: /* no QP has such a number; a bad request differs in another bit, so that two wrongs */
        copy[6] ^= 0x40; /* do not make a right */
        break;
    case 3: /* UC for RC and so on */
        copy[0] ^= 0x20;
        break;
    }
    p = make_packet(from, &other, copy, len);
    p->stray = true;
    census_add(TROUBLE_STRAY, 1);
    ladder_note(w->ladder, w->now, from->index, "stray %s of %zu bytes to host %u",
                opcode_name(copy[0]), len, to->index);
    deliver(to, p, w->now + w->plan.delay_ns + dice_below(d, w->plan.reorder_ns + 1));
}

static void check_batch(const struct host *h, const struct datagram_batch *b)
{
    size_t total = (b->count - 1) * b->segment_len + b->last_len;

    EXPECT(b->count <= b->count_max, "host %u: %u segments, %u allowed", h->index, b->count,
           b->count_max);
    EXPECT(total <= b->capacity, "host %u: %zu bytes in a batch of %zu", h->index, total,
           b->capacity);
    EXPECT(b->last_len <= b->segment_len, "host %u: the last segment is longer", h->index);
    EXPECT(b->payload_absent == 0, "host %u: payload is absent", h->index);
    EXPECT(gid_equal(&b->path.src, &h->gid), "host %u: sends from another address", h->index);
}

static void check_room(const struct host *h, const struct datagram_batch *b)
{
    size_t total = (b->count - 1) * b->segment_len + b->last_len;
    enum service service = opcode_service(b->buffer[0]);

    if (h->world->plan.paced && (service == SERVICE_UC || service == SERVICE_UD))
        EXPECT(total <= h->room, "host %u: %zu bytes leave, %u may", h->index, total, h->room);
}

/* How many packets of the batch the link takes. */
static uint32_t roll_taken(struct world *w, const struct datagram_batch *b)
{
    const struct plan *p = &w->plan;
    struct dice *d = &w->dice_wire;

    w->counters.batches++;
    w->counters.long_batches += b->count > 1;
    if (p->single == SINGLE_REFUSE && w->counters.batches == p->single_at)
        return 0;
    if (p->single == SINGLE_SHORTEN && b->count > 1 && w->counters.long_batches == p->single_at)
        return 1;
    if (world_is_healed(w))
        return b->count;
    if (dice_chance(d, p->faults.refuse))
        return 0;
    if (b->count > 1 && dice_chance(d, p->faults.shorten))
        return (uint32_t)dice_between(d, 1, b->count - 1);
    return b->count;
}

static void note_taken(const struct datagram_batch *b, uint32_t taken)
{
    if (taken == 0)
        census_add(TROUBLE_REFUSED, 1);
    else if (taken < b->count)
        census_add(TROUBLE_SHORTENED, 1);
}

static void note_fate(struct world *w, enum fate fate)
{
    static const struct {
        enum fate fate;
        enum trouble trouble;
    } rows[] = {{FATE_LOST, TROUBLE_LOST},           {FATE_DUPLICATED, TROUBLE_DUPLICATED},
                {FATE_CORRUPTED, TROUBLE_CORRUPTED}, {FATE_DELAYED, TROUBLE_DELAYED},
                {FATE_MARKED, TROUBLE_MARKED},       {FATE_CUT, TROUBLE_CUT}};

    w->counters.fates[fate]++;
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].fate == fate)
            census_add(rows[i].trouble, 1);
    }
}

/* One packet on its way to one host. */
static void depart(struct departure *dep, const struct datagram_batch *b, const uint8_t *bytes,
                   size_t len)
{
    struct host *h = dep->from;
    struct world *w = h->world;
    struct direction *dir = &w->directions[h->index][dep->to->index];
    bool refused = dep->fate == FATE_REFUSED;
    uint64_t travel_ns;

    dir->sent_bytes += len;
    if (!refused)
        dep->fate = roll_fate(w, dir);
    note_fate(w, dep->fate);
    travel_ns = send_packet(dep, b, bytes, len);
    note_packet(dep, bytes, len, travel_ns);
    if (!world_is_healed(w) && dice_chance(&w->dice_wire, w->plan.faults.stray))
        stray(h, dep->to, b, bytes, len);
    if (!world_is_healed(w) && dice_chance(&w->dice_wire, w->plan.faults.forge))
        forge(h, dep->to, b, bytes, len);
}

/* The network brings what is for a group to each host with members, and at times to others. */
static uint32_t find_hosts(struct host *from, const struct datagram_batch *b, struct host **out)
{
    struct world *w = from->world;
    uint32_t count = 0;

    if (!gid_is_multicast(&b->path.dst)) {
        out[0] = find_host(w, &b->path.dst, b->dest_slot);
        EXPECT(out[0], "host %u sends to slot %u of an unknown address", from->index, b->dest_slot);
        return 1;
    }
    for (uint32_t i = 0; i < w->plan.host_count; i++) {
        if (w->ops->members(&w->hosts[i], &b->path.dst) > 0 || dice_percent(&w->dice_wire, 20))
            out[count++] = &w->hosts[i];
    }
    return count;
}

void network_send(struct host *h, const struct datagram_batch *b)
{
    struct world *w = h->world;
    struct departure dep = {.from = h, .at_ns = w->now};
    uint32_t taken = roll_taken(w, b);
    struct host *to[HOSTS_MAX] = {h};
    uint32_t to_count;

    note_taken(b, taken);
    check_batch(h, b);
    check_room(h, b);
    to_count = find_hosts(h, b, to);
    for (uint32_t i = 0; i < b->count; i++) {
        const uint8_t *bytes = b->buffer + i * b->segment_len;
        size_t len = i + 1 < b->count ? b->segment_len : b->last_len;

        dep.at_ns += len * w->plan.ps_per_byte / 1000;
        w->counters.sent++;
        h->sent++;
        hash_bytes(w, bytes, len - ICRC_LEN);
        dep.to = to[0];
        for (uint32_t k = 0; k < to_count; k++) {
            dep.to = to[k];
            dep.fate = i < taken ? FATE_DELIVERED : FATE_REFUSED;
            depart(&dep, b, bytes, len);
        }
        check_packet(&dep, b, bytes, len);
    }
}

/* Packets that others overtook are counted when they arrive: only then it is true. */
static void note_order(const struct host *to, const struct wire_packet *p)
{
    const struct plan *plan = &to->world->plan;
    uint64_t window = plan->config.window_max ? plan->config.window_max : WORLD_WINDOW_DEFAULT;
    struct direction *dir;

    if (!p->from)
        return;
    dir = &p->from->world->directions[p->from->index][to->index];
    if (dir->arrived_bytes > p->sent_bytes)
        census_add(TROUBLE_REORDERED, 1);
    if (dir->arrived_bytes > p->sent_bytes + window)
        census_add(TROUBLE_OVERTAKEN, 1);
    if (dir->arrived_bytes < p->sent_bytes)
        dir->arrived_bytes = p->sent_bytes;
}

bool network_arrive(struct host *h, struct wire_packet *p)
{
    struct world *w = h->world;
    uint16_t identification = 0;
    struct icrc_flow flow;
    bool good;

    note_order(h, p);
    icrc_flow_init(&flow, &p->d.src, &p->d.dst);
    good = icrc_verify(&flow, p->d.src_port, p->identification, p->bytes, p->d.len,
                       &identification) == ICRC_GOOD;
    EXPECT(good || p->damaged, "an undamaged packet of %zu bytes has a wrong ICRC", p->d.len);
    /* Solving for the identification lets one damaged packet in 65536 pass: a link sees the jump.
     */
    if (good && gid_is_ipv4(&p->d.src) && identification != p->identification)
        good = false;
    if (good)
        return true;
    w->counters.icrc_dropped++;
    w->in_flight--;
    free(p);
    return false;
}
