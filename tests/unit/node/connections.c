/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections between processes of one host that all read the same QP1:
 * whoever reads a message, it comes to whom it is for. A port has one listener
 * on the host, and is free again however its process ended.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE 0x0000000001061c06u
#define ROUNDS 100u
#define BYSTANDERS 3u
#define GUEST 65533u
#define EVENTS_MAX 16u

static const struct gid here = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static const struct gid everywhere;
static const struct cm_bytes none;

/* What the manager told, under the node's lock. */
static struct cm_event events[EVENTS_MAX];
static uint32_t events_head, events_tail;
static int event_fd;

static void note(const struct cm_event *event)
{
    const uint64_t one = 1;

    must(events_tail - events_head < EVENTS_MAX);
    events[events_tail++ % EVENTS_MAX] = *event;
    must(write(event_fd, &one, sizeof(one)) == sizeof(one));
}

static void open_node(struct side *s)
{
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    s->node = node_get();
    must(s->node != NULL);
    node_set_cm_handler(note);
}

/* The next event but the end of timewait, asleep until it comes. */
static struct cm_event next_event(struct side *s)
{
    struct cm_event event;
    uint64_t count;

    do {
        must(read(event_fd, &count, sizeof(count)) == sizeof(count));
        node_lock(s->node);
        event = events[events_head++ % EVENTS_MAX];
        node_unlock(s->node);
    } while (event.type == CM_EVENT_TIMEWAIT_OVER);
    return event;
}

static struct cm_id *new_id(struct side *s)
{
    struct cm_id *id;

    must(cm_id_new(node_cm(s->node), NULL, &id) == 0);
    return id;
}

static int listen_there(struct side *s)
{
    int result;

    node_lock(s->node);
    result = node_take_service(s->node, SERVICE, &everywhere);
    if (result == 0)
        result = cm_listen(new_id(s), SERVICE, NULL, 10);
    node_unlock(s->node);
    return result;
}

static struct cm_id *ask(struct side *s)
{
    const struct cm_connect connect = {
        .path = {.src = here, .dst = here, .hop_limit = 64},
        .service_id = SERVICE,
        .qpn = 0x123456,
        .path_mtu = 5,
        .private_data = {"hello", 6},
    };
    struct cm_id *id;

    node_lock(s->node);
    id = new_id(s);
    must(cm_connect(id, &connect, node_now()) == 0);
    node_unlock(s->node);
    return id;
}

static void give_back(struct side *s, struct cm_id *id)
{
    node_lock(s->node);
    cm_id_free(id, node_now());
    node_unlock(s->node);
}

static void serve_one(struct side *s)
{
    const struct cm_accept accept = {.qpn = 0x654321, .private_data = {"welcome", 8}};
    struct cm_event event = next_event(s);
    struct cm_id *id = event.id;

    must(event.type == CM_EVENT_REQUEST);
    must(strcmp((const char *)event.message.private_data, "hello") == 0);
    node_lock(s->node);
    must(cm_accept(id, &accept, node_now()) == 0);
    node_unlock(s->node);
    must(next_event(s).type == CM_EVENT_ESTABLISHED);
    must(next_event(s).type == CM_EVENT_DISCONNECTED);
    give_back(s, id);
}

static void serve(struct side *s)
{
    open_node(s);
    must(listen_there(s) == 0);
    side_meet(s);
    for (uint32_t i = 0; i < ROUNDS; i++)
        serve_one(s);
    side_meet(s);
}

static void connect_and_disconnect(struct side *s)
{
    struct cm_id *id = ask(s);
    struct cm_event event = next_event(s);

    must(event.type == CM_EVENT_REPLY);
    must(event.id == id);
    must(strcmp((const char *)event.message.private_data, "welcome") == 0);
    node_lock(s->node);
    must(cm_establish(id, none, node_now()) == 0);
    must(cm_disconnect(id, none, node_now()) == 0);
    node_unlock(s->node);
    must(next_event(s).type == CM_EVENT_DISCONNECTED);
    give_back(s, id);
}

