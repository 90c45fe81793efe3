#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Plays packet scripts against a uroce process on another host: examples/script_responder.c over
`uroce run` in one network namespace, `uroce script --peer` in another.

One line a script, as `uroce script` prints them. Exit status 1 when something failed, 77 when it
could not be run.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import places
import programs
import run_apps

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
EXACT_TIMERS = (("UROCE_TIMEOUT_FLOOR_MS", "0"),)
PORT = 18600
# Each says something that only a whole stack can show: sockets, timers, ICRCs, verbs.
CHOSEN = """
responder/send_of_three_packets responder/gap responder/duplicate_send responder/read_three_packets
responder/read_again_from_the_middle responder/atomic_again responder/no_receive responder/bad_icrc
responder/write_wrong_key responder/write_past_the_end responder/padding responder/srq
responder/send_invalidate responder/unknown_opcode requester/send_three_packets
requester/rnr_nak requester/nak_access requester/read_response_lost_in_the_middle
requester/fetch_and_add uc/message_with_a_hole ud/receive ud/wrong_qkey ud/requester
""".split()


def play(runner, place, scripts, family, options):
    """Returns the exit status of the player, whose lines are shown."""
    responder = runner.start(place.server, [str(runner.responder), str(PORT)], EXACT_TIMERS)
    try:
        deadline = time.monotonic() + places.HANGING_S
        while "ready" not in responder.output:
            if not responder.alive() or time.monotonic() > deadline:
                raise programs.Failure("the responder does not start:\n" + responder.output)
            time.sleep(0.01)
        words = [*place.client.enter, runner.uroce, "script", "--peer",
                 "%s,%d" % (getattr(place.server, family), PORT), *options, *scripts]
        return subprocess.run(words, check=False).returncode
    finally:
        responder.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--all", action="store_true", help="every script, not the chosen ones")
    parser.add_argument("--family", choices=("ipv4", "ipv6"), help="only over this one")
    parser.add_argument("options", nargs="*", help="more options of uroce script, behind --")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    folder = ROOT / "tests/scripts"
    scripts = [str(folder)] if arguments.all else [str(folder / name) + ".roce" for name in CHOSEN]
    status = 0
    try:
        with places.Namespaces() as namespaces, tempfile.TemporaryDirectory() as scratch:
            place = places.pair(namespaces)
            runner = programs.Runner(run_apps.stage(build, places.drop_words(), scratch))
            runner.responder = build / "examples/script_responder"
            for family in [arguments.family] if arguments.family else ["ipv4", "ipv6"]:
                print("over %s:" % family, flush=True)
                status |= play(runner, place, scripts, family, arguments.options)
    except places.Unavailable as reason:
        print("skipped  all: %s" % reason)
        return SKIPPED
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
