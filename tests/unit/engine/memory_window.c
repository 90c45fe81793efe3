/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBA 10.6.7): binds and invalidates as work requests in their
 * turn, what a window lets the peer do, and what it does not.
 */
#include "rc_script.h"

#include "engine/limits.h"

#define LEN 64u /* of the window, at TARGET */
#define RIGHTS (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ)
#define REGION_IOVA 0x7e0000000000ull
#define REGION_LEN 0x1000u

/* A region that no peer may use, and a window. */
struct scene {
    struct mr *region; /* begins at TARGET - LEN */
    struct mw *window;
    struct mw_bind bind; /* of LEN bytes at TARGET, with a new variant */
};

static struct mr *region_with(struct peer *p, uint32_t access)
{
    const struct mr_attr attr = {.base = p->ep.memory + TARGET - LEN,
                                 .len = REGION_LEN,
                                 .iova = REGION_IOVA,
                                 .access = access};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    return mr;
}

static struct scene scene_open(struct peer *p, enum mw_type type)
{
    struct scene s = {.region = region_with(p, ACCESS_LOCAL_WRITE | ACCESS_MW_BIND)};

    assert_int_equal(mw_new(p->ep.pd, type, &s.window), 0);
    s.bind = (struct mw_bind){.window_key = s.window->view.key,
                              .region_key = s.region->key,
                              .key = s.window->view.key ^ 0x5a,
                              .addr = REGION_IOVA + LEN,
                              .len = LEN,
                              .access = RIGHTS};
    return s;
}

static void scene_close(struct scene *s)
{
    mw_free(s->window);
    assert_int_equal(mr_free(s->region), 0);
}

static void post_bind(struct peer *p, uint64_t wr_id, const struct mw_bind *bind)
{
    endpoint_post(&p->ep, &(struct work){.wr_id = wr_id, .opcode = WR_BIND_MW, .bind = bind});
    peer_listens(p);
}

static void post_invalidate(struct peer *p, uint64_t wr_id, uint32_t key)
{
    endpoint_post(&p->ep, &(struct work){.wr_id = wr_id, .opcode = WR_LOCAL_INV, .imm = key});
    peer_listens(p);
}

static void expect_local_done(struct peer *p, uint64_t wr_id, enum completion_opcode opcode)
{
    assert_int_equal(expect_completion(p->ep.send_cq, wr_id, STATUS_SUCCESS).opcode, opcode);
}

static void bound(struct peer *p, const struct mw_bind *bind)
{
    post_bind(p, 77, bind);
    expect_local_done(p, 77, COMPLETION_BIND_MW);
    expect_silence(p);
}

/* A WRITE of 8 bytes of message 3 at a full address. */
static struct script write_at(uint32_t psn, uint64_t va, uint32_t rkey)
{
    return (struct script){.operation = OP_WRITE_ONLY,
                           .psn = psn,
                           .ack_req = true,
                           .len = 8,
                           .message = 3,
                           .remote = va - at(0),
                           .rkey = rkey,
                           .dma_len = 8};
}

static void expect_open(struct peer *p, uint64_t va, uint32_t rkey, uint32_t psn)
{
    peer_sends(p, write_at(psn, va, rkey));
    expect_ack(p, psn, psn + 1);
}

static enum mr_verdict ask(struct peer *p, const struct qp *qp, uint64_t va, uint32_t key)
{
    const struct mr_query q = {
        .pd = p->ep.pd, .qp = qp, .va = va, .len = 1, .key = key, .access = ACCESS_REMOTE_WRITE};
    uint8_t *memory;

    return mr_resolve(p->ep.engine, &q, &memory);
}

/* --- what a window opens --- */

static void window_opens_its_range_and_nothing_around_it(void **state)
{
    static const struct {
        int64_t offset; /* from the first byte */
        bool open;
    } rows[] = {{0, true}, {LEN - 8, true}, {-1, false}, {LEN - 7, false}, {-(int64_t)LEN, false}};
    struct peer *p = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene s = scene_open(p, MW_TYPE_2);

        bound(p, &s.bind);
        peer_sends(p, write_at(0, s.bind.addr + (uint64_t)rows[i].offset, s.bind.key));
        if (rows[i].open) {
            expect_ack(p, 0, 1);
            expect_placed(&p->ep, (uint32_t)(TARGET + rows[i].offset), 3, 0, 8);
        } else {
            expect_nak(p, NAK_REMOTE_ACCESS, 0, 0);
            expect_untouched(&p->ep, 0, ENDPOINT_MEMORY);
        }
        scene_close(&s);
        reopen(p, &p->ep.config);
    }
}

