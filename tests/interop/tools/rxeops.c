/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rxeops - a small verbs client/server that issues an exact list of RDMA
 * operations, including wrong ones, over one connected queue pair.
 *
 *   server:  rxeops [options] -l
 *   client:  rxeops [options] SERVER-IP OP [OP...]
 *
 * Queue pair numbers, PSNs, GIDs, addresses and keys are exchanged over TCP.
 * One OP argument is one batch: parts joined by '+' are posted together, then
 * all their completions are awaited. Parts:
 *   send:N  send_imm:N  send_se:N  send_inv:N   (inv: the server's memory window)
 *   write:N  write_imm:N  read:N  cas  fadd
 *   write_rkey:N  read_rkey:N  cas_rkey    wrong R_Key
 *   write_oob:N   read_oob:N               past the end of the memory region
 *   write_ro:N    read_wo:N  cas_ro        no access right for it
 *   write_mw:N    read_mw:N                through the server's memory window of 64 KiB
 *   write_mw_oob:N                         past its end
 *   cas_unal      address not a multiple of 8 (most providers refuse it locally)
 *   fence  (modifier: the next part is fenced)
 * and control parts, carried out by the server, alone in their OP:
 *   recv:N[:COUNT[:DELAY_MS]]  post COUNT receives of N bytes (after a delay)
 *   sleep:MS                   (in the client)
 *   srv:OP                     the server posts this OP and awaits it
 *
 * Build: gcc -O2 -Wall -o rxeops rxeops.c -libverbs -lpthread
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUF (1 << 20)
#define RBUF (1 << 20)
#define WINDOW 65536

struct info {
    uint32_t qpn, psn, rkey, rkey_ro, rkey_wo, mw_rkey;
    uint64_t addr;
    union ibv_gid gid;
} __attribute__((packed));

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *scq, *rcq;
static struct ibv_qp *qp;
static struct ibv_mr *mr, *mr_ro, *mr_wo, *rmr;
static struct ibv_mw *mw;
static uint8_t *buf, *rbuf;
static struct info me, peer;
static int gidx = 1, mtu = 1024, qpt = IBV_QPT_RC, port = 18700, timeout_exp = 14, retry = 7,
           rnr_retry = 7, rnr_timer = 12, rd_atom = 16, hop = 64, tclass, flowl, wait_s = 20;
static long psn_arg = -1;
static volatile int done;
static FILE *ctl;

static void die(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vfprintf(stderr, f, ap);
    va_end(ap);
    fprintf(stderr, " (%s)\n", strerror(errno));
    exit(1);
}

static void show(const char *who, struct ibv_wc *wc)
{
    printf("%s wr %lu status %d (%s)", who, (unsigned long)wc->wr_id, wc->status,
           ibv_wc_status_str(wc->status));
    if (wc->status == IBV_WC_SUCCESS) {
        printf(" opcode %d len %u", wc->opcode, wc->byte_len);
        if (wc->wc_flags & IBV_WC_WITH_IMM)
            printf(" imm 0x%08x", ntohl(wc->imm_data));
        if (wc->wc_flags & IBV_WC_WITH_INV)
            printf(" inv 0x%08x", wc->invalidated_rkey);
    }
    printf("\n");
    fflush(stdout);
}

static void *rx_thread(void *arg)
{
    struct ibv_wc wc;
    while (!done) {
        if (ibv_poll_cq(rcq, 1, &wc) > 0)
            show(arg, &wc);
        else
            usleep(500);
    }
    return NULL;
}

static void post_recv(unsigned len, int count)
{
    static int n;
    while (count-- > 0) {
        struct ibv_sge s = {(uintptr_t)rbuf, len, rmr->lkey};
        struct ibv_recv_wr w = {.wr_id = 1000 + n++, .sg_list = &s, .num_sge = len ? 1 : 0}, *bad;
        if (ibv_post_recv(qp, &w, &bad))
            die("post_recv");
    }
}

/* posts one batch, awaits its completions; returns the number of failures */
static int batch(char *op)
{
    static int n = 1;
    struct ibv_send_wr w[64];
    struct ibv_sge s[64];
    struct ibv_send_wr *bad;
    int cnt = 0, fail = 0, fl = 0;
    char *save, *p;

    memset(w, 0, sizeof(w));
    for (p = strtok_r(op, "+", &save); p; p = strtok_r(NULL, "+", &save)) {
        char name[32] = "";
        unsigned len = 0;
        struct ibv_send_wr *x = &w[cnt];
        sscanf(p, "%31[^:]:%u", name, &len);
        if (!strcmp(name, "fence")) {
            fl = IBV_SEND_FENCE;
            continue;
        }
        if (len > BUF)
            die("size %u", len);
        s[cnt] = (struct ibv_sge){(uintptr_t)buf, len, mr->lkey};
        x->wr_id = n++;
        x->sg_list = &s[cnt];
        x->num_sge = len ? 1 : 0;
        x->send_flags = IBV_SEND_SIGNALED | fl;
        fl = 0;
        x->wr.rdma.remote_addr = peer.addr;
        x->wr.rdma.rkey = peer.rkey;
        if (!strncmp(name, "send", 4)) {
            x->opcode = IBV_WR_SEND;
            memset(&x->wr, 0, sizeof(x->wr));
            if (!strcmp(name, "send_imm")) {
                x->opcode = IBV_WR_SEND_WITH_IMM;
                x->imm_data = htonl(0x11223344);
            } else if (!strcmp(name, "send_se")) {
                x->send_flags |= IBV_SEND_SOLICITED;
            } else if (!strcmp(name, "send_inv")) {
                x->opcode = IBV_WR_SEND_WITH_INV;
                x->invalidate_rkey = peer.mw_rkey;
            }
        } else if (!strncmp(name, "write", 5)) {
            x->opcode = IBV_WR_RDMA_WRITE;
            if (!strcmp(name, "write_imm")) {
                x->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
                x->imm_data = htonl(0x55667788);
            }
        } else if (!strncmp(name, "read", 4)) {
            x->opcode = IBV_WR_RDMA_READ;
        } else if (!strncmp(name, "cas", 3) || !strcmp(name, "fadd")) {
            x->opcode = name[0] == 'c' ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
            s[cnt].length = 8;
            x->num_sge = 1;
            x->wr.atomic.remote_addr = peer.addr;
            x->wr.atomic.rkey = peer.rkey;
            x->wr.atomic.compare_add = 1;
            x->wr.atomic.swap = 2;
            if (strstr(name, "_rkey"))
                x->wr.atomic.rkey ^= 0x55;
            if (strstr(name, "_ro"))
                x->wr.atomic.rkey = peer.rkey_ro;
            if (strstr(name, "_unal"))
                x->wr.atomic.remote_addr += 4;
        } else {
            die("op %s", p);
        }
        if (x->opcode == IBV_WR_RDMA_WRITE || x->opcode == IBV_WR_RDMA_READ) {
            if (strstr(name, "_rkey"))
                x->wr.rdma.rkey ^= 0x55;
            if (strstr(name, "_ro"))
                x->wr.rdma.rkey = peer.rkey_ro;
            if (strstr(name, "_wo"))
                x->wr.rdma.rkey = peer.rkey_wo;
            if (strstr(name, "_mw"))
                x->wr.rdma.rkey = peer.mw_rkey;
            if (strstr(name, "_oob"))
                x->wr.rdma.remote_addr += (strstr(name, "_mw") ? WINDOW : BUF) - len / 2;
        }
        if (cnt)
            w[cnt - 1].next = x;
        if (++cnt == 64)
            die("batch too long");
    }
    if (!cnt)
        return 0;
    if (ibv_post_send(qp, w, &bad)) {
        printf("post_send failed: %s\n", strerror(errno));
        return 1;
    }
    for (int got = 0, idle = 0; got < cnt;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(scq, 1, &wc) > 0) {
            show("send", &wc);
            fail += wc.status != 0;
            got++;
            idle = 0;
        } else if (++idle > wait_s * 2000) {
            printf("no completion after %d s\n", wait_s);
            return fail + 1;
        } else {
            usleep(500);
        }
    }
    return fail;
}

