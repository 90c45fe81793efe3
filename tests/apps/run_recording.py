#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Records both ends of a pair of stock programs, and reads the recordings back.

What one end sent is what the other received, to the last byte; `uroce pcap --strict` and tshark (where
it is) have nothing to complain of. With damage on purpose they do, and `uroce pcap` names what was done. Exit status 77: it could not be run.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import cases
import places
import programs
import run_apps

SKIPPED = 77
INBOUND, OUTBOUND = 1, 2
PACKET_BLOCK = 6
RC_ACK = 0x11


def packets(path):
    """Yields (direction, bytes) of each packet of a recording."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == PACKET_BLOCK:
            size = struct.unpack_from("<I", data, at + 20)[0]
            code, flags = struct.unpack_from("<I", data, at + length - 16)[0], data[at + length - 12]
            assert code == 4 << 16 | 2, "options of a packet are not flags alone"
            yield flags & 3, data[at + 28:at + 28 + size]
        at += length


class Pair:
    """Runs pairs with recordings into a folder of their own."""

    def __init__(self, runner, place, scratch):
        self.runner = runner
        self.place = place
        self.scratch = pathlib.Path(scratch)
        self.number = 0

    def record(self, case, *env):
        """Returns the recordings, that of the server first."""
        self.number += 1
        folder = self.scratch / str(self.number)
        folder.mkdir()
        folder.chmod(0o777)
        case = dataclasses.replace(case, env=(*env, ("UROCE_RECORD", str(folder / "a.pcapng"))))
        fault, shown = run_apps.run_case(self.runner, self.place, case)
        assert fault is None, "%s\n%s" % (fault, shown)
        # ibv_devinfo, which tells the GID index, records too, and has no packets.
        return sorted((path for path in folder.iterdir() if any(packets(path))),
                      key=lambda path: next(packets(path))[0])


def strictly(pair, path):
    done = subprocess.run([pair.runner.uroce, "pcap", "--strict", "--summary", str(path)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def found(pair, path):
    """What `uroce pcap` finds in a recording, class by name."""
    done = subprocess.run([pair.runner.uroce, "pcap", "--json", str(path)], capture_output=True,
                          text=True, check=True)
    rows = json.loads(done.stdout)["diagnosis"]["findings"]
    return {row["finding"]: row["class"] for row in rows}


def keeps_the_rules(pair, path):
    """On a machine that is busy a timer may run out, but nobody breaks the protocol."""
    findings = found(pair, path)
    assert not {"broken", "violation"} & set(findings.values()), findings
    return findings


def is_farewell(frame):
    """An RC acknowledgement: ICRC and AETH at its end, a BTH before them."""
    return frame[-20] == RC_ACK


def what_one_sends_the_other_receives(pair, case):
    server, client = pair.record(case)
    for sender, receiver in ((server, client), (client, server)):
        sent = [frame for way, frame in packets(sender) if way == OUTBOUND]
        received = [frame for way, frame in packets(receiver) if way == INBOUND]
        assert sent, "nothing was sent"
        # Who goes last acknowledges again, up to four times, what nobody hears any more.
        lost = collections.Counter(sent) - collections.Counter(received)
        assert sum(lost.values()) <= 4 and all(map(is_farewell, lost)), \
            "%d frames were sent, %d received" % (len(sent), len(received))
        assert not collections.Counter(received) - collections.Counter(sent), "frames of nobody"
    for path in (server, client):
        status, output = strictly(pair, path)
        assert status == 0, output
        keeps_the_rules(pair, path)


def tshark_reads_them(pair, case):
    if shutil.which("tshark") is None:
        return
    for path in pair.record(case):
        done = subprocess.run(
            ["tshark", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-r", str(path),
             "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.expert.message"],
            capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert len(lines) == sum(1 for _ in packets(path)), done.stderr
        for line in lines:
            opcode, _, message = line.partition("\t")
            assert opcode and not message, line


def damage_shows(pair, case):
    fault = ("UROCE_FAULT", "corrupt:every=20:dir=out:op=SEND*,seed=1")
    for path in pair.record(case, fault, programs.PATIENCE_AT_LOSS):
        status, output = strictly(pair, path)
        assert status == 1 and " bad" in output, output
        assert "ICRC_BAD" in keeps_the_rules(pair, path)


def faults_are_found_by_their_names(pair, case, rule, name):
    for path in pair.record(case, ("UROCE_FAULT", rule), programs.PATIENCE_AT_LOSS):
        findings = keeps_the_rules(pair, path)
        assert name in findings, "%s is not among %s" % (name, findings)


def a_packet_lost_in_the_middle_shows(pair, case):
    faults_are_found_by_their_names(pair, case, "drop:op=SEND_MIDDLE:every=40:dir=out", "RETRANSMIT_NAK")


def a_packet_lost_at_the_end_shows(pair, case):
    faults_are_found_by_their_names(pair, case, "drop:op=SEND_LAST:every=40:dir=out",
                                    "RETRANSMIT_TIMEOUT")


def a_lost_answer_shows(pair, case):
    faults_are_found_by_their_names(pair, case, "drop:op=ATOMIC_ACK:dir=in:nth=3", "ANSWER_LOST")


def a_copy_shows(pair, case):
    faults_are_found_by_their_names(pair, case, "dup:op=SEND_*:every=20:dir=out", "DUPLICATE")


def old_packets_make_room(pair, case):
    limits = (("UROCE_RECORD_LIMIT", "256K"), ("UROCE_RECORD_FILES", "4"))
    paths = pair.record(case, *limits)
    assert len(paths) == 8, paths
    assert sum(path.stat().st_size for path in paths) <= 2 * 256 * 1024
    for path in paths:
        status, output = strictly(pair, path)
        assert status == 0, output


RC = cases.Case("ibv_rc_pingpong", "-c -n 200", "ipv4", cases.pingpong)
CASES = [
    (what_one_sends_the_other_receives, RC),
    (what_one_sends_the_other_receives, cases.Case("ibv_rc_pingpong", "-c -n 100", "ipv6", cases.pingpong)),
    (what_one_sends_the_other_receives, cases.Case("ibv_ud_pingpong", "-c -n 100", "ipv4", cases.pingpong)),
    (what_one_sends_the_other_receives, cases.Case("ib_read_bw", "-n 20", "ipv4", cases.perftest)),
    (tshark_reads_them, cases.Case("ib_atomic_bw", "-A FETCH_AND_ADD -n 20", "ipv4", cases.perftest)),
    (damage_shows, RC),
    (a_packet_lost_in_the_middle_shows, RC),
    (a_packet_lost_at_the_end_shows, RC),
    (a_lost_answer_shows, cases.Case("ib_atomic_bw", "-A FETCH_AND_ADD -n 20", "ipv4", cases.perftest)),
    (a_copy_shows, RC),
    (old_packets_make_room, RC),
]


def run_cases(pair):
    failed = 0
    for function, case in CASES:
        name = "%s (%s)" % (function.__name__.replace("_", " "), case.name)
        try:
            function(pair, case)
            print("ok       " + name)
        except (AssertionError, programs.Failure, subprocess.CalledProcessError) as reason:
            failed += 1
            print("FAILED   " + name)
            print("\n".join("    " + line for line in str(reason).splitlines()))
        sys.stdout.flush()
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    arguments = parser.parse_args()
    drop = places.drop_words()
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory(prefix="uroce-record-") as scratch, \
            places.Namespaces() as namespaces:
        pathlib.Path(scratch).chmod(0o755)
        try:
            place = places.pair(namespaces)
        except places.Unavailable as reason:
            print("skipped  %s" % reason)
            return SKIPPED
        (pathlib.Path(scratch) / "bin").mkdir()
        uroce = run_apps.stage(pathlib.Path(arguments.build).resolve(), drop,
                               pathlib.Path(scratch) / "bin")
        return 1 if run_cases(Pair(programs.Runner(uroce), place, scratch)) else 0


if __name__ == "__main__":
    sys.exit(main())
