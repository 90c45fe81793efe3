#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the distribution's RDMA programs over uroce: on one address, and between two namespaces.

Each case is a row of cases.py. One line a case: "ok", "FAILED" or "skipped", two spaces or more,
its name. Of a failed case both command lines and all their output follow. Exit status 1 when
something failed, 77 when nothing could be run.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import cm_cases
import facts
import places
import program_cases
import programs

SKIPPED = 77  # meson's word for it
SLOW_S = 3    # worth a word
GROUPS = {**cases.GROUPS, **cm_cases.GROUPS, **program_cases.GROUPS}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--group", action="append", choices=GROUPS,
                        help="only this group; may be repeated")
    parser.add_argument("--place", action="append", choices=places.PLACES, help="only there")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="only cases whose line (place/program arguments) matches")
    parser.add_argument("--preload", metavar="LIB",
                        help="programs load this first: the library of ThreadSanitizer, for a "
                             "build with it")
    parser.add_argument("--wrap", default="", metavar="WORDS",
                        help="put these words before each program: valgrind and its arguments")
    parser.add_argument("--repeat", type=int, default=1, help="run all of it so many times")
    parser.add_argument("--list", action="store_true", help="show the cases, run none")
    parser.add_argument("--verbose", action="store_true", help="show the output of good cases too")
    return parser.parse_args()


def selection(arguments):
    """Yields (group, place name, cases) of what was asked for."""
    for group in arguments.group or GROUPS:
        for place, rows in GROUPS[group]:
            if arguments.place and place not in arguments.place:
                continue
            chosen = [case for case in rows
                      if re.search(arguments.only, "%s/%s" % (place, case.name))]
            if chosen:
                yield group, place, chosen


def readable(drop, folder):
    """Can the user that runs the programs see the libraries there?"""
    return subprocess.run([*drop, "test", "-r", str(folder / "lib/libibverbs.so.1")],
                          check=False).returncode == 0


def stage(build, drop, scratch):
    """Returns the uroce program in a folder that an ordinary user can read: build, or a copy."""
    if not (build / "lib/libibverbs.so.1").exists():
        sys.exit("%s/lib/libibverbs.so.1 is not there: make build" % build)
    if readable(drop, build):
        return str(build / "uroce")
    copy = pathlib.Path(scratch)
    copy.chmod(0o755)
    (copy / "lib").mkdir(mode=0o755)
    shutil.copy(build / "uroce", copy)
    for library in (build / "lib").iterdir():
        shutil.copy(library, copy / "lib")
    return str(copy / "uroce")


def words_of(case, index):
    """Command line of a case; index is the GID's."""
    words = [case.program, *case.arguments.split()]
    if case.program.startswith("ib_"):
        return words + ["-F", "-x", index]
    return words + ["-g", index]


def run_connected(runner, place, case):
    """A pair that meets by RDMA CM. A client that comes too early is refused, and asks again."""
    port = programs.free_port()
    address, own = (getattr(host, case.family) for host in (place.server, place.client))
    server, client = (
        [program, *case.arguments.split(), *words.format(address=address, port=port, own=own).split()]
        for program, words in ((case.partner or case.program, case.serve),
                               (case.program, case.connect)))
    return runner.run_asking(place, server, client, cm_cases.REFUSED, case.env, case.stays, case.ready)


def run_case(runner, place, case):
    """Returns what is wrong with the case, or None, and its output."""
    if case.connect:
        (server_output, server_status), (client_output, client_status) = run_connected(
            runner, place, case)
        run = cases.Run(case, client_output, client_status, server_output, server_status)
    elif not case.pair:
        words = shlex.split(case.program + " " + case.arguments)
        if case.program == "python3 pyverbs":
            words = ["/usr/bin/python3", "-c", cases.PYVERBS]
        output, status = runner.run_alone(place.client, words, case.env)
        run = cases.Run(case, output, status)
    else:
        port = programs.free_port()
        server = words_of(case, runner.gid_index(place.server, case.family)) + ["-p", str(port)]
        client = words_of(case, runner.gid_index(place.client, case.family)) + ["-p", str(port)]
        (server_output, server_status), (client_output, client_status) = runner.run_pair(
            place, server, [*client, place.server.ipv4], port, case.env)
        run = cases.Run(case, client_output, client_status, server_output, server_status)
    fault = cases.trouble(run) or case.expect(run)
    shown = "--- server: status %s\n%s\n--- client: status %s\n%s" % (
        run.server_status, run.server.rstrip(), run.client_status, run.client.rstrip())
    return fault, shown


