/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of several users on one port. Needs to become other users: skipped
 * where that is forbidden.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "member.h"
#include "link/guest.h"
#include "link/limits.h"

#define HOST 65534u
#define GUEST 65533u
#define OTHER_GUEST 65532u
#define PLACES 24
#define ATTEMPTS 2000

static struct member place[PLACES];
static const struct udp_config plain;
static const struct udp_config alone = {.no_guests = true};

static struct member *enter_with(uint32_t i, unsigned uid, const struct udp_config *config)
{
    member_begin(&place[i], config, uid);
    member_opened(&place[i]);
    return &place[i];
}

static struct member *enter(uint32_t i, unsigned uid)
{
    struct member *m = enter_with(i, uid, &plain);

    if (m->err)
        fail_msg("process %u of user %u: %s", i, uid, m->sentence);
    return m;
}

static int end_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PLACES; i++) {
        if (place[i].pid > 0)
            member_kill(&place[i]);
    }
    return 0;
}

static struct shipment shipment_to(const struct member *to, uint8_t mark)
{
    return (struct shipment){
        .path = mark % 2 ? path_loopback4() : path_loopback6(),
        .slot = to->slot,
        .mark = mark,
        .src_port = 0xc000,
        .count = 8,
        .len = 1040,
        .last_len = 64,
    };
}

/* A batch arrives whole, and is the first thing that arrives. */
static void expect_delivery(struct member *from, struct member *to, uint8_t mark)
{
    struct shipment s = shipment_to(to, mark);
    uint32_t before = to->seen_count;

    assert_int_equal(member_send(from, &s), 0);
    member_await(to, before + s.count);
    for (uint32_t i = before; i < before + s.count; i++) {
        assert_int_equal(to->seen[i].slot, to->slot);
        assert_int_equal(to->seen[i].mark, mark);
        assert_int_equal(to->seen[i].len, i + 1 < before + s.count ? s.len : s.last_len);
    }
}

/* Nothing is lost meanwhile: while a server goes and another comes, something may be. */
static void expect_all_talk(uint32_t count, uint8_t mark)
{
    static struct link_counters before[PLACES];

    for (uint32_t i = 0; i < count; i++)
        before[i] = member_counters(&place[i]);
    for (uint32_t i = 0; i < count; i++) {
        place[i].seen_count = 0;
        for (uint32_t j = 0; j < count; j++)
            expect_delivery(&place[j], &place[i], (uint8_t)(mark + i + j));
    }
    for (uint32_t i = 0; i < count; i++) {
        struct link_counters c = member_counters(&place[i]);

        assert_int_equal(place[i].seen_count, 8 * count);
        assert_int_equal(c.icrc_error, 0);
        assert_int_equal(c.inbox_refused, before[i].inbox_refused);
        assert_int_equal(c.stray_dropped, before[i].stray_dropped);
        assert_int_equal(c.guest_full, before[i].guest_full);
    }
}

static bool has_seen(const struct member *m, uint32_t since, uint8_t mark)
{
    for (uint32_t i = since; i < m->seen_count; i++) {
        if (m->seen[i].mark == mark)
            return true;
    }
    return false;
}

/*
 * Sends till it arrives: what is lost meanwhile, the transport above would send again. What was
 * sent before may come late, as in any network.
 */
static void expect_delivery_soon(struct member *from, struct member *to, uint8_t mark)
{
    struct shipment s = shipment_to(to, mark);
    uint32_t before = to->seen_count;
    uint32_t last;

    s.count = 1;
    s.len = 64;
    for (uint32_t i = 0; i < ATTEMPTS && !has_seen(to, before, mark); i++) {
        assert_int_equal(member_send(from, &s), 0);
        usleep(1000);
        member_counters(to);
    }
    assert_true(has_seen(to, before, mark));
    /* And none is on its way any more. */
    do {
        last = to->seen_count;
        usleep(20000);
        member_counters(to);
    } while (to->seen_count != last);
}

static void users_talk(const struct udp_config *config)
{
    for (uint32_t i = 0; i < 6; i++) {
        static const unsigned uids[] = {HOST, GUEST, OTHER_GUEST};
        struct member *m = enter_with(i, uids[i % 3], config);

        if (m->err)
            fail_msg("%s", m->sentence);
        assert_int_equal(m->slot, i + 1);
    }
    expect_all_talk(6, 1);
}