static void verbs_init(const char *dev)
{
    int n;
    struct ibv_device **l = ibv_get_device_list(&n), *d = NULL;
    for (int i = 0; i < n; i++)
        if (!dev || !strcmp(dev, ibv_get_device_name(l[i]))) {
            d = l[i];
            break;
        }
    if (!d || !(ctx = ibv_open_device(d)))
        die("no device");
    pd = ibv_alloc_pd(ctx);
    scq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
    rcq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
    if (posix_memalign((void **)&buf, 4096, BUF) || posix_memalign((void **)&rbuf, 4096, RBUF))
        die("memory");
    for (int i = 0; i < BUF; i++)
        buf[i] = i * 7 + (i >> 8);
    memset(buf, 0, 16);
    int rw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
             IBV_ACCESS_REMOTE_ATOMIC;
    mr = ibv_reg_mr(pd, buf, BUF, rw | IBV_ACCESS_MW_BIND);
    mr_ro = ibv_reg_mr(pd, buf, BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    mr_wo = ibv_reg_mr(pd, buf, BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    rmr = ibv_reg_mr(pd, rbuf, RBUF, IBV_ACCESS_LOCAL_WRITE);
    if (!mr || !mr_ro || !mr_wo || !rmr)
        die("reg_mr");
    struct ibv_qp_init_attr ia = {
        .send_cq = scq,
        .recv_cq = rcq,
        .qp_type = qpt,
        .cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1},
    };
    if (!(qp = ibv_create_qp(pd, &ia)))
        die("create_qp");
    me.qpn = qp->qp_num;
    me.psn = psn_arg >= 0 ? psn_arg : (getpid() * 2654435761u + 12345) & 0xffffff;
    me.rkey = mr->rkey;
    me.rkey_ro = mr_ro->rkey;
    me.rkey_wo = mr_wo->rkey;
    me.addr = (uintptr_t)buf;
    union ibv_gid gid;
    if (ibv_query_gid(ctx, 1, gidx, &gid))
        die("gid %d", gidx);
    me.gid = gid;
}

static void qp_up(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC};
    int rc = qpt == IBV_QPT_RC, m = IBV_MTU_256, v;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        die("INIT");
    for (v = 256; v < mtu; v <<= 1)
        m++;
    struct ibv_qp_attr r = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = m,
        .dest_qp_num = peer.qpn,
        .rq_psn = peer.psn,
        .max_dest_rd_atomic = rd_atom,
        .min_rnr_timer = rnr_timer,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = peer.gid,
                            .sgid_index = gidx,
                            .hop_limit = hop,
                            .traffic_class = tclass,
                            .flow_label = flowl}},
    };
    if (ibv_modify_qp(qp, &r,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
        die("RTR");
    struct ibv_qp_attr t = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = me.psn,
                            .timeout = timeout_exp,
                            .retry_cnt = retry,
                            .rnr_retry = rnr_retry,
                            .max_rd_atomic = rd_atom};
    if (ibv_modify_qp(
            qp, &t,
            IBV_QP_STATE | IBV_QP_SQ_PSN |
                (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                    : 0)))
        die("RTS");
}

