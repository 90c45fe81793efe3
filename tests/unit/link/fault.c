/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault link over a link of the test's own, with the test's own time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "link/fault.h"
#include "link/limits.h"
#include "wire/icrc.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#define LEN 64u
#define MARK_AT BTH_LEN /* a letter by which the test knows a datagram */
#define QPN 0x010011u
#define LETTERS_MAX 16384

/* The link below: keeps letters of what it is sent, brings what the test puts in. */
static struct {
    struct link link;
    char sent[LETTERS_MAX]; /* capital when damaged; '|' ends each send */
    size_t sent_len;
    int refuse;  /* so many sends block first */
    bool balks;  /* and then every second one */
    bool balked; /* the last did */
    const char *brings;
    uint8_t traffic_class; /* of the last sent */
    bool closed;
} below;

static struct link *faulty;
static uint64_t now_ns;
static char received[LETTERS_MAX]; /* capital when marked */

static uint64_t now(void)
{
    return now_ns;
}

static void fill(uint8_t *bytes, char letter)
{
    memset(bytes, 0, LEN);
    bytes[0] = opcode_make(SERVICE_RC, OP_SEND_ONLY);
    store_be32(bytes + 4, QPN);
    bytes[MARK_AT] = (uint8_t)letter;
}

static char capital_if(bool condition, char letter)
{
    if (condition)
        return (char)toupper(letter);
    return letter;
}

static int below_send(struct link *link, struct datagram_batch *b)
{
    (void)link;
    if (below.refuse > 0) {
        below.refuse--;
        return -EAGAIN;
    }
    below.balked = below.balks && !below.balked;
    if (below.balked)
        return -EAGAIN;
    for (uint32_t i = 0; i < b->count; i++) {
        char letter = (char)b->buffer[i * b->segment_len + MARK_AT];

        assert_true(below.sent_len + 2 < sizeof(below.sent));
        assert_int_equal(i + 1 < b->count ? b->segment_len : b->last_len, LEN);
        below.sent[below.sent_len++] = capital_if(b->damaged, letter);
    }
    below.sent[below.sent_len++] = '|';
    below.sent[below.sent_len] = '\0';
    below.traffic_class = b->path.traffic_class;
    below.link.counters.sent_datagrams += b->count;
    return 0;
}

static uint32_t below_receive(struct link *link, uint32_t budget, link_receive_fn fn, void *context)
{
    uint32_t count = 0;

    (void)link;
    for (; *below.brings != '\0' && count < budget; below.brings++, count++) {
        uint8_t bytes[LEN];
        struct datagram d = {.bytes = bytes, .len = LEN, .src_port = 0xc123, .traffic_class = 2};

        fill(bytes, *below.brings);
        fn(context, &d);
        memset(bytes, '?', sizeof(bytes));
    }
    return count;
}

static uint32_t below_room(struct link *link, const struct gid *dst, uint8_t slot)
{
    (void)link;
    (void)dst;
    return slot == 1 ? 1000 : UINT32_MAX;
}

static uint32_t below_buffer(struct link *link, const struct gid *dst, uint8_t slot)
{
    (void)link;
    (void)dst;
    return slot == 1 ? 5000 : 0;
}

static void below_close(struct link *link)
{
    (void)link;
    below.closed = true;
}

static const struct link_ops below_ops = {
    .send = below_send,
    .receive = below_receive,
    .local_room = below_room,
    .local_buffer = below_buffer,
    .close = below_close,
};

static void begin(const char *rules)
{
    struct fault_plan plan;
    struct fault_config config = {.plan = &plan, .seed = 7, .now = now};
    char error[FAULT_ERROR_SIZE];

    if (faulty != NULL)
        link_close(faulty);
    memset(&below, 0, sizeof(below));
    memset(received, 0, sizeof(received));
    below.link.ops = &below_ops;
    below.brings = "";
    now_ns = 1000000000;
    if (fault_plan_parse(rules, &plan, error) != 0)
        fail_msg("%s", error);
    assert_int_equal(fault_link_open(&config, &below.link, &faulty), 0);
}

static int end(void **state)
{
    (void)state;
    if (faulty != NULL)
        link_close(faulty);
    faulty = NULL;
    return 0;
}

/* A batch with a datagram for each letter; the same till the next call. */
static struct datagram_batch *batch_of(const char *letters)
{
    static uint8_t buffer[64 * LEN];
    static struct datagram_batch b;

    b = (struct datagram_batch){
        .buffer = buffer,
        .capacity = sizeof(buffer),
        .count_max = 64,
        .path.traffic_class = 2,
        .dest_slot = 1,
        .count = (uint32_t)strlen(letters),
        .segment_len = LEN,
        .last_len = LEN,
    };
    for (uint32_t i = 0; i < b.count; i++)
        fill(buffer + (size_t)i * LEN, letters[i]);
    return &b;
}

static void sends(const char *letters)
{
    assert_int_equal(link_send(faulty, batch_of(letters)), 0);
}

