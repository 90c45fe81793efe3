/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application above a peer under test of `uroce script --peer`, on stock
 * verbs: offers one queue pair and its memory, and does what it is told over
 * TCP. Runs on whatever RDMA device has the address that the connection came
 * to: the kernel's soft-RoCE, an adapter, or uroce by `uroce run`.
 *
 *     script_responder [PORT]        (18600)
 *
 * A line that comes is a word and numbers in hexadecimal; the answer is "ok"
 * and numbers, or "error ERRNO text". It serves one connection after another
 * and trusts whoever connects: it is for a test bench.
 *
 * Build: cc -O2 -o script_responder script_responder.c -libverbs
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_DEFAULT 18600
#define REGIONS_MAX 4
#define WINDOWS_MAX 4
#define REGION_LEN_MAX (1u << 20)
#define CHUNK_LEN 2048
#define CQ_SIZE 512
#define PORT_NUM 1
#define GIDS_MAX 256u
#define LINE_SIZE 8192

static struct {
    struct ibv_context *context;
    int gid_index;
    union ibv_gid peer; /* of the script */
    struct ibv_pd *pd;
    struct ibv_pd *foreign_pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    struct ibv_mr *mr[REGIONS_MAX];
    uint8_t *memory[REGIONS_MAX];
    unsigned region_count;
    struct ibv_mw *window[WINDOWS_MAX];
    unsigned window_count;
} side;

static FILE *answer;

static uint64_t number(char **at)
{
    return strtoull(*at, at, 16);
}

static void refuse(int error, const char *what)
{
    fprintf(answer, "error %x %s: %s\n", (unsigned)error, what, strerror(error));
}

/* Says that it is done, unless error says why not. */
static void done(int error, const char *what)
{
    if (error)
        refuse(error, what);
    else
        fprintf(answer, "ok\n");
}

/* --- set up --- */

static void close_memory(void)
{
    for (unsigned i = 0; i < WINDOWS_MAX; i++) {
        if (side.window[i])
            ibv_dealloc_mw(side.window[i]);
        side.window[i] = NULL;
    }
    for (unsigned i = 0; i < REGIONS_MAX; i++) {
        if (side.mr[i])
            ibv_dereg_mr(side.mr[i]);
        free(side.memory[i]);
        side.mr[i] = NULL;
        side.memory[i] = NULL;
    }
}

static void close_side(void)
{
    if (side.qp)
        ibv_destroy_qp(side.qp);
    if (side.ah)
        ibv_destroy_ah(side.ah);
    if (side.srq)
        ibv_destroy_srq(side.srq);
    if (side.cq)
        ibv_destroy_cq(side.cq);
    close_memory();
    if (side.foreign_pd)
        ibv_dealloc_pd(side.foreign_pd);
    if (side.pd)
        ibv_dealloc_pd(side.pd);
    side.qp = NULL;
    side.ah = NULL;
    side.srq = NULL;
    side.cq = NULL;
    side.foreign_pd = NULL;
    side.pd = NULL;
}

/* A queue pair is not gone before its events are acknowledged. */
static void forget_events(void)
{
    struct ibv_async_event event;

    while (ibv_get_async_event(side.context, &event) == 0)
        ibv_ack_async_event(&event);
}

static const char *open_memory(char **at)
{
    side.region_count = (unsigned)number(at);
    if (side.region_count > REGIONS_MAX)
        return "number of regions";
    for (unsigned i = 0; i < side.region_count; i++) {
        size_t len = number(at);
        unsigned access = (unsigned)number(at);
        bool foreign = number(at) != 0;

        if (len == 0 || len > REGION_LEN_MAX)
            return "size of a region";
        side.memory[i] = calloc(1, len);
        if (!side.memory[i])
            return "memory";
        side.mr[i] = ibv_reg_mr(foreign ? side.foreign_pd : side.pd, side.memory[i], len, access);
        if (!side.mr[i])
            return "memory with these rights";
    }
    side.window_count = (unsigned)number(at);
    if (side.window_count > WINDOWS_MAX)
        return "number of windows";
    for (unsigned i = 0; i < side.window_count; i++) {
        side.window[i] = ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
        if (!side.window[i])
            return "memory window";
    }
    return NULL;
}

static enum ibv_mtu mtu_of(uint64_t bytes)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && 128u << mtu < bytes)
        mtu++;
    return mtu;
}

struct wishes {
    uint64_t service, mtu, rq_psn, sq_psn, dest_qpn, qkey, access, timeout, retry, rnr_retry,
        min_rnr, rd_atomic, dest_rd_atomic, sq_size, rq_size, with_srq;
};

enum { RC, UC, UD = 3 }; /* as the wire numbers services */

