#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Verified transfers under everything that a host is: small receive buffers, narrow cables, kernels
without this or that, IPv6 alone, several addresses, links and addresses that go and come, a NAT, a
peer that is gone, a user without rights.

One line a case. Exit status 1 when something failed, 77 when nothing could be run.
"""
import argparse
import os
import pathlib
import re
import signal
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

    for clients in (1, 4):
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
            for output, status in own.finish(processes):
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
    env = transfers.COUNTED + (("UROCE_TIMEOUT_FLOOR_MS", "100"),)

    def retries_end():
        meeting = transfers.of_place(place, "--seconds 60 --kinds s --depth 1 --orphan", env)
        server, client = own.start(meeting)
        try:
            while client.alive() and "transferring" not in client.output:
                time.sleep(0.01)
            server.kill()
            [(output, status)] = own.finish([client])
        finally:
            server.kill()
            client.kill()
        assert status == 1 and "transport retry counter exceeded" in output, output
        assert "nobody listens on UDP port 4791" in output, output
        assert transfers.counter(output, "send_refused") > 0, output
        assert transfers.counter(output, "local_ack_timeout_err") == 8, output  # 1 and 7 retries

    yield "a peer whose port is closed: told, counted, and retries end", retries_end


def packets_received(process, netdev):
    """What the interface counts in the network namespace of a process."""
    with open("/proc/%d/net/dev" % process.pid, encoding="ascii") as lines:
        for line in lines:
            name, _, numbers = line.partition(":")
            if name.strip() == netdev:
                return int(numbers.split()[1])
    raise AssertionError("no interface %s" % netdev)


def traffic_flows(processes, netdev="test0", patience=programs.HANGING_S):
    """Waits until the server has received many packets more; all must still be there."""
    server = processes[0]
    deadline = time.monotonic() + patience
    wanted = packets_received(server, netdev) + 500
    while packets_received(server, netdev) < wanted:
        assert all(process.alive() for process in processes), transfers.told(processes)
        assert time.monotonic() < deadline, "no traffic\n" + transfers.told(processes)
        time.sleep(0.01)


def at_once(enter, *lines):
    """Changes one after the other, with nothing between them that takes time."""
    subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def change_cases(own, namespaces):
    """What changes under a transfer: it goes on when things are as before, else retries end."""
    place = places.pair(namespaces)
    enter = place.client.enter
    # Of its own, so that the two processes meet by an address that stays.
    places.command(enter, "ip address add 10.66.2.77/24 dev test0")
    gids = ("10.66.2.1", "10.66.2.77")

    def start(floor_ms, options=""):
        env = transfers.COUNTED + (("UROCE_TIMEOUT_FLOOR_MS", str(floor_ms)),)
        processes = own.start(transfers.Meeting(place.server, (place.client,), gids[0], gids,
                                                "--seconds 3600 " + options, env))
        traffic_flows(processes)
        return processes

    def survives(*changes):
        processes = start(1000)
        try:
            for lines in changes:
                at_once(enter, *lines)
                traffic_flows(processes)
            for process in processes:
                os.kill(process.pid, signal.SIGTERM)
        except BaseException:
            for process in processes:
                process.kill()
            raise
        for output, status in own.finish(processes):
            assert status == 0 and transfers.operations(output) > 0, output

    def retries_end():
        processes = start(100, "--orphan")
        at_once(enter, "address del 10.66.2.77/24 dev test0")
        (_, server_status), (output, status) = own.finish(processes)
        assert (server_status, status) == (1, 1), transfers.told(processes)
        assert "transport retry counter exceeded" in output, output
        assert transfers.counter(output, "send_unreachable") > 0, output

    down_and_up = ("link set test0 down", "link set test0 up")
    back_again = ("address del 10.66.2.77/24 dev test0", "address add 10.66.2.77/24 dev test0")
    others = ("address add 10.66.2.78/24 dev test0", "address del 10.66.2.78/24 dev test0",
              "address add 10.66.2.79/24 dev test0")
    yield "a transfer goes on after its interface was down", lambda: survives(down_and_up)
    yield "a transfer goes on after its address was away", lambda: survives(back_again)
    yield "a transfer does not notice other addresses", lambda: survives(others)
    yield "a transfer whose address is gone ends by its retries, and says why", retries_end


def nat_cases(own, namespaces):
    """A router that hides a host behind its own address, as those of containers do."""
    pid, router = namespaces.new()
    _, inside = namespaces.new()
    _, outside = namespaces.new()
    cable(pid, router, 5, inside)
    cable(pid, router, 6, outside)
    places.command(router, "sysctl -qw net.ipv4.ip_forward=1")
    places.command(inside, "ip route add default via 10.66.5.1")
    places.command(outside, "ip route add 10.66.5.0/24 via 10.66.6.1")
    places.command(router, "nft add table ip nat")
    places.command(router, "nft add chain ip nat leaving { type nat hook postrouting priority 100 ; }")
    places.command(router, "nft add rule ip nat leaving oifname test6 masquerade")
    server = places.Host(outside, "test0", "10.66.6.2", "")
    client = places.Host(inside, "test0", "10.66.5.2", "")

    def is_recognised():
        env = transfers.COUNTED + (("UROCE_TIMEOUT_FLOOR_MS", "30"),)
        processes = own.start(transfers.Meeting(server, (client,), server.ipv4,
                                                (server.ipv4, client.ipv4), "--orphan", env))
        (output, server_status), (_, status) = own.finish(processes)
        assert (server_status, status) == (1, 1), transfers.told(processes)
        assert ("datagrams from 10.66.6.1 were sent from 10.66.5.2: a NAT on the way, "
                "which RoCE cannot cross") in output, output
        assert transfers.counter(output, "address_rewritten") > 0, output
        assert transfers.operations(output) == 0, output

    yield "a NAT: recognised, said with both addresses, and retries end", is_recognised


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
    "changes": change_cases,
    "nat": nat_cases,
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
