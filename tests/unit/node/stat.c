/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files in which processes show themselves, as a reader meets them: whole, damaged, left behind,
 * and of others. And counters by the names that people know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/stat_file.h"

#define QPS 3u
#define NAME "4711.1"

/* A folder with one file, which its owner (we) holds or not. */
struct folder {
    char path[64];
    int fd;
    int file;
    struct stat_head head;
    struct stat_qp qps[QPS];
};

static struct folder folder;

static void fill(struct folder *f)
{
    f->head = (struct stat_head){
        .magic = STAT_MAGIC,
        .version = STAT_VERSION,
        .layout = stat_layout(),
        .pid = 4711,
        .qp_capacity = QPS,
        .port_count = 2,
        .command = "a program",
        .ports = {{.device = "uroce_eth0", .netdev = "eth0", .gone = {.sent_packets = 7}},
                  {.device = "uroce_lo", .netdev = "lo"}},
        .engine = {.sent_packets = 100, .malformed = 5},
        .link = {.icrc_error = 3, .too_short = 1},
    };
    f->qps[0] =
        (struct stat_qp){.used = 1, .port = 0, .qpn = 0x11, .counters = {.sent_packets = 10}};
    f->qps[1] =
        (struct stat_qp){.used = 0, .port = 0, .qpn = 0x12, .counters = {.sent_packets = 50}};
    f->qps[2] = (struct stat_qp){
        .used = 1, .port = 1, .qpn = 0x13, .counters = {.sent_packets = 2, .sent_bytes = 400}};
}

/* The first len bytes of it all. */
static void write_file(const struct folder *f, size_t len)
{
    uint8_t all[sizeof(f->head) + sizeof(f->qps)];

    memcpy(all, &f->head, sizeof(f->head));
    memcpy(all + sizeof(f->head), f->qps, sizeof(f->qps));
    assert_true(len <= sizeof(all));
    assert_int_equal(ftruncate(f->file, 0), 0);
    assert_int_equal(pwrite(f->file, all, len, 0), (ssize_t)len);
}

static void write_whole(const struct folder *f)
{
    write_file(f, sizeof(f->head) + sizeof(f->qps));
}

