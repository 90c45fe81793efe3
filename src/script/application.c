/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines that speak of the application above the peer under test: what it
 * posts and changes, and what it is to see of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "script/run_private.h"

#define STEP_NS 1000000u /* between two looks at what the application sees */

/* The region that an address is in, with len bytes from there; SCRIPT_NONE. */
static uint32_t find_region(const struct run *run, uint64_t va, uint32_t len)
{
    for (uint32_t i = 0; i < run->setup.region_count; i++) {
        uint64_t offset = va - run->offer.regions[i].va;

        if (offset < run->setup.regions[i].len && len <= run->setup.regions[i].len - offset)
            return i;
    }
    return SCRIPT_NONE;
}

static bool post_numbers(struct run *run, const struct statement *st, struct post *out)
{
    const bool adds = field_find(st, FIELD_POST_ADD) != NULL;
    const bool invalidates = field_find(st, FIELD_INV) != NULL;
    const bool binds = st->what == WR_BIND_MW;
    uint64_t v[10];
    uint32_t region;

    if (!run_row(run, st, FIELD_ID, 0, &v[0]) || !run_row(run, st, FIELD_LOCAL, 0, &v[1]) ||
        !run_row(run, st, FIELD_LEN, 0, &v[2]))
        return false;
    region = v[2] > 0 ? find_region(run, v[1], 1) : SCRIPT_NONE;
    if (!run_row(run, st, FIELD_LKEY, region != SCRIPT_NONE ? run->offer.regions[region].lkey : 0,
                 &v[3]) ||
        !run_row(run, st, FIELD_REMOTE, 0, &v[4]) ||
        !run_row(run, st, FIELD_REMOTE_KEY, 0, &v[5]) ||
        !run_row(run, st, invalidates ? FIELD_INV : FIELD_IMM, 0, &v[6]) ||
        !run_row(run, st, FIELD_POST_COMPARE, 0, &v[7]) ||
        !run_row(run, st, adds ? FIELD_POST_ADD : FIELD_POST_SWAP, 0, &v[8]) ||
        !run_row(run, st, FIELD_ACCESS, 0, &v[9]))
        return false;
    *out = (struct post){
        .id = v[0],
        .va = v[1],
        .len = (uint32_t)v[2],
        .lkey = (uint32_t)v[3],
        .remote_va = v[4],
        .rkey = (uint32_t)v[5],
        .imm = (uint32_t)v[6],
        .compare = adds ? v[8] : v[7],
        .swap = v[8],
        .region_key = (uint32_t)v[3],
        .window_key = binds ? (uint32_t)v[5] : 0,
        .window_access = (uint32_t)v[9],
        .remote_qpn = run->subject->peer_qpn,
        .remote_qkey = run->setup.attr.qkey,
    };
    return true;
}

static enum wr_opcode post_opcode(const struct statement *st)
{
    if (st->what == WR_SEND && field_find(st, FIELD_INV) != NULL)
        return WR_SEND_INV;
    if (st->what == WR_SEND && field_find(st, FIELD_IMM) != NULL)
        return WR_SEND_IMM;
    if (st->what == WR_WRITE && field_find(st, FIELD_IMM) != NULL)
        return WR_WRITE_IMM;
    return (enum wr_opcode)st->what;
}

/* The window of which window= gives a key. */
static bool post_window(struct run *run, const struct statement *st, struct post *post)
{
    uint64_t key;

    if (st->what != WR_BIND_MW)
        return true;
    if (!run_row(run, st, FIELD_WINDOW, 0, &key))
        return false;
    for (uint32_t i = 0; i < run->setup.window_count; i++) {
        if (run->offer.window_rkeys[i] >> 8 == (uint32_t)key >> 8) {
            post->window = i;
            return true;
        }
    }
    run_broken(run, st, "window= is the key of no window");
    return false;
}

enum script_verdict do_post(struct run *run, const struct statement *st)
{
    const bool to_be_refused = field_find(st, FIELD_REFUSED) != NULL;
    struct post post;
    int error;

