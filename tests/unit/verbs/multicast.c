/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast as applications use it (ibv_attach_mcast(3), F35): within a process, between
 * processes of one host, and between hosts, which are network namespaces.
 */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QPN_MULTICAST 0xffffff
#define LEN 300u
#define GRH_LEN 40u
#define MESSAGES 20u
#define ATTEMPTS 500u

static union ibv_gid gid_of(const char *text)
{
    union ibv_gid gid;

    assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
    return gid;
}

/* --- one queue pair of a device --- */

struct station {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* to the group */
    union ibv_gid group;
    uint8_t buf[GRH_LEN + LEN];
};

static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list[i] != NULL && context == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

/* The first GID of the group's family that is not link-local. */
static uint8_t source_index(struct station *s)
{
    bool ipv4 = s->group.raw[0] != 0xff;
    struct ibv_gid_entry entry;

    for (uint32_t i = 0; ibv_query_gid_ex(s->context, 1, i, &entry, 0) == 0; i++)
        if ((entry.gid.raw[10] == 0xff) == ipv4 && entry.gid.raw[0] != 0xfe)
            return (uint8_t)i;
    fail_msg("no such GID");
    return 0;
}

static void station_open(struct station *s, const char *device, const char *group)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    struct ibv_ah_attr address = {.is_global = 1, .port_num = 1};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};

    s->group = gid_of(group);
    s->context = open_device(device);
    s->pd = ibv_alloc_pd(s->context);
    s->cq = ibv_create_cq(s->context, 16, NULL, NULL, 0);
    s->mr = ibv_reg_mr(s->pd, s->buf, sizeof(s->buf), IBV_ACCESS_LOCAL_WRITE);
    init.send_cq = s->cq;
    init.recv_cq = s->cq;
    s->qp = ibv_create_qp(s->pd, &init);
    assert_non_null(s->qp);
    to_init(s->qp);
    assert_int_equal(ibv_modify_qp(s->qp, &rtr, IBV_QP_STATE), 0);
    to_rts(s->qp);
    address.grh.dgid = s->group;
    address.grh.hop_limit = 1;
    address.grh.sgid_index = source_index(s);
    s->ah = ibv_create_ah(s->pd, &address);
    assert_non_null(s->ah);
}

static void station_close(struct station *s)
{
    assert_int_equal(ibv_destroy_ah(s->ah), 0);
    assert_int_equal(ibv_destroy_qp(s->qp), 0);
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    assert_int_equal(ibv_destroy_cq(s->cq), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
    assert_int_equal(ibv_close_device(s->context), 0);
}

static void station_posts_receive(struct station *s)
{
    struct ibv_sge sge = {.addr = (uintptr_t)s->buf, .length = sizeof(s->buf), .lkey = s->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void station_sends(struct station *s, uint8_t mark)
{
    struct ibv_sge sge = {.addr = (uintptr_t)s->buf + GRH_LEN, .length = LEN, .lkey = s->mr->lkey};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.ud = {.ah = s->ah, .remote_qpn = QPN_MULTICAST, .remote_qkey = QKEY},
    };
    struct ibv_send_wr *bad;

    memset(s->buf + GRH_LEN, mark, LEN);
    assert_int_equal(ibv_post_send(s->qp, &wr, &bad), 0);
    assert_int_equal(expect_success(s->cq).opcode, IBV_WC_SEND);
}

static void station_hears(struct station *s, uint8_t mark)
{
    struct ibv_wc wc = expect_success(s->cq);
    uint8_t expected[LEN];

    memset(expected, mark, LEN);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, GRH_LEN + LEN);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH);
    assert_memory_equal(s->buf + GRH_LEN, expected, LEN);
    if (s->group.raw[0] == 0xff)
        assert_memory_equal(s->buf + 24, s->group.raw, 16);
    else
        assert_memory_equal(s->buf + 36, s->group.raw + 12, 4);
    assert_int_equal(s->buf[s->group.raw[0] == 0xff ? 7 : 28], 1); /* as the address handle says */
}

/* --- what is refused --- */

static void only_ud_queue_pairs_and_multicast_addresses_go_together(void **state)
{
    const union ibv_gid unicast = gid_of("::ffff:127.0.0.1");
    const union ibv_gid group = gid_of("::ffff:239.1.2.3");
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_attach_mcast(p.qp[0], &group, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(p.qp[0], &group, 0), EINVAL);
    pair_close(&p);
    pair_setup(&p, IBV_QPT_UD, 0);
    assert_int_equal(ibv_attach_mcast(p.qp[0], &unicast, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(p.qp[0], &group, 0), EINVAL);
    pair_close(&p);
}

static void attached_queue_pair_is_busy_and_attaching_twice_is_attaching_once(void **state)
{
    const union ibv_gid group = gid_of("::ffff:239.1.2.3");
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, 0);
    assert_int_equal(ibv_attach_mcast(p.qp[0], &group, 0), 0);
    assert_int_equal(ibv_attach_mcast(p.qp[0], &group, 0xc001), 0);
    assert_int_equal(ibv_destroy_qp(p.qp[0]), EBUSY);
    assert_int_equal(ibv_detach_mcast(p.qp[0], &group, 0), 0);
    assert_int_equal(ibv_detach_mcast(p.qp[0], &group, 0), EINVAL);
    pair_close(&p);
}