static int setup(void **state)
{
    struct folder *f = &folder;

    strcpy(f->path, "/tmp/uroce-unit-stat-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY);
    f->file = openat(f->fd, NAME, O_RDWR | O_CREAT, 0600);
    assert_true(f->file >= 0);
    assert_int_equal(flock(f->file, LOCK_EX | LOCK_NB), 0);
    fill(f);
    write_whole(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folder *f = *state;

    close(f->file);
    unlinkat(f->fd, NAME, 0);
    unlinkat(f->fd, "link", 0);
    close(f->fd);
    return rmdir(f->path);
}

static int read_named(const struct folder *f, const char *name, struct stat_snapshot *s,
                      const char **why)
{
    return stat_read(f->fd, name, geteuid(), s, why);
}

/* It is refused, in these words. */
static void expect_refusal(const struct folder *f, const char *words)
{
    struct stat_snapshot s;
    const char *why = NULL;

    assert_true(read_named(f, NAME, &s, &why) < 0);
    assert_non_null(why);
    if (strstr(why, words) == NULL)
        fail_msg("'%s' and not '%s'", why, words);
}

static void file_of_a_living_process_is_read_whole(void **state)
{
    struct folder *f = *state;
    struct stat_snapshot s;
    const char *why;

    assert_int_equal(read_named(f, NAME, &s, &why), 0);
    assert_int_equal(s.head.pid, 4711);
    assert_string_equal(s.head.command, "a program");
    assert_int_equal(s.qps[2].qpn, 0x13);
    stat_snapshot_fini(&s);
}

static void totals_are_those_of_the_ports_queue_pairs_living_and_gone(void **state)
{
    struct folder *f = *state;
    struct stat_snapshot s;
    struct stat_totals t;
    const char *why;

    assert_int_equal(read_named(f, NAME, &s, &why), 0);
    stat_totals(&s, 0, &t);
    assert_int_equal(t.engine.sent_packets, 17); /* 10, and 7 of those that are gone */
    assert_int_equal(t.engine.malformed, 5);
    assert_int_equal(t.link.icrc_error, 3);
    stat_totals(&s, 1, &t);
    assert_int_equal(t.engine.sent_packets, 2);
    assert_int_equal(t.engine.malformed, 0); /* told of the first port */
    assert_int_equal(t.link.icrc_error, 0);
    stat_snapshot_fini(&s);
}

static uint64_t named(const char *name, const struct stat_totals *t)
{
    struct stat_name row;

    for (uint32_t i = 0; stat_name_at(i, &row); i++)
        if (strcmp(row.name, name) == 0)
            return stat_value(i, t);
    fail_msg("no counter is called %s", name);
    return 0;
}

/* Each of our counters has a value of its own, so that no name can be that of another. */
static void counters_have_the_names_that_people_know(void **state)
{
    /* clang-format off */
    const struct stat_totals t = {
        .engine = {.sent_bytes = 400, .rcv_bytes = 800, .sent_packets = 50, .rcv_packets = 60,
                   .mcast_sent_packets = 11, .mcast_rcv_packets = 12, .wrong_pkey = 13,
                   .malformed = 2, .out_of_sequence = 6, .no_receive = 14,
                   .duplicate_request = 15, .packet_seq_err = 16, .implied_nak_seq_err = 17,
                   .rnr_nak_rcv = 8, .local_ack_timeout_err = 18, .rx_write_requests = 19,
                   .rx_read_requests = 20, .rx_atomic_requests = 21, .rx_send_requests = 22,
                   .req_cqe_error = 23, .req_cqe_flush_error = 24, .resp_cqe_error = 25,
                   .resp_cqe_flush_error = 26, .resp_local_length_error = 27,
                   .req_remote_access_errors = 28, .req_remote_invalid_request = 29,
                   .remote_access_refused = 30, .ecn_marked = 31, .cnp_sent = 32, .cnp_rcv = 9,
                   .cnp_handled = 7, .retry_exceeded = 33, .rnr_retry_exceeded = 34,
                   .retransmitted_packets = 35},
        .link = {.icrc_error = 3, .too_short = 1, .truncated = 100, .send_refused = 1000,
                 .send_unreachable = 2000, .send_too_big = 4000, .send_failed = 8000,
                 .send_would_block = 36, .socket_overflow = 37},
        .downed = 38,
    };
    static const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"port_xmit_data", 100}, /* words of four bytes */
        {"port_rcv_data", 200},
        {"port_xmit_packets", 50}, {"port_rcv_packets", 60},
        {"unicast_xmit_packets", 39}, {"unicast_rcv_packets", 48},
        {"multicast_xmit_packets", 11}, {"multicast_rcv_packets", 12},
        {"port_xmit_discards", 15000}, {"port_xmit_wait", 36},
        {"port_rcv_errors", 106}, {"port_rcv_constraint_errors", 13},
        {"excessive_buffer_overrun_errors", 37}, {"link_downed", 38},
        {"out_of_sequence", 6}, {"out_of_buffer", 14}, {"duplicate_request", 15},
        {"packet_seq_err", 16}, {"implied_nak_seq_err", 17}, {"rnr_nak_retry_err", 8},
        {"local_ack_timeout_err", 18}, {"rx_write_requests", 19}, {"rx_read_requests", 20},
        {"rx_atomic_requests", 21}, {"rx_icrc_encapsulated", 3}, {"icrc_error", 3},
        {"req_cqe_error", 23}, {"req_cqe_flush_error", 24}, {"req_remote_access_errors", 28},
        {"req_remote_invalid_request", 29}, {"resp_cqe_error", 25}, {"resp_cqe_flush_error", 26},
        {"resp_local_length_error", 27}, {"resp_remote_access_errors", 30},
        {"np_ecn_marked_roce_packets", 31}, {"np_cnp_sent", 32}, {"rp_cnp_handled", 7},
        {"rp_cnp_ignored", 2},
        /* rxe's */
        {"sent_pkts", 50}, {"rcvd_pkts", 60}, {"out_of_seq_request", 6}, {"rcvd_rnr_err", 8},
        {"rcvd_seq_err", 16}, {"send_rnr_err", 14}, {"retry_exceeded_err", 33},
        {"retry_rnr_exceeded_err", 34}, {"completer_retry_err", 35}, {"send_err", 15000},
        {"rdma_recvs", 22},
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (named(rows[i].name, &t) != rows[i].value)
            fail_msg("%s is not %u", rows[i].name, (unsigned)rows[i].value);
}

/* Each process that uses a port sees the same cable. */
static void a_port_that_goes_down_is_counted_once_for_all_processes(void **state)
{
    struct stat_totals sum = {.downed = 2, .link.icrc_error = 5};
    const struct stat_totals late = {.downed = 1, .link.icrc_error = 6};
    const struct stat_totals early = {.downed = 3};

    (void)state;
    stat_totals_add(&sum, &late);
    assert_int_equal(named("link_downed", &sum), 2);
    assert_int_equal(named("icrc_error", &sum), 11);
    stat_totals_add(&sum, &early);
    assert_int_equal(named("link_downed", &sum), 3);
}

static void no_two_counters_have_one_name(void **state)
{
    struct stat_name a, b;

    (void)state;
    for (uint32_t i = 0; stat_name_at(i, &a); i++)
        for (uint32_t j = i + 1; stat_name_at(j, &b); j++)
            assert_string_not_equal(a.name, b.name);
}

static void file_that_is_cut_off_anywhere_is_refused(void **state)
{
    struct folder *f = *state;
    const size_t whole = sizeof(f->head) + sizeof(f->qps);
    const size_t lengths[] = {0, 1, 8, sizeof(f->head) - 1, sizeof(f->head), whole - 1};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        write_file(f, lengths[i]);
        expect_refusal(f, "cut off");
    }
}

