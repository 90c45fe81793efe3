/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process under fire: while two processes work together, somebody on the
 * peer's address sends bad packets to the same queue pair through an ordinary
 * socket. The work goes on, no byte changes that should not, and the counters
 * of both processes know of each packet.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "link/link.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define LEN_MAX 64u
#define PACE 64u /* bad packets between two good messages: they must not fill a buffer */
#define MESSAGE_LEN 5000u
#define SECRET 0x5au /* all memory but where messages land */

enum shot {
    SHOT_EACH_OPCODE, /* each opcode with each length, at a PSN that is long over */
    SHOT_SHORT,
    SHOT_WRONG_ICRC,
    SHOT_WRONG_PKEY,
    SHOT_NO_SUCH_QP,
    SHOT_COUNT,
};

struct gun {
    struct side *side;
    int fd;
    uint16_t port;
    struct icrc_flow flow;
    uint64_t sent[SHOT_COUNT];
    uint64_t messages;
};

/* What both sides know in the end. */
struct account {
    uint64_t icrc_error;
    uint64_t too_short;
    uint64_t lost; /* for want of room */
    uint64_t wrong_pkey;
    uint64_t no_qp;
    uint64_t others; /* every other ending that a bad packet may have */
};

static struct account account_of(struct side *s)
{
    const struct link_counters l = node_link_counters(s->node);
    struct engine_counters e;

    node_lock(s->node);
    e = *engine_counters(node_engine(s->node));
    node_unlock(s->node);
    return (struct account){
        .icrc_error = l.icrc_error,
        .too_short = l.too_short,
        .lost = l.socket_overflow + l.hand_over_full,
        .wrong_pkey = e.wrong_pkey,
        .no_qp = e.no_qp,
        .others =
            e.malformed + e.wrong_service + e.cnp_rcv + e.stale_response + e.duplicate_request,
    };
}

static void open_gun(struct gun *g, struct side *s)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct gid here = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    socklen_t len = sizeof(name);
    int df = IP_PMTUDISC_DO; /* then the identification is 0 */

    *g = (struct gun){.side = s};
    g->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(g->fd >= 0);
    must(bind(g->fd, (struct sockaddr *)&name, sizeof(name)) == 0);
    must(getsockname(g->fd, (struct sockaddr *)&name, &len) == 0);
    must(setsockopt(g->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) == 0);
    g->port = ntohs(name.sin_port);
    icrc_flow_init(&g->flow, &here, &here);
    name.sin_port = htons(ROCE_UDP_PORT);
    must(connect(g->fd, (struct sockaddr *)&name, sizeof(name)) == 0);
}

static void one_message(struct side *s, uint32_t len)
{
    struct completion c;

    side_post(s, WR_SEND, 0, len);
    c = side_wait_polling(s);
    must(c.status == STATUS_SUCCESS);
}

static void fire(struct gun *g, enum shot shot, uint8_t *bytes, size_t len)
{
    uint64_t total = 0;

    if (len >= BTH_LEN + ICRC_LEN)
        store_le32(bytes + len - ICRC_LEN,
                   icrc_compute(&g->flow, g->port, 0, bytes, len - ICRC_LEN));
    if (shot == SHOT_WRONG_ICRC)
        bytes[len - 1] ^= 0x40;
    must(send(g->fd, bytes, len, 0) == (ssize_t)len);
    g->sent[shot]++;
    for (int i = 0; i < SHOT_COUNT; i++)
        total += g->sent[i];
    if (total % PACE != 0)
        return;
    one_message(g->side, MESSAGE_LEN);
    g->messages++;
}

static size_t write_packet(const struct side *s, uint8_t opcode, uint32_t len, uint8_t *out)
{
    const struct headers h = {
        .bth = {.opcode = opcode,
                .pkey = 0xffff,
                .pad_count = packet_pad(len),
                .dest_qpn = s->theirs.qpn,
                .psn = psn_sub(psn_make(s->mine.psn), 5000)},
        .reth = {.va = s->theirs.addr + SIDE_MEMORY_LEN / 2,
                 .rkey = s->theirs.rkey,
                 .dma_len = len},
        .atomic = {.va = s->theirs.addr + SIDE_MEMORY_LEN / 2, .rkey = s->theirs.rkey},
    };
    size_t headers_len = BTH_LEN;

    memset(out, 0xee, BTH_LEN + 64 + LEN_MAX + 8);
    if (opcode_operation(opcode) != NULL)
        headers_len = headers_write(&h, out);
    else
        headers_write(&(struct headers){.bth = {.opcode = 4, .dest_qpn = s->theirs.qpn}}, out);
    out[0] = opcode;
    return headers_len + len + packet_pad(len) + ICRC_LEN;
}

