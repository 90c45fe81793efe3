/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection managers of several hosts in simulated time: applications connect,
 * accept, refuse, disconnect and forget at random over a network that loses,
 * repeats, reorders and delays, while hosts crash and come back. Then the
 * network heals, and what must hold is checked:
 *
 *   - every request of a host that lives has come to an end,
 *   - what is established at one side is at the other; not with a host that crashed,
 *   - events come in an order that makes sense, each to an ID that exists,
 *   - private data arrives as it was sent,
 *   - when all was given back and time has passed, no ID is left.
 *
 * Each seed is a world; the same seed is the same world.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "cm/cm.h"
#include "support/dice.h"

#define HOSTS_FEW 5u
#define HOSTS_MAX 16u
#define ENDS_MAX 512u
#define DATAGRAM_MAX 320u
#define SERVICE 0x0000000001061234u
#define DATAGRAM_SERVICE 0x0000000001115678u
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define TROUBLE_NS (20 * SECOND)
/* 16 tries of 4.3 s for an answer, as long for the answer to that, and what MRAs add to both. */
#define CALM_NS (TROUBLE_NS + 180 * SECOND)
#define FEW_QPS 6u

enum phase {
    PHASE_FREE,
    PHASE_ASKING,
    PHASE_ANSWERING, /* has a request */
    PHASE_TAKING,    /* has a reply */
    PHASE_WAITING,
    PHASE_UP,
    PHASE_DOWN
};

/* One side of a connection, as its application sees it. */
struct end {
    enum phase phase;
    struct cm_id *id;
    uint64_t tag; /* the same at both ends: sent in the private data */
    uint32_t host;
    bool active;
};

struct host {
    struct cm *cm;
    struct gid gid;
    struct cm_id *listener;
    struct cm_id *datagram_listener;
};

struct flying {
    struct list link;
    uint64_t at;
    struct gid src;
    uint32_t to;
    size_t len;
    uint8_t bytes[DATAGRAM_MAX];
};

struct world {
    struct dice dice;
    uint64_t seed;
    uint64_t now;
    uint32_t host_count;
    struct host hosts[HOSTS_MAX];
    struct end ends[ENDS_MAX];
    struct list flying;
    uint32_t loss_permille;
    uint32_t repeat_permille;
    uint32_t delay_ms;
    bool crashes;
    bool few_qps; /* so that stale ones are met */
    bool trouble;
    bool verbose;
    uint64_t tags;
    uint32_t up; /* connections that came to be, seen from the active side */
    uint32_t resolved;
};

static struct {
    uint64_t up, refused, unreachable, disconnected, crashes, resolved, lost, repeats, stale;
} total;

static _Noreturn void fail(const struct world *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "seed %" PRIu64 " fails at %.3f s: ", w->seed, (double)w->now / 1e9);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nreplay: sim-cm --seed %" PRIu64 "\n", w->seed);
    va_end(args);
    exit(1);
}

static uint32_t roll(struct world *w, uint32_t bound)
{
    return (uint32_t)dice_below(&w->dice, bound);
}

static bool chance(struct world *w, uint32_t permille)
{
    return roll(w, 1000) < permille;
}

static void start_host(struct world *w, uint32_t index)
{
    struct host *h = &w->hosts[index];
    struct cm_config config = {.slot = (uint8_t)(index + 1)};

    store_be64(config.seed, dice_u64(&w->dice));
    h->gid = (struct gid){.bytes = {0xfd, [15] = (uint8_t)(index + 1)}};
    if (cm_new(&config, &h->cm) != 0 || cm_id_new(h->cm, NULL, &h->listener) != 0 ||
        cm_listen(h->listener, SERVICE, NULL, 16) != 0 ||
        cm_id_new(h->cm, NULL, &h->datagram_listener) != 0 ||
        cm_listen(h->datagram_listener, DATAGRAM_SERVICE, &h->gid, 16) != 0)
        fail(w, "a host does not start");
}

static void crash_host(struct world *w, uint32_t index)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++)
        if (w->ends[i].phase != PHASE_FREE && w->ends[i].host == index)
            w->ends[i] = (struct end){0};
    cm_free(w->hosts[index].cm);
    total.crashes++;
    start_host(w, index);
}