static struct ibv_ah_attr way_to_script(void)
{
    return (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = PORT_NUM,
        .grh = {.dgid = side.peer, .sgid_index = (uint8_t)side.gid_index, .hop_limit = 64},
    };
}

static const char *connect_qp(const struct wishes *w)
{
    const bool rc = w->service == RC;
    const bool ud = w->service == UD;
    const int to_rtr = ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const int to_rtr_rc = rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
    const int to_rts_rc =
        rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT,
        .port_num = PORT_NUM,
        .qp_access_flags = (unsigned)w->access,
        .qkey = (uint32_t)w->qkey,
        .ah_attr = way_to_script(),
        .path_mtu = mtu_of(w->mtu),
        .dest_qp_num = (uint32_t)w->dest_qpn,
        .rq_psn = (uint32_t)w->rq_psn,
        .max_dest_rd_atomic = (uint8_t)w->dest_rd_atomic,
        .min_rnr_timer = (uint8_t)w->min_rnr,
        .sq_psn = (uint32_t)w->sq_psn,
        .timeout = (uint8_t)w->timeout,
        .retry_cnt = (uint8_t)w->retry,
        .rnr_retry = (uint8_t)w->rnr_retry,
        .max_rd_atomic = (uint8_t)w->rd_atomic,
    };

    errno = ibv_modify_qp(side.qp, &a,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    if (errno)
        return "queue pair to INIT";
    a.qp_state = IBV_QPS_RTR;
    errno = ibv_modify_qp(side.qp, &a, IBV_QP_STATE | to_rtr | to_rtr_rc);
    if (errno)
        return "queue pair to RTR";
    a.qp_state = IBV_QPS_RTS;
    errno = ibv_modify_qp(side.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | to_rts_rc);
    return errno ? "queue pair to RTS" : NULL;
}

static const char *open_srq(const struct wishes *w)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = (uint32_t)w->rq_size, .max_sge = 1}};

    if (!w->with_srq)
        return NULL;
    side.srq = ibv_create_srq(side.pd, &srq);
    return side.srq ? NULL : "shared receive queue";
}

static const char *open_qp(const struct wishes *w)
{
    struct ibv_qp_init_attr init = {
        .qp_type = w->service == RC   ? IBV_QPT_RC
                   : w->service == UC ? IBV_QPT_UC
                                      : IBV_QPT_UD,
        .cap = {.max_send_wr = (uint32_t)w->sq_size,
                .max_recv_wr = (uint32_t)w->rq_size,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64},
    };
    const char *what = open_srq(w);

    if (what)
        return what;
    side.cq = ibv_create_cq(side.context, CQ_SIZE, NULL, NULL, 0);
    if (!side.cq)
        return "completion queue";
    init.send_cq = side.cq;
    init.recv_cq = side.cq;
    init.srq = side.srq;
    side.qp = ibv_create_qp(side.pd, &init);
    if (!side.qp)
        return "queue pair";
    if (w->service == UD) {
        struct ibv_ah_attr way = way_to_script();

        side.ah = ibv_create_ah(side.pd, &way);
        if (!side.ah)
            return "address handle";
    }
    return connect_qp(w);
}

static const char *open_side(char **at)
{
    uint64_t words[sizeof(struct wishes) / sizeof(uint64_t)];
    struct wishes w;
    const char *what;

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = number(at);
    memcpy(&w, words, sizeof(w));
    side.pd = ibv_alloc_pd(side.context);
    side.foreign_pd = ibv_alloc_pd(side.context);
    if (!side.pd || !side.foreign_pd)
        return "protection domain";
    what = open_memory(at);
    return what ? what : open_qp(&w);
}

static void do_open(char *at)
{
    const char *what;

    forget_events();
    close_side();
    errno = 0;
    what = open_side(&at);
    if (what) {
        refuse(errno ? errno : EINVAL, what);
        close_side();
        return;
    }
    fprintf(answer, "ok %x", side.qp->qp_num);
    for (unsigned i = 0; i < side.region_count; i++)
        fprintf(answer, " %" PRIx64 " %x %x", (uint64_t)(uintptr_t)side.memory[i], side.mr[i]->lkey,
                side.mr[i]->rkey);
    for (unsigned i = 0; i < side.window_count; i++)
        fprintf(answer, " %x", side.window[i]->rkey);
    fprintf(answer, "\n");
}

static void do_close(char *at)
{
    (void)at;
    forget_events();
    close_side();
    fprintf(answer, "ok\n");
}

/* --- work --- */

struct request {
    uint64_t recv, opcode, flags, id, va, len, lkey, remote_va, rkey, imm, compare, swap, window,
        window_key, region_key, window_access, remote_qpn, remote_qkey;
};

