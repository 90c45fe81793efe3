/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/guarded_copy.h"

#define TIME_LIMIT_S 30

static const struct gid here = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

static int event_fd = -1;

/* ThreadSanitizer's: by default it ends a child that starts threads after fork. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

int pair_namespace(void **state)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    (void)state;
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return 0;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
    close(fd);
    return 0;
}

void must_at(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    _exit(1);
}

void side_goes_on(void)
{
    alarm(TIME_LIMIT_S);
}

static pid_t start(side_fn body, int channel, int other, bool connected)
{
    struct side s = {.channel = channel};
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    close(other);
    side_goes_on();
    if (connected) {
        side_open(&s);
        side_connect(&s);
    }
    body(&s);
    _exit(0);
}

static void expect_good_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fprintf(stderr, "a process ended by signal %d\n", WTERMSIG(status));
    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void run_two(side_fn first, side_fn second, bool connected)
{
    pid_t a, b;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    a = start(first, ends[0], ends[1], connected);
    b = start(second, ends[1], ends[0], connected);
    close(ends[0]);
    close(ends[1]);
    expect_good_end(a);
    expect_good_end(b);
}

void pair_run(side_fn first, side_fn second)
{
    run_two(first, second, true);
}

void pair_run_unconnected(side_fn first, side_fn second)
{
    run_two(first, second, false);
}

void side_run_alone(side_fn body)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    expect_good_end(start(body, ends[0], ends[1], false));
    close(ends[0]);
    close(ends[1]);
}

static void note_event(const struct engine_event *event)
{
    const uint64_t one = 1;

    if (event->type == ENGINE_EVENT_COMPLETION)
        must(write(event_fd, &one, sizeof(one)) == sizeof(one));
}

static void make_objects(struct side *s)
{
    struct engine *e = node_engine(s->node);
    struct mr_attr region = {
        .base = s->memory,
        .len = SIDE_MEMORY_LEN,
        .iova = (uintptr_t)s->memory,
        .access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ,
    };
    struct qp_init init = {
        .service = SERVICE_RC,
        .cap = {.send_wr_max = 64, .recv_wr_max = 64, .send_sge_max = 1, .recv_sge_max = 1},
        .all_signaled = true,
    };
    struct qp_attr attr = {.state = QP_INIT, .port = 1, .access = region.access};

    must(guarded_probe(s->memory, SIDE_MEMORY_LEN, true) == 0);
    must(pd_new(e, &s->pd) == 0);
    must(cq_new(e, 256, NULL, &s->cq) == 0);
    must(mr_new(s->pd, &region, &s->mr) == 0);
    init.pd = s->pd;
    init.send_cq = s->cq;
    init.recv_cq = s->cq;
    must(qp_new(e, &init, &s->qp) == 0);
    must(qp_modify(s->qp, &attr, QP_ATTR_STATE | QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                   NULL) == 0);
}

void side_open(struct side *s)
{
    event_fd = eventfd(0, EFD_CLOEXEC);
    s->events = event_fd;
    node_set_event_handler(note_event);
    s->memory =
        mmap(NULL, SIDE_MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(s->memory != MAP_FAILED);
    s->node = node_get();
    must(s->node != NULL);
    node_lock(s->node);
    make_objects(s);
    node_unlock(s->node);
    s->mine = (struct hello){
        .qpn = qp_qpn(s->qp),
        .psn = 0xfffff0 + (uint32_t)(getpid() & 7),
        .rkey = s->mr->key,
        .len = SIDE_MEMORY_LEN,
        .addr = (uintptr_t)s->memory,
    };
}

void side_connect(struct side *s)
{
    struct qp_attr attr = {
        .state = QP_RTR,
        .path = {.src = here, .dst = here, .hop_limit = 64},
        .pmtu = 1024,
        .dest_rd_atomic = 4,
        .rd_atomic = 4,
        .min_rnr_timer = 1,
        .timeout = 14,
        .retry_count = 7,
        .rnr_retry = 7,
        .sq_psn = psn_make(s->mine.psn),
    };

    must(send(s->channel, &s->mine, sizeof(s->mine), 0) == sizeof(s->mine));
    must(recv(s->channel, &s->theirs, sizeof(s->theirs), 0) == sizeof(s->theirs));
    attr.dest_qpn = s->theirs.qpn;
    attr.rq_psn = psn_make(s->theirs.psn);
    node_lock(s->node);
    must(qp_modify(s->qp, &attr,
                   QP_ATTR_STATE | QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                       QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                   NULL) == 0);
    attr.state = QP_RTS;
    must(qp_modify(s->qp, &attr,
                   QP_ATTR_STATE | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY |
                       QP_ATTR_SQ_PSN | QP_ATTR_RD_ATOMIC,
                   NULL) == 0);
    node_unlock(s->node);
    side_meet(s);
}

void side_meet(struct side *s)
{
    char c = 0;

    must(send(s->channel, &c, 1, 0) == 1);
    must(recv(s->channel, &c, 1, 0) == 1);
    side_goes_on();
}

static struct sge sge_at(const struct side *s, uint64_t offset, uint32_t len)
{
    return (struct sge){.addr = (uintptr_t)s->memory + offset, .length = len, .lkey = s->mr->key};
}

void side_post_recv(struct side *s, uint64_t offset, uint32_t len)
{
    struct sge sge = sge_at(s, offset, len);

    node_enter(s->node);
    must(qp_post_recv(s->qp, &(struct recv_wr){.sges = &sge, .sge_count = 1}) == 0);
    node_leave_posted(s->node);
}

void side_post(struct side *s, enum wr_opcode opcode, uint64_t offset, uint32_t len)
{
    struct sge sge = sge_at(s, offset, len);
    struct send_wr wr = {
        .opcode = opcode,
        .sges = &sge,
        .sge_count = 1,
        .remote_addr = s->theirs.addr + offset,
        .rkey = s->theirs.rkey,
    };

    node_enter(s->node);
    must(qp_post_send(s->qp, &wr) == 0);
    node_leave_posted(s->node);
}

/* One poll as the verbs face does it. */
static bool poll_once(struct side *s, struct completion *out)
{
    int taken;

    node_enter(s->node);
    taken = cq_poll(s->cq, 1, out);
    if (taken == 0) {
        node_progress(s->node);
        taken = cq_poll(s->cq, 1, out);
    }
    node_leave(s->node);
    return taken > 0;
}

struct completion side_wait_polling(struct side *s)
{
    struct completion c;

    for (uint32_t empty = 1; !poll_once(s, &c); empty++)
        node_idle_hint(s->node, empty);
    side_goes_on();
    return c;
}

struct completion side_wait_sleeping(struct side *s)
{
    struct completion c;
    uint64_t count;

    for (;;) {
        node_lock(s->node);
        cq_arm(s->cq, false);
        node_unlock(s->node);
        if (poll_once(s, &c)) {
            side_goes_on();
            return c;
        }
        node_before_sleep(s->node);
        must(read(s->events, &count, sizeof(count)) == sizeof(count));
    }
}
