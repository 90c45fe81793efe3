#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every captured packet, as `uroce pcap --json` and as tshark decode it.

usage: agrees_with_tshark.py UROCE CAPTURES

tshark is the independent reader for the fields, and the table in the captures'
README for the counts of each file. The frames of all files go through both
programs as one capture, then once more in each other link type.
Exit status 77 (skipped) where there is no tshark.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import packets

TRAILER = "infiniband.invariant.crc"

# Where tshark has a field and where we have it. tshark prints numbers as decimal or 0x...
FIELDS = {
    "infiniband.bth.opcode": ("bth", "opcode"),
    "infiniband.bth.se": ("bth", "solicited"),
    "infiniband.bth.m": ("bth", "mig_req"),
    "infiniband.bth.padcnt": ("bth", "pad_count"),
    "infiniband.bth.tver": ("bth", "version"),
    "infiniband.bth.p_key": ("bth", "pkey"),
    "infiniband.bth.destqp": ("bth", "dest_qpn"),
    "infiniband.bth.a": ("bth", "ack_req"),
    "infiniband.bth.psn": ("bth", "psn"),
    "infiniband.deth.q_key": ("deth", "qkey"),
    "infiniband.deth.srcqp": ("deth", "src_qpn"),
    "infiniband.reth.dmalen": ("reth", "dma_len"),
    "infiniband.atomiceth.swapdt": ("atomic", "swap_add"),
    "infiniband.atomiceth.cmpdt": ("atomic", "compare"),
    "infiniband.aeth.syndrome": ("aeth", "syndrome"),
    "infiniband.aeth.msn": ("aeth", "msn"),
    "infiniband.atomicacketh.origremdt": ("atomic_ack", "original"),
    "infiniband.ieth": ("ieth", "rkey"),
    "infiniband.immdt": ("imm",),
    TRAILER: ("icrc", "found"),
    "udp.srcport": ("udp", "src_port"),
    "ip.src": ("ipv4", "src"),
    "ip.dst": ("ipv4", "dst"),
    "ip.id": ("ipv4", "identification"),
    "ipv6.src": ("ipv6", "src"),
    "ipv6.dst": ("ipv6", "dst"),
    "infiniband.grh.sgid": ("grh", "src"),
    "infiniband.grh.dgid": ("grh", "dst"),
}
# tshark calls these the same in both headers.
SHARED = {
    "infiniband.reth.va": "va",
    "infiniband.reth.r_key": "rkey",
}
# tshark's names of CM fields, after the message's own prefix. It decodes SIDR messages not at all,
# and flow label and packet rate of a REQ four bits off.
CM_PREFIXES = {"REQ": "req", "REP": "rep", "REJ": "rej", "RTU": "rtu", "DREQ": "dreq", "DREP": "drsp"}
CM_FIELDS = {
    "localcommid": "local_comm_id", "remotecommid": "remote_comm_id", "serviceid": "service_id",
    "localcaguid": "ca_guid", "localqkey": "qkey", "localqpn": "qpn", "remoteqpneecn": "qpn",
    "responderres": "responder_resources", "respres": "responder_resources",
    "localeecn": "eecn", "remoteeecn": "remote_eecn", "initdepth": "initiator_depth",
    "remoteresptout": "remote_response_timeout", "localresptout": "local_response_timeout",
    "transpsvctype": "transport", "e2eflowctrl": "flow_control", "startpsn": "starting_psn",
    "retrcount": "retry_count", "pkey": "pkey", "pppmtu": "path_mtu", "rdcexist": "rdc_exists",
    "rnrretrcount": "rnr_retry_count", "maxcmretr": "max_cm_retries", "srq": "srq",
    "ext_transport": "extended_transport", "prim_locallid": "primary.local_lid",
    "prim_remotelid": "primary.remote_lid", "prim_localgid_ipv4": "primary.local_gid",
    "prim_remotegid_ipv4": "primary.remote_gid", "prim_localgid": "primary.local_gid",
    "prim_remotegid": "primary.remote_gid", "prim_tfcclass": "primary.traffic_class",
    "prim_hoplim": "primary.hop_limit", "prim_sl": "primary.sl",
    "prim_subnetlocal": "primary.subnet_local", "prim_localacktout": "primary.ack_timeout",
    "tgtackdelay": "target_ack_delay", "failoveracc": "failover", "msgrej": "refused",
    "rejinfolen": "info_len", "reason": "reason",
}
CM_IP_FIELDS = {"ipv": "ip_version", "sport": "src_port", "sip4": "src", "dip4": "dst",
                "sip6": "src", "dip6": "dst"}
