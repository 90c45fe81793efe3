# SPDX-License-Identifier: BSD-2-Clause
"""Frames and capture files for the tests, made with Python's standard library only.

The ICRC is computed here from its definition (IBA 7.8.1, RoCEv2 annex A17), apart
from the code under test.
"""
import json
import re
import struct
import subprocess
import zlib

ETHERNET, NULL, RAW, LOOP, COOKED_V1, IPV4, IPV6, COOKED_V2 = 1, 0, 101, 108, 113, 228, 229, 276
MAC = bytes.fromhex("020000000001020000000002")


def read_pcap(path):
    """The frames of a little-endian Ethernet pcap, as (time in ns, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    magic, link = struct.unpack_from("<I16xI", data)
    assert magic in (0xa1b2c3d4, 0xa1b23c4d) and link == ETHERNET, path
    scale = 1000 if magic == 0xa1b2c3d4 else 1
    frames, at = [], 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        assert captured == wire, path
        frames.append((seconds * 10**9 + fraction * scale, data[at + 16:at + 16 + captured]))
        at += 16 + captured
    return frames


def pcap(frames, link=ETHERNET, order="<", nanoseconds=False):
    """A pcap file of frames: bytes, or (bytes, length on the wire)."""
    scale = 1 if nanoseconds else 1000
    magic = 0xa1b23c4d if nanoseconds else 0xa1b2c3d4
    out = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 262144, link)]
    for i, frame in enumerate(frames):
        frame, wire = frame if isinstance(frame, tuple) else (frame, len(frame))
        out += [struct.pack(order + "IIII", 1000, i * 1000000 // scale, len(frame), wire), frame]
    return b"".join(out)


def pcap_timed(frames):
    """A pcap file of Ethernet frames: (time in ns, bytes) or (time in ns, bytes, length on the wire)."""
    out = [struct.pack("<IHHIIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, ETHERNET)]
    for time, frame, *wire in frames:
        out += [struct.pack("<IIII", time // 10**9, time % 10**9, len(frame),
                            wire[0] if wire else len(frame)), bytes(frame)]
    return b"".join(out)


def pcapng(frames, link=ETHERNET):
    """A pcapng file with one interface and nanosecond times."""
    def block(kind, body):
        size = len(body) + 12
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

    out = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    out += block(1, struct.pack("<HHI", link, 0, 262144) + resolution)
    for i, frame in enumerate(frames):
        frame, wire = frame if isinstance(frame, tuple) else (frame, len(frame))
        time = 1000 * 10**9 + i * 10**6
        body = struct.pack("<IIIII", 0, time >> 32, time & 0xffffffff, len(frame), wire)
        out += block(6, body + frame + bytes(-len(frame) % 4))
    return out


def icrc(network, network_len, udp=True):
    """The trailer of a packet that begins at its IP header or GRH and lacks only the ICRC."""
    b = bytearray(network)
    if b[0] >> 4 == 4:
        b[1] = b[8] = b[10] = b[11] = 0xff
    else:
        b[0] |= 0x0f
        b[1] = b[2] = b[3] = b[7] = 0xff
    bth = network_len
    if udp:
        b[bth + 6] = b[bth + 7] = 0xff
        bth += 8
    b[bth + 4] = 0xff
    return struct.pack("<I", zlib.crc32(bytes(b), zlib.crc32(b"\xff" * 8)))


def ipv4_header(payload_len, identification=0, options=b"", fragment=0x4000, protocol=17):
    words = 5 + len(options) // 4
    return struct.pack(">BBHHHBBH", 0x40 | words, 0, words * 4 + payload_len, identification,
                       fragment, 64, protocol, 0) + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + options


def ipv6_header(payload_len, next_header=17):
    address = bytes.fromhex("20010db8") + bytes(11)
    return struct.pack(">IHBB", 0x60000000, payload_len, next_header, 64) + address + b"\1" + \
        address + b"\2"


def udp_header(payload_len, port=4791):
    return struct.pack(">HHHH", 0xc123, port, payload_len + 8, 0)


def bth(opcode, psn, qpn=0x11, flags=0):
    return struct.pack(">BBHII", opcode, flags, 0xffff, qpn, psn)


def ethernet(network, ethertype=None):
    if ethertype is None:
        ethertype = 0x0800 if network[0] >> 4 == 4 else 0x86dd
    return MAC + struct.pack(">H", ethertype) + network


def send_only(psn=1, payload=b"payload!", opcode=0x04, identification=0):
    """An Ethernet frame with one good RC SEND ONLY over IPv4."""
    body = bth(opcode, psn) + payload
    head = ipv4_header(8 + len(body) + 4, identification) + udp_header(len(body) + 4)
    return ethernet(head + body + icrc(head + body, 20))


def network_of(frame):
    """What follows the Ethernet header, and its Ethertype."""
    return frame[14:], struct.unpack_from(">H", frame, 12)[0]


# Ways to carry what an Ethernet frame carries: name, link type, builder from (network, ethertype).
CARRIERS = [
    ("Ethernet", ETHERNET, lambda n, t: ethernet(n, t)),
    ("802.1Q", ETHERNET, lambda n, t: MAC + struct.pack(">HHH", 0x8100, 0x6005, t) + n),
    ("QinQ", ETHERNET,
     lambda n, t: MAC + struct.pack(">HHHHH", 0x88a8, 7, 0x8100, 5, t) + n),
    ("cooked v1", COOKED_V1, lambda n, t: struct.pack(">HHH8sH", 4, 1, 6, MAC[6:], t) + n),
    ("cooked v2", COOKED_V2,
     lambda n, t: struct.pack(">HHIHBB8s", t, 0, 3, 1, 4, 6, MAC[6:]) + n),
    ("raw", RAW, lambda n, t: n),
    ("raw IP of one version", None, lambda n, t: n),
    ("null, little-endian", NULL,
     lambda n, t: struct.pack("<I", 2 if t == 0x0800 else 30) + n),
    ("null, big-endian", NULL, lambda n, t: struct.pack(">I", 2 if t == 0x0800 else 24) + n),
    ("loop", LOOP, lambda n, t: struct.pack(">I", 2 if t == 0x0800 else 24) + n),
]


def carriers_of(ethertype):
    """The carriers that can hold this Ethertype; only those with a type field hold RoCEv1."""
    for name, link, build in CARRIERS:
        if ethertype == 0x8915 and link not in (ETHERNET, COOKED_V1, COOKED_V2):
            continue
        if link is None:
            link = IPV4 if ethertype == 0x0800 else IPV6
        yield name, link, build


def read_vectors(path):
    """The Ethernet frames of vectors.md by name ("V1")."""
    with open(path) as f:
        text = f.read()
    found = re.findall(r"^\*\*(V\d+)\*\*[^\n]*\n```\n([0-9a-f]+)\n", text, re.M)
    return {name: bytes.fromhex(hexa) for name, hexa in found}


class Uroce:
    """Runs `uroce pcap`, with the capture on standard input."""

    def __init__(self, program):
        self.program = program

    def run(self, capture, *options):
        return subprocess.run([self.program, "pcap", *options, "-"], input=capture,
                              capture_output=True, timeout=60)

    def text(self, capture, *options):
        done = self.run(capture, *options)
        assert done.returncode == 0, done
        assert done.stderr == b"", done
        return done.stdout.decode()

    def packets(self, capture, *options):
        """The objects of --packets --json without the summary."""
        lines = self.text(capture, "--packets", "--json", "--no-summary", "--foreign",
                          *options).splitlines()
        return [json.loads(line) for line in lines]

    def diagnosis(self, capture, *options):
        return json.loads(self.text(capture, "--json", *options))["diagnosis"]

    def findings(self, capture, *options):
        """What was found, by name."""
        return {row["finding"]: row for row in self.diagnosis(capture, *options)["findings"]}

    def connections(self, capture, *options):
        lines = self.text(capture, "--connections", "--json", *options).splitlines()
        return [json.loads(line)["connection"] for line in lines]

    def summary(self, capture, *options):
        return json.loads(self.text(capture, "--json", "--summary", *options))["summary"]
