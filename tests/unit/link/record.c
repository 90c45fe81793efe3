/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings, read back with libpcap, and what becomes of them when something is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/own_descriptor.h"
#include "link/record.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define PID 17
#define PAYLOAD_LEN 100u

static char folder[64];
static char pattern[128];
static struct record *record;
static uint64_t now_ns = 1000;
static uint32_t complaints;
static char complaint[2 * RECORD_PATH_SIZE];
static char error[RECORD_ERROR_SIZE];

static uint64_t now(void)
{
    return now_ns;
}

static void complain(const char *line)
{
    complaints++;
    snprintf(complaint, sizeof(complaint), "%s", line);
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/uroce-record-XXXXXX");
    complaints = 0;
    complaint[0] = '\0';
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(pattern, sizeof(pattern), "%s/a.pcapng", folder);
    return 0;
}

static int end(void **state)
{
    struct dirent *entry;
    DIR *all = opendir(folder);

    (void)state;
    if (record != NULL)
        record_close(record);
    record = NULL;
    while (all != NULL && (entry = readdir(all)) != NULL) {
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(all), entry->d_name, 0);
    }
    if (all != NULL)
        closedir(all);
    rmdir(folder);
    return 0;
}

static int open_record(const char *path, uint64_t limit, uint32_t files)
{
    const struct record_config config = {
        .path = path,
        .limit = limit,
        .files = files,
        .pid = PID,
        .program = "test",
        .now = now,
        .complain = complain,
    };

    return record_open(&config, &record, error);
}

static void start(uint64_t limit, uint32_t files)
{
    if (open_record(pattern, limit, files) != 0)
        fail_msg("%s", error);
}

static struct gid ipv4(uint8_t last)
{
    return (struct gid){.bytes = {[10] = 0xff, [11] = 0xff, 10, 0, 0, last}};
}

static struct gid ipv6(uint8_t last)
{
    return (struct gid){.bytes = {0xfd, [15] = last}};
}

/* A datagram with a PSN of its own and a right ICRC is seen. */
static void show(struct gid src, struct gid dst, uint32_t psn, bool sent)
{
    uint8_t bytes[BTH_LEN + PAYLOAD_LEN + ICRC_LEN] = {[0] = 0x04};
    struct link_frame frame = {
        .datagram = {.src = src,
                     .dst = dst,
                     .traffic_class = 0x6a,
                     .hop_limit = 33,
                     .src_port = 0xc123,
                     .bytes = bytes,
                     .len = sizeof(bytes)},
        .identification = (uint16_t)(psn * 7),
        .sent = sent,
    };
    struct icrc_flow flow;

    store_be24(bytes + 9, psn);
    icrc_flow_init(&flow, &src, &dst);
    store_le32(bytes + sizeof(bytes) - ICRC_LEN,
               icrc_compute(&flow, 0xc123, frame.identification, bytes, sizeof(bytes) - ICRC_LEN));
    record_tap(record)->see(record_tap(record), &frame);
}

static void show_some(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        show(ipv4(1), ipv4(2), i, true);
}

/* Path of a file of the recording; 0: the only one. */
static const char *path_of(uint32_t number)
{
    static char path[RECORD_PATH_SIZE];

    assert_int_equal(record_path(pattern, PID, number, path), 0);
    return path;
}

static off_t size_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_size : -1;
}

static pcap_t *open_capture(const char *path)
{
    char reason[PCAP_ERRBUF_SIZE];
    pcap_t *p = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, reason);

    if (p == NULL)
        fail_msg("%s", reason);
    return p;
}

/* Reads a whole file; every packet must be right. Returns how many there are, *first and *last
 * PSNs. */
static uint32_t read_all(const char *path, uint32_t *first, uint32_t *last)
{
    pcap_t *p = open_capture(path);
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    uint32_t count = 0;
    int got;

    assert_int_equal(pcap_datalink(p), DLT_RAW);
    while ((got = pcap_next_ex(p, &header, &bytes)) == 1) {
        size_t l3 = IPV4_LEN;
        uint32_t psn = load_be24(bytes + l3 + UDP_LEN + 9);

        assert_int_equal(header->caplen, header->len);
        assert_int_equal(icrc_of_frame(bytes, header->len - ICRC_LEN, l3, true),
                         load_le32(bytes + header->len - ICRC_LEN));
        *first = count == 0 ? psn : *first;
        *last = psn;
        count++;
    }
    assert_int_equal(got, PCAP_ERROR_BREAK);
    pcap_close(p);
    return count;
}