static void zero_based_window_is_addressed_by_offset(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    s.bind.access |= ACCESS_ZERO_BASED;
    bound(p, &s.bind);
    expect_open(p, LEN - 8, s.bind.key, 0);
    expect_placed(&p->ep, TARGET + LEN - 8, 3, 0, 8);
    peer_sends(p, write_at(1, s.bind.addr, s.bind.key));
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 1);
    scene_close(&s);
}

static void window_gives_its_own_rights_alone(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    s.bind.access = ACCESS_REMOTE_READ;
    bound(p, &s.bind);
    peer_sends(p, (struct script){.operation = OP_READ_REQUEST,
                                  .psn = 0,
                                  .remote = s.bind.addr - at(0),
                                  .rkey = s.bind.key,
                                  .dma_len = LEN});
    expect_packet(p, OP_READ_RESP_ONLY, 0);
    peer_sends(p, write_at(1, s.bind.addr, s.bind.key));
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 1);
    scene_close(&s);
}

static void window_is_no_local_key(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    bound(p, &s.bind);
    assert_int_equal(ask(p, NULL, s.bind.addr, s.bind.key), MR_WINDOW);
    scene_close(&s);
}

/* IBA 10.6.7.2: type 1 is open to all of the domain, type 2 to one QP's peer. */
static void type_2_is_for_one_qp_and_type_1_for_all(void **state)
{
    struct peer *p = *state;
    struct qp_init init = {
        .service = SERVICE_RC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .recv_cq = p->ep.recv_cq};
    struct qp *other;

    assert_int_equal(qp_new(p->ep.engine, &init, &other), 0);
    for (enum mw_type type = MW_TYPE_1; type <= MW_TYPE_2; type++) {
        struct scene s = scene_open(p, type);

        assert_int_equal(mw_bind(other, &s.bind), 0);
        assert_int_equal(ask(p, other, s.bind.addr, s.bind.key), MR_OK);
        assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key),
                         type == MW_TYPE_1 ? MR_OK : MR_WRONG_QP);
        scene_close(&s);
    }
    assert_int_equal(qp_free(other), 0);
}

static void window_of_a_qp_that_is_gone_opens_nothing(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);
    struct qp_init init = {
        .service = SERVICE_RC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .recv_cq = p->ep.recv_cq};
    struct qp *other;

    assert_int_equal(qp_new(p->ep.engine, &init, &other), 0);
    assert_int_equal(mw_bind(other, &s.bind), 0);
    assert_int_equal(qp_free(other), 0);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_WRONG_QP);
    assert_int_equal(mr_free(s.region), -EBUSY);
    assert_int_equal(mw_invalidate(p->ep.engine, p->ep.pd, s.bind.key), MR_OK);
    scene_close(&s);
}

/* --- what may be bound --- */

/* F56. Each row spoils a bind that is good. */
enum spoil {
    SPOIL_NOTHING,
    SPOIL_NO_BIND_RIGHT,
    SPOIL_NO_LOCAL_WRITE,
    SPOIL_ZERO_BASED_REGION,
    SPOIL_REGION_OF_ANOTHER_DOMAIN,
    SPOIL_WINDOW_OF_ANOTHER_DOMAIN,
    SPOIL_REGION_GONE,
    SPOIL_WINDOW_GONE,
    SPOIL_REGION_IS_A_WINDOW,
    SPOIL_BEFORE_THE_REGION,
    SPOIL_BEYOND_THE_REGION,
    SPOIL_RANGE_WRAPS,
    SPOIL_NO_LENGTH,
    SPOIL_KEY_OF_ANOTHER,
    SPOIL_BOUND_ALREADY,
    SPOIL_COUNT,
};

