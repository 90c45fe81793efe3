#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""TCP programs that know nothing of RDMA, over the distribution's librspreload.so and uroce.

What shows that it was RDMA: nobody listens on the kernel's TCP port meanwhile.
"""
import contextlib
import filecmp
import glob
import os
import pathlib
import re
import sys
import tempfile
import time

import programs
import run_apps

PRELOAD = glob.glob("/usr/lib/*/rsocket/librspreload.so")
LEN = 20_000_000
LOSS = (("UROCE_FAULT", "drop=0.5%,seed=7"), programs.PATIENCE_AT_LOSS)


class Bench:
    """Starts programs on both sides of the loopback address."""

    def __init__(self, runner, host, folder):
        self.runner = runner
        self.host = host
        self.folder = folder
        self.port = programs.free_port()
        self.started = []

    def start(self, line, env=(), preload=True):
        env = [("LD_PRELOAD", PRELOAD[0]), *env] if preload else env
        process = self.runner.start(self.host, ["sh", "-c", "exec " + line], env)
        self.started.append(process)
        return process

    def files(self):
        """One of random bytes, and where its copy comes to be."""
        source, copy = self.folder / "source", self.folder / "copy"
        source.write_bytes(os.urandom(LEN))
        return source, copy

    def ask(self, line, env=(), preload=True):
        """Starts a client until it is not refused; the server may not listen yet."""
        deadline = time.monotonic() + programs.HANGING_S
        while True:
            client = self.start(line, env, preload)
            if client.wait(deadline) == 0:
                return client
            assert time.monotonic() < deadline, "no end:\n" + programs.told(self.started[:1] + [client])
            assert re.search("refused|(unable to|couldn't) connect", client.output, re.I), client.output
            time.sleep(0.05)

    def expect_no_tcp(self, server):
        assert server.alive(), server.output
        assert not programs.listens(server.pid, self.port), "the server listens on TCP"


@contextlib.contextmanager
def bench(runner, host):
    with tempfile.TemporaryDirectory(prefix="uroce-preload-") as folder:
        os.chmod(folder, 0o777)
        made = Bench(runner, host, pathlib.Path(folder))
        try:
            yield made
        finally:
            for process in made.started:
                process.kill()


def measure(made, options, env=(), address="127.0.0.1"):
    server = made.start("iperf3 -s -B %s -p %d" % (address, made.port), env)
    client = made.ask("iperf3 -c %s -p %d %s" % (address, made.port, options), env)
    made.expect_no_tcp(server)
    received = re.findall(r"^\[.*\s([\d.]+) MBytes .*receiver", client.output, re.M)
    assert received and all(float(number) > 0 for number in received), client.output
    return client


def expect_losses(client):
    assert re.search(r"packets seen, [1-9]\d* hit", client.output), client.output


def iperf3_sends(made):
    measure(made, "-n 20M")


def iperf3_receives_on_two_streams(made):
    measure(made, "-n 10M -R -P 2")


def iperf3_sends_although_packets_are_lost(made):
    expect_losses(measure(made, "-n 4M", LOSS))


def iperf3_sends_over_ipv6(made):
    measure(made, "-n 10M", address="::1")


def expect_copy(made, source, copy):
    """All of it is there before long, and the same."""
    deadline = time.monotonic() + programs.HANGING_S
    while not copy.exists() or copy.stat().st_size != LEN:
        assert time.monotonic() < deadline, programs.told([made.started[0], made.started[-1]])
        time.sleep(0.1)
    assert filecmp.cmp(source, copy, shallow=False), "the copy is another"


def send_a_file_over_tls(made, env=()):
    """TLS authenticates each record, and the files are compared."""
    source, copy = made.files()
    secret = "-psk 0123456789abcdef -tls1_2 -quiet"
    server = made.start("sleep 1000 | exec openssl s_server -accept 127.0.0.1:%d -nocert %s > %s"
                        % (made.port, secret, copy), env)
    client = made.ask("openssl s_client -connect 127.0.0.1:%d %s -no_ign_eof -nocommands < %s"
                      % (made.port, secret, source), env)
    expect_copy(made, source, copy)
    made.expect_no_tcp(server)
    return client


def a_file_over_tls_arrives_whole(made):
    send_a_file_over_tls(made)


def a_file_over_tls_arrives_whole_although_packets_are_lost(made):
    expect_losses(send_a_file_over_tls(made, LOSS))


def netcat_copies_a_file_although_packets_are_lost(made):
    """It takes its sockets' numbers for low ones. That of OpenBSD calls accept4, which the library lets through."""
    source, copy = made.files()
    made.start("nc.traditional -l -s 127.0.0.1 -p %d > %s" % (made.port, copy), LOSS)
    client = made.ask("nc.traditional -v -n -q 1 127.0.0.1 %d < %s" % (made.port, source), LOSS)
    expect_copy(made, source, copy)
    expect_losses(client)