static struct end *new_end(struct world *w)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++)
        if (w->ends[i].phase == PHASE_FREE)
            return &w->ends[i];
    return NULL;
}

static void forget(struct world *w, struct end *e)
{
    cm_id_free(e->id, w->now);
    *e = (struct end){0};
}

static struct path path_to(const struct world *w, uint32_t from, uint32_t to)
{
    return (struct path){
        .src = w->hosts[from].gid,
        .dst = w->hosts[to].gid,
        .hop_limit = 64,
    };
}

static uint32_t qpn_of(struct world *w, const struct end *e)
{
    const uint32_t n = w->few_qps ? roll(w, FEW_QPS) : (uint32_t)(e->tag & 0x7fff);

    return (e->host + 1) << 16 | n | (e->active ? 0x8000 : 0);
}

static void begin(struct world *w, bool datagram)
{
    const uint32_t from = roll(w, w->host_count);
    const uint32_t to = roll(w, w->host_count);
    struct end *e = new_end(w);
    struct cm_connect connect = {
        .path = path_to(w, from, to),
        .service_id = SERVICE,
        .path_mtu = 5,
    };
    uint8_t data[8];
    int error;

    if (e == NULL || cm_id_new(w->hosts[from].cm, e, &e->id) != 0)
        return;
    e->phase = PHASE_ASKING;
    e->active = true;
    e->host = from;
    e->tag = ++w->tags;
    store_be64(data, e->tag);
    connect.private_data = (struct cm_bytes){data, sizeof(data)};
    connect.qpn = qpn_of(w, e);
    if (datagram)
        error = cm_resolve(e->id, &connect.path, DATAGRAM_SERVICE, connect.private_data, w->now);
    else
        error = cm_connect(e->id, &connect, w->now);
    if (error != 0)
        fail(w, "a request is refused by its own manager: %d", error);
}

static void answer(struct world *w, struct end *e)
{
    struct cm_accept accept = {.qpn = qpn_of(w, e)};
    const struct cm_bytes none = {0};
    uint8_t data[8];

    if (chance(w, 100)) {
        forget(w, e);
        return;
    }
    if (chance(w, 100)) {
        if (cm_reject(e->id, CM_REASON_CONSUMER, none, none, w->now) != 0)
            fail(w, "a request cannot be refused");
        total.refused++;
        forget(w, e);
        return;
    }
    store_be64(data, e->tag);
    accept.private_data = (struct cm_bytes){data, sizeof(data)};
    if (cm_accept(e->id, &accept, w->now) != 0)
        fail(w, "a request cannot be accepted");
    e->phase = PHASE_WAITING;
}

static uint32_t host_of(const struct world *w, const struct gid *gid)
{
    for (uint32_t i = 0; i < w->host_count; i++)
        if (gid_equal(&w->hosts[i].gid, gid))
            return i;
    fail(w, "an address that nobody has");
}

static void on_request(struct world *w, uint32_t host, const struct cm_event *event)
{
    struct end *e = new_end(w);

    if (event->listener != w->hosts[host].listener)
        fail(w, "a request for another listener");
    if (e == NULL) {
        cm_id_free(event->id, w->now);
        return;
    }
    *e = (struct end){
        .phase = PHASE_ANSWERING,
        .id = event->id,
        .host = host,
        .tag = load_be64(event->message.private_data),
    };
    cm_id_set_user(event->id, e);
    if (chance(w, 700))
        answer(w, e); /* the others are answered later */
}

static void on_datagram_request(struct world *w, const struct cm_event *event)
{
    const struct cm_bytes echo = {event->message.private_data, 8};
    const bool yes = chance(w, 800);

    cm_resolve_reply(event->id, yes ? CM_SIDR_OK : CM_SIDR_REJECTED, 0x4711, 0x01234567, echo,
                     w->now);
    cm_id_free(event->id, w->now);
}

static void take_reply(struct world *w, struct end *e)
{
    const struct cm_bytes none = {0};

    if (chance(w, 50)) {
        forget(w, e);
    } else if (chance(w, 50)) {
        cm_reject(e->id, CM_REASON_CONSUMER, none, none, w->now);
        total.refused++;
        forget(w, e);
    } else {
        if (cm_establish(e->id, none, w->now) != 0)
            fail(w, "a reply cannot be taken");
        e->phase = PHASE_UP;
        w->up++;
        total.up++;
    }
}