static void groups_are_as_many_as_the_device_says(void **state)
{
    union ibv_gid group = gid_of("::ffff:239.1.0.0");
    struct ibv_device_attr attr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, 0);
    assert_int_equal(ibv_query_device(p.context, &attr), 0);
    assert_true(attr.max_mcast_grp > 0);
    assert_true(attr.max_mcast_qp_attach > 0);
    assert_true(attr.max_total_mcast_qp_attach > 0);
    for (int i = 0; i <= attr.max_mcast_grp; i++) {
        group.raw[14] = (uint8_t)(i >> 8);
        group.raw[15] = (uint8_t)i;
        assert_int_equal(ibv_attach_mcast(p.qp[0], &group, 0), i < attr.max_mcast_grp ? 0 : ENOMEM);
    }
    for (int i = 0; i < attr.max_mcast_grp; i++) {
        group.raw[14] = (uint8_t)(i >> 8);
        group.raw[15] = (uint8_t)i;
        assert_int_equal(ibv_detach_mcast(p.qp[0], &group, 0), 0);
    }
    pair_close(&p);
}

/* What it asks for is so anyway; of other services it makes no sense. */
static void not_hearing_oneself_may_be_asked_for(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
        .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
    };
    struct ibv_qp *qp;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, 0);
    attr.pd = p.pd;
    attr.send_cq = p.send_cq;
    attr.recv_cq = p.send_cq;
    qp = ibv_create_qp_ex(p.context, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    attr.qp_type = IBV_QPT_RC;
    assert_null(ibv_create_qp_ex(p.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    pair_close(&p);
}

/* --- who hears what --- */

static void others_of_the_process_hear_it_and_the_sender_does_not(void **state)
{
    static struct station s[3];
    struct ibv_wc wc;

    (void)state;
    for (int i = 0; i < 3; i++) {
        station_open(&s[i], "uroce_lo", "::ffff:239.1.2.3");
        station_posts_receive(&s[i]);
        assert_int_equal(ibv_attach_mcast(s[i].qp, &s[i].group, 0), 0);
    }
    station_sends(&s[0], 1);
    station_hears(&s[1], 1);
    station_hears(&s[2], 1);
    /* Its own copy would have come before theirs. */
    assert_int_equal(ibv_poll_cq(s[0].cq, 1, &wc), 0);
    assert_int_equal(ibv_detach_mcast(s[1].qp, &s[1].group, 0), 0);
    station_posts_receive(&s[1]);
    station_posts_receive(&s[2]);
    station_sends(&s[0], 2);
    station_hears(&s[2], 2);
    assert_int_equal(ibv_poll_cq(s[1].cq, 1, &wc), 0);
    for (int i = 0; i < 3; i++) {
        if (i != 1)
            assert_int_equal(ibv_detach_mcast(s[i].qp, &s[i].group, 0), 0);
        station_close(&s[i]);
    }
}

struct listener {
    pid_t pid;
    int fd; /* it writes a byte when it listens, and after each message */
};

/* The next message; one that is said till it is heard may come once more. */
static void station_hears_next(struct station *s, uint8_t mark)
{
    do {
        expect_success(s->cq);
        station_posts_receive(s);
    } while (mark > 0 && s->buf[GRH_LEN] == mark - 1);
    assert_int_equal(s->buf[GRH_LEN], mark);
}

/* In the child. Ends it with 0 when all came. */
static void listen_to_group(int fd, const char *device, const char *group)
{
    static struct station s;

    station_open(&s, device, group);
    station_posts_receive(&s);
    assert_int_equal(ibv_attach_mcast(s.qp, &s.group, 0), 0);
    for (uint8_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(write(fd, &i, 1), 1);
        station_hears_next(&s, i);
    }
    assert_int_equal(write(fd, "", 1), 1);
    _exit(0); /* attached: that ends with the process */
}

/* host: commands that make another host of it, or NULL. */
static struct listener listener_start(const char *device, const char *group, const char *host)
{
    struct listener l;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    l.pid = fork();
    assert_true(l.pid >= 0);
    if (l.pid == 0) {
        char byte;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (host != NULL) {
            assert_int_equal(unshare(CLONE_NEWNET), 0);
            assert_int_equal(write(pair[1], "", 1), 1);
            assert_int_equal(read(pair[1], &byte, 1), 1);
            assert_int_equal(system(host), 0);
        }
        listen_to_group(pair[1], device, group);
    }
    close(pair[1]);
    l.fd = pair[0];
    return l;
}

static void listener_awaits(struct listener *l, int ms)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&p, 1, ms), 1);
    assert_int_equal(read(l->fd, &byte, 1), 1);
}