static void bind_window(void)
{
    struct ibv_send_wr w = {.wr_id = 0, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    struct ibv_wc wc;
    if (qpt != IBV_QPT_RC || !(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)))
        return;
    w.bind_mw.mw = mw;
    w.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    w.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                                    .addr = (uintptr_t)buf,
                                                    .length = WINDOW,
                                                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
                                                                       IBV_ACCESS_REMOTE_READ};
    if (ibv_post_send(qp, &w, &bad))
        return;
    while (ibv_poll_cq(scq, 1, &wc) == 0)
        usleep(500);
    if (wc.status == IBV_WC_SUCCESS)
        me.mw_rkey = w.bind_mw.rkey;
    else
        show("bind", &wc);
}

static void ctl_open(const char *host)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int one = 1, fd = -1;
    if (!host) {
        int l = socket(AF_INET6, SOCK_STREAM, 0);
        setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(l, (void *)&a, sizeof(a)) || listen(l, 1))
            die("bind port %d", port);
        printf("listening\n");
        fflush(stdout);
        fd = accept(l, NULL, NULL);
    } else {
        struct addrinfo *ai, h = {.ai_socktype = SOCK_STREAM};
        char ps[16];
        snprintf(ps, sizeof(ps), "%d", port);
        if (getaddrinfo(host, ps, &h, &ai))
            die("host %s", host);
        for (int i = 0; i < 50 && fd < 0; i++) {
            fd = socket(ai->ai_family, SOCK_STREAM, 0);
            if (connect(fd, ai->ai_addr, ai->ai_addrlen)) {
                close(fd);
                fd = -1;
                usleep(200000);
            }
        }
    }
    if (fd < 0)
        die("no control connection");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    ctl = fdopen(fd, "r+");
    setvbuf(ctl, NULL, _IONBF, 0);
}

