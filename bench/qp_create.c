/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long does it take to create, connect and destroy fifty thousand RC queue pairs in each of
 * two processes, through libibverbs as programs do it, and how much memory does each of them take?
 * The processes tell each other their numbers through a pipe; at the end each queue pair of the one
 * writes to its peer, so that it is known to be connected.
 *
 *     bench-qp_create [COUNT]
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT_DEFAULT 50000u
#define PORT 1
#define PSN 0x123456u

static void must(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Resident memory of this process. */
static double resident_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    must(f != NULL && fscanf(f, "%*d %ld", &pages) == 1, "/proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* What a process tells the other. */
struct address {
    union ibv_gid gid;
    uint64_t memory;
    uint32_t rkey;
};

struct half {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint64_t word;
    struct ibv_qp **qps;
    uint32_t *peer_qpns;
    uint32_t count;
    int gid_index;
    struct address mine;
    struct address other;
    int other_end; /* a stream socket */
};

static void tell(const struct half *h, const void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t sent = write(h->other_end, (const char *)bytes + done, len - done);

        must(sent > 0, "write");
        done += (size_t)sent;
    }
}

static void hear(const struct half *h, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = read(h->other_end, (char *)bytes + done, len - done);

        must(got > 0, "read");
        done += (size_t)got;
    }
}

/* Both have come here. */
static void meet(const struct half *h)
{
    char byte = 0;

    tell(h, &byte, 1);
    hear(h, &byte, 1);
}

static void find_gid(struct half *h)
{
    struct ibv_gid_entry entry;

    for (uint32_t i = 0; ibv_query_gid_ex(h->context, PORT, i, &entry, 0) == 0; i++) {
        if (entry.gid.raw[10] != 0xff)
            continue;
        h->gid_index = (int)i;
        h->mine.gid = entry.gid;
        return;
    }
    must(0, "no IPv4 GID");
}

static void open_half(struct half *h)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    must(list != NULL && list[0] != NULL, "no device");
    h->context = ibv_open_device(list[0]);
    must(h->context != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    h->pd = ibv_alloc_pd(h->context);
    h->cq = ibv_create_cq(h->context, 1024, NULL, NULL, 0);
    must(h->pd != NULL && h->cq != NULL, "ibv_alloc_pd, ibv_create_cq");
    h->mr = ibv_reg_mr(h->pd, &h->word, sizeof(h->word),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(h->mr != NULL, "ibv_reg_mr");
    h->qps = calloc(h->count, sizeof(struct ibv_qp *));
    h->peer_qpns = calloc(h->count, sizeof(*h->peer_qpns));
    must(h->qps != NULL && h->peer_qpns != NULL, "calloc");
    find_gid(h);
    h->mine.memory = (uintptr_t)&h->word;
    h->mine.rkey = h->mr->rkey;
    tell(h, &h->mine, sizeof(h->mine));
    hear(h, &h->other, sizeof(h->other));
}

static void create_all(struct half *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = h->cq,
            .recv_cq = h->cq,
            .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
            .qp_type = IBV_QPT_RC,
        };

        h->qps[i] = ibv_create_qp(h->pd, &init);
        must(h->qps[i] != NULL, "ibv_create_qp");
    }
}

static void exchange_numbers(struct half *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        tell(h, &h->qps[i]->qp_num, sizeof(h->qps[i]->qp_num));
        hear(h, &h->peer_qpns[i], sizeof(h->peer_qpns[i]));
    }
}

static void connect_one(struct half *h, uint32_t i)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = PORT,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = h->peer_qpns[i],
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .ah_attr = {.is_global = 1, .port_num = PORT, .grh.hop_limit = 64},
    };

    attr.ah_attr.grh.dgid = h->other.gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)h->gid_index;
    must(ibv_modify_qp(h->qps[i], &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
    attr.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(h->qps[i], &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(h->qps[i], &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "to RTS");
}

static void write_one(struct half *h, uint32_t i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)&h->word, .length = sizeof(h->word), .lkey = h->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = i,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int got;

    wr.wr.rdma.remote_addr = h->other.memory;
    wr.wr.rdma.rkey = h->other.rkey;
    must(ibv_post_send(h->qps[i], &wr, &bad) == 0, "ibv_post_send");
    while ((got = ibv_poll_cq(h->cq, 1, &wc)) == 0)
        ;
    must(got == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == i, "a write failed");
}

static void close_half(struct half *h)
{
    must(ibv_dereg_mr(h->mr) == 0 && ibv_destroy_cq(h->cq) == 0 && ibv_dealloc_pd(h->pd) == 0 &&
             ibv_close_device(h->context) == 0,
         "closing");
    free(h->qps);
    free(h->peer_qpns);
}

/* Microseconds for each since then. */
static double each_us(const struct half *h, double since)
{
    return (now_s() - since) * 1e6 / h->count;
}

static void run(struct half *h, int is_first)
{
    double before;
    double create_us;
    double connect_us;
    double write_us;
    double destroy_us;
    double memory;

    open_half(h);
    memory = resident_kib();
    meet(h);
    before = now_s();
    create_all(h);
    create_us = each_us(h, before);
    exchange_numbers(h);
    before = now_s();
    for (uint32_t i = 0; i < h->count; i++)
        connect_one(h, i);
    connect_us = each_us(h, before);
    memory = resident_kib() - memory;
    meet(h);
    before = now_s();
    for (uint32_t i = 0; i < h->count && is_first; i++)
        write_one(h, i);
    write_us = each_us(h, before);
    meet(h);
    before = now_s();
    for (uint32_t i = 0; i < h->count; i++)
        must(ibv_destroy_qp(h->qps[i]) == 0, "ibv_destroy_qp");
    destroy_us = each_us(h, before);
    close_half(h);
    if (is_first)
        printf("%u RC queue pairs in each of two processes; for each: create %.1f us, connect "
               "%.1f us, first write %.1f us, destroy %.1f us, memory %.2f KiB\n",
               h->count, create_us, connect_us, write_us, destroy_us, memory / h->count);
}

int main(int argc, char **argv)
{
    struct half h = {.count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : COUNT_DEFAULT};
    int ends[2];
    pid_t child;
    int status;

    must(h.count > 0, "usage: bench-qp_create [COUNT]");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    child = fork();
    must(child >= 0, "fork");
    h.other_end = ends[child == 0];
    close(ends[child != 0]);
    run(&h, child != 0);
    if (child == 0)
        return 0;
    must(waitpid(child, &status, 0) == child && status == 0, "the other process");
    return 0;
}