    if (!post_numbers(run, st, &post) || !post_window(run, st, &post))
        return SCRIPT_BROKEN;
    post.recv = st->what == WORK_RECV;
    post.opcode = post.recv ? WR_SEND : post_opcode(st);
    post.flags = (field_find(st, FIELD_UNSIGNALED) != NULL ? 0u : WR_SIGNALED) |
                 (field_find(st, FIELD_FENCE) != NULL ? WR_FENCE : 0u) |
                 (field_find(st, FIELD_INLINE) != NULL ? WR_INLINE : 0u) |
                 (field_find(st, FIELD_SE) != NULL ? WR_SOLICITED : 0u);
    error = run->subject->ops->post(run->subject, &post);
    if (to_be_refused && error == 0)
        return run_failed(run, st, "the work request was taken, expected it to be refused");
    if (error != 0 && !(to_be_refused && (error == -EINVAL || error == -ENOMEM)))
        return call_failed(run, st, error);
    return SCRIPT_PASSED;
}

/* Lets some time pass for something that the application is to see; packets wait for their lines.
 * False: the time is over. */
static bool wait_on(struct run *run, uint64_t until)
{
    uint64_t now = run->subject->ops->now(run->subject);

    if (now >= until)
        return false;
    return run->subject->ops->wait(run->subject, now + STEP_NS < until ? now + STEP_NS : until) ==
           0;
}

static uint64_t application_until(const struct run *run, const struct statement *st)
{
    return run->base_ns + st->within_ns +
           (st->optional ? run->subject->settle_ns : run->subject->patience_ns);
}

static void compare_completion(struct run *run, const struct statement *st,
                               const struct completion *c, struct differences *d)
{
    const struct {
        enum field_row row;
        uint64_t came;
    } rows[] = {
        {FIELD_ID, c->wr_id},
        {FIELD_STATUS, c->status},
        {FIELD_OP, c->opcode},
        {FIELD_LEN, c->byte_len},
        {FIELD_IMM, (c->flags & COMPLETION_IMM) != 0 ? c->imm : UINT64_MAX},
        {FIELD_INV, (c->flags & COMPLETION_INVALIDATED) != 0 ? c->imm : UINT64_MAX},
        {FIELD_FROM_QPN, c->src_qpn},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct field *f = field_find(st, rows[i].row);
        uint64_t expected;

        if (f == NULL)
            continue;
        if (f->capture != SCRIPT_NONE)
            run->values[f->capture] = rows[i].came;
        else if (run_field(run, st, f, &expected))
            difference_number(d, rows[i].row, expected, rows[i].came);
    }
}

enum script_verdict do_completion(struct run *run, const struct statement *st)
{
    const uint64_t until = application_until(run, st);
    struct differences d = {0};
    struct completion c;
    int result;

    do {
        result = run->subject->ops->poll(run->subject, &c);
    } while (result == 0 && wait_on(run, until));
    if (result < 0)
        return call_failed(run, st, result);
    if (result == 0) {
        run_failed(run, st, "the application sees no completion");
        fputs("      expected: ", run->out);
        statement_print(run, st, run->out);
        fputc('\n', run->out);
        return SCRIPT_FAILED;
    }
    compare_completion(run, st, &c, &d);
    if (!d.bad)
        return SCRIPT_PASSED;
    run_failed(run, st, "another completion than expected");
    differences_print(&d, run->out);
    return SCRIPT_FAILED;
}

enum script_verdict no_completion(struct run *run, const struct statement *st)
{
    struct completion c;
    int result = run->subject->ops->poll(run->subject, &c);

    if (result < 0)
        return call_failed(run, st, result);
    if (result == 0)
        return SCRIPT_PASSED;
    return run_failed(run, st,
                      "a completion of request %" PRIu64 " with status %s that nobody "
                      "expected",
                      c.wr_id, word_name(status_words, c.status));
}

enum script_verdict no_event(struct run *run, const struct statement *st)
{
    uint32_t type;
    int result = run->subject->ops->event(run->subject, &type);

    if (result < 0)
        return call_failed(run, st, result);
    if (result == 0)
        return SCRIPT_PASSED;
    return run_failed(run, st, "an event %s that nobody expected", word_name(event_words, type));
}

enum script_verdict do_no(struct run *run, const struct statement *st)
{
    int error = run->subject->ops->wait(run->subject,
                                        run->base_ns + st->within_ns + run->subject->settle_ns);