static struct ibv_mr *region_of(uint64_t key)
{
    for (unsigned i = 0; i < side.region_count; i++) {
        if (side.mr[i]->lkey == key)
            return side.mr[i];
    }
    return NULL;
}

static int post_recv(const struct request *r, struct ibv_sge *sge)
{
    struct ibv_recv_wr wr = {.wr_id = r->id, .sg_list = sge, .num_sge = r->len > 0};
    struct ibv_recv_wr *bad;

    return side.srq ? ibv_post_srq_recv(side.srq, &wr, &bad) : ibv_post_recv(side.qp, &wr, &bad);
}

static int fill_bind(const struct request *r, struct ibv_send_wr *wr)
{
    if (r->window >= side.window_count || !region_of(r->region_key))
        return EINVAL;
    wr->num_sge = 0;
    wr->bind_mw.mw = side.window[r->window];
    wr->bind_mw.rkey = (uint32_t)r->window_key;
    wr->bind_mw.bind_info.mr = region_of(r->region_key);
    wr->bind_mw.bind_info.addr = r->va;
    wr->bind_mw.bind_info.length = r->len;
    wr->bind_mw.bind_info.mw_access_flags = (unsigned)r->window_access;
    return 0;
}

/* What the operation needs beside the data. */
static int fill_send(const struct request *r, struct ibv_send_wr *wr)
{
    if (wr->opcode == IBV_WR_BIND_MW)
        return fill_bind(r, wr);
    if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = r->remote_va;
        wr->wr.atomic.rkey = (uint32_t)r->rkey;
        wr->wr.atomic.compare_add = r->compare;
        wr->wr.atomic.swap = r->swap;
        return 0;
    }
    if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_SEND_WITH_INV)
        wr->invalidate_rkey = (uint32_t)r->imm;
    else
        wr->imm_data = htonl((uint32_t)r->imm);
    if (side.ah) {
        wr->wr.ud.ah = side.ah;
        wr->wr.ud.remote_qpn = (uint32_t)r->remote_qpn;
        wr->wr.ud.remote_qkey = (uint32_t)r->remote_qkey;
    } else {
        wr->wr.rdma.remote_addr = r->remote_va;
        wr->wr.rdma.rkey = (uint32_t)r->rkey;
    }
    return 0;
}

static int post_send(const struct request *r, struct ibv_sge *sge)
{
    /* Opcodes and flags have the numbers of the verbs interface. */
    struct ibv_send_wr wr = {.wr_id = r->id,
                             .opcode = (enum ibv_wr_opcode)r->opcode,
                             .send_flags = (unsigned)r->flags,
                             .sg_list = sge,
                             .num_sge = r->len > 0};
    struct ibv_send_wr *bad;
    int error = fill_send(r, &wr);

    return error ? error : ibv_post_send(side.qp, &wr, &bad);
}

static void do_post(char *at)
{
    uint64_t words[sizeof(struct request) / sizeof(uint64_t)];
    struct request r;
    struct ibv_sge sge;

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = number(&at);
    memcpy(&r, words, sizeof(r));
    sge = (struct ibv_sge){.addr = r.va, .length = (uint32_t)r.len, .lkey = (uint32_t)r.lkey};
    done(r.recv ? post_recv(&r, &sge) : post_send(&r, &sge), "post");
}

/* --- what it sees --- */

static void do_poll(char *at)
{
    struct ibv_wc wc;
    int got = ibv_poll_cq(side.cq, 1, &wc);

    (void)at;
    if (got < 0)
        refuse(EIO, "poll");
    else if (got == 0)
        fprintf(answer, "ok 0\n");
    else
        fprintf(answer, "ok 1 %" PRIx64 " %x %x %x %x %x %x\n", wc.wr_id, wc.status, wc.opcode,
                wc.byte_len,
                (wc.wc_flags & IBV_WC_WITH_INV) != 0 ? wc.invalidated_rkey : ntohl(wc.imm_data),
                wc.wc_flags, wc.src_qp);
}

static void do_event(char *at)
{
    struct ibv_async_event event;

    (void)at;
    if (ibv_get_async_event(side.context, &event) != 0) {
        fprintf(answer, "ok 0\n");
        return;
    }
    fprintf(answer, "ok 1 %x\n", event.event_type);
    ibv_ack_async_event(&event);
}

static void do_state(char *at)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int error = ibv_query_qp(side.qp, &attr, IBV_QP_STATE, &init);

    (void)at;
    if (error)
        refuse(error, "query");
    else
        fprintf(answer, "ok %x\n", attr.qp_state);
}

static void do_modify(char *at)
{
    struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)number(&at)};

    done(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE), "modify");
}