/* Processes that want nothing but read QP1 like all others. */
static void start_bystanders(pid_t *pids)
{
    for (uint32_t i = 0; i < BYSTANDERS; i++) {
        int ready[2];
        char c;

        must(pipe(ready) == 0);
        pids[i] = fork();
        must(pids[i] >= 0);
        if (pids[i] == 0) {
            must(node_get() != NULL);
            must(write(ready[1], "", 1) == 1);
            pause();
            _exit(0);
        }
        must(read(ready[0], &c, 1) == 1);
        close(ready[0]);
        close(ready[1]);
    }
}

static void end_bystanders(const pid_t *pids)
{
    for (uint32_t i = 0; i < BYSTANDERS; i++) {
        must(kill(pids[i], SIGKILL) == 0);
        must(waitpid(pids[i], NULL, 0) == pids[i]);
    }
}

static void connect_often(struct side *s)
{
    pid_t pids[BYSTANDERS];

    start_bystanders(pids);
    open_node(s);
    side_meet(s);
    must(listen_there(s) == -EADDRNOTAVAIL); /* at all addresses */
    for (uint32_t i = 0; i < ROUNDS; i++)
        connect_and_disconnect(s);
    end_bystanders(pids);
    side_meet(s);
}

static void connections_find_their_process_among_many(void **state)
{
    (void)state;
    pair_run(serve, connect_often);
}

static void refused_by_whoever_reads_it(struct side *s)
{
    pid_t pids[BYSTANDERS];
    struct cm_event event;

    start_bystanders(pids);
    open_node(s);
    ask(s);
    event = next_event(s);
    must(event.type == CM_EVENT_REJECTED);
    must(event.message.reason == CM_REASON_INVALID_SERVICE_ID);
    end_bystanders(pids);
}

static void a_port_without_a_listener_is_refused(void **state)
{
    (void)state;
    side_run_alone(refused_by_whoever_reads_it);
}

static void outlive_a_listener(struct side *s)
{
    pid_t pid = fork();
    int status;

    must(pid >= 0);
    if (pid == 0) {
        struct side child = {.channel = -1};

        open_node(&child);
        must(listen_there(&child) == 0);
        raise(SIGKILL);
    }
    must(waitpid(pid, &status, 0) == pid);
    must(WIFSIGNALED(status));
    open_node(s);
    ask(s);
    must(next_event(s).type == CM_EVENT_REJECTED);
    must(listen_there(s) == 0);
}

static void a_killed_listener_gives_its_port_back(void **state)
{
    (void)state;
    side_run_alone(outlive_a_listener);
}

/* A server of another user than the one who holds the port. */
static _Noreturn void serve_as_guest(int go, int ready)
{
    struct side s = {.channel = -1};
    char c;

    must(read(go, &c, 1) == 1);
    must(setresuid(GUEST, GUEST, GUEST) == 0);
    open_node(&s);
    must(listen_there(&s) == 0);
    must(write(ready, "", 1) == 1);
    serve_one(&s);
    _exit(0);
}

/* The last process of the user who holds the port, too. */
static void go_at_once(struct side *s)
{
    int go[2], ready[2];
    struct cm_event event;
    struct cm_id *id;
    int status;
    pid_t pid;
    char c;

    must(pipe(go) == 0 && pipe(ready) == 0);
    pid = fork();
    must(pid >= 0);
    if (pid == 0)
        serve_as_guest(go[0], ready[1]);
    if (fork() == 0) {
        open_node(s);
        must(write(go[1], "", 1) == 1);
        must(read(ready[0], &c, 1) == 1);
        id = ask(s);
        event = next_event(s);
        must(event.type == CM_EVENT_REPLY);
        node_lock(s->node);
        must(cm_establish(id, none, node_now()) == 0);
        node_unlock(s->node);
        exit(0);
    }
    must(waitpid(pid, &status, 0) == pid);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(wait(NULL) > 0);
}

static void a_farewell_reaches_the_guest_of_who_goes(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    side_run_alone(go_at_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_find_their_process_among_many),
        cmocka_unit_test(a_port_without_a_listener_is_refused),
        cmocka_unit_test(a_killed_listener_gives_its_port_back),
        cmocka_unit_test(a_farewell_reaches_the_guest_of_who_goes),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
