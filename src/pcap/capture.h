/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading pcap and pcapng files, and interfaces, frame by frame through libpcap. A
 * file that ends or goes wrong in the middle has been read up to there.
 */
#ifndef UROCE_PCAP_CAPTURE_H
#define UROCE_PCAP_CAPTURE_H

#include <signal.h>
#include <stdint.h>

#include "pcap/frame.h"

struct capture {
    struct pcap *pcap;                 /* libpcap's handle; owned */
    const char *name;                  /* of the file or interface; borrowed */
    const volatile sig_atomic_t *stop; /* of an interface: ends when it is not 0; borrowed */
    uint64_t file_len;                 /* bytes; 0: not known */
    char *buffer;                      /* of the file; owned */
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

/*
 * Looks at an interface, in both directions, for RoCE traffic only; a signal handler may set *stop
 * to end it within 0.1 s. Returns 0, or with error set: -EPERM without the right to, -ENODEV for
 * what is no interface, -EIO.
 */
int capture_open_live(struct capture *c, const char *interface, const volatile sig_atomic_t *stop);

/* Reads on only what an expression of libpcap chooses. Returns 0, or -EINVAL with error set. */
int capture_filter(struct capture *c, const char *expression);

/* How much of the file was read, from 0 to 1; 0 when that is not known. */
double capture_progress(const struct capture *c);

/* Also after a failed capture_open. */
void capture_close(struct capture *c);

#endif