static void on_reply(struct world *w, struct end *e, const struct cm_event *event)
{
    if (load_be64(event->message.private_data) != e->tag)
        fail(w, "a reply to another request");
    e->phase = PHASE_TAKING;
    if (chance(w, 900))
        take_reply(w, e); /* the others are taken later */
}

static void expect(const struct world *w, const struct end *e, bool good, const char *what)
{
    if (!good)
        fail(w, "%s in phase %d of connection %" PRIu64, what, e->phase, e->tag);
}

static void on_event(struct world *w, uint32_t host, const struct cm_event *event)
{
    struct end *e = cm_id_user(event->id);

    switch (event->type) {
    case CM_EVENT_REQUEST:
        on_request(w, host, event);
        return;
    case CM_EVENT_DATAGRAM_REQUEST:
        on_datagram_request(w, event);
        return;
    case CM_EVENT_REPLY:
        expect(w, e, e->phase == PHASE_ASKING && e->active, "reply");
        on_reply(w, e, event);
        return;
    case CM_EVENT_ESTABLISHED:
        expect(w, e, e->phase == PHASE_WAITING && !e->active, "established");
        e->phase = PHASE_UP;
        return;
    case CM_EVENT_REJECTED:
        expect(w, e, e->phase != PHASE_UP && e->phase != PHASE_DOWN, "rejected");
        forget(w, e);
        return;
    case CM_EVENT_UNREACHABLE:
        expect(w, e, e->phase == PHASE_ASKING || e->phase == PHASE_WAITING, "unreachable");
        total.unreachable++;
        forget(w, e);
        return;
    case CM_EVENT_DISCONNECTED:
        expect(w, e, e->phase == PHASE_UP || e->phase == PHASE_WAITING, "disconnected");
        total.disconnected++;
        e->phase = PHASE_DOWN;
        return;
    case CM_EVENT_TIMEWAIT_OVER:
        expect(w, e, e->phase == PHASE_DOWN, "end of timewait");
        forget(w, e);
        return;
    case CM_EVENT_DATAGRAM_REPLY:
        expect(w, e, e->phase == PHASE_ASKING, "datagram reply");
        expect(
            w, e,
            event->message.status != CM_SIDR_OK ||
                (event->message.qpn == 0x4711 && load_be64(event->message.private_data) == e->tag),
            "another's reply");
        w->resolved += event->message.status == CM_SIDR_OK;
        total.resolved += event->message.status == CM_SIDR_OK;
        forget(w, e);
        return;
    }
}

/* One line for each datagram, with --verbose. */
static void tell(const struct world *w, const struct datagram_batch *b, const char *what)
{
    struct cm_message m;

    if (!w->verbose || cm_read(b->buffer + 20, MAD_LEN, &m) != 0)
        return;
    printf("%10.3f  host %u > %u  %-8s id %08x peer %08x tag %" PRIu64 "%s\n", (double)w->now / 1e9,
           host_of(w, &b->path.src), host_of(w, &b->path.dst), cm_name(m.kind), m.local_comm_id,
           m.remote_comm_id, load_be64(m.private_data), what);
}

static void fly(struct world *w, const struct datagram_batch *b, uint64_t delay)
{
    struct flying *f = calloc(1, sizeof(*f));

    if (f == NULL)
        fail(w, "no memory");
    f->at = w->now + delay;
    f->src = b->path.src;
    f->to = host_of(w, &b->path.dst);
    f->len = b->last_len;
    memcpy(f->bytes, b->buffer, b->last_len);
    list_push_tail(&w->flying, &f->link);
}

static void send_all(struct world *w, struct host *h)
{
    uint8_t buffer[DATAGRAM_MAX];
    struct datagram_batch b = {.buffer = buffer, .capacity = sizeof(buffer), .count_max = 1};

    while (cm_transmit(h->cm, &b) > 0) {
        if (w->trouble && chance(w, w->loss_permille)) {
            total.lost++;
            tell(w, &b, ", lost");
            continue;
        }
        tell(w, &b, "");
        fly(w, &b, MS + roll(w, w->delay_ms + 1) * MS);
        if (w->trouble && chance(w, w->repeat_permille))
            fly(w, &b, MS + roll(w, 500) * MS);
    }
}