static void spoil(struct peer *p, struct scene *s, struct pd *other, enum spoil how)
{
    switch (how) {
    case SPOIL_NOTHING:
        break;
    case SPOIL_NO_BIND_RIGHT:
        assert_int_equal(mr_set_access(s->region, NULL, ACCESS_LOCAL_WRITE | RIGHTS), 0);
        break;
    case SPOIL_NO_LOCAL_WRITE:
        assert_int_equal(mr_set_access(s->region, NULL, ACCESS_MW_BIND), 0);
        break;
    case SPOIL_ZERO_BASED_REGION:
        assert_int_equal(mr_free(s->region), 0);
        s->region = region_with(p, ACCESS_LOCAL_WRITE | ACCESS_MW_BIND | ACCESS_ZERO_BASED);
        s->bind.region_key = s->region->key;
        s->bind.addr = LEN;
        break;
    case SPOIL_REGION_OF_ANOTHER_DOMAIN:
        assert_int_equal(mr_set_access(s->region, other, s->region->access), 0);
        break;
    case SPOIL_WINDOW_OF_ANOTHER_DOMAIN:
        mw_free(s->window);
        assert_int_equal(mw_new(other, MW_TYPE_2, &s->window), 0);
        s->bind.window_key = s->bind.key = s->window->view.key;
        break;
    case SPOIL_REGION_GONE:
        assert_int_equal(mr_free(s->region), 0);
        s->region = region_with(p, ACCESS_LOCAL_WRITE | ACCESS_MW_BIND);
        break;
    case SPOIL_WINDOW_GONE:
        mw_free(s->window);
        assert_int_equal(mw_new(p->ep.pd, MW_TYPE_2, &s->window), 0);
        break;
    case SPOIL_REGION_IS_A_WINDOW:
        s->bind.region_key = s->window->view.key;
        break;
    case SPOIL_BEFORE_THE_REGION:
        s->bind.addr = REGION_IOVA - 1;
        break;
    case SPOIL_BEYOND_THE_REGION:
        s->bind.len = REGION_LEN - LEN + 1;
        break;
    case SPOIL_RANGE_WRAPS:
        s->bind.len = UINT64_MAX;
        break;
    case SPOIL_NO_LENGTH:
        s->bind.len = 0;
        break;
    case SPOIL_KEY_OF_ANOTHER:
        s->bind.key ^= 0x100;
        break;
    case SPOIL_BOUND_ALREADY:
        bound(p, &s->bind);
        break;
    case SPOIL_COUNT:
        break;
    }
}

static void bind_that_is_not_allowed_ends_in_an_error(void **state)
{
    struct peer *p = *state;

    for (enum spoil how = SPOIL_NO_BIND_RIGHT; how < SPOIL_COUNT; how++) {
        struct scene s = scene_open(p, MW_TYPE_2);
        bool was_bound = how == SPOIL_BOUND_ALREADY;
        struct pd *other;

        assert_int_equal(pd_new(p->ep.engine, &other), 0);
        spoil(p, &s, other, how);
        post_bind(p, how, &s.bind);
        expect_completion(p->ep.send_cq, how, STATUS_MW_BIND_ERR);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        assert_int_equal(s.region->window_count, was_bound ? 1 : 0);
        assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), was_bound ? MR_OK : MR_NO_KEY);
        scene_close(&s);
        assert_int_equal(pd_free(other), 0);
        reopen(p, &p->ep.config);
    }
}

/* Local write is asked of the region for each right that changes memory, for others not. */
static void right_to_read_needs_no_local_write(void **state)
{
    static const uint32_t rights[] = {ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE,
                                      ACCESS_REMOTE_ATOMIC};
    struct peer *p = *state;

    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        struct scene s = scene_open(p, MW_TYPE_2);

        spoil(p, &s, NULL, SPOIL_NO_LOCAL_WRITE);
        s.bind.access = rights[i];
        assert_int_equal(mw_bind(p->ep.qp, &s.bind), rights[i] == ACCESS_REMOTE_READ ? 0 : -EINVAL);
        scene_close(&s);
    }
}

/* F55 */
static void any_variant_of_the_key_may_be_chosen(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);
    const uint32_t first = s.window->view.key;

    for (uint32_t variant = 0; variant < 256; variant++) {
        s.bind.key = first ^ variant;
        bound(p, &s.bind);
        assert_int_equal(ask(p, p->ep.qp, s.bind.addr, first ^ variant), MR_OK);
        assert_int_equal(ask(p, p->ep.qp, s.bind.addr, first ^ variant ^ 1), MR_NO_KEY);
        assert_int_equal(mw_invalidate(p->ep.engine, p->ep.pd, s.bind.key), MR_OK);
    }
    scene_close(&s);
}

