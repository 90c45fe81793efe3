#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/compatibility.md: which programs were run over uroce, and what came of it.

What is run follows from the tables of cases; what came of it is what the tests left in the build
folder (facts.py); versions are those of the packages that are installed. A row says "works" when all
its cases were run and passed, and only then. One thing at a time:

  --check   the page lists what the tables list, and all of it works
  --facts   all that the page lists was run in this build and passed; status 77: not all was run
  --write   writes the page; what was not run in this build is as the page said, until --facts finds
            otherwise
"""
import argparse
import pathlib
import subprocess
import sys

import facts
import run_apps

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/compatibility.md"

PLACES = {"lo": "one host", "interface": "one host", "pair": "two hosts", "pair1500": "two hosts",
          "users": "two users", "guests": "two users"}
FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6"}

# The beginning of a program's name: its package, and what there is to know or to set.
PROGRAMS = {
    "ibv_dev": ("ibverbs-utils", ""),
    "ibv_": ("ibverbs-utils", "`-g`: the index of a GID, which `uroce devices` lists"),
    "ib_": ("perftest", "`-R`, which knows IPv4 addresses only, or `-x`: the index of a GID"),
    "python3 pyverbs": ("python3-pyverbs", "its own suite: `tests/pyverbs/`"),
    "mckey": ("rdmacm-utils", "for IPv6 another interface than lo, which has no groups there; for a lost datagram it waits for ever, over any adapter"),
    "fi_": ("libfabric-bin", "an interface other than lo, which libfabric leaves out"),
    "qperf": ("qperf", "`-cm 1`; its tests of UC and UD are not for Ethernet"),
    "fio": ("fio", "IPv4; `--iodepth` of the receiver: all that is under way, for fio asks for no RNR retries"),
    "ucx": ("ucx-utils", "for RDMA and nothing else `UCX_TLS=rc,self` or `ud,self`"),
    "Open MPI over UCX": ("openmpi-bin", "`--mca pml ucx`"),
    "Open MPI over libfabric": ("openmpi-bin", "`--mca pml cm --mca mtl ofi --mca osc ^rdma,ucx`, and as provider `verbs;ofi_rxm`"),
    "MPICH over UCX": ("mpich", ""),
    "iperf3": ("iperf3", "`LD_PRELOAD` of librspreload.so"),
    "nc.traditional": ("netcat-traditional", "`LD_PRELOAD` of librspreload.so; netcat-openbsd calls accept4, which that library does not have"),
    "curl": ("curl", "`LD_PRELOAD` of librspreload.so, on both sides"),
    "rcopy": ("rdmacm-utils", "IPv4: its server listens at 0.0.0.0, and its argument has no place for an address with colons"),
    "udaddy": ("rdmacm-utils", "with loss: of messages that set it up; for a lost datagram it waits for ever, over any adapter"),
    "tgtd": ("tgt", "`tgtadm --lld iser`, and the initiator's name (`-Q`); libiscsi connects once in a process"),
    "openssl": ("openssl", "`LD_PRELOAD` of librspreload.so"),
    "udpong": ("rdmacm-utils", "`-b` for the server, which is at ::1 otherwise; on a busy machine its default run does not end, over kernel sockets (`-T s`) either: its client sends late answers again, and these are never used up; `-C` for a short run"),
    "": ("rdmacm-utils", ""),
}

# Where cases are functions: program, what they run, the test, the functions.
FUNCTIONS = (
    ("ucx_info", "lists rc_verbs and ud_verbs", "run_ucx", ("transports_are_listed",)),
    ("ucx_perftest", "tags, streams, active messages, put, get, atomics, over RC and UD; IPv4, IPv6; with loss",
     "run_ucx", ("small_messages_and_large", "one_sided", "atomics", "over_ipv6", "with_loss")),
    ("Open MPI over UCX", "four ranks: point to point, collectives, one-sided, each byte checked, over RC and UD; with loss",
     "run_ucx", ("open_mpi", "open_mpi_with_loss")),
    ("Open MPI over libfabric", "four ranks: point to point, collectives, one-sided, each byte checked; with loss",
     "run_ucx", ("open_mpi_over_libfabric",)),
    ("MPICH over UCX", "four ranks: point to point, collectives, one-sided, each byte checked, over RC and UD; with loss",
     "run_ucx", ("mpich", "mpi_with_loss")),
    ("iperf3", "both directions, one stream and two; IPv4, IPv6; with loss", "run_rspreload",
     ("iperf3_sends", "iperf3_receives_on_two_streams", "iperf3_sends_over_ipv6",
      "iperf3_sends_although_packets_are_lost")),
    ("nc.traditional", "a file, compared; with loss", "run_rspreload", ("netcat_copies_a_file_although_packets_are_lost",)),
    ("curl, socat", "a file by HTTP, compared; with loss", "run_rspreload",
     ("curl_gets_a_file_from_socat_although_packets_are_lost",)),
    ("tgtd, libiscsi-bin", "a disk over iSER: inquiry, reads, writes, verification", "run_iser",
     ("the_disk_says_what_it_is", "what_is_read_is_what_is_there", "what_is_written_is_in_the_file")),
    ("openssl", "a file over TLS, compared; with loss", "run_rspreload",
     ("a_file_over_tls_arrives_whole", "a_file_over_tls_arrives_whole_although_packets_are_lost")),
    ("rcopy", "a file, compared; with loss", "run_rspreload",
     ("rcopy_copies_a_file", "rcopy_copies_a_file_although_packets_are_lost")),
)

HEADING = """# Compatibility