static void take(void *context, const struct datagram *d)
{
    char *end_of = received + strlen(received);
    char letter = (char)d->bytes[MARK_AT];

    (void)context;
    assert_int_equal(d->len, LEN);
    assert_int_equal(d->src_port, 0xc123);
    *end_of = capital_if(d->traffic_class == 3, letter);
}

static uint32_t brings(const char *letters)
{
    below.brings = letters;
    return link_receive(faulty, 128, take, NULL);
}

static void what_nothing_is_done_to_leaves_as_it_was(void **state)
{
    (void)state;
    begin("drop:nth=1000");
    sends("abcdefgh");
    assert_string_equal(below.sent, "abcdefgh|");
    assert_int_equal(brings("xyz"), 3);
    assert_string_equal(received, "xyz");
    assert_int_equal(faulty->counters.sent_datagrams, 8);
    assert_int_equal(link_deadline(faulty), UINT64_MAX);
}

static void a_drop_splits_the_batch(void **state)
{
    (void)state;
    begin("drop:nth=3");
    sends("abcde");
    assert_string_equal(below.sent, "ab|de|");
    assert_int_equal(brings("x"), 1);
}

static void a_copy_leaves_alone_like_its_original(void **state)
{
    (void)state;
    begin("dup:nth=2");
    sends("abc");
    assert_string_equal(below.sent, "a|b|b|c|");
    begin("dup:dir=in:nth=2");
    brings("xyz");
    assert_string_equal(received, "xyyz");
}

static void a_reordered_packet_is_overtaken_by_so_many(void **state)
{
    (void)state;
    begin("reorder:nth=2:by=3:dir=out");
    sends("abcdefg");
    assert_string_equal(below.sent, "a|c|d|e|b|fg|");
    begin("reorder:nth=1:by=2:dir=in");
    brings("xyzw");
    assert_string_equal(received, "yzxw");
}

static void a_reordered_packet_that_nobody_overtakes_goes_on_after_a_while(void **state)
{
    (void)state;
    begin("reorder:nth=1:per=qp");
    sends("a");
    brings("x");
    assert_string_equal(below.sent, "");
    assert_string_equal(received, "");
    assert_int_equal(link_deadline(faulty), now_ns + FAULT_REORDER_WAIT_NS);
    now_ns += FAULT_REORDER_WAIT_NS - 1;
    assert_int_equal(brings(""), 0);
    now_ns++;
    /* One of them came in before: both directions count separately. */
    assert_true(brings("") > 0);
    assert_string_equal(below.sent, "a|");
    assert_string_equal(received, "x");
    assert_int_equal(link_deadline(faulty), UINT64_MAX);
}

static void delayed_packets_go_on_in_order_at_their_time(void **state)
{
    (void)state;
    begin("delay=100us");
    sends("ab");
    now_ns += 10000;
    sends("c");
    brings("x");
    assert_string_equal(below.sent, "");
    assert_int_equal(link_deadline(faulty), 1000000000 + 100000);
    now_ns = 1000000000 + 100000;
    brings("");
    assert_string_equal(below.sent, "a|b|");
    assert_int_equal(link_deadline(faulty), 1000000000 + 110000);
    now_ns += 10000;
    brings("");
    assert_string_equal(below.sent, "a|b|c|");
    assert_string_equal(received, "x");
}

static void damage_is_asked_of_the_link_below_and_counted_on_arrival(void **state)
{
    (void)state;
    begin("corrupt:per=qp:nth=2");
    sends("abc");
    assert_string_equal(below.sent, "a|B|c|");
    assert_int_equal(brings("xyz"), 3);
    assert_string_equal(received, "xz");
    assert_int_equal(faulty->counters.icrc_error, 1);
}

static void a_mark_is_congestion_experienced(void **state)
{
    (void)state;
    begin("mark:nth=2");
    brings("xyz");
    assert_string_equal(received, "xYz");
    begin("mark:nth=2:dir=out");
    sends("ab");
    assert_string_equal(below.sent, "a|b|");
    assert_int_equal(below.traffic_class, 3);
}

static void a_link_that_blocks_gets_the_same_piece_again(void **state)
{
    struct datagram_batch *b;

    (void)state;
    begin("dup:nth=3,drop:nth=5");
    b = batch_of("abcdefg");
    below.refuse = 1;
    assert_int_equal(link_send(faulty, b), -EAGAIN);
    assert_string_equal(below.sent, "");
    assert_int_equal(link_send(faulty, b), 0);
    assert_string_equal(below.sent, "ab|c|c|d|fg|");
    /* The next batch is judged anew. */
    sends("h");
    assert_string_equal(below.sent, "ab|c|c|d|fg|h|");
}

static void a_copy_that_blocks_is_not_sent_twice(void **state)
{
    struct datagram_batch *b;

    (void)state;
    begin("dup:nth=1,dup:nth=1");
    b = batch_of("ab");
    below.balks = true;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(link_send(faulty, b), -EAGAIN);
    assert_int_equal(link_send(faulty, b), 0);
    assert_string_equal(below.sent, "a|a|a|b|");
}