static void binding_type_1_again_replaces_what_was_bound(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_1);
    struct mw_bind second = s.bind;

    second.addr += 16;
    second.key ^= 3;
    bound(p, &s.bind);
    bound(p, &second);
    assert_int_equal(ask(p, p->ep.qp, second.addr, s.bind.key), MR_NO_KEY);
    assert_int_equal(ask(p, p->ep.qp, second.addr, second.key), MR_OK);
    assert_int_equal(s.region->window_count, 1);
    scene_close(&s);
}

static void type_1_of_no_length_is_closed(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_1);
    struct mw_bind nothing = {.window_key = s.bind.key, .key = s.bind.key ^ 1};

    bound(p, &s.bind);
    bound(p, &nothing);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_NO_KEY);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, nothing.key), MR_NO_KEY);
    assert_int_equal(s.region->window_count, 0);
    scene_close(&s);
}

static void region_with_windows_stays_as_it_is(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_1);

    bound(p, &s.bind);
    const struct mr before = *s.region;

    assert_int_equal(mr_free(s.region), -EBUSY);
    assert_int_equal(mr_change(s.region, NULL, NULL), -EBUSY);
    assert_int_equal(mr_set_access(s.region, NULL, 0), -EBUSY);
    assert_memory_equal(s.region, &before, sizeof(before));
    scene_close(&s);
}

/* --- in their turn --- */

static void bind_is_done_when_all_before_it_is(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    post_bind(p, 2, &s.bind);
    endpoint_post(&p->ep, &(struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_packet(p, OP_SEND_ONLY, 1);
    expect_no_completion(p->ep.send_cq);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_OK);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_local_done(p, 2, COMPLETION_BIND_MW);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 1, 2);
    expect_done(p, 3);
    scene_close(&s);
}

/* Binding a second time would be an error of type 2. */
static void bind_between_packets_that_are_sent_again_is_carried_out_once(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    endpoint_post(&p->ep, &(struct work){.wr_id = 2, .opcode = WR_BIND_MW, .bind = &s.bind});
    endpoint_post(&p->ep, &(struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    for (uint32_t round = 0; round < 2; round++) {
        expect_packet(p, OP_SEND_ONLY, 0);
        expect_packet(p, OP_SEND_ONLY, 1);
        expect_silence(p);
        if (round == 0)
            time_passes(p, TIMEOUT_NS);
    }
    peer_acks(p, 1, 2);
    expect_done(p, 1);
    expect_local_done(p, 2, COMPLETION_BIND_MW);
    expect_done(p, 3);
    scene_close(&s);
}

/* The cursor is at the bind when an acknowledgement or a NAK overtakes what was to be repeated. */
static void acknowledgement_that_jumps_over_a_bind_completes_it(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    endpoint_post(&p->ep, &(struct work){.wr_id = 2, .opcode = WR_BIND_MW, .bind = &s.bind});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 0);
    peer_sends_quietly(p, (struct script){.operation = OP_ACK,
                                          .psn = 0,
                                          .syndrome = aeth_make(AETH_NAK, NAK_PSN_SEQUENCE)});
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_local_done(p, 2, COMPLETION_BIND_MW);
    expect_silence(p);
    post_invalidate(p, 3, s.bind.key);
    expect_local_done(p, 3, COMPLETION_LOCAL_INV);
    scene_close(&s);
}

static void unsignaled_bind_is_silent(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_post(
        &p->ep,
        &(struct work){.wr_id = 1, .opcode = WR_BIND_MW, .unsignaled = true, .bind = &s.bind});
    peer_listens(p);
    expect_no_completion(p->ep.send_cq);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_OK);
    scene_close(&s);
}