static void listener_ends(struct listener *l)
{
    int status;

    assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(l->fd);
}

static void other_processes_of_the_host_hear_it(void **state)
{
    static struct station s;
    struct listener l[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        l[i] = listener_start("uroce_lo", "::ffff:239.1.2.3", NULL);
    station_open(&s, "uroce_lo", "::ffff:239.1.2.3");
    for (int i = 0; i < 2; i++)
        listener_awaits(&l[i], 4 * WAIT_MS);
    for (uint8_t n = 0; n < MESSAGES; n++) {
        station_sends(&s, n);
        for (int i = 0; i < 2; i++)
            listener_awaits(&l[i], WAIT_MS);
    }
    for (int i = 0; i < 2; i++)
        listener_ends(&l[i]);
    station_close(&s);
}

/* Faults and groups know nothing of each other. */
static void be_faulty(int fd, const char *faults)
{
    static struct station s;
    char byte;

    assert_int_equal(setenv("UROCE_FAULT", faults, 1), 0);
    station_open(&s, "uroce_lo", "::ffff:239.1.2.3");
    station_posts_receive(&s);
    station_posts_receive(&s);
    assert_int_equal(ibv_attach_mcast(s.qp, &s.group, 0), 0);
    assert_int_equal(write(fd, "", 1), 1);
    station_hears(&s, 1);
    station_hears(&s, 1);
    assert_int_equal(write(fd, "", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    _exit(0);
}

static void what_is_sent_to_a_group_meets_faults_as_all_does(void **state)
{
    static struct station s;
    struct listener l;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    l.pid = fork();
    assert_true(l.pid >= 0);
    if (l.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_faulty(pair[1], "dup=100%:dir=in");
    }
    close(pair[1]);
    l.fd = pair[0];
    listener_awaits(&l, 4 * WAIT_MS);
    station_open(&s, "uroce_lo", "::ffff:239.1.2.3");
    station_sends(&s, 1);
    listener_awaits(&l, WAIT_MS);
    assert_int_equal(write(l.fd, "", 1), 1);
    listener_ends(&l);
    station_close(&s);
}

/* A datagram of the network may be lost while interfaces come up: said again till it is heard. */
static void say_till_heard(struct station *s, struct listener *l, uint8_t mark)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        station_sends(s, mark);
        if (poll(&p, 1, 20) == 1)
            break;
    }
    listener_awaits(l, 0);
}

static void other_host_hears(const char *group)
{
    static struct station s;
    struct listener l = listener_start("uroce_far", group,
                                       "ip address add 192.0.2.2/24 dev far;"
                                       "ip address add 2001:db8::2/64 dev far nodad;"
                                       "ip link set far up; ip link set lo up");
    char command[300];

    listener_awaits(&l, WAIT_MS);
    snprintf(command, sizeof(command),
             "ip link add near type veth peer name far netns %d &&"
             "ip address add 192.0.2.1/24 dev near &&"
             "ip address add 2001:db8::1/64 dev near nodad && ip link set near up",
             (int)l.pid);
    if (system(command) != 0) {
        kill(l.pid, SIGKILL);
        waitpid(l.pid, NULL, 0);
        close(l.fd);
        skip();
    }
    assert_int_equal(write(l.fd, "", 1), 1);
    listener_awaits(&l, 4 * WAIT_MS);
    station_open(&s, "uroce_near", group);
    say_till_heard(&s, &l, 0);
    for (uint8_t n = 1; n < MESSAGES; n++) {
        usleep(1000);
        station_sends(&s, n);
        listener_awaits(&l, WAIT_MS);
    }
    listener_ends(&l);
    station_close(&s);
    assert_int_equal(system("ip link del near 2>/dev/null || true"), 0);
}

static void another_host_hears_it_over_ipv4(void **state)
{
    (void)state;
    other_host_hears("::ffff:239.1.2.3");
}

static void another_host_hears_it_over_ipv6(void **state)
{
    (void)state;
    other_host_hears("ff05::1:3");
}

static void another_host_hears_it_within_the_link(void **state)
{
    (void)state;
    other_host_hears("ff02::1:3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: settings are read once, and children inherit them. */
        cmocka_unit_test(what_is_sent_to_a_group_meets_faults_as_all_does),
        cmocka_unit_test(only_ud_queue_pairs_and_multicast_addresses_go_together),
        cmocka_unit_test(attached_queue_pair_is_busy_and_attaching_twice_is_attaching_once),
        cmocka_unit_test(groups_are_as_many_as_the_device_says),
        cmocka_unit_test(not_hearing_oneself_may_be_asked_for),
        cmocka_unit_test(others_of_the_process_hear_it_and_the_sender_does_not),
        cmocka_unit_test(other_processes_of_the_host_hear_it),
        cmocka_unit_test(another_host_hears_it_over_ipv4),
        cmocka_unit_test(another_host_hears_it_over_ipv6),
        cmocka_unit_test(another_host_hears_it_within_the_link),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
