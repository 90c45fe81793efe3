/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connection managers face to face, a active and b passive, as the tests of cm/ share them:
 * each message is handed over by the test, which loses, repeats and forges as it likes.
 */
#ifndef UROCE_TESTS_UNIT_CM_TWO_H
#define UROCE_TESTS_UNIT_CM_TWO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "wire/packet.h"

#define SERVICE 0x0000000001061c06u
#define MS UINT64_C(1000000)
#define DATAGRAM_LEN 280u
#define MAD_AT (BTH_LEN + DETH_LEN)
#define QPN_A 0x01000bu /* of the first connection, and of the following ones the next */
#define QPN_B 0x020007u

static const struct gid gid_a = {{0xfd, [15] = 1}};
static const struct gid gid_b = {{0xfd, [15] = 2}};
static const struct cm_bytes none;

struct fixture {
    struct cm *a;
    struct cm *b;
    struct cm_id *listener; /* of b, on SERVICE, backlog 2 */
    struct cm_id *active;
    struct cm_id *passive;
    uint64_t now;
    uint32_t qpn; /* of the last connection, a's side; the next has the next one, unless same_qp */
    bool same_qp;
    uint8_t path_mtu;
    uint64_t patience_ns;        /* of a, with who does not listen yet */
    uint8_t bytes[DATAGRAM_LEN]; /* of the last message that left */
    struct cm_message last;
};

int setup(void **state);
int teardown(void **state);

/* Takes one message that leaves; false when none does. */
bool leaves(struct fixture *f, struct cm *cm);

/* The bytes reach one side, from the other. */
void lands(struct fixture *f, struct cm *cm);

/* The next message of one side, of this kind, reaches the other; gets lost. */
void passes(struct fixture *f, struct cm *from, enum cm_kind kind);
void is_lost(struct fixture *f, struct cm *from, enum cm_kind kind);

/* A message that nobody sent reaches one side, from the other. */
void forged(struct fixture *f, struct cm *to, const struct cm_message *m);

/* What comes next at one side; that nothing does. */
struct cm_event event_of(struct cm *cm, enum cm_event_type type);
void nothing_happens(struct cm *cm);

void time_passes(struct fixture *f, uint64_t ns);

/* a asks; b takes the request and says yes; all that, and both are established. */
void ask(struct fixture *f);
void request_comes(struct fixture *f);
void accept_it(struct fixture *f);
void ask_and_accept(struct fixture *f);
void connect_them(struct fixture *f);

/* a's process dies, and another comes. */
void restart_a(struct fixture *f);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