static void a_held_packet_that_blocks_comes_before_all_others(void **state)
{
    struct datagram_batch *b;

    (void)state;
    begin("delay=1us:nth=1");
    sends("a");
    now_ns += 1000;
    below.refuse = 2;
    assert_int_equal(brings(""), 0);
    assert_int_equal(link_deadline(faulty), now_ns + FAULT_RETRY_NS);
    b = batch_of("b");
    assert_int_equal(link_send(faulty, b), -EAGAIN);
    now_ns += FAULT_RETRY_NS;
    assert_int_equal(link_send(faulty, b), -EAGAIN);
    now_ns += FAULT_RETRY_NS;
    assert_int_equal(link_send(faulty, b), 0);
    assert_string_equal(below.sent, "a|b|");
}

static void what_is_held_leaves_when_the_process_ends(void **state)
{
    (void)state;
    begin("delay=1s");
    sends("abc");
    link_finish(faulty);
    assert_string_equal(below.sent, "a|b|c|");
}

static void what_finds_no_room_is_lost_and_told(void **state)
{
    char letters[65] = "";
    char report[512];

    (void)state;
    begin("delay=1s");
    memset(letters, 'a', 64);
    for (uint32_t i = 0; i < FAULT_HELD_MAX / 64; i++)
        sends(letters);
    sends("b");
    fault_link_report(faulty, "> ", report, sizeof(report));
    assert_non_null(strstr(report, "> delay=1s "));
    assert_non_null(strstr(report, " 4097 packets seen, 4097 hit\n"));
    assert_non_null(strstr(report, "> 1 packets lost for want of room"));
    now_ns += 1000000000;
    brings("");
    sends("c");
    assert_int_equal(below.sent_len, 2 * FAULT_HELD_MAX);
    now_ns += 1000000000;
    brings("");
    assert_string_equal(below.sent + below.sent_len - 2, "c|");
}

static void what_is_held_takes_room_at_the_receiver(void **state)
{
    struct gid somewhere = {{0}};

    (void)state;
    begin("delay=1s");
    assert_int_equal(link_local_room(faulty, &somewhere, 1), 1000);
    sends("ab");
    assert_int_equal(link_local_room(faulty, &somewhere, 1), 1000 - 4 * LEN);
    assert_int_equal(link_local_room(faulty, &somewhere, 2), UINT32_MAX);
    assert_int_equal(link_local_buffer(faulty, &somewhere, 1), 5000);
    assert_int_equal(link_local_buffer(faulty, &somewhere, 2), 0);
}

static void damage_is_seen_at_every_length(void **state)
{
    static uint8_t bytes[DATAGRAM_LEN_MAX];
    struct gid src = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
    struct gid dst = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};
    struct icrc_flow flow;

    (void)state;
    icrc_flow_init(&flow, &src, &dst);
    for (size_t len = BTH_LEN; len <= PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX; len += 4) {
        uint32_t icrc = icrc_compute(&flow, 0xc000, 0, bytes, len);
        uint16_t id;

        store_le32(bytes + len, icrc);
        assert_int_equal(icrc_verify(&flow, 0xc000, 0, bytes, len + 4, &id), ICRC_GOOD);
        store_le32(bytes + len, icrc ^ FAULT_ICRC_DAMAGE);
        assert_int_equal(icrc_verify(&flow, 0xc000, 0, bytes, len + 4, &id), ICRC_BAD);
        memset(bytes + len, 0, 4);
    }
}

static void the_link_below_is_closed_with_it(void **state)
{
    begin("drop");
    end(state);
    assert_true(below.closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_nothing_is_done_to_leaves_as_it_was, end),
        cmocka_unit_test_teardown(a_drop_splits_the_batch, end),
        cmocka_unit_test_teardown(a_copy_leaves_alone_like_its_original, end),
        cmocka_unit_test_teardown(a_reordered_packet_is_overtaken_by_so_many, end),
        cmocka_unit_test_teardown(a_reordered_packet_that_nobody_overtakes_goes_on_after_a_while,
                                  end),
        cmocka_unit_test_teardown(delayed_packets_go_on_in_order_at_their_time, end),
        cmocka_unit_test_teardown(damage_is_asked_of_the_link_below_and_counted_on_arrival, end),
        cmocka_unit_test_teardown(a_mark_is_congestion_experienced, end),
        cmocka_unit_test_teardown(a_link_that_blocks_gets_the_same_piece_again, end),
        cmocka_unit_test_teardown(a_copy_that_blocks_is_not_sent_twice, end),
        cmocka_unit_test_teardown(a_held_packet_that_blocks_comes_before_all_others, end),
        cmocka_unit_test_teardown(what_is_held_leaves_when_the_process_ends, end),
        cmocka_unit_test_teardown(what_finds_no_room_is_lost_and_told, end),
        cmocka_unit_test_teardown(what_is_held_takes_room_at_the_receiver, end),
        cmocka_unit_test(damage_is_seen_at_every_length),
        cmocka_unit_test(the_link_below_is_closed_with_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
