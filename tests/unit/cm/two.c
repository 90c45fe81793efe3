/* SPDX-License-Identifier: BSD-2-Clause */
#include "two.h"

int setup(void **state)
{
    static struct fixture f;
    struct cm_config config = {.seed = "a seed of 16 by", .slot = 1};

    f = (struct fixture){.now = 1, .qpn = QPN_A - 1, .path_mtu = 5};
    assert_int_equal(cm_new(&config, &f.a), 0);
    config.slot = 2;
    assert_int_equal(cm_new(&config, &f.b), 0);
    assert_int_equal(cm_id_new(f.b, &f, &f.listener), 0);
    assert_int_equal(cm_listen(f.listener, SERVICE, NULL, 2), 0);
    *state = &f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;

    cm_free(f->a);
    cm_free(f->b);
    return 0;
}

bool leaves(struct fixture *f, struct cm *cm)
{
    struct datagram_batch b = {.buffer = f->bytes, .capacity = DATAGRAM_LEN, .count_max = 1};

    if (cm_transmit(cm, &b) == 0)
        return false;
    assert_int_equal(b.last_len, DATAGRAM_LEN);
    assert_int_equal(cm_read(f->bytes + MAD_AT, MAD_LEN, &f->last), 0);
    return true;
}

void lands(struct fixture *f, struct cm *cm)
{
    const struct datagram d = {
        .src = cm == f->a ? gid_b : gid_a,
        .dst = cm == f->a ? gid_a : gid_b,
        .bytes = f->bytes,
        .len = DATAGRAM_LEN,
    };

    cm_receive(cm, &d, f->now);
}

void passes(struct fixture *f, struct cm *from, enum cm_kind kind)
{
    assert_true(leaves(f, from));
    assert_int_equal(f->last.kind, kind);
    lands(f, from == f->a ? f->b : f->a);
}

void is_lost(struct fixture *f, struct cm *from, enum cm_kind kind)
{
    assert_true(leaves(f, from));
    assert_int_equal(f->last.kind, kind);
}

void forged(struct fixture *f, struct cm *to, const struct cm_message *m)
{
    cm_write(m, f->bytes + MAD_AT);
    lands(f, to);
}

struct cm_event event_of(struct cm *cm, enum cm_event_type type)
{
    struct cm_event event;

    assert_true(cm_event_next(cm, &event));
    assert_int_equal(event.type, type);
    return event;
}

void nothing_happens(struct cm *cm)
{
    struct cm_event event;

    assert_false(cm_event_next(cm, &event));
    assert_false(cm_wants_transmit(cm));
}

void time_passes(struct fixture *f, uint64_t ns)
{
    f->now += ns;
    cm_advance(f->a, f->now);
    cm_advance(f->b, f->now);
}

void ask(struct fixture *f)
{
    struct cm_connect connect = {
        .path = {.src = gid_a, .dst = gid_b, .flow_label = 0x5bd09, .hop_limit = 64},
        .service_id = SERVICE,
        .starting_psn = 0xabcdef,
        .responder_resources = 3,
        .initiator_depth = 4,
        .retry_count = 7,
        .rnr_retry_count = 6,
        .path_mtu = f->path_mtu,
        .ack_timeout = 19,
        .private_data = {"hello", 5},
    };

    if (!f->same_qp)
        f->qpn++;
    connect.qpn = f->qpn;
    assert_int_equal(cm_id_new(f->a, f, &f->active), 0);
    cm_id_set_patience(f->active, f->patience_ns);
    assert_int_equal(cm_connect(f->active, &connect, f->now), 0);
}

void accept_it(struct fixture *f)
{
    const struct cm_accept accept = {
        .qpn = QPN_B + (f->qpn - QPN_A),
        .starting_psn = 0x123456,
        .responder_resources = 4,
        .initiator_depth = 3,
        .rnr_retry_count = 7,
        .private_data = {"welcome", 7},
    };

    assert_int_equal(cm_accept(f->passive, &accept, f->now), 0);
}

void request_comes(struct fixture *f)
{
    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
}

void ask_and_accept(struct fixture *f)
{
    request_comes(f);
    accept_it(f);
}

void connect_them(struct fixture *f)
{
    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    event_of(f->b, CM_EVENT_ESTABLISHED);
}

void restart_a(struct fixture *f)
{
    cm_free(f->a);
    assert_int_equal(cm_new(&(struct cm_config){.seed = "other", .slot = 1}, &f->a), 0);
}