static void settle(struct world *w)
{
    struct cm_event event;

    for (uint32_t i = 0; i < w->host_count; i++) {
        while (cm_event_next(w->hosts[i].cm, &event))
            on_event(w, i, &event);
        send_all(w, &w->hosts[i]);
    }
}

static void land(struct world *w, struct flying *f)
{
    const struct datagram d = {
        .src = f->src,
        .dst = w->hosts[f->to].gid,
        .hop_limit = 64,
        .bytes = f->bytes,
        .len = f->len,
    };

    list_remove(&f->link);
    cm_receive(w->hosts[f->to].cm, &d, w->now);
    free(f);
}

/* Runs what is due up to a moment; the moment of the next is then known to be later. */
static void run_until(struct world *w, uint64_t until)
{
    for (;;) {
        struct flying *first = NULL;
        uint64_t next = until;

        for (struct list *l = w->flying.next; l != &w->flying; l = l->next) {
            struct flying *f = LIST_ENTRY(l, struct flying, link);

            if (f->at <= next && (first == NULL || f->at < first->at)) {
                first = f;
                next = f->at;
            }
        }
        for (uint32_t i = 0; i < w->host_count; i++)
            if (cm_deadline(w->hosts[i].cm) < next) {
                next = cm_deadline(w->hosts[i].cm);
                first = NULL;
            }
        if (next > w->now)
            w->now = next;
        if (first != NULL)
            land(w, first);
        else
            for (uint32_t i = 0; i < w->host_count; i++)
                cm_advance(w->hosts[i].cm, w->now);
        settle(w);
        if (first == NULL && next >= until)
            return;
    }
}

static const struct end *other_side(const struct world *w, const struct end *e)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++)
        if (&w->ends[i] != e && w->ends[i].phase != PHASE_FREE && w->ends[i].tag == e->tag)
            return &w->ends[i];
    return NULL;
}

static void act_on(struct world *w, struct end *e)
{
    const struct cm_bytes none = {0};
    const struct end *other;

    switch (e->phase) {
    case PHASE_ANSWERING:
        answer(w, e);
        return;
    case PHASE_TAKING:
        take_reply(w, e);
        return;
    case PHASE_WAITING:
        other = other_side(w, e);
        if (other != NULL && other->phase == PHASE_UP && chance(w, 300))
            cm_note_traffic(e->id, w->now);
        return;
    case PHASE_UP:
        if (chance(w, 300) && cm_disconnect(e->id, none, w->now) == 0 && chance(w, 300))
            forget(w, e);
        else if (chance(w, 100))
            forget(w, e);
        return;
    case PHASE_ASKING:
        if (chance(w, 30))
            forget(w, e);
        return;
    case PHASE_FREE:
    case PHASE_DOWN:
        return;
    }
}

static void act(struct world *w)
{
    for (uint32_t n = roll(w, 3); n > 0; n--)
        begin(w, chance(w, 200));
    for (uint32_t i = 0; i < ENDS_MAX; i++)
        if (chance(w, 100))
            act_on(w, &w->ends[i]);
    if (w->crashes && chance(w, 10))
        crash_host(w, roll(w, w->host_count));
}

static void check_calm(const struct world *w)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++) {
        const struct end *e = &w->ends[i];
        const struct end *other;

        if (e->phase == PHASE_ASKING || e->phase == PHASE_WAITING || e->phase == PHASE_TAKING)
            fail(w, "connection %" PRIu64 " hangs in phase %d", e->tag, e->phase);
        if (e->phase != PHASE_UP)
            continue;
        other = other_side(w, e);
        if (other == NULL || other->phase != PHASE_UP)
            fail(w, "connection %" PRIu64 " is established at one side only", e->tag);
    }
}

