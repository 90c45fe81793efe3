/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of several threads: posting to and polling the same and different objects, sleeping in
 * epoll, changing and destroying things while traffic runs. What a thread finds is counted, and
 * judged when all are back: assertions belong to the main thread.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define POSTERS 3u
#define POLLERS 2u
#define REQUESTS 400u     /* of each poster */
#define GIVE_UP 20000000u /* empty polls: an end to every wait, of minutes */

/* Posters and pollers of one queue pair and one completion queue. */
struct crowd {
    struct pair pair;
    atomic_uint times_done[POSTERS][REQUESTS];
    atomic_uint done;
    atomic_uint wrong;
    atomic_bool stop;
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

static void *post_all(void *arg)
{
    const struct member *m = arg;
    struct pair *p = &m->crowd->pair;
    struct ibv_sge sge = {
        .addr = (uintptr_t)p->buf + (size_t)64 * m->number, .length = 64, .lkey = p->mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    wr.wr.rdma.rkey = p->mr->rkey;
    wr.wr.rdma.remote_addr = (uintptr_t)p->buf + BUF_SIZE + (size_t)64 * m->number;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        int error;

        wr.wr_id = (uint64_t)m->number * REQUESTS + i;
        while ((error = ibv_post_send(p->qp[0], &wr, &bad)) == ENOMEM &&
               !atomic_load(&m->crowd->stop))
            sched_yield();
        if (error != 0)
            atomic_fetch_add(&m->crowd->wrong, 1);
    }
    return NULL;
}

static void note(struct crowd *c, uint64_t wr_id, enum ibv_wc_status status)
{
    if (status != IBV_WC_SUCCESS || wr_id >= (uint64_t)POSTERS * REQUESTS) {
        atomic_fetch_add(&c->wrong, 1);
        return;
    }
    atomic_fetch_add(&c->times_done[wr_id / REQUESTS][wr_id % REQUESTS], 1);
    atomic_fetch_add(&c->done, 1);
}

static bool is_over(const struct crowd *c)
{
    return atomic_load(&c->done) >= POSTERS * REQUESTS || atomic_load(&c->wrong) > 0;
}

/* Half of the pollers go the extended way. */
static void *poll_all(void *arg)
{
    const struct member *m = arg;
    struct crowd *c = m->crowd;
    struct ibv_cq_ex *cq = (struct ibv_cq_ex *)(void *)c->pair.send_cq;
    struct ibv_poll_cq_attr attr = {0};

    for (uint32_t i = 0; i < GIVE_UP && !is_over(c); i++) {
        struct ibv_wc wc[4];
        int got;

        if (m->number % 2 == 0) {
            got = ibv_poll_cq(c->pair.send_cq, 4, wc);
            for (int n = 0; n < got; n++)
                note(c, wc[n].wr_id, wc[n].status);
        } else if (ibv_start_poll(cq, &attr) == 0) {
            do
                note(c, cq->wr_id, cq->status);
            while (ibv_next_poll(cq) == 0);
            ibv_end_poll(cq);
        }
    }
    return NULL;
}

/* What a thread does beside the traffic, again and again. */
typedef void *(*beside_fn)(void *crowd);

static void run_crowd(struct crowd *c, beside_fn beside)
{
    struct member posters[POSTERS];
    struct member pollers[POLLERS];
    pthread_t threads[POSTERS + POLLERS];
    pthread_t other;

    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i] = (struct member){.crowd = c, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    for (unsigned i = 0; i < POLLERS; i++) {
        pollers[i] = (struct member){.crowd = c, .number = i};
        assert_int_equal(pthread_create(&threads[POSTERS + i], NULL, poll_all, &pollers[i]), 0);
    }
    if (beside != NULL)
        assert_int_equal(pthread_create(&other, NULL, beside, c), 0);
    for (unsigned i = 0; i < POLLERS; i++)
        pthread_join(threads[POSTERS + i], NULL);
    atomic_store(&c->stop, true);
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    if (beside != NULL)
        pthread_join(other, NULL);
    assert_int_equal(atomic_load(&c->wrong), 0);
    for (unsigned i = 0; i < POSTERS; i++)
        for (unsigned n = 0; n < REQUESTS; n++)
            assert_int_equal(atomic_load(&c->times_done[i][n]), 1);
}

static void threads_that_share_everything_lose_nothing(void **state)
{
    static struct crowd c;

    (void)state;
    pair_setup(&c.pair, IBV_QPT_RC, 0);
    run_crowd(&c, NULL);
    pair_close(&c.pair);
}

static void *resize_again_and_again(void *arg)
{
    struct crowd *c = arg;

    for (int size = 32; !atomic_load(&c->stop); size = size == 32 ? 200 : 32) {
        int error = ibv_resize_cq(c->pair.send_cq, size);

        if (error != 0 && error != EINVAL) /* more is queued than fits just now */
            atomic_fetch_add(&c->wrong, 1);
        sched_yield();
    }
    return NULL;
}

/* F76. */
static void resizing_under_traffic_loses_nothing(void **state)
{
    static struct crowd c;

    (void)state;
    pair_setup(&c.pair, IBV_QPT_RC, 0);
    run_crowd(&c, resize_again_and_again);
    pair_close(&c.pair);
}

/* Everything that programs make and destroy while others work. */
static void *make_and_destroy(void *arg)
{
    struct crowd *c = arg;
    struct pair *p = &c->pair;
    uint8_t memory[4096];

    while (!atomic_load(&c->stop)) {
        struct ibv_cq *cq = ibv_create_cq(p->context, 4, NULL, NULL, 0);
        struct ibv_mr *mr = ibv_reg_mr(p->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
        struct ibv_qp_init_attr init = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 4, .max_send_sge = 1}};
        struct ibv_qp *qp = ibv_create_qp(p->pd, &init);
        struct ibv_qp_init_attr found;
        struct ibv_qp_attr attr;

        if (cq == NULL || mr == NULL || qp == NULL) {
            atomic_fetch_add(&c->wrong, 1);
            break;
        }
        if (ibv_query_qp(p->qp[0], &attr, IBV_QP_STATE, &found) != 0 ||
            attr.qp_state != IBV_QPS_RTS)
            atomic_fetch_add(&c->wrong, 1);
        if (ibv_destroy_qp(qp) != 0 || ibv_dereg_mr(mr) != 0 || ibv_destroy_cq(cq) != 0)
            atomic_fetch_add(&c->wrong, 1);
    }
    return NULL;
}