static void swap_info(void)
{
    if (fwrite(&me, sizeof(me), 1, ctl) != 1 || fread(&peer, sizeof(peer), 1, ctl) != 1)
        die("control exchange");
}

static void *late_recv(void *arg)
{
    int *v = arg;
    usleep(v[2] * 1000);
    post_recv(v[0], v[1]);
    return NULL;
}

static void server(void)
{
    char line[1024];
    static int v[3];
    while (fgets(line, sizeof(line), ctl)) {
        int f = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "recv:%d:%d:%d", &v[0], &v[1], &v[2]) == 3 && v[2]) {
            pthread_t t;
            pthread_create(&t, NULL, late_recv, v);
        } else if (!strncmp(line, "recv:", 5)) {
            post_recv(v[0], v[1]);
        } else if (!strncmp(line, "srv:", 4)) {
            f = batch(line + 4);
        }
        fprintf(ctl, "%d\n", f);
    }
}

static int client(int n, char **ops)
{
    int fail = 0;
    char line[64];
    for (int i = 0; i < n; i++) {
        int a, b = 1, c = 0;
        if (sscanf(ops[i], "recv:%d:%d:%d", &a, &b, &c) >= 1)
            fprintf(ctl, "recv:%d:%d:%d\n", a, b, c);
        else if (!strncmp(ops[i], "lrecv:", 6)) {
            sscanf(ops[i], "lrecv:%d:%d", &a, &b);
            post_recv(a, b);
            continue;
        } else if (sscanf(ops[i], "sleep:%d", &a) == 1) {
            usleep(a * 1000);
            continue;
        } else if (!strncmp(ops[i], "srv:", 4))
            fprintf(ctl, "%s\n", ops[i]);
        else {
            fail += batch(ops[i]);
            continue;
        }
        if (!fgets(line, sizeof(line), ctl))
            die("server is gone");
        fail += atoi(line);
    }
    return fail;
}

int main(int argc, char **argv)
{
    int o, listen_mode = 0, fail = 0;
    const char *dev = NULL;
    pthread_t t;
    while ((o = getopt(argc, argv, "d:g:m:t:p:s:T:R:N:r:q:H:c:f:w:l")) != -1)
        switch (o) {
        case 'd':
            dev = optarg;
            break;
        case 'g':
            gidx = atoi(optarg);
            break;
        case 'm':
            mtu = atoi(optarg);
            break;
        case 't':
            qpt = !strcmp(optarg, "uc") ? IBV_QPT_UC : IBV_QPT_RC;
            break;
        case 'p':
            port = atoi(optarg);
            break;
        case 's':
            psn_arg = strtol(optarg, NULL, 0) & 0xffffff;
            break;
        case 'T':
            timeout_exp = atoi(optarg);
            break;
        case 'R':
            retry = atoi(optarg);
            break;
        case 'N':
            rnr_retry = atoi(optarg);
            break;
        case 'r':
            rnr_timer = atoi(optarg);
            break;
        case 'q':
            rd_atom = atoi(optarg);
            break;
        case 'H':
            hop = atoi(optarg);
            break;
        case 'c':
            tclass = strtol(optarg, NULL, 0);
            break;
        case 'f':
            flowl = strtol(optarg, NULL, 0);
            break;
        case 'w':
            wait_s = atoi(optarg);
            break;
        case 'l':
            listen_mode = 1;
            break;
        default:
            fprintf(stderr, "see the head of rxeops.c\n");
            return 2;
        }
    verbs_init(dev);
    ctl_open(listen_mode ? NULL : argv[optind]);
    swap_info();
    qp_up();
    bind_window();
    swap_info(); /* both sides are in RTS; carries the window's key */
    printf("local qpn 0x%06x psn 0x%06x rkey 0x%08x mw 0x%08x; remote qpn 0x%06x psn 0x%06x rkey "
           "0x%08x mw 0x%08x\n",
           me.qpn, me.psn, me.rkey, me.mw_rkey, peer.qpn, peer.psn, peer.rkey, peer.mw_rkey);
    fflush(stdout);
    pthread_create(&t, NULL, rx_thread, "recv");
    if (listen_mode)
        server();
    else
        fail = client(argc - optind - 1, argv + optind + 1);
    usleep(100000);
    done = 1;
    pthread_join(t, NULL);
    return fail ? 3 : 0;
}
