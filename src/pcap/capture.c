/* SPDX-License-Identifier: BSD-2-Clause */
/* The only file that knows libpcap. */
#include "pcap/capture.h"

#include <pcap/pcap.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NS_PER_S UINT64_C(1000000000)
#define FILE_BUFFER_LEN 131072u            /* fits the cache of a core */
#define LIVE_SNAP_LEN 262144               /* whole frames, also those that are yet to be cut */
#define LIVE_BUFFER_LEN (64 * 1024 * 1024) /* for bursts; of the kernel */
#define LIVE_TIMEOUT_MS 100
/* RoCEv2, RoCEv1, and both behind VLAN tags. */
#define ROCE_FILTER                                                                                \
    "udp port 4791 or ether proto 0x8915 or (vlan and (udp port 4791 or ether proto 0x8915))"

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

static uint64_t file_len(FILE *file)
{
    struct stat status;

    return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size
                                                                        : 0;
}

int capture_open(struct capture *c, const char *path)
{
    char reason[PCAP_ERRBUF_SIZE] = "";
    FILE *file = stdin;

    *c = (struct capture){.name = path};
    if (strcmp(path, "-") != 0)
        file = fopen(path, "rbe");
    if (file == NULL) {
        int error = errno;

        snprintf(c->error, sizeof(c->error), "%s", strerror(error));
        return -error;
    }
    c->file_len = file_len(file);
    /* The library's own buffer is a page: a system call for every few frames. */
    c->buffer = c->file_len > FILE_BUFFER_LEN ? malloc(FILE_BUFFER_LEN) : NULL;
    if (c->buffer != NULL)
        setvbuf(file, c->buffer, _IOFBF, FILE_BUFFER_LEN);
    c->pcap = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, reason);
    if (c->pcap == NULL) {
        if (file != stdin)
            fclose(file);
        snprintf(c->error, sizeof(c->error), "%s", reason);
        return -EINVAL;
    }
    return find_link_type(c);
}

static int live_error(int status)
{
    switch (status) {
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
        return -EPERM;
    case PCAP_ERROR_NO_SUCH_DEVICE:
    case PCAP_ERROR_IFACE_NOT_UP:
        return -ENODEV;
    default:
        return -EIO;
    }
}

static void explain(struct capture *c, int status)
{
    const char *text = pcap_statustostr(status);
    const char *more = pcap_geterr(c->pcap);

    if (strcmp(more, text) == 0)
        more = "";

    snprintf(c->error, sizeof(c->error), "%s%s%s%s", text, more[0] != '\0' ? ": " : "", more,
             live_error(status) == -EPERM ? " (needs root or CAP_NET_RAW)" : "");
}

int capture_open_live(struct capture *c, const char *interface, const volatile sig_atomic_t *stop)
{
    char reason[PCAP_ERRBUF_SIZE] = "";
    int status;

    *c = (struct capture){.name = interface, .stop = stop};
    c->pcap = pcap_create(interface, reason);
    if (c->pcap == NULL) {
        snprintf(c->error, sizeof(c->error), "%s", reason);
        return -EIO;
    }
    pcap_set_snaplen(c->pcap, LIVE_SNAP_LEN);
    pcap_set_buffer_size(c->pcap, LIVE_BUFFER_LEN);
    pcap_set_timeout(c->pcap, LIVE_TIMEOUT_MS);
    pcap_set_tstamp_precision(c->pcap, PCAP_TSTAMP_PRECISION_NANO);
    status = pcap_activate(c->pcap);
    if (status >= 0)
        status = pcap_setnonblock(c->pcap, 1, reason);
    if (status < 0) {
        explain(c, status);
        return live_error(status);
    }
    status = find_link_type(c);
    return status != 0 ? status : capture_filter(c, ROCE_FILTER);
}

int capture_filter(struct capture *c, const char *expression)
{
    struct bpf_program program;
    char *all = NULL;
    int result = 0;

    if (c->stop != NULL && strcmp(expression, ROCE_FILTER) != 0 &&
        asprintf(&all, "(%s) and (%s)", ROCE_FILTER, expression) < 0)
        return -ENOMEM;
    if (pcap_compile(c->pcap, &program, all != NULL ? all : expression, 1, PCAP_NETMASK_UNKNOWN) !=
        0) {
        snprintf(c->error, sizeof(c->error),
                 "filter '%s': %s (terms like qp= and nak go with others by 'and' only)",
                 expression, pcap_geterr(c->pcap));
        free(all);
        return -EINVAL;
    }
    if (pcap_setfilter(c->pcap, &program) != 0) {
        snprintf(c->error, sizeof(c->error), "filter '%s': %s", expression, pcap_geterr(c->pcap));
        result = -EINVAL;
    }
    pcap_freecode(&program);
    free(all);
    return result;
}

double capture_progress(const struct capture *c)
{
    FILE *file = c->stop != NULL || c->file_len == 0 ? NULL : pcap_file(c->pcap);
    long at = file != NULL ? ftell(file) : 0;

    return at > 0 ? (double)at / (double)c->file_len : 0;
}

/* libpcap by itself may sleep on, and see no signal. */
static void wait_for_packets(const struct capture *c)
{
    struct pollfd ready = {.fd = pcap_get_selectable_fd(c->pcap), .events = POLLIN};

    poll(&ready, 1, LIVE_TIMEOUT_MS);
}

int capture_next(struct capture *c, struct frame *f)
{
    struct pcap_pkthdr *header;
    const unsigned char *bytes;
    uint64_t time_ns;
    int result;

    while ((result = pcap_next_ex(c->pcap, &header, &bytes)) == 0 && c->stop != NULL) {
        if (*c->stop != 0)
            return 0;
        wait_for_packets(c);
    }
    if (c->stop != NULL && *c->stop != 0)
        return 0;

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
    /* All else is frame_decode's. */
    f->number = c->frame_count;
    f->time_ns = time_ns;
    f->elapsed_ns = (int64_t)(time_ns - c->start_ns);
    f->link = c->link;
    f->bytes = bytes;
    f->captured_len = header->caplen;
    f->wire_len = header->len;
    return 1;
}

void capture_close(struct capture *c)
{
    if (c->pcap != NULL)
        pcap_close(c->pcap);
    c->pcap = NULL;
    free(c->buffer);
    c->buffer = NULL;
}