static void objects_come_and_go_beside_traffic(void **state)
{
    static struct crowd c;

    (void)state;
    pair_setup(&c.pair, IBV_QPT_RC, 0);
    run_crowd(&c, make_and_destroy);
    pair_close(&c.pair);
}

/* --- a thread for each queue pair --- */

struct loner {
    struct pair pair;
    unsigned wrong;
};

static int wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
    for (uint32_t i = 0; i < GIVE_UP; i++) {
        int got = ibv_poll_cq(cq, 1, wc);

        if (got != 0)
            return got;
    }
    return 0;
}

static void *send_to_self(void *arg)
{
    struct loner *l = arg;
    struct pair *p = &l->pair;
    struct ibv_sge from = {.addr = (uintptr_t)p->buf, .length = 3000, .lkey = p->mr->lkey};
    struct ibv_sge to = {.addr = (uintptr_t)p->buf + BUF_SIZE, .length = 3000, .lkey = p->mr->lkey};
    struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1};
    struct ibv_send_wr send = {
        .opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_recv_wr *bad_recv;
    struct ibv_send_wr *bad_send;
    struct ibv_wc wc;

    for (int i = 0; i < 200; i++) {
        memset(p->buf, i, 3000);
        if (ibv_post_recv(p->qp[1], &recv, &bad_recv) != 0 ||
            ibv_post_send(p->qp[0], &send, &bad_send) != 0 || wait_for(p->send_cq, &wc) != 1 ||
            wc.status != IBV_WC_SUCCESS || wait_for(p->recv_cq, &wc) != 1 ||
            wc.status != IBV_WC_SUCCESS || memcmp(p->buf, p->buf + BUF_SIZE, 3000) != 0)
            l->wrong++;
    }
    return NULL;
}

static void threads_with_objects_of_their_own_do_not_meet(void **state)
{
    static struct loner loners[4];
    pthread_t threads[COUNT_OF(loners)];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(loners); i++)
        pair_setup(&loners[i].pair, IBV_QPT_RC, 0);
    for (size_t i = 0; i < COUNT_OF(loners); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_to_self, &loners[i]), 0);
    for (size_t i = 0; i < COUNT_OF(loners); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(loners[i].wrong, 0);
        pair_close(&loners[i].pair);
    }
}

/* --- completion channels --- */

struct sleepers {
    struct pair pair;
    atomic_uint received;
    atomic_uint wrong;
    unsigned wanted;
    int stop; /* a pipe's end, readable when it is over */
};

static void take_events(struct sleepers *s)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    while (ibv_get_cq_event(s->pair.channel, &cq, &context) == 0) {
        if (cq != s->pair.recv_cq || context != &s->pair || ibv_req_notify_cq(cq, 0) != 0)
            atomic_fetch_add(&s->wrong, 1);
        ibv_ack_cq_events(cq, 1);
        while (ibv_poll_cq(cq, 1, &wc) == 1)
            atomic_fetch_add(wc.status == IBV_WC_SUCCESS ? &s->received : &s->wrong, 1);
    }
}

