/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by request.c, response.c and stream.c. */
#ifndef UROCE_PCAP_STREAM_PRIVATE_H
#define UROCE_PCAP_STREAM_PRIVATE_H

#include "pcap/stream.h"

/* The position of a PSN that is nearest to one. */
static inline int64_t position_near(int64_t near, struct psn psn)
{
    return near + psn_diff(psn, psn_make((uint32_t)near));
}

static inline struct psn position_psn(int64_t position)
{
    return psn_make((uint32_t)position);
}

/* The request at an index from the oldest one. */
struct request *stream_ring_at(const struct stream *s, uint32_t index);

/* Keeps a request, at its place; when there is none left, it counts as untimed. */
void stream_ring_add(struct stream *s, struct moment *m, const struct request *request);

/* Completes all that ends at or before a position. */
void stream_retire(struct stream *s, struct moment *m, int64_t end);

/* A message is complete, at the time of the frame at hand. */
void stream_complete(struct stream *s, struct moment *m, const struct request *r, bool timed);

/* Opens a gap; when there are too many, the oldest is settled. */
void stream_gap_open(struct stream *s, struct moment *m, int64_t first, int64_t end);

/* Takes out of the gaps what came. Returns when its gap was seen, or 0: it was in none. */
uint64_t stream_gap_fill(struct stream *s, int64_t first, int64_t end);

/* All before end has arrived: gaps there are the capture's. */
void stream_gap_settle(struct stream *s, struct moment *m, int64_t end);

/* What waited to be judged turned out wrong: raised with the frame and time that it had. */
void stream_raise_pending(struct stream *s, struct moment *m, struct pending *pending);

/* The going back under way has come up, or was superseded. */
void stream_recovered(struct stream *s, struct moment *m, uint64_t now_ns);

/* Packets that bytes take, at least one. */
static inline int64_t stream_span(uint64_t bytes, uint16_t pmtu)
{
    return bytes <= pmtu ? 1 : (int64_t)((bytes + pmtu - 1) / pmtu);
}

#endif
