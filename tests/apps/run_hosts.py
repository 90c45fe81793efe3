#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Verified transfers under everything that a host is: small receive buffers, narrow cables, kernels
without this or that, IPv6 alone, several addresses, a peer that is gone, a user without rights.

One line a case. Exit status 1 when something failed, 77 when nothing could be run.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import places
import programs
import transfers

SKIPPED = 77

# Doubled by the kernel: what a program gets where net.core.rmem_max has its default.
SMALL_BUFFER = (("UROCE_RCVBUF", "106496"),)
FALLBACKS = {
    "no UDP_SEGMENT": (("UROCE_GSO", "off"),),
    "no UDP_GRO": (("UROCE_GRO", "off"),),
    "no BPF": (("UROCE_BPF", "off"),),
    "none of them": (("UROCE_GSO", "off"), ("UROCE_GRO", "off"), ("UROCE_BPF", "off")),
}


def buffer_cases(own, place):
    """Nothing at all is lost in the kernel's default receive buffer."""
    env = SMALL_BUFFER + transfers.UNHURRIED + transfers.COUNTED

    def nothing_is_lost(options, clients):
        transfers.expect_no_loss(own.run(transfers.of_place(place, options, env, clients)))

    for clients in (1, 4) if place.one_address else (1,):
        for qps in (1, 8, 64):
            for kind, word in (("s", "SEND"), ("w", "WRITE"), ("r", "READ")):
                # Small ones alone fill the buffer by their number, large ones by their bytes.
                ops = max(4, 2000 // qps // clients)
                for size, count in ((64, ops), (65536, max(4, ops // 8))):
                    options = "--exact --qps %d --kinds %s --size %d --ops %d" % (
                        qps, kind, size, count)
                    yield ("%s: no loss with %d QPs, %d to 1, %s of %d bytes" %
                           (place.name, qps, clients, word, size),
                           lambda options=options, clients=clients: nothing_is_lost(options, clients))


def fallback_cases(own, place):
    for name, env in {"all features": (), **FALLBACKS}.items():
        for how in ("", "--spin --qps 8 --mtu 4096" if place.name != "pair1500" else "--qps 8"):
            for family in ("ipv4", "ipv6"):
                meeting = transfers.of_place(place, how + " --ops 24", env, family=family)
                yield ("%s: transfers with %s over %s %s" % (place.name, name, family, how),
                       lambda meeting=meeting: own.run(meeting))


def link_local(enter, netdev):
    words = subprocess.run([*enter, "ip", "-brief", "-6", "address", "show", "dev", netdev, "scope",
                            "link"], capture_output=True, text=True, check=True).stdout
    return re.search(r"fe80:[0-9a-f:]+", words).group(0)


def ipv6_only_cases(own, namespaces):
    place = places.pair(namespaces)
    for host in (place.server, place.client):
        places.command(host.enter, "ip -4 address flush dev test0")
    yield "IPv6 alone: transfers", lambda: own.run(transfers.of_place(place, family="ipv6"))
    local = [link_local(host.enter, "test0") for host in (place.server, place.client)]
    meeting = transfers.Meeting(place.server, (place.client,), local[0] + "%test0", tuple(local))
    yield "IPv6 alone: transfers between link-local addresses", lambda: own.run(meeting)


def cable(pid, enter, number, other_enter):
    """Joins two namespaces by a cable of that number: near end .1, far end .2."""
    name = "test%d" % number
    places.command(other_enter, "ip link add test0 mtu 1500 type veth peer name %s mtu 1500 netns %d" %
                   (name, pid))
    places.set_address(enter, name, "10.66.%d.1" % number, "fd66:%d::1" % number)
    places.set_address(other_enter, "test0", "10.66.%d.2" % number, "fd66:%d::2" % number)
    places.wait_until_up(enter, name)
    places.wait_until_up(other_enter, "test0")


def several_interfaces_cases(own, namespaces):
    """A host with two cables, to a host each; the far ends have no route to the other cable."""
    pid, middle = namespaces.new()
    far = []
    for number in (3, 4):
        _, enter = namespaces.new()
        cable(pid, middle, number, enter)
        far.append(places.Host(enter, "test0", "10.66.%d.2" % number, "fd66:%d::2" % number))
    near = [places.Host(middle, "test3,test4", "10.66.%d.1" % number, "fd66:%d::1" % number)
            for number in (3, 4)]

    def both_at_once(family):
        running = []
        for here, there in zip(near, far):
            ends = tuple(getattr(host, family) for host in (there, here))
            running.append(own.start(transfers.Meeting(there, (here,), ends[0], ends,
                                                       "--ops 300 --mtu 1024")))
        for processes in running:
            for output, status in own.finish(processes, 60):
                assert status == 0, transfers.told(processes) + output

    for family in ("ipv4", "ipv6"):
        yield ("several interfaces: each connection leaves through its own, %s" % family,
               lambda family=family: both_at_once(family))


def second_address_cases(own, namespaces):
    """The kernel would choose the first address. RC drops packets that come from another than the
    queue pair's peer, so nothing would be verified."""
    place = places.pair(namespaces)
    client = place.client
    places.command(client.enter, "ip address add 10.66.2.77/24 dev test0")
    places.command(client.enter, "ip -6 address add fd66:2::77/64 dev test0 nodad")
    for server_gid, client_gid in (("10.66.2.1", "10.66.2.77"), ("fd66:2::1", "fd66:2::77")):
        meeting = transfers.Meeting(place.server, (client,), server_gid, (server_gid, client_gid),
                                    env=transfers.COUNTED)

        def leaves_with_it(meeting=meeting):
            for output in own.run(meeting):
                assert transfers.counter(output, "wrong_source") == 0, output

        yield "two addresses: packets leave with the GID's, %s" % client_gid, leaves_with_it


def closed_port_cases(own, namespaces):
    place = places.pair(namespaces)
    env = transfers.COUNTED + (("UROCE_TIMEOUT_FLOOR_MS", "30"),)

    def retries_end():
        meeting = transfers.of_place(place, "--seconds 60 --kinds s --depth 1 --orphan", env)
        server, client = own.start(meeting)
        try:
            while client.alive() and "transferring" not in client.output:
                time.sleep(0.01)
            server.kill()
            [(output, status)] = own.finish([client], 30)
        finally:
            server.kill()
            client.kill()
        assert status == 1 and "transport retry counter exceeded" in output, output
        assert "nobody listens on UDP port 4791" in output, output
        assert transfers.counter(output, "send_refused") > 0, output
        assert transfers.counter(output, "local_ack_timeout_err") == 8, output  # 1 and 7 retries

    yield "a peer whose port is closed: told, counted, and retries end", retries_end


def rights_cases(own, place):
    def has_no_rights():
        output, status = own.runner.run_alone(place.client, ["cat", "/proc/self/status"])
        assert status == 0, output
        for field in ("CapEff", "CapPrm", "CapBnd") if places.is_root() else ("CapEff",):
            assert re.search(r"^%s:\s+0{16}$" % field, output, re.M), output
        assert not re.search(r"^Uid:\s+0", output, re.M), output

    yield "programs of all these tests run without a capability, and not as root", has_no_rights


AREAS = {
    "rights": lambda own, n: rights_cases(own, places.loopback(n)),
    "buffer": lambda own, n: buffer_cases(own, places.loopback(n)),
    "buffer-pair": lambda own, n: buffer_cases(own, places.pair(n)),
    "features": lambda own, n: fallback_cases(own, places.loopback(n)),
    "features-pair": lambda own, n: fallback_cases(own, places.pair(n)),
    "features-pair1500": lambda own, n: fallback_cases(own, places.narrow_pair(n)),
    "ipv6": ipv6_only_cases,
    "interfaces": several_interfaces_cases,
    "addresses": second_address_cases,
    "closed": closed_port_cases,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--area", action="append", choices=AREAS, help="only this; may be repeated")
    arguments = parser.parse_args()
    drop = places.drop_words()
    os.environ.pop("LD_LIBRARY_PATH", None)
    failed = ran = 0
    with tempfile.TemporaryDirectory(prefix="uroce-hosts-") as scratch:
        uroce, program = transfers.stage(pathlib.Path(arguments.build).resolve(), drop, scratch)
        for name in arguments.area or AREAS:
            with places.Namespaces() as namespaces:
                own = transfers.Transfers(programs.Runner(uroce), program)
                try:
                    failed += transfers.run_cases(AREAS[name](own, namespaces))
                    ran += 1
                except places.Unavailable as reason:
                    print("skipped  %s: %s" % (name, reason))
    if failed:
        return 1
    return 0 if ran else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
