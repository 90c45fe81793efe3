/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a process whose last acknowledgement was lost or is still held back:
 * its peer's request is done all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "pair.h"

/* Receives one message and does not acknowledge it yet, or not so that it arrives. */
static void receive_under(struct side *s, const char *rule)
{
    setenv("UROCE_FAULT", rule, 1);
    side_open(s);
    side_connect(s);
    side_post_recv(s, 0, 1000);
    side_meet(s);
    must(side_wait_polling(s).status == STATUS_SUCCESS);
}

static void send_one(struct side *s)
{
    side_open(s);
    side_connect(s);
    side_meet(s);
    side_post(s, WR_SEND, 0, 1000);
    must(side_wait_sleeping(s).status == STATUS_SUCCESS);
}

static void close_all(struct side *s)
{
    node_lock(s->node);
    must(qp_free(s->qp) == 0);
    node_leave_posted(s->node);
    node_put(s->node);
}

static void destroy_and_die(struct side *s)
{
    receive_under(s, "drop:op=ACK:dir=out:nth=1");
    close_all(s);
    _exit(0);
}

static void exit_without_destroying(struct side *s)
{
    receive_under(s, "drop:op=ACK:dir=out:nth=1");
    exit(0);
}

static void close_with_the_ack_held_back(struct side *s)
{
    receive_under(s, "delay=20s:op=ACK:dir=out");
    close_all(s);
    _exit(0);
}

static void exit_with_the_ack_held_back(struct side *s)
{
    receive_under(s, "delay=20s:op=ACK:dir=out");
    exit(0);
}

/* The retries of the sender last half a second; nobody is there to answer them. */
static void the_peer_of_who_destroys_and_ends_has_its_ack(void **state)
{
    (void)state;
    pair_run_unconnected(destroy_and_die, send_one);
}

static void the_peer_of_who_only_exits_has_its_ack(void **state)
{
    (void)state;
    pair_run_unconnected(exit_without_destroying, send_one);
}

static void what_is_held_back_leaves_when_the_last_device_is_closed(void **state)
{
    (void)state;
    pair_run_unconnected(close_with_the_ack_held_back, send_one);
}

static void what_is_held_back_leaves_at_exit(void **state)
{
    (void)state;
    pair_run_unconnected(exit_with_the_ack_held_back, send_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peer_of_who_destroys_and_ends_has_its_ack),
        cmocka_unit_test(the_peer_of_who_only_exits_has_its_ack),
        cmocka_unit_test(what_is_held_back_leaves_when_the_last_device_is_closed),
        cmocka_unit_test(what_is_held_back_leaves_at_exit),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
