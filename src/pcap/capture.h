/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading pcap and pcapng files frame by frame through libpcap. A file that
 * ends or goes wrong in the middle has been read up to there.
 */
#ifndef UROCE_PCAP_CAPTURE_H
#define UROCE_PCAP_CAPTURE_H

#include <stdint.h>

#include "pcap/frame.h"

struct capture {
    struct pcap *pcap; /* libpcap's handle; owned */
    enum link_type link;
    uint64_t frame_count; /* read so far */
    uint64_t start_ns;    /* time of the first frame, since 1970 */
    char error[512];      /* a sentence for people after a function failed */
};

/*
 * Opens path, or standard input when it is "-". Returns 0, or with error set:
 * -ENOENT and the like from opening, -EINVAL for what is no capture,
 * -EOPNOTSUPP for a link type that frame.h does not have.
 */
int capture_open(struct capture *c, const char *path);

/*
 * Reads the next frame and sets of *f what the caller of frame_decode sets,
 * but for icrc_unset_ok. f->bytes is valid until the next call. Returns 1, 0 at the
 * end, or -EIO with error set when the file ends in the middle of a record or
 * cannot be made sense of from here on.
 */
int capture_next(struct capture *c, struct frame *f);

/* Also after a failed capture_open. */
void capture_close(struct capture *c);

#endif