/* Where a range begins and how much is behind; NULL when there is none such. */
static uint8_t *range(char **at, uint64_t *room)
{
    uint64_t region = number(at);
    uint64_t offset = number(at);

    if (region >= side.region_count || offset > side.mr[region]->length)
        return NULL;
    *room = side.mr[region]->length - offset;
    return side.memory[region] + offset;
}

static void do_write(char *at)
{
    uint64_t room = 0;
    uint8_t *to = range(&at, &room);
    unsigned byte;

    while (*at == ' ')
        at++;
    if (!to || strlen(at) / 2 > room) {
        refuse(EINVAL, "range");
        return;
    }
    for (; sscanf(at, "%2x", &byte) == 1; at += 2)
        *to++ = (uint8_t)byte;
    fprintf(answer, "ok\n");
}

static void do_read(char *at)
{
    uint64_t room = 0;
    const uint8_t *from = range(&at, &room);
    uint64_t len = number(&at);

    if (!from || len > room || len > CHUNK_LEN) {
        refuse(EINVAL, "range");
        return;
    }
    fprintf(answer, "ok ");
    for (uint64_t i = 0; i < len; i++)
        fprintf(answer, "%02x", from[i]);
    fprintf(answer, "\n");
}

/* --- who is served --- */

static const struct {
    const char *word;
    void (*act)(char *at);
    bool needs_qp;
} commands[] = {
    {"open", do_open, false},    {"close", do_close, false}, {"post", do_post, true},
    {"poll", do_poll, true},     {"event", do_event, true},  {"state", do_state, true},
    {"modify", do_modify, true}, {"write", do_write, true},  {"read", do_read, true},
};

static void obey(char *line)
{
    size_t len = strcspn(line, " \n");

    line[strcspn(line, "\n")] = '\0';
    for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strlen(commands[i].word) != len || strncmp(line, commands[i].word, len) != 0)
            continue;
        if (!side.context)
            refuse(ENODEV, "no RDMA device has the address that was connected to");
        else if (commands[i].needs_qp && !side.qp)
            refuse(ENOTCONN, "there is no queue pair");
        else
            commands[i].act(line + len);
        return;
    }
    refuse(ENOSYS, "no such word");
}

/* The index of a GID at a device, or -1. */
static int find_gid(struct ibv_context *context, const uint8_t gid[16])
{
    struct ibv_gid_entry entry;

    for (uint32_t i = 0; i < GIDS_MAX; i++) {
        if (ibv_query_gid_ex(context, PORT_NUM, i, &entry, 0) == 0 &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
            memcmp(entry.gid.raw, gid, sizeof(entry.gid.raw)) == 0)
            return (int)i;
    }
    return -1;
}

/* Opens the device that has this address. */
static void open_device(const uint8_t gid[16])
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list && list[i] && !side.context; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);

        if (!context)
            continue;
        side.gid_index = find_gid(context, gid);
        if (side.gid_index >= 0)
            side.context = context;
        else
            ibv_close_device(context);
    }
    if (list)
        ibv_free_device_list(list);
    if (side.context) /* asking for an event is not waiting for one */
        (void)fcntl(side.context->async_fd, F_SETFL,
                    fcntl(side.context->async_fd, F_GETFL) | O_NONBLOCK);
}

static void serve(FILE *in)
{
    char line[LINE_SIZE];

    while (fgets(line, sizeof(line), in)) {
        obey(line);
        if (fflush(answer) != 0)
            break;
    }
    if (!side.context)
        return;
    forget_events();
    close_side();
    ibv_close_device(side.context);
    side.context = NULL;
}

/* One connection; addresses of IPv4 come mapped into IPv6, as GIDs have them. */
static void serve_socket(int fd)
{
    struct sockaddr_in6 own = {0};
    struct sockaddr_in6 peer = {0};
    socklen_t len = sizeof(own);
    const int one = 1;
    FILE *in = fdopen(fd, "r");

    answer = fdopen(dup(fd), "w");
    if (in && answer && getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
        getpeername(fd, (struct sockaddr *)&peer, &len) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        memcpy(side.peer.raw, &peer.sin6_addr, sizeof(side.peer.raw));
        open_device(own.sin6_addr.s6_addr);
        serve(in);
    }
    if (answer)
        fclose(answer);
    if (in)
        fclose(in);
}

static int listen_at(uint16_t port)
{
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const int one = 1;
    const int zero = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (const struct sockaddr *)&any, sizeof(any)) != 0 || listen(fd, 1) != 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    int listener = listen_at((uint16_t)(argc > 1 ? strtoul(argv[1], NULL, 10) : PORT_DEFAULT));

    if (listener < 0) {
        perror("script_responder");
        return 1;
    }
    puts("script_responder: ready");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);

        if (fd < 0) {
            perror("script_responder");
            return 1;
        }
        serve_socket(fd);
    }
}
