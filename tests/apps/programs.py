# SPDX-License-Identifier: BSD-2-Clause
"""Runs stock programs over `uroce run`, alone or as a pair, with a hard time limit."""
import errno
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

import places

LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp

# A peer on a busy machine may wait for its core longer than the retries of stock programs last, half
# a second: eight seconds, then. Where packets are lost on purpose, each loss of a last packet costs
# a time-out, and their number is what bounds them.
PATIENCE = {"UROCE_TIMEOUT_FLOOR_MS": "1000"}
PATIENCE_AT_LOSS = ("UROCE_TIMEOUT_FLOOR_MS", "250")

HANGING_S = places.HANGING_S


class Failure(Exception):
    """A run did not get to its end; the text says why."""


class Process:
    """A program with its output collected as it appears: a terminal makes it flush each line."""

    def __init__(self, words, env):
        master, slave = pty.openpty()
        self.words = words
        self._output = []
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave,
                                         stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    @property
    def output(self):
        return b"".join(self._output).decode(errors="replace").replace("\r", "")

    def _read(self, master):
        while True:
            try:
                some = os.read(master, 65536)
            except OSError as error:
                if error.errno != errno.EIO:  # the last writer is gone
                    raise
                break
            if not some:
                break
            self._output.append(some)
        os.close(master)

    def alive(self):
        return self._process.poll() is None

    def wait(self, deadline):
        """Returns the exit status, or None when the time is over."""
        try:
            status = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(5)
        return status

    def kill(self):
        if self.alive():
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(5)


def listens(pid, port):
    """Does somebody listen on this TCP port in the network namespace of pid?"""
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/%d/net/%s" % (pid, table), encoding="ascii") as lines:
                for line in lines:
                    words = line.split()
                    if words[3] == LISTEN and words[1].endswith(":%04X" % port):
                        return True
        except OSError:
            pass
    return False


_ports_given = set()


def free_port():
    """A TCP port that nobody uses now, nor was told of before.

    Who was told of a port may still wait there: it would meet the partner of another.
    """
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _ports_given:
            _ports_given.add(port)
            return port


class Runner:
    """Knows how to start a program at a host, as whom, and over which libraries."""

    def __init__(self, uroce, preload=None, wrap=()):
        """preload: a library that programs load first, as ThreadSanitizer's must be.
        wrap: words before each program's own, such as valgrind and its arguments."""
        self.uroce = uroce
        self.wrap = wrap
        self.extra = {"LD_PRELOAD": preload} if preload else {}
        self._gids = {}

    def start(self, host, words, env=(), user=None):
        full = {**os.environ, **PATIENCE, **self.extra, **dict(host.env), **dict(env)}
        drop = places.drop_words(host.user if user is None else user,
                                 "net_raw" if full.get("UROCE_RAW") == "on" else None)
        return Process([*host.enter, *drop, self.uroce, "run", "--devices", host.netdev, "--",
                        *self.wrap, *words], full)

    def hold_port(self, host):
        """Starts a server of the host's other user, whom nobody will ask. Returns the process."""
        port = free_port()
        process = self.start(host, ["ibv_rc_pingpong", "-g", "0", "-p", str(port)],
                             user=host.holder)
        deadline = time.monotonic() + HANGING_S
        while not listens(process.pid, port):
            if not process.alive() or time.monotonic() > deadline:
                process.kill()
                raise Failure("the other user's server does not start\n" + process.output)
            time.sleep(0.01)
        return process

    def run_alone(self, host, words, env=(), timeout=HANGING_S):
        """Returns (output, exit status)."""
        process = self.start(host, words, env)
        try:
            status = process.wait(time.monotonic() + timeout)
        finally:
            process.kill()
        if status is None:
            raise Failure("not finished after %d s\n%s" % (timeout, told([process])))
        return process.output, status

    def gid_index(self, host, family):
        """Index of the host's IPv4 or IPv6 address in the GID table."""
        if host not in self._gids:
            output, status = self.run_alone(host, ["ibv_devinfo", "-v"])
            gids = dict((gid, index) for index, gid in
                        re.findall(r"GID\[\s*(\d+)\]:\s+([^\s,]+)", output))
            if status != 0 or not gids:
                raise Failure("ibv_devinfo shows no GIDs (status %s)\n%s" % (status, output))
            self._gids[host] = gids
        gid = "::ffff:" + host.ipv4 if family == "ipv4" else host.ipv6
        if gid not in self._gids[host]:
            raise Failure("%s is not among the GIDs %s" % (gid, list(self._gids[host])))
        return self._gids[host][gid]

    def run_pair(self, place, server_words, client_words, port, env=(), timeout=HANGING_S):
        """Returns ((output, status) of the server, the same of the client)."""
        deadline = time.monotonic() + timeout
        holders = [self.hold_port(host) for host in (place.server, place.client)
                   if host.holder is not None]
        processes = [self.start(place.server, server_words, env)]
        try:
            server = processes[0]
            while server.alive() and not listens(server.pid, port):
                if time.monotonic() > deadline:
                    raise Failure("the server does not listen\n" + told(processes))
                time.sleep(0.01)
            processes.append(self.start(place.client, client_words, env))
            statuses = [process.wait(deadline) for process in reversed(processes)]
            if None in statuses:
                raise Failure("not finished after %d s\n%s" % (timeout, told(processes)))
        finally:
            for process in [*processes, *holders]:
                process.kill()
        return (server.output, statuses[1]), (processes[1].output, statuses[0])


    def run_asking(self, place, server_words, client_words, refused, env=(), stays=False, ready=""):
        """As run_pair, for servers that cannot be seen to listen: the first client is started when
        the server's output matches ready, and again while its own matches refused. A server that
        stays is ended with its client.
        """
        deadline = time.monotonic() + HANGING_S
        server = self.start(place.server, server_words, env)
        client = None
        try:
            while not re.search(ready, server.output) and server.alive():
                if time.monotonic() > deadline:
                    raise Failure("the server does not say %s\n%s" % (ready, told([server])))
                time.sleep(0.01)
            while client is None:
                client = self.start(place.client, client_words, env)
                status = client.wait(deadline)
                if status not in (0, None) and server.alive() and refused.search(client.output):
                    client = None
                    time.sleep(0.05)
            server_status = 0 if stays else server.wait(deadline)
            if None in (status, server_status):
                raise Failure("not finished after %d s\n%s" % (HANGING_S, told([server, client])))
        finally:
            for process in filter(None, (server, client)):
                process.kill()
        return (server.output, server_status), (client.output, status)


def told(processes):
    """The command lines and what they printed."""
    text = []
    for side, process in zip(("server", "client"), processes):
        state = "running" if process.alive() else "ended"
        text.append("--- %s (%s): %s" % (side, state, shlex.join(process.words)))
        text.append(process.output.rstrip())
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit("this is a part of run_apps.py")
