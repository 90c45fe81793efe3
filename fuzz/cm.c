/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection manager with listeners and an application that does anything at any time, and two
 * peers that send whatever the input says: messages with likely IDs, what the
 * manager itself sent last, both with bytes changed, and raw bytes. IDs are never more than
 * allowed, events are of IDs that the application has, and when it has given all back and time has
 * passed, no ID and no timer is left.
 *
 * Input: steps of a byte each with their arguments.
 */
#include <assert.h>
#include <stdlib.h>

#include "mad.h"

#define SERVICE 0x0000000001061234u
#define DATAGRAM_SERVICE 0x0000000001115678u
#define IDS_MAX 24u
#define STEPS_MAX 300u
#define SETTLED_NS (UINT64_C(1) << 50)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct {
    struct cm *cm;
    struct cm_id *ids[IDS_MAX]; /* those of the application */
    struct gid us;
    uint64_t now;
    uint8_t last[FUZZ_DATAGRAM_LEN]; /* what left last */
} f;

static const struct gid us = {{0xfd, [15] = 1}};
static const struct cm_bytes data = {"private data", 12};
static const struct cm_bytes none;

static struct gid peer(uint8_t number)
{
    return (struct gid){{0xfd, [15] = (uint8_t)(2 + number % 2)}};
}

/* --- the application --- */

static void hold(struct cm_id *id)
{
    for (unsigned i = 0; i < IDS_MAX; i++) {
        if (f.ids[i] == NULL) {
            f.ids[i] = id;
            return;
        }
    }
    abort(); /* more IDs than allowed */
}

static bool is_held(const struct cm_id *id)
{
    for (unsigned i = 0; i < IDS_MAX; i++)
        if (f.ids[i] == id)
            return true;
    return false;
}

static void take_events(void)
{
    struct cm_event e;

    while (cm_event_next(f.cm, &e)) {
        if (e.listener != NULL) {
            assert(is_held(e.listener));
            hold(e.id);
        }
        assert(is_held(e.id));
        assert(cm_id_user(e.id) == &f);
    }
}

static struct cm_id *new_id(void)
{
    struct cm_id *id;

    if (cm_id_new(f.cm, &f, &id) != 0)
        return NULL;
    hold(id);
    return id;
}

static void begin(struct input *in)
{
    struct cm_connect c = {
        .path = {.src = us, .dst = peer(take(in)), .hop_limit = 64},
        .service_id = SERVICE,
        .qpn = 0x010000u | take(in),
        .path_mtu = 5,
        .private_data = data,
    };
    struct cm_id *id = new_id();

    if (id == NULL)
        return;
    cm_id_set_patience(id, take(in) * UINT64_C(1000000));
    if (take(in) & 1u)
        cm_resolve(id, &c.path, DATAGRAM_SERVICE, data, f.now);
    else
        cm_connect(id, &c, f.now);
}

static void act_on(struct input *in, struct cm_id **id)
{
    const struct cm_accept accept = {.qpn = 0x010000u | take(in), .private_data = data};

    switch (take(in) % 8u) {
    case 0:
        cm_accept(*id, &accept, f.now);
        return;
    case 1:
        cm_reject(*id, CM_REASON_CONSUMER, data, data, f.now);
        return;
    case 2:
        cm_establish(*id, none, f.now);
        return;
    case 3:
        cm_disconnect(*id, data, f.now);
        return;
    case 4:
        cm_note_traffic(*id, f.now);
        return;
    case 5:
        cm_resolve_reply(*id, (enum cm_sidr_status)(take(in) % 6u), 0x010007, 1, data, f.now);
        return;
    case 6:
        cm_listen(*id, SERVICE, take(in) & 1u ? &us : NULL, take(in) % 4u);
        return;
    default:
        cm_id_free(*id, f.now);
        *id = NULL;
        return;
    }
}

static void act(struct input *in)
{
    struct cm_id **id = &f.ids[take(in) % IDS_MAX];

    take_events();
    if (*id != NULL)
        act_on(in, id);
}