static void fenced_bind_waits_for_reads(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_READ, .rkey = RKEY, .len = 8});
    endpoint_post(
        &p->ep,
        &(struct work){.wr_id = 2, .opcode = WR_BIND_MW, .flags = WR_FENCE, .bind = &s.bind});
    peer_listens(p);
    expect_packet(p, OP_READ_REQUEST, 0);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_NO_KEY);
    peer_sends(p, (struct script){.operation = OP_READ_RESP_ONLY,
                                  .psn = 0,
                                  .len = 8,
                                  .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
    expect_done(p, 1);
    expect_local_done(p, 2, COMPLETION_BIND_MW);
    scene_close(&s);
}

/* F43: what was posted before may still need the peer's access. */
static void invalidate_waits_for_all_before_it(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    bound(p, &s.bind);
    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    post_invalidate(p, 2, s.bind.key);
    expect_packet(p, OP_SEND_ONLY, 0);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_OK);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_local_done(p, 2, COMPLETION_LOCAL_INV);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_NO_KEY);
    scene_close(&s);
}

static void failed_bind_waits_for_those_before_it_and_flushes_those_behind(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);
    struct mw_bind good = s.bind;

    s.bind.len = 0;
    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    endpoint_post(&p->ep, &(struct work){.wr_id = 2, .opcode = WR_BIND_MW, .bind = &s.bind});
    endpoint_post(&p->ep, &(struct work){.wr_id = 3, .opcode = WR_BIND_MW, .bind = &good});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_completion(p->ep.send_cq, 2, STATUS_MW_BIND_ERR);
    expect_completion(p->ep.send_cq, 3, STATUS_WR_FLUSH_ERR);
    assert_int_equal(s.region->window_count, 0);
    scene_close(&s);
}

static void draining_queue_starts_no_bind(void **state)
{
    const struct qp_attr attr = {.sqd_notify = true};
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_SQD_NOTIFY, &attr);
    post_bind(p, 1, &s.bind);
    expect_no_completion(p->ep.send_cq);
    endpoint_modify_state(&p->ep, QP_RTS, 0, NULL);
    peer_listens(p);
    expect_local_done(p, 1, COMPLETION_BIND_MW);
    scene_close(&s);
}

/* --- invalidating --- */

static void invalidate_ends_exactly_the_key_that_it_names(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    bound(p, &s.bind);
    post_invalidate(p, 1, s.bind.key);
    expect_local_done(p, 1, COMPLETION_LOCAL_INV);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_NO_KEY);
    bound(p, &s.bind); /* free to be bound again */
    post_invalidate(p, 2, s.bind.key ^ 1);
    expect_completion(p->ep.send_cq, 2, STATUS_MW_BIND_ERR);
    assert_int_equal(ask(p, p->ep.qp, s.bind.addr, s.bind.key), MR_OK);
    scene_close(&s);
}

/* Keys that no invalidate may end, from here or from the peer (F58, IBA 10.6.5). */
enum victim {
    VICTIM_REGION,
    VICTIM_REGION_OPEN_TO_PEERS,
    VICTIM_TYPE_1,
    VICTIM_UNBOUND,
    VICTIM_NOBODY,
    VICTIM_WINDOW_OF_ANOTHER_QP, /* only from the peer */
    VICTIM_COUNT,
};

static uint32_t victim_key(struct peer *p, struct scene *s, enum victim who, struct qp *other)
{
    switch (who) {
    case VICTIM_REGION:
        return s->region->key;
    case VICTIM_REGION_OPEN_TO_PEERS:
        return p->ep.mr->key;
    case VICTIM_TYPE_1:
        bound(p, &s->bind);
        return s->bind.key;
    case VICTIM_UNBOUND:
        return s->window->view.key;
    case VICTIM_WINDOW_OF_ANOTHER_QP:
        assert_int_equal(mw_bind(other, &s->bind), 0);
        return s->bind.key;
    case VICTIM_NOBODY:
    case VICTIM_COUNT:
        break;
    }
    return 0x12345678;
}