static void names_tell_processes_and_files_apart(void **state)
{
    static const struct {
        const char *pattern;
        uint32_t number;
        const char *path;
    } cases[] = {
        {"a", 0, "a.17"},
        {"a.pcapng", 0, "a.17.pcapng"},
        {"/x.d/a.b.pcapng", 0, "/x.d/a.b.17.pcapng"},
        {"/x.d/a", 0, "/x.d/a.17"},
        {"/x.d/.a", 0, "/x.d/.a.17"},
        {"a-%p.pcapng", 0, "a-17.pcapng"},
        {"/x/%p/a.pcapng", 0, "/x/17/a.pcapng"},
        {"a.%p", 0, "a.17"},
        {"a.pcapng", 3, "a.17.0003.pcapng"},
        {"a-%p.pcapng", 12, "a-17.0012.pcapng"},
        {"a.%p", 1, "a.17.0001"},
    };
    char path[RECORD_PATH_SIZE];
    char endless[RECORD_PATH_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(record_path(cases[i].pattern, PID, cases[i].number, path), 0);
        assert_string_equal(path, cases[i].path);
    }
    memset(endless, 'a', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(record_path(endless, PID, 0, path), -ENAMETOOLONG);
}

/* One packet, read back: all that is known of it stands in its headers. */
static void expect_packet(pcap_t *p, struct gid src, struct gid dst, uint32_t psn)
{
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    struct ip_header ip;
    struct udp_header udp;
    size_t l3_len;

    assert_int_equal(pcap_next_ex(p, &header, &bytes), 1);
    assert_int_equal(ip_read(bytes, header->caplen, &ip), IP_FAULT_NONE);
    l3_len = ip.header_len;
    assert_true(gid_equal(&ip.src, &src));
    assert_true(gid_equal(&ip.dst, &dst));
    assert_true(ip.checksum_good);
    assert_int_equal(ip.traffic_class, 0x6a);
    assert_int_equal(ip.hop_limit, 33);
    if (ip.ipv4) {
        assert_int_equal(ip.identification, psn * 7);
        assert_true(ip.dont_fragment);
    }
    assert_int_equal(udp_read(bytes + l3_len, header->caplen - l3_len, &udp), IP_FAULT_NONE);
    assert_int_equal(udp.src_port, 0xc123);
    assert_int_equal(udp.dst_port, ROCE_UDP_PORT);
    assert_int_equal(udp.checksum, udp_checksum(&ip, bytes + l3_len, udp.len));
    assert_int_equal(load_be24(bytes + l3_len + UDP_LEN + 9), psn);
    assert_int_equal(icrc_of_frame(bytes, header->len - ICRC_LEN, l3_len, true),
                     load_le32(bytes + header->len - ICRC_LEN));
    assert_in_range(header->ts.tv_sec, time(NULL) - 60, time(NULL) + 60);
}

static void packets_are_read_back_as_they_were(void **state)
{
    pcap_t *p;

    (void)state;
    start(1u << 20, 1);
    show(ipv4(1), ipv4(2), 5, true);
    show(ipv4(2), ipv4(1), 6, false);
    show(ipv6(1), ipv6(2), 7, true);
    record_write(record);
    p = open_capture(path_of(0));
    expect_packet(p, ipv4(1), ipv4(2), 5);
    expect_packet(p, ipv4(2), ipv4(1), 6);
    expect_packet(p, ipv6(1), ipv6(2), 7);
    pcap_close(p);
}

/* pcapng: options of an enhanced packet block stand behind the packet; flags are option 2. */
static void packets_tell_their_direction(void **state)
{
    uint8_t bytes[2048];
    size_t at = 0;
    uint32_t packets = 0;
    FILE *file;
    size_t len;

    (void)state;
    start(1u << 20, 1);
    show(ipv4(1), ipv4(2), 0, true);
    show(ipv4(2), ipv4(1), 1, false);
    record_write(record);
    file = fopen(path_of(0), "r");
    assert_non_null(file);
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    while (at < len) {
        uint32_t block_len = load_le32(bytes + at + 4);

        assert_int_equal(block_len % 4, 0);
        assert_int_equal(load_le32(bytes + at + block_len - 4), block_len);
        if (load_le32(bytes + at) == 6) {
            /* Flags and the end of options stand before the last length. */
            assert_int_equal(load_le32(bytes + at + block_len - 16), 4u << 16 | 2);
            assert_int_equal(load_le32(bytes + at + block_len - 12), packets == 0 ? 2 : 1);
            packets++;
        }
        at += block_len;
    }
    assert_int_equal(at, len);
    assert_int_equal(packets, 2);
}

static void packets_are_written_after_a_while(void **state)
{
    uint64_t deadline;

    (void)state;
    start(1u << 20, 1);
    /* The head of the file is the first to wait. */
    assert_int_equal(size_of(path_of(0)), 0);
    assert_true(record_deadline(record) > now_ns);
    record_write(record);
    assert_true(size_of(path_of(0)) > 0);
    assert_int_equal(record_deadline(record), UINT64_MAX);
    now_ns += 5000;
    show_some(1);
    deadline = record_deadline(record);
    assert_true(deadline > now_ns);
    now_ns += 5000;
    show_some(1);
    assert_int_equal(record_deadline(record), deadline);
}

static void a_recording_ends_at_its_limit_with_one_line(void **state)
{
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t count;

    (void)state;
    start(100000, 1);
    show_some(2000);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "a.17.pcapng ends here: it has reached its limit"));
    assert_in_range(size_of(path_of(0)), 90000, 100000);
    count = read_all(path_of(0), &first, &last);
    assert_int_equal(first, 0);
    assert_int_equal(last, count - 1);
    assert_int_equal(record_deadline(record), UINT64_MAX);
}