def run_place(runner, place, rows, verbose):
    """Runs cases at one place. Returns {name: passed}."""
    results = {}
    for case in rows:
        start = time.monotonic()
        try:
            fault, shown = run_case(runner, place, case)
        except programs.Failure as failure:
            fault, _, shown = str(failure).partition("\n")
        took = time.monotonic() - start
        name = "%s/%s" % (place.name, case.name)
        results[name] = not fault
        if fault:
            print("FAILED   %s" % name)
            print("    %s" % fault)
        else:
            print("ok       %s" % name)
        if fault or verbose:
            print("\n".join("    " + line for line in shown.splitlines()))
        if fault or verbose or took > SLOW_S:
            print("    (%.1f s)" % took)
        sys.stdout.flush()
    return results


def run_all(runner, arguments):
    """Returns {group: {name: passed}}."""
    groups = {}
    for group, name, rows in selection(arguments):
        with places.Namespaces() as namespaces:
            try:
                place = places.PLACES[name](namespaces)
            except places.Unavailable as reason:
                for case in rows:
                    print("skipped  %s/%s" % (name, case.name))
                print("    %s (root, or a kernel that lets users make namespaces, can)" % reason)
                continue
            groups.setdefault(group, {}).update(run_place(runner, place, rows, arguments.verbose))
    return groups


def is_usual(arguments):
    """Is it what the facts of a build are about?"""
    return not (arguments.place or arguments.only or arguments.preload or arguments.wrap)


def run_functions(description, cases, make, place="lo"):
    """main() of a file whose cases are functions, at a place of one host. Returns the exit status.

    make(runner, host) is a context manager; each case gets what it gives, its own one.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    build = pathlib.Path(parser.parse_args().build).resolve()
    results = {}
    with tempfile.TemporaryDirectory(prefix="uroce-cases-") as scratch, \
            places.Namespaces() as namespaces:
        uroce = stage(build, places.drop_words(), scratch)
        try:
            host = places.PLACES[place](namespaces).server
        except places.Unavailable as reason:
            print("skipped: %s" % reason)
            return SKIPPED
        for case in cases:
            try:
                with make(programs.Runner(uroce), host) as bench:
                    case(bench)
                results[case.__name__] = True
                print("ok       %s" % case.__name__)
            except (AssertionError, programs.Failure, OSError, subprocess.SubprocessError,
                    ValueError) as fault:
                results[case.__name__] = False
                print("FAILED   %s\n    %s" % (case.__name__, str(fault).replace("\n", "\n    ")))
    facts.note(build, pathlib.Path(sys.argv[0]).stem, results)
    return 0 if all(results.values()) else 1


def main():
    arguments = parse_arguments()
    if arguments.list:
        for _, place, rows in selection(arguments):
            for case in rows:
                print("%s/%s" % (place, case.name))
        return 0
    drop = places.drop_words()
    # Told to stop (meson's time limit), stop what was started too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run_apps: told to stop"))
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory(prefix="uroce-apps-") as scratch:
        runner = programs.Runner(stage(pathlib.Path(arguments.build).resolve(), drop, scratch),
                                 arguments.preload, shlex.split(arguments.wrap))
        passed = []
        for _ in range(arguments.repeat):
            groups = run_all(runner, arguments)
            passed += [one for results in groups.values() for one in results.values()]
            for group, results in groups.items() if is_usual(arguments) else ():
                facts.note(arguments.build, group, results)
    if not passed:
        return SKIPPED
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
