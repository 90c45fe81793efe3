/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that is killed at each step of a connection, as client and as server. Nobody speaks for
 * it any more but the other processes of its host, who read QP1 as it did; its peer, one of them
 * here, learns of it in seconds all the same, nothing of the connection stays, and its
 * port is free.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE 0x0000000001062000u
#define EVENTS_MAX 16u
#define PATIENCE_MS 20000 /* a reminder comes after 6 s at the latest */

enum step { ASKED, ANSWERED, ESTABLISHED, DISCONNECTING };

struct row {
    const char *name;
    bool server; /* is who is killed */
    enum step step;
    enum cm_event_type last;
    uint16_t reason; /* of a REJ; 0: none is asked for */
};

static const struct row rows[] = {
    {"client that had asked", false, ASKED, CM_EVENT_REJECTED, CM_REASON_INVALID_COMM_ID},
    {"client that had an answer", false, ANSWERED, CM_EVENT_REJECTED, CM_REASON_INVALID_COMM_ID},
    {"client that was connected", false, ESTABLISHED, CM_EVENT_DISCONNECTED, 0},
    {"client that was disconnecting", false, DISCONNECTING, CM_EVENT_DISCONNECTED, 0},
    {"server that was asked", true, ASKED, CM_EVENT_REJECTED, CM_REASON_INVALID_SERVICE_ID},
    {"server that had answered", true, ANSWERED, CM_EVENT_DISCONNECTED, 0},
    {"server that was connected", true, ESTABLISHED, CM_EVENT_DISCONNECTED, 0},
    {"server that was disconnecting", true, DISCONNECTING, CM_EVENT_DISCONNECTED, 0},
};

static const struct gid here = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static const struct gid everywhere;
static const struct cm_bytes none;

/* What the manager told, under the node's lock. */
static struct cm_event events[EVENTS_MAX];
static uint32_t events_head, events_tail;
static int event_fd;
static struct node *node;
static uint64_t service;

static void note(const struct cm_event *event)
{
    const uint64_t one = 1;

    must(events_tail - events_head < EVENTS_MAX);
    events[events_tail++ % EVENTS_MAX] = *event;
    must(write(event_fd, &one, sizeof(one)) == sizeof(one));
}

static void open_node(void)
{
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    node = node_get();
    must(node != NULL);
    node_set_cm_handler(note);
}

static struct cm_event next_event(void)
{
    struct pollfd p = {.fd = event_fd, .events = POLLIN};
    struct cm_event event;
    uint64_t count;

    must(poll(&p, 1, PATIENCE_MS) == 1);
    must(read(event_fd, &count, sizeof(count)) == sizeof(count));
    node_lock(node);
    event = events[events_head++ % EVENTS_MAX];
    node_unlock(node);
    return event;
}

static struct cm_event expect(enum cm_event_type type)
{
    struct cm_event event = next_event();

    must(event.type == type);
    return event;
}

static void listen_there(void)
{
    struct cm_id *id;

    node_lock(node);
    must(node_take_service(node, service, &everywhere) == 0);
    must(cm_id_new(node_cm(node), NULL, &id) == 0);
    must(cm_listen(id, service, NULL, 10) == 0);
    node_unlock(node);
}

static struct cm_id *ask(void)
{
    const struct cm_connect connect = {
        .path = {.src = here, .dst = here, .hop_limit = 64},
        .service_id = service,
        .qpn = (uint32_t)service & 0xffffff,
        .path_mtu = 5,
    };
    struct cm_id *id;

    node_lock(node);
    must(cm_id_new(node_cm(node), NULL, &id) == 0);
    must(cm_connect(id, &connect, node_now()) == 0);
    node_unlock(node);
    return id;
}

static void accept_it(struct cm_id *id)
{
    const struct cm_accept accept = {.qpn = 0x800000u | ((uint32_t)service & 0xffffff)};

    node_lock(node);
    must(cm_accept(id, &accept, node_now()) == 0);
    node_unlock(node);
}

static void establish(struct cm_id *id)
{
    node_lock(node);
    must(cm_establish(id, none, node_now()) == 0);
    node_unlock(node);
}

static void disconnect(struct cm_id *id)
{
    node_lock(node);
    must(cm_disconnect(id, none, node_now()) == 0);
    node_unlock(node);
}

/* --- who is killed --- */