static void peer_may_end_only_windows_that_were_bound_for_it(void **state)
{
    struct peer *p = *state;

    for (enum victim who = VICTIM_REGION; who < VICTIM_COUNT; who++) {
        struct scene s = scene_open(p, who == VICTIM_TYPE_1 ? MW_TYPE_1 : MW_TYPE_2);
        struct qp_init init = {.service = SERVICE_RC,
                               .pd = p->ep.pd,
                               .send_cq = p->ep.send_cq,
                               .recv_cq = p->ep.recv_cq};
        struct qp *other;

        assert_int_equal(qp_new(p->ep.engine, &init, &other), 0);
        endpoint_post_recv(&p->ep, 1, 0, 100);
        peer_sends(p, (struct script){.operation = OP_SEND_ONLY_INV,
                                      .psn = 0,
                                      .ack_req = true,
                                      .len = 8,
                                      .message = 3,
                                      .ieth = victim_key(p, &s, who, other)});
        expect_silence(p);
        expect_completion(p->ep.recv_cq, 1, STATUS_MW_BIND_ERR);
        expect_untouched(&p->ep, 0, 100); /* judged before a byte is placed */
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        assert_int_equal(qp_free(other), 0);
        scene_close(&s);
        reopen(p, &p->ep.config);
    }
}

/* No NAK tells of it, but nothing that was carried out before goes without an acknowledgement. */
static void what_came_before_a_key_that_cannot_be_ended_is_acknowledged(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    endpoint_post_recv(&p->ep, 2, 200, 100);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 8, .message = 1});
    expect_silence(p);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY_INV,
                                  .psn = 1,
                                  .ack_req = true,
                                  .len = 8,
                                  .message = 2,
                                  .ieth = 0x12345678});
    expect_ack(p, 0, 1);
    expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    expect_completion(p->ep.recv_cq, 2, STATUS_MW_BIND_ERR);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
}

static void process_may_end_only_bound_windows_of_type_2(void **state)
{
    struct peer *p = *state;

    for (enum victim who = VICTIM_REGION; who < VICTIM_WINDOW_OF_ANOTHER_QP; who++) {
        struct scene s = scene_open(p, who == VICTIM_TYPE_1 ? MW_TYPE_1 : MW_TYPE_2);

        post_invalidate(p, 1, victim_key(p, &s, who, NULL));
        expect_completion(p->ep.send_cq, 1, STATUS_MW_BIND_ERR);
        scene_close(&s);
        reopen(p, &p->ep.config);
    }
}

static void peer_ends_its_window_with_a_send(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);
    struct completion c;

    bound(p, &s.bind);
    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(p,
               (struct script){
                   .operation = OP_SEND_ONLY_INV, .psn = 0, .ack_req = true, .ieth = s.bind.key});
    expect_ack(p, 0, 1);
    c = expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.flags, COMPLETION_INVALIDATED);
    assert_int_equal(c.imm, s.bind.key);
    peer_sends(p, write_at(1, s.bind.addr, s.bind.key));
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 1);
    expect_untouched(&p->ep, 0, ENDPOINT_MEMORY);
    scene_close(&s);
}

static void message_stops_where_its_window_is_closed(void **state)
{
    struct peer *p = *state;
    struct scene s = scene_open(p, MW_TYPE_2);

    s.bind.len = 3ull * PMTU;
    bound(p, &s.bind);
    peer_sends(p, (struct script){.operation = OP_WRITE_FIRST,
                                  .psn = 0,
                                  .len = PMTU,
                                  .message = 3,
                                  .remote = s.bind.addr - at(0),
                                  .rkey = s.bind.key,
                                  .dma_len = 2 * PMTU});
    assert_int_equal(mw_invalidate(p->ep.engine, p->ep.pd, s.bind.key), MR_OK);
    peer_sends(p,
               (struct script){
                   .operation = OP_WRITE_LAST, .psn = 1, .len = PMTU, .message = 3, .first = PMTU});
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 0);
    expect_placed(&p->ep, TARGET, 3, 0, PMTU);
    expect_untouched(&p->ep, TARGET + PMTU, PMTU);
    scene_close(&s);
}

/* --- services and limits --- */

static void uc_binds_and_ud_does_not(void **state)
{
    static const enum service services[] = {SERVICE_UC, SERVICE_UD};
    struct peer *p = *state;

    for (size_t i = 0; i < 2; i++) {
        struct endpoint_config config = p->ep.config;
        struct scene s;
        struct work w = {.wr_id = 1, .opcode = WR_BIND_MW, .bind = &s.bind};

        config.service = services[i];
        reopen(p, &config);
        s = scene_open(p, MW_TYPE_2);
        if (services[i] == SERVICE_UC) {
            bound(p, &s.bind);
            post_invalidate(p, 2, s.bind.key);
            expect_local_done(p, 2, COMPLETION_LOCAL_INV);
            post_invalidate(p, 3, s.bind.key);
            expect_completion(p->ep.send_cq, 3, STATUS_MW_BIND_ERR);
            assert_int_equal(qp_state(p->ep.qp), QP_SQE);
        } else {
            assert_int_equal(endpoint_try_post(&p->ep, &w), -EINVAL);
        }
        scene_close(&s);
    }
}

