#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of fault is found by its name, and nothing is found where nothing is wrong.

usage: faults.py UROCE CAPTURES

Faults are planted in captures of the kernel's soft-RoCE, which are clean; what is expected is
exactly what was planted, and what follows from it by the protocol's rules. Some captures
have real faults in them; what those are is in their README.
"""
import glob
import html.parser
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import packets

IP, UDP, BTH = 14, 34, 42
EXTENDED = BTH + 12
OPCODE, FLAGS, PKEY, RESERVED, QPN, ACK_REQ, PSN = BTH, BTH + 1, BTH + 2, BTH + 4, BTH + 5, \
    BTH + 8, BTH + 9
DMA_LEN, ATOMIC_VA, SYNDROME, MSN, QKEY = EXTENDED + 12, EXTENDED, EXTENDED, EXTENDED + 1, EXTENDED
MAD_RESPONDER_RESOURCES, MAD_STARTING_PSN = 0x79, 0x82
FIRST, MIDDLE, LAST = 0, 1, 2  # of SEND
READ_REQUEST, RESP_FIRST, RESP_MIDDLE, RESP_LAST, RESP_ONLY, ACK = 12, 13, 14, 15, 16, 17


class Frame:
    """One Ethernet frame with IPv4 and RoCEv2; what is changed gets a right ICRC."""

    def __init__(self, time, data):
        self.time, self.data = time, bytearray(data)

    def copy(self, after_ns=1000):
        return Frame(self.time + after_ns, self.data)

    @property
    def opcode(self):
        return self.data[OPCODE]

    @property
    def psn(self):
        return int.from_bytes(self.data[PSN:PSN + 3], "big")

    def put(self, at, data):
        self.data[at:at + len(data)] = data
        return self.sign()

    def put_psn(self, psn):
        return self.put(PSN, (psn & 0xffffff).to_bytes(3, "big"))

    def put_bits(self, at, bits):
        return self.put(at, bytes([self.data[at] | bits]))

    def resize(self, payload_len, headers_len=12):
        """Another payload length, a multiple of 4."""
        body = self.data[:BTH + headers_len] + bytes(payload_len)
        body[FLAGS] &= 0xcf
        struct.pack_into(">H", body, IP + 2, len(body) - IP + 4)
        struct.pack_into(">H", body, UDP + 4, len(body) - UDP + 4)
        self.data = body + bytes(4)
        return self.sign()

    def sign(self):
        self.data[-4:] = packets.icrc(bytes(self.data[IP:-4]), 20)
        return self


class Capture:
    def __init__(self, name):
        path = os.path.join(CAPTURES, name + ".pcap")
        self.frames = [Frame(time, data) for time, data in packets.read_pcap(path)]

    def all(self, opcode):
        return [f for f in self.frames if f.opcode == opcode]

    def insert_behind(self, frame, *new):
        at = self.frames.index(frame) + 1
        self.frames[at:at] = new
        return self

    def bytes(self):
        return packets.pcap_timed([(f.time, f.data) for f in self.frames])


def cnp(like, payload):
    """A CNP on the way of a packet."""
    frame = like.copy()
    frame.put(OPCODE, bytes([0x81]))
    frame.data[RESERVED] = 0x40
    frame.data[ACK_REQ] = 0
    frame.put_psn(0)
    frame.data = frame.data[:EXTENDED] + bytes(20)
    frame.resize(16)
    return frame.put(EXTENDED, payload)


PLANTED = {}


def planted(*expected, capture="perf_send_bw_1024", options=()):
    """Registers a function that spoils a capture; it may return other bytes instead."""
    def register(function):
        PLANTED[function.__name__] = (function, set(expected), capture, options)
        return function
    return register


@planted("OPCODE_SEQUENCE")
def first_within_a_message(c):
    c.all(MIDDLE)[4].put(OPCODE, bytes([FIRST]))


@planted("OPCODE_SEQUENCE")
def middle_of_another_kind(c):
    c.all(MIDDLE)[4].put(OPCODE, b"\x07")


@planted("MESSAGE_LENGTH", capture="perf_write_bw_1024")
def reth_says_less_than_comes(c):
    c.all(6)[2].put(DMA_LEN, struct.pack(">I", 1400))


@planted("MESSAGE_LENGTH", capture="perf_write_bw_1024")
def reth_says_more_than_comes(c):
    c.all(6)[2].put(DMA_LEN, struct.pack(">I", 1600))


@planted("PAYLOAD_NOT_MTU")
def short_first(c):
    c.all(FIRST)[3].resize(1020)


@planted("PAYLOAD_OVER_MTU")
def long_last(c):
    c.all(LAST)[2].resize(1100)


@planted("PAYLOAD_EMPTY")
def empty_last(c):
    c.all(LAST)[2].resize(0)


@planted("PSN_OUT_OF_WINDOW")
def stray_psn(c):
    frame = c.all(MIDDLE)[5]
    c.insert_behind(frame, frame.copy().put_psn(frame.psn + 0x400000))


@planted("FIRST_PSN", capture="cm_rping")
def another_starting_psn_than_agreed(c):
    c.frames[0].put_bits(MAD_STARTING_PSN, 0x30)


@planted("ACK_OF_UNSENT", capture="perf_send_lat")
def ack_of_the_next_message(c):
    first = c.all(ACK)[0]
    c.insert_behind(first, first.copy().put_psn(first.psn + 1))


@planted("NAK_OF_UNSENT", capture="perf_send_lat")
def nak_of_the_next_message(c):
    first = c.all(ACK)[0]
    c.insert_behind(first, first.copy().put_psn(first.psn + 1).put(SYNDROME, b"\x62"))


@planted("MSN_WENT_BACK")
def msn_goes_back(c):
    ack = c.all(ACK)[6]
    ack.put(MSN, (int.from_bytes(ack.data[MSN:MSN + 3], "big") - 3).to_bytes(3, "big"))


@planted("MSN_AHEAD")
def msn_runs_away(c):
    c.all(ACK)[6].put(MSN, (200).to_bytes(3, "big"))


@planted("RESERVED_SYNDROME")
def nak_code_that_does_not_exist(c):
    ack = c.all(ACK)[3]
    c.insert_behind(ack, ack.copy().put(SYNDROME, b"\x65"))


@planted("RESERVED_SYNDROME")
def syndrome_of_no_kind(c):
    ack = c.all(ACK)[3]
    c.insert_behind(ack, ack.copy().put(SYNDROME, b"\x41"))


@planted("RESERVED_BITS")
def reserved_bits_of_the_bth(c):
    c.all(MIDDLE)[3].put_bits(ACK_REQ, 0x10)


@planted("RESERVED_BITS")
def reserved_bit_of_the_aeth(c):
    c.all(ACK)[3].put_bits(SYNDROME, 0x80)


@planted("SOLICITED_MISPLACED")
def solicited_first(c):
    c.all(FIRST)[3].put_bits(FLAGS, 0x80)


@planted("RESPONSE_UNASKED", capture="perf_write_bw_1024")
def read_response_to_a_write(c):
    ack = c.all(ACK)[3]
    c.frames[c.frames.index(ack):c.frames.index(ack)] = [ack.copy(-1000).put(OPCODE, b"\x10")]


@planted("RESPONSE_SEQUENCE", capture="perf_read_bw_1024")
def only_in_place_of_first(c):
    c.all(RESP_FIRST)[4].put(OPCODE, bytes([RESP_ONLY]))


@planted("RESPONSE_LENGTH", capture="perf_read_bw_1024")
def short_last_response(c):
    last = c.all(RESP_LAST)[4]
    aeth = bytes(last.data[EXTENDED:EXTENDED + 4])
    last.resize(900, 16).put(EXTENDED, aeth)


@planted("RNR", "RNR_WAIT_CUT_SHORT", capture="err_rnr_write_imm")
def impatience_after_an_rnr_nak(c):
    # It waits 16 ms each time where 10.24 ms are asked for.
    for i, frame in enumerate(c.frames[10:14], 1):
        frame.time -= 8 * 10**6 * ((i + 1) // 2)
    for frame in c.frames[14:]:
        frame.time -= 16 * 10**6


@planted("RNR", capture="err_rnr_write_imm")
def an_rnr_nak_that_was_lost_further_on(c):
    for frame in c.frames[10:]:
        frame.time -= 8 * 10**6


@planted("READS_OVER_DEPTH", capture="cm_rping")
def more_reads_than_agreed(c):
    c.frames[0].put(MAD_RESPONDER_RESOURCES, b"\0")


@planted("ATOMIC_UNALIGNED", capture="perf_atomic_bw")
def unaligned_atomic(c):
    c.frames[3].put_bits(ATOMIC_VA + 7, 4)


@planted("DMA_LENGTH_OVER", "MESSAGE_LENGTH", capture="perf_write_bw_1024")
def dma_length_above_two_gigabytes(c):
    c.all(6)[2].put(DMA_LEN, struct.pack(">I", 0x80000001))


@planted("PKEY_CHANGED")
def another_partition(c):
    c.all(MIDDLE)[3].put(PKEY, b"\x80\x01")


@planted("SERVICE_CHANGED")
def uc_packet_among_rc(c):
    frame = c.all(MIDDLE)[3]
    c.insert_behind(frame, frame.copy().put_bits(OPCODE, 0x20))


@planted("GSI_QKEY", capture="cm_rping")
def wrong_qkey_to_qp1(c):
    c.frames[0].put(QKEY, struct.pack(">I", 0x11111111))


@planted("CNP", "CNP_PAYLOAD")
def cnp_with_content(c):
    ack = c.all(ACK)[3]
    c.insert_behind(ack, cnp(ack, b"hello, congested"))


@planted("ICRC_BAD")
def damaged_payload(c):
    frame = c.all(MIDDLE)[3].copy()
    frame.data[EXTENDED + 100] ^= 1
    c.insert_behind(c.all(MIDDLE)[3], frame)


@planted("MALFORMED")
def transport_version_one(c):
    frame = c.all(MIDDLE)[3]
    c.insert_behind(frame, frame.copy().put_bits(FLAGS, 1))


@planted("FRAGMENTED")
def ip_fragment(c):
    frame = c.all(MIDDLE)[3]
    c.insert_behind(frame, frame.copy().put(IP + 6, b"\x20"))


@planted("REORDERED")
def two_packets_swapped(c):
    a, b = c.all(MIDDLE)[6:8]
    a.data, b.data = b.data, a.data


@planted("DUPLICATE")
def one_packet_twice(c):
    frame = c.all(MIDDLE)[6]
    c.insert_behind(frame, frame.copy())


@planted("UC_LOST", capture="perf_send_bw_uc")
def unreliable_packet_lost(c):
    c.frames.remove(c.frames[12])


@planted("MARKED", "MARKS_UNANSWERED")
def marks_that_nobody_answers(c):
    for frame in c.all(MIDDLE)[3:9]:
        frame.put_bits(IP + 1, 3)


@planted("MARKED", "CNP")
def marks_with_their_cnps(c):
    for frame in c.all(MIDDLE)[3:9]:
        frame.put_bits(IP + 1, 3)
    for ack in c.all(ACK)[2:4]:
        c.insert_behind(ack, cnp(ack, bytes(16)))


@planted("PACKETS_MISSED")
def the_capture_missed_a_request(c):
    c.frames.remove(c.all(MIDDLE)[6])


@planted("RESPONSES_MISSED", capture="perf_read_bw_1024")
def the_capture_missed_a_response(c):
    c.frames.remove(c.all(RESP_MIDDLE)[6])


@planted("ONE_DIRECTION")
def requests_only(c):
    c.frames = [f for f in c.frames if f.opcode != ACK]


@planted("ONE_DIRECTION")
def responses_only(c):
    c.frames = c.all(ACK)


@planted("UNPAIRED")
def two_connections_in_step(c):
    # Another pair of queue pairs does the same with the same PSNs at the same time.
    twins = [f.copy(300).put(QPN + 2, bytes([f.data[QPN + 2] + 1])) for f in c.frames]
    c.frames = [f for pair in zip(c.frames, twins) for f in pair]


@planted("SNAPPED")
def snap_length(c):
    return packets.pcap_timed([(f.time, f.data[:96], len(f.data)) for f in c.frames])


@planted("ICRC_UNSET")
def icrcs_not_filled_in(c):
    for frame in c.frames:
        frame.data[-4:] = bytes(4)


@planted("GIANT_FRAME", "PACKETS_MISSED")
def merged_by_an_adapter(c):
    first, second = c.all(MIDDLE)[6:8]
    c.frames.remove(second)
    first.resize(2048)
    first.data[-1] ^= 0xff


@planted("OFFLOADED", capture="perf_write_bw_1024")
def awaits_segmentation(c):
    # Two messages of 1500 bytes, of equal packets.
    cut = []
    for i, frame in enumerate(c.all(6)[:1] + [f.copy() for f in c.all(6)[:1]]):
        frame.put(OPCODE, b"\x0a").resize(1024, 28).put(DMA_LEN, struct.pack(">I", 1024))
        frame.put_psn(5000 + i).put(IP + 4, struct.pack(">H", i))
        cut.append(bytes(frame.data[BTH:]))
    head = bytearray(c.frames[0].data[:BTH])
    struct.pack_into(">H", head, IP + 2, 28 + sum(map(len, cut)))
    struct.pack_into(">H", head, IP + 4, 0)
    struct.pack_into(">H", head, UDP + 4, 8 + sum(map(len, cut)))
    return packets.pcap_timed([(c.frames[0].time, bytes(head) + b"".join(cut))])


@planted("TIME_WENT_BACK")
def clock_set_back(c):
    for frame in c.frames[20:]:
        frame.time -= 2 * 10**5


@planted("DUPLICATE", "CAPTURED_TWICE")
def taken_on_two_interfaces(c):
    c.frames = [f for frame in c.frames for f in (frame, frame.copy(300))]


@planted("NOT_FOLLOWED", capture="srq_pingpong", options=("--flows", "2"))
def too_many_connections(c):
    pass


@planted("PSN_RESTARTED")
def number_used_again(c):
    again = [f.copy(10**9).put_psn(f.psn + 0x300000) for f in c.frames]
    c.frames += again


@planted("RETRANSMIT_NAK")
def sent_again_after_a_nak(c):
    # The packet is lost before the capture; what follows it comes too early.
    lost = c.all(MIDDLE)[0]
    at = c.frames.index(lost)
    behind = c.frames[at:5]
    nak = c.all(ACK)[0].copy().put(SYNDROME, b"\x60").put_psn(lost.psn)
    nak.time = c.frames[4].time + 1000
    nak.put(MSN, b"\0\0\0")
    again = [f.copy() for f in behind]
    for i, frame in enumerate(again):
        frame.time = nak.time + 1000 * (i + 1)
    c.frames = c.frames[:at] + c.frames[at + 1:5] + [nak] + again + c.frames[5:]


@planted("RETRANSMIT_TIMEOUT")
def sent_again_after_a_silence(c):
    message = c.frames[:5]
    c.frames = message + [f.copy(10**8) for f in message] + \
        [Frame(f.time + 2 * 10**8, f.data) for f in c.frames[5:]]


@planted("DUPLICATE", "RETRANSMIT_UNEXPLAINED")
def sent_again_for_no_reason_to_be_seen(c):
    last = c.all(LAST)[1]
    at = c.frames.index(last)
    again = [f.copy() for f in c.frames[at - 4:at + 1]]
    for i, frame in enumerate(again):
        frame.time = last.time + 100 * (i + 1)
    c.insert_behind(last, *again)


@planted("RETRANSMIT_IMPLIED", capture="perf_read_bw_1024")
def read_again_for_a_missing_response(c):
    read = c.all(READ_REQUEST)[9]
    at = next(i for i, f in enumerate(c.frames) if f.opcode == RESP_FIRST and f.psn == read.psn)
    answer = c.frames[at:at + 5]
    again = [read.copy()] + [f.copy() for f in answer]
    for i, frame in enumerate(again):
        frame.time = answer[-1].time + 10000 * (i + 1)
    c.frames = c.frames[:at + 2] + c.frames[at + 3:at + 5] + again


@planted("CREDITS_ZERO")
def no_credits(c):
    c.all(ACK)[3].put(SYNDROME, b"\0")


# What the README says of captures with real faults in them.
REAL = {
    "cm_rej_no_listener": {"CM_REJECTED"},
    "cm_rej_no_listener_ip6": {"CM_REJECTED"},
    "cm_timeout": {"CM_REJECTED", "CM_UNANSWERED"},
    "err_access_batch": {"NAK_REMOTE_ACCESS"},
    "err_access_cas": {"NAK_REMOTE_ACCESS"},
    "err_access_cas_perm": {"NAK_REMOTE_ACCESS"},
    "err_access_read": {"NAK_REMOTE_ACCESS"},
    "err_access_read_oob": {"NAK_REMOTE_ACCESS"},
    "err_access_read_perm": {"NAK_REMOTE_ACCESS"},
    "err_access_write": {"NAK_REMOTE_ACCESS"},
    "err_access_write_multi": {"NAK_REMOTE_ACCESS"},
    "err_access_write_oob": {"NAK_REMOTE_ACCESS"},
    "err_access_write_perm": {"NAK_REMOTE_ACCESS"},
    "err_gone": {"RETRIES_EXHAUSTED", "RETRANSMIT_TIMEOUT"},
    "err_inv_request_mtu": {"NAK_INVALID_REQUEST"},
    "err_rnr": {"RNR"},
    "err_rnr_exceeded": {"RNR", "RNR_UNRESOLVED"},
    "err_rnr_write_imm": {"RNR"},
    "err_send_too_long": {"NAK_REMOTE_OPERATIONAL"},
    "err_send_too_long_middle": {"NAK_REMOTE_OPERATIONAL"},
    "err_send_too_long_only": {"NAK_REMOTE_OPERATIONAL"},
    "loss_ack": {"ANSWER_LOST"},
    "loss_ack_send": {"ANSWER_LOST"},
    "loss_atomic": {"ANSWER_LOST"},
    "loss_both_ways": {"ANSWER_LOST", "RETRANSMIT_NAK", "RETRANSMIT_TIMEOUT"},
    "loss_cas": {"ANSWER_LOST"},
    "loss_read_first": {"ANSWER_LOST"},
    "loss_read_last": {"ANSWER_LOST"},
    "loss_read_middle": {"ANSWER_LOST"},
    "loss_read_only": {"ANSWER_LOST"},
    "loss_read_request": {"RETRANSMIT_NAK"},
    # Random loss and reordering; its first packet is missing, and with it the reason of the
    # first going back.
    "loss_reorder": {"ANSWER_LOST", "RETRANSMIT_NAK", "RETRANSMIT_TIMEOUT",
                     "RETRANSMIT_UNEXPLAINED", "DUPLICATE"},
    "loss_retry_exceeded": {"RETRIES_EXHAUSTED", "ANSWER_LOST"},
    "loss_send_only_batch": {"RETRANSMIT_NAK"},
    "loss_uc": set(),  # lost behind the place of the capture, and nobody repeats
    "loss_write_last": {"RETRANSMIT_TIMEOUT"},
    "loss_write_middle": {"RETRANSMIT_NAK"},
    "loss_write_only_batch": {"RETRANSMIT_NAK"},
}


class Page(html.parser.HTMLParser):
    """Notes what is open, and whatever would make a browser fetch something."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.titles, self.bars = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.bars += tag == "rect"
        self.fetched += [name for name, _ in attrs if name in ("src", "href", "xlink:href", "action")]
        self.fetched += [tag] * (tag in ("script", "link", "iframe", "img", "object", "embed"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if "t" in self.open or self.open[-1:] == ["text"]:
            self.titles.append(data)
        assert "url(" not in data and "@import" not in data, data


def live():
    """In a network namespace of its own: what is sent on lo is captured."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    uroce = subprocess.Popen([UROCE, "pcap", "-i", "lo", "-c", "3", "--packets", "--json", "-n"],
                             stdout=subprocess.PIPE)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while uroce.poll() is None:  # it is not known when it begins to listen
        sender.sendto(packets.send_only()[42:], ("127.0.0.1", 4791))
        time.sleep(0.02)
    lines = uroce.stdout.read().decode().splitlines()
    assert len(lines) == 3 and all("RC_SEND_ONLY" in line for line in lines), lines


class Faults(unittest.TestCase):
    def setUp(self):
        self.uroce = packets.Uroce(UROCE)

    def test_each_planted_fault_is_found_by_its_name_and_nothing_else(self):
        self.assertGreaterEqual(len(set().union(*(row[1] for row in PLANTED.values()))), 25)
        for name, (spoil, expected, base, options) in PLANTED.items():
            with self.subTest(fault=name):
                capture = Capture(base)
                data = spoil(capture) or capture.bytes()
                self.assertEqual(expected, set(self.uroce.findings(data, *options)))

    def test_each_real_fault_is_found_and_each_clean_capture_is_clean(self):
        for path in sorted(glob.glob(os.path.join(CAPTURES, "*.pcap"))):
            name = os.path.basename(path)[:-5]
            with self.subTest(capture=name), open(path, "rb") as f:
                data = f.read()
                self.assertEqual(REAL.get(name, set()), set(self.uroce.findings(data)))
                alarm = bool(REAL.get(name))
                self.assertEqual(alarm, self.uroce.diagnosis(data)["alarm"])
                self.assertEqual(not alarm, "Nothing is wrong." in self.uroce.text(data))

    def test_the_document_lists_all_findings_in_their_words(self):
        root = os.path.join(CAPTURES, "..", "..", "..")
        with open(os.path.join(root, "src", "pcap", "finding.h"), encoding="utf-8") as f:
            header = f.read()
        classes = dict(re.findall(r'C\((\w+),\s+\w+,\s+"(\w+)"\)', header))
        rows = re.findall(r'F\((\w+),\s+(\w+),\s+"(.*?)",\s*\\\n\s+"(.*?)"\)', header)
        self.assertEqual(header.count("\n    F("), len(rows))
        with open(os.path.join(root, "docs", "captures.md"), encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if re.match(r"\| [A-Z_]+ \|", line)]
        self.assertEqual(["| %s | %s | %s | %s |" % (name, classes[kind], text, meaning)
                          for name, kind, text, meaning in rows], lines)

    def test_a_file_that_is_cut_says_so(self):
        done = self.uroce.run(Capture("perf_send_bw_1024").bytes()[:-10])
        self.assertIn(b"the file ends within a packet", done.stdout)

    def test_messages_and_bytes_are_those_of_the_programs(self):
        # README: ib_send_bw -n 10 -s 5000, ib_read_bw -n 10 -s 5000, ib_atomic_bw -n 10.
        for name, operation, size in (("perf_send_bw_1024", "SEND", 5000),
                                      ("perf_read_bw_1024", "READ", 5000),
                                      ("perf_write_bw_1024", "WRITE", 1500),
                                      ("perf_send_bw_uc", "SEND", 5000),
                                      ("perf_send_bw_ud", "SEND", 1000),
                                      ("perf_atomic_bw", "ATOMIC", 8)):
            with self.subTest(capture=name):
                there = self.uroce.connections(Capture(name).bytes())[0]
                self.assertEqual({operation: {"messages": 10, "bytes": 10 * size}},
                                 there["operations"])

    def test_latency_is_from_the_first_packet_to_the_answer(self):
        capture = Capture("perf_send_lat")
        lines = self.uroce.text(capture.bytes(), "--messages", "--json").splitlines()
        self.assertEqual(10, len(lines))
        sends = [f for f in capture.frames if f.opcode == 4]
        for line, send, ack in zip(lines, sends, capture.all(ACK)):
            self.assertIn('"latency_ns":%d' % (ack.time - send.time), line)

    def test_lost_time_is_the_silence_of_a_time_out(self):
        capture = Capture("perf_send_bw_1024")
        sent_again_after_a_silence(capture)
        row = self.uroce.findings(capture.bytes())["RETRANSMIT_TIMEOUT"]
        self.assertEqual((1, 5), (row["count"], row["packets"]))
        self.assertAlmostEqual(10**8, row["lost_ns"], delta=10**7)

    def test_cnp_spacing_is_told(self):
        capture = Capture("perf_send_bw_1024")
        marks_with_their_cnps(capture)
        times = [f.time for f in capture.frames if f.opcode == 0x81]
        back = [c for c in self.uroce.connections(capture.bytes()) if c["cnps"] > 0]
        self.assertEqual([times[1] - times[0]], [c["cnp_gap_min_ns"] for c in back])

    def test_a_ladder_shows_what_was_found_where(self):
        with open(os.path.join(CAPTURES, "loss_write_middle.pcap"), "rb") as f:
            lines = self.uroce.text(f.read(), "--ladder", "0x11").splitlines()
        nak = next(i for i, line in enumerate(lines) if "NAK PSN sequence 11527487" in line)
        self.assertIn("|<--", lines[nak])
        again = [line for line in lines[nak:] if "WRITE_MIDDLE 11527487" in line]
        self.assertIn("->|  RETRANSMIT_NAK", again[0])

    def test_the_page_is_whole_and_needs_nothing_else(self):
        capture = Capture("perf_send_bw_1024")
        marks_with_their_cnps(capture)
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("marks", capture.bytes()), ("nothing", packets.pcap([]))):
                path = os.path.join(folder, "<&'\".html")
                self.uroce.text(data, "--html", path)
                page = Page()
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                page.feed(text)
                page.close()
                with self.subTest(page=name):
                    self.assertEqual(([], []), (page.open, page.fetched))
                    self.assertEqual(name == "marks", page.bars > 10)

    def test_a_page_does_not_tell_where_the_capture_was(self):
        with tempfile.TemporaryDirectory() as folder:
            capture, page = (os.path.join(folder, name) for name in ("a.pcap", "a.html"))
            with open(capture, "wb") as f:
                f.write(packets.pcap([]))
            subprocess.run([UROCE, "pcap", "--html", page, capture], check=True, stdout=subprocess.DEVNULL)
            with open(page, encoding="utf-8") as f:
                text = f.read()
            self.assertIn("<h1>a.pcap</h1>", text)
            self.assertNotIn(os.path.basename(folder), text)

    def test_a_page_that_cannot_be_written_is_told_by_its_name_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            capture = os.path.join(folder, "a.pcap")
            with open(capture, "wb") as f:
                f.write(packets.pcap([]))
            for page in ("/nonexistent/page.html", "/dev/full", folder, capture):
                done = subprocess.run([UROCE, "pcap", "--html", page, capture],
                                      capture_output=True, text=True)
                with self.subTest(page=page):
                    self.assertEqual(2, done.returncode)
                    self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
                    self.assertIn(page, done.stderr)
                    if page != "/dev/full": # which is not full before it is written to
                        self.assertEqual("", done.stdout)
            with open(capture, "rb") as f:
                self.assertEqual(packets.pcap([]), f.read())

    def test_an_interface_is_looked_at_live(self):
        if os.environ.get("LD_PRELOAD"):
            self.skipTest("unshare does not run with a preloaded library")
        words = [sys.executable, os.path.abspath(__file__), UROCE, CAPTURES, "--live"]
        new = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run(new + ["true"], capture_output=True).returncode != 0:
            self.skipTest("no network namespace may be made here")
        done = subprocess.run(new + words, capture_output=True, timeout=60)
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    def test_filters_limit_what_is_shown(self):
        with open(os.path.join(CAPTURES, "err_rnr.pcap"), "rb") as f:
            data = f.read()
        for terms, count in (("rnr", 14), ("nak", 28), ("opcode=SEND_LAST", 15),
                             ("src host 10.77.0.3 and nak", 28), ("src host 10.77.0.2 and nak", 0),
                             ("qp=0x58 and frame=1-3", 3), ("repeat and opcode=SEND_FIRST", 14)):
            with self.subTest(filter=terms):
                self.assertEqual(count, len(self.uroce.text(data, "-n", "-F", terms).splitlines()))
        self.assertEqual(2, self.uroce.run(data, "-F", "qp=banana").returncode)
        done = self.uroce.run(data, "-F", "host and and")
        self.assertEqual((2, 1), (done.returncode, len(done.stderr.splitlines())))
        # Who knows libpcap's grammar tries it with our terms, too.
        self.assertIn(b"by 'and' only", self.uroce.run(data, "-F", "not nak").stderr)
        done = self.uroce.run(data, "-F", "opcode=send")
        self.assertEqual(2, done.returncode)
        self.assertIn(b"'opcode=send' should be like opcode=RC_WRITE_*+ACK", done.stderr)

    def test_views_exclude_each_other(self):
        for words in (["-C", "-m"], ["-p", "-s"], ["-l", "x", "a"], ["-l", "5", "-j"], ["-i", "lo",
                                                                                       "a"]):
            done = subprocess.run([UROCE, "pcap", *words, "a"], capture_output=True)
            self.assertEqual(2, done.returncode, words)

    def test_an_interface_that_is_none_is_refused(self):
        done = subprocess.run([UROCE, "pcap", "-i", "no-such-one"], capture_output=True)
        self.assertEqual(2, done.returncode)
        self.assertEqual(1, len(done.stderr.splitlines()))


if __name__ == "__main__":
    UROCE, CAPTURES = sys.argv[1:3]
    if sys.argv[3:] == ["--live"]:
        sys.exit(live())
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