static void processes_of_three_users_talk_and_each_to_itself(void **state)
{
    (void)state;
    users_talk(&plain);
}

static void so_they_do_where_the_kernel_does_not_choose_by_slot(void **state)
{
    static const struct udp_config no_bpf = {.no_bpf = true};

    (void)state;
    users_talk(&no_bpf);
}

static void so_they_do_without_batches(void **state)
{
    static const struct udp_config single = {.no_gso = true, .no_gro = true};

    (void)state;
    users_talk(&single);
}

/* Which of the first count members serves; exactly one must. */
static uint32_t server_of(uint32_t count)
{
    uint32_t found = count;

    for (uint32_t i = 0; i < count; i++) {
        if (place[i].pid > 0 && member_counters(&place[i]).guests > 0) {
            assert_int_equal(found, count);
            found = i;
        }
    }
    assert_true(found < count);
    return found;
}

static void a_guest_keeps_its_slot_when_its_server_is_killed(void **state)
{
    struct member *guest;
    uint8_t slot;

    (void)state;
    enter(0, HOST);
    enter(1, HOST);
    enter(2, HOST);
    guest = enter(3, GUEST);
    slot = guest->slot;
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t other = 0;

        member_kill(&place[server_of(6)]);
        while (place[other].pid == 0)
            other++;
        /* A newcomer does not get the slot of the guest, which is on its way. */
        assert_int_not_equal(enter(4 + round, HOST)->slot, slot);
        expect_delivery_soon(&place[other], guest, (uint8_t)(40 + round));
        expect_delivery(guest, &place[other], (uint8_t)(50 + round));
        expect_delivery(guest, guest, (uint8_t)(60 + round));
    }
    assert_int_equal(member_counters(guest).host_lost, member_counters(guest).host_found);
}

static void a_server_that_closes_in_order_leaves_its_guests_to_the_others(void **state)
{
    struct member *guest;

    (void)state;
    enter(0, HOST);
    guest = enter(1, GUEST);
    enter(2, HOST);
    member_close(&place[0]);
    expect_delivery_soon(&place[2], guest, 70);
    expect_delivery(guest, &place[2], 71);
}

static void what_came_for_a_guest_is_passed_on_before_its_server_ends(void **state)
{
    struct shipment s;

    (void)state;
    enter(0, HOST);
    enter(1, GUEST);
    s = shipment_to(&place[1], 5);
    member_sleep(&place[0]);
    assert_int_equal(member_send(&place[0], &s), 0);
    member_close(&place[0]);
    member_await(&place[1], s.count);
}

static void guests_inherit_the_port_and_keep_their_slots(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 5; round++) {
        struct member *guest[4];

        enter(0, HOST);
        guest[0] = enter(1, GUEST);
        guest[1] = enter(2, OTHER_GUEST);
        guest[2] = enter(3, GUEST);
        guest[3] = enter(4, OTHER_GUEST);
        member_kill(&place[0]);
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t j = 0; j < 4; j++)
                expect_delivery_soon(guest[i], guest[j], (uint8_t)(80 + 4 * i + j));
            assert_int_equal(member_counters(guest[i]).slot_lost, 0);
        }
        /* The user who had the port is a guest now. */
        enter(0, HOST);
        assert_in_range(place[0].slot, 6, SLOT_LAST);
        expect_all_talk(5, 100);
        end_all(NULL);
    }
}

static void the_slot_of_a_guest_that_ended_goes_to_the_next(void **state)
{
    uint8_t slot;

    (void)state;
    enter(0, HOST);
    slot = enter(1, GUEST)->slot;
    member_kill(&place[1]);
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        enter(1, OTHER_GUEST);
        if (place[1].slot == slot)
            break;
        member_kill(&place[1]);
    }
    assert_int_equal(place[1].slot, slot);
    expect_delivery(&place[0], &place[1], 3);
}