static void windows_are_of_two_types_and_use_their_domain(void **state)
{
    struct peer *p = *state;
    struct mw *mw = NULL;
    struct pd *pd;

    assert_int_equal(pd_new(p->ep.engine, &pd), 0);
    assert_int_equal(mw_new(pd, (enum mw_type)3, &mw), -EINVAL);
    assert_int_equal(mw_new(pd, (enum mw_type)0, &mw), -EINVAL);
    assert_null(mw);
    assert_int_equal(mw_new(pd, MW_TYPE_1, &mw), 0);
    assert_int_equal(pd_free(pd), -EBUSY);
    mw_free(mw);
    assert_int_equal(pd_free(pd), 0);
}

/* F54: regions and windows by the hundred thousand, and no key of one is a key of another. */
static void keys_of_regions_and_windows_never_meet(void **state)
{
    enum { COUNT = 70000 };
    static struct mr *mrs[COUNT];
    static struct mw *mws[COUNT];
    struct peer *p = *state;
    const struct mr_attr attr = {.base = p->ep.memory, .len = 1, .iova = 1};

    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(mr_new(p->ep.pd, &attr, &mrs[i]), 0);
        assert_int_equal(mw_new(p->ep.pd, MW_TYPE_2, &mws[i]), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct mr_query q = {.pd = p->ep.pd, .va = 1, .len = 1, .key = mrs[i]->key};
        uint8_t *memory;

        assert_int_equal(mr_resolve(p->ep.engine, &q, &memory), MR_OK);
        assert_int_equal(ask(p, p->ep.qp, 1, mws[i]->view.key), MR_NO_KEY);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        mr_free(mrs[i]);
        mw_free(mws[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(window_opens_its_range_and_nothing_around_it),
        RC_TEST(zero_based_window_is_addressed_by_offset),
        RC_TEST(window_gives_its_own_rights_alone),
        RC_TEST(window_is_no_local_key),
        RC_TEST(type_2_is_for_one_qp_and_type_1_for_all),
        RC_TEST(window_of_a_qp_that_is_gone_opens_nothing),
        RC_TEST(bind_that_is_not_allowed_ends_in_an_error),
        RC_TEST(right_to_read_needs_no_local_write),
        RC_TEST(any_variant_of_the_key_may_be_chosen),
        RC_TEST(binding_type_1_again_replaces_what_was_bound),
        RC_TEST(type_1_of_no_length_is_closed),
        RC_TEST(region_with_windows_stays_as_it_is),
        RC_TEST(bind_is_done_when_all_before_it_is),
        RC_TEST(bind_between_packets_that_are_sent_again_is_carried_out_once),
        RC_TEST(acknowledgement_that_jumps_over_a_bind_completes_it),
        RC_TEST(unsignaled_bind_is_silent),
        RC_TEST(fenced_bind_waits_for_reads),
        RC_TEST(invalidate_waits_for_all_before_it),
        RC_TEST(failed_bind_waits_for_those_before_it_and_flushes_those_behind),
        RC_TEST(draining_queue_starts_no_bind),
        RC_TEST(invalidate_ends_exactly_the_key_that_it_names),
        RC_TEST(peer_may_end_only_windows_that_were_bound_for_it),
        RC_TEST(what_came_before_a_key_that_cannot_be_ended_is_acknowledged),
        RC_TEST(process_may_end_only_bound_windows_of_type_2),
        RC_TEST(peer_ends_its_window_with_a_send),
        RC_TEST(message_stops_where_its_window_is_closed),
        RC_TEST(uc_binds_and_ud_does_not),
        RC_TEST(windows_are_of_two_types_and_use_their_domain),
        RC_TEST(keys_of_regions_and_windows_never_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
