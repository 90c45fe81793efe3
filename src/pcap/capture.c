/* SPDX-License-Identifier: BSD-2-Clause */
/* The only file that knows libpcap. */
#include "pcap/capture.h"

#include <pcap/pcap.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

static const struct {
    int dlt;
    enum link_type link;
} link_types[] = {
    {DLT_EN10MB, LINK_TYPE_ETHERNET},
    {DLT_LINUX_SLL, LINK_TYPE_COOKED_V1},
    {DLT_LINUX_SLL2, LINK_TYPE_COOKED_V2},
    {DLT_RAW, LINK_TYPE_RAW},
    {DLT_IPV4, LINK_TYPE_IPV4},
    {DLT_IPV6, LINK_TYPE_IPV6},
    {DLT_NULL, LINK_TYPE_NULL},
    {DLT_LOOP, LINK_TYPE_NULL},
};

static int find_link_type(struct capture *c)
{
    int dlt = pcap_datalink(c->pcap);
    const char *name = pcap_datalink_val_to_name(dlt);

    for (size_t i = 0; i < sizeof(link_types) / sizeof(link_types[0]); i++) {
        if (link_types[i].dlt == dlt) {
            c->link = link_types[i].link;
            return 0;
        }
    }
    snprintf(c->error, sizeof(c->error), "link type %s (%d) is not supported",
             name != NULL ? name : "unknown", dlt);
    return -EOPNOTSUPP;
}

int capture_open(struct capture *c, const char *path)
{
    char reason[PCAP_ERRBUF_SIZE] = "";
    FILE *file = stdin;

    *c = (struct capture){.pcap = NULL};
    if (strcmp(path, "-") != 0)
        file = fopen(path, "rbe");
    if (file == NULL) {
        int error = errno;

        snprintf(c->error, sizeof(c->error), "%s", strerror(error));
        return -error;
    }
    c->pcap = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, reason);
    if (c->pcap == NULL) {
        if (file != stdin)
            fclose(file);
        snprintf(c->error, sizeof(c->error), "%s", reason);
        return -EINVAL;
    }
    return find_link_type(c);
}

int capture_next(struct capture *c, struct frame *f)
{
    struct pcap_pkthdr *header;
    const unsigned char *bytes;
    int result = pcap_next_ex(c->pcap, &header, &bytes);
    uint64_t time_ns;

    if (result == PCAP_ERROR_BREAK)
        return 0;
    if (result != 1) {
        snprintf(c->error, sizeof(c->error), "%s", pcap_geterr(c->pcap));
        return -EIO;
    }
    /* Hostile files hold any time: unsigned arithmetic wraps, and nothing depends on order. */
    time_ns = (uint64_t)header->ts.tv_sec * NS_PER_S + (uint64_t)header->ts.tv_usec;
    if (c->frame_count == 0)
        c->start_ns = time_ns;
    c->frame_count++;
    *f = (struct frame){
        .number = c->frame_count,
        .time_ns = time_ns,
        .elapsed_ns = (int64_t)(time_ns - c->start_ns),
        .link = c->link,
        .bytes = bytes,
        .captured_len = header->caplen,
        .wire_len = header->len,
    };
    return 1;
}

void capture_close(struct capture *c)
{
    if (c->pcap != NULL)
        pcap_close(c->pcap);
    c->pcap = NULL;
}