Programs as Debian 12 packages them, under `uroce run`: what the tests in `tests/apps/` ran, and what came of it. The table is
written by these tests (`tests/apps/compatibility.py`); a row says that a program works when each of its cases passed, and
`make test` fails when the page says something else than they do. Beside `uroce run` a program needs what it would need over any RoCE adapter.

| program | package | version | what was run | result | to know or to set |
|---|---|---|---|---|---|
"""
WHAT, RESULT = 3, 4  # columns


def about(program):
    return next(value for start, value in PROGRAMS.items() if program.startswith(start))


def described(rows):
    """What these (place, case) are, in words."""
    faults = [value for _, case in rows for name, value in case.env if name == "UROCE_FAULT"]
    lacking = any(name == "UROCE_GSO" for _, case in rows for name, _ in case.env)
    parts = [", ".join(dict.fromkeys(PLACES[place] for place, _ in rows)),
             ", ".join(dict.fromkeys(FAMILIES[case.family] for _, case in rows if case.pair)),
             "with loss" if any("drop" in value for value in faults) else "",
             "kernels without GSO, GRO or BPF" if lacking else ""]
    return "; ".join(part for part in parts if part)


def table():
    """{program: (what is run, the keys of its facts)} in the order of the page."""
    cases = {}
    for group, parts in run_apps.GROUPS.items():
        if group == "raw":  # programs of other groups
            continue
        for place, rows in parts:
            for case in rows:
                program = case.program + (", " + case.partner if case.partner else "")
                cases.setdefault(program, []).append((group, place, case))
    rows = {program: (described([(place, case) for _, place, case in of_program]),
                      [(group, "%s/%s" % (place, case.name)) for group, place, case in of_program])
            for program, of_program in cases.items()}
    for program, what, test, functions in FUNCTIONS:
        rows[program] = (what, [(test, function) for function in functions])
    return dict(sorted(rows.items(), key=lambda row: (about(row[0])[0], row[0].lower())))


def page_rows():
    """{program: its cells} on the page as it is."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return {cells[0]: cells for cells in rows[1:]}


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                          check=False)
    return done.stdout or "not installed"


def result(keys, known, cells):
    failed = [case for test, case in keys if known.get((test, case)) is False]
    if failed:
        return "fails: " + failed[0]
    if all(key in known for key in keys):
        return "works"
    return cells[RESULT] if cells else "not run"


def write(known):
    old = page_rows()
    text = HEADING
    for program, (what, keys) in table().items():
        package, to_know = about(program)
        text += "| %s |\n" % " | ".join((program, package, version(package), what,
                                         result(keys, known, old.get(program, [])), to_know))
    PAGE.write_text(text, encoding="utf-8")


def check():
    """What on the page is not so. Exit status."""
    rows = page_rows()
    wrong = ["%s: not what is run: %s" % (program, what) for program, (what, _) in table().items()
             if rows.get(program, [])[WHAT:RESULT] != [what]]
    wrong += ["%s: %s" % (program, cells[RESULT]) for program, cells in rows.items() if cells[RESULT] != "works"]
    wrong += ["%s: no test runs it" % program for program in rows.keys() - table().keys()]
    for line in wrong:
        print("docs/compatibility.md: " + line)
    if wrong:
        print("run the tests of these, then tests/apps/compatibility.py --build BUILD --write")
    return 1 if wrong else 0


def compare(known):
    """Whether all that the page says was seen in this build. Exit status."""
    keys = [key for _, row in table().values() for key in row]
    failed = [key for key in keys if known.get(key) is False]
    for test, case in failed:
        print("failed: %s: %s" % (test, case))
    print("%d of %d cases were run" % (sum(key in known for key in keys), len(keys)))
    if failed:
        return 1
    return 0 if all(key in known for key in keys) else run_apps.SKIPPED


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("check", "facts", "write"):
        what.add_argument("--" + name, action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        write(facts.read(arguments.build))
        return 0
    return check() if arguments.check else compare(facts.read(arguments.build))


if __name__ == "__main__":
    sys.exit(main())