static void fire_all(struct gun *g)
{
    const uint8_t send_only = opcode_make(SERVICE_RC, OP_SEND_ONLY);
    uint8_t bytes[BTH_LEN + 64 + LEN_MAX + 8];

    for (uint32_t n = 0; n < 256 * (LEN_MAX + 1); n++) {
        const uint8_t opcode = (uint8_t)(n / (LEN_MAX + 1));

        fire(g, SHOT_EACH_OPCODE, bytes, write_packet(g->side, opcode, n % (LEN_MAX + 1), bytes));
    }
    for (size_t len = 0; len < BTH_LEN + ICRC_LEN; len++) {
        write_packet(g->side, send_only, 0, bytes);
        fire(g, SHOT_SHORT, bytes, len);
    }
    for (uint32_t i = 0; i <= LEN_MAX; i++) {
        size_t len = write_packet(g->side, send_only, i, bytes);

        fire(g, SHOT_WRONG_ICRC, bytes, len);
        len = write_packet(g->side, send_only, i, bytes);
        bytes[3] ^= 1;
        fire(g, SHOT_WRONG_PKEY, bytes, len);
        len = write_packet(g->side, send_only, i, bytes);
        bytes[7] ^= 0x55;
        bytes[6] ^= 0x2a;
        fire(g, SHOT_NO_SUCH_QP, bytes, len);
    }
}

static void check_accounts(const struct gun *g, const struct account *a, const struct account *b)
{
    must(a->lost + b->lost == 0);
    must(a->icrc_error + b->icrc_error == g->sent[SHOT_WRONG_ICRC]);
    must(a->too_short + b->too_short == g->sent[SHOT_SHORT]);
    must(a->wrong_pkey + b->wrong_pkey == g->sent[SHOT_WRONG_PKEY]);
    must(a->no_qp + b->no_qp == g->sent[SHOT_NO_SUCH_QP]);
    /* A slow machine may send a good packet again, which is a duplicate too. */
    must(a->others + b->others >= g->sent[SHOT_EACH_OPCODE]);
}

static void the_attacker(struct side *s)
{
    struct account mine;
    struct account theirs;
    struct gun g;

    for (uint32_t i = 0; i < MESSAGE_LEN; i++)
        s->memory[i] = (uint8_t)(i * 7);
    open_gun(&g, s);
    fire_all(&g);
    one_message(s, 1); /* the end */
    must(recv(s->channel, &theirs, sizeof(theirs), 0) == sizeof(theirs));
    mine = account_of(s);
    check_accounts(&g, &mine, &theirs);
    must(g.messages > 100);
    close(g.fd);
    side_meet(s);
}

static void the_attacked(struct side *s)
{
    struct account account;
    struct completion c;

    memset(s->memory, SECRET, SIDE_MEMORY_LEN);
    side_post_recv(s, 0, MESSAGE_LEN);
    for (;;) {
        c = side_wait_sleeping(s);
        must(c.status == STATUS_SUCCESS);
        if (c.byte_len == 1)
            break;
        must(c.byte_len == MESSAGE_LEN);
        for (uint32_t i = 0; i < MESSAGE_LEN; i++)
            must(s->memory[i] == (uint8_t)(i * 7));
        memset(s->memory, SECRET, MESSAGE_LEN);
        side_post_recv(s, 0, MESSAGE_LEN);
    }
    for (uint32_t i = 1; i < SIDE_MEMORY_LEN; i++)
        must(s->memory[i] == SECRET);
    account = account_of(s);
    must(send(s->channel, &account, sizeof(account), 0) == sizeof(account));
    side_meet(s);
}

static void bad_packets_from_the_peers_address_harm_nobody_and_are_all_counted(void **state)
{
    (void)state;
    pair_run(the_attacker, the_attacked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_packets_from_the_peers_address_harm_nobody_and_are_all_counted),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