static void *sleep_in_epoll(void *arg)
{
    struct sleepers *s = arg;
    int fds[2] = {s->pair.channel->fd, s->stop};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    bool over = false;

    for (int i = 0; i < 2; i++) {
        event.data.fd = fds[i];
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event) != 0)
            atomic_fetch_add(&s->wrong, 1);
    }
    while (!over && epoll_wait(epoll, &event, 1, -1) == 1) {
        over = event.data.fd == s->stop;
        if (!over)
            take_events(s);
    }
    close(epoll);
    return NULL;
}

static void sleepers_in_epoll_share_a_channel(void **state)
{
    static struct sleepers s;
    pthread_t threads[3];
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    int ends[2];

    (void)state;
    s.wanted = 200;
    pair_setup(&s.pair, IBV_QPT_RC, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    s.stop = ends[0];
    sge = sge_of(&s.pair, 0, 0, 10);
    fcntl(s.pair.channel->fd, F_SETFL, fcntl(s.pair.channel->fd, F_GETFL) | O_NONBLOCK);
    assert_int_equal(ibv_req_notify_cq(s.pair.recv_cq, 0), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_in_epoll, &s), 0);
    for (unsigned i = 0; i < s.wanted; i++) {
        post_receive(&s.pair, i, 100);
        post_request(&s.pair, &wr);
        expect_success(s.pair.send_cq);
        while (atomic_load(&s.received) <= i && atomic_load(&s.wrong) == 0)
            sched_yield();
    }
    assert_int_equal(write(ends[1], "", 1), 1);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_int_equal(atomic_load(&s.received), s.wanted);
    close(ends[0]);
    close(ends[1]);
    pair_close(&s.pair);
}

/* --- the end in the middle --- */

/* Writes until a request fails, then takes all that was posted back. Returns how it failed. */
static void *write_until_it_fails(void *arg)
{
    struct loner *l = arg;
    struct pair *p = &l->pair;
    struct ibv_sge sge = {.addr = (uintptr_t)p->buf, .length = 30000, .lkey = p->mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    int open = 0;

    wr.wr.rdma.rkey = p->mr->rkey;
    wr.wr.rdma.remote_addr = (uintptr_t)p->buf + BUF_SIZE;
    while (wc.status == IBV_WC_SUCCESS) {
        while (open < 8 && ibv_post_send(p->qp[0], &wr, &bad) == 0)
            open++;
        if (wait_for(p->send_cq, &wc) != 1)
            break;
        open--;
    }
    l->wrong = wc.status;
    while (open > 0 && wait_for(p->send_cq, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR)
        open--;
    return open == 0 ? l : NULL;
}

typedef void (*ending_fn)(struct pair *p);

static void destroy_the_peer(struct pair *p)
{
    assert_int_equal(ibv_destroy_qp(p->qp[1]), 0);
    p->qp[1] = NULL;
}

static void fail_the_peer(struct pair *p)
{
    assert_int_equal(to_state(p->qp[1], IBV_QPS_ERR), 0);
}

static void fail_the_sender(struct pair *p)
{
    assert_int_equal(to_state(p->qp[0], IBV_QPS_ERR), 0);
}

static void forbid_it(struct pair *p)
{
    struct ibv_qp_attr attr = {.qp_access_flags = 0};

    assert_int_equal(ibv_modify_qp(p->qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
}

static void what_ends_in_the_middle_of_traffic_ends_well(void **state)
{
    static const struct {
        ending_fn end;
        enum ibv_wc_status status;
    } endings[] = {
        {destroy_the_peer, IBV_WC_RETRY_EXC_ERR},
        {fail_the_peer, IBV_WC_RETRY_EXC_ERR},
        {fail_the_sender, IBV_WC_WR_FLUSH_ERR},
        {forbid_it, IBV_WC_REM_INV_REQ_ERR},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        static struct loner l;
        struct ibv_qp_attr quick = {.timeout = 1, .retry_cnt = 1};
        pthread_t thread;
        void *whole;

        pair_setup(&l.pair, IBV_QPT_RC, 0);
        assert_int_equal(to_state(l.pair.qp[0], IBV_QPS_SQD), 0);
        assert_int_equal(ibv_modify_qp(l.pair.qp[0], &quick, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0);
        assert_int_equal(to_state(l.pair.qp[0], IBV_QPS_RTS), 0);
        assert_int_equal(pthread_create(&thread, NULL, write_until_it_fails, &l), 0);
        usleep(20000);
        endings[i].end(&l.pair);
        pthread_join(thread, &whole);
        assert_ptr_equal(whole, &l);
        assert_int_equal(l.wrong, endings[i].status);
        pair_close(&l.pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_share_everything_lose_nothing),
        cmocka_unit_test(resizing_under_traffic_loses_nothing),
        cmocka_unit_test(objects_come_and_go_beside_traffic),
        cmocka_unit_test(threads_with_objects_of_their_own_do_not_meet),
        cmocka_unit_test(sleepers_in_epoll_share_a_channel),
        cmocka_unit_test(what_ends_in_the_middle_of_traffic_ends_well),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
