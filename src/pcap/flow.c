/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counting is exact; finding the other direction is an inference that prefers
 * to stay silent: only a response whose PSN was asked for by exactly one flow
 * between the same two addresses joins two flows.
 */
#include "pcap/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"
#include "wire/aeth.h"

/* Folds the key under SipHash, word by word. */
static unsigned hash_words(const struct flow_table *t, const struct flow_key *key)
{
    uint64_t words[sizeof(*key) / 8];
    uint64_t hash = 0;

    memcpy(words, key, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        hash = random_hash(t->hash_key, hash ^ words[i]);
    return (unsigned)hash;
}

void flow_table_init(struct flow_table *t, uint32_t count_max, const uint64_t hash_key[2])
{
    assert(count_max > 0);
    *t = (struct flow_table){
        .count_max = count_max,
        .hash_key = {hash_key[0], hash_key[1]},
    };
}

void flow_table_fini(struct flow_table *t)
{
    struct flow *flow;
    struct flow *next;

    HASH_ITER (hh, t->flows, flow, next) {
        struct moment m = {.frame = NULL};

        HASH_DEL(t->flows, flow);
        stream_fini(&flow->stream, &m);
        free(flow->timeline);
        free(flow);
    }
}

static struct flow *flow_find(struct flow_table *t, const struct flow_key *key)
{
    unsigned hash = hash_words(t, key);
    struct flow *flow;

    HASH_FIND_BYHASHVALUE(hh, t->flows, key, sizeof(*key), hash, flow);
    return flow;
}

int flow_table_get(struct flow_table *t, const struct flow_key *key, struct flow **out)
{
    uint32_t slot = (key->dest_qpn ^ key->src.bytes[15] ^ (uint32_t)key->dst.bytes[15] << 3) %
                    FLOW_RECENT_SLOTS;
    struct flow *flow = t->recent[slot];

    if (flow != NULL && memcmp(&flow->key, key, sizeof(*key)) == 0) {
        *out = flow;
        return 0;
    }
    flow = flow_find(t, key);
    if (flow == NULL && t->count < t->count_max) {
        flow = calloc(1, sizeof(*flow));
        if (flow == NULL)
            return -ENOMEM;
        flow->key = *key;
        stream_init(&flow->stream);
        flow->service = SERVICE_CNP; /* until another packet tells */
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, t->flows, &flow->key, sizeof(flow->key), hash_words(t, key),
                                    flow);
        t->count++;
    }
    if (flow != NULL)
        t->recent[slot] = flow;
    *out = flow;
    return 0;
}

static void count_packet(struct flow_counts *c, const struct frame *f)
{
    const struct packet *p = &f->packet;
    enum aeth_kind kind = aeth_kind(p->h.aeth.syndrome);

    c->packets++;
    c->payload_bytes += p->payload_len;
    if (f->icrc == FRAME_ICRC_BAD)
        c->icrc_bad++;
    if ((f->datagram.traffic_class & 3u) == 3u)
        c->ce_marks++;
    if (p->operation->kind == KIND_CNP)
        c->cnps++;
    if ((p->operation->headers & HEADER_AETH) != 0 && kind == AETH_NAK)
        c->naks++;
    if ((p->operation->headers & HEADER_AETH) != 0 && kind == AETH_RNR_NAK)
        c->rnr_naks++;
}

/* The slot of a PSN between two addresses, seen from the side that asks. */
static struct flow_asked *asked_slot(struct flow_table *t, const struct gid *from,
                                     const struct gid *to, struct psn psn)
{
    struct flow_key key = {.src = *from, .dst = *to, .dest_qpn = psn.value};

    return &t->asked[hash_words(t, &key) % FLOW_ASKED_SLOTS];
}

static bool same_addresses(const struct flow *a, const struct flow *b)
{
    return gid_equal(&a->key.src, &b->key.src) && gid_equal(&a->key.dst, &b->key.dst);
}

static void remember_asked(struct flow_table *t, struct flow *flow, struct psn psn)
{
    struct flow_asked *slot = asked_slot(t, &flow->key.src, &flow->key.dst, psn);

    if (slot->flow == NULL || !psn_equal(slot->psn, psn) || !same_addresses(slot->flow, flow))
        *slot = (struct flow_asked){.flow = flow, .psn = psn};
    else if (slot->flow == flow || slot->other == flow)
        return;
    else if (slot->other == NULL)
        slot->other = flow;
    else
        slot->crowded = true;
}