static void file_of_another_kind_or_version_is_refused(void **state)
{
    struct folder *f = *state;

    f->head.version++;
    write_whole(f);
    expect_refusal(f, "another version");
    fill(f);
    f->head.layout++;
    write_whole(f);
    expect_refusal(f, "another version");
    fill(f);
    f->head.magic[0] = 'x';
    write_whole(f);
    expect_refusal(f, "not a file of uroce");
}

static void numbers_out_of_range_are_refused_or_passed_over(void **state)
{
    struct folder *f = *state;
    struct stat_snapshot s;
    const char *why;

    f->head.qp_capacity = UINT32_MAX;
    write_whole(f);
    expect_refusal(f, "damaged");
    fill(f);
    f->head.port_count = STAT_PORTS_MAX + 1;
    write_whole(f);
    expect_refusal(f, "damaged");
    fill(f);
    f->qps[0].port = 2;
    memset(f->head.command, 'x', sizeof(f->head.command));
    memcpy(f->head.ports[0].device, "\033[2J", 4);
    write_whole(f);
    assert_int_equal(read_named(f, NAME, &s, &why), 0);
    assert_int_equal(s.qps[0].used, 0);
    assert_int_equal(strlen(s.head.command), sizeof(s.head.command) - 1);
    assert_int_equal(s.head.ports[0].device[0], '?'); /* nothing that a terminal would obey */
    stat_snapshot_fini(&s);
}

static void file_that_is_being_written_is_not_taken(void **state)
{
    struct folder *f = *state;

    f->head.sequence = 1;
    write_whole(f);
    expect_refusal(f, "does not finish");
}

static void file_without_its_owner_is_stale(void **state)
{
    struct folder *f = *state;
    struct stat_snapshot s;
    const char *why;

    flock(f->file, LOCK_UN);
    assert_int_equal(read_named(f, NAME, &s, &why), -ESTALE);
}

static void links_pipes_and_files_of_others_are_refused(void **state)
{
    struct folder *f = *state;
    struct stat_snapshot s;
    const char *why;

    assert_int_equal(symlinkat(NAME, f->fd, "link"), 0);
    assert_true(read_named(f, "link", &s, &why) < 0);
    assert_string_equal(why, "a symbolic link");
    unlinkat(f->fd, "link", 0);
    assert_int_equal(mkfifoat(f->fd, "link", 0600), 0);
    assert_true(read_named(f, "link", &s, &why) < 0);
    assert_string_equal(why, "not a plain file");
    assert_true(stat_read(f->fd, NAME, geteuid() + 1, &s, &why) < 0);
    assert_string_equal(why, "of another user");
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name, setup, teardown, NULL                                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(file_of_a_living_process_is_read_whole),
        TEST(totals_are_those_of_the_ports_queue_pairs_living_and_gone),
        TEST(counters_have_the_names_that_people_know),
        TEST(a_port_that_goes_down_is_counted_once_for_all_processes),
        TEST(no_two_counters_have_one_name),
        TEST(file_that_is_cut_off_anywhere_is_refused),
        TEST(file_of_another_kind_or_version_is_refused),
        TEST(numbers_out_of_range_are_refused_or_passed_over),
        TEST(file_that_is_being_written_is_not_taken),
        TEST(file_without_its_owner_is_stale),
        TEST(links_pipes_and_files_of_others_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