static void several_files_keep_what_came_last(void **state)
{
    uint32_t first[4] = {0};
    uint32_t last[4] = {0};
    off_t total = 0;

    (void)state;
    start(300000, 3);
    show_some(6000);
    record_write(record);
    assert_int_equal(complaints, 0);
    /* Of more than ten files the last three are left. */
    assert_int_equal(size_of(path_of(1)), -1);
    for (uint32_t number = 1, found = 0; number < 100 && found < 3; number++) {
        if (size_of(path_of(number)) < 0)
            continue;
        found++;
        total += size_of(path_of(number));
        assert_true(read_all(path_of(number), &first[found], &last[found]) > 0);
        if (found > 1)
            assert_int_equal(first[found], last[found - 1] + 1);
    }
    assert_in_range(total, 200000, 300000);
    assert_int_equal(last[3], 5999);
}

static void what_cannot_be_opened_is_told(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof(path), "%s/missing/a.pcapng", folder);
    assert_int_equal(open_record(path, 1u << 20, 1), -ENOENT);
    assert_non_null(strstr(error, "missing/a.17.pcapng: No such file"));
    assert_int_equal(open_record(pattern, 1u << 20, 100), -EINVAL);
    assert_non_null(strstr(error, "less than 64 KiB for each file"));
    record = NULL;
}

static void what_is_no_file_is_left_alone(void **state)
{
    int reader;

    (void)state;
    assert_int_equal(mkfifo(path_of(0), 0600), 0);
    assert_int_equal(open_record(pattern, 1u << 20, 1), -ENXIO); /* nobody reads it */
    reader = open(path_of(0), O_RDONLY | O_NONBLOCK);
    assert_int_equal(open_record(pattern, 1u << 20, 1), -EINVAL);
    assert_non_null(strstr(error, "a.17.pcapng: it is not a regular file"));
    close(reader);
    record = NULL;
}

static void a_full_disk_ends_it_with_one_line(void **state)
{
    uint32_t first = 0;
    uint32_t last = 0;
    struct rlimit before;
    struct rlimit narrow;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    start(10u << 20, 1);
    narrow = before;
    narrow.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &narrow);
    show_some(5000);
    setrlimit(RLIMIT_FSIZE, &before);
    show_some(5000);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "ends here: File too large"));
    /* What is there is whole. */
    assert_true(read_all(path_of(0), &first, &last) > 100);
}

/* Else the signal that goes with it would end the program. */
static void a_file_never_grows_beyond_what_the_system_allows(void **state)
{
    struct rlimit before;
    struct rlimit narrow;

    (void)state;
    signal(SIGXFSZ, SIG_DFL);
    getrlimit(RLIMIT_FSIZE, &before);
    narrow = before;
    narrow.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &narrow);
    start(10u << 20, 1);
    show_some(5000);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "limit"));
}

static void a_descriptor_that_became_another_file_is_not_written_to(void **state)
{
    char path[128];
    const int first = own_descriptor_first();
    int theirs;

    (void)state;
    start(1u << 20, 1);
    show_some(3);
    snprintf(path, sizeof(path), "%s/theirs", folder);
    theirs = open(path, O_WRONLY | O_CREAT, 0600);
    for (int fd = first; fd < first + 16; fd++)
        assert_int_equal(dup2(theirs, fd), fd);
    record_write(record);
    show_some(3);
    assert_int_equal(size_of(path), 0);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "ends here: the program closed the file"));
    for (int fd = first; fd < first + 16; fd++)
        assert_int_equal(close(fd), 0);
    close(theirs);
}

static void a_child_leaves_what_was_gathered_to_its_parent(void **state)
{
    uint32_t first = 0;
    uint32_t last = 0;
    pid_t child;

    (void)state;
    start(1u << 20, 1);
    show_some(3);
    child = fork();
    if (child == 0) {
        record_abandon(record);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(size_of(path_of(0)), 0);
    record_write(record);
    assert_int_equal(read_all(path_of(0), &first, &last), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_tell_processes_and_files_apart),
        cmocka_unit_test_setup_teardown(packets_are_read_back_as_they_were, begin, end),
        cmocka_unit_test_setup_teardown(packets_tell_their_direction, begin, end),
        cmocka_unit_test_setup_teardown(packets_are_written_after_a_while, begin, end),
        cmocka_unit_test_setup_teardown(a_recording_ends_at_its_limit_with_one_line, begin, end),
        cmocka_unit_test_setup_teardown(several_files_keep_what_came_last, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_is_told, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_left_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_full_disk_ends_it_with_one_line, begin, end),
        cmocka_unit_test_setup_teardown(a_file_never_grows_beyond_what_the_system_allows, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_descriptor_that_became_another_file_is_not_written_to,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_child_leaves_what_was_gathered_to_its_parent, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