void flow_join(struct flow *a, struct flow *b)
{
    if (a->peer != NULL)
        a->peer->peer = NULL;
    if (b->peer != NULL)
        b->peer->peer = NULL;
    a->peer = b;
    b->peer = a;
}

/* Datagrams name both queue pairs. */
static void find_datagram_peer(struct flow_table *t, struct flow *flow)
{
    struct flow_key key = {
        .src = flow->key.dst,
        .dst = flow->key.src,
        .dest_qpn = flow->key.src_qpn,
        .src_qpn = flow->key.dest_qpn,
    };
    struct flow *other = flow_find(t, &key);

    if (other != NULL)
        flow_join(flow, other);
}

static bool may_be_asker(const struct flow *asker, const struct flow *flow)
{
    return asker != NULL && asker != flow && asker->peer == NULL &&
           asker->service == flow->service && gid_equal(&asker->key.src, &flow->key.dst) &&
           gid_equal(&asker->key.dst, &flow->key.src);
}

static void find_peer(struct flow_table *t, struct flow *flow, struct psn psn)
{
    const struct flow_asked *slot = asked_slot(t, &flow->key.dst, &flow->key.src, psn);
    bool first = may_be_asker(slot->flow, flow);
    bool other = may_be_asker(slot->other, flow);

    if (slot->crowded || !psn_equal(slot->psn, psn) || first == other)
        return;
    flow_join(first ? slot->flow : slot->other, flow);
}

static void follow_psn(struct flow *flow, struct psn psn)
{
    if (flow->psn_known && !psn_after(psn, flow->psn_highest)) {
        flow->counts.repeats++;
        return;
    }
    flow->psn_known = true;
    flow->psn_highest = psn;
}

bool flow_is_response(enum operation_kind kind)
{
    return kind == KIND_ACK || kind == KIND_ATOMIC_ACK || kind == KIND_READ_RESPONSE;
}

/* What only a packet that arrived intact may tell. */
static void learn(struct flow_table *t, struct flow *flow, const struct packet *p)
{
    enum service service = opcode_service(p->h.bth.opcode);
    enum operation_kind kind = p->operation->kind;

    if (kind == KIND_CNP)
        return;
    if (service == SERVICE_UD) {
        if (flow->peer == NULL)
            find_datagram_peer(t, flow);
        return;
    }
    if (flow_is_response(kind)) {
        if (flow->peer == NULL)
            find_peer(t, flow, p->h.bth.psn);
        return;
    }
    /* A NAK may name the one that is missing. */
    if (flow->peer == NULL && flow->psn_known)
        remember_asked(t, flow, psn_add(flow->psn_highest, 1));
    if (flow->peer == NULL)
        remember_asked(t, flow, p->h.bth.psn);
    follow_psn(flow, p->h.bth.psn);
}

int flow_table_add(struct flow_table *t, const struct frame *f, struct flow **out)
{
    const struct packet *p = &f->packet;
    struct flow_key key = {
        .src = f->datagram.src,
        .dst = f->datagram.dst,
        .dest_qpn = p->h.bth.dest_qpn,
    };
    struct flow *flow;
    int error;

    assert(f->verdict == FRAME_PACKET);
    if ((opcode_headers(p->h.bth.opcode) & HEADER_DETH) != 0)
        key.src_qpn = p->h.deth.src_qpn;
    error = flow_table_get(t, &key, &flow);
    if (error != 0)
        return error;
    *out = flow;
    if (flow == NULL) {
        count_packet(&t->overflow, f);
        return 0;
    }
    count_packet(&flow->counts, f);
    if (flow->service == SERVICE_CNP)
        flow->service = opcode_service(p->h.bth.opcode);
    if (f->icrc != FRAME_ICRC_BAD || f->icrc_found == 0)
        learn(t, flow, p);
    return 0;
}

bool flow_source(const struct flow *flow, uint32_t *qpn)
{
    if (flow->service == SERVICE_UD)
        *qpn = flow->key.src_qpn;
    else if (flow->peer != NULL)
        *qpn = flow->peer->key.dest_qpn;
    else
        return false;
    return true;
}