/* --- the peers --- */

static void receive(const uint8_t *bytes, size_t len, uint8_t from)
{
    const struct datagram d = {.src = peer(from), .dst = us, .bytes = bytes, .len = len};
    uint64_t service_id;
    uint8_t slot;

    cm_slot_of(&d, &slot, &service_id);
    cm_receive(f.cm, &d, f.now);
    assert(cm_id_count(f.cm) <= IDS_MAX);
}

static void receive_message(struct input *in)
{
    uint8_t bytes[FUZZ_DATAGRAM_LEN] = {0};
    struct cm_message m = take_message(in, take(in) & 1u ? DATAGRAM_SERVICE : SERVICE);
    const struct cm_id *id = f.ids[take(in) % IDS_MAX];

    if (id != NULL) {
        m.remote_comm_id = cm_id_comm_id(id);
        if (m.kind == CM_SIDR_REP)
            m.local_comm_id = m.remote_comm_id;
        if (m.kind == CM_DREQ)
            m.qpn |= 0x010000u;
    }
    write_headers(bytes);
    cm_write(&m, bytes + FUZZ_MAD_AT);
    damage(in, bytes);
    receive(bytes, sizeof(bytes), take(in));
}

static void receive_last(struct input *in)
{
    uint8_t bytes[FUZZ_DATAGRAM_LEN];

    memcpy(bytes, f.last, sizeof(bytes));
    damage(in, bytes);
    receive(bytes, sizeof(bytes), take(in));
}

static void receive_raw(struct input *in)
{
    const size_t wanted = 2 * (size_t)take(in);
    const size_t len = wanted < in->left ? wanted : in->left;

    receive(in->next, len, 0);
    in->next += len;
    in->left -= len;
}

/* --- both --- */

static void send_all(void)
{
    struct datagram_batch b = {
        .buffer = f.last,
        .capacity = sizeof(f.last),
        .count_max = 1,
    };

    while (cm_transmit(f.cm, &b) > 0)
        assert(b.last_len == FUZZ_DATAGRAM_LEN);
    assert(!cm_wants_transmit(f.cm));
}

static void pass(uint64_t ns)
{
    f.now += ns;
    if (cm_deadline(f.cm) <= f.now)
        cm_advance(f.cm, f.now);
    assert(cm_deadline(f.cm) > f.now);
}

static void step(struct input *in)
{
    switch (take(in) % 8u) {
    case 0:
    case 1:
        receive_message(in);
        return;
    case 2:
        receive_last(in);
        return;
    case 3:
        receive_raw(in);
        return;
    case 4:
        begin(in);
        return;
    case 5:
        send_all();
        return;
    case 6:
        pass(UINT64_C(1) << take(in) % 38u);
        return;
    default:
        act(in);
        return;
    }
}

/* Everything comes to an end by itself, without an answer from anybody. */
static void end(void)
{
    take_events();
    for (unsigned i = 0; i < IDS_MAX; i++) {
        if (f.ids[i] != NULL)
            cm_id_free(f.ids[i], f.now);
        f.ids[i] = NULL;
    }
    for (unsigned n = 0; cm_deadline(f.cm) != CM_NEVER; n++) {
        assert(n < 100000);
        send_all();
        pass(cm_deadline(f.cm) - f.now);
    }
    assert(f.now < SETTLED_NS);
    assert(cm_id_count(f.cm) == 0);
    cm_free(f.cm);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct cm_config config = {.slot = 1, .ids_max = IDS_MAX};
    struct input in = {bytes, len};

    memset(&f, 0, sizeof(f));
    f.now = 1;
    write_headers(f.last);
    if (cm_new(&config, &f.cm) != 0)
        return 0;
    cm_listen(new_id(), SERVICE, NULL, 4);
    cm_listen(new_id(), DATAGRAM_SERVICE, &us, 4);
    for (unsigned i = 0; i < STEPS_MAX && in.left > 0; i++)
        step(&in);
    end();
    return 0;
}