static void a_host_may_refuse(void **state)
{
    (void)state;
    enter_with(0, HOST, &alone);
    assert_int_equal(place[0].err, 0);
    enter_with(1, GUEST, &plain);
    assert_int_equal(place[1].err, -EADDRINUSE);
    assert_non_null(strstr(place[1].sentence, "takes no guests"));
    assert_int_equal(member_counters(&place[0]).guests_refused, 1);
}

static void a_process_may_refuse_to_be_a_guest(void **state)
{
    (void)state;
    enter(0, HOST);
    enter_with(1, GUEST, &alone);
    assert_int_equal(place[1].err, -EADDRINUSE);
    assert_non_null(strstr(place[1].sentence, "65534"));
}

static void a_host_out_of_descriptors_says_so(void **state)
{
    struct member *guest;

    (void)state;
    enter(0, HOST);
    member_use_up_descriptors(&place[0]);
    guest = enter_with(1, GUEST, &plain);
    assert_int_equal(guest->err, -EAGAIN);
    assert_non_null(strstr(guest->sentence, "user 65534, whose process has too many open files"));
    assert_true(member_counters(&place[0]).guests_refused > 0);
    assert_true(member_counters(&place[0]).newcomers_pinched > 0);
}

static void guests_are_taken_by_who_has_descriptors(void **state)
{
    (void)state;
    enter(0, HOST);
    enter(1, HOST);
    member_use_up_descriptors(&place[0]);
    for (uint32_t i = 2; i < 8; i++) {
        enter(i, GUEST);
        expect_delivery(&place[1], &place[i], (uint8_t)i);
        expect_delivery(&place[i], &place[0], (uint8_t)i);
    }
    assert_int_equal(member_counters(&place[0]).guests, 0);
    assert_int_equal(member_counters(&place[1]).guests, 6);
}

static void a_guest_that_does_not_listen_holds_nobody_up(void **state)
{
    struct shipment s;

    (void)state;
    enter(0, HOST);
    enter(1, GUEST);
    enter(2, OTHER_GUEST);
    member_sleep(&place[1]);
    s = shipment_to(&place[1], 9);
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(member_send(&place[2], &s), 0);
    expect_delivery(&place[0], &place[2], 10);
    expect_delivery(&place[2], &place[0], 11);
    assert_true(member_counters(&place[0]).guest_full > 0);
    assert_int_equal(place[1].seen_count, 0);
}

/* --- services: who listens for connections --- */

static const struct gid anywhere;
static const struct gid here = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

/* Sooner or later this process knows who listens there: slot 0 is nobody. */
static void expect_listener(struct member *m, uint64_t service_id, uint8_t slot)
{
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        if (member_listener(m, service_id, &here) == slot)
            return;
        usleep(1000);
    }
    assert_int_equal(member_listener(m, service_id, &here), slot);
}