static void end_world(struct world *w)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++)
        if (w->ends[i].phase != PHASE_FREE)
            forget(w, &w->ends[i]);
    for (uint32_t i = 0; i < w->host_count; i++) {
        cm_id_free(w->hosts[i].listener, w->now);
        cm_id_free(w->hosts[i].datagram_listener, w->now);
    }
    run_until(w, w->now + 100 * SECOND);
    for (uint32_t i = 0; i < w->host_count; i++) {
        total.repeats += cm_counters(w->hosts[i].cm)->repeats;
        total.stale += cm_counters(w->hosts[i].cm)->stale;
        if (cm_id_count(w->hosts[i].cm) != 0)
            fail(w, "host %u still has %u IDs", i, cm_id_count(w->hosts[i].cm));
        if (cm_deadline(w->hosts[i].cm) != CM_NEVER)
            fail(w, "host %u still has a timer", i);
        cm_free(w->hosts[i].cm);
    }
    if (!list_empty(&w->flying))
        fail(w, "somebody still talks");
}

static void check_good_times(const struct world *w)
{
    for (uint32_t i = 0; i < w->host_count; i++) {
        const struct cm_counters *c = cm_counters(w->hosts[i].cm);

        if (c->malformed + c->wrong_key + c->unknown_class + c->unknown_message + c->wrong_source +
                c->replies_dropped !=
            0)
            fail(w, "host %u counts what nobody did", i);
    }
}

/* Applications that were slow answer now. */
static void finish(struct world *w)
{
    for (uint32_t i = 0; i < ENDS_MAX; i++) {
        if (w->ends[i].phase == PHASE_ANSWERING)
            answer(w, &w->ends[i]);
        else if (w->ends[i].phase == PHASE_TAKING)
            take_reply(w, &w->ends[i]);
    }
    settle(w);
}

static void run_seed(uint64_t seed, bool verbose)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    w.dice = dice_make(seed, 0);
    w.seed = seed;
    w.verbose = verbose;
    list_init(&w.flying);
    w.host_count = 1 + roll(&w, chance(&w, 125) ? HOSTS_MAX : HOSTS_FEW);
    w.loss_permille = chance(&w, 250) ? 0 : roll(&w, 400);
    w.repeat_permille = chance(&w, 250) ? 0 : roll(&w, 200);
    w.delay_ms = chance(&w, 500) ? 0 : roll(&w, 300);
    w.crashes = chance(&w, 300);
    w.few_qps = chance(&w, 250);
    w.trouble = true;
    for (uint32_t i = 0; i < w.host_count; i++)
        start_host(&w, i);
    while (w.now < TROUBLE_NS) {
        act(&w);
        settle(&w);
        run_until(&w, w.now + roll(&w, 400) * MS);
    }
    w.trouble = false;
    while (w.now < CALM_NS) {
        finish(&w);
        run_until(&w, w.now + SECOND);
    }
    check_calm(&w);
    check_good_times(&w);
    end_world(&w);
}

static void report(uint64_t first, uint64_t last)
{
    printf("seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " connections, %" PRIu64
           " refused, %" PRIu64 " unreachable, %" PRIu64 " disconnected, %" PRIu64
           " datagram services, %" PRIu64 " crashes, %" PRIu64 " lost, %" PRIu64
           " repeated, %" PRIu64 " stale\n",
           first, last, total.up, total.refused, total.unreachable, total.disconnected,
           total.resolved, total.crashes, total.lost, total.repeats, total.stale);
    if (last - first >= 500 &&
        (total.up == 0 || total.refused == 0 || total.disconnected == 0 || total.resolved == 0 ||
         total.crashes == 0 || total.lost == 0 || total.stale == 0)) {
        fprintf(stderr, "something never happened\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'r'},
        {"verbose", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    unsigned long long first = 1;
    unsigned long long last = 1000;
    bool verbose = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's' && sscanf(optarg, "%llu", &first) == 1) {
            last = first;
        } else if (option == 'v') {
            verbose = true;
        } else if (option != 'r' || sscanf(optarg, "%llu..%llu", &first, &last) != 2) {
            fprintf(stderr, "usage: %s [--seed N | --seeds A..B] [--verbose]\n", argv[0]);
            return 2;
        }
    }
    for (uint64_t seed = first; seed <= last; seed++)
        run_seed(seed, verbose);
    report(first, last);
    return 0;
}