/*
 * The survivor has got what was sent. A message may be lost with another victim that had read it
 * and not passed it on; it is then sent again, but only by who lives.
 */
static void await_word(int go)
{
    char c;

    must(read(go, &c, 1) == 1);
}

static void die_as_client(enum step step, int go)
{
    struct cm_id *id = ask();

    if (step == ASKED) {
        await_word(go);
        raise(SIGKILL);
    }
    expect(CM_EVENT_REPLY);
    if (step == ANSWERED)
        raise(SIGKILL);
    establish(id);
    await_word(go);
    if (step == DISCONNECTING)
        disconnect(id);
    raise(SIGKILL);
}

static void die_as_server(enum step step, int go, int ready)
{
    struct cm_id *id;

    listen_there();
    must(write(ready, "", 1) == 1);
    id = expect(CM_EVENT_REQUEST).id;
    if (step == ASKED)
        raise(SIGKILL);
    accept_it(id);
    if (step == ANSWERED) {
        await_word(go);
        raise(SIGKILL);
    }
    expect(CM_EVENT_ESTABLISHED);
    if (step == DISCONNECTING)
        disconnect(id);
    raise(SIGKILL);
}

static _Noreturn void victim(const struct row *row, int go, int ready)
{
    if (!row->server)
        await_word(go);
    open_node();
    if (row->server)
        die_as_server(row->step, go, ready);
    else
        die_as_client(row->step, go);
    _exit(1);
}

/* --- who survives --- */

static void see_killed(pid_t pid)
{
    int status;

    must(waitpid(pid, &status, 0) == pid);
    must(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void give_word(int go)
{
    must(write(go, "", 1) == 1);
}

static struct cm_event survive_as_server(const struct row *row, pid_t pid, int go)
{
    struct cm_id *id = expect(CM_EVENT_REQUEST).id;

    if (row->step == ASKED) {
        give_word(go);
        see_killed(pid);
    }
    accept_it(id);
    if (row->step >= ESTABLISHED) {
        expect(CM_EVENT_ESTABLISHED);
        give_word(go);
    }
    if (row->step != ASKED)
        see_killed(pid);
    return next_event();
}

static struct cm_event survive_as_client(const struct row *row, pid_t pid, int go)
{
    struct cm_id *id = ask();

    if (row->step == ASKED) {
        see_killed(pid);
        return next_event();
    }
    expect(CM_EVENT_REPLY);
    if (row->step == ANSWERED) {
        give_word(go);
        see_killed(pid);
    }
    establish(id);
    if (row->step != ANSWERED)
        see_killed(pid);
    return next_event();
}

/* Timewait over, nothing is left but the listener; and the port is who asks for it first's. */
static void expect_nothing_left(const struct row *row)
{
    const uint32_t listeners = row->server ? 0 : 1;
    uint32_t count = UINT32_MAX;

    for (int ms = 0; ms < PATIENCE_MS && count != listeners; ms += 10) {
        node_lock(node);
        count = cm_id_count(node_cm(node));
        node_unlock(node);
        usleep(10000);
    }
    must(count == listeners);
    if (row->server)
        listen_there();
}

static _Noreturn void survivor(const struct row *row)
{
    int go[2], ready[2];
    struct cm_event event;
    pid_t pid;

    must(pipe(go) == 0 && pipe(ready) == 0);
    service = SERVICE + (uint64_t)(row - rows);
    pid = fork();
    must(pid >= 0);
    if (pid == 0)
        victim(row, go[0], ready[1]);
    open_node();
    if (row->server) {
        await_word(ready[0]);
        event = survive_as_client(row, pid, go[1]);
    } else {
        listen_there();
        give_word(go[1]);
        event = survive_as_server(row, pid, go[1]);
    }
    must(event.type == row->last);
    must(row->reason == 0 || event.message.reason == row->reason);
    node_lock(node);
    cm_id_free(event.id, node_now());
    node_unlock(node);
    expect_nothing_left(row);
    _exit(0);
}

/* All at once: each waits for its own. */
static void a_peer_that_is_killed_at_any_step_is_noticed_and_leaves_nothing(void **state)
{
    pid_t pids[sizeof(rows) / sizeof(rows[0])];
    unsigned failed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            survivor(&rows[i]);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        fprintf(stderr, "the peer of a %s: status %d\n", rows[i].name, status);
        failed++;
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_killed_at_any_step_is_noticed_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
