/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of arbitrary packets: each record of 12 bytes is a packet between two hosts and few
 * queue pairs, of any opcode, near or far in PSN, early or late. Its frame is
 * built to the last byte (an ICRC of zero: not filled in yet) and goes the way of a captured one.
 * The tracker is asked for everything that it knows; its bounds must hold.
 */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "pcap/connections.h"
#include "pcap/diagnosis.h"
#include "pcap/html.h"
#include "pcap/json.h"
#include "pcap/ladder.h"
#include "pcap/tracker.h"

#define RECORD_LEN 12u
#define FLOWS_MAX 6u
#define BTH_OFFSET 28u
#define FRAME_LEN_MAX (BTH_OFFSET + PACKET_HEADERS_MAX + 1024u + ICRC_LEN)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/*
 * record: flags (direction, AckReq, jump, late, back in time, print, ECN), opcode, PSN (2), payload
 * length in words, queue pair, syndrome, MSN or length, time (2), two bytes of headers.
 */
static uint32_t build(const uint8_t *record, uint8_t *frame)
{
    uint32_t headers_len = opcode_headers_len(record[1]);
    uint32_t payload_len = record[4] * 4u % 1028u;
    uint32_t len = BTH_OFFSET + (headers_len != 0 ? headers_len : BTH_LEN) + payload_len + ICRC_LEN;
    bool back = (record[0] & 1u) != 0;

    memset(frame, 0, len);
    frame[0] = 0x45;
    frame[1] = (uint8_t)(record[0] >> 6);
    store_be16(frame + 2, (uint16_t)len);
    frame[6] = 0x40;
    frame[8] = 64;
    frame[9] = 17;
    store_be32(frame + 12, back ? 0x0a000002 : 0x0a000001);
    store_be32(frame + 16, back ? 0x0a000001 : 0x0a000002);
    store_be16(frame + 20, 0xc000);
    store_be16(frame + 22, ROCE_UDP_PORT);
    store_be16(frame + 24, (uint16_t)(len - 20));
    frame[BTH_OFFSET] = record[1];
    store_be16(frame + BTH_OFFSET + 2, 0xffff);
    store_be24(frame + BTH_OFFSET + 5, (back ? 0x11u : 0x22u) + record[5] % 3u);
    frame[BTH_OFFSET + 8] = (record[0] & 2u) != 0 ? BTH_ACK_REQ : 0;
    store_be24(frame + BTH_OFFSET + 9,
               (uint32_t)load_be16(record + 2) + ((record[0] & 4u) != 0 ? 0xff0000u : 0));
    if (headers_len > BTH_LEN) {
        frame[BTH_OFFSET + 12] = record[6];
        frame[BTH_OFFSET + 15] = record[7];
        frame[BTH_OFFSET + headers_len - 1] = record[10];
        frame[BTH_OFFSET + headers_len - 2] = record[11];
    }
    return len;
}

static void check_stream(const struct stream *s, uint64_t now_ns)
{
    uint64_t lost_ns = 0;

    for (uint32_t cause = 0; cause < REPEAT_COUNT; cause++)
        lost_ns += s->counts.lost_ns[cause];
    assert(lost_ns <= now_ns);
    assert(s->ring_count <= s->ring_size);
    assert(s->ring_size <= STREAM_REQUESTS_MAX);
    assert(!s->started || s->acked <= s->next);
    assert(s->findings.count <= FINDING_COUNT);
    for (uint32_t i = 0; i < STREAM_GAPS_MAX; i++)
        assert(s->gaps[i].first <= s->gaps[i].end);
}

static void note_message(void *context, const struct message *m)
{
    FILE *sink = context;

    assert(!m->timed || m->latency_ns < UINT64_MAX / 2);
    message_print(m, sink);
    json_print_line(sink, message_to_json(m));
}

static void print_all(struct tracker *t, FILE *sink)
{
    static struct diagnosis d;
    struct selection all = {.qpn_count = 0};

    diagnosis_make(&d, t, &all);
    diagnosis_print(&d, t, &all, "fuzz", sink);
    json_print_line(sink, diagnosis_to_json(&d, t));
    connections_print(t, &all, sink);
    assert(connections_print_json(t, &all, sink) == 0);
    html_print(t, &all, "<fuzz & co>", sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const uint64_t hash_key[2] = {4791, 0x8915};
    static struct tracker t;
    static FILE *sink;
    uint8_t frame[FRAME_LEN_MAX];
    struct ladder ladder;
    uint64_t now_ns = 0;
    bool prints = len > 0 && (bytes[0] & 32u) != 0; /* takes most of the time */

    if (sink == NULL)
        sink = fopen("/dev/null", "w");
    assert(sink != NULL);
    ladder = (struct ladder){.qpn = 0x22, .out = sink};
    tracker_init(&t, FLOWS_MAX, hash_key);
    if (prints)
        tracker_set_message(&t, note_message, sink);
    for (uint64_t number = 1; len >= RECORD_LEN; number++, bytes += RECORD_LEN, len -= RECORD_LEN) {
        struct frame f = {.number = number, .link = LINK_TYPE_RAW, .bytes = frame};

        now_ns += load_be16(bytes + 8) * UINT64_C(1000) * ((bytes[0] & 8u) != 0 ? 1000 : 1);
        f.elapsed_ns = (int64_t)now_ns - ((bytes[0] & 16u) != 0 ? 5000000 : 0);
        f.captured_len = f.wire_len = build(bytes, frame);
        frame_decode(&f);
        do {
            assert(tracker_add(&t, &f) == 0);
            if (prints)
                ladder_frame(&ladder, &t, &f, t.moment.packet_flow);
        } while (frame_next_segment(&f));
        for (const struct flow *flow = t.summary.flows.flows; flow != NULL; flow = flow->hh.next)
            check_stream(&flow->stream, t.moment.now_ns);
    }
    assert(t.summary.flows.count <= FLOWS_MAX);
    assert(tracker_finish(&t) == 0);
    if (prints)
        print_all(&t, sink);
    tracker_fini(&t);
    return 0;
}
