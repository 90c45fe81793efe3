/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as a capture has them: the first byte chooses the link type, the
 * second says whether a zero ICRC is fine, two more how much of the frame was
 * not captured, the rest is the frame. It is decoded, printed in every way and
 * counted; what the decoder promises must hold.
 */
#include <assert.h>
#include <stdlib.h>

#include "pcap/json.h"
#include "pcap/print.h"
#include "pcap/summary.h"
#include "base/bytes.h"

#define PREFIX_LEN 4u
#define FLOWS_MAX 4u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const struct frame *f)
{
    assert(f->verdict < FRAME_VERDICT_COUNT);
    assert(f->segment_index < f->segment_count);
    assert(f->network_offset <= f->captured_len);
    assert((f->verdict == FRAME_MALFORMED) == (f->drop != DROP_NONE));
    if (f->verdict != FRAME_PACKET)
        return;
    assert(f->has_bth);
    assert(f->network != FRAME_NETWORK_NONE);
    assert(f->bth_offset + f->datagram.len <= f->wire_len);
    assert(f->bth_offset + f->datagram_captured <= f->captured_len);
    assert(f->datagram_captured >= f->packet.headers_len);
    assert((f->icrc == FRAME_ICRC_ABSENT) == (f->datagram_captured < f->datagram.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const uint64_t hash_key[2] = {4791, 0x8915};
    static struct summary summary;
    static FILE *sink;
    struct printer printer;
    struct frame f;

    if (len < PREFIX_LEN)
        return 0;
    if (sink == NULL)
        sink = fopen("/dev/null", "w");
    assert(sink != NULL);
    f = (struct frame){
        .number = 1,
        .link = (enum link_type)(bytes[0] % LINK_TYPE_COUNT),
        .icrc_unset_ok = (bytes[1] & 1u) != 0,
        .bytes = bytes + PREFIX_LEN,
        .captured_len = (uint32_t)(len - PREFIX_LEN),
        .wire_len = (uint32_t)(len - PREFIX_LEN + load_be16(bytes + 2)),
    };
    printer = (struct printer){.out = sink};
    summary_init(&summary, FLOWS_MAX, hash_key);
    frame_decode(&f);
    do {
        check(&f);
        print_frame(&printer, &f);
        print_fields(sink, &f);
        json_print_line(sink, frame_to_json(&f));
        summary_add(&summary, &f, &(struct flow *){NULL});
    } while (frame_next_segment(&f));
    summary_print(&summary, sink);
    json_print_line(sink, summary_to_json(&summary));
    summary_fini(&summary);
    return 0;
}