def curl_gets_a_file_from_socat_although_packets_are_lost(made):
    source, copy = made.files()
    page = made.folder / "page"
    page.write_bytes(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % LEN + source.read_bytes())
    server = made.start("socat TCP-LISTEN:%d,bind=127.0.0.1 'OPEN:%s,rdonly!!OPEN:/dev/null,wronly'"
                        % (made.port, page), LOSS)
    made.ask("curl -q -sS -o %s http://127.0.0.1:%d/" % (copy, made.port), LOSS)
    expect_copy(made, source, copy)
    assert server.wait(time.monotonic() + programs.HANGING_S) == 0, server.output
    expect_losses(server)


def copy_a_file(made, env=()):
    """rcopy speaks rsocket itself; over IPv4 only: its server listens at 0.0.0.0, its argument has no place for colons."""
    source, copy = made.files()
    made.start("rcopy -p %d" % made.port, env, preload=False)
    client = made.ask("rcopy %s 127.0.0.1:%s -p %d" % (source, copy, made.port), env, preload=False)
    assert filecmp.cmp(source, copy, shallow=False), "the copy is another"
    return client


def rcopy_copies_a_file(made):
    copy_a_file(made)


def rcopy_copies_a_file_although_packets_are_lost(made):
    expect_losses(copy_a_file(made, LOSS))


FORKS = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
# Neither SOCK_CLOEXEC nor accept4, with which the preload library does nothing of this.
listening = socket.socket(fileno=libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind(("127.0.0.1", int(sys.argv[1])))
listening.listen()
for i in range(2):
    fd = libc.accept(listening.fileno(), None, None)
    assert fd >= 0
    if os.fork() == 0:
        with socket.socket(fileno=fd) as peer:
            while piece := peer.recv(100000):
                peer.sendall(piece)
        os._exit(0)
    os.close(fd)
for i in range(2):
    assert os.wait()[1] == 0
"""
ASKS = """
import ctypes, socket, sys
fd = ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_STREAM, 0)
with socket.socket(fileno=fd) as peer:
    peer.connect(("127.0.0.1", int(sys.argv[1])))
    for i in range(100):
        peer.sendall(bytes([i]) * 5000)
        left = 5000
        while left > 0:
            piece = peer.recv(left)
            assert piece == bytes([i]) * len(piece) and piece
            left -= len(piece)
"""
SEMAPHORE = pathlib.Path("/dev/shm/sem.rsocket_fork")


def a_server_forks_for_each_connection(made):
    """The preload library opens the child's socket over RDMA when it first reads or writes."""
    # A process that is killed leaves the library's semaphore taken.
    if SEMAPHORE.exists() and SEMAPHORE.stat().st_uid == os.geteuid():
        SEMAPHORE.unlink()
    env = [("RDMAV_FORK_SAFE", "1")]
    for name, text in ("forks.py", FORKS), ("asks.py", ASKS):
        (made.folder / name).write_text(text)
    server = made.start("python3 %s/forks.py %d" % (made.folder, made.port), env)
    for _ in range(2):
        made.ask("python3 %s/asks.py %d" % (made.folder, made.port), env)
    assert server.wait(time.monotonic() + programs.HANGING_S) == 0, server.output


CASES = [rcopy_copies_a_file, rcopy_copies_a_file_although_packets_are_lost,
         a_server_forks_for_each_connection, iperf3_sends, iperf3_receives_on_two_streams, iperf3_sends_over_ipv6,
         iperf3_sends_although_packets_are_lost, a_file_over_tls_arrives_whole,
         a_file_over_tls_arrives_whole_although_packets_are_lost, netcat_copies_a_file_although_packets_are_lost,
         curl_gets_a_file_from_socat_although_packets_are_lost]

if __name__ == "__main__":
    if not PRELOAD:
        print("skipped: librspreload.so is not there")
        sys.exit(run_apps.SKIPPED)
    sys.exit(run_apps.run_functions(__doc__.splitlines()[0], CASES, bench))
