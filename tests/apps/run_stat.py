#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce stat` beside programs that run: what it tells of them, and that nothing harms it.

Exit status 77: it could not be run.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time

import places
import programs
import run_apps

ITERATIONS = 20000000  # of a bandwidth test that is ended before it is through


class Watched:
    """A place, programs at it, and uroce stat run as the same user."""

    def __init__(self, runner, host):
        self.runner = runner
        self.host = host
        self.running = []

    def start(self, *words, env=()):
        self.running.append(self.runner.start(self.host, list(words), env))
        return self.running[-1]

    def end_all(self):
        for process in self.running:
            process.kill()
        self.running.clear()

    def server(self, env=()):
        """A program that has opened its device and waits for its peer. Returns it and its port."""
        port = programs.free_port()
        process = self.start("ibv_rc_pingpong", "-g", self.runner.gid_index(self.host, "ipv4"), "-p",
                             str(port), env=env)
        deadline = time.monotonic() + programs.HANGING_S
        while not programs.listens(process.pid, port):
            assert process.alive() and time.monotonic() < deadline, process.output
            time.sleep(0.01)
        return process, port

    def stat(self, *words, timeout=programs.HANGING_S):
        command = [*self.host.enter, *places.drop_words(self.host.user), self.runner.uroce, "stat",
                   *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def look(self, *pids):
        done = self.stat("--json", *map(str, pids))
        return done, json.loads(done.stdout)

    def wait_for(self, pid, what):
        """Looks until what(process) is true. Returns the process as it is then."""
        deadline = time.monotonic() + programs.HANGING_S
        while True:
            _, root = self.look(pid)
            found = [process for process in root["processes"] if what(process)]
            if found:
                return found[0]
            assert time.monotonic() < deadline, "not seen: %s" % root
            time.sleep(0.05)


def folder_of(host):
    user = host.user if places.is_root() else os.geteuid()
    return pathlib.Path("/dev/shm/uroce-%d" % user)


def waiting_program_is_shown_with_its_queue_pair(watched):
    process, _ = watched.server()
    shown = watched.wait_for(process.pid, lambda p: p["queue_pairs"])
    assert shown["command"] == "ibv_rc_pingpong", shown["command"]
    assert [port["device"] for port in shown["ports"]] == ["uroce_" + watched.host.netdev]
    pair = shown["queue_pairs"][0]
    assert (pair["service"], pair["state"]) == ("RC", "INIT"), pair


def pair_in_traffic_counts_what_the_peer_counts(watched):
    port = str(programs.free_port())
    words = ["ib_write_bw", "-F", "-x", watched.runner.gid_index(watched.host, "ipv4"), "-n",
             str(ITERATIONS), "-p", port]
    server = watched.start(*words)
    while not programs.listens(server.pid, int(port)):
        assert server.alive(), server.output
        time.sleep(0.01)
    client = watched.start(*words, watched.host.ipv4)
    busy = watched.wait_for(client.pid, lambda p: p["ports"][0]["counters"]["port_xmit_packets"] > 1000)
    pair = busy["queue_pairs"][0]
    assert pair["state"] == "RTS" and pair["peer_address"] == watched.host.ipv4, pair
    peer = watched.wait_for(server.pid, lambda p: p["ports"][0]["hw_counters"]["rx_write_requests"] > 0)
    assert peer["queue_pairs"][0]["qpn"] == pair["peer_qpn"], peer["queue_pairs"]
    assert peer["queue_pairs"][0]["peer_qpn"] == pair["qpn"], peer["queue_pairs"]
    sent = busy["ports"][0]["counters"]["port_xmit_data"]
    watched.wait_for(client.pid, lambda p: p["ports"][0]["counters"]["port_xmit_data"] > sent)
    text = watched.stat(str(client.pid)).stdout
    assert "to 0x%06x at %s" % (pair["peer_qpn"], watched.host.ipv4) in text, text
    assert "port_xmit_data" in watched.stat("-c", str(client.pid)).stdout


def watching_tells_rates(watched):
    pair_in_traffic_counts_what_the_peer_counts(watched)
    client = watched.running[-1]
    command = [*watched.host.enter, *places.drop_words(watched.host.user), watched.runner.uroce,
               "stat", "--watch=0.3", "--json", str(client.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        try:
            first, second = (json.loads(watch.stdout.readline()) for _ in range(2))
            assert "rates" not in first["processes"][0]["ports"][0]
            deadline = time.monotonic() + programs.HANGING_S
            while second["processes"][0]["ports"][0]["rates"]["sent_bits_per_s"] == 0:
                assert time.monotonic() < deadline, second
                second = json.loads(watch.stdout.readline())
        finally:
            watch.kill()


def program_that_ends_is_not_shown_any_more(watched):
    process, port = watched.server()
    watched.wait_for(process.pid, lambda p: True)
    client = watched.start("ibv_rc_pingpong", "-g", watched.runner.gid_index(watched.host, "ipv4"),
                           "-p", str(port), watched.host.ipv4)
    deadline = time.monotonic() + programs.HANGING_S
    assert client.wait(deadline) == 0 and process.wait(deadline) == 0, process.output
    assert not list(folder_of(watched.host).glob("%d.*" % process.pid)), "its file is still there"
    done, root = watched.look(process.pid)
    assert done.returncode == 1 and root["processes"] == [], root
    assert "does not show itself" in done.stderr, done.stderr


def file_of_a_program_that_was_killed_is_removed(watched):
    process, _ = watched.server()
    watched.wait_for(process.pid, lambda p: True)
    process.kill()
    names = list(folder_of(watched.host).glob("%d.*" % process.pid))
    assert len(names) == 1, names
    _, root = watched.look()
    assert process.pid not in [p["pid"] for p in root["processes"]], root
    assert not names[0].exists()


def program_may_choose_not_to_be_shown(watched):
    process, _ = watched.server(env=[("UROCE_STAT", "off")])
    done, root = watched.look(process.pid)
    assert done.returncode == 1 and root["processes"] == [], root


def child_of_fork_leaves_the_file_to_its_parent(watched):
    code = ("import os, pyverbs.device as d; c = d.Context(name='uroce_%s')\n"
            "print('open', flush=True)\n"
            "if os.fork() == 0: os._exit(0)\n"
            "os.wait(); print('forked', flush=True); import time; time.sleep(60)"
            % watched.host.netdev)
    process = watched.start("/usr/bin/python3", "-c", code)
    deadline = time.monotonic() + programs.HANGING_S
    while "forked" not in process.output:
        assert process.alive() and time.monotonic() < deadline, process.output
        time.sleep(0.01)
    watched.wait_for(process.pid, lambda p: True)


def hostile_files_do_no_harm(watched):
    process, _ = watched.server()
    shown = watched.wait_for(process.pid, lambda p: True)
    folder = folder_of(watched.host)
    good = next(folder.glob("%d.*" % process.pid)).read_bytes()
    spoiled = {"cut off": good[:3000], "another version": good[:8] + b"\xff" * 4 + good[12:],
               "not a file of uroce": b"\xff" * len(good)}
    held = []
    try:
        for number, (_, content) in enumerate(spoiled.items()):
            path = folder / ("1.%x" % number)
            path.write_bytes(content)
            held.append(open(path, "rb"))
            os.chown(path, folder.stat().st_uid, -1)
            fcntl.flock(held[-1], fcntl.LOCK_EX)
        (folder / "2.0").symlink_to("/etc/passwd")
        done = watched.stat()
        _, root = watched.look()
    finally:
        for file in held:
            os.unlink(file.name)
            file.close()
        (folder / "2.0").unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    # Programs of the same user with another version of uroce may run on this machine.
    lines = [line for line in done.stderr.splitlines() if "/1." in line or "/2.0:" in line]
    assert len(lines) == len(spoiled) + 1, done.stderr
    for words in (*spoiled, "a symbolic link"):
        assert sum(words in line for line in lines) == 1, done.stderr
    assert shown["pid"] in [p["pid"] for p in root["processes"]], root
    assert len(root["unreadable"]) >= len(lines), root["unreadable"]


@contextlib.contextmanager
def watch(runner, host):
    watched = Watched(runner, host)
    try:
        yield watched
    finally:
        watched.end_all()


CASES = (waiting_program_is_shown_with_its_queue_pair, pair_in_traffic_counts_what_the_peer_counts,
         watching_tells_rates, program_that_ends_is_not_shown_any_more,
         file_of_a_program_that_was_killed_is_removed, program_may_choose_not_to_be_shown,
         child_of_fork_leaves_the_file_to_its_parent, hostile_files_do_no_harm)


if __name__ == "__main__":
    sys.exit(run_apps.run_functions(__doc__.splitlines()[0], CASES, watch))