    if (error != 0)
        return call_failed(run, st, error);
    return st->what == NO_COMPLETION ? no_completion(run, st) : no_event(run, st);
}

/* The word after it in the list, when a mutation asks for another. */
static uint32_t expected_word(const struct statement *st, const struct word *list)
{
    if (!st->changed)
        return st->what;
    return list[0].value != st->what ? list[0].value : list[1].value;
}

enum script_verdict do_event(struct run *run, const struct statement *st)
{
    const uint32_t expected = expected_word(st, event_words);
    const uint64_t until = application_until(run, st);
    uint32_t type;
    int result;

    do {
        result = run->subject->ops->event(run->subject, &type);
    } while (result == 0 && wait_on(run, until));
    if (result < 0)
        return call_failed(run, st, result);
    if (result == 0 && st->optional)
        return SCRIPT_PASSED;
    if (result == 0)
        return run_failed(run, st, "the application sees no event, expected %s",
                          word_name(event_words, expected));
    if (type != expected && expected != EVENT_ANY)
        return run_failed(run, st, "the application sees event %s, expected %s",
                          word_name(event_words, type), word_name(event_words, expected));
    return SCRIPT_PASSED;
}

enum script_verdict do_state(struct run *run, const struct statement *st)
{
    const uint32_t expected = expected_word(st, state_words);
    const uint64_t until = application_until(run, st);
    uint32_t state;
    int error;

    do {
        error = run->subject->ops->state(run->subject, &state);
    } while (error == 0 && state != expected && wait_on(run, until));
    if (error != 0)
        return call_failed(run, st, error);
    if (state != expected)
        return run_failed(run, st, "the queue pair is in %s, expected %s",
                          word_name(state_words, state), word_name(state_words, expected));
    return SCRIPT_PASSED;
}

enum script_verdict do_modify(struct run *run, const struct statement *st)
{
    int error = run->subject->ops->modify(run->subject, st->what);

    return error != 0 ? call_failed(run, st, error) : SCRIPT_PASSED;
}

/* Where the line's bytes are, and which they are: in scratch. False: that was said. */
static bool find_bytes(struct run *run, const struct statement *st, uint32_t *region,
                       uint32_t *offset, uint32_t *len)
{
    const uint64_t va = expression_value(run, &st->where);
    bool said;

    if (!statement_bytes(run, st, run->scratch, SCRIPT_REGION_LEN_MAX, len, &said))
        return false;
    *region = find_region(run, va, *len);
    if (*region == SCRIPT_NONE) {
        run_broken(run, st, "%u bytes at 0x%" PRIx64 " are not in one memory region", *len, va);
        return false;
    }
    *offset = (uint32_t)(va - run->offer.regions[*region].va);
    return true;
}

enum script_verdict do_fill(struct run *run, const struct statement *st)
{
    uint32_t region;
    uint32_t offset;
    uint32_t len;
    int error;

    if (!find_bytes(run, st, &region, &offset, &len))
        return SCRIPT_BROKEN;
    error = run->subject->ops->write(run->subject, region, offset, run->scratch, len);
    return error != 0 ? call_failed(run, st, error) : SCRIPT_PASSED;
}

enum script_verdict do_holds(struct run *run, const struct statement *st)
{
    const uint64_t until = application_until(run, st);
    uint8_t *came = run->scratch + SCRIPT_REGION_LEN_MAX;
    struct differences d = {0};
    uint32_t region;
    uint32_t offset;
    uint32_t len;
    int error;

    if (!find_bytes(run, st, &region, &offset, &len))
        return SCRIPT_BROKEN;
    do {
        error = run->subject->ops->read(run->subject, region, offset, came, len);
    } while (error == 0 && memcmp(run->scratch, came, len) != 0 && wait_on(run, until));
    if (error != 0)
        return call_failed(run, st, error);
    difference_bytes(&d, "memory", run->scratch, came, len);
    if (!d.bad)
        return SCRIPT_PASSED;
    run_failed(run, st, "memory holds other bytes than expected");
    differences_print(&d, run->out);
    return SCRIPT_FAILED;
}
