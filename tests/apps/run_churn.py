#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Many processes on one address, started and killed, while others transfer and verify.

Exit status 0: survivors saw no error, and what the dead held is free again; 77: it could not be run.
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import places
import programs
import transfers

SKIPPED = 77
VICTIM_PAIRS = 8
SURVIVOR_PAIRS = 2
SLOTS_AT_ONCE = 64  # sockets of so many processes are made together
CROWD = 64
ROCE_PORT = "12B7"  # 4791


def sockets_on_the_port(pid):
    """How many sockets on the RoCE port the network namespace of pid has."""
    count = 0
    for table in ("udp", "udp6"):
        with open("/proc/%d/net/%s" % (pid, table), encoding="ascii") as lines:
            count += sum(1 for line in lines if line.split()[1].endswith(":" + ROCE_PORT))
    return count


def sending_sockets(pid):
    """How many sockets the RoCE annex's range of source ports has."""
    count = 0
    for table in ("udp", "udp6"):
        with open("/proc/%d/net/%s" % (pid, table), encoding="ascii") as lines:
            next(lines)
            count += sum(1 for line in lines if int(line.split()[1].rpartition(":")[2], 16) >= 0xc000)
    return count


class Victims:
    """Pairs that transfer until one of them, or both, are killed."""

    def __init__(self, own, place, dice):
        self.own = own
        self.meeting = transfers.of_place(place, "--seconds 600 --qps 2 --size 8192 --patience 5 --rest 5000")
        self.dice = dice
        self.pairs = [self._start() for _ in range(VICTIM_PAIRS)]
        self.started = 2 * VICTIM_PAIRS
        self.widowed = []

    def _start(self):
        """Nobody waits for a server that may be killed before it listens: its client does."""
        port = programs.free_port()
        return [self.own.runner.start(host, self.own.words(self.meeting, index, port))
                for index, host in enumerate((self.meeting.server, *self.meeting.clients))]

    def _bury(self, pair, chosen):
        for process in chosen:
            process.kill()
        self.widowed += [process for process in pair if process not in chosen]

    def _watch_widowed(self, patience=0):
        """They end by themselves, and say why; those who wait for a partner that never came too."""
        for process in list(self.widowed):
            status = process.wait(time.monotonic() + patience)
            if status is None and patience == 0:
                continue
            self.widowed.remove(process)
            process.kill()
            assert status == transfers.PEER_GONE or "nobody listens" in process.output, \
                "whose partner was killed ends with status %s\n%s" % (status, transfers.told([process]))

    def strike(self):
        """Kills one or both of a pair, and starts another pair in its place."""
        index = self.dice.randrange(VICTIM_PAIRS)
        pair = self.pairs[index]
        self._bury(pair, self.dice.choice((pair[:1], pair[1:], pair)))
        self.pairs[index] = self._start()
        self.started += 2
        self._watch_widowed()

    def end(self):
        for pair in self.pairs:
            self._bury(pair, pair)
        self._watch_widowed(patience=programs.HANGING_S)


def survivors_see_nothing(own, place, seconds, seed):
    """Returns how many processes were started."""
    dice = random.Random(seed)
    options = "--seconds 3600 --qps 4 --size 16384 --rest 1000"
    survivors = [own.start(transfers.of_place(place, options)) for _ in range(SURVIVOR_PAIRS)]
    pid = survivors[0][0].pid
    victims = Victims(own, place, dice)
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(dice.uniform(0, 0.03))
        victims.strike()
    victims.end()
    for pair in survivors:
        assert all(process.alive() for process in pair), transfers.told(pair)
    check_what_is_in_use(pid)
    for pair in survivors:
        for process in pair:
            os.kill(process.pid, signal.SIGTERM)
        for (output, status) in own.finish(pair):
            assert status == 0 and transfers.operations(output) > 0, transfers.told(pair)
    return victims.started


def check_what_is_in_use(pid):
    """With the survivors alone: as much as if nobody else had ever been there."""
    families = 2
    holding = sockets_on_the_port(pid)
    assert holding <= families * (SLOTS_AT_ONCE + 1), "%d sockets on the port" % holding
    sending = sending_sockets(pid)
    limit = 2 * SURVIVOR_PAIRS * 16
    assert sending <= limit, "%d sending sockets of %d processes" % (sending, 2 * SURVIVOR_PAIRS)


def a_new_process_gets_a_low_slot(own, place):
    for output in own.run(transfers.of_place(place, "--ops 8")):
        assert transfers.slot(output) <= SLOTS_AT_ONCE, output


def start_together(own, meeting, port):
    """All processes stand ready, and begin when the returned pipe is closed."""
    read_end, write_end = os.pipe()
    crowd = []
    for index, host in enumerate((meeting.server, *meeting.clients)):
        words = ["sh", "-c", 'read -r _; exec "$@"', "sh", own.runner.uroce, "run", "--",
                 *own.words(meeting, index, port)]
        crowd.append(subprocess.Popen(
            [*host.enter, *places.drop_words(), *words], stdin=read_end, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, **programs.PATIENCE)))
    os.close(read_end)
    return crowd, write_end


def all_of_a_crowd_get_a_slot(own, place):
    meeting = transfers.of_place(place, "--ops 4 --size 1000", clients=CROWD - 1)
    crowd, gate = start_together(own, meeting, programs.free_port())
    time.sleep(0.5)  # all wait at the gate; one that comes late is as good
    os.close(gate)
    slots = set()
    try:
        for process in crowd:
            output, _ = process.communicate(timeout=programs.HANGING_S)
            assert process.returncode == 0, output
            slots.add(transfers.slot(output))
    finally:
        for process in crowd:
            process.kill()
            process.wait()
    assert len(slots) == CROWD, "%d processes have %d slots" % (CROWD, len(slots))


def churn(own, place, seconds, seed):
    print("         %d processes were started" % survivors_see_nothing(own, place, seconds, seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31),
                        help="whom to kill when (default: another each time)")
    arguments = parser.parse_args()
    drop = places.drop_words()
    os.environ.pop("LD_LIBRARY_PATH", None)
    print("seed %d" % arguments.seed)
    with tempfile.TemporaryDirectory(prefix="uroce-churn-") as scratch, \
            places.Namespaces() as namespaces:
        place = places.loopback(namespaces)
        if not place.server.enter:
            print("skipped  other programs share this machine's loopback")
            return SKIPPED
        uroce, program = transfers.stage(pathlib.Path(arguments.build).resolve(), drop, scratch)
        own = transfers.Transfers(programs.Runner(uroce), program)
        failed = transfers.run_cases([
            ("64 processes that start in the same instant all get a slot and exchange messages",
             lambda: all_of_a_crowd_get_a_slot(own, place)),
            ("16 processes come and are killed, and those beside them see nothing of it",
             lambda: churn(own, place, arguments.seconds, arguments.seed)),
            ("a process that comes afterwards gets a slot that was used before",
             lambda: a_new_process_gets_a_low_slot(own, place)),
        ])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