BARE_HEX = ("infiniband.ieth", "infiniband.immdt")  # bytes, printed with colons


def number(name, text):
    if isinstance(text, (bool, int)):
        return int(text)
    if name in BARE_HEX:
        return int(text.replace(":", ""), 16)
    try:
        return int(text, 0)
    except ValueError:
        return text


def flatten(value, into):
    """All leaves of tshark's tree by field name, the first of each."""
    for key, below in value:
        if isinstance(below, list) and below and isinstance(below[0], tuple):
            flatten(below, into)
        elif isinstance(below, str):
            into.setdefault(key, below)


def tshark(path):
    done = subprocess.run(["tshark", "-r", path, "-T", "json", "-J", "ip ipv6 udp infiniband nvme-rdma"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    decoded = []
    for packet in json.loads(done.stdout, object_pairs_hook=list):
        fields = {}
        flatten(packet, fields)
        decoded.append(fields)
    return decoded


def our_value(packet, path):
    for key in path:
        if key not in packet:
            return None
        packet = packet[key]
    return packet


def our_fields(packet):
    """Our packet under tshark's names."""
    fields = {name: our_value(packet, path) for name, path in FIELDS.items()}
    for name, key in SHARED.items():
        header = packet.get("reth") or packet.get("atomic") or {}
        fields[name] = header.get(key)
    return {name: number("", value) for name, value in fields.items() if value is not None}


def their_fields(fields):
    # We write an IPv4-mapped GID as the IPv4 address that it is.
    return {name: number(name, fields[name].removeprefix("::ffff:"))
            for name in [*FIELDS, *SHARED] if name in fields}


def cm_agreement(theirs, message):
    """Yields (name, what tshark says, what we say) of a CM message's fields."""
    prefix = "infiniband.cm.%s." % CM_PREFIXES[message["message"]]
    for name, text in theirs.items():
        short = name.removeprefix(prefix)
        if name == "infiniband.cm.req.remoteqpneecn":  # of a DREQ
            short = "remoteqpneecn"
        if short in CM_FIELDS:
            ours = message[CM_FIELDS[short]]
        elif short.removeprefix("ip_cm.") in CM_IP_FIELDS and "ip_header" in message:
            ours = message["ip_header"][CM_IP_FIELDS[short.removeprefix("ip_cm.")]]
        else:
            continue
        if ":" in text and ":" not in str(ours):
            ours = "::ffff:" + ours
        yield name, number("", text), number("", ours)


class Agreement(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.uroce = packets.Uroce(UROCE)
        cls.origin, cls.frames = [], []
        for path in sorted(glob.glob(os.path.join(CAPTURES, "*.pcap"))):
            frames = [frame for _, frame in packets.read_pcap(path)]
            cls.origin += [(os.path.basename(path), i + 1) for i in range(len(frames))]
            cls.frames += frames
        cls.all_decoded = cls.decode(cls.frames, packets.ETHERNET)

    @classmethod
    def decode(cls, frames, link):
        """What tshark and what we make of the frames."""
        capture = packets.pcap(frames, link)
        with tempfile.NamedTemporaryFile(suffix=".pcap") as f:
            f.write(capture)
            f.flush()
            return tshark(f.name), cls.uroce.packets(capture)

    def compare(self, frames, origin, decoded):
        theirs, ours = decoded
        self.assertEqual(len(frames), len(theirs))
        self.assertEqual(len(frames), len(ours))
        for where, ours_one, theirs_one in zip(origin, ours, theirs):
            with self.subTest(frame=where):
                expected, actual = their_fields(theirs_one), our_fields(ours_one)
                self.assertIn("infiniband.bth.opcode", expected)
                if TRAILER not in expected:  # tshark leaves it out at times, behind small payloads
                    actual.pop(TRAILER)
                self.assertEqual(expected, actual)
                self.assertEqual("GOOD", ours_one["icrc"]["verdict"])

    def test_every_captured_packet_has_the_fields_that_tshark_finds(self):
        self.assertGreaterEqual(len(self.frames), 3900)
        self.compare(self.frames, self.origin, self.all_decoded)

    def test_every_connection_message_has_the_fields_that_tshark_finds(self):
        messages = compared = 0
        for where, theirs_one, ours_one in zip(self.origin, *self.all_decoded):
            message = ours_one.get("cm")
            self.assertEqual("infiniband.mad.attributeid" in theirs_one, message is not None, where)
            if message is None or message["message"] not in CM_PREFIXES:
                continue
            messages += 1
            for name, expected, actual in cm_agreement(theirs_one, message):
                compared += 1
                with self.subTest(frame=where, field=name):
                    self.assertEqual(expected, actual)
        self.assertGreaterEqual(messages, 100)
        self.assertGreaterEqual(compared, 8 * messages)

    def test_requests_of_nvme_hosts_ask_for_what_the_controllers_grant(self):
        """tshark finds the private data of the replies; Linux's target grants all that was asked."""
        asked, queues = {}, {}
        for (name, _), theirs_one, ours_one in zip(self.origin, *self.all_decoded):
            message = ours_one.get("cm", {})
            if "nvme" in message:
                asked[name, message["local_comm_id"]] = message["nvme"]
                queues.setdefault(name, []).append(message["nvme"]["qid"])
            granted = theirs_one.get("nvme-rdma.cm.rsp.crqsize")
            if granted is not None:
                nvme = asked[name, message["remote_comm_id"]]
                self.assertEqual(int(granted), nvme["hsqsize"] + 1)
                self.assertEqual(nvme["recfmt"], 0)
                self.assertEqual(nvme["hrqsize"], nvme["hsqsize"] + 1)
        self.assertEqual(sorted(queues), ["nvme_rdma.pcap", "nvme_rdma_ip6.pcap"])
        for ids in queues.values():
            self.assertIn(0, ids)
            self.assertIn(1, ids)

    def test_every_link_type_carries_the_same_packets(self):
        step = 37  # a prime, so that the choice goes through all files and opcodes
        frames, origin = self.frames[::step], self.origin[::step]
        for name, link, build in packets.CARRIERS:
            for ethertype in (0x0800, 0x86dd):
                chosen = [(packets.network_of(frame), where) for frame, where in zip(frames, origin)
                          if packets.network_of(frame)[1] == ethertype]
                link_here = link if link is not None else \
                    packets.IPV4 if ethertype == 0x0800 else packets.IPV6
                with self.subTest(carrier=name, ethertype=hex(ethertype)):
                    built = [build(*network) for network, _ in chosen]
                    self.compare(built, [where for _, where in chosen],
                                 self.decode(built, link_here))

    def test_vectors_of_adapters_have_the_fields_that_tshark_finds(self):
        vectors = packets.read_vectors(os.path.join(CAPTURES, "vectors.md"))
        # V2 has a wrong ICRC on purpose; the source port of V7 makes tshark think of TFTP.
        names = ["V%d" % i for i in range(1, 11) if i not in (2, 7)]
        frames = [vectors[name] for name in names]
        self.compare(frames, names, self.decode(frames, packets.ETHERNET))

    def test_counts_are_those_of_the_table(self):
        with open(os.path.join(CAPTURES, "README.md")) as f:
            rows = re.findall(r"^\| (\S+\.pcap) \|.*\| (\d+): ([^|;]*)(;[^|]*)? \|$", f.read(), re.M)
        self.assertGreaterEqual(len(rows), 100)
        for name, total, opcodes, details in rows:
            with self.subTest(capture=name):
                with open(os.path.join(CAPTURES, name), "rb") as f:
                    summary = self.uroce.summary(f.read(), "--strict")
                counts = {op: c["packets"] for op, c in summary["opcodes"].items()}
                expected = dict(re.findall(r"(\w+) (\d+)", opcodes))
                self.assertEqual({op: int(n) for op, n in expected.items()}, counts)
                self.assertEqual(int(total), summary["frames"])
                self.assertEqual({"GOOD": int(total)}, summary["icrc"])
                rnr = sum(int(n) for n in re.findall(r"RNR NAK timer \d+ (\d+)", details))
                naks = sum(int(n) for n in re.findall(r"(?<!RNR )NAK [a-zA-Z ]+? (\d+)", details))
                self.assertEqual(rnr, sum(flow["rnr_naks"] for flow in summary["flows"]))
                self.assertEqual(naks, sum(flow["naks"] for flow in summary["flows"]))


if __name__ == "__main__":
    UROCE, CAPTURES = sys.argv[1:3]
    if shutil.which("tshark") is None:
        print("tshark is not installed: apt-get install tshark")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