static void others_find_the_services_of_guests(void **state)
{
    struct member *guest;

    (void)state;
    enter(0, HOST);
    enter(1, HOST);
    guest = enter(2, GUEST);
    enter(3, OTHER_GUEST);
    assert_int_equal(member_listen(guest, 1000, &anywhere), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(member_listener(&place[i], 1000, &here), guest->slot);
    /* All processes of a host share the ports, whosoever they are. */
    assert_int_equal(member_listen(&place[0], 1000, &anywhere), -EADDRNOTAVAIL);
    assert_int_equal(member_listen(&place[3], 1000, &anywhere), -EADDRNOTAVAIL);
    assert_int_equal(member_listen(guest, 1000, &anywhere), -EADDRNOTAVAIL);
    assert_int_equal(member_listen(&place[1], 2000, &anywhere), 0);
    assert_int_equal(member_listen(guest, 2000, &anywhere), -EADDRNOTAVAIL);
    /* The specific one goes before the wildcard. */
    assert_int_equal(member_listen(&place[3], 1000, &here), 0);
    assert_int_equal(member_listener(&place[1], 1000, &here), place[3].slot);
    member_unlisten(&place[3], 1000, &here);
    member_unlisten(guest, 1000, &anywhere);
    assert_int_equal(member_listener(&place[1], 1000, &here), 0);
    assert_int_equal(member_listen(&place[3], 1000, &anywhere), 0);
    member_kill(&place[3]);
    expect_listener(&place[0], 1000, 0);
    assert_int_equal(member_listen(guest, 1000, &anywhere), 0);
}

static void a_guest_takes_its_services_to_its_next_host(void **state)
{
    struct member *guest;

    (void)state;
    enter(0, HOST);
    enter(1, HOST);
    guest = enter(2, GUEST);
    assert_int_equal(member_listen(guest, 1000, &anywhere), 0);
    assert_int_equal(member_listen(guest, 2000, &here), 0);
    member_kill(&place[server_of(2)]);
    for (uint32_t i = 0; i < 2; i++) {
        if (place[i].pid > 0) {
            expect_listener(&place[i], 1000, guest->slot);
            expect_listener(&place[i], 2000, guest->slot);
            member_kill(&place[i]);
        }
    }
    /* It has the port itself now. */
    enter(3, GUEST);
    expect_listener(&place[3], 1000, guest->slot);
    expect_listener(&place[3], 2000, guest->slot);
    assert_int_equal(member_listen(&place[3], 1000, &anywhere), -EADDRNOTAVAIL);
}

static void a_guest_has_so_many_services_and_no_more(void **state)
{
    struct member *guest;

    (void)state;
    enter(0, HOST);
    guest = enter(1, GUEST);
    for (uint32_t i = 1; i <= SERVICES_OF_GUEST_MAX; i++)
        assert_int_equal(member_listen(guest, i, &anywhere), 0);
    assert_int_equal(member_listen(guest, 1000, &anywhere), -ENOSPC);
    assert_int_equal(member_listen(&place[0], 1000, &anywhere), 0);
    member_unlisten(guest, 7, &anywhere);
    assert_int_equal(member_listen(guest, 2000, &anywhere), 0);
}

/* What only a hostile guest does. */

/* A connection to the host's group; the caller has the guest's uid. */
static int visit(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "uroce/%u/0", HOST);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int ask(struct guest_request q, struct guest_answer *a)
{
    int fd = visit();

    if (fd < 0 || send(fd, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q))
        return -1;
    return recv(fd, a, sizeof(*a), 0) == sizeof(*a) ? fd : -1;
}

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 200 + 1);                                                             \
    } while (0)

/* What it is told when it wants to listen as the guest of this slot and number. */
static int serve(uint32_t slot, uint64_t guest)
{
    const struct guest_service q = {
        .magic = GUEST_MAGIC,
        .version = GUEST_VERSION,
        .slot = slot,
        .listen = 1,
        .guest = guest,
        .service_id = 1000,
    };
    struct guest_service_answer a = {0};
    int fd = visit();

    EXPECT(send(fd, &q, sizeof(q), MSG_NOSIGNAL) == sizeof(q));
    EXPECT(recv(fd, &a, sizeof(a), 0) == sizeof(a));
    close(fd);
    return a.error;
}

static void misbehave(uint8_t others_slot)
{
    struct guest_request q = {.magic = GUEST_MAGIC, .version = GUEST_VERSION};
    struct guest_answer a;
    char junk[4096] = {0};
    int silent[200];
    int seats = 0;
    int fd;

    /* Words that are none. */
    fd = visit();
    EXPECT(send(fd, junk, sizeof(junk), MSG_NOSIGNAL) == sizeof(junk));
    EXPECT(recv(fd, junk, sizeof(junk), 0) <= 0);
    /* Another version is told so. */
    EXPECT(ask((struct guest_request){.magic = GUEST_MAGIC, .version = 99}, &a) >= 0);
    EXPECT(a.error == -EPROTO);
    /* Slots that are others', or none. */
    q.slot = others_slot;
    q.guest = 1;
    EXPECT(ask(q, &a) >= 0);
    EXPECT(a.error == -EBUSY);
    q.slot = 1;
    EXPECT(ask(q, &a) >= 0);
    EXPECT(a.error == -EBUSY);
    q.slot = 255;
    EXPECT(ask(q, &a) >= 0);
    EXPECT(a.error == -EPROTO);
    /* Services in another's name. */
    EXPECT(serve(others_slot, 0) == -EACCES);
    EXPECT(serve(others_slot, 4711) == -EACCES);
    EXPECT(serve(1, 1) == -EACCES);
    EXPECT(serve(0x101, 1) == -EACCES);
    /* Who speaks after it got a slot loses it. */
    q = (struct guest_request){.magic = GUEST_MAGIC, .version = GUEST_VERSION};
    fd = ask(q, &a);
    EXPECT(fd >= 0 && a.error == 0);
    EXPECT(send(fd, &q, sizeof(q), MSG_NOSIGNAL) == sizeof(q));
    EXPECT(recv(fd, &a, sizeof(a), 0) <= 0);
    /* Many who say nothing; then all the slots that it can get. */
    for (int i = 0; i < 200; i++)
        silent[i] = visit();
    EXPECT(silent[0] >= 0);
    while (ask(q, &a) >= 0 && a.error == 0)
        seats++;
    EXPECT(a.error == -EUSERS);
    EXPECT(seats == GUESTS_PER_USER);
    _exit(0);
}

