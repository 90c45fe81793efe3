#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the pyverbs suite of the distribution over uroce and compares with what is expected.

The suite is what python3-pyverbs ships in /usr/share/doc/rdma-core/tests; where an image leaves
documentation out, the package is fetched again for it. Each test has a line in expected.tsv:

    outcome <tab> test <tab> evidence <tab> reason

outcome   ok; skip: it skips, for a reason that holds for good; todo: it does not pass yet
evidence  data: it needs packets that arrive; calls: it passes without any, so it says nothing
          about moving data; -: it does not pass
reason    of a skip: words that the test's own message has (alternatives: |), a colon, why that
          is right; an ordinary user and root meet different ones.
          of an ok: the same; a machine may lack what the test needs, then it skips so.
          of a todo: what is missing

Any difference fails: a test that is not listed, one that is gone, one that passes unexpectedly.
One line a difference. Exit status 1 when there is one, 77 when nothing could be run.
"""
import argparse
import collections
import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "apps"))
import places  # noqa: E402
import programs  # noqa: E402
import run_apps  # noqa: E402

SKIPPED = 77
SLOW_S = 5
TODO_LIMIT_S = 5  # for a test that does not pass yet, and might wait for long
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the one that Debian's pyverbs is for
EXPECTED = HERE / "expected.tsv"
OUTCOMES = ("ok", "skip", "todo")

Expectation = collections.namedtuple("Expectation", "outcome evidence reason")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--only", default="", metavar="REGEX", help="only tests that match")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time (default: 2)")
    parser.add_argument("--limit", type=int, default=60, metavar="S", help="seconds for a test")
    parser.add_argument("--place", choices=("interface", "lo"), default="interface")
    parser.add_argument("--nothing", action="store_true",
                        help="let no packet arrive: what passes then must say 'calls'")
    parser.add_argument("--write", action="store_true",
                        help="write what was seen into the expectations, keeping reasons")
    parser.add_argument("--verbose", action="store_true", help="a line for each test")
    return parser.parse_args()


def read_expected():
    rows = {}
    for number, line in enumerate(EXPECTED.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        words = line.split("\t")
        if len(words) != 4 or words[0] not in OUTCOMES or words[1] in rows:
            sys.exit("%s:%d: not a row, or twice: %s" % (EXPECTED, number, line))
        if words[0] != "ok" and not words[3]:
            sys.exit("%s:%d: no reason for %s" % (EXPECTED, number, words[1]))
        rows[words[1]] = Expectation(words[0], words[2], words[3])
    return rows


def write_expected(rows):
    head = [line for line in EXPECTED.read_text().splitlines() if line.startswith("#")]
    lines = ["\t".join((row.outcome, name, row.evidence, row.reason))
             for name, row in sorted(rows.items())]
    EXPECTED.write_text("\n".join(head + lines) + "\n")


def fetch_suite(scratch):
    """The suite from the package, for images that leave documentation out. Its folder."""
    folder = pathlib.Path(scratch) / "package"
    folder.mkdir()
    done = subprocess.run(["apt-get", "download", "python3-pyverbs"], cwd=folder,
                          capture_output=True, text=True, check=False)
    packages = list(folder.glob("*.deb"))
    if not packages:
        sys.exit("%s is not there, and apt-get download python3-pyverbs failed: %s"
                 % (SUITE, done.stderr.strip().splitlines()[-1:]))
    subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(folder)], check=True)
    return folder / SUITE.relative_to("/")


def copy_suite(scratch):
    """Lays the suite out as a package, readable by anybody. Returns the folder that holds it."""
    source = SUITE if (SUITE / "run_tests.py").exists() else fetch_suite(scratch)
    folder = pathlib.Path(scratch) / "suite"
    (folder / "tests").mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".gz":
            with gzip.open(file) as packed:
                (folder / "tests" / file.stem).write_bytes(packed.read())
        else:
            shutil.copy(file, folder / "tests")
    shutil.copy(HERE / "judge.py", folder)
    subprocess.run(["chmod", "-R", "a+rX", scratch], check=True)
    return folder


class Judge:
    """A judge.py under `uroce run`: asked for one test at a time."""

    def __init__(self, uroce, host, folder, arguments, log):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        words = [*host.enter, *places.drop_words(host.user), uroce, "run", "--devices", host.netdev]
        extra = []
        if arguments.nothing:
            words += ["--fault", "drop:dir=in"]
            extra = ["--impatient"]
        else:
            env.update([programs.PATIENCE_AT_LOSS])
        words += ["--", PYTHON, str(folder / "judge.py"), str(folder), "uroce_" + host.netdev,
                  str(arguments.limit), *extra]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=log, env=env, text=True)
        first = self._process.stdout.readline()
        if not first:
            raise RuntimeError("the suite does not load")
        self.names = json.loads(first)

    def ask(self, name, limit=""):
        self._process.stdin.write("%s %s\n" % (name, limit))
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def ask_all(judge, names, expected, results):
    """One thread of several: takes names until none is left."""
    while True:
        try:
            name = names.popleft()
        except IndexError:
            return
        todo = name in expected and expected[name].outcome == "todo"
        results[name] = judge.ask(name, TODO_LIMIT_S if todo else "")


def run(uroce, hosts, folder, arguments, expected, log):
    """Returns the names of all tests, and the results of those asked for, by name."""
    with contextlib.ExitStack() as stack:
        judges = []
        for host in hosts:
            judges.append(Judge(uroce, host, folder, arguments, log))
            stack.callback(judges[-1].close)
        every = judges[0].names
        names = collections.deque(name for name in every if re.search(arguments.only, name))
        results = {}
        threads = [threading.Thread(target=ask_all, args=(judge, names, expected, results))
                   for judge in judges]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return every, results


def difference(row, result):
    """What is not as expected, or None."""
    outcome, text = result["outcome"], result["text"]
    if row is None:
        return "is not in %s" % EXPECTED.name
    if row.outcome == "todo":
        return "passes now: say so in %s" % EXPECTED.name if outcome == "ok" else None
    words = row.reason.partition(":")[0].split("|")
    if outcome != row.outcome and not (row.reason and outcome == "skip"):
        return "expected %s, but: %s" % (row.outcome, outcome)
    if outcome == "skip" and not any(word in text for word in words):
        return "expected to skip for '%s'" % "' or '".join(words)
    return None


def difference_with_nothing(row, result):
    """The same when no packet arrives: who passes then proves nothing about data."""
    passes = result["outcome"] == "ok"
    skips = row is not None and row.reason and result["outcome"] == "skip"
    if row is None or row.outcome != "ok" or skips or passes == (row.evidence == "calls"):
        return None
    return "passes without a packet: its evidence is calls" if passes else (
        "does not pass without packets: its evidence is data")


def seen(row, result, nothing):
    """The row that says what was seen; reasons stay."""
    outcome = {"ok": "ok", "skip": "skip"}.get(result["outcome"], "todo")
    evidence = row.evidence if row else "-"
    if nothing:
        evidence = evidence if row.outcome != "ok" else (
            "calls" if result["outcome"] == "ok" else "data")
        return row._replace(evidence=evidence)
    if row and row.outcome in (outcome, "todo") and outcome != "ok":
        return row
    if row and row.outcome == "ok" and row.reason and outcome in ("ok", "skip"):
        return row
    if outcome == "ok":
        return Expectation("ok", evidence if evidence != "-" else "data", "")
    return Expectation("todo", "-", (result["text"].strip().splitlines() or ["?"])[-1])


def report(expected, every, results, arguments):
    """Prints what differs. Returns how many."""
    compare = difference_with_nothing if arguments.nothing else difference
    differences = 0
    for name, result in sorted(results.items()):
        fault = compare(expected.get(name), result)
        if fault:
            differences += 1
            print("FAILED   %s %s" % (name, fault))
            print("\n".join("    " + line for line in result["text"].splitlines()))
        elif arguments.verbose:
            print("%-8s %s" % (result["outcome"], name))
        if result["seconds"] > SLOW_S or (arguments.verbose and result["seconds"] > 1):
            print("    (%s took %.1f s)" % (name, result["seconds"]))
    for name in sorted(set(expected) - set(every)):
        differences += 1
        print("FAILED   %s is expected, but not in the suite" % name)
    counts = collections.Counter(result["outcome"] for result in results.values())
    print("pyverbs: %s; %d not as expected" % (
        ", ".join("%d %s" % (count, what) for what, count in counts.most_common()), differences))
    return differences


def main():
    arguments = parse_arguments()
    expected = read_expected()
    with tempfile.TemporaryDirectory(prefix="uroce-pyverbs-") as scratch, \
            places.Namespaces() as namespaces:
        uroce = run_apps.stage(pathlib.Path(arguments.build).resolve(),
                               places.drop_words(), scratch)
        folder = copy_suite(scratch)
        try:
            # One for each judge: the suite's connections are all on one port.
            hosts = [places.PLACES[arguments.place](namespaces).server
                     for _ in range(arguments.jobs)]
        except places.Unavailable as reason:
            print("skipped: %s" % reason)
            return SKIPPED
        with open(pathlib.Path(scratch) / "log", "w+", encoding="utf-8", errors="replace") as log:
            try:
                every, results = run(uroce, hosts, folder, arguments, expected, log)
            except RuntimeError as error:
                log.seek(0)
                print("%s\n%s" % (log.read(), error))
                return 1
    differences = report(expected, every, results, arguments)
    if arguments.write:
        write_expected(expected | {name: seen(expected.get(name), result, arguments.nothing)
                                   for name, result in results.items()})
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
