# SPDX-License-Identifier: BSD-2-Clause
"""Runs verified_transfer: one server and its clients, anywhere, and reads what they counted."""
import dataclasses
import pathlib
import re
import shutil
import sys
import time

import programs
import run_apps

PEER_GONE = 3  # status of one whose partner died

# A busy machine makes an answer late: that is no loss, and must not look like one.
UNHURRIED = (("UROCE_TIMEOUT_FLOOR_MS", "2000"),)
COUNTED = (("UROCE_LOG", "info"),)

# What says that something was lost or came in the wrong order. Not "send_refused": the last ACK may
# find that the other process has ended already.
LOSSES = ("socket_overflow", "hand_over_full", "stray_dropped", "retransmitted_packets",
          "out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err",
          "rnr_nak_retry_err", "icrc_error", "send_unreachable", "send_failed")


def stage(build, drop, scratch):
    """Returns (uroce, verified_transfer) where an ordinary user can run them."""
    uroce = run_apps.stage(build, drop, scratch)
    program = pathlib.Path(scratch) / "verified_transfer"
    pathlib.Path(scratch).chmod(0o755)
    shutil.copy(build / "tests/apps/verified_transfer/verified_transfer", program)
    return uroce, str(program)


@dataclasses.dataclass(frozen=True)
class Meeting:
    """A server at one host, clients at others (one or several times the same)."""

    server: object      # programs.Host
    clients: tuple
    address: str        # of the server, for TCP
    gids: tuple         # of the server, then of each client
    options: str = ""
    env: tuple = ()


def of_place(place, options="", env=(), clients=1, family="ipv4"):
    """The meeting of a place's server with so many processes at its client."""
    server, client = (getattr(host, family) for host in (place.server, place.client))
    return Meeting(place.server, (place.client,) * clients, server, (server,) + (client,) * clients,
                   options, env)


class Transfers:
    def __init__(self, runner, program):
        self.runner = runner
        self.program = program

    def words(self, meeting, index, port):
        words = [self.program, "--port", str(port), "--gid", meeting.gids[index],
                 *meeting.options.split()]
        if index > 0:
            return words + [meeting.address]
        return words + ["--clients", str(len(meeting.clients))]

    def start_server(self, meeting, port):
        process = self.runner.start(meeting.server, self.words(meeting, 0, port), meeting.env)
        deadline = time.monotonic() + programs.HANGING_S
        while process.alive() and not programs.listens(process.pid, port):
            if time.monotonic() > deadline:
                process.kill()
                raise programs.Failure("the server does not listen\n" + process.output)
            time.sleep(0.005)
        return process

    def start(self, meeting):
        """Returns the processes, the server first."""
        port = programs.free_port()
        processes = [self.start_server(meeting, port)]
        for index, host in enumerate(meeting.clients, 1):
            processes.append(self.runner.start(host, self.words(meeting, index, port), meeting.env))
        return processes

    def finish(self, processes, timeout=programs.HANGING_S):
        """Waits for the end of all. Returns [(output, status)]."""
        deadline = time.monotonic() + timeout
        try:
            statuses = [process.wait(deadline) for process in processes]
            if None in statuses:
                raise programs.Failure("not finished after %d s\n%s" % (timeout, told(processes)))
        finally:
            for process in processes:
                process.kill()
        return [(process.output, status) for process, status in zip(processes, statuses)]

    def run(self, meeting):
        """All must verify all. Returns the outputs, the server's first."""
        processes = self.start(meeting)
        results = self.finish(processes)
        for _, status in results:
            if status != 0:
                raise programs.Failure("a process ended with status %d\n%s" %
                                       (status, told(processes)))
        for output, _ in results:
            assert operations(output) > 0, "nothing was verified:\n" + output
        return [output for output, _ in results]


def told(processes):
    return "\n".join("--- %s\n%s" % (" ".join(process.words), process.output.rstrip())
                     for process in processes)


def operations(output):
    found = re.search(r"^verified (\d+) operations", output, re.M)
    return int(found.group(1)) if found else 0


def slot(output):
    return int(re.search(r"slot (\d+)$", output, re.M).group(1))


def counter(output, name):
    """Value of a counter that a process told (UROCE_LOG=info); those that are 0 are not told."""
    found = re.search(r" (\d+) %s " % name, output)
    return int(found.group(1)) if found else 0


def expect_no_loss(outputs):
    for output in outputs:
        assert counter(output, "rcv_packets") > 0, "no counters are told:\n" + output
        for name in LOSSES:
            assert counter(output, name) == 0, "%d %s\n%s" % (counter(output, name), name, output)


def run_cases(cases, say=print):
    """Runs (name, function) pairs, a line for each. Returns how many failed."""
    failed = 0
    for name, function in cases:
        begun = time.monotonic()
        try:
            function()
            say("ok       %s (%.1f s)" % (name, time.monotonic() - begun))
        except (AssertionError, programs.Failure) as reason:
            failed += 1
            say("FAILED   " + name)
            say("\n".join("    " + line for line in str(reason).splitlines()))
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit("this is a part of run_hosts.py and run_churn.py")