static void a_hostile_guest_gets_what_is_due_and_no_more(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    enter(0, HOST);
    enter(1, OTHER_GUEST);
    pid = fork();
    if (pid == 0) {
        EXPECT(setresuid(GUEST, GUEST, GUEST) == 0);
        misbehave(place[1].slot);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    enter(2, OTHER_GUEST);
    expect_all_talk(3, 20);
}

/* Whoever lives hears what is sent to it, in the end. */
static void processes_of_several_users_come_and_go(void **state)
{
    enum { COUNT = 12, STEPS = 120 };
    static const unsigned uids[] = {HOST, HOST, GUEST, OTHER_GUEST};
    uint32_t dice = 4711;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        enter(i, uids[i % 4]);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t a, b;

        dice = dice * 1664525 + 1013904223;
        a = (dice >> 20) % COUNT;
        b = (dice >> 8) % COUNT;
        if (dice >> 30 == 0) {
            member_kill(&place[a]);
            enter(a, uids[a % 4]);
        }
        place[b].seen_count = 0;
        expect_delivery_soon(&place[a], &place[b], (uint8_t)step);
    }
}

static bool can_change_user(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setresuid(GUEST, GUEST, GUEST) != 0);
    waitpid(pid, &status, 0);
    return status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(processes_of_three_users_talk_and_each_to_itself, end_all),
        cmocka_unit_test_teardown(so_they_do_where_the_kernel_does_not_choose_by_slot, end_all),
        cmocka_unit_test_teardown(so_they_do_without_batches, end_all),
        cmocka_unit_test_teardown(a_guest_keeps_its_slot_when_its_server_is_killed, end_all),
        cmocka_unit_test_teardown(a_server_that_closes_in_order_leaves_its_guests_to_the_others,
                                  end_all),
        cmocka_unit_test_teardown(what_came_for_a_guest_is_passed_on_before_its_server_ends,
                                  end_all),
        cmocka_unit_test_teardown(guests_inherit_the_port_and_keep_their_slots, end_all),
        cmocka_unit_test_teardown(the_slot_of_a_guest_that_ended_goes_to_the_next, end_all),
        cmocka_unit_test_teardown(a_host_may_refuse, end_all),
        cmocka_unit_test_teardown(a_process_may_refuse_to_be_a_guest, end_all),
        cmocka_unit_test_teardown(a_host_out_of_descriptors_says_so, end_all),
        cmocka_unit_test_teardown(guests_are_taken_by_who_has_descriptors, end_all),
        cmocka_unit_test_teardown(a_guest_that_does_not_listen_holds_nobody_up, end_all),
        cmocka_unit_test_teardown(others_find_the_services_of_guests, end_all),
        cmocka_unit_test_teardown(a_guest_takes_its_services_to_its_next_host, end_all),
        cmocka_unit_test_teardown(a_guest_has_so_many_services_and_no_more, end_all),
        cmocka_unit_test_teardown(a_hostile_guest_gets_what_is_due_and_no_more, end_all),
        cmocka_unit_test_teardown(processes_of_several_users_come_and_go, end_all),
    };

    if (!can_change_user()) {
        fprintf(stderr, "cannot become other users\n");
        return 77;
    }
    namespace_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
