#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures with something wrong in them are read on, and what is wrong is said.

usage: damage.py UROCE CAPTURES
"""
import glob
import os
import random
import signal
import struct
import subprocess
import sys
import unittest

import packets

DAMAGED = {"MALFORMED", "CUT_SHORT", "IP_VERSION", "IP_HEADER", "IP_CUT", "UDP_LEN", "FRAGMENT",
           "GRH_NEXT"}
FOREIGN = {"NOT_IP", "NOT_UDP", "OTHER_PORT", "LATER_FRAGMENT"}


def verdicts(decoded):
    return [packet["verdict"] for packet in decoded]


class Damage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.uroce = packets.Uroce(UROCE)
        cls.write_only = next(
            frame for _, frame in packets.read_pcap(os.path.join(CAPTURES, "ops_rc_all_1024.pcap"))
            if frame[42] == 0x0a)

    def test_no_flipped_byte_under_the_icrc_goes_unnoticed(self):
        frame = self.write_only
        # A route may change these: they are not covered (and MAC addresses are not RoCE's).
        uncovered = set(range(12)) | {14 + 1, 14 + 8, 14 + 10, 14 + 11, 34 + 6, 34 + 7, 42 + 4}
        flipped = [frame[:i] + bytes([frame[i] ^ 0xff]) + frame[i + 1:] for i in range(len(frame))]
        decoded = self.uroce.packets(packets.pcap(flipped))
        for i, packet in enumerate(decoded):
            with self.subTest(byte=i):
                good = packet.get("icrc", {}).get("verdict") == "GOOD"
                self.assertEqual(i in uncovered, good)

    def test_a_snapped_packet_is_decoded_as_far_as_it_goes(self):
        frame = self.write_only
        snapped = [(frame[:n], len(frame)) for n in range(len(frame) + 1)]
        decoded = self.uroce.packets(packets.pcap(snapped), "--strict")
        headers_len = 42 + 12 + 16
        for n, packet in enumerate(decoded):
            with self.subTest(captured=n):
                self.assertEqual("PACKET" if n >= headers_len else "SNAPPED", packet["verdict"])
                self.assertEqual(n >= 42 + 12, "bth" in packet)
                if n == len(frame):
                    self.assertEqual("GOOD", packet["icrc"]["verdict"])
                elif n >= headers_len:
                    self.assertEqual("ABSENT", packet["icrc"]["verdict"])
                    self.assertEqual(decoded[-1]["reth"], packet["reth"])
                    self.assertEqual(decoded[-1]["payload_len"], packet["payload_len"])
        text = self.uroce.text(packets.pcap([(frame[:80], len(frame))]), "--verbose")
        self.assertIn("icrc not captured", text)
        self.assertIn("DMA length", text)

    def test_a_packet_that_ends_early_on_the_wire_is_damaged(self):
        frame = self.write_only
        decoded = self.uroce.packets(packets.pcap([frame[:n] for n in range(len(frame))]))
        for n, packet in enumerate(decoded):
            with self.subTest(length=n):
                self.assertIn(packet["verdict"], ("CUT_SHORT", "IP_CUT"))

    def test_each_kind_of_damage_has_its_name(self):
        good = packets.send_only()
        ip, udp, bth = 14, 34, 42

        def edit(offset, new, frame=good):
            return frame[:offset] + new + frame[offset + len(new):]

        cases = {
            "IP_VERSION": edit(ip, b"\x65"),
            "IP_HEADER": edit(ip, b"\x44"),
            "IP_CUT": edit(ip + 2, b"\x10\x00"),
            "UDP_LEN": edit(udp + 4, b"\0\7"),
            "FRAGMENT": edit(ip + 6, b"\x20\0"),
            "LATER_FRAGMENT": edit(ip + 6, b"\0\1"),
            "NOT_UDP": edit(ip + 9, b"\6"),
            "OTHER_PORT": edit(udp + 2, b"\0\x35"),
            "NOT_IP": edit(12, b"\x08\x06"),
            "GRH_NEXT": packets.ethernet(packets.ipv6_header(16, 59) + bytes(16), 0x8915),
            "UNKNOWN_OPCODE": edit(bth, b"\x1f"),
            "RD_UNSUPPORTED": edit(bth, b"\x44"),
            "BAD_VERSION": edit(bth + 1, b"\1"),
            "UNEXPECTED_PAYLOAD": edit(bth, b"\x11"),
            "TRUNCATED_HEADERS": edit(bth, b"\x14"),
        }
        decoded = self.uroce.packets(packets.pcap(list(cases.values()) + [good]))
        for name, packet in zip(cases, decoded):
            with self.subTest(case=name):
                self.assertEqual(name, packet.get("drop", packet["verdict"]))
                self.assertTrue(packet["why"])
        self.assertEqual("PACKET", decoded[-1]["verdict"])
        later = packets.ipv6_header(16, 44) + bytes([17, 0, 0, 8, 0, 0, 0, 1]) + bytes(8)
        first = packets.ipv6_header(8 + 8 + 16, 44) + bytes([17, 0, 0, 1, 0, 0, 0, 1]) + \
            packets.udp_header(16) + packets.bth(4, 9) + bytes(4)
        decoded = self.uroce.packets(packets.pcap([packets.ethernet(later),
                                                   packets.ethernet(first)]))
        self.assertEqual(["LATER_FRAGMENT", "FRAGMENT"], verdicts(decoded))
        self.assertEqual(9, decoded[1]["bth"]["psn"])

    def test_foreign_frames_are_counted_and_shown_only_when_asked_for(self):
        good = packets.send_only()
        arp = packets.ethernet(bytes(46), 0x0806)
        dns = packets.ethernet(packets.ipv4_header(20) + packets.udp_header(12, 53) + bytes(12))
        capture = packets.pcap([arp, good, dns, dns])
        text = self.uroce.text(capture, "--packets", "--strict")
        self.assertIn("4 frames in 0.003000 s: 1 RoCE packets, 0 damaged, 0 snapped, 3 foreign",
                      text)
        self.assertEqual(1, len(self.uroce.text(capture, "-n").splitlines()))
        self.assertEqual(4, len(self.uroce.text(capture, "-n", "-f").splitlines()))
        summary = self.uroce.summary(capture)
        self.assertEqual({"PACKET": 1, "NOT_IP": 1, "OTHER_PORT": 2}, summary["verdicts"])

    def test_an_icrc_of_zero_is_bad_unless_the_caller_knows_better(self):
        zero = packets.pcap([packets.send_only()[:-4] + bytes(4)])
        self.assertEqual("BAD", self.uroce.packets(zero)[0]["icrc"]["verdict"])
        self.assertEqual(1, self.uroce.run(zero, "--strict").returncode)
        self.assertEqual("UNSET",
                         self.uroce.packets(zero, "--icrc-unset-ok")[0]["icrc"]["verdict"])
        self.assertEqual(0, self.uroce.run(zero, "--strict", "--icrc-unset-ok").returncode)
        other = packets.pcap([packets.send_only()[:-4] + b"\0\0\0\1"])
        self.assertEqual("BAD", self.uroce.packets(other, "--icrc-unset-ok")[0]["icrc"]["verdict"])

    def test_strict_tells_by_the_exit_status(self):
        good = packets.send_only()
        cases = [
            ([good], 0),
            ([good, (good[:50], len(good))], 0),
            ([good, packets.ethernet(bytes(46), 0x0806)], 0),
            ([good, good[:-1] + b"\xff"], 1),
            ([good, good[:50]], 1),
        ]
        for frames, status in cases:
            capture = packets.pcap(frames)
            self.assertEqual(status, self.uroce.run(capture, "--strict").returncode)
            self.assertEqual(0, self.uroce.run(capture).returncode)

    def test_a_file_that_breaks_off_is_read_up_to_there(self):
        good = packets.send_only()
        whole = packets.pcap([good] * 3)
        one = 16 + len(good)
        for cut in range(24 + one, 24 + 2 * one + 1):
            done = self.uroce.run(whole[:cut], "--packets", "--json", "--strict")
            frames = (cut - 24) // one
            with self.subTest(length=cut):
                self.assertEqual(frames + 1, len(done.stdout.splitlines()))
                torn = (cut - 24) % one != 0
                self.assertEqual(1 if torn else 0, done.returncode)
                if torn:
                    self.assertIn(b"after frame %d: " % frames, done.stderr)
        self.assertEqual(0, self.uroce.run(whole[:100]).returncode)

    def test_what_is_no_capture_is_refused(self):
        for capture in (b"", b"\xd4\xc3\xb2", b"hello, this is not a capture at all\n" * 4):
            done = self.uroce.run(capture)
            self.assertEqual(2, done.returncode)
            self.assertEqual(b"", done.stdout)
            self.assertIn(b"uroce pcap: -: ", done.stderr)
        done = subprocess.run([UROCE, "pcap", "/nonexistent/file.pcap"], capture_output=True)
        self.assertEqual(2, done.returncode)
        self.assertIn(b"No such file or directory", done.stderr)

    def test_a_wrong_command_line_exits_with_2(self):
        for words in ([], ["a", "b"], ["--frobnicate", "a"], ["-c", "0", "a"], ["-c", "x", "a"],
                      ["--json", "--verbose", "a"]):
            done = subprocess.run([UROCE, "pcap", *words], capture_output=True)
            self.assertEqual(2, done.returncode, words)
            self.assertEqual(b"", done.stdout)

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        capture = packets.pcap([packets.send_only(i) for i in range(20000)])
        for ignored in (signal.SIG_DFL, signal.SIG_IGN):
            uroce = subprocess.Popen([UROCE, "pcap", "-p", "-"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     restore_signals=False,
                                     preexec_fn=lambda: signal.signal(signal.SIGPIPE, ignored))
            uroce.stdin.write(capture[:20000])
            uroce.stdin.flush()
            self.assertIn(b"RC_SEND_ONLY", uroce.stdout.readline())
            uroce.stdout.close()
            with self.assertRaises(BrokenPipeError):
                with uroce.stdin:
                    uroce.stdin.write(capture[20000:])
            with uroce.stderr:
                self.assertEqual(b"", uroce.stderr.read())
            self.assertEqual(-signal.SIGPIPE, uroce.wait(30))

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([UROCE, "pcap", "-"], input=packets.pcap([packets.send_only()]),
                                  stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(2, done.returncode)
        self.assertIn(b"No space left on device", done.stderr)

    def test_only_so_many_flows_are_listed_and_it_says_so(self):
        frames = []
        for qpn in range(5):
            body = packets.bth(0x04, qpn, qpn=0x100 + qpn) + b"abcd"
            network = packets.ipv4_header(8 + len(body) + 4) + packets.udp_header(len(body) + 4)
            frames.append(packets.ethernet(network + body + packets.icrc(network + body, 20)))
        summary = self.uroce.summary(packets.pcap(frames), "--flows", "3")
        self.assertEqual([0x100, 0x101, 0x102], [flow["dest_qpn"] for flow in summary["flows"]])
        self.assertEqual(2, summary["flows_overflow"]["packets"])
        self.assertIn("only the first 3 flows are listed",
                      self.uroce.text(packets.pcap(frames), "--summary", "--flows", "3"))

    def test_each_word_and_each_length_of_pcapng_blocks_may_be_a_lie(self):
        frame = packets.send_only()
        whole = packets.pcapng([frame, frame])
        headers_len = len(packets.pcapng([]))
        spoiled = [whole[:cut] for cut in range(len(whole))]
        for at in range(0, headers_len + 28, 4):
            for word in (0, 1, 7, 12, 0x7ffffffc, 0xffffffff, 0x0a0d0d0a, 0x1a2b3c4d):
                spoiled.append(whole[:at] + struct.pack("<I", word) + whole[at + 4:])
        for i, capture in enumerate(spoiled):
            done = self.uroce.run(capture)
            complaints = done.stderr.decode().splitlines()
            with self.subTest(case=i):
                self.assertIn(done.returncode, (0, 1, 2))
                self.assertLessEqual(len(complaints), 1)
                self.assertTrue(all(line.startswith("uroce pcap: -: ") for line in complaints))
                self.assertEqual(done.returncode == 2, done.stdout == b"" and complaints != [])

    def test_nothing_makes_it_crash(self):
        dice = random.Random(4791)
        files = []
        for path in sorted(glob.glob(os.path.join(CAPTURES, "*.pcap"))):
            with open(path, "rb") as f:
                files.append(f.read())
        modes = [["--verbose", "--foreign"], ["--packets", "--json", "--foreign"], ["--json"], [],
                 ["--connections"], ["--connections", "--json"], ["--messages"],
                 ["--messages", "--json"], ["--ladder", "17"]]
        for round_number in range(200):
            capture = bytearray(dice.choice(files)[:20000])
            for _ in range(dice.choice((1, 5, 50, 500))):
                capture[dice.randrange(len(capture))] = dice.randrange(256)
            if dice.random() < 0.5:
                link = dice.choice((0, 1, 101, 108, 113, 228, 229, 276))
                capture[:24] = packets.pcap([], link)
            done = self.uroce.run(bytes(capture), *dice.choice(modes))
            with self.subTest(round=round_number):
                self.assertIn(done.returncode, (0, 2), done.stderr)


class Segments(unittest.TestCase):
    """One long datagram that a kernel or an adapter would have cut, or has merged."""

    PAYLOAD = bytes(range(256)) * 4

    def setUp(self):
        self.uroce = packets.Uroce(UROCE)

    def cut(self, i, payload, first_identification):
        """Packet i as it would be on the wire, from its IP header on."""
        opcode = 0x06 if i == 0 else 0x07
        body = packets.bth(opcode, 100 + i) + (struct.pack(">QII", 1, 2, 3) if i == 0 else b"") + \
            payload
        network = packets.ipv4_header(8 + len(body) + 4, (first_identification + i) & 0xffff)
        network += packets.udp_header(len(body) + 4) + body
        return network + packets.icrc(network, 20)

    def joined(self, count, first_identification=0, last_len=None):
        # The first packet has a RETH, so its payload is shorter: segments are of one length.
        parts = [self.cut(0, self.PAYLOAD[:-16], first_identification)]
        parts += [self.cut(i, self.PAYLOAD, first_identification) for i in range(1, count)]
        if last_len is not None:
            parts[-1] = self.cut(count - 1, self.PAYLOAD[:last_len], first_identification)
        data = b"".join(part[28:] for part in parts)
        return packets.ethernet(packets.ipv4_header(8 + len(data), first_identification) +
                                packets.udp_header(len(data)) + data)

    def test_its_packets_are_shown_one_by_one(self):
        for first_identification in (0, 77, 0xffff):
            with self.subTest(identification=first_identification):
                frame = self.joined(6, first_identification, last_len=8)
                decoded = self.uroce.packets(packets.pcap([frame]), "--strict")
                self.assertEqual([1, 2, 3, 4, 5, 6], [p["segment"] for p in decoded])
                self.assertEqual([100 + i for i in range(6)], [p["bth"]["psn"] for p in decoded])
                self.assertEqual(["GOOD"] * 6, [p["icrc"]["verdict"] for p in decoded])
                self.assertEqual([1008, 1024, 1024, 1024, 1024, 8],
                                 [p["payload_len"] for p in decoded])
        text = self.uroce.text(packets.pcap([frame]), "--verbose")
        self.assertIn("1 frames in 0.000000 s: 6 RoCE packets", text)

    def test_damage_in_one_of_them_stays_there(self):
        frame = bytearray(self.joined(4))
        frame[42 + 1040 * 2 + 500] ^= 1
        decoded = self.uroce.packets(packets.pcap([bytes(frame)]))
        self.assertEqual(["GOOD", "GOOD", "BAD", "GOOD"], [p["icrc"]["verdict"] for p in decoded])

    def test_a_snapped_one_shows_what_was_captured(self):
        frame = self.joined(4)
        for captured in range(42, len(frame), 97):
            decoded = self.uroce.packets(packets.pcap([(frame[:captured], len(frame))]))
            with self.subTest(captured=captured):
                if captured < 42 + 1040 + 12:
                    self.assertEqual(1, len(decoded))
                else:
                    good = (captured - 42) // 1040
                    self.assertEqual(4, len(decoded))
                    self.assertEqual(["GOOD"] * good,
                                     [p["icrc"]["verdict"] for p in decoded[:good]])
                    for packet in decoded[good:]:
                        self.assertIn(packet["verdict"], ("PACKET", "SNAPPED"))


if __name__ == "__main__":
    UROCE, CAPTURES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
