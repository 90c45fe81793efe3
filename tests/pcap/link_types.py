#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The vectors of real adapters in every link type and file format.

usage: link_types.py UROCE CAPTURES

What each vector must decode to is written in vectors.md, from which the rows
below are taken.
"""
import os
import struct
import sys
import unittest

import packets

# name: opcode, destination QP, PSN, what else the text says
EXPECTED = {
    "V1": ("UC_SEND_ONLY", 211, 0xcf1710, {"bth.pad_count": 2, "bth.mig_req": True}),
    "V3": ("CNP", 0x118, 0, {"bth.becn": True, "ipv4.traffic_class": 48 << 2 | 2, "ipv4.ecn": 2,
                             "udp.src_port": 0}),
    "V4": ("RC_WRITE_ONLY", 0x10a, 0xa788bc,
           {"reth.va": "0x000055d4c0726000", "reth.rkey": 0x47b3, "reth.dma_len": 5,
            "payload_len": 5, "bth.pad_count": 3, "grh.dst": "15.0.0.2"}),
    "V5": ("RC_ACK", 0x109, 0xa788c0, {"aeth.syndrome": 0, "aeth.msn": 5, "aeth.name": "ACK"}),
    "V6": ("UC_SEND_ONLY", 211, 0xcf1710,
           {"ipv6.traffic_class": 0xe2, "ipv6.flow_label": 0x1face}),
    "V7": ("RC_SEND_ONLY_IMM", 0x48, 0,
           {"bth.pad_count": 3, "udp.src_port": 69, "ipv4.ecn": 2, "ipv4.identification": 0}),
    "V8": ("RC_ACK", 0x45, 0, {"aeth.syndrome": 6, "aeth.msn": 1}),
    # The text calls V9 empty with immediate 1; its bytes, and tshark, say 4 bytes and immediate 0.
    "V9": ("RC_SEND_ONLY_IMM", 0x45, 0x42, {"imm": 0, "payload_len": 4}),
    "V10": ("RC_SEND_LAST_IMM", 0x45, 0x41, {"bth.pad_count": 3, "payload_len": 473}),
}


def look_up(packet, path):
    for key in path.split("."):
        packet = packet[key]
    return packet


class LinkTypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.uroce = packets.Uroce(UROCE)
        cls.vectors = packets.read_vectors(os.path.join(CAPTURES, "vectors.md"))

    def expect(self, name, packet):
        opcode, qpn, psn, more = EXPECTED[name]
        self.assertEqual("PACKET", packet["verdict"])
        self.assertEqual("GOOD", packet["icrc"]["verdict"])
        self.assertEqual((opcode, qpn, psn), tuple(packet["bth"][k] for k in
                                                   ("name", "dest_qpn", "psn")))
        for path, value in more.items():
            self.assertEqual(value, look_up(packet, path), path)

    def test_each_vector_decodes_as_described_in_each_link_type(self):
        for name in EXPECTED:
            network, ethertype = packets.network_of(self.vectors[name])
            for carrier, link, build in packets.carriers_of(ethertype):
                with self.subTest(vector=name, carrier=carrier):
                    capture = packets.pcap([build(network, ethertype)], link)
                    self.expect(name, self.uroce.packets(capture)[0])

    def test_each_vector_decodes_as_described_in_each_file_format(self):
        frames = [self.vectors[name] for name in EXPECTED]
        files = {
            "pcap": packets.pcap(frames),
            "pcap, big-endian": packets.pcap(frames, order=">"),
            "pcap, nanoseconds": packets.pcap(frames, nanoseconds=True),
            "pcapng": packets.pcapng(frames),
        }
        for form, capture in files.items():
            for i, (name, packet) in enumerate(zip(EXPECTED, self.uroce.packets(capture))):
                with self.subTest(file=form, vector=name):
                    self.expect(name, packet)
                    self.assertEqual(i * 10**6, packet["elapsed_ns"])
                    self.assertEqual(1000 * 10**9 + i * 10**6, packet["time_ns"])

    def test_vlan_tags_are_shown(self):
        network = packets.network_of(self.vectors["V1"])
        for carrier, vlans in (("802.1Q", [5]), ("QinQ", [7, 5])):
            build = next(build for name, _, build in packets.CARRIERS if name == carrier)
            capture = packets.pcap([build(*network)])
            self.assertEqual(vlans, self.uroce.packets(capture)[0]["vlans"])
            self.assertIn("".join(" vlan %d" % v for v in vlans), self.uroce.text(capture, "-n"))

    def test_the_negative_vector_is_reported_with_what_its_icrc_should_be(self):
        frame = bytes(12) + b"\x08\0" + self.vectors["V2"][14:]
        frame = frame[:-4] + bytes.fromhex("e42dad81")
        packet = self.uroce.packets(packets.pcap([frame]))[0]
        self.assertEqual({"verdict": "BAD", "found": "0xe42dad81", "expected": "0xdafc1bef"},
                         packet["icrc"])
        self.assertEqual("CNP", packet["bth"]["name"])

    def test_ip_options_and_extension_headers_are_passed_over(self):
        body = packets.bth(0x04, 7) + b"data"
        udp = packets.udp_header(len(body) + 4)
        hop_by_hop = bytes([60, 0, 1, 4, 0, 0, 0, 0])
        destination = bytes([17, 1, 1, 12]) + bytes(12)
        for head in (packets.ipv4_header(len(udp + body) + 4, options=b"\1" * 8),
                     packets.ipv6_header(24 + len(udp + body) + 4, 0) + hop_by_hop +
                     destination):
            with self.subTest(version=head[0] >> 4):
                network = head + udp + body
                network += packets.icrc(network, len(head))
                packet = self.uroce.packets(packets.pcap([packets.ethernet(network)]))[0]
                self.assertEqual("GOOD", packet["icrc"]["verdict"])
                self.assertEqual(7, packet["bth"]["psn"])

    def test_headers_that_no_capture_has_are_read_and_shown(self):
        key = struct.pack(">QII", 0x7f0000001000, 0x1234, 8)
        cases = [
            # XRC SEND ONLY, RC FLUSH and ATOMIC WRITE (IBA 1.5), UD with immediate
            (0xa4, struct.pack(">I", 0x77) + b"data", "xrceth", {"srqn": 0x77}, "srq 0x000077"),
            (0x1c, struct.pack(">I", 0x21) + key, "feth", {"placement_type": 1, "selectivity": 2},
             "placement 1 selectivity 2"),
            (0x1d, key + bytes(8), "reth",
             {"va": "0x00007f0000001000", "rkey": 0x1234, "dma_len": 8}, "dmalen 8"),
            (0x65, struct.pack(">III", 0x11, 0x22, 0x33), "deth", {"qkey": 0x11, "src_qpn": 0x22},
             "from qp 0x000022 qkey 0x00000011 imm 0x00000033"),
        ]
        for opcode, rest, header, fields, text in cases:
            with self.subTest(opcode=hex(opcode)):
                body = packets.bth(opcode, 7) + rest
                network = packets.ipv4_header(8 + len(body) + 4)
                network += packets.udp_header(len(body) + 4) + body
                frame = packets.ethernet(network + packets.icrc(network, 20))
                packet = self.uroce.packets(packets.pcap([frame]), "--strict")[0]
                self.assertEqual(fields, packet[header])
                self.assertIn(text, self.uroce.text(packets.pcap([frame]), "-n"))

    def test_an_unknown_link_type_is_refused_by_name(self):
        done = self.uroce.run(packets.pcap([b"x"], link=105))
        self.assertEqual(2, done.returncode)
        self.assertIn(b"link type IEEE802_11 (105) is not supported", done.stderr)


if __name__ == "__main__":
    UROCE, CAPTURES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
