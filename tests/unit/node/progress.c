/* SPDX-License-Identifier: BSD-2-Clause */
/* Data between two processes over the real link: receivers that sleep, poll, or care about other
 * things. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pair.h"

#define ROUNDS 300u
#define MESSAGE_LEN 3000u

/* Message i of a sender: all bytes are known from i. */
static void fill(uint8_t *memory, uint32_t i, uint32_t len)
{
    for (uint32_t b = 0; b < len; b++)
        memory[b] = (uint8_t)(i * 7 + b * 13 + b / 251);
}

static bool holds(const uint8_t *memory, uint32_t i, uint32_t len)
{
    for (uint32_t b = 0; b < len; b++)
        if (memory[b] != (uint8_t)(i * 7 + b * 13 + b / 251))
            return false;
    return true;
}

static void expect(struct completion c, enum completion_opcode opcode)
{
    must(c.status == STATUS_SUCCESS);
    must(c.opcode == opcode);
}

/* Takes two completions: that of a SEND and that of a message that came, in any order. */
static void expect_sent_and_received(struct side *s, struct completion (*wait)(struct side *))
{
    uint32_t received = 0;

    for (int i = 0; i < 2; i++) {
        struct completion c = wait(s);

        must(c.status == STATUS_SUCCESS);
        received += c.opcode == COMPLETION_RECV;
    }
    must(received == 1);
}

/* Messages to and fro: own ones at 0, those of the other side at half of the memory. */
static void exchange(struct side *s, bool begins, struct completion (*wait)(struct side *))
{
    const uint32_t half = SIDE_MEMORY_LEN / 2;

    side_post_recv(s, half, MESSAGE_LEN);
    side_meet(s);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(s->memory, i, MESSAGE_LEN);
        if (begins)
            side_post(s, WR_SEND, 0, MESSAGE_LEN);
        if (begins) {
            expect_sent_and_received(s, wait);
        } else {
            expect(wait(s), COMPLETION_RECV);
        }
        must(holds(s->memory + half, i, MESSAGE_LEN));
        memset(s->memory + half, 0, MESSAGE_LEN);
        side_post_recv(s, half, MESSAGE_LEN);
        if (!begins) {
            side_post(s, WR_SEND, 0, MESSAGE_LEN);
            expect(wait(s), COMPLETION_SEND);
        }
    }
    side_meet(s);
}

static void begin_sleeping(struct side *s)
{
    exchange(s, true, side_wait_sleeping);
}

static void answer_sleeping(struct side *s)
{
    exchange(s, false, side_wait_sleeping);
}

static void begin_polling(struct side *s)
{
    exchange(s, true, side_wait_polling);
}

static void answer_polling(struct side *s)
{
    exchange(s, false, side_wait_polling);
}

static void messages_arrive_at_receivers_that_sleep(void **state)
{
    (void)state;
    pair_run(begin_sleeping, answer_sleeping);
}

static void messages_arrive_at_receivers_that_poll(void **state)
{
    (void)state;
    pair_run(begin_polling, answer_polling);
}

static void messages_arrive_when_one_polls_and_one_sleeps(void **state)
{
    (void)state;
    pair_run(begin_polling, answer_sleeping);
    pair_run(begin_sleeping, answer_polling);
}

static void write_and_read_back(struct side *s)
{
    for (uint32_t i = 0; i < 4; i++) {
        fill(s->memory, i, SIDE_MEMORY_LEN);
        side_post(s, WR_WRITE, 0, SIDE_MEMORY_LEN);
        expect(side_wait_sleeping(s), COMPLETION_WRITE);
        memset(s->memory, 0, SIDE_MEMORY_LEN);
        side_post(s, WR_READ, 0, SIDE_MEMORY_LEN);
        expect(side_wait_sleeping(s), COMPLETION_READ);
        must(holds(s->memory, i, SIDE_MEMORY_LEN));
    }
    side_meet(s);
}

static void care_about_other_things(struct side *s)
{
    side_meet(s);
    must(holds(s->memory, 3, SIDE_MEMORY_LEN));
}

static void memory_is_written_and_read_while_its_owner_sleeps(void **state)
{
    (void)state;
    pair_run(write_and_read_back, care_about_other_things);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_at_receivers_that_sleep),
        cmocka_unit_test(messages_arrive_at_receivers_that_poll),
        cmocka_unit_test(messages_arrive_when_one_polls_and_one_sleeps),
        cmocka_unit_test(memory_is_written_and_read_while_its_owner_sleeps),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
